"""Reading: what a ledger recorded, verified."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt
from sottovoce.privacy.promises import Promise
from sottovoce.service.ledger import queries
from sottovoce.service.ledger.anchor import Noting
from sottovoce.service.ledger.charging import Charge, what_is_left
from sottovoce.service.ledger.checkpoint import WORTHWHILE, Checkpoints, head_of
from sottovoce.service.ledger.hash_chain import EMPTY, Head
from sottovoce.service.ledger.period_queries import find_division, periods_charged, spending, total_after
from sottovoce.service.ledger.period_totals import Spending
from sottovoce.service.ledger.records import Budget, DataVersion, Division, Entry, State
from sottovoce.service.ledger.replay import Replay
from sottovoce.service.ledger.store import Store
from sottovoce.service.ledger.transaction import Kept, Transaction
from sottovoce.service.ledger.verification import linked, replay_all, replay_since

__all__ = ["LedgerReading", "check_name"]

_log = logging.getLogger(__name__)


class LedgerReading:
    """The part of a ledger that changes nothing. What is asked rarely is read from the whole chain, and so verified.

    Parameters
    ----------
    store
        Where it lies.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._anchors: list[Noting] = []
        self._kept = Kept()
        self._opened = self._since = self._linked = EMPTY
        self._known: dict[int, Budget] = {}
        self._checkpoints = Checkpoints(str(store.path or store.name))
        self._turn = threading.Lock()

    def _verify_first(self) -> None:
        """Verify it, as opening does, and say what has not ended."""
        replay, self._since = self._replay_quickly()
        self._opened, self._linked = replay.head, self._since
        self._known.update(replay.budgets)
        self._kept.periods.spent.update(
            {budget: Spending(replay.head.count, dict(totals)) for budget, totals in replay.by_period.items()}
        )
        pending = list(replay.entries.values())
        if waiting := [entry for entry in pending if entry.unread]:
            _log.warning("entry %d of %s was paid for and not read: finish it", waiting[0].id, waiting[0].dataset)
        pending = [entry for entry in pending if not entry.unread]
        if pending:
            first, others = pending[0], len(pending) - 1
            _log.warning(
                "entry %d of %s, reserved by %s at %s, has not ended%s as spent; sottovoce ledger show lists what is "
                "pending, sottovoce ledger recover closes what a dead process left",
                *(first.id, first.dataset, first.who or "nobody named", first.at),
                f", nor have {others} more; they count" if others else "; it counts",
            )

    @property
    def url(self) -> str:
        """Where the ledger is, without the password."""
        return self._store.name

    @property
    def path(self) -> Path | None:
        """The file that it is; None of a database."""
        return self._store.path

    @property
    def opened(self) -> tuple[Head, Head]:
        """From where to where opening verified it: a checkpoint's head, or the empty one, and the last head."""
        return self._since, self._opened

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
        result = self.find_budget(dataset)
        if result is None:
            raise InvalidValue(f"the ledger {self.url} has no budget for {dataset!r}; open one first")
        return result

    def find_budget(self, dataset: str) -> Budget | None:
        """Return the budget of a data set, if it has one."""
        check_name("the name of a data set", dataset)
        with self._looking() as transaction:
            result = queries.find_budget(transaction, dataset)
        return None if result is None else self._remember(result)

    def version(self, budget: Budget) -> DataVersion | None:
        """Return what was noted last of a data set that grows; None of one that stays as it is."""
        with self._looking() as transaction:
            return queries.find_version(transaction, budget)

    def versions(self, budget: Budget) -> list[DataVersion]:
        """Return all that was noted of a data set that grows, oldest first."""
        return self._replay().versions.get(budget.id, [])

    def division(self, budget: Budget) -> Division | None:
        """Return the periods of a budget, or of the whole that it is a part of; None where it has none."""
        with self._looking() as transaction:
            return find_division(transaction, budget)

    def spent_by_period(self, budget: Budget) -> dict[str, Fraction]:
        """Return exactly what was spent of each period of a budget; nothing where it has none."""
        (result,) = self.totals([budget])
        return {} if isinstance(result, Fraction) else dict(result)

    def check_covered(self, asked: Charge) -> None:
        """Raise what charging a request would raise now. Nothing is spent."""
        with self._looking() as transaction:
            periods = periods_charged(transaction, asked)
            for budget, cost in ((asked.budget, asked.cost), (asked.whole, asked.whole_cost)):
                if budget is not None and cost is not None:
                    total_after(transaction, budget, queries.spent(transaction, budget.id), periods, cost)

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
        with self._looking() as transaction:
            return self._told_again(transaction, queries.find_entry(transaction, budget, number))

    def find_key(self, budget: Budget, key: str) -> Entry | None:
        """Return the entry that bears an idempotency key and still counts, if one was charged to this budget."""
        check_name("an idempotency key", key)
        with self._looking() as transaction:
            return self._told_again(transaction, queries.earlier_entry(transaction, budget, key))

    def latest(self, budget: Budget, most: int, after: int = 0) -> list[Entry]:
        """Return the latest entries that were charged to a budget, newest first: the chain is not read for it.

        Those up to the entry `after` are left out.
        """
        with self._looking() as transaction:
            return list(queries.latest_entries(transaction, budget, most, after))

    def pending(self, dataset: str | None = None) -> list[Entry]:
        """Return what was reserved and has not ended: under way now, or left by a process that died."""
        return [entry for entry in self.entries(dataset) if entry.state is State.PENDING]

    def spent(self, budget: Budget, periods: Iterable[str] | None = None) -> Fraction:
        """Return exactly what was spent, in the filter's units; of a budget with periods, of the fullest of these."""
        (result,) = self.totals([budget])
        if isinstance(result, Fraction):
            return result
        return max(result[name] for name in (result if periods is None else periods))

    def totals(self, budgets: Sequence[Budget]) -> list[Fraction | Mapping[str, Fraction]]:
        """Return exactly what was spent of each budget, at one moment; of one with periods, of each of these."""
        with self._looking() as transaction:
            return [spending(transaction, budget) for budget in budgets]

    def last_cost(self, budget: Budget) -> float | None:
        """Return what the last entry that was not given up cost a budget; a whole is charged what its parts are."""
        with self._looking() as transaction:
            return queries.last_cost(transaction, budget.id)

    def remaining(self, budget: Budget) -> Promise:
        """Return what is left of a budget, as a promise of its kind."""
        return what_is_left(budget, self.spent(budget))

    def noted(self, name: str) -> Head:
        """Return how far another ledger had come when it was last noted here; the empty head where it never was."""
        with self._looking() as transaction:
            return queries.noted(transaction, name)

    @contextlib.contextmanager
    def _looking(self) -> Iterator[Transaction]:
        """Read in one transaction; a ledger that was put back to what it once was is refused, and not told from."""
        seen = self._kept.seen  # first: the ledger can only have grown since
        with self._store.transaction(write=False) as transaction:
            transaction.read_head(seen)
            yield transaction

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

    def _advance(self, head: Head) -> None:
        with self._turn:
            if head.count > self._kept.seen.count:
                self._kept.seen = head
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

    def _verified(self, state: Mapping[str, object] | None, noted: Head, *, forget: bool = False) -> Replay:
        # Anchors are read first: the ledger can only have grown since.
        anchors = [self._kept.seen, noted, *(anchor.read() for anchor in self._anchors)]
        with self._store.transaction(write=False) as transaction:
            if state is None:
                replay = replay_all(transaction, anchors, forget=forget)
            else:
                replay = replay_since(transaction, anchors, state)
        if replay.forget and replay.head.count - head_of(state).count >= WORTHWHILE:
            self._checkpoints.write(replay.state())
        self._advance(replay.head)
        return replay


def check_name(what: str, name: object) -> None:
    """Refuse a name that the database would store as another one: its event would never verify again."""
    if not isinstance(name, str) or "\x00" in name or any("\ud800" <= sign <= "\udfff" for sign in name):
        raise InvalidValue(f"{what} is a text without NUL characters and surrogates. Got {name!r}")
