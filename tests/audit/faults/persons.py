"""Faults of persons with many rows: rows by where they are stored, k forgotten, a person taken for rows."""

from __future__ import annotations

import numpy as np

from audit.faults import Patch, fault
from sottovoce.records.readings import Sensitivity, person_cells, person_look, persons
from sottovoce.records.readings.person_cells import PersonPlaces

MOVES, CHOICE = "a person moves an answer no farther than is claimed", "rows of a person are chosen by what they hold"


@fault("the first rows of a person as they are stored", "rows of a person", CHOICE)
def _stored(patch: Patch) -> None:
    def chosen(person, cell, names, rows, key):
        del cell, names, key
        taken = np.zeros(len(person), dtype=bool)
        for one in np.unique(person):
            taken[np.flatnonzero(person == one)[:rows]] = True
        return taken

    patch.setattr(person_cells, "chosen", chosen)


@fault("k rows a person at the price of one", "rows of a person", MOVES)
def _k_forgotten(patch: Patch) -> None:
    fine = {"person cells": 2**20}

    def movement(self, n):
        one = fine.get(self.word, 1)
        sides = 1 if n is None else 2
        return Sensitivity(1.0, 0, 0, float(sides * one * one), float(sides * one))

    patch.setattr(PersonPlaces, "movement", movement)


@fault("the column of persons ignored", "persons", MOVES)
def _rows_for_persons(patch: Patch) -> None:
    def whose(identifiers):
        return np.arange(len(identifiers)), [str(k) for k in range(len(identifiers))]

    patch.setattr(persons, "whose", whose)


@fault("scores of a person added up, not averaged", "looks at persons", MOVES)
def _added(patch: Patch) -> None:
    patch.setattr(person_look, "averages", lambda sums, rows: sums)
