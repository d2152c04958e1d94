"""Every planted fault is caught by the checks that its entry names; without it, those checks pass."""

import pytest

from audit.checks import known_checks
from audit.faults import all_faults, planted
from audit.faults.audits import AUDITS, run
from audit.write_page import PAGE, expected_rows, rows_of

FAULTS = all_faults()
_BREAKDOWNS = ("TypeError:", "NameError:", "AttributeError:", "IndexError:", "KeyError:")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_caught(fault):
    with planted(fault):
        results = [run(name) for name in fault.caught_by]
    assert fault.caught_by
    for result in results:
        assert result.passed is False, f"{result.name} saw nothing: {result.evidence}"
        # A patch that no longer fits what it patches breaks down, and proves nothing about the fault.
        assert not result.evidence.startswith(_BREAKDOWNS), result.evidence


@pytest.mark.parametrize("name", AUDITS)
def test_the_audit_finds_nothing_without_a_fault(name):
    result = run(name)
    assert result.passed, result.evidence


def test_every_check_catches_some_fault():
    idle = {*known_checks(), *AUDITS} - {name for fault in FAULTS for name in fault.caught_by}
    assert not idle


def test_the_page_lists_what_is_planted_and_what_catches_it():
    """The names must agree; the numbers that checks quote may differ from one machine to the next."""
    assert rows_of(PAGE.read_text(encoding="utf-8")) == expected_rows()
    assert len(FAULTS) >= 20
