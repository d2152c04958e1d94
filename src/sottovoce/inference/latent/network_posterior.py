"""Draws of a Bayesian network's tables: intervals, synthetic records, and exact answers to conditional queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.latent.conditional_queries import QueriedDraws
from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.draws import lone_from, lone_state
from sottovoce.inference.latent.fields import Field, field_from
from sottovoce.inference.latent.variable_elimination import Factor, eliminate
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, Integers, whole
from sottovoce.privacy.randomness import secure_rng


@dataclass(frozen=True, eq=False, repr=False)
class NetworkPosterior(QueriedDraws):
    """What is known of a network's tables. Use it as often as you like: everything here is post-processing.

    Attributes
    ----------
    fields, parents
        The nodes, and the parents of each.
    values
        For each node Pr[node | parents], (draws, categories of the parents ..., categories).
    convergence
        Whether the chains that made the draws agree; None where no chain was needed.
    lone
        Draws of each entry of a node's table as if it alone were asked for.
    """

    fields: tuple[Field, ...]
    parents: tuple[tuple[str, tuple[str, ...]], ...]
    values: tuple[Floats, ...]
    convergence: Convergence | None = None
    lone: Mapping[str, Floats] | None = None

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def named(self) -> Mapping[str, Floats]:
        """The draws of each node's table by its name."""
        return {field.name: draws for field, draws in zip(self.fields, self.values, strict=True)}

    def along(self, name: str) -> tuple[Sequence[Hashable], ...]:
        """Return the categories of a node's parents, and its own last."""
        above = next(parents for node, parents in self.parents if node == name)
        return tuple(self.fields[self._node(item)].categories for item in (*above, name))

    def asked_alone(self, target: str, evidence: Mapping[str, int]) -> Floats | None:
        """Return Pr[target | evidence] where what is given, and each answer, was drawn as if it alone were asked for.

        An answer's share in a row of the target's table is then drawn alone, and the others share what it leaves.
        """
        lone, named = self.lone or {}, self.named
        if not lone.keys() & {target, *evidence}:
            return None
        given = replace(self, values=tuple(lone.get(v, named[v]) if v in evidence else named[v] for v in named))
        remainder = [f.given(evidence) for f in given.factors({target, *evidence}) if f.variables[-1] != target]
        family = (*dict(self.parents)[target], target)
        usual, alone = (
            Factor(family, draws).given(evidence) for draws in (named[target], lone.get(target, named[target]))
        )
        free = usual.variables
        beside = eliminate([Factor(free, np.ones_like(usual.values)), *remainder], free).values
        yes = alone.values * beside
        no = (1 - alone.values) * _others(usual.values * beside) / np.maximum(_others(usual.values), 1e-300)
        above = tuple(range(1, yes.ndim - 1))
        return np.asarray(yes.sum(axis=above) / np.maximum((yes + no).sum(axis=above), 1e-300))

    def table(self, name: str) -> Floats:
        """Return the posterior mean of Pr[node | parents], parents first."""
        return np.asarray(self.values[self._node(name)].mean(axis=0))

    def factors(self, names: set[str]) -> list[Factor]:
        """Return the tables of these nodes and of those above them; every other one sums to one."""
        matters = self._ancestors(names)
        return [
            Factor((*above, name), table)
            for (name, above), table in zip(self.parents, self.values, strict=True)
            if name in matters
        ]

    def _ancestors(self, names: set[str]) -> set[str]:
        above, result = dict(self.parents), set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in result:
                result.add(name)
                waiting += above[name]
        return result

    def synthetic(self, count: int, rng: np.random.Generator | None = None) -> dict[str, NDArray[Any]]:
        """Return synthetic records by column, parents before children, all under one draw of the tables.

        They are no data: an analysis that takes one such table for the records is far too sure.
        """
        whole("count", count, 1)
        rng = secure_rng() if rng is None else rng
        draw = int(rng.integers(len(self)))
        codes: dict[str, Integers] = {}
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

    def log_likelihood(self, records: Mapping[str, object]) -> Floats:
        """Return Σ log p(record) under each draw, over the records that hold known categories alone."""
        codes = self._codes(records)
        inside = np.logical_and.reduce([code >= 0 for code in codes.values()])
        codes = {name: code[inside] for name, code in codes.items()}
        total = np.zeros(len(self))
        for (name, above), table in zip(self.parents, self.values, strict=True):
            cells = tuple(codes[v] for v in (*above, name))
            counts = np.bincount(np.ravel_multi_index(cells, table.shape[1:]), minlength=table[0].size)
            total += np.log(table.reshape(len(self), -1)) @ counts
        return total

    def to_dict(self) -> dict[str, object]:
        """Return the draws as plain values; `from_dict` reads them back."""
        return {
            "value": "network posterior",
            "fields": [f.to_dict() for f in self.fields],
            "parents": [[name, list(above)] for name, above in self.parents],
            "values": [table.tolist() for table in self.values],
        } | lone_state(self.lone)

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NetworkPosterior:
        """Read draws from `to_dict`'s form."""
        with restoring("a network posterior"):
            return NetworkPosterior(
                tuple(map(field_from, state["fields"])),
                tuple((name, tuple(above)) for name, above in state["parents"]),
                tuple(np.asarray(table, dtype=np.float64) for table in state["values"]),
                lone=lone_from(state),
            )


def _others(parts: Floats) -> Floats:
    """Return the sum of all other entries along the last axis, which is not lost where one has next to all."""
    result = np.zeros((2, *parts.shape))
    np.cumsum(parts[..., :-1], axis=-1, out=result[0, ..., 1:])
    np.cumsum(parts[..., :0:-1], axis=-1, out=result[1, ..., 1:])
    return np.asarray(result[0] + result[1, ..., ::-1])
