"""The facts of a table: its columns by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Column, Person
from sottovoce.records.facts.dummy_records import dummy_columns

__all__ = ["Facts"]


class Facts(Mapping[str, Column]):
    """What is public about a table, said once: the kind of each column, its bounds, its categories.

    Columns that are not named cannot be asked about. Names that are no identifiers go into a mapping.

    Examples
    --------
    >>> from sottovoce.records.facts.columns import Category, Flag, Number
    >>> facts = Facts({"blood pressure": Number(60, 250)}, smoker=Flag(), ward=Category(["A", "B"]))
    >>> list(facts), facts["ward"].categories, facts.person
    (['blood pressure', 'smoker', 'ward'], ('A', 'B'), None)
    """

    def __init__(self, columns: Mapping[str, Column] | None = None, /, **named: Column) -> None:
        given = dict(columns or {})
        if twice := set(given) & set(named):
            raise InvalidValue(f"a column is named once. Got {', '.join(sorted(twice))} twice")
        self._columns: dict[str, Column] = given | named
        for name, column in self._columns.items():
            if not isinstance(name, str) or not name:
                raise InvalidValue(f"a column's name is a text. Got {name!r}")
            if not isinstance(column, Column):
                raise InvalidValue(f"{name!r} needs a kind of column such as Number(0, 110). Got {column!r}")
        persons = [name for name, column in self._columns.items() if isinstance(column, Person)]
        if len(persons) > 1:
            raise InvalidValue(f"a record belongs to one person; give one Person. Got {', '.join(persons)}")
        self.person: str | None = persons[0] if persons else None

    @property
    def persons(self) -> Person | None:
        """What is said of the column that tells whose a row is; None where there is none."""
        column = None if self.person is None else self._columns[self.person]
        return column if isinstance(column, Person) else None

    def of_rows(self) -> Facts:
        """Return the same facts without the person: what is asked of them then protects a row, not a person."""
        return Facts({name: column for name, column in self._columns.items() if name != self.person})

    def about(self, names: Iterable[str]) -> Facts:
        """Return the facts of some columns, and of the person."""
        wanted = dict.fromkeys([*names, *([] if self.person is None else [self.person])])
        return Facts({name: self[name] for name in wanted})

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            raise InvalidValue(
                f"the facts name no column {shown(name)}; they name {', '.join(self._columns) or 'none'}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Facts({{{', '.join(f'{name!r}: {column!r}' for name, column in self._columns.items())}}})"

    @property
    def types(self) -> dict[str, str]:
        """The type in which each column of an untyped file is read."""
        return {part: column.type for name, column in self._columns.items() for part in column.columns(name)}

    def dummy(self, n: int = 100, seed: int = 0, *, missing: float = 0.0) -> Any:
        """Return a data frame of `n` made-up records of this shape, to try code on: made from these facts alone.

        Parameters
        ----------
        n, seed
            How many records; the same seed makes the same ones.
        missing
            What share of the values to leave out.

        Examples
        --------
        >>> from sottovoce.records.facts.columns import Category, Number
        >>> Facts(ward=Category(["A", "B"]), age=Number(0, 110)).dummy(2, seed=1).shape
        (2, 2)
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(dummy_columns(self, n, seed, missing))

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values; `from_dict` reads them back."""
        return {name: column.to_dict() for name, column in self._columns.items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read facts from `to_dict`'s form: for each column its ``kind`` and what that kind takes."""
        columns = {}
        for name, described in mapping("table's facts", state).items():
            if not isinstance(described, Mapping):
                raise InvalidValue(f"{name!r} needs a table with its kind. Got {described!r}")
            try:
                columns[name] = Column.from_dict(described)
            except InvalidValue as error:
                raise InvalidValue(f"{name}: {error}") from None
        return cls(columns)
