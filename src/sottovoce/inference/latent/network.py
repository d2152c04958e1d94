"""Bayesian networks of given structure: private tables, by noise on the counts or by tempered sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.class_draws import draw_classes
from sottovoce.inference.latent.count_tables import CountTables, NoisyTables
from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.fields import Field, field_from, settings_of
from sottovoce.inference.latent.fitted_tables import FittedTables
from sottovoce.inference.latent.gibbs_sampler import draw_dirichlet
from sottovoce.inference.latent.network_posterior import NetworkPosterior
from sottovoce.mechanisms.category_marginals import YES, lone_shares
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts
from sottovoce.records.readings import Statistics


@dataclass(frozen=True)
class BayesianNetwork(FittedTables[NetworkPosterior]):
    r"""Discrete variables, each with a table of probabilities given its parents.

    .. math:: p(x) = \prod_v \theta_{v \mid \mathrm{pa}(v)}(x_v \mid x_{\mathrm{pa}(v)})

    with a Dirichlet prior on every row. A record adds one to one cell of every node's table, so one record replaced
    moves all tables by 2·nodes in L1.

    Parameters
    ----------
    fields
        The nodes, with their public categories.
    parents
        The parents of each node by name; a node left out has none. Public: a structure learnt from the same records
        would have to be paid for.
    prior
        What each entry of a Dirichlet prior is worth, in records; one over the number of the node's categories where
        None.

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rain, wet = Field("rain", ("no", "yes")), Field("wet", ("no", "yes"))
    >>> network = BayesianNetwork((rain, wet), {"wet": ["rain"]})
    >>> rng = seeded_rng(1)
    >>> rains = rng.random(2000) < 0.3
    >>> wets = rng.random(2000) < np.where(rains, 0.9, 0.1)
    >>> records = {"rain": np.where(rains, "yes", "no"), "wet": np.where(wets, "yes", "no")}
    >>> mech = network.noisy_counts(n=2000, target=PureDP(1.0))
    >>> posterior = network.fit(mech.release(records, rng).value, rng=rng)
    >>> low, high = posterior.query_interval("rain", {"wet": "yes"})[1]
    >>> bool(low < 0.27 / 0.34 < high)
    True
    """

    structure: ClassVar[str] = "other parents than the network's"
    word: ClassVar[str] = "Bayesian network"
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy statistics", "tempered network")
    parameter: ClassVar[str] = "tables"
    fields: tuple[Field, ...]
    parents: Any = None
    prior: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        if not self.fields or not all(isinstance(f, Field) for f in self.fields):
            raise InvalidValue("a network takes at least one Field a node")
        for field in self.fields:
            if field.size < 2:
                raise InvalidValue(f"the node {field.name!r} has a single category, which says nothing")
        names = [f.name for f in self.fields]
        given = {} if self.parents is None else dict(self.parents)
        for node, above in given.items():
            if isinstance(above, str):
                raise InvalidValue(f"the parents of {node!r} must be a list of names. Got one text")
            for name in (node, *above):
                if name not in names:
                    raise InvalidValue(f"no node is called {name!r}; there are {', '.join(names)}")
            if len(set(above)) < len(above):
                raise InvalidValue(f"the parents of {node!r} must be different nodes")
        # Tuples, so that a network is a value that can be compared and hashed.
        object.__setattr__(self, "parents", tuple((name, tuple(given.get(name, ()))) for name in names))
        if self.prior is not None and (not isinstance(self.prior, int | float) or not 0 < self.prior < float("inf")):
            raise InvalidValue(f"prior must be a positive number. Got {self.prior!r}")
        self.tables, self.order  # noqa: B018 - nodes of one name, and cycles, are refused here

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The nodes, parents before children."""
        try:
            return tuple(TopologicalSorter(dict(self.parents)).static_order())
        except CycleError as error:
            path = " -> ".join(reversed(error.args[1]))
            raise InvalidValue(f"a node cannot be its own ancestor: {path}; take one of these edges out") from None

    @property
    def tables(self) -> CountTables:
        """What is counted: one table (parents, node) a node."""
        return CountTables(self.fields, tuple((*above, name) for name, above in self.parents))

    def _from_counts(
        self, counts: Sequence[Any], n: int | None, draws: int, rng: np.random.Generator
    ) -> NetworkPosterior:
        del n
        values = tuple(
            draw_dirichlet(np.broadcast_to(t + self.prior_of(t.shape[-1]), (draws, *t.shape)), rng) for t in counts
        )
        return NetworkPosterior(self.fields, self.parents, values)

    def prior_of(self, size: int) -> float:
        """Return what an entry of the prior of a node with so many categories is worth."""
        return 1 / size if self.prior is None else float(self.prior)

    def counts(self, records: object) -> tuple[Any, ...]:
        """Return the true counts of each node's table; of at least one record."""
        statistics = records if isinstance(records, Statistics) else self.tables.statistics(records)
        if statistics.n == 0:
            raise InvalidData("there is no record; a network needs at least one")
        return super().counts(statistics)

    def _aware(self, data: NoisyTables, draws: int, rng: np.random.Generator) -> NetworkPosterior:
        """Read each node's table by itself, n being known."""
        values, convergence, lone = [], [], {}
        beside = seeded_rng(0)  # what else is drawn stays as it is
        for crossed, table, noise in zip(data.tables.tables, data.counts, data.noises, strict=True):
            size = table.shape[-1]
            rows = table.reshape(-1, size)
            prior = self.prior_of(size)
            result = draw_classes((rows,), (noise,), data.n, prior * size, (prior,), draws, rng)
            values.append(result.features[0].reshape(draws, *table.shape))
            convergence.append(result.convergence)
            if prior < YES:
                alone = lone_shares(rows, noise, result.sizes, beside)
                lone[crossed[-1]] = alone.reshape(draws, *table.shape)
        worst = Convergence.worst_of(convergence)
        if worst is not None:
            worst.warn("take parents out of the larger tables, or ask for a larger ε")
        return NetworkPosterior(self.fields, self.parents, tuple(values), worst, lone)

    def to_dict(self) -> dict[str, object]:
        """Return the public description."""
        above = {name: list(parents) for name, parents in self.parents}
        fields = [f.to_dict() for f in self.fields]
        return {"system": self.word, "fields": fields, "parents": above, "prior": self.prior}

    @classmethod
    def from_facts(cls, settings: Mapping[str, object], facts: Facts, column: str | None = None) -> Self:
        """Return the network of a question: ``fields`` by their columns, ``parents`` of each, ``prior``."""
        del column
        given = settings_of(cls.word, settings, "fields", "parents", "prior")
        parents = given.get("parents", {})
        listed = isinstance(parents, Mapping) and all(isinstance(above, list) for above in parents.values())
        if (
            "fields" not in given
            or not listed
            or not all(isinstance(n, str) for above in parents.values() for n in above)
        ):
            raise InvalidValue(f'a {cls.word} needs fields, and parents such as {{"wet": ["rain"]}}')
        return cls(tuple(Field.from_facts(n, facts[n]) for n in given["fields"]), parents, given.get("prior"))

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a network from `to_dict`'s form."""
        state = mapping("Bayesian network", state)
        with restoring("a network"):
            return cls(tuple(map(field_from, state["fields"])), state.get("parents"), state.get("prior"))
