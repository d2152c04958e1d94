"""Faults of answers by group."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from audit.faults import Patch, fault

CELLS = "cells of an answer move no more than is claimed"
OUTSIDE = "a record of no group adds nothing to any group"
SENTENCES = "what a card says of its budget is true of Gaussian noise"


@fault("squares of a measure left out of the sensitivity", "noisy cells", CELLS)
def _no_squares(patch: Patch) -> None:
    from sottovoce.inference.cells import cell_noise

    honest = cell_noise._moves

    def moves(reading, noise, power, relation):
        return honest(replace(reading, squared=False), noise, power, relation)

    patch.setattr(cell_noise, "_moves", moves)


@fault("a record that changes its end of the bounds moves one half", "noisy cells", CELLS)
def _half_turn(patch: Patch) -> None:
    from sottovoce.inference.cells import cell_noise

    patch.setattr(cell_noise, "_turned", lambda b, c, power: b**power)


@fault("a missing number counts as the middle of its bounds", "noisy cells", OUTSIDE)
def _filled(patch: Patch) -> None:
    from sottovoce.records.readings import group_moments

    honest = group_moments.as_numbers

    def numbers(values, what="records"):
        found = honest(values, what)
        return np.where(np.isnan(found), 5.0, found)

    patch.setattr(group_moments, "as_numbers", numbers)


@fault("δ said to bound how often the loss exceeds ε", "privacy card", SENTENCES)
def _exceptions(patch: Patch) -> None:
    from sottovoce.service.answers import card

    honest = card.texts

    def texts(language):
        words = copy.deepcopy(honest(language))
        words["card"]["notions"]["approx"] = (
            "no answer becomes more than {factor} times as likely, but for exceptions with a chance of at most {rare}."
        )
        return words

    patch.setattr(card, "texts", texts)
