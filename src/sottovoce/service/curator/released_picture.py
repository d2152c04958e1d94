"""All counts that a ledger keeps of the data as they are now, as one picture: what it tells is free."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.quantile_posterior import QuantilePosterior
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.searched_columns import WithinCells, searched_counts
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
from sottovoce.service.ledger import Budget, Entry
from sottovoce.service.ledger.charging import price

__all__ = ["BINS", "ReleasedPicture"]

_WITHIN_DRAWS = 50
"""Draws of how values lie within the parts of a column."""
BINS = 16
"""Into how many parts numbers are cut to be learnt, unless it is said."""


class ReleasedPicture(PaidVerbs):
    """What a `Curator` knows of its data from all that was released of them, at no cost."""

    _pictured: tuple[object, TablePicture] | None = None
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
        **options: object,
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
        promise = self.share(spend, part)
        promise = promise.under(replace(promise.relation, unit="record"))  # it is shown one record a person
        return MarginalChoice.calibrate(TableMarginals(reach.columns), n, promise, reach.marginals)

    def _counted_n(self) -> int:
        if self.n is None:
            raise InvalidValue("how many records there are is a secret here, and a table of them is of a public size")
        return self.n

    def _facts_of_rows(self) -> Facts:
        if self.facts is None:
            raise InvalidValue("what was released is put together by the facts: Curator(data, facts=..., ...)")
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
        names = [*facts, *(name for _, counted, _, _ in released for name in counted.clique)]  # derived ones, too
        known = Facts({name: facts[name] for name in dict.fromkeys(names) if isinstance(facts[name], CUT)})
        reach = within_reach(TableColumns(known, {}), released)
        if not reach.marginals:
            raise InvalidValue(
                "nothing that was released counts records of these data as they are now; ask for proportions or "
                "counts first, such as curator.counts(['ward', 'smoker'], spend=0.05)"
            )
        sources = dict.fromkeys(item.source for item in reach.marginals)
        entries = tuple(int(source.removeprefix("entry ")) for source in sources)
        within = {name: item for name, item in self._searched(part, last).items() if name in reach.columns.edges}
        posterior = TablePosterior(reach.columns, n, reach.marginals, within)
        picture = TablePicture(self.dataset, posterior, entries, (*refused, *reach.refused), self.budget.promise)
        self._pictured = key, picture
        return picture

    def _usable(self, part: Budget | None, last: int | None) -> Iterator[tuple[Entry, Any]]:
        """Yield the entries that were answered, and what was released: of a part alone, or up to an entry."""
        for entry in self.history():
            if entry.release is None or (last is not None and entry.id > last):
                continue
            if part is None or entry.budget == part.id:  # what others paid for is theirs to know
                yield entry, Release.from_json(entry.release).value

    def _searched(self, part: Budget | None, last: int | None) -> dict[str, WithinCells]:
        """Return how values of columns lie, by the last search for quantiles of all records."""
        return {
            value.question.columns_asked[0]: WithinCells.of(value, _WITHIN_DRAWS)
            for entry, value in self._usable(part, last)
            if isinstance(value, QuantilePosterior) and self._why_not(entry, value) is None
            if value.question.where is None and value.question.groups.size == 1 and value.question.facts.person is None
        }

    def _why_not(self, entry: Entry, value: object) -> str | None:
        """Return why a release is no part of the picture of the data as they are now; None where it may be."""
        if not isinstance(value, CellsPosterior | NoisyMarginals | QuantilePosterior):
            return "it is no table of counts"
        if entry.request.get("data") != self._stamp or value.n != self.n:
            return "it is about another version of the data"
        facts = value.table.facts if isinstance(value, NoisyMarginals) else value.question.facts
        now = self.facts
        if now is None or any(name not in now or now[name] != facts[name] for name in facts):
            return "its columns had other facts"
        if any(now.derivation(name) != facts.derivation(name) for name in facts):
            return "its columns were derived otherwise"
        return None

    def _released(
        self, refused: list[tuple[str, str]], part: Budget | None = None, last: int | None = None
    ) -> list[Released]:
        result: list[Released] = []
        for entry, value in self._usable(part, last):
            source, why = f"entry {entry.id}", self._why_not(entry, value)
            if why is not None:
                refused.append((source, why))
            elif isinstance(value, NoisyMarginals):
                result += [(source, *item) for item in value.counted()]
            else:
                try:
                    result.append((source, *_counted(value)))
                except InvalidValue as error:
                    refused.append((source, str(error)))
        return result


def _counted(value: CellsPosterior | QuantilePosterior) -> tuple[CountedCells, Any, Any]:
    if isinstance(value, QuantilePosterior):
        return searched_counts(value)
    counted = CountedCells.of(value.question)
    return counted, *counted.seen(value)
