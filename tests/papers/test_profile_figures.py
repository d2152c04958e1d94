"""The figures of chapter 7: what the thesis saw is seen here."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")


NOT_SEEN = {
    # The thesis's general remark; its objective is not this cost, and at small ε the difference shows.
    "profile-categories": ["randomized response costs more for every category at every ε"],
}


@pytest.mark.parametrize("name", ["profile-couplet", "profile-categories", "profile-chain-6", "profile-chain-21"])
def test_what_the_thesis_saw_is_seen_here(name, quick_run):
    outcome, files = quick_run(name)
    assert len(outcome.findings) >= 3
    assert [finding.claim for finding in outcome.findings if not finding.holds] == NOT_SEEN.get(name, [])
    assert {path.suffix for path in files} == {".png", ".csv"}
    assert all(path.stat().st_size > 1000 for path in files)
