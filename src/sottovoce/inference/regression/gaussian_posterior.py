"""A whole Gaussian posterior: what noisy statistics release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """N(mean, covariance) over the parameters; reading it costs nothing more.

    Intervals are offered only where they are known to cover.

    Examples
    --------
    >>> posterior = GaussianPosterior(np.zeros(2), np.eye(2))
    >>> posterior.interval(0.95).round(2).tolist()
    [[-1.96, 1.96], [-1.96, 1.96]]
    """

    mean: Floats
    covariance: Floats
    no_intervals: str | None = None
    """Why `interval` is refused, where it would not cover."""

    @property
    def sd(self) -> Floats:
        """The standard deviation of each parameter."""
        return np.sqrt(np.diag(self.covariance))

    def summary(self) -> str:
        """Return the posterior in one line."""
        known = "" if self.no_intervals is None else "; no intervals are offered"
        return f"Gaussian posterior of {self.mean.size} parameter(s), mean {_few(self.mean)}, sd {_few(self.sd)}{known}"

    def interval(self, level: float = 0.95) -> Floats:
        """Return the central interval of each parameter, one row each; refused where it would not cover."""
        if self.no_intervals is not None:
            raise InvalidValue(f"no interval is offered: {self.no_intervals}")
        if not 0 < level < 1:
            raise InvalidValue(f"level must lie in (0, 1). Got {level}")
        half = float(special.ndtri(0.5 + level / 2)) * self.sd
        return np.stack([self.mean - half, self.mean + half], axis=-1)

    def sample(self, draws: int, rng: np.random.Generator | None = None) -> Floats:
        """Return `draws` parameters, one row each."""
        generator = secure_rng() if rng is None else rng
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(self.mean + generator.standard_normal((draws, self.mean.size)) @ root.T)

    def to_dict(self) -> dict[str, Any]:
        """Return the posterior as plain values."""
        plain = {"posterior": "gaussian", "mean": self.mean.tolist(), "covariance": self.covariance.tolist()}
        return plain | {"no_intervals": self.no_intervals}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> GaussianPosterior:
        """Read a posterior from `to_dict`'s form."""
        with restoring("a Gaussian posterior"):
            mean, covariance = (np.asarray(state[name], dtype=np.float64) for name in ("mean", "covariance"))
            return GaussianPosterior(mean, covariance, state.get("no_intervals"))

    def mapped(self, matrix: Floats, shift: Floats | float = 0.0) -> GaussianPosterior:
        """Return the posterior of Aw + b, for a public matrix A and public numbers b.

        >>> GaussianPosterior(np.ones(2), np.eye(2)).mapped(np.diag([2.0, 3.0])).covariance.diagonal().tolist()
        [4.0, 9.0]
        """
        return replace(self, mean=matrix @ self.mean + shift, covariance=matrix @ self.covariance @ matrix.T)


def _few(values: Floats) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:6])
    return f"({shown}{', …' if values.size > 6 else ''})"
