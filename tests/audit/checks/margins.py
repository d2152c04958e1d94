"""The choice of margins for synthetic tables: every round is paid for as much as it can tell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.synthesis import marginal_choice
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_marginals import TableMarginals
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag

_NAMES, _N, _RHO = ("a", "b", "c"), 6, 8.0
_SLACK = 1 + 1e-9
_EVERY = 3
"""Of all pairs of records, how many are tried: each fault shows in most."""


class _OtherWay(Exception):
    """The second release asks for something else than the first did."""


class _Path:
    """One release under two neighbours: the choices and the noisy counts of the first are told of the second, too."""

    def __init__(self, first: Sequence[Any], second: Sequence[Any], seed: int) -> None:
        facts = Facts(dict.fromkeys(_NAMES, Flag(missing=False)))
        self.mechanism = MarginalChoice(TableMarginals(TableColumns(facts, {})), _N, _RHO)
        self.seed, self.told = seed, list[Any]()
        self.weights: list[list[Any]] = []
        self.counts: list[list[Any]] = []
        self.scales: list[float] = []
        self.paid: list[Fraction] = []
        self.parted = False
        for turn, rows in enumerate((first, second)):
            self._walk(rows, turn)

    def _walk(self, rows: Sequence[Any], turn: int) -> None:
        weights: list[Any] = []
        counts: list[Any] = []
        path, place = self, itertools.count()
        choose, pay, add = marginal_choice.choose, marginal_choice._Rounds.pay, marginal_choice.IntegerNoise.add

        def tell(said: Any) -> Any:
            at = next(place)
            if turn == 0:
                path.told.append(said)
            elif at >= len(path.told) or np.shape(path.told[at]) != np.shape(said):
                raise _OtherWay
            return path.told[at]

        def chosen(logs: Any, source: Any) -> int:
            weights.append([float(item) for item in logs])
            return int(tell(choose(logs, source)))

        def added(noise: Any, values: Any, rng: Any) -> Any:
            counts.append(np.asarray(values))
            path.scales += [noise.scale] if turn == 0 else []
            return tell(add(noise, values, rng))

        def paid(rounds: Any, cost: Fraction) -> None:
            path.paid += [cost] if turn == 0 else []
            pay(rounds, cost)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(marginal_choice, "choose", chosen)
            patch.setattr(marginal_choice.IntegerNoise, "add", added)
            patch.setattr(marginal_choice._Rounds, "pay", paid)
            records = {name: [row[k] for row in rows] for k, name in enumerate(_NAMES)}
            try:
                self.mechanism.release(records, seeded_rng(self.seed))
            except _OtherWay:
                self.parted = True
        self.weights.append(weights)
        self.counts.append(counts)

    @property
    def costs(self) -> list[float]:
        """What each round can tell of which of the two it was, as ρ: windows of choices, moves of counts, in turn."""
        windows = [
            float(np.ptp(np.subtract(_log_law(first), _log_law(second)))) ** 2 / 8
            for first, second in zip(*self.weights, strict=True)
        ]
        moves = [
            float(((first - second) ** 2).sum()) / (2 * scale**2)
            for first, second, scale in zip(*self.counts, self.scales, strict=True)
        ]
        alone = len(moves) - len(windows)
        return [*moves[:alone], *itertools.chain.from_iterable(zip(windows, moves[alone:], strict=True))]


def _log_law(weights: Sequence[float]) -> Any:
    logs = np.asarray(weights)
    return logs - logs.max() - np.log(np.exp(logs - logs.max()).sum())


@check("margins are chosen and told at their price")
def margins() -> tuple[bool, str]:
    """Releases of neighbours, the second told what the first was: what rounds tell, beside what was paid for them."""
    problems, paths, worst = list[str](), 0, 0.0
    others = [(True, False, True), (False, False, True), (True, True, False), (False, True, True), (True, True, True)]
    rows = list(itertools.product((False, True), repeat=3))
    for seed, (one, other) in enumerate([*itertools.combinations(rows, 2)][::_EVERY]):
        path = _Path([one, *others], [other, *others], seed)
        paths += 1
        if path.parted or len(path.counts[0]) != len(path.counts[1]):
            problems.append("told the same, rounds go another way: they saw more than they told")
            continue
        costs = path.costs
        worst = max(worst, *(cost / float(paid) for cost, paid in zip(costs, path.paid, strict=True)))
        for cost, paid in zip(costs, path.paid, strict=True):
            if cost > float(paid) * _SLACK:
                problems.append(f"a round that was paid with ρ = {float(paid):.4g} tells as much as {cost:.4g}")
        if max(total := sum(costs), float(sum(path.paid))) > _RHO * _SLACK:
            problems.append(f"rounds tell ρ = {total:.4g}, for {float(sum(path.paid)):.4g}; {_RHO:g} is claimed")
    return verdict(problems, f"{paths} pairs of neighbours, at most {worst:.3f} of what was paid")
