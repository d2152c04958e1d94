"""Certified chains: the premises of their theorem, watched on the code that runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from sottovoce.audit.checks.fits import ALARM, independence, kolmogorov
from sottovoce.audit.checks.result import check, verdict
from sottovoce.audit.low_bits import lowest_bit
from sottovoce.inference.regression import certificate
from sottovoce.inference.regression.certificate import Chain
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import Placement
from sottovoce.inference.regression.losses import Logistic, SmoothedHinge
from sottovoce.inference.regression.noisy_moments import NoisyMoments
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.inference.regression.refined import RefinedRegression
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.amplification.sgd import NoisyProjectedSGD

__all__ = [
    "certificates",
    "chain_noise",
    "chain_steps",
    "odd_records",
    "quadratic_noise",
    "refined_design",
    "regression_grids",
    "sgd_steps",
]

_N, _M, _RHO = 6, 2.0, 0.5
_FAR = 50.0
"""How far outside the bound the rows of the checks lie: clipping must bring them back."""


_GRID = 2e-4
"""What rounding to the public grid may add to a ratio."""


class _Script:
    """A generator whose normal draws were written beforehand; the rest are zero."""

    def __init__(self, *steps: Any) -> None:
        self._steps = steps

    def standard_normal(self, shape: Any) -> Floats:
        out = np.zeros(shape)
        if out.ndim == 1:  # the last step of SGD is taken apart
            return out + np.ravel(self._steps[_N - 1]) if len(self._steps) >= _N else out
        for k, value in enumerate(self._steps):
            out[k] = value
        return out


def _posterior(n_steps: int, step: float | None = None, draws: int = 1) -> DiffusedRegression:
    design = Design(Logistic(), dimension=2, data_norm=1.0)
    return DiffusedRegression(design, _N, _M, _RHO, draws, n_steps, step)


def _records(last: tuple[float, float], fill: tuple[float, float] = (0.0, 0.0)) -> tuple[Floats, Floats]:
    return np.array([fill] * (_N - 1) + [last]) * _FAR, np.ones(_N)


@check("a chain takes the step it certifies")
def chain_steps() -> tuple[bool, str]:
    """One step moves two neighbours by at most hs, brings two states closer by 1 - hm, and adds √(2h) of noise."""
    problems = []
    one = _posterior(1)
    h = one.chain.step
    # Far out along the first axis both records are misclassified, and their gradients point opposite ways.
    centre = np.array([[1000.0, 0.0]])
    ends = [one.draw(*_records((-0.02, side)), centre, _Script()) for side in (1.0, -1.0)]  # type: ignore[arg-type]
    apart = float(np.linalg.norm(ends[0] - ends[1])) / (h * one.chain.sensitivity)
    if not apart <= 1 + _GRID:
        problems.append(f"one step moves neighbours {apart:.4g} times as far as the sensitivity allows")
    kick = one.draw(*_records((0.0, 0.0)), np.zeros((1, 2)), _Script([[1.0, -2.0]]))  # type: ignore[arg-type]
    if not np.allclose(kick, math.sqrt(2 * h) * np.array([[1.0, -2.0]]), rtol=_GRID):
        problems.append(f"a unit of noise moves the chain by {kick[0, 0]:.6g} and √(2h) is {math.sqrt(2 * h):.6g}")
    factors = []
    longest = certificate.largest_step(_M, one.chain.smoothness)
    for step, fill in ((None, (0.0, 0.0)), (None, (1.0, 0.0)), (longest, (1.0, 0.0))):
        two = _posterior(2, step)
        X, y = _records(fill, fill)
        noises = [[[x, 0.0]] for x in (0.1, -0.1)]
        ends = [two.draw(X, y, np.zeros((1, 2)), _Script(noise)) for noise in noises]  # type: ignore[arg-type]
        factor = abs(float(ends[0][0, 0] - ends[1][0, 0])) / (0.2 * math.sqrt(2 * two.chain.step))
        most = max(1 - two.chain.step * _M, 0.0)
        factors.append(f"{factor:.4f} of {most:.4f}")
        if not factor <= most + _GRID:
            problems.append(f"h = {two.chain.step:.4g}: a step contracts by {factor:.4g} and {most:.4g} is certified")
    return verdict(problems, f"neighbours move {apart:.4f} of hs; two states contract by {', '.join(factors)}")


_ODD = (0.0, 5e-324, -1e-310, 1e-40, 1.0, -1.0, 3.4e38, -3.5e38, 1e155, 1.7e308, -1.7e308, math.nan, math.inf)
"""What may stand in a cell: nothing, the smallest, what single precision cannot hold, the largest, no number."""


@check("odd records move a chain no further than others")
def odd_records() -> tuple[bool, str]:
    """Whatever stands in a record, one step moves two neighbours by at most hs, and the result is a number."""
    one, problems, worst = _posterior(1), [], 0.0
    rows = [(a, b) for a in _ODD for b in (0.0, 1.0, -3.5e38, 1.7e308, math.nan)]
    labels = [math.nan if k % 7 == 0 else (-1.0) ** k for k in range(len(rows))]
    centre = np.array([[40.0, -30.0]])
    for precision in ("float64", "float32"):
        place = Placement(precision=precision)
        ends = []
        for row, label in zip(rows, labels, strict=True):
            X, y = np.vstack([np.zeros((_N - 1, 2)), row]), np.append(np.ones(_N - 1), label)
            ends.append(one.draw(X, y, centre, _Script(), placement=place)[0])  # type: ignore[arg-type]
        spread = np.linalg.norm(np.array(ends)[:, None] - np.array(ends)[None], axis=2)
        share = float(spread.max()) / (one.chain.step * one.chain.sensitivity)
        worst = max(worst, share)
        if not share <= 1 + _GRID:
            problems.append(f"{precision}: a record moves the chain {share:.4g} times as far as hs")
    return verdict(problems, f"{len(rows)} odd records in two precisions, at most {worst:.4f} of hs")


@check("certificates are exact on a quadratic")
def certificates() -> tuple[bool, str]:
    """On a quadratic the last iterate is Gaussian: its mean shift over its deviation is μ, no more and no less."""
    problems, worst = [], 0.0
    for step in (0.01, 0.1, 0.35):
        for steps in (1, 2, 10, 500):
            chain = Chain(_M, 3.0, 0.7, step=step, n_steps=steps)
            shift, variance = 0.0, 0.0
            for _ in range(steps):
                shift = (1 - step * _M) * shift + step * 0.7
                variance = (1 - step * _M) ** 2 * variance + 2 * step
            exact = shift / math.sqrt(variance)
            worst = max(worst, abs(chain.profile.mu / exact - 1))
            if not exact <= chain.profile.mu <= exact * (1 + 1e-9):
                problems.append(f"h = {step}, t = {steps}: μ is {exact:.8g} and {chain.profile.mu:.8g} is certified")
    one, four = _posterior(5).profile.mu, _posterior(5, draws=4).profile.mu
    if four < 2 * one * (1 - 1e-12):
        problems.append(f"four samples are claimed to cost {four:.6g}, and one costs {one:.6g}")
    return verdict(problems, f"twelve chains, off by at most {worst:.1g} of μ, always upwards")


@check("chains carry the noise they certify")
def chain_noise() -> tuple[bool, str]:
    """Without data the last iterates are N(0, 2hΣa^2k), independent in every coordinate and chain."""
    posterior = _posterior(7, draws=8000)
    draws = posterior.release(_records((0.0, 0.0)), seeded_rng(4)).value
    h = posterior.chain.step
    variance = 2 * h * sum((1 - h * _M) ** (2 * k) for k in range(7))
    u = stats.norm.cdf(draws, scale=math.sqrt(variance))
    pairs = ((u[:, 0], u[:, 1]), (u[:-1, 0], u[1:, 0]))
    p = min(*(kolmogorov(column) for column in u.T), *(independence(a, b) for a, b in pairs))
    problems = [] if p >= ALARM else [f"p = {p:.2g} that the iterates have their certified noise"]
    return verdict(problems, f"16,000 coordinates, least p = {p:.2g}")


@check("SGD hides its records as it claims")
def sgd_steps() -> tuple[bool, str]:
    """What a replaced record moves, over the noise of its own step and the later ones, stays below its μ."""
    design = Design(SmoothedHinge(), dimension=2, data_norm=1.0)  # at w = 0 every slope is as steep as can be
    sgd = NoisyProjectedSGD(design, _N, noise=1.5, learning_rate=0.8, regularisation=0.2)

    def last(X: Any, *noise: Any) -> Floats:
        return sgd.run(X, np.ones(_N), _Script(*noise))  # type: ignore[arg-type]

    problems, shares = [], []
    for index in (_N, 2):
        rows = [np.zeros((_N, 2)) for _ in range(2)]
        rows[0][index - 1], rows[1][index - 1] = (_FAR, 0.0), (-_FAR, 0.0)
        push = [[[0.0, 0.0]]] * (index - 1)
        apart = float(np.linalg.norm(last(rows[0]) - last(rows[1])))
        gains = [last(np.zeros((_N, 2)), *([[[0.0, 0.0]]] * k), [[1.0, 0.0]])[0, 0] for k in range(len(push), _N)]
        mu, claim = apart / math.sqrt(math.fsum(g * g for g in gains)), float(sgd.mu_at(index))
        shares.append(mu / claim)
        if not mu <= claim * (1 + _GRID):
            problems.append(f"record {index} of {_N} costs μ = {mu:.4g} and {claim:.4g} is claimed")
    return verdict(problems, f"the last record and an early one cost {shares[0]:.2f} and {shares[1]:.2f} of their μ")


@check("noisy moments cover their sensitivity")
def quadratic_noise() -> tuple[bool, str]:
    """The noise on X'X and X'y is what their joint sensitivity, searched for here, calls for."""
    rng, problems = seeded_rng(8), []
    d = 40
    mechanism = NoisyMoments(Design(Logistic(), dimension=d, data_norm=1.0), 2, 0.5, 0.1)
    largest = mechanism.fit.largest(mechanism.design.loss)
    clipped = mechanism.design.clip(np.array([[_FAR, *[0.0] * (d - 1)]] * 2))
    angle = np.linspace(0, np.pi, 2001)
    # Two rows at an angle, their responses opposite: the square of how far (X'X, α·X'y) moves.
    norm = float(np.linalg.norm(clipped[0]))
    gram = 2 * norm**4 * (1 - np.cos(angle) ** 2)
    moment = 2 * (mechanism.balance * largest * norm) ** 2 * (1 + np.cos(angle))
    moved = math.sqrt(float(np.max(gram + moment)))
    zeros = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    noisy = mechanism.perturbed(*zeros, rng)
    noise, root = moved / mechanism.mu, math.sqrt(2)
    above = noisy.gram[np.triu_indices(d, 1)] / noise * root
    parts = (above, np.append(np.diag(noisy.gram), noisy.moment * mechanism.balance) / noise)
    # Smaller noise than the sensitivity calls for shows as draws too near zero.
    p = min(float(stats.chi2.cdf(float(part @ part), part.size)) for part in parts)
    p = min(p, independence(above[:-1], above[1:]))
    if p < ALARM:
        problems.append(f"p = {p:.2g} that the moments carry noise for a sensitivity of {moved:.4g}")
    return verdict(problems, f"a sensitivity of {moved:.4f} and the noise for it, p = {p:.2g}")


@check("statistics know the norm of their rows")
def refined_design() -> tuple[bool, str]:
    """A refined posterior put together by hand is refused where its parts are for other rows than it hands them."""
    honest = RefinedRegression.calibrate(Design(Logistic(), dimension=2, data_norm=3.0), 1000, GaussianDP(1.0))
    first = honest.statistics
    if first is None:
        return False, "statistics are never taken"
    other = replace(first, system=replace(first.design, data_norm=first.design.data_norm / 2))
    phase = replace(honest.phases[0], n=2000)
    problems = []
    for name, change in (("statistics", {"statistics": other}), ("phases", {"phases": (phase,)})):
        try:
            replace(honest, **change)
            problems.append(f"{name} of another design are taken, at μ = {honest.profile.mu:.3g}")
        except InvalidValue:
            continue
    return verdict(problems, "statistics of shorter rows and phases of more of them are refused")


@check("regressions keep to a public grid")
def regression_grids() -> tuple[bool, str]:
    """Chains, SGD and moments let out multiples of a power of two, about 2⁻¹⁷ of the noise that hides them."""
    X, y = _records((0.3, 0.4), (0.01, 0.02))
    posterior = _posterior(3, draws=200)
    design = posterior.design
    sgd = NoisyProjectedSGD(design, _N, noise=1.5)
    quadratic = NoisyMoments(design, _N, 0.5, 0.1)
    moments = quadratic.perturbed(X.T @ X, X.T @ y, X.sum(axis=0), seeded_rng(3))
    shown = [
        ("a chain", posterior.release((X, y), seeded_rng(1)).value, math.sqrt(2 * posterior.chain.step)),
        ("SGD", sgd.run(X, y, seeded_rng(2), chains=200), sgd.step * sgd.noise),
        ("X'X", moments.gram, moments.noise),
        ("X'y", moments.moment, moments.noise / moments.balance),
    ]
    problems = [
        f"{name} carries bits down to 2^{lowest_bit(values).min():.0f} under noise of {noise:.3g}"
        for name, values, noise in shown
        if lowest_bit(values).min() < math.log2(noise) - 18
    ]
    return verdict(problems, "chains, SGD and moments carry no bit below 2⁻¹⁷ of their noise")
