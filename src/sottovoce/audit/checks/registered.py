"""Every registered kind of reading and mechanism, a stranger's too, held to what all must do."""

from __future__ import annotations

from sottovoce.audit.check_mechanism import check_mechanism
from sottovoce.audit.check_reading import check_reading
from sottovoce.audit.checks.result import CheckResult, check, verdict
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.readings import READINGS

__all__ = ["mechanisms", "readings"]


@check("every registered reading does what all must")
def readings() -> tuple[bool, str]:
    """Brute force over small neighbours, odd records, other orders and an engine, of the example of every kind."""
    return _all({word: check_reading(READINGS[word].example()) for word in READINGS}, "readings")


@check("every registered mechanism does what all must")
def mechanisms() -> tuple[bool, str]:
    """What a curator, a ledger and a server rely on, and a short audit, of the example of every kind."""
    found = {word: check_mechanism(MECHANISMS[word].example(), draws=1000, fresh=False) for word in MECHANISMS}
    return _all(found, "mechanisms")


def _all(found: dict[str, tuple[CheckResult, ...]], what: str) -> tuple[bool, str]:
    failed = [f"{word}, {r.name}: {r.evidence}" for word, results in found.items() for r in results if not r.passed]
    return verdict(failed, f"{len(found)} {what}, {sum(map(len, found.values()))} checks")
