"""The one door to the records: refuse or reserve, read, record, and only then answer."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sottovoce.mechanisms import Mechanism, Release, StatisticalQuery
from sottovoce.mechanisms.mechanism import check_draws
from sottovoce.privacy.errors import InvalidData, InvalidValue, SottovoceError, SourceLost, UnprovenPrivacy
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.records.facts import Facts
from sottovoce.records.readings import Aggregate
from sottovoce.service.answers.budget_account import BudgetAccount
from sottovoce.service.curator.data_source import DataSource
from sottovoce.service.curator.privacy_unit import Protected
from sottovoce.service.curator.readable_records import HeldTable, Reachable, Records, on_the_grid
from sottovoce.service.curator.release_stages import Paid, Quote, RecordedRelease, Unrecorded, noted
from sottovoce.service.curator.table_looks import RecordsChanged, TableLooks, patiently
from sottovoce.service.ledger import Budget, DataVersion, Reservation
from sottovoce.service.ledger.changes import committed, committing
from sottovoce.service.ledger.group_commit import About
from sottovoce.service.ledger.hash_chain import SealedText, canonical, digest

__all__ = ["ReleasePipeline"]


class ReleasePipeline(BudgetAccount):
    """How a `Curator` releases what a mechanism says: each release is paid from its purse before a record is read."""

    facts: Facts | None
    _held: HeldTable
    _protected: Protected
    _source: DataSource
    _keep: bool
    _turn: threading.RLock
    _time_grid: float | None
    version: DataVersion | None
    """Of data that grow, what was noted of them last."""

    @property
    def _table(self) -> Records:
        """The table as it was opened last."""
        return self._held.table

    def release(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: object = None,
        draws: int = 1,
        rng: np.random.Generator | None = None,
        idempotency_key: str | None = None,
        accept_unproven: bool = False,
        purpose: str | None = None,
    ) -> Release:
        """Release what a mechanism says of a column: reserve, read, record, and only then answer.

        Parameters
        ----------
        mechanism
            Built for this table's n (None where that is private), of a system that reads this kind of column.
        column, where, missing
            What to read, as in `Table.read`: n counts every record, whether `where` holds for it or not.
        draws
            How many samples; each costs as much as the first.
        rng
            Secure randomness by default; a seeded generator is refused.
        idempotency_key
            A name for this very request. A retry under the same key returns the stored release and is
            charged once.
        accept_unproven
            Release even if the profile holds only when a Markov chain has converged; the ledger marks it.
        purpose
            What the answer is for, in a sentence; recorded with the question, and on the data set's privacy card.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it. Nothing was spent, and no record was read.
        """
        options: dict[str, object] = {"where": where, "missing": missing, "draws": draws, "rng": rng}
        options |= {"idempotency_key": idempotency_key, "accept_unproven": accept_unproven, "purpose": purpose}
        return self.answered(mechanism, column, **options).release

    def answered(
        self, mechanism: Mechanism, column: str | Sequence[str] | None = None, **options: object
    ) -> RecordedRelease:
        """Return a release with the number of its entry: paid for, made and recorded. The options are `reserve`'s."""
        built = self.draft(mechanism, column, **options)
        return self.record(built) if isinstance(built, Unrecorded) else built

    def draft(
        self, mechanism: Mechanism, column: str | Sequence[str] | None = None, **options: Any
    ) -> Unrecorded | RecordedRelease:
        """Reserve and make a release, on behalf of one of several people; `record` it before anyone sees it.

        Returns the answer at once where the request was answered before under its key. The options are those of
        `reserve`.
        """
        paid = self.reserve(mechanism, column, **options)
        if isinstance(paid, RecordedRelease):
            return paid
        with self._closing(paid.reservation):
            return self.make_all([paid])[0]

    def reserve(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        idempotency_key: str | None = None,
        who: str | None = None,
        **question: Any,
    ) -> Paid | RecordedRelease:
        """Pay for a release, the first half of `draft`: it reads no record, and how long it takes depends on none.

        Follow it with `make_all` and `record`, or with `give_up`. The parameters are those of `release`, and:

        Parameters
        ----------
        part
            The budget to charge: a part of the data set's, which is then charged too; see `open_part`.
        about
            More of the question, in plain values, to be recorded with it.
        then
            What is done to the release before it is recorded and answered, a function of the release alone:
            post-processing, free of cost. Only its outcome is kept.
        who
            Who asks; the curator's own `who` unless given.
        """
        priced = self.price(mechanism, column, **question)
        self.ensure_available()
        asked = priced.charge
        options: dict[str, Any] = {"who": self.who if who is None else who, "key": idempotency_key}
        options["accept_unproven"] = bool(question.get("accept_unproven"))
        options |= {"periods": asked.periods, "division": asked.division}
        return priced.granted(self._ledger.reserve(asked.budget, asked.profile, asked.request, **options))

    def price(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: object = None,
        draws: int = 1,
        rng: np.random.Generator | None = None,
        accept_unproven: bool = False,
        purpose: str | None = None,
        part: Budget | None = None,
        about: Mapping[str, object] | None = None,
        then: Callable[[Release], Release] | None = None,
    ) -> Quote:
        """Return a question with its price, or raise what is wrong with it. Reads no record and spends nothing."""
        column = mechanism.columns if column is None and isinstance(mechanism, Mechanism) else column
        missing = self._missing(column) if missing is None and column != self.person else missing
        self.check(mechanism, column, where=where, missing=missing, rng=rng)
        budget = self.budget if part is None else self._part(part)
        draws, shown = check_draws(draws), noted(about, purpose)
        if then is not None and not callable(then):
            raise InvalidValue(f"then= is a function of the release. Got a {type(then).__name__}")
        plain = column if column is None or isinstance(column, str) else list(column)
        question = {"column": plain, "where": where, "missing": missing, "draws": draws}
        if (data := self._stamp) is not None:  # a key then answers for this data alone
            question["data"] = data
        cost = self.claimed(mechanism.cost(draws))
        asked = shown | {"mechanism": mechanism.to_dict()} | question  # nobody talks over what is asked
        known = self.charged_to(mechanism, where)
        charge = self._ledger.charge(budget, cost, asked, accept_unproven=accept_unproven, **known)
        periods = {} if self._division is None else {"periods": self._division.noted(known.get("periods"))}

        held, n = self._held, self.n  # data that grow may be opened anew before they are read

        def make(count: int) -> list[Release]:
            read = functools.partial(self._read, held.table, n, column=column, where=where, missing=missing)
            looks = TableLooks(read, lambda: self._reach(held.table))
            source = secure_rng() if rng is None else rng
            with on_the_grid(self._time_grid), self._one_moment(held.table, mechanism):
                built = mechanism.releases(looks, count, source, draws=draws, accept_unproven=accept_unproven)
            if any(release.reproducible for release in built):
                raise UnprovenPrivacy("the mechanism used seeded randomness; its release is not let out")
            charged = [replace(release, profile=cost, mechanism={**release.mechanism, **periods}) for release in built]
            return charged if then is None else [then(release) for release in charged]

        return Quote(charge, make, mechanism.together, then is None)

    def ensure_available(self) -> None:
        """Raise where the records cannot be read as the budget knows them, before anything is charged for them.

        Where a connection to a database was lost, it is made anew. Where others may write to the table, its records are
        counted, if how many they are is public; that takes as long as it takes, so it ends on the grid of time too.

        Raises
        ------
        SourceUnavailable
            If the data are out of reach.
        InvalidData
            If they were written again, or their number is another than when the budget was opened.
        """
        with self._turn:
            self._source.check_unchanged(self.dataset)
            if not isinstance(self._table, Reachable):
                return
            self._table.ensure_available()
            n = self.n
            if n is not None and self._table.grows:
                with on_the_grid(self._time_grid):
                    if self._protected.count(self._table) != n:
                        raise self._changed(n)

    def check_unchanged(self) -> None:
        """Raise `InvalidData` where the data were written again since they were opened. Reads no record."""
        self._source.check_unchanged(self.dataset)

    def _changed(self, n: int) -> RecordsChanged:
        units = self._protected.units
        if self.version is not None:
            return RecordsChanged(f"{self.dataset!r} had {n} {units} a moment ago, and has others now; ask again")
        return RecordsChanged(
            f"{self.dataset!r} had {n} {units} when its budget was opened; it changed since. Say grows=True (--grows) "
            "where it gains records and its budget goes on, or ask a copy that stays as it is under a name of its own"
        )

    @property
    def _stamp(self) -> str | None:
        """What an entry notes of the data as they are now: their version, where they grow."""
        known = self._source.stamp(self.budget)
        return known if self.version is None else digest(canonical([known, self.version.number]))

    def ensure_covered(self, mechanism: Mechanism, *, where: str | None = None, part: Budget | None = None) -> None:
        """Raise what `reserve` would raise now, of the question, the table or the budgets. Nothing is spent."""
        charge = self.price(mechanism, where=where, part=part, accept_unproven=True).charge
        self.ensure_available()
        self._ledger.check_covered(charge)

    def charged_to(self, mechanism: Mechanism, where: str | None) -> dict[str, Any]:
        """Return the periods that a question reads; nothing where there are none, or it may read any."""
        if self.periods is None or self._division is None:
            return {}
        person = None if self._division.home else self.person
        return {"periods": self.periods.read_by(mechanism, where, person), "division": self._division.number}

    def reserving(self, priced: Quote, *, key: str | None = None, who: str | None = None) -> About:
        """Return the change that `reserve` makes, for `Ledger.write`, which returns what is paid or was told before."""
        self._source.check_unchanged(self.dataset)
        reserve = self._ledger.reserving(priced.charge, who=self.who if who is None else who, key=key)
        return reserve.then(lambda found, _: priced.granted(found))

    def _missing(self, column: str | Sequence[str] | None) -> Any:
        """Return what the facts say that a missing value of a column counts as."""
        named = self.facts is not None and isinstance(column, str) and column in self.facts
        value = getattr(self.facts[column], "missing", None) if named else None  # type: ignore[index]
        return int(value) if isinstance(value, bool) else value

    def _read(self, table: Records, n: int | None, reading: Any, **asked: Any) -> Aggregate:
        """Return what a reading makes of the table, of the n that the question was priced for where that is public."""
        with self._turn:
            seen = table.read(reading, **asked, **self._protected.asked)
        if n is not None and seen.n != n:
            raise self._changed(n)
        return seen

    @contextlib.contextmanager
    def _one_moment(self, table: Records, mechanism: Mechanism) -> Iterator[None]:
        """Show a mechanism all of its looks of records that grow as they were at one moment, where the engine can."""
        if self.version is None or not hasattr(table, "one_moment"):
            yield
            return

        @contextlib.contextmanager
        def alone() -> Iterator[None]:
            with self._turn, table.one_moment(strict=mechanism.one_moment):  # a connection has one transaction
                yield

        with contextlib.ExitStack() as inside:
            patiently(lambda: inside.enter_context(alone()), lambda: self._reach(table))
            yield

    def _reach(self, table: Records) -> bool:
        """Return whether records had to be connected to anew; raise `SourceUnavailable` where they are out of reach."""
        if not isinstance(table, Reachable):
            return False
        with self._turn:
            return table.ensure_available()

    def make_all(self, paid: Sequence[Paid]) -> list[Unrecorded]:
        """Read the records and make a release for each who paid for the very same question, of one read for all.

        Whoever calls this sees to `give_up` if it fails.
        """
        priced = paid[0].priced
        if any(item.priced is not priced for item in paid):
            raise InvalidValue("what is made together must have been paid for as one question")
        if len({item.reservation.entry for item in paid}) < len(paid) or any(item.reservation.touched for item in paid):
            raise InvalidValue("what was paid for once is made once; reserve again to ask again")
        for item in paid:
            item.reservation.touch()
        try:
            releases = priced.make(len(paid))
        except SourceLost as error:
            if not priced.finishable:
                raise InvalidData(str(error)) from None
            raise
        return [Unrecorded(item.reservation, release) for item, release in zip(paid, releases, strict=True)]

    def record(self, draft: Unrecorded) -> RecordedRelease:
        """Record a release, durably; from here on it may be seen."""
        with self._closing(draft.reservation):
            self._ledger.commit(draft.reservation, draft.release.to_dict(), keep=self._keep)
        return RecordedRelease(draft.reservation.entry, draft.release)

    def recording(self, draft: Unrecorded) -> About:
        """Return the change that `record` makes, for `Ledger.write`, which returns the entry as it is recorded."""
        value = draft.release.text
        commit = committing(draft.reservation, SealedText(value), keep=self._keep)
        return commit.then(lambda content, _: committed(draft.reservation, content, value))

    def check(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: object = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Raise what `release` would raise of a question that makes no sense: nothing is read, nothing spent."""
        if rng is not None and not is_secure(rng):
            raise InvalidValue("a release takes secure randomness; leave rng out, or give secure_rng()")
        if not isinstance(mechanism, Mechanism):
            raise InvalidValue(f"a curator releases what a mechanism says. Got a {type(mechanism).__name__}")
        if isinstance(mechanism, StatisticalQuery) and mechanism.predicate is not None:
            raise InvalidValue(
                "a table answers no Python predicate; leave it out, and name a column of numbers from 0 to 1 or a "
                "condition (where=...)"
            )
        if self.version is not None and mechanism.one_moment and not getattr(self._table, "snapshots", False):
            raise InvalidValue(
                'tails="smooth" looks at the records more than once, and this engine cannot show them as they were at '
                "one moment while others write; leave tails out, or copy the table to a file"
            )
        if mechanism.n != self.n:
            units = self._protected.units
            has = f"keeps its number of {units} a secret" if self.n is None else f"has {self.n} {units}"
            raise InvalidValue(
                f"the mechanism is for n={mechanism.n} and {self.dataset!r} {has}; calibrate it for n={self.n}"
            )
        self._table.check(mechanism, column, where=where, missing=missing, **self._protected.asked)

    @contextlib.contextmanager
    def _closing(self, granted: Reservation) -> Iterator[None]:
        """Close the entry of a release that fails: for nothing if no data was read, else as lost and spent."""
        try:
            yield
        except BaseException as error:
            self.give_up(granted, error)
            raise

    def give_up(self, granted: Reservation, error: BaseException) -> None:
        """Close the entry of a release that failed, as `_closing` does."""
        # If the ledger itself is what failed, the entry stays pending, which counts as spent too.
        with contextlib.suppress(SottovoceError):
            if isinstance(error, SourceLost) or (granted.resumed and not granted.touched):
                self._ledger.leave_unread(granted.entry, note=f"the records went away: {error}", who=self.who)
            elif isinstance(error, RecordsChanged) and error.given_back and not granted.resumed:
                granted.touched = False
                self._ledger.void(granted, "given up: the number of records changed after the charge")
            elif granted.touched:
                self._ledger.recover(granted.entry, note=f"failed: {type(error).__name__}", who=self.who)
            else:
                self._ledger.void(granted, f"given up before reading: {type(error).__name__}")
