"""An answer that was paid for before, made again of what the ledger kept: free of cost, nothing is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.mechanisms.conjugate.named_systems import FORMULAS
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.service.answers.catalogue import CATALOGUE, Verb
from sottovoce.service.ledger import Budget, Entry

if TYPE_CHECKING:  # opens a database
    from sottovoce.service.ledger import Ledger

_UNTOLD = {
    "pending": "is under way, or was left by a process that died; it counts as spent",
    "void": "was given up before any record was read; it cost nothing",
    "lost": "was lost with the process that made it; its cost stays spent",
}
"""What became of an entry that no answer was recorded for."""


def entry_of(ledger: Ledger, number: int, budgets: Sequence[Budget]) -> tuple[Entry, Budget]:
    """Return an entry by its number, charged to one of some budgets, and that budget."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidValue(f"an entry is numbered from 1, as the ledger shows it. Got {shown(number)}")
    for budget in budgets:
        if number < 2**63 and (result := ledger.find_entry(budget, number)) is not None:
            return result, budget
    names = ", ".join(budget.dataset for budget in budgets[:5])
    raise InvalidValue(f"no answer of {names} has the entry {number}; sottovoce ledger show lists them")


def entry_under(ledger: Ledger, key: str, budgets: Sequence[Budget]) -> tuple[Entry, Budget]:
    """Return the entry that bears an idempotency key, charged to one of some budgets, and that budget."""
    result = [(entry, budget) for budget in budgets if (entry := ledger.find_key(budget, key)) is not None]
    if not result:
        raise InvalidValue(f"no answer in {ledger.url} has the key {shown(key)}")
    if len(result) > 1:
        names = ", ".join(budget.dataset for _, budget in result)
        raise InvalidValue(f"several data sets have an answer under the key {shown(key)}; say which: {names}")
    return result[0]


def answer_again(entry: Entry, budget: Budget, level: float | str = 0.95) -> Any:
    """Return the answer of an entry, as its verb made it: post-processing of what was released, so free."""
    wanted = checked_level(level)
    if entry.unread:
        raise InvalidValue(
            f"entry {entry.id} has no answer yet: its records went away unread; finish({entry.id}) has it"
        )
    if (why := _UNTOLD.get(str(entry.state))) is not None:
        raise InvalidValue(f"entry {entry.id} has no answer: it {why}")
    if entry.release is None:
        raise InvalidValue(f"the ledger kept only the hash of entry {entry.id}, so it cannot be told again")
    word = verb_of(entry.request)
    if word is None:
        raise InvalidValue(
            f"entry {entry.id} is a release, and no answer to a question or a formula: sottovoce ledger export has it"
        )
    verb: Verb = CATALOGUE[word]
    return verb.answer(Release.from_json(entry.release), entry.id, budget.share(entry.cost), wanted)


def verb_of(request: Mapping[str, object]) -> str | None:
    """Return the word of the verb that was asked; a server notes it, a curator's question says it itself."""
    if "verb" in request:
        return str(request["verb"])
    mechanism = request.get("mechanism")
    asked = mechanism.get("system") if isinstance(mechanism, Mapping) else None
    if not isinstance(asked, Mapping):
        return None
    return ({"question": asked.get("verb")} | dict.fromkeys(FORMULAS, "regress")).get(str(asked.get("system")))
