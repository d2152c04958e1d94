"""Faults of the curator and the ledger: reading before paying, paying too little."""

from __future__ import annotations

from fractions import Fraction

from audit.faults import Patch, fault
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger, Reservation

FIRST, KEYS = "the budget is spent before the first read", "a key is charged once and answers one question"


@fault("budget reserved after reading", "curator", FIRST)
def _afterwards(patch: Patch) -> None:
    reserve, commit = Ledger.reserve, Ledger.commit
    asked = []

    def later(self, *arguments, **options):
        asked.append((arguments, options))
        return Reservation(0, "")

    def now(self, reservation, release, *, keep=True):
        arguments, options = asked.pop()
        commit(self, reserve(self, *arguments, **options), release, keep=keep)

    patch.setattr(Ledger, "reserve", later)
    patch.setattr(Ledger, "commit", now)


@fault("a look at the data before the reservation", "curator", FIRST, "calibration touches no data")
def _peek(patch: Patch) -> None:
    honest = Curator.check

    def check(self, mechanism, *columns, **options):
        self._table.read(mechanism.system, "smoker")
        honest(self, mechanism, *columns, **options)

    patch.setattr(Curator, "check", check)


@fault("a failed release refunded", "curator", "failed reads stay spent")
def _refunded(patch: Patch) -> None:
    patch.setattr(Reservation, "touch", lambda self: None)


@fault("pending reservations not counted", "ledger", "what is pending counts as spent")
def _pending_free(patch: Patch) -> None:
    def only_committed(transaction, budget):
        transaction.lock_head()
        query = "SELECT spent FROM sottovoce_events WHERE budget = ? AND kind = 'commit' ORDER BY sequence DESC LIMIT 1"
        row = transaction.row(query, budget)
        return Fraction(0) if row is None or row[0] is None else Fraction(row[0])

    patch.setattr("sottovoce.service.ledger.queries.lock_budget", only_committed)


@fault("a request with a key charged nothing", "ledger", KEYS)
def _free_with_key(patch: Patch) -> None:
    honest = Ledger.reserve

    def reserve(self, budget, profile, request, *, key=None, **options):
        return honest(self, budget, profile if key is None else GaussianProfile(0.0), request, key=key, **options)

    patch.setattr(Ledger, "reserve", reserve)


@fault("a key opens any question", "ledger", KEYS)
def _any_question(patch: Patch) -> None:
    patch.setattr("sottovoce.service.ledger.changes.answered", lambda entry, asked: entry)


@fault("a retry charged again", "ledger", KEYS)
def _again(patch: Patch) -> None:
    patch.setattr("sottovoce.service.ledger.queries.earlier_entry", lambda transaction, budget, key: None)
