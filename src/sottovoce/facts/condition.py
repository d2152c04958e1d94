"""What a condition on a record is made of: a tree whose leaves compare columns with values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["And", "Column", "Compare", "Condition", "IsMissing", "Literal", "Not", "OneOf", "Or", "Value"]

Value = int | float | str | bool


@dataclass(frozen=True)
class Literal:
    """A number, a text or a truth value written in the condition."""

    value: Value


class _Leaf:
    """A condition that is made of no others."""

    equates: ClassVar[bool] = False
    """Whether it says that a column is, or is not, a value."""

    @property
    def sides(self) -> tuple[Column | Literal, ...]:
        """The columns and the values that it speaks of, in the order they are written."""
        return tuple(side for side in vars(self).values() if isinstance(side, Column | Literal))

    def leaves(self) -> Iterator[_Leaf]:
        """Yield the condition itself."""
        yield self

    def holds(self, x: object) -> bool:
        """Say whether it holds where every column has the value x."""
        del x
        return False


@dataclass(frozen=True)
class Column(_Leaf):
    """A column by name; on its own, a condition where the column holds truth values."""

    name: str

    @property
    def sides(self) -> tuple[Column | Literal, ...]:
        """The column itself."""
        return (self,)


@dataclass(frozen=True)
class Compare(_Leaf):
    """``left sign right`` with sign one of = != < <= > >=."""

    sign: str
    left: Column | Literal
    right: Column | Literal

    @property
    def equates(self) -> bool:  # type: ignore[override]
        """Whether the sign is = or !=."""
        return self.sign in ("=", "!=")

    def holds(self, x: object) -> bool:
        """Say whether it holds where every column has the value x."""
        a, b = (side.value if isinstance(side, Literal) else x for side in (self.left, self.right))
        if self.equates:
            return (a == b) == (self.sign == "=")
        low, high = (a, b) if self.sign in ("<", "<=") else (b, a)
        assert isinstance(low, int | float) and isinstance(high, int | float)
        return low < high or (self.sign in ("<=", ">=") and low == high)


@dataclass(frozen=True)
class OneOf(_Leaf):
    """``column in (…)``, or ``not in``."""

    equates: ClassVar[bool] = True
    column: Column
    values: tuple[Literal, ...]
    negated: bool

    @property
    def sides(self) -> tuple[Column | Literal, ...]:
        """The column, and the values it may have."""
        return (self.column, *self.values)

    def holds(self, x: object) -> bool:
        """Say whether it holds where the column has the value x."""
        return (x in [literal.value for literal in self.values]) != self.negated


@dataclass(frozen=True)
class IsMissing(_Leaf):
    """``column is null``, or ``is not null``."""

    column: Column
    negated: bool


class _Branch:
    """A condition that is made of others."""

    parts: tuple[Condition, ...]

    def leaves(self) -> Iterator[_Leaf]:
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


Condition = Column | Compare | OneOf | IsMissing | Not | And | Or
