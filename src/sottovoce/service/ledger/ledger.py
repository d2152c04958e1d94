"""The ledger: a durable budget that cannot be overspent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from sottovoce.privacy.errors import InvalidValue, UnprovenPrivacy
from sottovoce.privacy.filter import Order, PrivacyFilter
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import check_same
from sottovoce.service.ledger import changes
from sottovoce.service.ledger.anchor import Anchor, Noting
from sottovoce.service.ledger.charging import Charge, Reservation
from sottovoce.service.ledger.files import real_path
from sottovoce.service.ledger.group_commit import About, Change, Group
from sottovoce.service.ledger.hash_chain import Head, canonical
from sottovoce.service.ledger.opening import open_store
from sottovoce.service.ledger.reading import LedgerReading, check_name
from sottovoce.service.ledger.records import Budget, DataVersion, Division, Entry, check_n
from sottovoce.service.ledger.store import Store, read_url
from sottovoce.service.ledger.transaction import Transaction

__all__ = ["Ledger"]


class Ledger(LedgerReading):
    """Budgets and everything charged to them, in a SQLite file or a PostgreSQL database.

    Opening a ledger verifies all of it; of a long one, what came after its last checkpoint. Every change is part of a
    durable, serialised transaction that appends events to a hash chain; nothing is ever rewritten. Changes that several
    threads want at the same time share one.

    Parameters
    ----------
    url
        ``sqlite:///patients.ledger``, ``postgresql+psycopg://user@host/database``, or a SQLite file's path.
    create
        Whether to make the ledger where there is none.
    timeout
        How many seconds to wait for another writer before giving up with `LedgerUnavailable`.
    anchor
        Where else to note how far the ledger has come: the path of a small file on another disk, or the address
        of another ledger (``sqlite:///...``, ``postgresql+psycopg://...``), which is made where there is none. A
        backup of the ledger that does not reach there cannot be restored unseen. Where it cannot be written,
        nothing is released.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "patients.ledger"
    >>> with Ledger(path, create=True) as ledger:
    ...     budget = ledger.open_budget("patients", GaussianDP(1.0), n=100, schema={"smoker": "boolean"})
    ...     right = ledger.reserve(budget, GaussianProfile(0.5), {"mechanism": "noise"}, who="ada")
    ...     ledger.commit(right, {"value": 0.37})
    ...     [str(entry.state) for entry in ledger.entries()], ledger.verify().count
    (['committed'], 4)
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        create: bool = False,
        timeout: float = 30.0,
        anchor: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(Store(read_url(url), timeout))
        self._group = Group(self._writing, self._written, self._store.name, timeout)
        try:
            if self._store.path is not None:
                self._anchors.append(Anchor.beside(self._store.path, self._store.folder))
            if anchor is not None:
                self._anchors.append(anchor_elsewhere(anchor, self._store, timeout))
            open_store(self._store, self._anchors, timeout, create=create)
            self._verify_first()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the ledger's connections go."""
        self._store.close()
        for anchor in self._anchors:
            anchor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing.

    def open_budget(
        self,
        dataset: str,
        promise: Promise,
        *,
        n: int | None,
        schema: Mapping[str, str],
        order: Order | None = None,
        who: str = "",
        whole: Budget | None = None,
        source: Mapping[str, object] | None = None,
    ) -> Budget:
        """Open a data set's only budget, or return it where it was opened with the very same facts.

        `order` is the Rényi order the privacy filter counts in, or ``"gaussian"``; it is fixed here, before anything is
        spent. `n` is None, and is noted nowhere, where the promise is about records added or removed.
        With `whole`, the budget is a part of that one: whatever it is charged, the whole is charged in the same
        transaction, each by its own filter, so that parts held by several people never add up past the whole.
        `source` says where the data lie, in plain values; it is kept with the budget and is none of those facts.
        """
        check_name("the name of a data set", dataset)
        if not dataset.strip():
            raise InvalidValue("a data set needs a name that is not empty")
        privacy_filter = PrivacyFilter(promise, order)
        if whole is not None:
            check_same(promise.relation, whole.promise.relation, "a part is about the same neighbours as its whole")
        check_n(n, promise)
        facts: dict[str, object] = {
            "promise": promise.to_dict(),
            "n": None if n is None else int(n),
            "schema": dict(schema),
        }
        facts |= {"filter": privacy_filter.to_dict(), "limit": float(privacy_filter.limit)}
        if whole is not None:
            self._check_known(whole)
            if whole.whole is not None:
                raise InvalidValue(f"{whole.dataset!r} is a part itself, and a part has no parts")
            facts["whole"] = whole.id

        result = self.write(changes.opening(dataset, facts, source, who))
        if result is None or result.facts() != facts:
            raise InvalidValue(
                f"{dataset!r} has a budget already, and a budget never changes. Opened with "
                f"{canonical(result and result.facts())}. Got {canonical(facts)}"
            )
        return self._remember(result)

    def grow(self, budget: Budget, *, n: int | None, schema: Mapping[str, str], who: str = "") -> DataVersion:
        """Note what is public of a data set that grows, as it is now; entries from here on are about this version.

        The budget goes on. A part has no versions of its own.
        """
        self._check_known(budget)
        check_n(n, budget.promise)
        if budget.whole is not None:
            raise InvalidValue(f"{budget.dataset!r} is a part; what grows is the data set of its whole")
        result: DataVersion = self.write(changes.growing(budget, n, schema, who))
        return result

    def divide(self, budget: Budget, by: str, names: Sequence[str], *, who: str = "", home: bool = False) -> Division:
        """Name the periods of a data set, each of which has the budget's limit to itself from here on; or more of them.

        What was spent before was of every period. One that is named later begins with what was spent of the last of
        `names`, whose records are in no other. The parts of the budget have the same periods. `home` says that all rows
        of a person lie in one of them.
        """
        self._check_known(budget)
        if budget.whole is not None:
            raise InvalidValue(f"{budget.dataset!r} is a part; it has the periods of its whole")
        for name in (by, *names):
            check_name("the name of a period", name)
        result: Division = self.write(changes.dividing(budget, by, names, who, home=home))
        return result

    def reserve(
        self,
        budget: Budget,
        profile: Profile,
        request: Mapping[str, object],
        *,
        who: str = "",
        key: str | None = None,
        accept_unproven: bool = False,
        periods: Sequence[str] | None = None,
        division: int | None = None,
    ) -> Reservation | Entry:
        """Charge a profile to a budget, durably, before any data is read.

        Returns the right to release once; or, where `key` was used before for the very same request, the
        entry that was committed then, at no further cost. `periods` are those that the request can read, of data that
        have any: it is charged to each of these, and to all where they are not said; `division` is the number
        of the event that had named these.

        Raises
        ------
        BudgetExceeded
            If the privacy filter does not cover the profile; nothing is spent.
        UnprovenPrivacy
            If the profile rests on `CONVERGENCE` and the caller did not say `accept_unproven`.
        EntryPending
            If the same request was reserved under `key` and never ended.
        """
        known: dict[str, Any] = {"periods": periods, "division": division}
        asked = self.charge(budget, profile, request, accept_unproven=accept_unproven, **known)
        return self.write(self.reserving(asked, who=who, key=key))  # type: ignore[no-any-return]

    def charge(
        self,
        budget: Budget,
        profile: Profile,
        request: Mapping[str, object],
        *,
        accept_unproven: bool = False,
        periods: Sequence[str] | None = None,
        division: int | None = None,
    ) -> Charge:
        """Return what `reserving` takes, which need be made only once for a request that is made often."""
        if profile.basis is Basis.CONVERGENCE and not accept_unproven:
            raise UnprovenPrivacy(
                "this profile holds only if a Markov chain has converged, which nobody can check; "
                "say accept_unproven=True to release all the same, marked as such in the ledger"
            )
        self._check_known(budget)
        full = None if budget.whole is None else self._by_number(budget.whole)
        return Charge.of(budget, full, profile, request, None if periods is None else tuple(periods), division)

    def reserving(self, asked: Charge, *, who: str = "", key: str | None = None) -> About:
        """Return the change that `reserve` makes, for `write`."""
        if key is not None:
            check_name("an idempotency key", key)
        self._check_known(asked.budget)
        return changes.reserving(asked, who=who, key=key, again=self._told_again)

    def commit(self, reservation: Reservation, release: Mapping[str, object], *, keep: bool = True) -> None:
        """Record a release, durably, before anyone sees it; with `keep=False` only its hash."""
        self.write(changes.committing(reservation, release, keep=keep))

    def void(self, reservation: Reservation, note: str) -> None:
        """Give a reservation up and get its cost back: only by its holder, only before data was read."""
        self.write(changes.voiding(reservation, note, self._by_number))

    def leave_unread(self, entry: int, *, note: str, who: str = "") -> None:
        """Note that the records went away before anything of them was read: the entry can be finished later."""
        self.write(changes.leaving_unread(entry, note, who))

    def resume(self, budget: Budget, entry: int, asked: Charge, *, who: str = "") -> Reservation:
        """Take up such an entry, for the very same request; whoever does so first."""
        return self.write(changes.resuming(budget, entry, asked, who))  # type: ignore[no-any-return]

    def recover(self, entry: int, *, note: str, who: str = "") -> None:
        """Close an entry that a dead process left pending; it stays spent, for it may have read the data."""
        if not isinstance(note, str) or not note.strip():
            raise InvalidValue("note= (--note) says why an entry is closed, such as 'the machine was lost'")
        self.write(changes.recovering(entry, note, who))

    def write(self, change: Change) -> Any:
        """Return what a change returns, once it is durable; raise what it raises, and then it left no trace."""
        return self._group.run(change)

    def write_all(self, wanted: Iterable[Change]) -> list[object]:
        """Make changes durable together, in one transaction; return what each returns, or the exception it raises."""
        return self._group.run_all(wanted)

    # Anchors of other ledgers.

    def note(self, name: str, head: Head) -> None:
        """Note, durably, that another ledger has come as far as `head`; what is known already is not written again."""
        self.write(changes.noting(name, head, self.url))

    def _writing(self) -> AbstractContextManager[Transaction]:
        return self._store.transaction(write=True, kept=self._kept)

    def _written(self, transaction: Transaction) -> None:
        """Keep what a transaction left, and note how far the ledger has come, now that it is durable."""
        transaction.keep()
        self._advance(transaction.head)


class _NoteInLedger:
    """A note in another ledger, kept under the address of the one it is about."""

    def __init__(self, ledger: Ledger, about: str) -> None:
        self.name, self._ledger, self._about = ledger.url, ledger, about

    def read(self) -> Head:
        return self._ledger.noted(self._about)

    def write(self, head: Head) -> None:
        self._ledger.note(self._about, head)

    def close(self) -> None:
        self._ledger.close()


def anchor_elsewhere(anchor: str | os.PathLike[str], store: Store, timeout: float) -> Noting:
    """Return the anchor at a path or in another ledger."""
    if "://" not in (text := os.fspath(anchor)):
        path = real_path(Path(text).absolute())
        if store.path is not None and path.name.startswith(store.path.name) and path.parent == store.path.parent:
            raise InvalidValue(
                f"{text} lies beside the ledger and goes into the same backup; keep its anchor elsewhere"
            )
        return Anchor(path)
    place = Store(read_url(text), timeout)
    if (place.path or place.name) == (store.path or store.name):
        raise InvalidValue("a ledger is no anchor of its own; name another one")
    return _NoteInLedger(
        Ledger(text, create=True, timeout=timeout), store.name if store.path is None else str(store.path)
    )
