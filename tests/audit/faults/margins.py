"""Faults of the choice of margins for synthetic tables, one for each sensitivity."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from audit.faults import Patch, fault
from sottovoce.inference.synthesis import marginal_choice
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice

PRICE = "margins are chosen and told at their price"


@fault("a margin paid as if one count moved", "margins of synthetic tables", PRICE)
def _one_count(patch: Patch) -> None:
    patch.setattr(marginal_choice, "_COUNT_SQUARES", 1)


@fault("a score said to move by one", "choice of margins", PRICE)
def _score(patch: Patch) -> None:
    patch.setattr(marginal_choice, "_SCORE_MOVES", 1)


@fault("a choice charged for half its window", "choice of margins", PRICE)
def _window(patch: Patch) -> None:
    patch.setattr(marginal_choice, "_choice_cost", lambda window: Fraction(window) ** 2 / 32)


@fault("the picture fitted to true counts", "choice of margins", PRICE)
def _true_counts(patch: Patch) -> None:
    honest = marginal_choice._Rounds.measure

    def measure(self: Any, clique: tuple[str, ...]) -> None:
        honest(self, clique)
        self.counts[-1] = np.asarray(self.tables[clique]) * 50

    patch.setattr(marginal_choice._Rounds, "measure", measure)


@fault("scores weighed by how many records a cell has", "choice of margins", PRICE)
def _weighed(patch: Patch) -> None:
    honest = MarginalChoice.scores

    def scores(self: Any, tables: Any, expected: Any, cliques: Any, sigma: float) -> list[int]:
        found = honest(self, tables, expected, cliques, sigma)
        return [score * int(np.max(tables[clique])) for score, clique in zip(found, cliques, strict=True)]

    patch.setattr(MarginalChoice, "scores", scores)


@fault("a quarter of what rounds cost counted", "account of margins", PRICE)
def _quarter(patch: Patch) -> None:
    honest = marginal_choice._Rounds.pay

    def pay(self: Any, cost: Fraction) -> None:
        honest(self, cost / 4)

    patch.setattr(marginal_choice._Rounds, "pay", pay)
