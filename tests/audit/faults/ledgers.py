"""Faults of the ledger's files and of what it charges."""

from __future__ import annotations

import math
from fractions import Fraction

from audit.faults import Patch, fault
from sottovoce.service.ledger import Head, charging
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.files import Files
from sottovoce.service.ledger.ledger import Ledger

SWAPPED, RESTORED = "a swapped ledger charges nothing", "an anchor elsewhere finds a restored backup"


@fault("the ledger's path trusted once it is open", "ledger", SWAPPED)
def _trusted(patch: Patch) -> None:
    patch.setattr(Files, "_check", lambda self, opened, **_: None)


@fault("the log's file not looked at", "ledger", SWAPPED)
def _any_log(patch: Patch) -> None:
    honest = Files._check
    patch.setattr(Files, "_check", lambda self, opened, *, logs: honest(self, opened, logs=False))
    patch.setattr(Files, "check_after", lambda self, opened: None)


@fault("anchors elsewhere written and not read", "ledger", RESTORED)
def _unread(patch: Patch) -> None:
    empty, honest = Head(0, "0" * 64), Anchor.read
    patch.setattr(Anchor, "read", lambda self: empty if self._needed else honest(self))
    patch.setattr(Ledger, "noted", lambda self, name: empty)


@fault("a note in another ledger written once", "ledger", RESTORED)
def _once(patch: Patch) -> None:
    honest = Ledger.note
    patch.setattr(Ledger, "note", lambda self, name, head: None if self.noted(name).count else honest(self, name, head))


@fault("a checkpoint's seal not looked at", "ledger", "a forged checkpoint opens no ledger")
def _unsealed(patch: Patch) -> None:
    patch.setattr("sottovoce.service.ledger.checkpoint.hmac.compare_digest", lambda seal, other: True)


@fault("a cost below zero charged", "ledger", "no cost below zero is charged")
def _gift(patch: Patch) -> None:
    patch.setattr(
        charging, "charged", lambda budget, spent, cost: spent + Fraction(cost if math.isfinite(cost) else 0.0)
    )
