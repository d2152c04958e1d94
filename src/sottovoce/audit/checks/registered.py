"""Every registered kind of reading and mechanism, a stranger's too, held to what all must do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sottovoce.audit.check_mechanism import check_mechanism
from sottovoce.audit.check_reading import check_reading
from sottovoce.audit.checks.result import CheckResult, check, verdict
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.errors import NotInstalled
from sottovoce.privacy.registry import Registry
from sottovoce.records.readings import READINGS


@check("every registered reading does what all must")
def readings() -> tuple[bool, str]:
    """Brute force over small neighbours, odd records, other orders and an engine, of the example of every kind."""
    return _all(READINGS, check_reading)


@check("every registered mechanism does what all must")
def mechanisms() -> tuple[bool, str]:
    """What a curator, a ledger and a server rely on, of the example of every kind; `audit --all` attacks them."""
    return _all(MECHANISMS, partial(check_mechanism, draws=None, fresh=False))


def _all(kinds: Registry, examine: Callable[[Any], tuple[CheckResult, ...]]) -> tuple[bool, str]:
    checked, missing = 0, []
    for word in kinds.kinds:
        try:
            example = kinds[word].example()
        except NotInstalled as error:
            missing.append(str(error))
            continue
        results = [result for result in examine(example) if result.passed is not None]
        checked += len(results)
        failed = [f"{word}, {result.name}: {result.evidence}" for result in results if not result.passed]
        if failed:
            return verdict(failed, "")
    others = f"; {len(missing)} not tried: {missing[0]}" if missing else ""
    return True, f"{checked} checks of {len(kinds.kinds) - len(missing)} kinds of {kinds.what}{others}"
