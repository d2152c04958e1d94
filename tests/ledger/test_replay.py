from typing import Any

import pytest

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger.hash_chain import EMPTY, Head, digest
from sottovoce.service.ledger.records import State
from sottovoce.service.ledger.replay import Replay
from support.chain import next_event

Story = list[tuple[str, dict[str, Any], dict[str, Any]]]

PROFILE = GaussianProfile(0.5).to_dict()


def reserve(number: int, cost: float, spent: str, **columns: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    content = {
        "request": {},
        "profile": PROFILE,
        "cost": cost,
        "guard": digest("token"),
        "who": "ada",
        "at": "t",
    }
    return "reserve", content, {"budget": 2, "entry": number, "spent": spent} | columns


def commit(entry: int, **columns: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    value = '{"value":1}'
    content = {"value_hash": digest(value), "kept": True, "at": "t"}
    return "commit", content, {"budget": 2, "entry": entry, "value": value} | columns


def story() -> Story:
    """Seven events that keep every rule: a release, a void, a loss."""
    opening = {
        "promise": RenyiDP(2, 1.0).to_dict(),
        "n": 9,
        "schema": {},
        "filter": {},
        "limit": 1.0,
    }
    return [
        ("create", {"version": 1, "layout": "abc"}, {}),
        ("open", opening | {"who": "ada", "at": "t"}, {"budget": 2, "key": "patients", "spent": "0"}),
        reserve(3, 0.25, "1/4", key="k"),
        commit(3),
        reserve(5, 0.5, "3/4", key="again"),
        ("void", {"token": "token", "note": "no", "at": "t"}, {"budget": 2, "entry": 5, "spent": "1/4"}),
        reserve(7, 0.75, "1", key="again"),
        ("recover", {"note": "crash", "at": "t", "who": "bob"}, {"budget": 2, "entry": 7}),
    ]


def replay(events: Story) -> Replay:
    """Seal the events into a chain, each hash in order, and replay them."""
    told, head = Replay(), EMPTY
    for kind, content, columns in events:
        event = next_event(head, kind, content, **columns)
        head = Head(event.sequence, event.hash)
        told.feed(event)
    return told


def test_a_story_that_keeps_the_rules_is_told_whole() -> None:
    told = replay(story())
    assert [entry.state for entry in told.entries.values()] == [State.COMMITTED, State.VOID, State.LOST]
    assert told.spent == {2: 1}
    assert (told.version, told.layout, told.head.count) == (1, "abc", 8)
    assert told.budgets[2].promise == RenyiDP(2, 1.0)


@pytest.mark.parametrize(
    ("number", "content", "columns", "said"),
    [
        (1, {"version": 0}, {}, "no newer than version 0"),
        (2, {"promise": {"promise": "pinky"}}, {}, "no promise is called 'pinky'"),
        (2, {}, {"spent": "-1"}, "a budget opens with nothing spent"),
        (2, {}, {"budget": 1}, "a budget opens with nothing spent"),
        (3, {"cost": 0.0}, {}, "the running total is wrong"),
        (3, {"cost": 5.0}, {"spent": "5"}, "the budget is overspent"),
        (3, {"cost": -0.25}, {"spent": "-1/4"}, "it was charged -0.25, and a cost is a number from 0 on"),
        (3, {"cost": -6.42e-300}, {"spent": "-1"}, "it was charged -6.42e-300"),
        (3, {"cost": float("nan")}, {}, "it was charged nan"),
        (3, {"cost": float("inf")}, {}, "it was charged inf"),
        (3, {"cost": "much"}, {}, "could not convert"),
        (3, {}, {"budget": 1}, "there is no budget 1"),
        (3, {}, {"entry": 4}, "an entry bears the number of its event"),
        (4, {}, {"budget": 5}, "entry 3 belongs to budget 2"),
        (4, {}, {"entry": 99}, "it lacks 99"),
        (5, {}, {"key": "k"}, "its key was used already"),
        (6, {"token": "guessed"}, {}, "only its holder may void"),
        (6, {}, {"spent": "3/4"}, "the running total is wrong"),
        (7, {"cost": 0.75000000001}, {"spent": "1"}, "the running total is wrong"),
        (8, {}, {"entry": 3}, "entry 3 is committed already"),
        (8, {}, {"entry": 5}, "entry 5 is void already"),
    ],
)
def test_a_well_sealed_event_that_breaks_a_rule_is_found(
    number: int, content: dict[str, Any], columns: dict[str, Any], said: str
) -> None:
    events = story()
    kind, old_content, old_columns = events[number - 1]
    events[number - 1] = (kind, old_content | content, old_columns | columns)
    with pytest.raises(LedgerCorrupt, match=rf"event {number} \({kind}\) breaks the rules: .*{said}"):
        replay(events)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (story()[1:], r"event 1 \(open\)"),
        ([*story(), story()[0]], r"event 9 \(create\) .* a ledger is created once"),
        ([story()[0], ("migrate", {"version": 1, "layout": None}, {})], "no newer than version 1"),
        ([*story()[:2], ("open", *story()[1][1:])], r"event 3 \(open\)"),
        ([*story(), *[("note", {"count": 3, "hash": "0" * 64}, {"key": "other"})] * 2], "another ledger only grows"),
        ([*story(), ("gift", {}, {})], "there is no event of kind 'gift'"),
        ([*story()[:3], commit(3), commit(3)], "entry 3 is committed already"),
    ],
)
def test_an_event_out_of_place_is_found(events: Story, said: str) -> None:
    with pytest.raises(LedgerCorrupt, match=said):
        replay(events)


def test_a_second_budget_for_one_data_set_is_found() -> None:
    again = ("open", story()[1][1], {"budget": 3, "key": "patients", "spent": "0"})
    with pytest.raises(LedgerCorrupt, match="has a budget already"):
        replay([*story()[:2], again])


def shared_story() -> Story:
    """A part of the budget, charged and refunded with its whole."""
    part = {"promise": RenyiDP(2, 1.0).to_dict(), "n": 9, "schema": {}, "filter": {}, "limit": 0.5, "whole": 2}
    return [
        *story()[:2],
        ("open", part | {"who": "ada", "at": "t"}, {"budget": 3, "key": "patients/ada", "spent": "0"}),
        reserve(4, 0.25, "1/4", budget=3),
        ("charge", {"cost": 0.5}, {"budget": 2, "entry": 4, "spent": "1/2"}),
        ("void", {"token": "token", "note": "no", "at": "t"}, {"budget": 3, "entry": 4, "spent": "0"}),
        ("refund", {}, {"budget": 2, "entry": 4, "spent": "0"}),
    ]


def test_a_part_and_its_whole_move_together() -> None:
    told = replay(shared_story())
    assert told.spent == {2: 0, 3: 0}
    assert told.owed is None
    assert replay(shared_story()[:4]).owed == ("charge", 4, 2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s.pop(4), "charged and refunded together"),
        (lambda s: s.insert(6, s[3]), "charged and refunded together"),
        (lambda s: s.append(("refund", {}, {"budget": 2, "entry": 4, "spent": "0"})), "together"),
        (lambda s: s.__setitem__(4, ("charge", {"cost": 0.5}, {"budget": 2, "entry": 4, "spent": "1/4"})), "total"),
        (lambda s: s.__setitem__(4, ("charge", {"cost": 1.5}, {"budget": 2, "entry": 4, "spent": "3/2"})), "whole"),
        (
            lambda s: s.__setitem__(4, ("charge", {"cost": -0.5}, {"budget": 2, "entry": 4, "spent": "-1/2"})),
            "-0.5, and",
        ),
        (lambda s: s.__setitem__(6, ("refund", {}, {"budget": 2, "entry": 4, "spent": "-1/2"})), "total"),
        (lambda s: s[2][1].update(whole=9), "no budget 9"),
    ],
)
def test_a_part_that_breaks_a_rule_is_found(change: Any, complaint: str) -> None:
    events = shared_story()
    change(events)
    with pytest.raises(LedgerCorrupt, match=complaint):
        replay(events)
