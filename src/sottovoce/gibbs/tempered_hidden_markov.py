"""Tempered updates: a hidden Markov chain of Gibbs updates, each an exponential mechanism on the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from sottovoce.gibbs.floored import draw_floored_dirichlet
from sottovoce.gibbs.hidden_markov import HiddenMarkovModel
from sottovoce.gibbs.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.gibbs.sweeps import ChainState, stack_draws
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.systems.statistics import Statistics

__all__ = ["TemperedHiddenMarkov"]


@dataclass(frozen=True, eq=False)
class TemperedHiddenMarkov(Mechanism):
    r"""Release a whole Gibbs chain whose updates see the data at temperature T (Geumlek 2020, §4.4.1).

    Every emission probability is at least a₀ = floor/K, so one record replaced moves the log-likelihood of field f by
    at most B_f = log((1-(K-1)a₀)/a₀). With the likelihood to the power 1/T, the draw of field f's probabilities is an
    exponential mechanism whose privacy loss lies in a window of 2B_f/T, the draw of all states one of
    2ΣB_f/T, and the draw of the transitions sees no record. Truncated Dirichlets are drawn exactly, so nothing
    rests on convergence. A sweep costs

    .. math:: \rho = \frac{\sum_f B_f^2 + \big(\sum_f B_f\big)^2}{2T^2}

    in zero-concentrated privacy; the thesis adds the windows themselves up, which is `additive_epsilon`.

    Parameters
    ----------
    system
        The model.
    n
        How many records there are.
    temperature
        T >= 1. The prior is not tempered: it holds no record.
    sweeps
        How many sweeps to run and release, from a start that sees no data.
    floor
        The least probability of a category, as a share of 1/K (0.1 and 0.01 in the thesis).
    missing
        Public. Cells to leave out: (chain, step).

    Examples
    --------
    >>> from sottovoce.gibbs.fields import ChainGrid, Field
    >>> from sottovoce.privacy.promises import ZeroConcentratedDP
    >>> grid = ChainGrid(Field("region", ("N", "S")), (Field("month", (1, 2, 3)),))
    >>> model = HiddenMarkovModel(grid, (Field("kind", ("a", "b")),), states=2)
    >>> mech = TemperedHiddenMarkov.calibrate(model, 100, ZeroConcentratedDP(0.5), sweeps=10)
    >>> round(mech.temperature, 3), round(mech.profile.zcdp(), 9), round(mech.additive_epsilon, 2)
    (13.168, 0.5, 8.94)
    """

    word: ClassVar[str] = "tempered hidden Markov chain"
    system: Any
    temperature: float
    sweeps: int = 20
    floor: float = 0.1
    missing: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, HiddenMarkovModel):
            raise InvalidValue(f"tempered updates are of a HiddenMarkovModel. Got a {type(self.system).__name__}")
        object.__setattr__(self, "temperature", float(self.temperature))
        if not 1 <= self.temperature < float("inf"):
            raise InvalidValue(f"temperature must be >= 1 and finite. Got {self.temperature!r}")
        if isinstance(self.sweeps, bool) or not isinstance(self.sweeps, int | np.integer) or self.sweeps < 1:
            raise InvalidValue(f"sweeps must be a whole number >= 1. Got {self.sweeps!r}")
        log_ranges(self.system, self.floor)
        object.__setattr__(self, "missing", self.system.mask(self.missing))

    @cached_property
    def profile(self) -> Profile:
        """What the whole chain provably costs."""
        if self.n == 0:  # no record, no neighbour
            return ZeroConcentratedProfile(0.0)
        return _profile(log_ranges(self.system, self.floor), self.temperature, self.sweeps)

    @property
    def additive_epsilon(self) -> float:
        """The thesis' figure for the same chain: the windows of all updates added up, as pure privacy."""
        ranges = log_ranges(self.system, self.floor)
        return float(self.sweeps * 4 * ranges.sum() / self.temperature)

    @property
    def columns(self) -> list[str]:
        """The columns to read, in order: what ``Curator.release(..., column=...)`` takes."""
        return list(self.system.tables.columns)

    @classmethod
    def calibrate(
        cls,
        model: HiddenMarkovModel,
        n: int,
        target: Promise,
        *,
        sweeps: int = 20,
        floor: float = 0.1,
        missing: Any = None,
    ) -> Self:
        """Return the chain at the lowest temperature that keeps the promise."""
        checked = cls(model, n, 1.0, sweeps, floor, missing)
        ranges, high = log_ranges(model, floor), 1.0
        if isinstance(target, ApproxDP) and target.delta > 0:
            # The zero-concentrated bound says where to look; the exact composition allows a little more.
            def quick(coldness: float) -> Profile:
                return ZeroConcentratedProfile(_rho(ranges, 1 / coldness, sweeps))

            high = min(1.0, 2 * largest_keeping(quick, target, high=1.0, name="1/temperature"))
        coldness = largest_keeping(lambda c: _profile(ranges, 1 / c, sweeps), target, high=high, name="1/temperature")
        return cls(model, n, 1 / coldness, sweeps, floor, checked.missing)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile of the whole chain."""
        if draws != 1:
            raise InvalidValue(f"one release is one whole chain; ask for more sweeps instead of draws. Got {draws}")
        return self.profile

    def _read(self, records: Any) -> Statistics:
        statistics = records if isinstance(records, Statistics) else self.system.statistics(records)
        if statistics.n != self.n:
            raise InvalidData(f"this mechanism is for n={self.n} records; build one for your n. Got {statistics.n}")
        return statistics

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> HiddenMarkovPosterior:
        del draws
        return HiddenMarkovPosterior.relabelled(self.system.fields, stack_draws(self.run(statistics, rng)))

    def run(self, statistics: Statistics, rng: np.random.Generator, chains: int = 1) -> list[ChainState]:
        """Return the state after every sweep, of as many chains side by side; a release is that of one."""
        seen = ~self.missing[..., None]
        counts = [table * seen.astype(np.float64) for table in self.system.counts(statistics)]
        state = self.system.prior.start(chains, self.system.grid.shape, rng)
        kept = []
        for _ in range(self.sweeps):
            state = self.sweep(state, counts, rng)
            kept.append(state)
        return kept

    def sweep(self, state: ChainState, counts: list[Floats], rng: np.random.Generator) -> ChainState:
        """Return the state after one tempered sweep: emissions, states, then transitions."""
        weight = 1 / self.temperature
        emissions = tuple(
            draw_floored_dirichlet(self.system.prior.emission + weight * table, self.floor / table.shape[-1], rng)
            for table in state.counts_by_state(counts)
        )
        drawn = ChainState(state.initial, state.transition, emissions, state.states)
        states, _ = drawn.draw_states(counts, rng, weight)
        initial, transition = self.system.prior.draw_chain(states, rng)
        return ChainState(initial, transition, emissions, states)

    def forecast(self, mean: Any, level: float = 0.95) -> NoReturn:
        """Refuse: the law of a chain's draws has no closed form. Simulate records and release from those."""
        raise InvalidValue("a Gibbs chain has no forecast in closed form; release from simulated records instead")

    def _parameters(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature,
            "sweeps": int(self.sweeps),
            "floor": self.floor,
            "missing": np.argwhere(self.missing).tolist(),
        }


def log_ranges(model: HiddenMarkovModel, floor: float) -> Floats:
    """Return B_f = log((1-(K-1)a₀)/a₀) of each field, a₀ = floor/K."""
    if not 0 < floor < 1:
        raise InvalidValue(f"floor must lie between 0 and 1. Got {floor!r}")
    sizes = np.array([f.size for f in model.fields], dtype=np.float64)
    least = floor / sizes
    return np.asarray(np.log((1 - (sizes - 1) * least) / least))


def _rho(ranges: Floats, temperature: float, sweeps: int) -> float:
    return float(sweeps * (np.sum(ranges**2) + ranges.sum() ** 2) / (2 * temperature**2))


def _profile(ranges: Floats, temperature: float, sweeps: int) -> Profile:
    windows = [2 * float(b) / temperature for b in (*ranges, ranges.sum())]
    return compose([BoundedRangeProfile(window) for window in windows], [sweeps] * len(windows))
