"""Noised counts: every table once with discrete noise, then as many Gibbs sweeps as you like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.latent.count_forecast import forecast_proportions
from sottovoce.latent.count_tables import CountTables
from sottovoce.latent.fields import Field
from sottovoce.latent.noisy_tables import NoisyTables
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.forecast import Forecast, mean_width
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import Floats, as_floats
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.pure import PureProfile
from sottovoce.readings import Statistics
from sottovoce.readings.base import checked_n
from sottovoce.systems.distributions import Dirichlet

__all__ = ["NoisyCounts"]

_KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")


@dataclass(frozen=True, eq=False)
class NoisyCounts(Mechanism):
    r"""Release count tables with discrete Laplace or discrete Gaussian noise (Geumlek 2020, §4.4.2).

    One record replaced by another takes one from a cell and adds one to another, in every table: 2F counts move by
    one, so the L1 sensitivity is 2F and the L2 sensitivity √(2F). The profile is the exact composition of those
    2F noises.

    Parameters
    ----------
    system
        The tables.
    n
        How many records there are.
    noise
        ``"laplace"`` or ``"gaussian"``.
    scales
        The scale of the noise on each table; one number serves all.

    Examples
    --------
    >>> from sottovoce.latent.fields import Field
    >>> from sottovoce.privacy.promises import PureDP
    >>> tables = CountTables((Field("a", (0, 1)), Field("b", (0, 1, 2))), (("a",), ("b",)))
    >>> mech = NoisyCounts.calibrate(tables, n=100, target=PureDP(1.0), noise="laplace")
    >>> [round(scale, 6) for scale in mech.scales], round(mech.profile.pure(), 9)
    ([4.0, 4.0], 1.0)
    """

    word: ClassVar[str] = "noisy counts"
    choices: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "laplace": {"noise": "laplace"},
        "gaussian": {"noise": "gaussian"},
    }
    system: Any
    noise: NoiseKind
    scales: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, CountTables):
            raise InvalidValue(f"noisy counts are of CountTables. Got a {type(self.system).__name__}")
        scales = np.atleast_1d(as_floats("scales", self.scales, 0.0))
        count = len(self.system.tables)
        if scales.shape not in ((1,), (count,)):
            raise InvalidValue(f"give one scale, or one for each of the {count} tables. Got {scales.size}")
        object.__setattr__(self, "scales", tuple(np.broadcast_to(scales, count).tolist()))
        self.noises  # noqa: B018 - a kind or a scale that cannot be is refused here

    @cached_property
    def noises(self) -> tuple[IntegerNoise, ...]:
        """The noise on each table."""
        return tuple(IntegerNoise(self.noise, scale) for scale in self.scales)

    @property
    def columns(self) -> list[str]:
        """The columns to read, in order: what ``Curator.release(..., column=...)`` takes."""
        return list(self.system.columns)

    @cached_property
    def profile(self) -> Profile:
        """What one release provably does."""
        if self.n == 0:  # no record, no neighbour
            return ZeroConcentratedProfile(0.0)
        return _profile(self.noise, self.scales)

    @classmethod
    def calibrate(
        cls,
        system: CountTables,
        n: int,
        target: Promise,
        noise: NoiseKind | None = None,
        shares: Mapping[str, float] | Sequence[float] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise that keeps the promise.

        Parameters
        ----------
        system, n
            The tables, and how many records there are.
        target
            The promise.
        noise
            The kind of noise; whichever needs the least of it unless given.
        shares
            How the budget is split: one positive number a table, or a mapping from the name of a table's last field.
            Equal unless given. A table with share p (of a sum of one) gets p of ε under Laplace noise, p of ρ under
            Gaussian noise.
        """
        checked_n(n)
        parts = _shares(system, shares)
        if noise is not None:
            if noise not in _KINDS:
                raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {noise!r}")
            return cls(system, n, noise, _least_scales(noise, parts, target))
        found: list[Self] = []
        reasons: list[PromiseUnreachable] = []
        for kind in _KINDS:
            try:
                found.append(cls(system, n, kind, _least_scales(kind, parts, target)))
            except PromiseUnreachable as error:
                reasons.append(error)
        if not found:
            raise reasons[0]
        return min(found, key=lambda mechanism: sum(noise.variance for noise in mechanism.noises))

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: whatever is drawn from the released tables is free."""
        del draws
        return self.profile

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> NoisyTables:
        del draws
        counts = [
            noise.add(table.ravel(), rng).reshape(table.shape)
            for table, noise in zip(self.system.arrays(statistics), self.noises, strict=True)
        ]
        return NoisyTables(self.system, self.n, tuple(counts), self.noises)

    @classmethod
    def example(cls) -> Self:
        """Return two tables of five records with Laplace noise."""
        tables = CountTables((Field("a", ("x", "y")), Field("b", ("u", "v", "w"))), (("a",), ("a", "b")))
        return cls(tables, 5, "laplace", (3.0, 4.0))

    def outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy counts of `draws` releases, table after table."""
        tables = zip(self.system.arrays(seen), self.noises, strict=True)
        parts = [noise.add(np.tile(table.ravel(), draws), rng).reshape(draws, -1) for table, noise in tables]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy counts under the first of a pair over that under the second."""
        ends = np.cumsum(self.system.sizes)[:-1]

        def of_noise(outputs: Any) -> Floats:
            weights = []
            for seen in pair:
                parts = np.split(np.asarray(outputs) - seen.total, ends, axis=-1)
                each = [noise.log_weight(part).sum(axis=-1) for noise, part in zip(self.noises, parts, strict=True)]
                weights.append(np.sum(each, axis=0))
            return np.asarray(weights[0] - weights[1])

        return of_noise

    def forecast(self, mean: Any, level: float = 0.95) -> Forecast:
        """Return what to expect if the cells of each table had these proportions; reads no private data.

        What is forecast is the posterior of each table's proportions that knows of the noise (prior: one record, shared
        by all cells): its divergence from the posterior without privacy, summed over tables, and the width of its
        intervals.

        Parameters
        ----------
        mean
            The proportions of all cells, table after table; each table's sum to one.
        level
            The level of the intervals.
        """
        proportions = np.split(np.atleast_1d(as_floats("mean", mean, 0.0)), np.cumsum(self.system.sizes)[:-1])
        if not 0 < level < 1:
            raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
        for part, size in zip(proportions, self.system.sizes, strict=True):
            if part.size != size or abs(part.sum() - 1) > 1e-9:
                raise InvalidValue(f"mean must be {self.system.sizes} proportions, each table's summing to one")
        found = [
            forecast_proportions(p, self.n, noise, level) for p, noise in zip(proportions, self.noises, strict=True)
        ]
        exact = [mean_width(Dirichlet(self.n * part + 1 / part.size).interval(level)) for part in proportions]
        divergence, widths = zip(*found, strict=True)
        return Forecast(float(sum(divergence)), float(np.mean(widths)), float(np.mean(exact)), level)

    def _parameters(self) -> dict[str, Any]:
        return {"noise": self.noise, "scales": list(self.scales)}


def _shares(system: CountTables, shares: Mapping[str, float] | Sequence[float] | None) -> Floats:
    names = [table[-1] for table in system.tables]
    if shares is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(shares, Mapping):
        if set(shares) != set(names) or len(set(names)) < len(names):
            raise InvalidValue(f"shares must name each of {', '.join(names)} once. Got {', '.join(map(str, shares))}")
        shares = [shares[name] for name in names]
    parts = np.atleast_1d(as_floats("shares", list(shares), 0.0))
    if parts.shape != (len(names),) or not np.all((parts > 0) & np.isfinite(parts)):
        raise InvalidValue(f"shares must be {len(names)} positive numbers. Got {list(shares)}")
    return np.asarray(parts / parts.sum())


def _profile(noise: NoiseKind, scales: Sequence[float]) -> Profile:
    if noise == "laplace":
        # Discrete Laplace noise on a count that moves by one is randomized response; equal ones compose in closed form.
        return compose([PureProfile(1 / scale, basis=Basis.EXACT) for scale in scales], [2] * len(scales))
    return compose(
        [
            DiscreteGaussianProfile(scale, 1, 2)
            if scale <= DiscreteGaussianProfile.most
            else ZeroConcentratedProfile(1 / scale**2)
            for scale in scales
        ]
    )


def _least_scales(noise: NoiseKind, shares: Floats, target: Promise) -> list[float]:
    """Return the least scales in the proportion of the shares that keep the promise, looking at 1/scale."""
    weights = shares if noise == "laplace" else np.sqrt(shares)

    def scales(inverse: float) -> list[float]:
        return [float(1 / (inverse * w)) for w in weights]

    high = 100.0
    if isinstance(target, ApproxDP) and target.delta > 0:
        # A quick bound says where to look: to compose noises far smaller than the answer's would take long.
        def quick(inverse: float) -> Profile:
            return ZeroConcentratedProfile(_profile(noise, scales(inverse)).zcdp())

        high = min(high, 4 * largest_keeping(quick, target, high=high, name="1/scale"))
        if noise == "laplace":
            high = max(high, largest_keeping(lambda c: PureProfile(2 * c), target, high=100.0, name="1/scale"))
    found = largest_keeping(lambda c: _profile(noise, scales(c)), target, high=high, name="1/scale")
    return scales(found)
