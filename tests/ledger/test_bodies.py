"""Bodies of the events that every release has, which are made in one step, are those that `canonical` makes."""

import pytest

from sottovoce.service.ledger.hash_chain import canonical, commit_body, reserve_body

AT = "2026-01-01T00:00:00.000+00:00"


@pytest.mark.parametrize("key", [None, 'k"\n\u2028 %s {at}'])
@pytest.mark.parametrize("cost", [1e-300, 0.1, 2.0, 3])
def test_of_a_reserve(key: str | None, cost: float) -> None:
    content = {"at": AT, "cost": cost, "guard": "ab" * 32, "who": 'ada "µ" %d {who}'}
    profile, request = {"basis": "bound", "mu": 0.5}, {"b": [1, None, "µ"], "a": 0.1}
    body = reserve_body(7, 2, key, "1/3", **content, profile=canonical(profile), request=canonical(request))  # type: ignore[arg-type]
    columns = {"sequence": 7, "kind": "reserve", "budget": 2, "entry": 7, "key": key, "spent": "1/3"}
    assert body == canonical(content | columns | {"profile": profile, "request": request})


@pytest.mark.parametrize("kept", [True, False])
def test_of_a_commit(kept: bool) -> None:
    columns = {"sequence": 8, "kind": "commit", "budget": 2, "entry": 7, "key": None, "spent": None}
    content = {"at": AT, "kept": kept, "value_hash": "cd" * 32}
    assert commit_body(8, 2, 7, at=AT, kept=kept, value_hash="cd" * 32) == canonical(content | columns)
