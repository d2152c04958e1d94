"""Draws of a Markov random field's natural parameters: effects, probabilities of cliques, conditional queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.latent.conditional_queries import QueriedDraws
from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.fields import Field, field_from
from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.inference.latent.log_linear import LogLinear
from sottovoce.inference.latent.variable_elimination import Factor
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import secure_rng

__all__ = ["RandomFieldPosterior", "family_of"]

JOIN = " × "


def family_of(fields: Sequence[Field], cliques: Sequence[Sequence[str]]) -> LogLinear:
    """Return the log-linear model of cliques of named fields."""
    number = {field.name: i for i, field in enumerate(fields)}
    return LogLinear(BucketTree.of([f.size for f in fields], [[number[v] for v in clique] for clique in cliques]))


@dataclass(frozen=True, eq=False, repr=False)
class RandomFieldPosterior(QueriedDraws):
    """What is known of a Markov random field. Use it as often as you like: everything here is post-processing.

    Attributes
    ----------
    fields, cliques
        The variables, and which of them meet.
    coefficients
        The natural parameters in orthonormal contrasts, (draws, coefficients).
    convergence
        Whether the chains that made the draws agree.
    """

    fields: tuple[Field, ...]
    cliques: tuple[tuple[str, ...], ...]
    coefficients: Floats
    convergence: Convergence | None = None

    def __len__(self) -> int:
        return len(self.coefficients)

    @cached_property
    def family(self) -> LogLinear:
        """The log-linear model that the draws are of."""
        return family_of(self.fields, self.cliques)

    @property
    def named(self) -> Mapping[str, Floats]:
        """The draws of every effect by the names of its variables, zero-sum along each: ``a``, ``b``, ``a × b``."""
        return dict(zip(self._terms, self.family.effects(self.coefficients), strict=True))

    @property
    def _terms(self) -> dict[str, Sequence[int]]:
        """The variables of each effect, by its name."""
        return {JOIN.join(self.fields[v].name for v in term): term for term in self.family.terms}

    def along(self, name: str) -> tuple[Sequence[Hashable], ...]:
        """Return the categories of an effect's variables."""
        return tuple(self.fields[v].categories for v in self._terms[name])

    @property
    def potentials(self) -> Floats:
        """The logarithms of all cliques' factors, (draws, cells of all cliques)."""
        return np.asarray(self.coefficients @ self.family.basis.T)

    @cached_property
    def log_normalizer(self) -> Floats:
        """The logarithm of what the factors sum to over all assignments, by draw."""
        return self.family.tree.log_normalizer(self.potentials)

    def factors(self, names: set[str]) -> Sequence[Factor]:
        """Return every clique's table; all have a say, for none sums to one."""
        del names
        tables = self.family.tree.split(self.potentials)
        tops = [t.max(axis=tuple(range(1, t.ndim)), keepdims=True) for t in tables]
        return [Factor(c, np.exp(t - top)) for c, t, top in zip(self.cliques, tables, tops, strict=True)]

    def clique_draws(self, *names: str) -> Floats:
        """Return the probabilities of a clique's cells, (draws, categories ...); the variables in the order asked."""
        for i, clique in enumerate(self.cliques):
            if sorted(clique) == sorted(names):
                flat, _ = self.family.tree.marginals(self.potentials)
                table = self.family.tree.split(flat)[i]
                return table.transpose(0, *(1 + clique.index(name) for name in names))
        known = ", ".join(f"({', '.join(c)})" for c in self.cliques)
        raise InvalidValue(f"there is no clique of {', '.join(map(str, names))}; there are {known}")

    def log_probability(self, records: Mapping[str, Sequence[Hashable]]) -> Floats:
        """Return log p(x) of each record under each draw, (draws, records); -inf where a value is in no list."""
        codes = self._codes(records)
        total: Any = -self.log_normalizer[:, None]
        for clique, table in zip(self.cliques, self.family.tree.split(self.potentials), strict=True):
            cells: Any = (slice(None), *(np.maximum(codes[name], 0) for name in clique))
            total = total + table[cells]
        outside = np.logical_or.reduce([code < 0 for code in codes.values()])
        return np.where(outside, -np.inf, total)

    def synthetic(self, count: int, rng: np.random.Generator | None = None) -> dict[str, NDArray[Any]]:
        """Return synthetic records by column, drawn exactly, all under one draw of the parameters.

        They are no data: an analysis that takes one such table for the records is far too sure.
        """
        whole("count", count, 1)
        rng = secure_rng() if rng is None else rng
        codes = self.family.tree.sample(self.potentials[int(rng.integers(len(self)))], count, rng)
        return {f.name: np.array(f.categories)[codes[i]] for i, f in enumerate(self.fields)}

    def to_dict(self) -> dict[str, object]:
        """Return the draws as plain values; `from_dict` reads them back."""
        return {
            "value": "random field posterior",
            "fields": [f.to_dict() for f in self.fields],
            "cliques": [list(clique) for clique in self.cliques],
            "coefficients": self.coefficients.tolist(),
            "convergence": None if self.convergence is None else self.convergence.to_dict(),
        }

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> RandomFieldPosterior:
        """Read draws from `to_dict`'s form."""
        with restoring("a random field's posterior"):
            return RandomFieldPosterior(
                tuple(map(field_from, state["fields"])),
                tuple(tuple(clique) for clique in state["cliques"]),
                np.asarray(state["coefficients"], dtype=np.float64),
                Convergence.from_dict(state["convergence"]) if state.get("convergence") else None,
            )
