"""The hidden Markov model: many chains, several categorical fields a step, and its routes to privacy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sottovoce.inference.latent.count_tables import CountTables, NoisyTables, OverTables
from sottovoce.inference.latent.fields import ChainGrid, Field, field_from, settings_of
from sottovoce.inference.latent.forward_backward import OFTEN
from sottovoce.inference.latent.gibbs_sampler import ChainState, Prior, gibbs_sweep, noisy_sweep, stack_draws
from sottovoce.inference.latent.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.inference.latent.latent_counts import LatentCounts
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.progress import progress_bar
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, Integers, Mask, whole
from sottovoce.privacy.randomness import secure_rng
from sottovoce.records.facts import Facts
from sottovoce.records.readings import Statistics

_SEARCH = 30
"""Sweeps of each of several starts before the likeliest goes on."""
_HOPELESS = 50.0
"""How many nats below the likeliest start another one may lie."""
_LEAST_SWEEPS, _MOST_SWEEPS = 400, 3200
_RELEASED = 400
"""Draws that a release holds at most."""


@dataclass(frozen=True)
class HiddenMarkovModel(OverTables):
    r"""One chain a region, one step a month, a hidden state in each, and many records in each cell.

    .. math:: z_{c,1} \sim \pi, \quad z_{c,t+1} \sim A_{z_{c,t}}, \quad
              x_{i,f} \sim \theta_{f, z_{c,t}} \text{ for every record } i \text{ of the cell } (c, t)

    with Dirichlet priors on π, the rows of A and every θ (Geumlek 2020, §4.5; Foulds et al. 2016). How many records
    a cell has is not modelled. Everything the sampler needs is one table (chain, step, category) a field.

    Parameters
    ----------
    grid
        The chains and steps.
    fields
        What is seen of each record, independent given the state.
    states
        How many hidden states.
    emission_prior
        What each entry of an emission's Dirichlet prior is worth, in records; one over the number of the field's
        categories where None, so that all of them together are worth one record.
    transition_prior
        What each entry of the transitions' Dirichlet prior is worth, in moves.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> grid = ChainGrid(Field("region", ("N", "S")), (Field("month", tuple(range(1, 7))),))
    >>> model = HiddenMarkovModel(grid, (Field("kind", ("calm", "storm")),), states=2)
    >>> rng = seeded_rng(1)
    >>> month, region = rng.integers(1, 7, 3000), rng.choice(["N", "S"], 3000)
    >>> storm = rng.random(3000) < np.where(month <= 3, 0.2, 0.7)
    >>> events = {"region": region, "month": month, "kind": np.where(storm, "storm", "calm")}
    >>> mech = model.noisy_counts(n=3000, target=PureDP(1.0), noise="laplace")
    >>> posterior = model.fit(mech.release(events, rng).value, rng=rng)
    >>> len(set(posterior.most_frequent_states[0, :3].tolist()))
    1
    """

    word: ClassVar[str] = "hidden Markov model"
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy statistics", "tempered hidden Markov chain")
    parameter: ClassVar[str] = "states and probabilities"
    grid: ChainGrid
    fields: tuple[Field, ...]
    states: int
    emission_prior: float | None = None
    transition_prior: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        object.__setattr__(self, "states", whole("states", self.states, 1))
        for name in ("emission_prior", "transition_prior"):
            value = getattr(self, name)
            if value is None and name == "emission_prior":
                continue
            if not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise InvalidValue(f"{name} must be a positive number. Got {value!r}")
        for field in self.fields:
            if field.size < 2:
                raise InvalidValue(f"the field {field.name!r} has a single category, which says nothing")
        _ = self.tables

    @property
    def tables(self) -> CountTables:
        """What is counted: one table (chain, step, category) a field."""
        return CountTables.over(self.grid, self.fields)

    @property
    def prior(self) -> Prior:
        """The Dirichlet priors."""
        sizes = tuple(f.size for f in self.fields)
        emission = tuple(1 / size if self.emission_prior is None else float(self.emission_prior) for size in sizes)
        return Prior(self.states, sizes, emission, float(self.transition_prior))

    def counts(self, records: object) -> tuple[Integers, ...]:
        """Return the true counts (chain, step, category) of each field: of records in memory, or of `Statistics`."""
        statistics = records if isinstance(records, Statistics) else self.tables.statistics(records)
        return self._shaped(self.tables.arrays(statistics))

    def through_blocks(
        self, n: int, total: Floats, noises: Sequence[IntegerNoise], rng: np.random.Generator
    ) -> HiddenMarkovPosterior:
        """Return the fit to noisy tables, some hundreds of its draws."""
        return self.fit(self.tables.through_blocks(n, total, noises, rng), rng=rng).thinned(_RELEASED)

    def fit(
        self,
        data: NoisyTables | Sequence[object],
        *,
        sweeps: int | None = None,
        burn_in: int | None = None,
        missing: object = None,
        noise_aware: bool = True,
        chains: int = 4,
        starts: int = 4,
        collapsed: bool = False,
        rng: np.random.Generator | None = None,
        progress: bool | None = None,
    ) -> HiddenMarkovPosterior:
        """Return posterior draws of several chains: states by blocks, then emissions and transitions.

        Given noisy tables this is post-processing, free of cost. Given true counts it is **not private**: keep the
        result to yourself, or compare with it. Where the chains have not converged, a `NotConverged` warning says so,
        and so does the posterior's `convergence`.

        Parameters
        ----------
        data
            Noisy tables, or the true counts (chain, step, category) of each field.
        sweeps, burn_in
            How many sweeps of each chain, and how many of the first to throw away (half of them where None). Without
            `sweeps` the chains go on until they agree, 400 sweeps at least and 3,200 at most.
        missing
            Cells to leave out: (chain, step), true where nothing was seen.
        noise_aware
            Count the true counts behind noisy ones as unknown, so that intervals are honest. Otherwise noisy
            counts are taken at their word, those below zero as 0.
        chains
            How many chains to run, side by side.
        starts
            How many random starts to try for each chain for a few sweeps; the likeliest goes on, or another
            chain's where that is likelier by far.
        collapsed
            Draw states one by one with the transitions summed out, as the thesis did, not path by path: the same
            posterior, which a chain then takes longer to see.
        rng
            Secure randomness by default.
        progress
            Whether to show a bar; by default where somebody sees it.
        """
        _check_sweeps(sweeps, burn_in, starts, chains)
        rng = secure_rng() if rng is None else rng
        seen = ~self.mask(missing)
        latent, often = None, sweeps is None or sweeps >= OFTEN
        if isinstance(data, NoisyTables):
            noisy = self._noisy(data)
            counts = [np.maximum(table, 0) * seen[..., None].astype(np.float64) for table in noisy]
            if noise_aware:
                # Regions may be of very different size: each has its own.
                latent = LatentCounts(
                    tuple(table[seen] for table in noisy), data.noises, groups=np.nonzero(seen)[0], often=often
                )
        else:
            counts = [table * seen[..., None].astype(np.float64) for table in self._true(data)]
        goal = _LEAST_SWEEPS if sweeps is None else sweeps
        draws: list[ChainState] = []
        with progress_bar("sampling", goal, progress) as bar:
            start = self._start(counts, chains, starts, rng)
            walk = bar.along(self._walk(start, counts, latent, seen, rng, collapsed, often))
            while True:
                draws += itertools.islice(walk, goal - len(draws))
                kept = draws[len(draws) // 2 if burn_in is None else burn_in :]
                posterior = HiddenMarkovPosterior.relabelled(self.fields, stack_draws(kept), chains)
                if sweeps is not None or posterior.convergence.reached or len(draws) >= _MOST_SWEEPS:
                    break
                goal *= 2
                bar.reach(goal)
        posterior.convergence.warn("give more sweeps, or fewer states")
        return posterior

    def _start(self, counts: Sequence[Floats], chains: int, starts: int, rng: np.random.Generator) -> ChainState:
        """Return for each chain the likeliest of several short ones, each begun at the profile of some random cells."""
        runs = chains * starts
        state, logs = self.prior.start(runs, self.grid.shape, rng), np.zeros(runs)
        cells = [table.reshape(-1, table.shape[-1]) for table in counts]
        filled = np.flatnonzero(cells[0].sum(axis=1))
        if filled.size:
            picked = rng.choice(filled, (runs, self.states))
            emissions = self.prior.draw_emissions([table[picked] for table in cells], rng)
            state = ChainState(state.initial, state.transition, emissions, state.states)
        if starts == 1:
            return state
        for _ in range(_SEARCH):
            state, logs = gibbs_sweep(self.prior, state, counts, rng, often=False)
        best = np.argmax(logs.reshape(chains, starts), axis=1) + starts * np.arange(chains)
        # A mode so much less likely than another holds no mass to speak of: nobody need stay there.
        return state.runs(np.where(logs[best] < logs.max() - _HOPELESS, np.argmax(logs), best))

    def _walk(
        self,
        state: ChainState,
        counts: Sequence[Floats],
        latent: LatentCounts | None,
        seen: Mask,
        rng: np.random.Generator,
        collapsed: bool,
        often: bool,
    ) -> Iterator[ChainState]:
        """Yield the state of all chains after each sweep."""
        if latent is None:
            while True:
                state, _ = gibbs_sweep(self.prior, state, counts, rng, collapsed, often=often)
                yield state
        sizes = latent.start(len(state.states))
        while True:
            state, sizes = noisy_sweep(self.prior, state, sizes, latent, seen, rng, collapsed)
            yield state

    def mask(self, missing: object) -> Mask:
        """Return which cells are missing, none if None is given, or raise `InvalidData`."""
        mask = np.zeros(self.grid.shape, dtype=bool) if missing is None else np.asarray(missing)
        if mask.shape != self.grid.shape or mask.dtype != bool:
            raise InvalidData(f"missing must be an array of {self.grid.shape} truth values. Got {mask.shape}")
        return mask

    def _noisy(self, data: NoisyTables) -> tuple[Integers, ...]:
        if data.tables != self.tables:
            raise InvalidData("these tables were counted over other fields or another grid than the model's")
        return self._shaped(data.counts)

    def _true(self, data: Sequence[object]) -> tuple[Floats, ...]:
        try:
            tables = tuple(np.asarray(table, dtype=np.float64) for table in data)
        except (TypeError, ValueError):
            tables = ()
        if tuple(table.shape for table in tables) != tuple((*self.grid.shape, f.size) for f in self.fields):
            raise InvalidData(
                "give one array of counts (chain, step, category) for each field, in order, as counts(records) does"
            )
        if not all(np.all(np.isfinite(table)) and np.all(table >= 0) for table in tables):
            raise InvalidData("counts must be numbers >= 0")
        return tables

    def _shaped(self, tables: Sequence[Integers]) -> tuple[Integers, ...]:
        """Return tables with all fields of the steps folded into one axis."""
        return tuple(table.reshape(*self.grid.shape, table.shape[-1]) for table in tables)

    def to_dict(self) -> dict[str, object]:
        """Return the public description."""
        return self.tables.to_dict() | {
            "system": self.word,
            "states": int(self.states),
            "emission_prior": self.emission_prior,
            "transition_prior": self.transition_prior,
        }

    @classmethod
    def from_facts(cls, settings: Mapping[str, object], facts: Facts, column: str | None = None) -> Self:
        """Return the model of a question: ``chains``, ``steps``, ``fields`` by their columns, ``states``, priors."""
        del column
        given = settings_of(
            cls.word, settings, "chains", "steps", "fields", "states", "emission_prior", "transition_prior"
        )
        if not {"steps", "fields", "states"} <= set(given):
            raise InvalidValue(f"a {cls.word} needs chains, steps, fields and states")
        chains = Field.from_facts(given["chains"], facts[given.pop("chains")])
        steps, fields = (tuple(Field.from_facts(n, facts[n]) for n in given.pop(key)) for key in ("steps", "fields"))
        return cls(ChainGrid(chains, steps), fields, **given)

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a model from `to_dict`'s form."""
        state = mapping("hidden Markov model", state)
        with restoring("a hidden Markov model"):
            fields, tables = tuple(map(field_from, state["fields"])), len(state["tables"])
            grid = ChainGrid(fields[0], fields[1 : len(fields) - tables])
            priors = (state.get("emission_prior"), state.get("transition_prior", 1.0))
            return cls(grid, fields[len(fields) - tables :], state["states"], *priors)


def _check_sweeps(sweeps: int | None, burn_in: int | None, starts: int, chains: int) -> None:
    given = (("sweeps", sweeps, 1), ("burn_in", burn_in, 0), ("starts", starts, 1), ("chains", chains, 1))
    for name, value, least in given:
        if value is None and name in ("sweeps", "burn_in"):
            continue
        whole(name, value, least)
    if burn_in is not None and burn_in >= (_LEAST_SWEEPS if sweeps is None else sweeps):
        raise InvalidValue(f"burn_in must leave some of the {sweeps or _LEAST_SWEEPS} sweeps. Got {burn_in}")
