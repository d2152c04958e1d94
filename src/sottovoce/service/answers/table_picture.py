"""The picture of a table that was released, as a value: it answers questions and draws tables wherever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.table_posterior import TablePosterior
from sottovoce.mechanisms.intervals import checked_level
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import shown, whole
from sottovoce.privacy.promises import Promise
from sottovoce.service.answers.synthesis import RARE, KnownAnswer, Synthesis

__all__ = ["TablePicture", "check_sets"]

_SETS = 200
"""The most tables at once."""
_ROWS = 10_000_000
"""The most rows of each."""


def check_sets(sets: int) -> int:
    """Return how many tables are asked for, or raise `InvalidValue`."""
    if whole("sets", sets, 2) > _SETS:
        raise InvalidValue(f"sets must be at most {_SETS}. Got {sets}")
    return sets


@dataclass(frozen=True, eq=False)
class TablePicture:
    """The posterior of a table given all counts that were released of it. What follows from it is free.

    Attributes
    ----------
    dataset
        Of which data.
    posterior
        The field given all counts that were released.
    entries
        The entries of the ledger that these are from.
    refused
        Entries that are no part of it, and why.
    promise
        What all releases of the data keep together.
    """

    dataset: str
    posterior: TablePosterior
    entries: tuple[int, ...]
    refused: tuple[tuple[str, str], ...] = ()
    promise: Promise | None = None

    def know(self, question: Question, level: float | str = 0.95) -> KnownAnswer:
        """Return what is known of a share or a count."""
        wanted = checked_level(level)
        rows = self.posterior.rows(question, wanted)
        notes = () if self.posterior.by_itself(question) else (RARE,)
        return KnownAnswer(question.describe(), tuple(rows), wanted, tuple(question.label_names), self.entries, notes)

    def synthesis(
        self,
        columns: Sequence[str] | None = None,
        sets: int = 20,
        size: int | None = None,
        paid: tuple[int, float] | None = None,
    ) -> Synthesis:
        """Return tables drawn from it.

        Parameters
        ----------
        columns, sets, size
            Which columns they have, how many there are, and their rows; all columns that something was released of,
            and as many rows as the data have, unless given.
        paid
            The entry that relations were learnt under, and its share of the budget.
        """
        posterior = self.posterior
        known = {name for item in posterior.marginals for name in item.clique}
        names = [name for name in posterior.fit.names if name in known] if columns is None else list(columns)
        if not names or len(set(names)) < len(names):
            raise InvalidValue(f"tables have one column or more, each named once. Got {shown(names)}")
        for name in names:
            if name not in known:
                raise InvalidValue(
                    f"nothing that was released tells of {shown(name)}; there are {', '.join(sorted(known))}"
                )
        rows = posterior.n if size is None else whole("size", size, 1)
        if rows > _ROWS:
            raise InvalidValue(f"size must be at most {_ROWS:,}. Got {rows:,}")
        entry, share = paid or (None, 0.0)
        return Synthesis(
            posterior,
            tuple(names),
            check_sets(sets),
            rows,
            self.dataset,
            self.entries,
            self.refused,
            entry,
            share,
            self.promise,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the picture as plain values; `from_dict` reads it back, and draws the same tables."""
        return {
            "dataset": self.dataset,
            "released": self.posterior.to_dict(),
            "entries": list(self.entries),
            "refused": [list(item) for item in self.refused],
            "promise": None if self.promise is None else self.promise.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a picture from `to_dict`'s form."""
        state = mapping("what was released", state)
        with restoring("what was released"):
            posterior = TablePosterior.from_dict(state["released"])
            refused = tuple((str(source), str(why)) for source, why in state["refused"])
            entries = tuple(map(int, state["entries"]))
            promise = None if state["promise"] is None else Promise.from_dict(state["promise"])
            return cls(str(state["dataset"]), posterior, entries, refused, promise)
