"""What a check says, and the list of all checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from sottovoce.privacy.errors import NotInstalled
from sottovoce.privacy.lazy_imports import needing


@dataclass(frozen=True)
class CheckResult:
    """One check: its name, whether it passed (None: it was not tried), and the numbers behind the answer."""

    name: str
    passed: bool | None
    evidence: str

    def to_dict(self) -> dict[str, object]:
        """Return the result as plain values."""
        return asdict(self)


CHECKS: dict[str, Callable[[], CheckResult]] = {}
"""Every registered check by name, in the order of registration."""


def attempt(name: str, body: Callable[[], tuple[bool, str]]) -> CheckResult:
    """Return what a check says; one that raises has not passed, whatever a broken mechanism does."""
    try:
        passed, evidence = body()
    except ModuleNotFoundError as error:
        missing = needing(error)
        # What an extra would bring is missing, and nothing is wrong with what is here.
        return CheckResult(name, None if isinstance(missing, NotInstalled) else False, str(missing))
    except Exception as error:
        return CheckResult(name, False, f"{type(error).__name__}: {error}")
    return CheckResult(name, passed, evidence)


def check(name: str) -> Callable[[Callable[[], tuple[bool, str]]], Callable[[], CheckResult]]:
    """Register the decorated function as the check `name`; it returns whether it passed, and the evidence."""

    def register(body: Callable[[], tuple[bool, str]]) -> Callable[[], CheckResult]:
        @functools.wraps(body)
        def run() -> CheckResult:
            return attempt(name, body)

        CHECKS[name] = run
        return run

    return register


def verdict(problems: Sequence[str], evidence: str) -> tuple[bool, str]:
    """Return what a check returns: the first problem, or the evidence where there is none."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return False, problems[0] + more
    return True, evidence
