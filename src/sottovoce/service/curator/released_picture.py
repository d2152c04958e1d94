"""All counts that a ledger keeps of the data as they are now, as one picture: what it tells is free."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_posterior import TablePosterior, within_reach
from sottovoce.mechanisms.intervals import checked_level
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown, whole
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.answers.synthesis import KnownAnswer, Synthesis

__all__ = ["ReleasedPicture"]

_SETS = 200
"""The most tables at once."""
_ROWS = 10_000_000
"""The most rows of each."""

_Picture = tuple[TablePosterior, tuple[int, ...], tuple[tuple[str, str], ...]]
"""The posterior given all counts that were released, their entries, and what could not be used and why."""


class ReleasedPicture(PaidVerbs):
    """What a `Curator` knows of its data from all that was released of them, at no cost."""

    _pictured: tuple[Any, _Picture] | None = None
    """The picture as it was made last, and of what."""

    @property
    @abstractmethod
    def _stamp(self) -> str | None:
        """What an entry notes of the data as they are now."""

    def know(self, question: Question | str, *, level: float | str = 0.95) -> KnownAnswer:
        """Return what is known of a share or a count from what was released before; nothing is read and nothing spent.

        All counts that were released of these data, and of no other version of them, are taken together, so that two
        questions are never answered in contradiction. A question that needs a relation of columns which nothing
        released keeps is refused.

        Parameters
        ----------
        question
            As `ask` takes it: ``"share of smoker by ward where age >= 65"``.
        level
            Of the intervals.
        """
        wanted, asked = checked_level(level), self._question_of(question)
        posterior, entries, _ = self._picture()
        rows = posterior.rows(asked, wanted)
        return KnownAnswer(asked.describe(), tuple(rows), wanted, tuple(asked.label_names), entries)

    def synthesize(self, columns: Sequence[str] | None = None, *, sets: int = 20, size: int | None = None) -> Synthesis:
        """Return synthetic tables of what was released of the data; nothing is read and nothing spent.

        Each table is drawn under its own draw of the posterior, so that analyses of all of them, put together by
        `sottovoce.combine`, know of the noise. They are the same whenever they are drawn of the same releases.

        Parameters
        ----------
        columns
            Which columns the tables have; all that something was released of unless given.
        sets
            How many tables.
        size
            Their rows; as many as the data have unless given.
        """
        whole("sets", sets, 2)
        if sets > _SETS:
            raise InvalidValue(f"sets must be at most {_SETS}. Got {sets}")
        posterior, entries, refused = self._picture()
        known = {name for item in posterior.marginals for name in item.clique}
        names = [name for name in posterior.fit.names if name in known] if columns is None else list(columns)
        for name in names:
            if name not in known:
                raise InvalidValue(
                    f"nothing that was released tells of {shown(name)}; there are {', '.join(sorted(known))}"
                )
        rows = posterior.n if size is None else whole("size", size, 1)
        if rows > _ROWS:
            raise InvalidValue(f"size must be at most {_ROWS:,}. Got {rows:,}")
        return Synthesis(posterior, tuple(names), sets, rows, self.dataset, entries, refused)

    def _picture(self) -> _Picture:
        """Return the posterior given all counts that were released, their entries, and what could not be used."""
        if self.facts is None:
            raise InvalidValue("what was released is put together by the facts: Curator(data, facts=..., ...)")
        if self.facts.person is not None:
            raise InvalidValue("of persons with several rows no table is put together; it is of rows alone")
        self.refresh()
        if self.n is None:
            raise InvalidValue("how many records there are is a secret here, and a table of them is of a public size")
        refused: list[tuple[str, str]] = []
        released = self._released(refused)
        key = (tuple(source for source, _, _ in released), self._stamp)
        if self._pictured is not None and self._pictured[0] == key:
            return self._pictured[1]
        reach = within_reach(TableColumns(self.facts, {}), released)
        if not reach.marginals:
            raise InvalidValue(
                "nothing that was released counts records of these data as they are now; ask for proportions or "
                "counts first, such as curator.counts(['ward', 'smoker'], spend=0.05)"
            )
        entries = tuple(int(item.source.removeprefix("entry ")) for item in reach.marginals)
        picture = TablePosterior(reach.columns, self.n, reach.marginals), entries, (*refused, *reach.refused)
        self._pictured = key, picture
        return picture

    def _released(self, refused: list[tuple[str, str]]) -> Sequence[tuple[str, CountedCells, Any]]:
        result = []
        for entry in self.history():
            if entry.release is None:
                continue
            source = f"entry {entry.id}"
            value = Release.from_json(entry.release).value
            if not isinstance(value, CellsPosterior):
                refused.append((source, "it is no table of counts"))
            elif entry.request.get("data") != self._stamp or value.n != self.n:
                refused.append((source, "it is about another version of the data"))
            elif entry.periods is not None:
                refused.append((source, "it is about some periods of the data"))
            elif value.question.facts != self.facts.about(list(value.question.facts)):  # type: ignore[union-attr]
                refused.append((source, "its columns had other facts"))
            else:
                try:
                    result.append((source, CountedCells.of(value.question), value))
                except InvalidValue as error:
                    refused.append((source, str(error)))
        return result
