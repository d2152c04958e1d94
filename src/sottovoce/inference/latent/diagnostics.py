"""Did the chains get there? R-hat and the effective number of draws, and a warning where they say no.

Gelman and Rubin's R-hat with split chains, and Geyer's initial monotone sequence, as in Vehtari et al. (2021).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["Convergence", "NotConverged", "effective_draws", "split_r_hat"]

MOST_R_HAT = 1.1
LEAST_DRAWS = 100.0
_AT_ONCE = 1 << 22


class NotConverged(UserWarning):
    """The chains disagree or hardly move: do not trust the intervals."""


@dataclass(frozen=True)
class Convergence:
    """How well several chains agree, and how many independent draws theirs are worth: the worst of all quantities.

    Attributes
    ----------
    r_hat
        The largest split R-hat; 1 where all chains tell the same.
    effective_draws
        The smallest effective number of draws.
    worst
        Which quantity has the largest R-hat.
    """

    r_hat: float
    effective_draws: float
    worst: str = ""

    @staticmethod
    def of(draws: Mapping[str, Floats]) -> Convergence:
        """Return the worst of named quantities, each (chain, draw, ...)."""
        ratios = {name: _worst(split_r_hat(values), np.max) for name, values in draws.items()}
        counts = [_worst(effective_draws(values), np.min) for values in draws.values()]
        worst = max(ratios, key=lambda name: ratios[name])
        return Convergence(ratios[worst], min(counts), worst)

    @staticmethod
    def worst_of(several: Sequence[Convergence | None]) -> Convergence | None:
        """Return the one with the largest R-hat; None, as those that no chain was needed for, where none is left."""
        return max((c for c in several if c is not None), key=lambda c: c.r_hat, default=None)

    @property
    def reached(self) -> bool:
        """True where R-hat is at most 1.1 and the draws are worth 100 independent ones or more."""
        return self.within(MOST_R_HAT)

    def within(self, most: float) -> bool:
        """Say whether R-hat is at most so much, and the draws are worth 100 independent ones or more."""
        return self.r_hat <= most and self.effective_draws >= LEAST_DRAWS

    def describe(self) -> str:
        """Return how far to trust what the chains say, in one line."""
        return f"{self.effective_draws:.0f} independent draws' worth, R-hat {self.r_hat:.2f} of {self.worst}"

    def warn(self, remedy: str, most: float = MOST_R_HAT) -> None:
        """Warn with `NotConverged`, unless the chains have converged."""
        if not self.within(most):
            warnings.warn(
                f"the chains have not converged: R-hat is {self.r_hat:.2f} (of {self.worst}; at most {most} is "
                f"wanted) and the draws are worth {self.effective_draws:.0f} independent ones (at least "
                f"{LEAST_DRAWS:.0f}). Intervals may not hold what they say; {remedy}",
                NotConverged,
                stacklevel=3,
            )

    def to_dict(self) -> dict[str, object]:
        """Return the figures as plain values; `from_dict` reads them back."""
        r_hat = self.r_hat if math.isfinite(self.r_hat) else None  # JSON has no infinity
        return {"r_hat": r_hat, "effective_draws": self.effective_draws, "worst": self.worst}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Convergence:
        """Read the figures from `to_dict`'s form."""
        r_hat = math.inf if state["r_hat"] is None else float(state["r_hat"])
        return Convergence(r_hat, float(state["effective_draws"]), str(state["worst"]))


def _worst(values: Floats, pick: Any) -> float:
    return float(pick(values)) if values.size else 1.0


def split_r_hat(draws: object) -> Floats:
    """Return the R-hat of each quantity, (chain, draw, ...): chains are cut in halves, so that a drift shows too.

    What never changes has an R-hat of 1 if all chains agree, and of infinity if they do not.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> same = seeded_rng(1).normal(size=(4, 1000))
    >>> round(float(split_r_hat(same)), 2), bool(split_r_hat(same + np.arange(4)[:, None]) > 1.5)
    (1.0, True)
    """
    x = _checked(draws)
    half = x.shape[1] // 2
    halves = np.concatenate([x[:, :half], x[:, -half:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((half - 1) / half + between / within)
    still = within <= 1e-20 * np.maximum(1.0, np.abs(halves).max(axis=(0, 1))) ** 2
    return np.where(still, np.where(between > 1e-12, np.inf, 1.0), ratio)


def effective_draws(draws: object) -> Floats:
    """Return how many independent draws those of each quantity are worth, (chain, draw, ...).

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> noise = seeded_rng(1).normal(size=(4, 1000))
    >>> slow = np.cumsum(noise, axis=1)
    >>> bool(3000 < effective_draws(noise) < 5000), bool(effective_draws(slow) < 30)
    (True, True)
    """
    full = _checked(draws)
    half = full.shape[1] // 2
    x = np.concatenate([full[:, :half], full[:, -half:]])
    chains, count = x.shape[:2]
    flat = x.reshape(chains, count, -1)
    block = max(_AT_ONCE // (chains * count * 2), 1)
    parts = [_effective(flat[:, :, i : i + block]) for i in range(0, flat.shape[2], block)]
    return np.concatenate([*parts, np.empty(0)]).reshape(x.shape[2:])


def _checked(draws: object) -> Floats:
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim < 2 or x.shape[1] < 4:
        raise InvalidValue(f"give at least 4 draws of each chain. Got shape {x.shape}")
    return x


def _effective(x: Floats) -> Floats:
    chains, count, _ = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * count, axis=1)) ** 2
    lagged = np.fft.irfft(spectrum, axis=1)[:, :count].mean(axis=0) / count
    within = lagged[0] * count / (count - 1)
    total = lagged[0] + (x.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0.0)
    still = total <= 1e-24 * np.maximum(1.0, np.abs(x).max(axis=(0, 1))) ** 2
    safe = np.where(still, 1.0, total)
    rho = 1 - (within - lagged) / safe
    rho[0] = 1.0
    even = count // 2 * 2
    pairs = rho[0:even:2] + rho[1:even:2]
    # Sums of neighbours are positive and fall for a reversible chain: what is not, is noise of the estimate.
    positive = np.cumprod(pairs > 0, axis=0)
    time = -1 + 2 * (np.minimum.accumulate(pairs, axis=0) * positive).sum(axis=0)
    # With very fast chains the estimate is noisy: no more than the draws times their logarithm is believed.
    worth = chains * count / np.maximum(time, 1 / np.log10(chains * count))
    return np.asarray(np.where(still, float(chains * count), worth))
