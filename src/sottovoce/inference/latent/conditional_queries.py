"""Conditional queries of a model of tables, answered exactly under each of its draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.draws import NamedDraws, ends_of
from sottovoce.inference.latent.fields import Field
from sottovoce.inference.latent.variable_elimination import Factor, eliminate
from sottovoce.mechanisms.intervals import reaching
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats


class QueriedDraws(NamedDraws):
    """Draws under which a record's law is a product of tables."""

    fields: tuple[Field, ...]
    convergence: Convergence | None
    """How well the chains that made the draws agree; None where there were none."""

    def summary(self, level: float = 0.95) -> str:
        """Return every entry with its mean and interval, a line each, and how well the chains agree."""
        lines = super().summary(level)
        return lines if self.convergence is None else f"{lines}\nchains: {self.convergence.describe()}"

    @abstractmethod
    def factors(self, names: set[str]) -> Sequence[Factor]:
        """Return the tables that have a say in the joint law of these variables."""

    def _node(self, name: str) -> int:
        for i, field in enumerate(self.fields):
            if field.name == name:
                return i
        raise InvalidValue(f"no node is called {name!r}; there are {', '.join(f.name for f in self.fields)}")

    def _code(self, name: str, value: Hashable) -> int:
        field = self.fields[self._node(name)]
        if value not in field.categories:
            raise InvalidValue(f"{name!r} has no category {value!r}; it has {', '.join(map(str, field.categories))}")
        return field.categories.index(value)

    def _codes(self, records: Mapping[str, object]) -> dict[str, Any]:
        """Return the code of every value by column, -1 where it is in no list."""
        missing = [f.name for f in self.fields if f.name not in records]
        if missing:
            raise InvalidValue(f"the records have no column {missing[0]!r}")
        codes = {f.name: f.codes(records[f.name]) for f in self.fields}
        if len({code.size for code in codes.values()}) != 1:
            raise InvalidValue("every column must have one value a record; these have different lengths")
        return codes

    def asked_alone(self, target: str, evidence: Mapping[str, int]) -> Floats | None:
        """Return Pr[target | evidence], each share in it drawn as if it alone were asked for; None where none was."""
        del target, evidence
        return None

    def _evidence(self, target: str, given: Mapping[str, Hashable] | None) -> dict[str, int]:
        self._node(target)
        evidence = {name: self._code(name, value) for name, value in (given or {}).items()}
        if target in evidence:
            raise InvalidValue(f"{target!r} is asked for and given at once; leave it out of one")
        return evidence

    def query_draws(self, target: str, given: Mapping[str, Hashable] | None = None) -> Floats:
        """Return Pr[target | given] under each draw, by variable elimination: (draws, categories)."""
        evidence = self._evidence(target, given)
        factors = [factor.given(evidence) for factor in self.factors({target, *evidence})]
        joint = eliminate(factors, [target]).values
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def query(self, target: str, given: Mapping[str, Hashable] | None = None) -> Floats:
        """Return the posterior mean of Pr[target | given], one number a category."""
        return np.asarray(self.query_draws(target, given).mean(axis=0))

    def query_interval(self, target: str, given: Mapping[str, Hashable] | None = None, level: float = 0.95) -> Floats:
        """Return equal-tailed intervals of Pr[target | given], one (low, high) a category.

        They reach at least as far as where every share in them was drawn as if it alone were asked for.
        """
        ends = ends_of(self.query_draws(target, given), level)
        alone = self.asked_alone(target, self._evidence(target, given))
        return ends if alone is None else reaching(ends, ends_of(alone, level))
