"""The ledger: a durable budget that cannot be overspent."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from sottovoce.ledger import changes, queries
from sottovoce.ledger.anchor import Anchor, Noting
from sottovoce.ledger.chain import EMPTY, Head, canonical
from sottovoce.ledger.charging import Charge, what_is_left
from sottovoce.ledger.checkpoint import WORTHWHILE, Checkpoints, head_of
from sottovoce.ledger.grouping import About, Change, Group
from sottovoce.ledger.opening import open_store
from sottovoce.ledger.records import Budget, Entry, Reservation, State, check_n
from sottovoce.ledger.replay import Replay
from sottovoce.ledger.store import Store, read_url
from sottovoce.ledger.transaction import Kept, Transaction
from sottovoce.ledger.turns import Turns
from sottovoce.ledger.verification import linked, replay_all, replay_since
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, UnprovenPrivacy
from sottovoce.privacy.filter import Order, PrivacyFilter
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import check_same

__all__ = ["Ledger"]

_log = logging.getLogger(__name__)


class Ledger:
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
        self._store = Store(read_url(url), timeout)
        self._anchors: list[Noting] = []
        self._seen = EMPTY
        self._known: dict[int, Budget] = {}
        self._kept = Kept()
        self._checkpoints = Checkpoints(str(self._store.path or self._store.name))
        self._turn, self._turns = threading.Lock(), Turns(None)
        self._group = Group(self._writing, self._store.name, timeout)
        try:
            if self._store.path is not None:
                self._anchors.append(beside := Anchor.beside(self._store.path))
                self._turns = Turns(beside.path)
            if anchor is not None:
                self._anchors.append(_elsewhere(anchor, self._store, timeout))
            open_store(self._store, self._anchors, timeout, create=create)
            replay, self._since = self._replay_quickly()
        except BaseException:
            self.close()
            raise
        self._opened, self._linked = replay.head, self._since
        self._known.update(replay.budgets)
        for entry in replay.entries.values():
            _log.warning(
                "entry %d of %s, reserved by %s at %s, has not ended; it counts as spent",
                *(entry.id, entry.dataset, entry.who or "nobody named", entry.at),
            )

    @property
    def url(self) -> str:
        """Where the ledger is, without the password."""
        return self._store.name

    @property
    def opened(self) -> tuple[Head, Head]:
        """From where to where opening verified it: a checkpoint's head, or the empty one, and the last head."""
        return self._since, self._opened

    def close(self) -> None:
        """Let the ledger's connections go."""
        self._store.close()
        self._turns.close()
        for anchor in self._anchors:
            anchor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading. What is asked rarely is read from the whole chain, and so verified each time.

    def verify(self, anchor: Head | None = None) -> Head:
        """Check everything that the ledger recorded and return its head.

        Raises `LedgerCorrupt`, and says where, on an altered, missing, reordered or forged event, a cut-off
        end, or a rule broken. Give as `anchor` a head noted earlier outside the ledger to prove that the chain
        still passes through it; without one, whoever can write the database can rewrite its end unseen.
        """
        return self._replay(anchor, forget=True).head

    def leave_checkpoint(self) -> Head:
        """Check everything, as `verify`, and leave a checkpoint however short the ledger is."""
        replay = self._replay(forget=True)
        self._checkpoints.write(replay.state())
        return replay.head

    def budgets(self) -> list[Budget]:
        """Return every budget, oldest first."""
        return [self._remember(budget) for budget in self._replay_quickly()[0].budgets.values()]

    def budget(self, dataset: str) -> Budget:
        """Return the budget of a data set."""
        found = self.find_budget(dataset)
        if found is None:
            raise InvalidValue(f"the ledger {self.url} has no budget for {dataset!r}; open one first")
        return found

    def find_budget(self, dataset: str) -> Budget | None:
        """Return the budget of a data set, if it has one."""
        _check_name("the name of a data set", dataset)
        with self._store.transaction(write=False) as transaction:
            found = queries.find_budget(transaction, dataset)
        return None if found is None else self._remember(found)

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return the entries of one data set and of its parts, or of all, oldest first."""
        replay = self._replay()
        if dataset is None:
            return list(replay.entries.values())
        wanted = {budget.id for budget in replay.budgets.values() if budget.dataset == dataset}
        wanted |= {budget.id for budget in replay.budgets.values() if budget.whole in wanted}
        return [entry for entry in replay.entries.values() if entry.budget in wanted]

    def find_entry(self, budget: Budget, number: int) -> Entry | None:
        """Return one entry by its number, if it was charged to this budget."""
        with self._store.transaction(write=False) as transaction:
            return self._told_again(transaction, queries.find_entry(transaction, budget, number))

    def pending(self, dataset: str | None = None) -> list[Entry]:
        """Return what was reserved and has not ended: under way now, or left by a process that died."""
        return [entry for entry in self.entries(dataset) if entry.state is State.PENDING]

    def spent(self, budget: Budget) -> Fraction:
        """Return exactly what was spent, in the filter's units."""
        return self.totals([budget])[0]

    def totals(self, budgets: Sequence[Budget]) -> list[Fraction]:
        """Return exactly what was spent of each budget, at one moment."""
        with self._store.transaction(write=False) as transaction:
            return [queries.spent(transaction, budget.id) for budget in budgets]

    def last_cost(self, budget: Budget) -> float | None:
        """Return what the last entry that was not given up cost a budget; a whole is charged what its parts are."""
        with self._store.transaction(write=False) as transaction:
            return queries.last_cost(transaction, budget.id)

    def remaining(self, budget: Budget) -> Promise:
        """Return what is left of a budget, as a promise of its kind."""
        return what_is_left(budget, self.spent(budget))

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
        source: Mapping[str, Any] | None = None,
    ) -> Budget:
        """Open a data set's only budget, or return it where it was opened with the very same facts.

        `order` is the Rényi order the privacy filter counts in, or ``"gaussian"``; it is fixed here, before anything is
        spent. `n` is None, and is noted nowhere, where the promise is about records added or removed.
        With `whole`, the budget is a part of that one: whatever it is charged, the whole is charged in the same
        transaction, each by its own filter, so that parts held by several people never add up past the whole.
        `source` says where the data lie, in plain values; it is kept with the budget and is none of those facts.
        """
        _check_name("the name of a data set", dataset)
        if not dataset.strip():
            raise InvalidValue("a data set needs a name that is not empty")
        privacy_filter = PrivacyFilter(promise, order)
        if whole is not None:
            check_same(promise.relation, whole.promise.relation, "a part is about the same neighbours as its whole")
        check_n(n, promise)
        facts: dict[str, Any] = {
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

        found = self.write(changes.opening(dataset, facts, source, who))
        if found is None or found.facts() != facts:
            raise InvalidValue(
                f"{dataset!r} has a budget already, and a budget never changes. Opened with "
                f"{canonical(found and found.facts())}. Got {canonical(facts)}"
            )
        return self._remember(found)

    def reserve(
        self,
        budget: Budget,
        profile: Profile,
        request: Mapping[str, Any],
        *,
        who: str = "",
        key: str | None = None,
        accept_unproven: bool = False,
    ) -> Reservation | Entry:
        """Charge a profile to a budget, durably, before any data is read.

        Returns the right to release once; or, where `key` was used before for the very same request, the
        entry that was committed then, at no further cost.

        Raises
        ------
        BudgetExceeded
            If the privacy filter does not cover the profile; nothing is spent.
        UnprovenPrivacy
            If the profile rests on `CONVERGENCE` and the caller did not say `accept_unproven`.
        EntryPending
            If the same request was reserved under `key` and never ended.
        """
        asked = self.charge(budget, profile, request, accept_unproven=accept_unproven)
        return self.write(self.reserving(asked, who=who, key=key))  # type: ignore[no-any-return]

    def charge(
        self, budget: Budget, profile: Profile, request: Mapping[str, Any], *, accept_unproven: bool = False
    ) -> Charge:
        """Return what `reserving` takes, which need be made only once for a request that is made often."""
        if profile.basis is Basis.CONVERGENCE and not accept_unproven:
            raise UnprovenPrivacy(
                "this profile holds only if a Markov chain has converged, which nobody can check; "
                "say accept_unproven=True to release all the same, marked as such in the ledger"
            )
        self._check_known(budget)
        return Charge.of(budget, None if budget.whole is None else self._by_number(budget.whole), profile, request)

    def reserving(self, asked: Charge, *, who: str = "", key: str | None = None) -> About:
        """Return the change that `reserve` makes, for `write`."""
        if key is not None:
            _check_name("an idempotency key", key)
        self._check_known(asked.budget)
        return changes.reserving(asked, who=who, key=key, again=self._told_again)

    def commit(self, reservation: Reservation, release: Mapping[str, Any], *, keep: bool = True) -> None:
        """Record a release, durably, before anyone sees it; with `keep=False` only its hash."""
        self.write(changes.committing(reservation, release, keep=keep))

    def void(self, reservation: Reservation, note: str) -> None:
        """Give a reservation up and get its cost back: only by its holder, only before data was read."""
        self.write(changes.voiding(reservation, note, self._by_number))

    def recover(self, entry: int, *, note: str, who: str = "") -> None:
        """Close an entry that a dead process left pending; it stays spent, for it may have read the data."""
        self.write(changes.recovering(entry, note, who))

    def write(self, change: Change) -> Any:
        """Return what a change returns, once it is durable; raise what it raises, and then it left no trace."""
        return self._group.run(change)

    def write_all(self, wanted: Iterable[Change]) -> list[Any]:
        """Make changes durable together, in one transaction; return what each returns, or the exception it raises."""
        return self._group.run_all(wanted)

    # Anchors of other ledgers.

    def noted(self, name: str) -> Head:
        """Return how far another ledger had come when it was last noted here; the empty head where it never was."""
        with self._store.transaction(write=False) as transaction:
            return queries.noted(transaction, name)

    def note(self, name: str, head: Head) -> None:
        """Note, durably, that another ledger has come as far as `head`; what is known already is not written again."""
        self.write(changes.noting(name, head, self.url))

    def _remember(self, budget: Budget) -> Budget:
        # What was verified at opening counts, and not what the database says since.
        if budget.id not in self._known and budget.id <= self._opened.count:
            raise LedgerCorrupt(f"event {budget.id} opens a budget of {budget.dataset!r}, and was forged")
        known = self._known.setdefault(budget.id, budget)
        if known != budget:
            raise LedgerCorrupt(f"event {budget.id}, which opened the budget of {known.dataset!r}, was altered")
        return known

    def _by_number(self, number: int) -> Budget:
        if number not in self._known:
            self.budgets()
        return self._known[number]

    def _check_known(self, budget: Budget) -> None:
        # A budget made up by the caller would be charged by its own made-up limit.
        known = self._known.get(budget.id)
        if known is not budget and known != budget:
            raise InvalidValue(f"this budget of {budget.dataset!r} was not read from the ledger {self.url}")

    def _told_again(self, transaction: Transaction, entry: Entry | None) -> Entry | None:
        """Return an entry; of one before the checkpoint, verify once that the chain leads from there to what is known.

        Then it is known as well as if opening had read everything.
        """
        if entry is not None and entry.id <= self._linked.count:
            self._linked = linked(transaction, entry.id, self._linked)
        return entry

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Transaction]:
        with self._turns.taken(), self._store.transaction(write=True, kept=self._kept) as transaction:
            yield transaction
            found, seen = transaction.start, self._seen
            if found.count < seen.count or (found.count == seen.count and found != seen):
                raise LedgerCorrupt(
                    f"the ledger had come to event {seen.count} and now ends at {found.count}: it was swapped"
                )
        transaction.keep()
        self._advance(transaction.head)

    def _advance(self, head: Head) -> None:
        with self._turn:
            if head.count > self._seen.count:
                self._seen = head
                for anchor in self._anchors:
                    anchor.write(head)

    def _replay(self, outside: Head | None = None, *, forget: bool = False) -> Replay:
        """Verify everything."""
        return self._verified(None, EMPTY if outside is None else outside, forget=forget)

    def _replay_quickly(self) -> tuple[Replay, Head]:
        """Verify what came after the last checkpoint; everything where there is none or the ledger does not fit it."""
        state = self._checkpoints.read()
        since = head_of(state)
        if state is not None:
            try:
                return self._verified(state, since), since
            except LedgerCorrupt as error:
                _log.warning(
                    "%s does not fit its checkpoint %s, and all is verified: %s", self.url, self._checkpoints, error
                )
        return self._verified(None, since, forget=True), EMPTY

    def _verified(self, state: Mapping[str, Any] | None, noted: Head, *, forget: bool = False) -> Replay:
        # Anchors are read first: the ledger can only have grown since.
        anchors = [self._seen, noted, *(anchor.read() for anchor in self._anchors)]
        with self._store.transaction(write=False) as transaction:
            if state is None:
                replay = replay_all(transaction, anchors, forget=forget)
            else:
                replay = replay_since(transaction, anchors, state)
        if replay.forget and replay.head.count - head_of(state).count >= WORTHWHILE:
            self._checkpoints.write(replay.state())
        self._advance(replay.head)
        return replay


def _check_name(what: str, name: Any) -> None:
    """Refuse a name that the database would store as another one: its event would never verify again."""
    if not isinstance(name, str) or "\x00" in name or any("\ud800" <= sign <= "\udfff" for sign in name):
        raise InvalidValue(f"{what} is a text without NUL characters and surrogates. Got {name!r}")


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


def _elsewhere(anchor: str | os.PathLike[str], store: Store, timeout: float) -> Noting:
    """Return the anchor at a path or in another ledger."""
    if "://" not in (text := os.fspath(anchor)):
        path = Path(text).absolute().resolve()
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
