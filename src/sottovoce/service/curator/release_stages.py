"""The stages of a release: priced, paid for, made, and only then an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sottovoce.mechanisms import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger import Entry, Reservation
from sottovoce.service.ledger.charging import Charge
from sottovoce.service.ledger.hash_chain import canonical

_LONGEST_PURPOSE = 300


@dataclass(frozen=True)
class RecordedRelease:
    """A release with the number of its entry in the ledger."""

    entry: int
    release: Release


@dataclass(frozen=True, eq=False)
class Quote:
    """A question that makes sense, with its price: nothing is spent, and it can be asked as often as it is paid for.

    `make` reads the records and returns so many independent releases; where `together`, many take hardly longer than
    one.
    """

    charge: Charge
    make: Callable[[int], list[Release]] = field(repr=False)
    together: bool = False
    finishable: bool = True
    """Whether the entry alone says how to make it: not where something was to be done to the release afterwards."""

    def granted(self, by_ledger: Reservation | Entry) -> Paid | RecordedRelease:
        """Return what is paid for, or the answer of an entry that was recorded before."""
        if isinstance(by_ledger, Entry):
            return RecordedRelease(by_ledger.id, _stored(by_ledger))
        return Paid(by_ledger, self)


@dataclass(frozen=True)
class Paid:
    """A question that is paid for and not answered: no record was read for it yet."""

    reservation: Reservation
    priced: Quote = field(repr=False)


@dataclass(frozen=True)
class Unrecorded:
    """A release that is paid for and made, but not recorded: nobody may see it before `Curator.record` is done."""

    reservation: Reservation
    release: Release


def _stored(entry: Entry) -> Release:
    if entry.release is None:
        raise InvalidValue(f"entry {entry.id} answered this request, and the ledger kept only its hash")
    return Release.from_json(entry.release)


def noted(about: Mapping[str, object] | None, purpose: str | None) -> dict[str, object]:
    """Return what an entry notes of a question beside what is asked, if it can be written down.

    >>> noted({"verb": "mean"}, "The annual report")
    {'verb': 'mean', 'purpose': 'The annual report'}
    """
    if purpose is not None and not (
        isinstance(purpose, str) and len(purpose) <= _LONGEST_PURPOSE and (not purpose or purpose.isprintable())
    ):
        raise InvalidValue(f"a purpose is one line of text, of at most {_LONGEST_PURPOSE} characters")
    try:
        shown: dict[str, object] | None = dict(about or {})
        canonical(shown)
    except (TypeError, ValueError, RecursionError):
        shown = None
    if shown is None or not all(isinstance(name, str) for name in shown):
        raise InvalidValue(f"about= is a mapping from texts to plain values. Got a {type(about).__name__}")
    return shown | ({"purpose": purpose} if purpose else {})
