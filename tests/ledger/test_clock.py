"""A clock that is set back, or runs wild: what was spent stays spent, and the chain stays whole."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import GaussianDP
from sottovoce.service.ledger import Ledger
from sottovoce.service.ledger import schema as stamps

DAY = 86_400 * 10**9


def test_a_clock_set_back_gives_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(2_000_000_000 * 10**9, 0, -400 * DAY))  # every stamp more than a year before the last
    monkeypatch.setattr(stamps, "time", SimpleNamespace(time_ns=lambda: next(moments)))
    path = tmp_path / "patients.ledger"
    with Ledger(path, create=True) as ledger:
        budget = ledger.open_budget("patients", GaussianDP(1.0), n=100, schema={})
        ledger.commit(ledger.reserve(budget, GaussianProfile(0.5), {}), {"value": 1})
    with Ledger(path) as ledger:
        budget = ledger.budget("patients")
        assert ledger.spent(budget) == Fraction(1, 4)
        for _ in range(3):
            ledger.commit(ledger.reserve(budget, GaussianProfile(0.5), {}), {"value": 1})
        with pytest.raises(BudgetExceeded):
            ledger.reserve(budget, GaussianProfile(0.5), {})
        assert ledger.spent(budget) == 1
    with Ledger(path) as ledger:
        head = ledger.verify()
        assert head.count > 8
        entries = list(ledger.entries())
        assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)  # by the chain
        assert ledger.spent(ledger.budget("patients")) == 1
