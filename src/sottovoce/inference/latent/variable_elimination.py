"""Variable elimination: the exact marginal of some variables of a product of tables, for many draws at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.numbers import Floats


@dataclass(frozen=True, eq=False)
class Factor:
    """A table over some variables, draws first: (draws, size of the first variable, ...)."""

    variables: tuple[str, ...]
    values: Floats

    def given(self, evidence: Mapping[str, int]) -> Factor:
        """Return the factor where some variables have these codes."""
        index = tuple(evidence.get(v, slice(None)) for v in self.variables)
        remaining = tuple(v for v in self.variables if v not in evidence)
        return Factor(remaining, np.asarray(self.values[(slice(None), *index)]))


def eliminate(factors: Sequence[Factor], keep: Sequence[str]) -> Factor:
    """Return Σ Π factors, summed over all variables but `keep`, in the order of `keep`.

    Variables go one by one, the one whose sum leaves the smallest table first.

    Examples
    --------
    >>> a = Factor(("a",), np.array([[0.25, 0.75]]))
    >>> b = Factor(("a", "b"), np.array([[[1.0, 0.0], [0.5, 0.5]]]))
    >>> eliminate([a, b], ["b"]).values
    array([[0.625, 0.375]])
    """
    remaining = list(factors)
    sizes = {v: size for f in remaining for v, size in zip(f.variables, f.values.shape[1:], strict=True)}
    waiting = set(sizes) - set(keep)
    while waiting:
        variable = min(sorted(waiting), key=lambda v: _cells(remaining, v, sizes))
        touched = [f for f in remaining if variable in f.variables]
        remaining = [f for f in remaining if variable not in f.variables]
        remaining.append(_product(touched, [v for v in _all(touched) if v != variable]))
        waiting.remove(variable)
    return _product(remaining, keep)


def _all(factors: Iterable[Factor]) -> list[str]:
    return list(dict.fromkeys(v for f in factors for v in f.variables))


def _cells(factors: Sequence[Factor], variable: str, sizes: Mapping[str, int]) -> int:
    touched = _all(f for f in factors if variable in f.variables)
    return int(np.prod([sizes[v] for v in touched if v != variable], dtype=np.int64))


def _product(factors: Sequence[Factor], keep: Sequence[str]) -> Factor:
    """Return the product summed over all but `keep`; axis 0 of every factor is the draw."""
    number = {v: i + 1 for i, v in enumerate(dict.fromkeys([*_all(factors), *keep]))}
    operands: list[Any] = []
    for factor in factors:
        operands += [factor.values, [0, *(number[v] for v in factor.variables)]]
    einsum: Any = np.einsum  # its types do not know the form with lists of axes
    return Factor(tuple(keep), np.asarray(einsum(*operands, [0, *(number[v] for v in keep)], optimize=True)))
