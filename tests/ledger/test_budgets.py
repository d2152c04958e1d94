"""Whatever the kind of budget: all that the ledger let through, taken together, keeps the promise."""

from pathlib import Path

import pytest

from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import (
    ApproxDP,
    GaussianDP,
    Promise,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)
from sottovoce.privacy.pure import PureProfile
from sottovoce.service.ledger import Ledger, Reservation

GAUSSIAN, PURE, CONCENTRATED = GaussianProfile(0.05), PureProfile(0.07), ZeroConcentratedProfile(0.002)


@pytest.mark.parametrize(
    ("promise", "order", "profiles"),
    [
        (PureDP(0.5), None, [PURE]),
        (ApproxDP(0.5, 0.0), None, [PURE]),
        (ApproxDP(1.0, 1e-6), None, [GAUSSIAN, PURE, CONCENTRATED]),
        (ApproxDP(1.0, 1e-6), 12.0, [GAUSSIAN, PURE]),
        (RenyiDP(3, 0.05), None, [GAUSSIAN, PURE, CONCENTRATED]),
        (ZeroConcentratedDP(0.03), None, [GAUSSIAN, PURE, CONCENTRATED]),
        (GaussianDP(0.2), None, [GAUSSIAN]),
    ],
)
def test_what_was_let_through_keeps_the_promise(
    tmp_path: Path, promise: Promise, order: float | None, profiles: list[Profile]
) -> None:
    with Ledger(tmp_path / "x.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", promise, n=100, schema={}, order=order)
        while True:
            profile = profiles[len(ledger.entries()) % len(profiles)]
            try:
                right = ledger.reserve(budget, profile, {})
            except BudgetExceeded as refusal:
                assert "nothing was spent" in str(refusal)
                break
            assert isinstance(right, Reservation)
            ledger.commit(right, {})
        spent = [entry.profile for entry in ledger.entries()]
        assert len(spent) >= 3
        together = spent[0]
        for one in spent[1:]:
            together = together + one
        assert together.satisfies(promise)
        # The filter is not idle either: as much again would break the promise.
        assert not (20 * together).satisfies(promise)
        assert type(ledger.remaining(budget)) in (type(promise), RenyiDP, PureDP)


def test_a_release_without_such_privacy_never_fits(tmp_path: Path) -> None:
    with Ledger(tmp_path / "x.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", PureDP(100.0), n=100, schema={})
        with pytest.raises(BudgetExceeded, match="infinite"):
            ledger.reserve(budget, GAUSSIAN, {})
        assert ledger.entries() == []
