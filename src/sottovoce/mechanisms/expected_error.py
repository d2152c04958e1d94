"""How far from the truth a release will be, at means that the records may well have; and what to beware of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.promises import ApproxDP, GaussianDP, Promise, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.shares import percent

_MANY = 10**9
"""So many records leave the prior no say: the posterior's mean is the truth."""
_PULL = 0.5
_FAR = 10.0
"""An ε from which a promise says next to nothing."""


@dataclass(frozen=True)
class Expected:
    """What is to be expected of a release, over some means.

    Attributes
    ----------
    error
        The root of the mean squared distance of what is released from the truth: noise, prior and sampling together.
    pull
        How far answers are drawn from the truth to what was believed before, at most: 0 not at all, 1 all the way.
    """

    error: float
    pull: float


def expected(mechanism: Mechanism, means: list[object]) -> Expected | None:
    """Return what to expect of a mechanism, averaged over means; None where nothing is known in closed form.

    >>> from sottovoce.mechanisms import DirectPosterior
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> told = expected(DirectPosterior(BetaBernoulli(1, 1), 98), [0.5])
    >>> round(told.error, 3), told.pull
    (0.05, 0.0)
    """
    squares, pulls = [], [0.0]
    for mean in means:
        shown = mechanism.told(mean)
        if shown is None:
            return None
        system: object = mechanism.system
        truth, before = (np.atleast_1d(_centre(system, n, mean)) for n in (_MANY, 0))
        centre, variance = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in shown)
        squares.append(float(np.mean((centre - truth) ** 2 + variance)))
        apart = np.abs(before - truth)
        if np.max(apart) > 1e-6 * (1 + np.max(np.abs(truth))):
            pulls.append(float(np.max(np.abs(centre - truth)) / np.max(apart)))
    return Expected(math.sqrt(float(np.mean(squares))), round(max(pulls), 9))


def _centre(system: Any, n: int, mean: Any) -> Any:
    try:
        return system.posterior(system.reading.imagined(n, mean)).mean
    except (ArithmeticError, ValueError):
        return math.nan


def cautions(
    target: Promise, n: int, told: Expected | None = None, forecast: Forecast | None = None
) -> tuple[str, ...]:
    """Return what to beware of in a promise, or in a mechanism that keeps it; nothing, where all is well.

    >>> cautions(ApproxDP(12.0, 0.01), 50)[0]
    'ε = 12 lets an event become e^12 = 1.6e+05 times likelier: that protects nobody'
    """
    result = []
    match target:
        case PureDP(epsilon) | ApproxDP(epsilon, _) | RenyiDP(_, epsilon) if epsilon > _FAR:
            factor = f"e^{epsilon:g} = {math.exp(min(epsilon, 700)):.2g}"
            result.append(f"ε = {epsilon:g} lets an event become {factor} times likelier: that protects nobody")
        case GaussianDP(number) | ZeroConcentratedDP(number) if number > _FAR / 2:
            result.append(f"{target} leaves hardly any doubt about a record: that protects nobody")
    if isinstance(target, ApproxDP) and n and target.delta > 1 / n:
        result.append(loose_delta(target.delta, n))
    if told is not None and told.pull > _PULL:
        way = f"{percent(told.pull, whole=True)} of the way to" if told.pull < 1 else "at, or beyond,"
        result.append(f"the prior outweighs the data: answers lie {way} what was believed before")
    if forecast is not None and forecast.interval_width < forecast.exact_width * (1 - 1e-3):
        result.append("narrower than the truth allows: its interval is shorter than without privacy, around the prior")
    return tuple(result)


def loose_delta(delta: float, n: int) -> str:
    """Return what is wrong with a δ of more than one in n."""
    return f"δ = {delta:g} is more than one in n = {n:,}: to publish a random record in full would keep it"
