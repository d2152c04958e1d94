"""No double spend, nothing lost: several processes, random kills. benchmarks/ledger.py does the same at scale."""

import pytest

from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger
from support.stampede import stampede

COST = 0.125**2


@pytest.mark.parametrize("covers", [10, 1000])
def test_no_double_spend_and_nothing_lost(url: str, covers: int) -> None:
    # A budget for ten releases, which the workers exhaust at once, and one that outlasts them all.
    with Ledger(url, create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, covers * COST), n=100, schema={})
        outcome = stampede(url, processes=6, attempts=12, kills=3, seed=covers)
        outcome.check(ledger, budget)
        assert outcome.killed == 3
        if covers == 10:
            assert ledger.spent(budget) == budget.limit
            assert outcome.refused > 0
        else:
            assert outcome.refused == 0
            assert len(outcome.answered) >= 3 * 12
        for entry in ledger.pending():
            ledger.recover(entry.id, note="killed")
        assert ledger.pending() == []
        ledger.verify()
