"""Where the data of a budget lie, and whether they were written again: told without a look at the records."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.service.curator.readable_records import Records
from sottovoce.service.ledger import Budget, Ledger
from sottovoce.service.ledger.hash_chain import canonical, digest
from sottovoce.service.ledger.other_ledgers import budgets_beside


def origin_of(table: Records) -> Any:
    """Return where a table comes from, if it knows."""
    return getattr(table, "origin", None)


def same_data(ledger: Ledger, dataset: str, origin: Any, *, named: bool) -> Budget | None:
    """Return the budget that some data have in a ledger under another name, or refuse a second one."""
    if origin is None:
        return None
    for other in ledger.budgets():
        if other.dataset == dataset:  # another process opened it a moment ago
            return other
        if other.source is None:
            # Budgets once went by the bare name of a file; a path of that name may be the same data.
            if named or other.whole is not None or other.dataset != Path(origin.identity).name:
                continue
            raise InvalidValue(
                f"the ledger has a budget for {other.dataset!r}, which may be the same data; say "
                f"dataset={other.dataset!r} to go on with it, or dataset=... to give this data a name of its own"
            )
        if not named and other.source["identity"] == origin.identity:
            return other
        if origin.shares(other.source["parts"]):
            raise InvalidValue(
                f"{origin.identity} shares records with {other.dataset!r}, which has a budget in this "
                "ledger; a second one would let out more than either says. "
                f"Say dataset={other.dataset!r} to go on with it"
            )
    return None


def other_budgets(origin: Any, ledger: Path | None) -> list[str]:
    """Return which other ledgers have a budget for some data: those that lie beside the data, or beside their ledger.

    It is told by where data lie, which is public; no record is looked at, and of a frame nobody knows.
    """
    if origin is None:
        return []
    result = budgets_beside(_folders(origin, ledger), ledger)
    return list(dict.fromkeys(str(path) for path, parts, _ in result if origin.shares(parts)))


def copied_budgets(origin: object, budget: Budget, ledger: Path | None) -> list[str]:
    """Return which other ledgers, where `other_budgets` looks, hold this very budget: no two draw the same salt."""
    if origin is None or budget.source is None:
        return []
    result = budgets_beside(_folders(origin, ledger), ledger)
    return list(dict.fromkeys(str(path) for path, _, salt in result if salt == budget.source["salt"]))


def _folders(origin: Any, ledger: Path | None) -> list[Path]:
    beside = [] if ledger is None else [ledger.parent]
    if not origin.is_files:
        return beside
    return [*beside, Path(origin.identity).parent, *(Path(part).parent for part in origin.parts[:1])]


@dataclass(frozen=True)
class DataSource:
    """The place of some data and how they were when they were opened.

    Attributes
    ----------
    origin
        Where they come from; None of a frame.
    schema
        The names and types of their columns.
    seen
        What `state` said when they were opened; None where no budget knows them.
    is_frame
        Whether they are a frame's, whose types follow from its records.
    """

    origin: Any
    schema: Mapping[str, str]
    seen: Mapping[str, Any] | None = None
    is_frame: bool = False

    @property
    def types_are_given(self) -> bool:
        """Whether the types of the columns are not those of the data, but what facts or ``types=`` say."""
        return bool(getattr(self.origin, "is_text", False))

    def state(self) -> dict[str, object]:
        """Return what tells whether the data were written again, without a look at the records."""
        known: dict[str, Any] = self.origin.fingerprint()
        return known

    def print(self, salt: str, state: Mapping[str, object] | None) -> str:
        """Return the fingerprint of the data in a state, without a file's size.

        The size tells of the records: one that says "false" is a byte longer than one that says "true", and a person's
        second row is a line. Who reads the ledger knows the salt, and could try size after size.
        """
        shown = None if state is None else {name: value for name, value in state.items() if name != "size"}
        return digest(canonical([salt, self.schema, shown]))

    def noted(self) -> dict[str, Any] | None:
        """Return where the data lie and their fingerprint, salted."""
        if self.origin is None:
            return None
        salt = secrets.token_hex(16)
        place = {"identity": self.origin.identity, "parts": list(self.origin.parts)}
        return place | {"salt": salt, "print": self.print(salt, self.state())}

    def check(self, dataset: str, known: Mapping[str, Any] | None, *, growing: bool = False) -> None:
        """Refuse other data under the name of a budget; warn where the same data moved or were written again."""
        if known is None or self.origin is None:
            return
        moved = known["identity"] != self.origin.identity
        salt, state = known["salt"], self.state()
        sized = digest(canonical([salt, self.schema, state]))  # as a budget was opened before
        changed = not growing and known["print"] not in (self.print(salt, state), sized)
        if moved and (changed or not self.origin.fingerprint()):  # of a database, the address is all that is known
            raise InvalidData(
                f"the budget of {dataset!r} was opened for {known['identity']}. Got {self.origin.identity}"
                + (", last changed at another time; copy the same data with their time (cp -p)" if changed else "")
                + "; other people's data have a budget of their own, under another name"
            )
        if moved or changed:
            what = "lies in another place" if moved else "was written again"
            warnings.warn(
                f"{dataset!r} {what} since its budget was opened; its records must still be of the same people",
                stacklevel=4,
            )

    def check_unchanged(self, dataset: str) -> None:
        """Refuse data that were written again under an open table."""
        if self.seen is not None and self.state() != self.seen:
            raise InvalidData(f"{dataset!r} was written again since it was opened; open it again")

    def stamp(self, budget: Budget) -> str | None:
        """Return what an entry notes of the data as they are now."""
        if self.origin is None or budget.source is None:
            return None
        self.check_unchanged(budget.dataset)
        return digest(canonical([self.origin.identity, self.print(budget.source["salt"], self.seen)]))
