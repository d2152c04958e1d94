"""The facts of a table: its columns by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Column, Derived, Person
from sottovoce.records.facts.derived_columns import derived_column
from sottovoce.records.facts.derived_parser import is_expression, names_in, parse_derived
from sottovoce.records.facts.dummy_records import dummy_columns

_INLINE = 256
"""So many expressions that nobody declared are remembered."""


class Facts(Mapping[str, Column]):
    """What is public about a table, said once: the kind of each column, its bounds, its categories.

    Columns that are not named cannot be asked about. Names that are no identifiers go into a mapping. A `Derived`
    column is one like any other, and wherever a name stands, an expression may: ``facts["log(1 + cost)"]``.

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
        self._said: dict[str, Column] = given | named
        for name, column in self._said.items():
            if not isinstance(name, str) or not name:
                raise InvalidValue(f"a column's name is a text. Got {name!r}")
            if not isinstance(column, Column):
                raise InvalidValue(f"{name!r} needs a kind of column such as Number(0, 110). Got {column!r}")
        self._columns = {name: column for name, column in self._said.items() if not isinstance(column, Derived)}
        persons = [name for name, column in self._columns.items() if isinstance(column, Person)]
        if len(persons) > 1:
            raise InvalidValue(f"a record belongs to one person; give one Person. Got {', '.join(persons)}")
        self.person: str | None = persons[0] if persons else None
        self._inline: dict[str, Column] = {}
        for name, column in self._said.items():
            if isinstance(column, Derived):
                self._columns[name] = self._declared(name, column)
        self._columns = {name: self._columns[name] for name in self._said}

    def _declared(self, name: str, spec: Derived) -> Column:
        """Return what is public of a derived column, by the facts of the columns declared before it."""
        try:
            later = [source for source in names_in(parse_derived(spec.of)) if source not in self._columns]
            column = None if later else derived_column(spec, self)
        except InvalidValue as error:
            raise InvalidValue(f"{name}: {error}") from None
        if column is None:
            raise InvalidValue(f"{name}: {self._unknown(later[0])}, before it")
        return column

    def derivation(self, name: str) -> Derived | None:
        """Return how a column is derived, declared or not; None of one that the table has.

        >>> from sottovoce.records.facts.columns import Number
        >>> facts = Facts(cost=Number(1, 100), log_cost=Derived("log(cost)"))
        >>> facts.derivation("log_cost").of, facts.derivation("cost"), facts.derivation("sqrt(cost)").of
        ('log(cost)', None, 'sqrt(cost)')
        """
        column = self._said.get(name)
        if column is None and is_expression(name):
            return Derived(name)
        return column if isinstance(column, Derived) else None

    def sources(self, names: Iterable[str]) -> list[str]:
        """Return the columns of the table that some columns are made of: of one that is not derived, itself."""
        result: dict[str, None] = {}
        for name in names:
            spec = self.derivation(name)
            result |= dict.fromkeys([name] if spec is None else self.sources(names_in(parse_derived(spec.of))))
        return list(result)

    @property
    def said(self) -> dict[str, Column]:
        """The columns as they were said: how a derived one is derived, instead of what is public of it."""
        return dict(self._said)

    @property
    def held(self) -> Facts:
        """The facts of the columns that the table has: those that are not derived."""
        return Facts({name: column for name, column in self._said.items() if not isinstance(column, Derived)})

    @property
    def persons(self) -> Person | None:
        """What is said of the column that tells whose a row is; None where there is none."""
        column = None if self.person is None else self._columns[self.person]
        return column if isinstance(column, Person) else None

    def of_rows(self) -> Facts:
        """Return the same facts without the person: what is asked of them then protects a row, not a person."""
        return Facts({name: column for name, column in self._said.items() if name != self.person})

    def about(self, names: Iterable[str]) -> Facts:
        """Return the facts of some columns, of those they are derived from, and of the person."""
        wanted = dict.fromkeys([*names, *([] if self.person is None else [self.person])])
        specs = {name: self.derivation(name) for name in wanted}
        parts: dict[str, Column] = {}
        for name, spec in specs.items():
            if spec is not None:
                self[name]  # which says what is wrong with it
                parts |= self.about(names_in(parse_derived(spec.of)))._said
        return Facts(parts | {name: self[name] if spec is None else spec for name, spec in specs.items()})

    def __getitem__(self, name: str) -> Column:
        column = self._columns.get(name) if isinstance(name, str) else None
        if column is None and is_expression(name):
            column = self._inline.get(name)
            if column is None:
                column = self._derive(name)
        if column is None:
            raise InvalidValue(self._unknown(name))
        return column

    def _derive(self, text: str) -> Column:
        """Return what is public of an expression that nobody declared."""
        column = derived_column(Derived(text), self)
        if len(self._inline) >= _INLINE:
            self._inline.clear()
        self._inline[text] = column
        return column

    def _unknown(self, name: object) -> str:
        close = difflib.get_close_matches(name, self._columns, n=1) if isinstance(name, str) else []
        meant = f"did you mean {close[0]!r}? They" if close else "they"
        return f"the facts name no column {shown(name)}; {meant} name {', '.join(self._columns) or 'none'}"

    def __contains__(self, name: object) -> bool:
        """Say whether a column can be asked about: one that is named, or an expression of such."""
        if name in self._columns or name in self._inline:
            return True
        if not isinstance(name, str) or not is_expression(name):
            return False
        try:
            return self[name] is not None
        except InvalidValue:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and self._said == other._said

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Facts({{{', '.join(f'{name!r}: {column!r}' for name, column in self._said.items())}}})"

    @property
    def types(self) -> dict[str, str]:
        """The type in which each column of an untyped file is read."""
        return {part: column.type for name, column in self._said.items() for part in column.columns(name)}

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

        return pd.DataFrame(dummy_columns(self.held, n, seed, missing))

    def to_dict(self) -> dict[str, object]:
        """Return the facts as plain values; `from_dict` reads them back."""
        return {name: column.to_dict() for name, column in self._said.items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
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
