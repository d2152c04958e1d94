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
from sottovoce.privacy.numbers import whole
from sottovoce.records.facts import Facts
from sottovoce.service.answers.budget_account import Spend
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.answers.synthesis import KnownAnswer, Synthesis
from sottovoce.service.answers.table_picture import TablePicture, check_sets
from sottovoce.service.ledger import Budget
from sottovoce.service.ledger.charging import price

__all__ = ["BINS", "ReleasedPicture"]

BINS = 16
"""Into how many parts numbers are cut to be learnt, unless it is said."""


class ReleasedPicture(PaidVerbs):
    """What a `Curator` knows of its data from all that was released of them, at no cost."""

    _pictured: tuple[Any, TablePicture] | None = None
    """The picture as it was made last, and of what."""

    @property
    @abstractmethod
    def _stamp(self) -> str | None:
        """What an entry notes of the data as they are now."""

    def know(self, question: Question | str, *, level: float | str = 0.95, part: Budget | None = None) -> KnownAnswer:
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
        part
            A part of the budget: what was paid from it alone is known of.
        """
        checked_level(level)
        asked = self._question_of(question)
        return self.picture(part).know(asked, level)

    def synthesize(
        self,
        columns: Sequence[str] | None = None,
        *,
        sets: int = 20,
        size: int | None = None,
        spend: Spend = 0,
        bins: int = BINS,
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
        check_sets(sets)
        if spend == 0 and options:
            raise InvalidValue(f"{next(iter(options))}= goes with spend=...; from what was released tables are free")
        paid = None if spend == 0 else self.learn(columns, spend, bins=bins, part=part, **options)
        # What is released after the entry is no part of it: a retry under its key draws the same tables.
        picture = self.picture(part, None if paid is None else paid[0])
        return picture.synthesis(columns, sets, size, paid)

    def learn(
        self,
        columns: Sequence[str] | None,
        spend: Spend,
        *,
        bins: int = BINS,
        part: Budget | None = None,
        **options: Any,
    ) -> tuple[int, float]:
        """Learn relations of columns, and return the entry that was charged and its share of the budget."""
        mechanism = self.learning(columns, spend, bins=bins, part=part, key=options.get("idempotency_key"))
        done = self.answered(mechanism, part=part, **options)
        budget = self.budget if part is None else part
        return done.entry, budget.share(price(budget, done.release.profile))

    def learning(
        self,
        columns: Sequence[str] | None,
        spend: Spend,
        *,
        bins: int = BINS,
        part: Budget | None = None,
        key: str | None = None,
    ) -> MarginalChoice:
        """Return the mechanism that learns relations of columns; of a retry under its key, as it was first asked."""
        facts = self._facts_of_rows()
        names = (
            [name for name, column in facts.items() if isinstance(column, CUT)] if columns is None else list(columns)
        )
        self.refresh()
        n = self._counted_n()
        chosen = Facts({name: facts[name] for name in names})
        asked = None if key is None else self._ledger.find_key(self.budget if part is None else part, key)
        released = self._released([], part, None if asked is None else asked.id - 1)
        before = [item for item in released if set(item[1].clique) <= set(names)]
        reach = within_reach(TableColumns.even(chosen, whole("bins", bins, 2)), before)
        return MarginalChoice.calibrate(TableMarginals(reach.columns), n, self.share(spend, part), reach.marginals)

    def _counted_n(self) -> int:
        if self.n is None:
            raise InvalidValue("how many records there are is a secret here, and a table of them is of a public size")
        return self.n

    def _facts_of_rows(self) -> Facts:
        if self.facts is None:
            raise InvalidValue("what was released is put together by the facts: Curator(data, facts=..., ...)")
        if self.facts.person is not None:
            raise InvalidValue("of persons with several rows no table is put together; it is of rows alone")
        return self.facts

    def picture(self, part: Budget | None = None, last: int | None = None) -> TablePicture:
        """Return the posterior given all counts that were released: of a part alone, or up to an entry, where given."""
        facts = self._facts_of_rows()
        self.refresh()
        n = self._counted_n()
        refused: list[tuple[str, str]] = []
        released = self._released(refused, part, last)
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
        posterior = TablePosterior(reach.columns, n, reach.marginals)
        picture = TablePicture(self.dataset, posterior, entries, (*refused, *reach.refused), self.budget.promise)
        self._pictured = key, picture
        return picture

    def _released(
        self, refused: list[tuple[str, str]], part: Budget | None = None, last: int | None = None
    ) -> list[Released]:
        result: list[Released] = []
        for entry in self.history():
            if entry.release is None or (last is not None and entry.id > last):
                continue
            if part is not None and entry.budget != part.id:
                continue  # what others paid for is theirs to know
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
