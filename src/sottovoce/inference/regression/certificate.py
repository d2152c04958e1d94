r"""The certificate: how private a projected Langevin chain is after any number of steps, converged or not.

The chain is w ← Π_K(w − h∇U(w) + √(2h)·ξ) from a start that does not depend on the data, with U m-strongly
convex and M-smooth for *every* data set and ‖∇U_D − ∇U_D'‖ ≤ s for every two neighbours D, D'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sottovoce.inference.regression.losses import positive
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import whole
from sottovoce.privacy.profile import Basis

_ROUND_UP = 1 + 1e-13
"""Claims are rounded towards less privacy by more than the arithmetic here can be off."""


@dataclass(frozen=True)
class Chain:
    r"""The public numbers of a projected Langevin chain, and what it provably gives away.

    .. math:: \mu_t^2 = \frac{1-a^t}{1+a^t}\cdot\frac{1+a}{1-a}\cdot\frac{h s^2}{2} \le \frac{s^2}{m},
              \qquad a = 1 - hm

    (Bok, Su and Altschuler 2024, Theorem 4.2, for h ≤ 2/(m+M)). It is exact when U is quadratic. It is never
    more than the cost s²/m of an exact sample (Gopi, Lee and Liu 2022): only accuracy waits for convergence.

    Attributes
    ----------
    convexity, smoothness
        m and M, for all data sets at once.
    sensitivity
        s, for all pairs of neighbours at once.
    step, n_steps
        h and t.
    rounding
        η: how far a step as computed may lie from the step as written. The certificate then holds with s + 2η/h
        in place of s, if the last step adds an exactly rounded normal (proof: *Chains in floating point*).

    Examples
    --------
    >>> [round(Chain(1.0, 50.0, 0.2, step=0.02, n_steps=t).mu, 4) for t in (1, 10, 100, 10_000)]
    [0.02, 0.0631, 0.1741, 0.199]
    """

    convexity: float
    smoothness: float
    sensitivity: float
    step: float
    n_steps: int
    rounding: float = 0.0

    def __post_init__(self) -> None:
        for name in ("convexity", "smoothness", "step"):
            positive(name, getattr(self, name))
        m, M = self.convexity, self.smoothness
        if not (m > 0 and math.isfinite(M) and m <= M):
            raise InvalidValue(f"a chain needs 0 < convexity <= smoothness < infinity. Got {m} and {M}")
        if not (self.sensitivity >= 0 and math.isfinite(self.sensitivity)):
            raise InvalidValue(f"sensitivity must be finite and >= 0. Got {self.sensitivity}")
        if not 0 < self.step <= largest_step(m, M):
            raise InvalidValue(
                f"step must lie in (0, 2/(m+M)] = (0, {largest_step(m, M):.6g}]: beyond it a step may push "
                f"two chains apart and nothing is certified. Got {self.step}"
            )
        if not 0 <= self.rounding < math.inf:
            raise InvalidValue(f"rounding must be finite and >= 0. Got {self.rounding}")
        object.__setattr__(self, "n_steps", whole("n_steps", self.n_steps, 1))

    @property
    def mu(self) -> float:
        """The certified μ of the last iterate."""
        shrink = self.step * self.convexity
        # (1-a^t)/(1+a^t) as a hyperbolic tangent keeps its digits when hm is tiny and t is small.
        mixed = math.tanh(-self.n_steps * math.log1p(-shrink) / 2) if shrink < 1 else 1.0
        moved = self.sensitivity + 2 * self.rounding / self.step
        return moved * math.sqrt(mixed * (2 - shrink) / (2 * self.convexity)) * _ROUND_UP

    @property
    def spread(self) -> float:
        """How much wider than e^{−U} the chain is, converged: its variance is up to 2/(2−hM) times the target's.

        Along a direction of curvature λ it is 2/(2−hλ): twice at h = 1/M and λ = M, a seventh more at a quarter of it.
        Privacy does not mind: μ is that of the chain as it is run.

        >>> [round(Chain(1.0, 50.0, 0.2, step=h, n_steps=9).spread, 3) for h in (0.02, 0.005)]
        [2.0, 1.143]
        """
        return 2 / (2 - min(self.step * self.smoothness, 2 - 1e-9))

    @property
    def profile(self) -> GaussianProfile:
        """What the last iterate costs."""
        return GaussianProfile(self.mu, basis=Basis.BOUND)


def largest_step(convexity: float, smoothness: float) -> float:
    """Return 2/(m+M), the longest step that brings any two chains with the same noise closer."""
    return 2 / (convexity + smoothness)


def mixing_steps(convexity: float, step: float, *, remaining: float = 0.05) -> int:
    """Return how many steps bring any two starts within `remaining` of their distance: log(1/remaining)/(hm).

    A rule of public numbers. It concerns accuracy alone.

    >>> mixing_steps(1.0, 0.01)
    299
    """
    if not 0 < remaining < 1:
        raise InvalidValue(f"remaining must lie in (0, 1). Got {remaining}")
    shrink = step * convexity
    return 1 if shrink >= 1 else max(1, math.ceil(math.log(remaining) / math.log1p(-shrink)))
