"""Fixtures and rules for every room."""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import what they share: `support.postgres`

from support.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """Where every part must be there (SOTTOVOCE_CI=1), a skipped test is a failed one."""
    del item, call
    report = (yield).get_result()
    if os.environ.get("SOTTOVOCE_CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
