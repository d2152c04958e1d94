"""All counts that a ledger keeps of the data as they are now, as one picture: what it tells is free."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.table_columns import CUT, TableColumns
from sottovoce.inference.synthesis.table_marginals import NoisyMarginals, TableMarginals
from sottovoce.inference.synthesis.table_posterior import Released, TablePosterior, within_reach
from sottovoce.mechanisms.intervals import checked_level
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown, whole
from sottovoce.records.facts import Facts
from sottovoce.service.answers.budget_account import Spend
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.answers.synthesis import RARE, KnownAnswer, Synthesis
from sottovoce.service.ledger import Budget
from sottovoce.service.ledger.charging import price

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
        notes = () if posterior.by_itself(asked) else (RARE,)
        return KnownAnswer(asked.describe(), tuple(rows), wanted, tuple(asked.label_names), entries, notes)

    def synthesize(
        self,
        columns: Sequence[str] | None = None,
        *,
        sets: int = 20,
        size: int | None = None,
        spend: Spend = 0,
        bins: int = 16,
        part: Budget | None = None,
        **options: Any,
    ) -> Synthesis:
        """Return synthetic tables of what was released of the data; unless `spend` is given, for nothing.

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
        spend
            What may be spent to learn relations of the columns first: a share of the budget, or a promise. Charged
            durably before any record is read, and once under an ``idempotency_key``.
        bins
            Into how many parts numbers are cut to be learnt, evenly between their bounds.
        part, options
            As for every verb.
        """
        whole("sets", sets, 2)
        if sets > _SETS:
            raise InvalidValue(f"sets must be at most {_SETS}. Got {sets}")
        paid = None if spend == 0 else self._learnt(columns, spend, whole("bins", bins, 2), part, options)
        if options and paid is None:
            raise InvalidValue(f"{next(iter(options))}= goes with spend=...; from what was released tables are free")
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
        entry, share = (None, 0.0) if paid is None else paid
        return Synthesis(posterior, tuple(names), sets, rows, self.dataset, entries, refused, entry, share)

    def _learnt(
        self, columns: Sequence[str] | None, spend: Spend, bins: int, part: Budget | None, options: dict[str, Any]
    ) -> tuple[int, float]:
        """Learn relations of columns, and return the entry that was charged and its share of the budget."""
        facts = self._facts_of_rows()
        names = (
            [name for name, column in facts.items() if isinstance(column, CUT)] if columns is None else list(columns)
        )
        self.refresh()
        if self.n is None:
            raise InvalidValue("how many records there are is a secret here, and a table of them is of a public size")
        chosen = Facts({name: facts[name] for name in names})
        before = [item for item in self._released([]) if set(item[1].clique) <= set(names)]
        reach = within_reach(TableColumns.even(chosen, bins), before)
        system = TableMarginals(reach.columns)
        mechanism = MarginalChoice.calibrate(system, self.n, self.share(spend, part), reach.marginals)
        done = self.answered(mechanism, part=part, **options)
        budget = self.budget if part is None else part
        return done.entry, budget.share(price(budget, done.release.profile))

    def _facts_of_rows(self) -> Facts:
        if self.facts is None:
            raise InvalidValue("what was released is put together by the facts: Curator(data, facts=..., ...)")
        if self.facts.person is not None:
            raise InvalidValue("of persons with several rows no table is put together; it is of rows alone")
        return self.facts

    def _picture(self) -> _Picture:
        """Return the posterior given all counts that were released, their entries, and what could not be used."""
        facts = self._facts_of_rows()
        self.refresh()
        if self.n is None:
            raise InvalidValue("how many records there are is a secret here, and a table of them is of a public size")
        refused: list[tuple[str, str]] = []
        released = self._released(refused)
        key = (tuple(item[0] for item in released), self._stamp)
        if self._pictured is not None and self._pictured[0] == key:
            return self._pictured[1]
        reach = within_reach(TableColumns(facts, {}), released)
        if not reach.marginals:
            raise InvalidValue(
                "nothing that was released counts records of these data as they are now; ask for proportions or "
                "counts first, such as curator.counts(['ward', 'smoker'], spend=0.05)"
            )
        sources = dict.fromkeys(item.source for item in reach.marginals)
        entries = tuple(int(source.removeprefix("entry ")) for source in sources)
        picture = TablePosterior(reach.columns, self.n, reach.marginals), entries, (*refused, *reach.refused)
        self._pictured = key, picture
        return picture

    def _released(self, refused: list[tuple[str, str]]) -> list[Released]:
        result: list[Released] = []
        for entry in self.history():
            if entry.release is None:
                continue
            source = f"entry {entry.id}"
            value = Release.from_json(entry.release).value
            if not isinstance(value, CellsPosterior | NoisyMarginals):
                refused.append((source, "it is no table of counts"))
                continue
            facts = value.question.facts if isinstance(value, CellsPosterior) else value.table.facts
            if entry.request.get("data") != self._stamp or value.n != self.n:
                refused.append((source, "it is about another version of the data"))
            elif entry.periods is not None:
                refused.append((source, "it is about some periods of the data"))
            elif self.facts is None or facts != self.facts.about(list(facts)):
                refused.append((source, "its columns had other facts"))
            elif isinstance(value, NoisyMarginals):
                result += [(source, *item) for item in value.counted()]
            else:
                try:
                    counted = CountedCells.of(value.question)
                    result.append((source, counted, *counted.seen(value)))
                except InvalidValue as error:
                    refused.append((source, str(error)))
        return result
