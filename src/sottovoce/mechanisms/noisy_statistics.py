"""Noisy statistics: a whole posterior from statistics with discrete noise, one noise a block of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from sottovoce.mechanisms.assumed_posteriors import ImaginedMixtures, ImaginedPosteriors, SimulatedPosteriors, evenly
from sottovoce.mechanisms.block_noise import KINDS, adds_up, check_kind, least_scales, noise_profile, shares_of
from sottovoce.mechanisms.clipped_total import ClippedTotal
from sottovoce.mechanisms.conjugate.dirichlet_categorical import DirichletCategorical
from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.mechanisms.conjugate.distributions.mixtures import Mixtures
from sottovoce.mechanisms.conjugate.system import ClippedSystem
from sottovoce.mechanisms.forecast import Forecast, mean_width
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.mechanism import Choices, Mechanism, check_system
from sottovoce.mechanisms.noise_aware import latent_total, latent_totals
from sottovoce.mechanisms.noisy_posterior import NoisyPosterior
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import Floats, as_floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure, secure_rng, seeded_rng
from sottovoce.records.readings import BallSum, Block, CategoryCounts, ClippedSum, Statistics

_MOST_STEPS = 2.0**50
"""The most noise, in steps: sums and noise together then stay far inside 64 bits."""
_POINTS = 9
"""Gauss points of the noise that a forecast averages over."""
_NEGLIGIBLE = 20.0
"""Totals of e^-20 of the largest weight and less are left out of a forecast."""
_IMAGINED = 8
"""Imagined releases of a vector that a forecast averages over."""
_REMEMBERED = 256
"""Of how many noisy totals the posterior is kept."""


@runtime_checkable
class NoisySystem(Protocol):
    """A system that says itself what to make of noisy statistics; a conjugate one need not."""

    def through_blocks(self, n: int, total: Floats, noises: Sequence[IntegerNoise], rng: np.random.Generator) -> Any:
        """Return the value to release, from noisy statistics and the noise on each block of them alone."""

    def forecast_blocks(self, n: int, mean: object, noises: Sequence[IntegerNoise], level: float) -> Forecast:
        """Return what to expect of it if the records had this mean."""


@dataclass(frozen=True, eq=False)
class NoisyStatistics(Mechanism):
    """Release ΣS(x) with discrete noise, as the posterior that knows of the noise.

    Whole statistics carry discrete Laplace or discrete Gaussian noise from OpenDP. Sums of fractions are rounded to a
    public grid first, fine beside the noise, coarse beside the error of a floating-point sum; its step is one part of
    the sensitivity. A reading of several blocks (one a table of counts, one a number's moments) has a scale for each,
    and one record may move them all: with F tables 2F counts move by one, and the profile is the exact composition of
    those 2F noises (Geumlek 2020, §4.4.2). Both noises have exact profiles on counts. Gaussian noise on vectors and on
    finely gridded sums is claimed by what is proven of it, ρ = Δ²/2σ² (Canonne, Kamath and Steinke 2020), never by the
    curve of the continuous one.

    Parameters
    ----------
    system, n
        What is unknown, and how many records there are.
    noise
        ``"laplace"`` or ``"gaussian"``.
    scale
        b of the Laplace or σ of the Gaussian noise, in the statistic's own unit; where the reading has several blocks,
        one a block, or one number that serves all.

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import is_secure, secure_rng, seeded_rng
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> mech = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n=100, target=PureDP(0.5))
    >>> mech.noise, round(mech.scale, 9)
    ('laplace', 2.0)
    >>> posterior = mech.release([1] * 30 + [0] * 70, seeded_rng(1)).value
    >>> posterior.interval(0.95)[0] < 0.3 < posterior.interval(0.95)[1]
    True
    """

    word: ClassVar[str] = "noisy statistics"
    free_samples: ClassVar[bool] = True
    choices: ClassVar[Choices] = {
        "laplace": {"noise": "laplace"},
        "gaussian": {"noise": "gaussian"},
    }
    derived: ClassVar[tuple[str, ...]] = ("grid",)
    noise: NoiseKind
    scale: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, NoisySystem):
            check_system(self.system)
        if not isinstance(self.noise, str) or self.noise not in KINDS:
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {self.noise!r}")
        scales = np.atleast_1d(as_floats("scale", self.scale, 0.0))
        count = len(self.blocks)
        if scales.shape not in ((1,), (count,)):
            raise InvalidValue(f"give one scale, or one for each of the {count} blocks. Got {scales.size}")
        spread = np.broadcast_to(scales, count).tolist()
        object.__setattr__(self, "scale", spread[0] if count == 1 else tuple(spread))
        for block, scale in zip(self.blocks, spread, strict=True):
            check_kind(self.noise, block.movement)
            if scale / block.movement.grid > _MOST_STEPS:
                raise InvalidValue(f"scale must be at most 2**50 steps of {block.movement.grid:g}. Got {scale!r}")
        self.noises  # noqa: B018 - a scale that cannot be is refused here

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The parts of the statistics that carry noise of their own scale."""
        return self.reading.blocks(self.n)

    @property
    def together(self) -> bool:
        """Whether many releases at once take hardly longer than one: of a single number, whose posteriors are kept."""
        kind = type(self)  # of someone else's that makes its releases otherwise, each is made as it says
        usual = kind._value is NoisyStatistics._value and kind.release is NoisyStatistics.release
        return usual and self.reading.size == 1 and not isinstance(self.system, NoisySystem)

    @property
    def scales(self) -> tuple[float, ...]:
        """The scale of each block's noise."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @cached_property
    def noises(self) -> tuple[IntegerNoise, ...]:
        """The noise on each block, in steps of its grid."""
        pairs = zip(self.scales, self.blocks, strict=True)
        return tuple(IntegerNoise(self.noise, scale / block.movement.grid) for scale, block in pairs)

    @property
    def grid(self) -> float:
        """The public grid step on which statistics of a single block are released."""
        return self.blocks[0].movement.grid

    @property
    def _steps(self) -> IntegerNoise:
        """The noise of a single block."""
        return self.noises[0]

    @cached_property
    def profile(self) -> Profile:
        """What the release provably does: exact on counts, the proven ρ for Gaussian noise elsewhere."""
        if self.n == 0:  # no record, no neighbour
            return ZeroConcentratedProfile(0.0)
        return noise_profile(self.noises, self.blocks)

    @classmethod
    def example(cls) -> Self:
        """Return three counts of five records with Laplace noise."""
        return cls(DirichletCategorical([1.0, 1.0, 1.0]), 5, "laplace", 2.0)

    @classmethod
    def calibrate(
        cls,
        system: Any,
        n: int | None,
        target: Promise,
        noise: NoiseKind | None = None,
        shares: Mapping[str, float] | Sequence[float] | None = None,
        price: Callable[[Profile], float] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise that keeps the promise.

        Parameters
        ----------
        system, n
            What is unknown, and how many records there are.
        target
            The promise.
        noise
            The kind of noise; whichever needs the least of it unless given.
        shares
            How the budget is split between blocks: one positive number each, or a mapping from their names (a table
            goes by its last field). Equal unless given. A block with share p (of a sum of one) gets p of ε under
            Laplace noise, p of ρ under Gaussian noise.
        price
            What a budget charges for a profile: with it, the kind that has less noise at an equal price is taken.
        """
        blocks = system.reading.blocks(cls.checked_n(n))
        parts = shares_of(len(blocks), getattr(system, "block_names", ()), shares)
        if noise is not None:
            return cls(system, n, noise, least_scales(noise, blocks, parts, target))
        result: list[Self] = []
        reasons: list[Exception] = []
        for kind in KINDS:
            if kind == "laplace" and not all(adds_up(block.movement) for block in blocks):
                continue
            try:
                result.append(cls.calibrate(system, n, target, kind, shares))
            except PromiseUnreachable as error:
                reasons.append(error)
        if not result:
            raise reasons[0]
        return min(result, key=lambda m: _loudness(m) * (1.0 if price is None else price(m.profile)))

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy statistics of which releases are made."""
        return self.noisy_totals(seen, rng, draws)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy statistics under the first of a pair over that under the second."""
        centres = [self.reading.from_steps(self.n, self.reading.steps(seen)) for seen in pair]

        def of_noise(outputs: object) -> Floats:
            first, second = (self._log_weight(np.asarray(outputs) - centre) for centre in centres)
            return np.asarray(first - second)

        return of_noise

    def _log_weight(self, gap: Floats) -> Floats:
        """Return log of the probability of noise, up to a constant."""
        logs = [
            noise.log_weight(np.rint(part / block.movement.grid)).sum(axis=-1)
            for noise, part, block in zip(self.noises, self._split(gap), self.blocks, strict=True)
        ]
        return np.asarray(np.sum(logs, axis=0))

    def _split(self, array: Any) -> list[Any]:
        """Return the coordinates of each block, last axis."""
        if len(self.blocks) == 1:
            return [array]
        return np.split(array, np.cumsum([block.size for block in self.blocks])[:-1], axis=-1)

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> Any:
        del draws
        return self.posterior_from(self.noisy_totals(statistics, rng)[0], rng)

    def releases(
        self, records: object, count: int, rng: np.random.Generator | None = None, **options: object
    ) -> list[Release]:
        """Return so many independent releases; of a single number, the records are read once and all noise is drawn."""
        if count == 1 or not self.together:
            return super().releases(records, count, rng, **options)
        rng = secure_rng() if rng is None else rng
        shown = self.cost(), self.to_dict(), self.parameter, not is_secure(rng)
        totals = self.noisy_totals(self.see(records), rng, count)
        return [Release(self.posterior_from(total, rng), *shown) for total in totals]

    def noisy_totals(self, statistics: Statistics, rng: np.random.Generator, draws: int = 1) -> Floats:
        """Return ΣS(x) with fresh noise `draws` times, a row each: all that releases let out, each at full cost."""
        parts = self._split(self.reading.steps(statistics))
        noisy = [noise.rows(part, rng, draws) for noise, part in zip(self.noises, parts, strict=True)]
        return self.reading.from_steps(self.n, np.concatenate(noisy, axis=1))

    def posterior_from(self, noisy: object, rng: np.random.Generator | None = None) -> Any:
        """Return what goes with a noisy statistic already released: post-processing, free of cost.

        That is a `NoisyPosterior`, unless the system says otherwise.
        """
        noisy = np.atleast_1d(np.asarray(noisy, dtype=np.float64))
        if noisy.size == 1 and (known := self._known.get(float(noisy[0]))) is not None:
            return known
        if isinstance(self.system, NoisySystem):
            return self.system.through_blocks(self.n, noisy, self.noises, secure_rng() if rng is None else rng)
        if noisy.size > 1:
            return self._through_noise(noisy)
        total = float(noisy[0])
        if total not in self._known and len(self._known) < _REMEMBERED:
            noisy = noisy.copy()
            noisy.setflags(write=False)
            self._known[total] = self._through_noise(noisy)
        return self._known.get(total) or self._through_noise(noisy)

    @cached_property
    def _known(self) -> dict[float, NoisyPosterior]:
        """The posteriors of noisy totals, worked out once each: they follow from what was released."""
        return {}

    def _through_noise(self, noisy: Any) -> NoisyPosterior:
        statistics = self.reading.statistics(self.n, self.reading.project(self.n, noisy))
        plug_in = self.system.posterior(statistics)
        aware = self._noise_aware(noisy) if self.n else plug_in
        return NoisyPosterior(noisy, statistics, aware, plug_in)

    def _noise_aware(self, noisy: Any) -> Distribution:
        system: Any = self.system
        reading = system.reading
        if isinstance(reading, CategoryCounts):
            from sottovoce.mechanisms.noisy_histogram import NoisyHistogram  # noqa: PLC0415 - plans do without

            return NoisyHistogram(system.alpha, noisy, self.n, self._steps.kind, self._steps.scale)
        if isinstance(reading, BallSum):
            aware: Distribution = system.through_noise(self.n, noisy, self._steps.variance * self.grid**2)
            return aware
        if isinstance(system, ClippedSystem):
            return self._clipped.posterior(float(noisy[0]))
        return latent_total(system, reading, self.n, float(noisy[0]), self._steps, self.grid)

    @cached_property
    def _clipped(self) -> ClippedTotal:
        system: Any = self.system
        return ClippedTotal(system, system.reading, self.n, self._steps, self.grid)

    def told(self, mean: object) -> tuple[Any, Any] | None:
        """Return the mean and the variance of a posterior's mean if the records had this mean: sampling and noise.

        The noise moves the mean by how steeply the posterior's mean follows the statistics, and no further than the
        prior spreads.
        """
        system: Any = self.system
        if isinstance(system, NoisySystem) or not self.n:
            return None
        reading, statistics = system.reading, system.reading.imagined(self.n, mean)
        exact, prior = system.posterior(statistics), system.posterior(reading.imagined(0, mean))
        total = reading.from_steps(self.n, reading.steps(statistics))
        step = np.sqrt(self._steps.variance) * self.grid
        moved = system.posterior(reading.statistics(self.n, reading.project(self.n, total + step)))
        back = system.posterior(reading.statistics(self.n, reading.project(self.n, total - step)))
        if isinstance(reading, ClippedSum):
            noise = ((np.asarray(moved.mean) - np.asarray(back.mean)) / 2) ** 2
        else:  # one coordinate at a time: a category's noise, or a coordinate's
            noise = np.full(np.shape(exact.mean), (step / self.n) ** 2)
        return exact.mean, exact.variance + np.minimum(noise, prior.variance)

    def forecast(self, mean: object, level: float = 0.95) -> Forecast:
        """Return what to expect if the records had this mean; reads no private data.

        The noise on one number is averaged over by Gauss points of its law. The noise on a histogram is averaged over
        two to eight imagined releases, each category's own noise laid evenly over its law in them.
        """
        if isinstance(self.system, NoisySystem):
            return self.system.forecast_blocks(self.n, mean, self.noises, level)
        if not self.n:
            exact: Any = self.system.posterior(self.reading.imagined(self.n, mean))
            return Forecast(0.0, mean_width(exact.interval(level)), mean_width(exact.interval(level)), level)
        exact, imagined = self._imagined(mean)
        return Forecast(
            expected_kl=imagined.kl(exact),
            interval_width=imagined.width(level),
            exact_width=mean_width(exact.interval(level)),
            level=level,
        )

    def expected_width(self, mean: object, level: float = 0.95) -> float:
        """Return the width that `forecast` tells, without the rest of it."""
        if isinstance(self.system, NoisySystem) or not self.n:
            return super().expected_width(mean, level)
        return self._imagined(mean)[1].width(level)

    def _imagined(self, mean: object) -> tuple[Any, SimulatedPosteriors]:
        """Return the posterior without noise, and those with it."""
        system: Any = self.system
        statistics, reading = self.reading.imagined(self.known_n, mean), system.reading
        total = reading.from_steps(self.n, reading.steps(statistics))
        if isinstance(reading, ClippedSum):
            points, weights = self._steps.nodes(_POINTS)
            noisy = total[0] + points * self.grid
            if isinstance(system, ClippedSystem):
                tables = self._clipped.posteriors(noisy)
                return self._clipped.without_noise(float(total[0]), tables), ImaginedPosteriors(tables, weights)
            latent = latent_totals(system, reading, self.n, noisy, self._steps, self.grid, _NEGLIGIBLE)
            return system.posterior(statistics), ImaginedMixtures(Mixtures(*latent), weights)
        times = int(np.clip(64 // total.size, 2, _IMAGINED))  # many categories average among themselves
        noise = evenly(self._steps, total.size, times, seeded_rng(0)) * self.grid
        values = [self._noise_aware(total + row) for row in noise]
        return system.posterior(statistics), ImaginedPosteriors(values, np.full(times, 1 / times))

    def _parameters(self) -> dict[str, object]:
        if isinstance(self.scale, tuple):
            return {"noise": self.noise, "scales": list(self.scale)}
        return {"noise": self.noise, "scale": self.scale, "grid": self.grid}

    @classmethod
    def _from_state(cls, state: dict[str, object]) -> Self:
        if "scales" in state:
            state["scale"] = state.pop("scales")
        return super()._from_state(state)


def _loudness(mechanism: NoisyStatistics) -> float:
    """Return the noise of all blocks, each beside what one record moves."""
    pairs = zip(mechanism.noises, mechanism.blocks, strict=True)
    return sum(noise.variance / block.movement.squares for noise, block in pairs)
