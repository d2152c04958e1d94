r"""Amplification by iteration: what later noisy steps hide of an earlier difference.

Two runs go through the same steps x ← Π(ψ_t(x) + s_t·ξ), ψ_t L_t-Lipschitz. They start at most `start` apart
(in W∞), and step t pushes them at most b_t further apart before its noise. Let a part a_t of their distance be
blurred by the noise of step t, so that the distance left obeys z ← L_t·z + b_t − a_t ≥ 0 and is zero at the end. Then
the last iterate is μ-Gaussian private with μ² = Σ(a_t/s_t)² (Bok, Su and Altschuler 2024, shifted interpolation).

The best a_t is a taut string. Measure everything at the end: with c_t = Π_{k>t} L_k, let V be the running sum of
(c_t·s_t)² and B that of c_t·b_t. Blurring means walking from (0, 0) to the last point (V, B) without rising above
the points (V_t, B_t); the cost of a path is ∫(slope)² dV, so the best path is the greatest convex minorant of the
points.
"""

from __future__ import annotations

import math
import sys
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, as_floats, real, whole
from sottovoce.privacy.profile import Basis

_ROUND_UP = 1 + 1e-13
"""Claims are rounded towards less privacy by more than the arithmetic here can be off."""

_LEAST = 1e-150
"""What a difference is still counted for where its share underflows."""
_TINY = sys.float_info.min
_WORTH = 1e-290
"""Squares of noise below this, in units of the last one's, have lost digits or will."""


def shift_mu(shift: float, lipschitz: float, noise: float, later: ArrayLike) -> Floats:
    r"""Return μ of one shift b at a step with noise s, followed by J = `later` L-Lipschitz steps with the same noise.

    .. math:: \mu^2 = (b/s)^2\,\frac{L^{2J}(1-L^2)}{1-L^{2(J+1)}}, \qquad (b/s)^2/(J+1) \text{ at } L = 1

    It is exact when the steps are linear and nothing random came before. L > 1 is allowed, and amplifies too.

    >>> shift_mu(1.0, 1.0, 1.0, [0, 3]).round(6).tolist()
    [1.0, 0.5]
    """
    size = _ratio(shift, noise)
    L = real("lipschitz", lipschitz)
    count = as_floats("later", later, 0.0) + 1
    # Σ_{j≤J} L^{−2j} through logarithms, which keep their digits near L = 1.
    if L == 0:
        return np.where(count > 1, 0.0, size * _ROUND_UP)
    rate = -2 * math.log(L)
    if rate == 0:
        return np.asarray(size / np.sqrt(count) * _ROUND_UP)
    if rate > 0:  # as if e^{−rate} were the ratio, for e^{rate} may be beyond a double
        share = np.exp(-rate * (count - 1) / 2) * np.sqrt(math.expm1(-rate) / np.expm1(-rate * count))
    else:
        share = np.sqrt(math.expm1(rate) / np.expm1(rate * count))
    return np.asarray(_never_nothing(size, share) * _ROUND_UP)


def iteration_mu(shift: float, lipschitz: ArrayLike, noise: ArrayLike, *, start: float = 0.0) -> float:
    r"""Return μ of a difference followed by steps with constants of their own, in closed form.

    `noise` s_0…s_J are the noises of the shifted step and those after it, `lipschitz` L_1…L_J the constants of those
    after it. With P_j = L_1⋯L_j the best shares of the distance are a_j ∝ s_j²/P_j, and

    .. math:: \mu^2 = \frac{b^2}{\sum_j (s_j/P_j)^2}

    Give `start` instead of `shift` for two runs that begin that far apart (W∞) with no noise of their own: then
    `noise` and `lipschitz` are both those of the steps that follow.

    >>> round(iteration_mu(1.0, [0.5], [1.0, 1.0])**2, 12), round(iteration_mu(0.0, [0.5], [1.0], start=1.0), 12)
    (0.2, 0.5)
    """
    scales, constants = _noises(noise), np.atleast_1d(as_floats("lipschitz", lipschitz, 0.0))
    if (shift > 0) == (start > 0):
        raise InvalidValue(f"give either shift or start, and > 0. Got shift={shift} and start={start}")
    size = real("shift", shift) + real("start", start)
    if shift > 0:
        constants = np.concatenate([[1.0], constants])
    if constants.shape != scales.shape:
        raise InvalidValue(
            "every step needs one Lipschitz constant and one noise, and the shifted step a noise only. "
            f"Got {np.size(lipschitz)} constants and {scales.size} noises"
        )
    if constants.min() == 0:
        return 0.0  # a constant map forgets everything
    # In logarithms: the products of many constants overflow.
    logs = 2 * (np.log(scales) - np.cumsum(np.log(constants)))
    return float(_never_nothing(size, np.exp(-special.logsumexp(logs) / 2))) * _ROUND_UP


def path_mu(shifts: ArrayLike, lipschitz: ArrayLike, noise: ArrayLike, *, start: float = 0.0) -> float:
    r"""Return the least μ that shifted interpolation proves for any sequence of shifts, one entry a step.

    The quadratic program is solved exactly, as a convex minorant in linear time.

    >>> round(path_mu([1.0, 0.0, 0.0, 0.0], 1.0, 1.0), 9)
    0.5
    """
    b = np.atleast_1d(as_floats("shifts", shifts, 0.0))
    L = np.broadcast_to(as_floats("lipschitz", lipschitz, 0.0), b.shape)
    s = np.broadcast_to(_noises(noise), b.shape)
    first = np.asarray([real("start", start)])
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        # In units of the last noise, whose square is then 1 however small a number it was.
        b, s, first = _at_least(b, b / s[-1]), s / s[-1], _at_least(first, first / s[-1])
        # What a distance at step t has become at the end: no less than that for shifts, and no more for noise.
        most, least = (np.array([*accumulate(L[:0:-1].tolist(), times, initial=1.0)])[::-1] for times in (_up, _down))
        rises, widths = _at_least(np.minimum(most, b), most * b), (least * np.where(s < _TINY, 0.0, s)) ** 2
        rises[0] += _up(float(first[0]), _up(float(most[0]), float(L[0])))
    if not (np.all(np.isfinite(rises)) and np.all(np.isfinite(widths))):
        raise InvalidValue("these steps drive two runs apart without bound; nothing can be said of so many of them")
    # Blocks of equal slope, merged while the slopes fall: sums only, so that no digits are lost.
    blocks: list[tuple[float, float]] = []
    carried = 0.0
    for rise, width in zip(rises.tolist(), widths.tolist(), strict=True):
        if width < _WORTH:
            carried += rise  # noise that is worth nothing at the end: a later step must hide the shift
            continue
        block, carried = (rise + carried, width), 0.0
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            last = blocks.pop()
            block = (last[0] + block[0], last[1] + block[1])
        blocks.append(block)
    mu = math.hypot(*(rise / math.sqrt(width) for rise, width in blocks))
    return max(mu, _TINY if rises.max() > 0 else 0.0) * _ROUND_UP


def _up(one: float, other: float) -> float:
    """Return a product that is 0 only where a factor is."""
    return max(one * other, _TINY) if one and other else 0.0


def _down(one: float, other: float) -> float:
    """Return a product that is 0 where it would have lost digits."""
    result = one * other
    return result if result >= _TINY else 0.0


def _at_least(given: Floats, found: Floats) -> Floats:
    """Return what was found of numbers given, rounded up where it left the range of doubles."""
    return np.where(given > 0, np.maximum(found, _TINY), 0.0)


def path_of_equal_shifts(lipschitz: float, steps: int) -> float:
    r"""Return μ of a shift as large as the noise at each of so many steps, √((1-Lᵗ)(1+L)/((1+Lᵗ)(1-L))), √t at L = 1.

    >>> round(path_of_equal_shifts(0.9, 5), 9) == round(path_mu([1.0] * 5, 0.9, 1.0), 9), path_of_equal_shifts(1.0, 4)
    (True, 2.0)
    """
    L, t = _contraction(lipschitz), whole("steps", steps, 1)
    if L in (0.0, 1.0):
        return 1.0 if L == 0 else math.sqrt(t)
    half = -math.log(L) / 2
    return math.sqrt(min(math.tanh(t * half) / math.tanh(half), t))


def cyclic_mu(shift: float, lipschitz: float, noise: float, *, period: int, epochs: int, later: ArrayLike) -> Floats:
    r"""Return μ of a shift b that comes back every `period` steps, `epochs` times, and J = `later` steps after that.

    With q = L^{n(E−1)} and J = 0, the last record of n in E epochs:

    .. math:: \mu^2 = (b/s)^2\Big[1 + \frac{L^{2n-2}(1-L^2)}{(1-L^n)^2}\cdot\frac{1-q}{1+q}\Big]

    (Bok, Su and Altschuler 2024, for noisy cyclic gradient descent). In general the taut string is one straight line,
    or it bends once, just before the last shift; `path_mu` solves the same problem step by step. It is exact for linear
    steps and a period of one; for longer periods it is a proven bound, since noise before a shift is not counted.

    >>> round(float(cyclic_mu(1.0, 0.9, 1.0, period=5, epochs=3, later=0)), 6)
    1.111545
    """
    size = _ratio(shift, noise)
    L, J = _contraction(lipschitz), as_floats("later", later, 0.0)
    for name, value in (("period", period), ("epochs", epochs)):
        whole(name, value, 1)
    share = np.sqrt(_cyclic_square(L, period, epochs, J))
    lost = 4e-16 * (J + period * epochs)  # what powers that large may have lost
    return np.asarray((_never_nothing(size, share) if L > 0 else size * share) * (_ROUND_UP + lost))


def _cyclic_square(L: float, n: int, epochs: int, J: Floats) -> Floats:
    last_height, last_width = L**J, _powers(L * L, J + 1)
    if epochs == 1:
        return np.asarray(last_height**2 / last_width)
    # The earlier shifts lie n, 2n, … steps before the last one, and their noises n(E−1) steps before it.
    height = last_height * L**n * _powers(L**n, epochs - 1.0)
    width = last_height**2 * L**2 * _powers(L * L, n * (epochs - 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        bent = np.where(width > 0, height**2 / width, 0.0) + last_height**2 / last_width
        straight = (height + last_height) ** 2 / (width + last_width)
        bends = (last_height * width >= height * last_width) | (width == 0)
    return np.where(bends, bent, straight)


def _powers(x: float, count: ArrayLike) -> Floats:
    """Return 1 + x + … + x^{count−1} for 0 ≤ x ≤ 1, also near x = 1."""
    k = np.asarray(count, dtype=np.float64)
    if x == 0:
        return np.where(k > 0, 1.0, 0.0)
    if x == 1:
        return k
    return np.asarray(np.expm1(k * math.log(x)) / math.expm1(math.log(x)))


def iteration_profile(mu: float) -> GaussianProfile:
    """Return the profile of a proven μ; a bound, since it holds for the worst steps with these constants.

    >>> iteration_profile(0.5).renyi(2)
    0.25
    """
    return GaussianProfile(mu, basis=Basis.BOUND)


def thesis_mu(shift: float, lipschitz: float, noise: float, later: ArrayLike) -> Floats:
    r"""Return the thesis' looser μ² = (b/s)²·L^{J+1}/J, and (b/s)² for J = 0 (Geumlek 2020, (6.5) and Theorem 22).

    >>> thesis_mu(1.0, 1.0, 1.0, [0, 4]).tolist()
    [1.0, 0.5]
    """
    size = _ratio(shift, noise)
    L = _contraction(lipschitz)
    J = as_floats("later", later, 0.0)
    return np.asarray(size * np.where(J > 0, np.sqrt(L ** (J + 1) / np.maximum(J, 1.0)), 1.0))


def thesis_path_renyi(order: ArrayLike, distances: ArrayLike, lipschitz: float, noise: float) -> Floats:
    r"""Return the thesis' bound for any interpolating path W∞(μ_i, μ_{i−1}) = `distances` (Geumlek 2020, (6.4)).

    .. math:: R(\alpha) \le \frac{\alpha L^2}{2\sigma^2}\sum_{i=1}^r L^{2(r-i)}\,W_\infty(\mu_i,\mu_{i-1})^2

    >>> float(thesis_path_renyi(2.0, [0.5, 0.5], 1.0, 1.0))
    0.5
    """
    alpha = as_floats("order", order, 1.0)
    steps = np.atleast_1d(as_floats("distances", distances, 0.0))
    L, s = real("lipschitz", lipschitz), float(_noises(noise)[0])
    weights = L ** (2.0 * np.arange(steps.size - 1, -1, -1))
    return np.asarray(alpha * L**2 / (2 * s**2) * float(weights @ steps**2))


def _never_nothing(size: float, share: Any) -> Floats:
    """Return a share of a difference, rounded up where either leaves the range of doubles."""
    return np.asarray(np.maximum(size * np.maximum(share, _LEAST), _TINY if size else 0.0))


def _contraction(lipschitz: float) -> float:
    L = real("lipschitz", lipschitz)
    if L > 1:
        raise InvalidValue(f"this form holds for contractions, lipschitz <= 1; use iteration_mu or path_mu. Got {L}")
    return L


def _noises(noise: ArrayLike) -> Floats:
    scales = np.atleast_1d(as_floats("noise", noise, 0.0))
    if not scales.size or scales.min() == 0:
        raise InvalidValue("noise must be > 0 at every step: a step without noise hides nothing")
    return scales


def _ratio(shift: float, noise: float) -> float:
    size = real("shift", shift)
    return max(size / float(_noises(noise)[0]), _TINY) if size else 0.0
