"""Draws of a Bayesian network's tables: intervals, synthetic records, and exact answers to conditional queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.latent.diagnostics import Convergence
from sottovoce.latent.draws import NamedDraws, ends_of
from sottovoce.latent.elimination import Factor, eliminate
from sottovoce.latent.fields import Field, field_from
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import secure_rng

__all__ = ["NetworkPosterior"]


@dataclass(frozen=True, eq=False)
class NetworkPosterior(NamedDraws):
    """What is known of a network's tables. Use it as often as you like: everything here is post-processing.

    Attributes
    ----------
    fields, parents
        The nodes, and the parents of each.
    values
        For each node Pr[node | parents], (draws, categories of the parents ..., categories).
    convergence
        Whether the chains that made the draws agree; None where no chain was needed.
    """

    fields: tuple[Field, ...]
    parents: tuple[tuple[str, tuple[str, ...]], ...]
    values: tuple[Floats, ...]
    convergence: Convergence | None = None

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def named(self) -> Mapping[str, Floats]:
        """The draws of each node's table by its name."""
        return {field.name: draws for field, draws in zip(self.fields, self.values, strict=True)}

    def _node(self, name: str) -> int:
        for i, field in enumerate(self.fields):
            if field.name == name:
                return i
        raise InvalidValue(f"no node is called {name!r}; there are {', '.join(f.name for f in self.fields)}")

    def table(self, name: str) -> Floats:
        """Return the posterior mean of Pr[node | parents], parents first."""
        return np.asarray(self.values[self._node(name)].mean(axis=0))

    def query_draws(self, target: str, given: Mapping[str, Hashable] | None = None) -> Floats:
        """Return Pr[target | given] under each draw, by variable elimination: (draws, categories)."""
        self._node(target)
        evidence = {name: self._code(name, value) for name, value in (given or {}).items()}
        if target in evidence:
            raise InvalidValue(f"{target!r} is asked for and given at once; leave it out of one")
        matters = self._ancestors({target, *evidence})  # every other table sums to one
        factors = [
            Factor((*above, name), table).given(evidence)
            for (name, above), table in zip(self.parents, self.values, strict=True)
            if name in matters
        ]
        joint = eliminate(factors, [target]).values
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def query(self, target: str, given: Mapping[str, Hashable] | None = None) -> Floats:
        """Return the posterior mean of Pr[target | given], one number a category."""
        return np.asarray(self.query_draws(target, given).mean(axis=0))

    def query_interval(self, target: str, given: Mapping[str, Hashable] | None = None, level: float = 0.95) -> Floats:
        """Return equal-tailed intervals of Pr[target | given], one (low, high) a category."""
        return ends_of(self.query_draws(target, given), level)

    def _code(self, name: str, value: Hashable) -> int:
        field = self.fields[self._node(name)]
        if value not in field.categories:
            raise InvalidValue(f"{name!r} has no category {value!r}; it has {', '.join(map(str, field.categories))}")
        return field.categories.index(value)

    def _ancestors(self, names: set[str]) -> set[str]:
        above, found = dict(self.parents), set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += above[name]
        return found

    def synthetic(self, count: int, rng: np.random.Generator | None = None) -> dict[str, NDArray[Any]]:
        """Return synthetic records by column, parents before children, all under one draw of the tables."""
        whole("count", count, 1)
        rng = secure_rng() if rng is None else rng
        draw = int(rng.integers(len(self)))
        codes: dict[str, NDArray[np.int64]] = {}
        waiting = list(range(len(self.fields)))
        while waiting:
            ready = next(i for i in waiting if all(parent in codes for parent in self.parents[i][1]))
            name, above = self.parents[ready]
            rows = self.values[ready][draw][tuple(codes[parent] for parent in above)]
            steps = np.cumsum(np.broadcast_to(rows, (count, rows.shape[-1])), axis=1)
            drawn = (rng.random((count, 1)) * steps[:, -1:] >= steps).sum(axis=1)
            codes[name] = np.minimum(drawn, rows.shape[-1] - 1)
            waiting.remove(ready)
        return {f.name: np.array(f.categories)[codes[f.name]] for f in self.fields}

    def log_likelihood(self, records: Mapping[str, Any]) -> Floats:
        """Return Σ log p(record) under each draw, over the records that hold known categories alone."""
        codes = {f.name: f.codes(records[f.name]) for f in self.fields if f.name in records}
        missing = [f.name for f in self.fields if f.name not in codes]
        if missing:
            raise InvalidValue(f"the records have no column {missing[0]!r}")
        if len({code.size for code in codes.values()}) != 1:
            raise InvalidValue("every column must have one value a record; these have different lengths")
        inside = np.logical_and.reduce([code >= 0 for code in codes.values()])
        codes = {name: code[inside] for name, code in codes.items()}
        total = np.zeros(len(self))
        for (name, above), table in zip(self.parents, self.values, strict=True):
            cells = tuple(codes[v] for v in (*above, name))
            counts = np.bincount(np.ravel_multi_index(cells, table.shape[1:]), minlength=table[0].size)
            total += np.log(table.reshape(len(self), -1)) @ counts
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return the draws as plain values; `from_dict` reads them back."""
        return {
            "value": "network posterior",
            "fields": [f.to_dict() for f in self.fields],
            "parents": [[name, list(above)] for name, above in self.parents],
            "values": [table.tolist() for table in self.values],
        }

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NetworkPosterior:
        """Read draws from `to_dict`'s form."""
        try:
            return NetworkPosterior(
                tuple(map(field_from, state["fields"])),
                tuple((name, tuple(above)) for name, above in state["parents"]),
                tuple(np.asarray(table, dtype=np.float64) for table in state["values"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValue(f"cannot read a network posterior: {error}") from None
