"""Checks of the looks that predict and of searches over them: how far a record moves a sum, what tries cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from sottovoce.audit.checks.fits import ALARM
from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.regression import random_stopping as counts
from sottovoce.inference.regression.best_of import BestRegression
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.filtered import FilteredRegression
from sottovoce.inference.regression.losses import Logistic, Squared
from sottovoce.inference.regression.softmax import Softmax
from sottovoce.inference.regression.sums import Sum, ask
from sottovoce.mechanisms.exact_normals import noise_cells
from sottovoce.privacy.best_of import TRIES, BestOfProfile, RandomStopping
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.readings import Rows

__all__ = ["looks_move_by_one", "looks_noise", "search_parts", "tries_cost"]

_D, _N = 3, 40
_MADE = 120
"""Records of which every two are tried as each other's replacement."""


def _mechanisms() -> list[FilteredRegression]:
    losses = (Logistic(), Softmax(4), Squared(1.0))
    designs = [Design(loss, _D, 1.0, radius=3.0 if isinstance(loss, Squared) else math.inf) for loss in losses]
    plain = [FilteredRegression(design, _N, 2.0, looks=3, unbiased=1) for design in designs]
    shaped = [
        FilteredRegression(designs[0], _N, 2.0, looks=3, shape_room=1.2, unbiased=1),
        FilteredRegression(designs[0], _N, 2.0, looks=6, shape_room=1.2, full=True),
    ]
    return [*plain, *shaped]


def _contributions(question: Sum, made: Rows) -> Floats:
    """Return what each record adds to a sum, by asking for it alone."""
    one = [question.moved(Rows(1, made.X[k : k + 1], made.y[k : k + 1])) for k in range(made.n)]
    return np.array(one)


def _made(design: Design, rng: np.random.Generator) -> Rows:
    """Return records of every length and direction, many of them at the bounds."""
    X = rng.standard_normal((_MADE, _D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X *= rng.choice([1.0, 1.0, 0.95, 0.8, 0.5, 0.0], (_MADE, 1))
    low, high = design.loss.labels
    y = np.asarray(rng.integers(0, round(high - low) + 1, _MADE) + low, dtype=np.float64)
    return Rows(_MADE, X, (y > 0).astype(np.float64) if design.loss.binary else y)


@check("no record moves a look by more than one")
def looks_move_by_one() -> tuple[bool, str]:
    """Each sum that a filtered regression asks, wherever its answers led, moves by at most 1 for one record of many."""
    rng, problems, most = seeded_rng(18), [], 0.0
    for mechanism in _mechanisms():
        made, steps = _made(mechanism.design, rng), mechanism.steps()
        question, place = next(steps), 0
        while True:
            parts = _contributions(question, made)
            squares = np.sum(parts * parts, axis=1)
            apart = math.sqrt(float(np.max(squares[:, None] + squares[None, :] - 2 * parts @ parts.T)))
            most = max(most, apart)
            if not apart <= 1 + 1e-9:
                problems.append(f"sum {place} of a {mechanism.design.loss.name} moves by 1 + {apart - 1:.2g}")
                break
            # Answers that lead away from 0, where residuals are long.
            answer = parts[rng.integers(_MADE, size=_N)].sum(axis=0) + 3 * rng.standard_normal(parts.shape[1])
            try:
                question, place = steps.send(answer), place + 1
            except StopIteration:
                break
        if problems:
            break
    return verdict(problems, f"the farthest of all pairs of {_MADE} records moves a sum by {most:.4f}")


@check("looks carry the noise they are charged for")
def looks_noise() -> tuple[bool, str]:
    """Noise lies in public cells, its standard deviation is reach/μ, and all μ² add up to what is charged."""
    mechanism, problems = FilteredRegression(Design(Logistic(), 60, 1.0), 4, 0.7, looks=5), []
    zeros = Rows(4, np.zeros((4, 60)), np.zeros(4))
    heard: list[Floats] = []
    asked: list[Sum] = []

    def listening() -> Any:
        steps = mechanism.steps()
        question = next(steps)
        while True:
            asked.append(question)
            answer = yield question
            try:
                question = steps.send(answer)
            except StopIteration as end:
                return end.value

    ask(listening(), zeros, secure_rng(), heard)
    told = [answer * one.reach - one.of(zeros) for one, answer in zip(asked, heard, strict=True)]
    for one, steps in zip(asked, told, strict=True):
        widths = np.array([2.0 ** noise_cells(reach / one.mu).exponent for reach in one.reach])
        if np.abs(steps / widths % 1 - 0.5).max() > 1e-3:
            problems.append("noise falls beside the middles of its cells")
            break
    noises = np.concatenate([steps * one.mu / one.reach for one, steps in zip(asked, told, strict=True)])
    left = float(stats.chi2.cdf(float(noises @ noises), noises.size))
    if left < ALARM:
        problems.append(f"p = {left:.2g} that the answers carry their noise")
    spent = math.sqrt(math.fsum(one.mu**2 for one in asked))
    if not spent <= mechanism.profile.mu <= spent * (1 + 1e-6):
        problems.append(f"the looks cost μ = {spent:.4g} and {mechanism.profile.mu:.4g} is charged")
    return verdict(problems, f"{noises.size} numbers in {len(asked)} sums, μ = {spent:.4f} in all, p = {left:.2g}")


class _Ones:
    """Bits that are so many ones, and zeros from there on, over and over for each that asks."""

    def __init__(self, ones: int) -> None:
        self._left = ones

    def bytes(self, length: int) -> bytes:
        ones, self._left = min(self._left, 8 * length), max(self._left - 8 * length, 0)
        return ((1 << 8 * length) - (1 << 8 * length - ones)).to_bytes(length, "big")

    def random(self) -> float:
        """Return the double that a generator would make of them."""
        return int.from_bytes(self.bytes(8), "big") / 2.0**64


@check("the best of several tries costs what is charged")
def tries_cost() -> tuple[bool, str]:
    """Randomized response, tried K times and the best kept: the exact loss, summed over K, is within the profile."""
    problems, shares = [], []
    for law in TRIES:
        for mean in (1.0, 2.0, 10.0):
            tries, epsilon = RandomStopping(mean, law), 0.5
            one = np.array([1.0, math.exp(epsilon)]) / (1 + math.exp(epsilon))
            k = np.arange(1.0, 4001.0)
            weight = tries.probability(k)
            if abs(float(weight @ k) - mean) > 1e-6 * mean or abs(float(weight.sum()) - 1) > 1e-9:
                problems.append(f"{law}: the mean number of tries is {float(weight @ k):.4g}, not {mean:g}")
                continue
            # The better of the two answers is the second: it comes out unless all tries gave the first.
            first, other = (float(weight @ p**k) for p in (one[0], one[1]))
            losses = [abs(math.log(first / other)), abs(math.log((1 - first) / (1 - other)))]
            profile = BestOfProfile(PureProfile(epsilon), tries)
            exact, order = max(losses), 3.0
            tilted = first**order * other ** (1 - order) + (1 - first) ** order * (1 - other) ** (1 - order)
            renyi = math.log(tilted) / (order - 1)
            shares.append(exact / profile.pure())
            if not exact <= profile.pure() * (1 + 1e-9) or not renyi <= profile.renyi(order) * (1 + 1e-9):
                problems.append(f"{law}, mean {mean:g}: the loss is {exact:.4g} and {profile.pure():.4g} is charged")
    # A geometric number of mean 2 is how many leading ones U has, and one more; doubles end after 53 of them.
    for ones in (0, 3, 60, 300):
        found = counts.drawn(RandomStopping(2.0, "geometric"), _Ones(ones))
        if found != ones + 1:
            problems.append(f"{found} tries where {ones + 1} are due, which happens once in 2^{ones + 1}")
    return verdict(problems, f"losses up to {max(shares, default=0.0):.2f} of what is charged")


@check("a try is scored on records that it left out")
def search_parts() -> tuple[bool, str]:
    """No record meets both the regression and its score, none scores beyond 0 and 1, and the sum carries its noise."""
    problems: list[str] = []
    fitted: list[int] = []

    class Steep(FilteredRegression):
        def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Any:
            del rng, draws
            fitted.append(len(np.unique(seen.X[:, 0])))
            return np.array([[1e300, 0.0]])

    design = Design(Logistic(), 2, 1.0)
    search = BestRegression(design, 50, (Steep(design, 40, 1.0, looks=1),), 1.0 + 1e-6, RandomStopping(3.0))
    place, right = np.arange(1, 51) / 100, np.ones(50)
    rows = Rows(50, np.stack([place, np.zeros(50)], axis=1), right)
    found = np.array([one.score * 10 for one in search._tries(rows, seeded_rng(1), 60)])
    if any(count != 40 for count in fitted):
        problems.append("a try is fitted to records that score it")
    # All of the ten that are left out are foretold: each scores 1, and the sum has noise for one record.
    noise = found - 10
    left = min(float(stats.chi2.cdf(float(noise @ noise), 60)), float(stats.chi2.sf(float(noise @ noise), 60)))
    if left < ALARM:
        problems.append(f"p = {left:.2g} that ten records score 1 each, under noise for one of them")
    return verdict(problems, f"40 records fit and 10 score, p = {left:.2g}")
