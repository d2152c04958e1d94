"""What a condition on a record is made of: a tree whose leaves compare columns with values."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

Value = int | float | str | bool

SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Every sign of a comparison, and what it says of two values, or of two expressions."""
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""What a sign is where the sides change places."""


@dataclass(frozen=True)
class Literal:
    """A number, a text or a truth value written in the condition."""

    value: Value


class _Leaf:
    """A condition that is made of no others."""

    equates: ClassVar[bool] = False
    """Whether it says that a column is, or is not, a value."""

    @property
    def sides(self) -> tuple[ColumnTerm | Literal, ...]:
        """The columns and the values that it speaks of, in the order they are written."""
        return tuple(side for side in vars(self).values() if isinstance(side, ColumnTerm | Literal))

    def leaves(self: Leaf) -> Iterator[Leaf]:  # type: ignore[misc]
        """Yield the condition itself."""
        yield self


@dataclass(frozen=True)
class ColumnTerm(_Leaf):
    """A column by name; on its own, a condition where the column holds truth values."""

    name: str

    @property
    def sides(self) -> tuple[ColumnTerm | Literal, ...]:
        """The column itself."""
        return (self,)

    def holds(self, x: object) -> bool:
        """Say whether x is true."""
        return bool(x == 1)


@dataclass(frozen=True)
class Compare(_Leaf):
    """``left sign right`` with one of the `SIGNS`; a value is on the right, wherever it was written."""

    sign: str
    left: ColumnTerm
    right: ColumnTerm | Literal

    @property
    def equates(self) -> bool:  # type: ignore[override]
        """Whether the sign is = or !=."""
        return self.sign in ("=", "!=")

    def holds(self, x: Any) -> bool:
        """Say whether it holds where every column has the value x."""
        return bool(SIGNS[self.sign](x, self.right.value if isinstance(self.right, Literal) else x))


@dataclass(frozen=True)
class OneOf(_Leaf):
    """``column in (…)``, or ``not in``."""

    equates: ClassVar[bool] = True
    column: ColumnTerm
    values: tuple[Literal, ...]
    negated: bool

    @property
    def sides(self) -> tuple[ColumnTerm | Literal, ...]:
        """The column, and the values it may have."""
        return (self.column, *self.values)

    def holds(self, x: object) -> bool:
        """Say whether it holds where the column has the value x."""
        return (x in [literal.value for literal in self.values]) != self.negated


@dataclass(frozen=True)
class IsMissing(_Leaf):
    """``column is null``, or ``is not null``."""

    column: ColumnTerm
    negated: bool

    def holds(self, x: object) -> bool:
        """Say whether it holds where the column has the value x, which is there."""
        del x
        return self.negated


class _Branch:
    """A condition that is made of others."""

    parts: tuple[Condition, ...]

    def leaves(self) -> Iterator[Leaf]:
        """Yield the conditions at its ends, in the order they are written."""
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True)
class Not(_Branch):
    """The opposite of a condition."""

    part: Condition

    @property
    def parts(self) -> tuple[Condition, ...]:  # type: ignore[override]
        """The one part."""
        return (self.part,)

    def holds(self, x: object) -> bool:
        """Say whether the part does not hold."""
        return not self.part.holds(x)


@dataclass(frozen=True)
class And(_Branch):
    """All parts hold."""

    parts: tuple[Condition, ...]

    def holds(self, x: object) -> bool:
        """Say whether all parts hold."""
        return all(part.holds(x) for part in self.parts)


@dataclass(frozen=True)
class Or(_Branch):
    """Some part holds."""

    parts: tuple[Condition, ...]

    def holds(self, x: object) -> bool:
        """Say whether some part holds."""
        return any(part.holds(x) for part in self.parts)


Leaf = ColumnTerm | Compare | OneOf | IsMissing
Condition = Leaf | Not | And | Or
