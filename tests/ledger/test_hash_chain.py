import hashlib
import json

import pytest

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.service.ledger.hash_chain import EMPTY, ChainEvent, Head, SealedText, canonical, unsealed
from support.chain import next_event


def test_the_hash_can_be_recomputed_with_nothing_but_json_and_sha256() -> None:
    event = next_event(Head(4, "ab" * 32), "open", {"n": 3, "µ": 0.1}, budget=5, key="p", spent="0")
    body = {
        "n": 3,
        "µ": 0.1,
        "sequence": 5,
        "kind": "open",
        "budget": 5,
        "entry": None,
        "key": "p",
        "spent": "0",
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert event.body == text
    assert event.hash == hashlib.sha256(("ab" * 32 + "\n" + text).encode("ascii")).hexdigest()


@pytest.mark.parametrize("value", [0.1, 1e-300, 5e-324, 1e22, -0.0, [1, "é\x00\ud800"], {"b": None, "a": True}])
def test_canonical_json_reads_back_to_the_bit(value: object) -> None:
    text = canonical(value)
    assert text.isascii()
    assert canonical(json.loads(text)) == text
    assert repr(json.loads(text)) == repr(value) or isinstance(value, dict)


def test_an_untouched_event_unseals_to_its_content() -> None:
    event = next_event(EMPTY, "create", {"version": 1})
    assert unsealed(EMPTY, event) == {"version": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sequence": 3}, "event 2 is missing"),
        ({"body": '{"n":4}'}, "event 2 was altered: its hash"),
        ({"hash": "0" * 64}, "event 2 was altered: its hash"),
        ({"kind": "void"}, "column kind"),
        ({"budget": 7}, "column budget"),
        ({"entry": 7}, "column entry"),
        ({"key": "q"}, "column key"),
        ({"spent": "1/2"}, "column spent"),
        ({"value": "forged"}, "its value"),
        ({"value": None}, "its value"),
    ],
)
def test_any_changed_column_is_found_and_named(change: dict[str, object], said: str) -> None:
    head, value = Head(1, "cd" * 32), '{"value":1}'
    content = {"value_hash": hashlib.sha256(value.encode()).hexdigest(), "kept": True}
    event = next_event(head, "commit", content, budget=1, entry=1, key="k", spent="0", value=value)
    assert unsealed(head, event) == content
    with pytest.raises(LedgerCorrupt, match=said):
        unsealed(head, ChainEvent(**(event._asdict() | change)))


def test_an_event_of_another_chain_does_not_fit() -> None:
    event = next_event(Head(1, "00" * 32), "open", {})
    with pytest.raises(LedgerCorrupt, match="event 2 was altered"):
        unsealed(Head(1, "11" * 32), event)


def test_a_body_that_is_no_object_is_refused() -> None:
    body = "[]"
    digest = hashlib.sha256(f"{EMPTY.hash}\n{body}".encode()).hexdigest()
    with pytest.raises(LedgerCorrupt, match="event 1 is no JSON object"):
        unsealed(EMPTY, ChainEvent(1, "open", None, None, None, None, body, None, digest))


def test_what_is_written_already_is_the_same_event() -> None:
    content = {"request": {"b": [1, None, "µ"], "a": 0.1}, "cost": 1e-300, "who": "ada", "none": None, "yes": True}
    written = content | {"request": SealedText(canonical(content["request"]))}
    columns = {"budget": 5, "entry": 6, "key": "k\n\u2028", "spent": "1/3"}
    event = next_event(EMPTY, "reserve", content, **columns)
    assert next_event(EMPTY, "reserve", written, **columns) == event
    assert event.body == canonical(content | columns | {"sequence": 1, "kind": "reserve"})
