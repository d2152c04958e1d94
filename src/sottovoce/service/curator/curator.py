"""The curator: some data, their budget, and the one door between them."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.filter import Order
from sottovoce.privacy.numbers import real, shown
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.records.facts import Facts, read_facts
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.notebook_repr import curator_html
from sottovoce.service.answers.period_words import within_one
from sottovoce.service.answers.replayed_answer import answer_again, entry_of, verb_of
from sottovoce.service.answers.rows_per_person import RowsOfPersons
from sottovoce.service.answers.together import told_together, told_with
from sottovoce.service.curator.budget_opening import (
    check_pays,
    check_period,
    divided,
    hides_n,
    is_new,
    open_budget,
    tell_of_erased,
    tell_of_types,
)
from sottovoce.service.curator.data_source import DataSource, origin_of
from sottovoce.service.curator.duplicate_questions import AnsweredQuestions, AskedQuestion
from sottovoce.service.curator.privacy_unit import Protected
from sottovoce.service.curator.readable_records import HeldTable, Reachable, check_columns, on_the_grid, open_known
from sottovoce.service.curator.released_picture import ReleasedPicture
from sottovoce.service.curator.unread_releases import UnreadReleases
from sottovoce.service.ledger import Budget, Ledger

__all__ = ["Curator"]

_SECRET_GRID = 1.0
"""Where n is a secret, answers leave after a second, two, four …, unless said otherwise: n says how long it takes."""


_TOLD_WITH = 10
"""Told with an answer are so many earlier ones, the dearest: all of their rounds are solved for at once."""


class Curator(UnreadReleases, ReleasedPicture, RowsOfPersons):
    """Releases from one data set, each charged to its budget before any record is read.

    Parameters
    ----------
    data
        What `open_table` opens (a path, an address, a frame), or a table that is open already.
    ledger
        A `Ledger`, or where it is: ``sqlite:///patients.ledger``, ``postgresql+psycopg://...``, a path.
    budget
        What all releases together keep, or its text, ``"approx:1,1e-6"``. Opens the budget the first time; later it
        may be left out, and must be the same where it is given.
    dataset
        What the ledger calls the data; its resolved path or address unless given. By whatever name, the data of one
        file or table have one budget in a ledger.
    facts
        What is public of the columns, or the TOML file that says so: what a missing value counts as, the types of a
        CSV file, the bounds and classes of what `fit` fits, whose a row is.
    protect
        ``"persons"``: every promise is about all rows of a person together, n is the number of persons, and a person
        is one record in every answer. The default where the facts name a `Person`. ``"rows"`` must be said: every
        promise is then about a row, not a person.
    types
        For CSV, the types of columns that are not text, where no facts say; see `open_table`.
    n
        ``"private"`` where how many records there are, and so whether anyone is among them, is a secret: the budget is
        then about one record added or removed (`ADD_REMOVE`), and n is counted by noise alone. Otherwise n is public.
        Fixed when the budget is opened.
    order
        The Rényi order at which an ``ApproxDP`` budget is counted, or ``"gaussian"`` to count μ²; fixed when it is
        opened.
    who
        Who asks; the user's name unless given.
    keep_values
        Whether the ledger keeps the releases themselves, or only their hashes.
    anchor
        Where else to note how far the ledger has come, as in `Ledger`; for a ledger that is not open yet.
    time_grid
        Seconds. A release is handed over so long after its records began to be read, or after twice, four times, eight
        times as long: how long reading and sampling took between two of these tells nothing. None hands it over at
        once, or after a second (two, four …) where n is private; a server paces its answers by itself.

    grows
        Whether the data gain, lose and correct records while the budget goes on: True declares that they do, from now
        on and for good. Each answer is then about the data of its moment, and their number is public each time. A
        record must never decide whether others are there or what they hold; see *Tables that grow* in the docs.
    period
        What says the period of a record, such as ``"admitted: monthly"`` (weekly, quarterly, yearly), ``"ward"`` or
        ``"age: under 18, 18-64, 65+"``: the promise is then about records of one period, each period has the budget to
        itself, and a question is charged to those that its condition can reach. Fixed for good once it is said, and of
        an open budget all that it spent counts in every period; see *A budget for each month* in the docs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow as pa
    >>> from sottovoce.mechanisms import DiffusedPosterior
    >>> from sottovoce.privacy.promises import RenyiDP
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> data = pa.table({"smoker": [True, False, False, True] * 25})
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "patients.ledger"
    >>> target = RenyiDP(order=2, epsilon=0.1)
    >>> mech = DiffusedPosterior.calibrate(BetaBernoulli(6, 12), n=100, target=target)
    >>> with Curator(data, place, RenyiDP(order=2, epsilon=1.0), dataset="patients") as curator:
    ...     release = curator.release(mech, "smoker")
    ...     0 < release.value < 1, len(curator.history()), round(curator.remaining().epsilon, 6)
    (True, 1, 0.9)
    """

    def __init__(
        self,
        data: object,
        ledger: Ledger | str | os.PathLike[str],
        budget: Promise | str | None = None,
        *,
        facts: Facts | str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        types: Mapping[str, str] | None = None,
        n: Literal["private"] | None = None,
        order: Order | None = None,
        who: str | None = None,
        keep_values: bool = True,
        anchor: str | os.PathLike[str] | None = None,
        time_grid: float | None = None,
        protect: str | None = None,
        grows: bool | None = None,
        period: str | None = None,
    ) -> None:
        budget = parse_promise(budget) if isinstance(budget, str) else budget
        self._time_grid = None if time_grid is None else real("time_grid", time_grid, above=0.0)
        self.who = _user() if who is None else who
        self._keep = keep_values
        self._turn = threading.RLock()
        said = facts if facts is None or isinstance(facts, Facts) else read_facts(facts)
        self._protected = Protected.of(said, protect)
        self.facts, self.person = self._protected.facts, self._protected.person
        self.protects_rows_of_persons = self._protected.rows_of_persons
        with contextlib.ExitStack() as opened:
            inner = contextlib.ExitStack()
            opened.callback(inner.close)
            self._former = self._held = HeldTable(open_known(data, self.facts, types, inner), inner)
            if dataset is not None and not isinstance(dataset, str):
                raise InvalidValue(f"dataset= is a name, a text. Got {shown(dataset)}")
            named = isinstance(data, str | os.PathLike)
            self._reopen = functools.partial(open_known, data, self.facts, types) if named else None
            self._reopen = getattr(data, "reopened", self._reopen)
            name = dataset or getattr(origin_of(self._table), "identity", None)
            if not name:
                raise InvalidValue("this data has no name of its own; say dataset=... to name it in the ledger")
            self.dataset = str(name)
            if isinstance(ledger, Ledger):
                if anchor is not None:
                    raise InvalidValue("this ledger is open already; say anchor=... where it is opened")
                self._ledger = ledger
            else:
                if budget is not None:
                    hidden = hides_n(budget, n)
                    if is_new(ledger):
                        check_columns(self._table, self.facts)
                        check_pays(budget, order)  # a budget that is refused leaves no ledger behind
                        if period is not None:
                            check_period(period, self.facts, self._table.schema, hidden=hidden)
                        if not hidden:
                            self._public_n  # noqa: B018 - nor do data without records
                self._ledger = opened.enter_context(Ledger(ledger, create=budget is not None, anchor=anchor))
            self._answered = AnsweredQuestions(self._ledger)
            about: dict[str, Any] = {"promise": budget, "said": n, "order": order, "who": self.who}
            about |= {"named": dataset is not None, "count": lambda: self._public_n, "grows": grows, "period": period}
            self.budget, self._source, self.version = open_budget(
                self._ledger, self.dataset, self._table, self._protected, **about
            )
            self.dataset = self.budget.dataset
            self._division, self.periods = divided(
                self._ledger, self.budget, self._table.schema, self.facts, period, self.who
            )
            if self.budget.n is None and time_grid is None:
                self._time_grid = _SECRET_GRID
            self._opened = opened.pop_all()

    @functools.cached_property
    def _public_n(self) -> int:
        if (n := self._protected.count(self._table)) == 0:
            raise InvalidData(f"{self.dataset!r} has no {self._protected.units}")
        return n

    def again(self, entry: int, *, level: float | str = 0.95, part: Budget | None = None) -> Any:
        """Return an answer that was paid for before, by the number of its entry, with intervals of a level; free.

        It is made of what the ledger kept: nothing is read and nothing spent. `history` lists the entries. With `part`,
        an answer that this part paid for, and nobody else's.
        """
        wanted = checked_level(level)
        mine = [item for item in self._ledger.budgets() if self.budget.id in (item.id, item.whole)]
        paid = mine if part is None else [self._part(part)]
        return answer_again(*entry_of(self._ledger, entry, paid), wanted)

    def finish(self, entry: int, *, level: float | str = 0.95) -> Any:
        """Return the answer of an entry that was paid for, and whose records went away before any of them was read.

        Free, and the one release that was charged: see `finished`. Of an entry that asked no question, its release.
        """
        wanted = checked_level(level)
        done = self.finished(entry)
        mine = [item for item in self._ledger.budgets() if self.budget.id in (item.id, item.whole)]
        known, budget = entry_of(self._ledger, entry, mine)
        return done.release if verb_of(known.request) is None else answer_again(known, budget, wanted)

    def together(self, entries: Sequence[int], *, level: float | str = 0.95) -> Answer:
        """Return what several answers to one question tell together, narrower than each; free.

        They are given by the numbers of their entries, and are about the same version of the data.
        """
        if not isinstance(entries, list | tuple):
            raise InvalidValue(f"name the entries, such as [3, 7]. Got {shown(entries)}")
        mine = [item for item in self._ledger.budgets() if self.budget.id in (item.id, item.whole)]
        return told_together([entry_of(self._ledger, entry, mine) for entry in entries], level)

    def _told_with_earlier(self, answer: Answer, budget: Budget) -> Answer:
        every = self._answered.every(budget, answer.question, self._stamp)
        dearest = sorted((item for item in every if item.id != answer.entry), key=lambda item: item.cost)[-_TOLD_WITH:]
        others = sorted(item.id for item in dearest)
        return told_with(answer, [entry_of(self._ledger, other, [budget]) for other in others])

    def answered_before(self, question: AskedQuestion, part: Budget | None = None) -> int | None:
        """Return the entry of an answer that these data gave to a question lately, if there is one: `again` is free."""
        budget = self.budget if part is None else self._part(part)
        return self._answered.entry(budget, question, self._stamp)

    @property
    def n(self) -> int | None:
        """How many records there are now, or persons where these are protected; None where that is a secret."""
        return self.budget.n if self.version is None else self.version.n

    @property
    def records(self) -> Any:
        """The table, as it was opened last."""
        return self._table

    @property
    def grows(self) -> bool:
        """Whether the data were declared to grow."""
        return self.version is not None

    def refresh(self) -> None:
        """Take data that grow as they are now: opened anew where they were written again, and noted in the ledger.

        Every verb does so first. Reads no record but to count them, and spends nothing. Data that were given as a frame
        stay what they were when they were opened.
        """
        if self.version is None or self._reopen is None:
            return
        with self._turn:
            written = self._source.seen is not None and self._source.state() != self._source.seen
            counts = self.n is not None and isinstance(self._table, Reachable) and self._table.grows
            if counts and isinstance(self._table, Reachable):  # a connection that was ended is made anew first
                self._table.ensure_available()
            if written or counts:
                with on_the_grid(self._time_grid):  # to count persons takes longer, the more rows they have
                    self._take_up(written=written)

    def _take_up(self, *, written: bool) -> None:
        """Open data anew where they were written again, or number another n."""
        if self._reopen is None or not (written or self._protected.count(self._table) != self.n):
            return
        inner = contextlib.ExitStack()
        held = HeldTable(table := self._reopen(inner), inner)
        n = None if self.n is None else self._protected.count(table)
        if n == 0:
            raise InvalidData(f"{self.dataset!r} has no {self._protected.units} now")
        source = DataSource(origin_of(table), table.schema, is_frame=getattr(table, "is_frame", False))
        source = source if source.origin is None else replace(source, seen=source.state())
        if self.periods is not None:
            self.periods.check_type(table.schema)
        last, self.version = self.version, self._ledger.grow(self.budget, n=n, schema=table.schema, who=self.who)
        tell_of_erased(self.dataset, last, self.version)
        if last is not None:
            tell_of_types(self.dataset, last.schema, source)
        self._opened.callback(held.close)
        self._former, self._held, self._source = self._held, held, source

    @property
    def whom(self) -> str:
        """Who is protected: a sentence for whoever reads an answer."""
        if self._division is None:
            return self._protected.sentence
        said = within_one(self.budget.relation, self._division.by, home=self._division.home)
        return said[0].upper() + said[1:]

    def __repr__(self) -> str:
        n = "private" if self.n is None else f"{self.n:,}"
        rows = ", of a row, not a person" if self.protects_rows_of_persons else ""
        return f"Curator({self.dataset!r}, n={n}, budget {self.budget.promise}{rows})"

    def _repr_html_(self) -> str:
        n = "a secret" if self.n is None else f"{self.n:,}"
        public = [(self._protected.units, n), ("budget", str(self.budget.promise))]
        public.append(("protected", self.whom.removeprefix("Protected is ").removeprefix("Protected are ")))
        if self.facts is not None:
            public.append(("columns", ", ".join(f"{name} ({column.word})" for name, column in self.facts.items())))
        return curator_html(self, public)

    def close(self) -> None:
        """Let go of what the curator opened."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else ""
