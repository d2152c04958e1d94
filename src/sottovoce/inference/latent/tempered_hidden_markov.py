"""Tempered updates: a hidden Markov chain of Gibbs updates, each an exponential mechanism on the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.exact_paths import Misfits, exact_path, whole_misfits
from sottovoce.inference.latent.fields import ChainGrid, Field
from sottovoce.inference.latent.forward_backward import OFTEN
from sottovoce.inference.latent.gibbs_sampler import ChainState, stack_draws
from sottovoce.inference.latent.hidden_markov import HiddenMarkovModel
from sottovoce.inference.latent.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.inference.latent.tempered import TemperedUpdates, draw_floored_dirichlet, floored_bounds
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, floor_float, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.random_scan import chance_to_meet
from sottovoce.privacy.randomness import is_secure
from sottovoce.records.readings import Statistics

__all__ = ["TemperedHiddenMarkov"]


@dataclass(frozen=True, eq=False)
class TemperedHiddenMarkov(Mechanism):
    r"""Release a whole Gibbs chain whose updates see the data at temperature T (Geumlek 2020, §4.4.1).

    Every emission probability is at least a₀ = floor/K, so one record replaced moves the log-likelihood of field f by
    at most B_f = log((1-(K-1)a₀)/a₀). With the likelihood to the power 1/T, the draw of field f's probabilities is an
    exponential mechanism whose privacy loss lies in a window of 2B_f/T, the draw of all states one of
    2ΣB_f/T, and the draw of the transitions sees no record. Truncated Dirichlets and paths of states are drawn
    exactly, so nothing rests on convergence. A sweep costs

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
    scanned
        How many chains a sweep draws the states of, picked at random; all of them where None. The others keep theirs,
        which are public: a chain that changed was picked for certain, and the pure ε is that of a full sweep. What is
        gained is the chance that neither chain of a replaced record is picked (`RandomScanProfile`).

    Examples
    --------
    >>> from sottovoce.inference.latent.fields import ChainGrid, Field
    >>> from sottovoce.privacy.promises import ZeroConcentratedDP
    >>> grid = ChainGrid(Field("region", ("N", "S")), (Field("month", (1, 2, 3)),))
    >>> model = HiddenMarkovModel(grid, (Field("kind", ("a", "b")),), states=2)
    >>> mech = TemperedHiddenMarkov.calibrate(model, 100, ZeroConcentratedDP(0.5), sweeps=10)
    >>> round(mech.temperature, 3), round(mech.profile.zcdp(), 9), round(mech.additive_epsilon, 2)
    (13.168, 0.5, 8.94)
    """

    word: ClassVar[str] = "tempered hidden Markov chain"
    choices: ClassVar[Choices] = {"tempered": {}}
    forecasts: ClassVar[bool] = False
    system: Any
    temperature: float
    sweeps: int = 20
    floor: float = 0.1
    missing: Any = None
    scanned: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, HiddenMarkovModel):
            raise InvalidValue(f"tempered updates are of a HiddenMarkovModel. Got a {type(self.system).__name__}")
        if self.scanned is not None:
            whole("scanned", self.scanned, 1, self.system.grid.shape[0])
        object.__setattr__(self, "temperature", self._updates.temperature)
        object.__setattr__(self, "missing", self.system.mask(self.missing))

    @property
    def _updates(self) -> TemperedUpdates:
        return TemperedUpdates(_bounds(self.system, self.floor), self.sweeps, self.temperature, self._chance)

    @property
    def _chance(self) -> float:
        """The probability that a scan meets a replaced record, which may have left one chain for another."""
        chains = self.system.grid.shape[0]
        return 1.0 if self.scanned is None else chance_to_meet(self.scanned, chains, touched=2)

    @cached_property
    def profile(self) -> Profile:
        """What the whole chain provably costs."""
        return ZeroConcentratedProfile(0.0) if self.n == 0 else self._updates.profile  # no record, no neighbour

    @property
    def additive_epsilon(self) -> float:
        """The thesis' figure for the same chain: the windows of all updates added up, as pure privacy."""
        return self._updates.additive_epsilon

    @classmethod
    def calibrate(
        cls,
        model: HiddenMarkovModel,
        n: int,
        target: Promise,
        *,
        sweeps: int = 20,
        floor: float = 0.1,
        missing: object = None,
        scanned: int | None = None,
    ) -> Self:
        """Return the chain at the lowest temperature that keeps the promise."""
        checked = cls(model, n, 1.0, sweeps, floor, missing, scanned)
        bounds = _bounds(model, floor)
        # That search goes through ρ for an (ε, δ) promise; the exact composition allows a little more.
        high = 1.0
        if checked._chance == 1:  # of a random scan much more
            high = min(high, 2 / TemperedUpdates.calibrate(bounds, sweeps, target).temperature)
        coldness = largest_keeping(
            lambda c: TemperedUpdates(bounds, sweeps, 1 / c, checked._chance).profile,
            target,
            high=high,
            name="1/temperature",
        )
        return cls(model, n, 1 / coldness, sweeps, floor, checked.missing, scanned)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile of the whole chain."""
        if draws != 1:
            raise InvalidValue(f"one release is one whole chain; ask for more sweeps instead of draws. Got {draws}")
        return self.profile

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> HiddenMarkovPosterior:
        del draws
        return HiddenMarkovPosterior.relabelled(self.system.fields, stack_draws(self.run(statistics, rng)))

    @classmethod
    def example(cls) -> Self:
        """Return two sweeps over a chain of two steps, of one record."""
        grid = ChainGrid(Field("region", ("N",)), (Field("month", (1, 2)),))
        model = HiddenMarkovModel(grid, (Field("kind", ("a", "b")),), states=2)
        return cls(model, 1, 4.0, 2)

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the emissions and states of every sweep, by the names the sampler gave them."""
        sweeps = self.run(seen, rng, chains=draws)
        parts = [part for s in sweeps for part in (*(e[..., :-1] for e in s.emissions), s.states)]
        return np.concatenate([np.reshape(part, (draws, -1)) for part in parts], axis=1)

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
        weight = floor_float(1 / Fraction(self.temperature))  # at most what the window allows
        emissions = tuple(
            draw_floored_dirichlet(a, weight, table, self.floor / table.shape[-1], rng)
            for a, table in zip(self.system.prior.emission, state.counts_by_state(counts), strict=True)
        )
        drawn = ChainState(state.initial, state.transition, emissions, state.states)
        picked = self._picked(state.states, rng)
        if is_secure(rng):
            states = self._exact_states(drawn, counts, weight, rng, picked)
        else:
            states, _ = drawn.draw_states(counts, rng, weight, often=self.sweeps >= OFTEN)
            states = np.where(picked[..., None], states, state.states)
        initial, transition = self.system.prior.draw_chain(states, rng)
        return ChainState(initial, transition, emissions, states)

    def _picked(self, states: Any, rng: np.random.Generator) -> Any:
        """Return of every run and chain whether its states are drawn anew."""
        runs, chains = states.shape[:2]
        if self.scanned is None:
            return np.ones((runs, chains), dtype=bool)
        return np.array([rng.permutation(chains) < self.scanned for _ in range(runs)])

    def misfits(self, counts: list[Floats], emissions: Sequence[Floats], weight: float) -> Misfits:
        """Return how badly each state fits each cell, in whole steps that no record moves by more than its bound."""
        sizes = [field.size for field in self.system.fields]
        highest = [1 - (size - 1) * (self.floor / size) for size in sizes]
        bounds = log_ranges(self.system, self.floor).tolist()
        return whole_misfits(counts, emissions, bounds, weight, highest, self.n)

    def _exact_states(
        self, state: ChainState, counts: list[Floats], weight: float, rng: np.random.Generator, picked: Any
    ) -> Any:
        """Return the states of every run, each path that was picked drawn with exactly its probability."""
        runs = []
        for run, (initial, transition) in enumerate(zip(state.initial, state.transition, strict=True)):
            built = self.misfits(counts, [theta[run] for theta in state.emissions], weight)
            runs.append(
                [
                    exact_path(chain, built.bits, initial, transition, rng) if anew else before
                    for chain, anew, before in zip(built.steps, picked[run], state.states[run], strict=True)
                ]
            )
        return np.array(runs, dtype=np.int64).reshape(state.states.shape)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        model: HiddenMarkovModel = system_from(state.pop("system"))
        mask = model.mask(None)
        for cell in state.pop("missing", ()):
            mask[tuple(cell)] = True
        return cls(model, state.pop("n"), missing=mask, **state)

    def _parameters(self) -> dict[str, object]:
        return {
            "temperature": self.temperature,
            "sweeps": int(self.sweeps),
            "floor": self.floor,
            "missing": np.argwhere(self.missing).tolist(),
        } | ({} if self.scanned is None else {"scanned": int(self.scanned)})


def log_ranges(model: HiddenMarkovModel, floor: float) -> Floats:
    """Return B_f = log((1-(K-1)a₀)/a₀) of each field, a₀ = floor/K."""
    return np.array(floored_bounds([field.size for field in model.fields], floor))


def _bounds(model: HiddenMarkovModel, floor: float) -> tuple[float, ...]:
    """Return the bound of each update of a sweep: one a field, and one for all states together."""
    ranges = log_ranges(model, floor)
    return (*ranges.tolist(), float(ranges.sum()))
