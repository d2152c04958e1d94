r"""How near the law of a certified chain is to the posterior it stands for, proven by public numbers alone.

The chain is w ← w − h∇U(w) + √(2h)·ξ from the prior's mean, t steps, with U m-strongly convex and M-smooth in d
dimensions and the data's part of ∇U no longer than L. Then, for every data set,

.. math:: W_2 \le (1-hm)^t \sqrt{\frac{L^2}{m^2} + V} + \sqrt{\frac{hG^2}{2m}} + \frac{a}{2\sqrt m}, \qquad
          V = \frac{2d}{m(2-hm)}, \quad G^2 = \min\Big(\frac{2dM}{2-hM},\; (L + m\sqrt V)^2\Big)

to which rounding adds a little. The last term is for a loss that is a smooth stand-in of another one with a kink, such
as the hinge: the two potentials lie within a of each other. `docs/theory/how-near-a-chain-is.md` proves it. Privacy
needs none of this: the certificate holds for the chain as it is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sottovoce.inference.regression.certificate import Chain, largest_step
from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.losses import SmoothedHinge
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.inference.regression.rounding import ball_of
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import real, whole
from sottovoce.privacy.promises import Promise

_Make = Callable[[float, float], DiffusedRegression]
"""A chain by how near it must be, and ρ."""

_COUNTABLE = 2**53

_FARTHEST = 100.0
"""A distance beside the prior's own length that tells nothing."""
_CELL = 2.0**-16
"""A release is rounded to cells no wider than this, beside the noise of the last step."""


def chain_distance(chain: Chain, dimension: int, pull: float, *, gap: float = 0.0, radius: float = math.inf) -> float:
    """Return a bound on W₂ between the last iterate of a chain and e^{−U}.

    Parameters
    ----------
    chain
        m, M, h, t and what is rounded off.
    dimension, pull
        d, and L: the longest gradient that all the records can have together, ρnBc.
    gap
        a: U lies below the potential it stands for, by at most this.
    radius
        The ball that keeps runs within the range of numbers; no part of the model. What leaves it counts here.

    Examples
    --------
    A quadratic potential is off by less, as it must: its chain has the variance 2/(2 − hm) of the true one.

    >>> chain = Chain(1.0, 1.0, 0.0, step=0.01, n_steps=10_000)
    >>> round(chain_distance(chain, 1, 0.0), 3), round(math.sqrt(2 / 1.99) - 1, 4)
    (0.071, 0.0025)
    """
    m, M, h = chain.convexity, chain.smoothness, chain.step
    d, L, a = whole("dimension", dimension, 1), real("pull", pull), real("gap", gap)
    if not h * M < 2:
        return math.inf
    variance = 2 * d / (m * (2 - h * m))
    slope = min(math.sqrt(2 * d * M / (2 - h * M)), L + m * math.sqrt(variance))
    shrink = h * m
    late = math.exp(chain.n_steps * math.log1p(-shrink)) if shrink < 1 else 0.0
    written = late * math.hypot(L / m, math.sqrt(variance)) + slope * math.sqrt(h / (2 * m)) + a / (2 * math.sqrt(m))
    cells = _CELL * math.sqrt(2 * h * d)
    return (written + chain.rounding / shrink + cells + _outside(variance / d, d, L / m, radius) / shrink) * (1 + 1e-12)


def _outside(variance: float, dimension: int, drift: float, radius: float) -> float:
    """Return how far, in L2, a run that is kept within a ball may lie from one that is not, a step."""
    sd = math.sqrt(variance)
    room = (radius - drift) / sd - math.sqrt(dimension)
    return sd * math.sqrt(2) * math.exp(-(room**2) / 4) if room > 0 else math.inf


def distance(mechanism: DiffusedRegression) -> float:
    """Return a bound on W₂ between a released sample and the exact posterior; infinite where none is proven.

    For a `SmoothedHinge` it is the posterior of the hinge. A design with a ball of its own has another posterior, on
    whose sphere a chain piles up mass: nothing is proven there.
    """
    design, rho = mechanism.design, mechanism.data_weight
    if math.isfinite(design.radius) or mechanism.precision != "float64":
        return math.inf
    pull = rho * mechanism.n * design.constants.lipschitz * design.data_norm
    gap = rho * mechanism.n * design.loss.gap
    ball = ball_of(design, mechanism.prior_precision)
    return chain_distance(mechanism.chain, design.dimension, pull, gap=gap, radius=ball)


def near_posterior(
    design: Design,
    n: int,
    target: Promise,
    *,
    prior_precision: float,
    within: float = 0.1,
    most_steps: int = 10**7,
) -> DiffusedRegression:
    r"""Return the diffused posterior with the largest ρ ≤ 1, its chain so long and fine that it is provably near.

    Parameters
    ----------
    design
        Any loss that needs no ball. Of a `SmoothedHinge` the smoothing is chosen here and the posterior meant is the
        hinge's own, kink and all.
    n, target, prior_precision
        As in `DiffusedRegression.calibrate`.
    within
        W₂ ≤ within·√(d/m): beside the prior's own length.
    most_steps
        Refused where it would take more; the steps grow like (ρnc)²/m, hence like (nμ)², and like 1/within².

    Examples
    --------
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> svm = Design(SmoothedHinge(), dimension=2, data_norm=1.0)
    >>> sampler = near_posterior(svm, 100, GaussianDP(0.2), prior_precision=1.0, within=0.2)
    >>> sampler.n_steps, bool(distance(sampler) <= 0.2 * math.sqrt(2))
    (12119, True)
    """
    check_design(design)
    m, share = real("prior_precision", prior_precision, above=0.0), real("within", within, above=0.0)
    n, most_steps = whole("n", n, 1), whole("most_steps", most_steps, 1)
    if math.isfinite(design.radius):
        raise InvalidValue("no distance is proven for chains on a ball; use a loss that needs none, without radius")
    make = partial(_near, design, n, m)
    built = _largest(make, share, target)
    if built is None or (why := _too_much(built, share, most_steps)):
        why = why if built is not None else "takes more steps than can be counted"
        raise PromiseUnreachable(f"within={share:g} {why}. {_in_reach(make, share, target, most_steps)}")
    return built


def _largest(make: _Make, within: float, target: Promise) -> DiffusedRegression | None:
    """Return the chain of the largest ρ that keeps a promise; None where even the smallest takes too many steps."""
    if make(within, 1e-15).chain.n_steps >= _COUNTABLE:
        return None
    try:
        return make(within, largest_keeping(lambda rho: make(within, rho).profile, target, high=1.0, name="rho"))
    except PromiseUnreachable:
        return None


def _too_much(made: DiffusedRegression, within: float, most: int) -> str:
    """Return why a chain will not do; nothing, where it will."""
    if made.chain.n_steps > most:
        return f"takes {made.chain.n_steps:.2g} steps, and most_steps is {most:.2g}"
    near = distance(made) <= within * math.sqrt(made.design.dimension / made.prior_precision)
    return "" if near else "is too near for doubles: rounding alone takes more"


def _in_reach(make: _Make, within: float, target: Promise, most: int) -> str:
    """Return what would do instead: the least `within`, and the largest ε for the one that was asked for."""

    def farther(share: float) -> bool:
        built = _largest(make, share, target)
        return built is not None and not _too_much(built, share, most)

    def weaker(rho: float) -> bool:
        return not _too_much(make(within, rho), within, most)

    result, delta = [], getattr(target, "delta", 1e-6)
    if farther(_FARTHEST):
        result.append(f"within={_two_digits(_edge(farther, within, _FARTHEST), math.ceil)}")
    if weaker(1e-15):
        epsilon = float(make(within, _edge(weaker, 1.0, 1e-15)).profile.epsilon(delta))
        result.append(f"within={within:g} for ε = {_two_digits(epsilon, math.floor)} at δ = {delta:g}")
    return f"In reach: {', or '.join(result)}" if result else "Ask for less, or with a stronger prior"


def _edge(holds: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return a number at which something holds that does not a hundredth nearer to one at which it does not."""
    while abs(math.log(outside / inside)) > 0.01:
        middle = math.sqrt(outside * inside)
        outside, inside = (outside, middle) if holds(middle) else (middle, inside)
    return inside


def _two_digits(value: float, rounded: Callable[[float], int]) -> str:
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{rounded(value / digit) * digit:.2g}"


def _near(design: Design, n: int, m: float, within: float, rho: float) -> DiffusedRegression:
    """Return the chain: a fifth of what is allowed for the smoothing, seven tenths for the step, the rest for t."""
    d = design.dimension
    allowed = within * math.sqrt(d / m)
    if isinstance(design.loss, SmoothedHinge):
        smoothing = 2 * (2 * math.sqrt(m) * allowed / 5) / (rho * n)
        design = replace(design, loss=SmoothedHinge(min(smoothing, 1e100)))
    M = design.smoothness(n, rho, m)
    pull = rho * n * design.constants.lipschitz * design.data_norm
    slope = min(math.sqrt(2 * d * M), pull + math.sqrt(2 * d * m))  # for hM ≤ 1
    step = min(largest_step(m, M) / 2, 2 * m * (0.7 * allowed / slope) ** 2)
    start = math.hypot(pull / m, math.sqrt(2 * d / m))
    steps = 1 + math.ceil(max(0.0, math.log(start / (0.05 * allowed)) / -math.log1p(-min(step * m, 0.9))))
    steps = min(steps, _COUNTABLE)  # such a chain is refused in the end; a smaller ρ may need a shorter one
    return DiffusedRegression(design, n, m, rho, n_steps=steps, step=step)
