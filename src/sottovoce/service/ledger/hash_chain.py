"""The chain: every event of a ledger, each sealed with the hash of all that came before it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.privacy.json_values import canonical

__all__ = [
    "EMPTY",
    "ChainEvent",
    "Head",
    "SealedText",
    "body_of",
    "canonical",
    "canonical_object",
    "commit_body",
    "digest",
    "reserve_body",
    "unsealed",
]


class Head(NamedTuple):
    """Where a chain ends: how many events it has and the hash of the last one.

    Written down outside the ledger, it lets `Ledger.verify` prove that nothing up to it was changed or lost.
    """

    count: int  # type: ignore[assignment]  # not how often a tuple holds something
    hash: str

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    def after(self, body: str) -> Head:
        """Return the head once an event of this body follows: SHA-256(hash, newline, body)."""
        return Head(self.count + 1, digest(f"{self.hash}\n{body}"))


_quoted = json.encoder.encode_basestring_ascii

EMPTY = Head(0, "0" * 64)
"""The head of a chain with no events."""


class SealedText(NamedTuple):
    """A value of an event's content whose text `canonical` has made already: it goes into the body as it is."""

    text: str


class _Texts(dict[type, Callable[[Any], str]]):
    """What `canonical` makes of values by their types: of those that most events are made of, in a step."""

    def __missing__(self, _: type) -> Callable[[Any], str]:
        return canonical


_TEXTS = _Texts(
    {
        str: _quoted,
        int: int.__repr__,
        float: lambda value: float.__repr__(value) if math.isfinite(value) else canonical(value),
        bool: {True: "true", False: "false"}.__getitem__,
        NoneType: lambda _: "null",
        SealedText: operator.itemgetter(0),
    }
)
_COLUMNS = ("sequence", "budget", "entry", "key", "spent", "kind")
"""The columns of an event that its body repeats."""


class ChainEvent(NamedTuple):
    """One row of the ledger. Everything but `value` and `hash` is in `body`, which is what the hash seals."""

    sequence: int
    kind: str
    budget: int | None
    entry: int | None
    key: str | None
    spent: str | None
    body: str
    value: str | None
    hash: str


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def body_of(
    kind: str,
    content: Mapping[str, object],
    sequence: int,
    budget: int | None,
    entry: int | None,
    key: str | None,
    spent: str | None,
) -> str:
    """Return the canonical body of an event: its content and its columns."""
    texts: list[object] = [_TEXTS[type(item)](item) for item in content.values()]
    texts += sequence, "null" if budget is None else budget, "null" if entry is None else entry
    texts += "null" if key is None else _quoted(key), "null" if spent is None else _quoted(spent)
    layout, in_order = _event_layout(kind, tuple(content))
    return layout % in_order(texts)


def reserve_body(
    sequence: int,
    budget: int,
    key: str | None,
    spent: str,
    *,
    at: str,
    cost: float,
    guard: str,
    profile: str,
    request: str,
    who: str,
    periods: Sequence[str] | None = None,
) -> str:
    """Return what `body_of` makes of a reserve, of whose content some is text already: there is one in each release."""
    charged = "" if periods is None else f'"periods":{canonical(list(periods))},'
    return (
        f'{{"at":"{at}","budget":{budget},"cost":{_TEXTS[type(cost)](cost)},"entry":{sequence},"guard":"{guard}",'
        f'"key":{"null" if key is None else _quoted(key)},"kind":"reserve",{charged}"profile":{profile},'
        f'"request":{request},"sequence":{sequence},"spent":"{spent}","who":{_TEXTS[type(who)](who)}}}'
    )


def commit_body(sequence: int, budget: int, entry: int, *, at: str, kept: bool, value_hash: str) -> str:
    """Return what `body_of` makes of a commit."""
    return (
        f'{{"at":"{at}","budget":{budget},"entry":{entry},"kept":{"true" if kept else "false"},"key":null,'
        f'"kind":"commit","sequence":{sequence},"spent":null,"value_hash":"{value_hash}"}}'
    )


@functools.lru_cache(maxsize=64)
def _event_layout(kind: str, names: tuple[str, ...]) -> tuple[str, Callable[[list[Any]], tuple[Any, ...]]]:
    """Return the body of an event of some kind with a gap for each value, and what puts the values in order."""
    names = (*names, *_COLUMNS)
    in_order = sorted(range(len(names)), key=names.__getitem__)
    gaps = dict.fromkeys(names, "%s") | {"kind": _quoted(kind).replace("%", "%%")}
    layout = ",".join(f"{_quoted(names[place]).replace('%', '%%')}:{gaps[names[place]]}" for place in in_order)
    return f"{{{layout}}}", operator.itemgetter(*[place for place in in_order if names[place] != "kind"])


def canonical_object(values: Mapping[str, object]) -> str:
    """Return `canonical` of an object, in which values may be `SealedText` already.

    >>> canonical_object({"b": SealedText('{"c":1}'), "a": None})
    '{"a":null,"b":{"c":1}}'
    """
    pieces = [before + _TEXTS[type(value := values[name])](value) for name, before in _layout(tuple(values))]
    return "".join(pieces) + "}" if pieces else "{}"


@functools.lru_cache(maxsize=256)
def _layout(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return names in order, each with all that stands before its value: most objects are of a few kinds."""
    return [(name, f"{',' if i else '{'}{_quoted(name)}:") for i, name in enumerate(sorted(names))]


def unsealed(head: Head, event: ChainEvent) -> dict[str, object]:
    """Return the content of the event that should follow `head`, or say how the chain is broken there."""
    sequence = head.count + 1
    if event.sequence != sequence:
        raise LedgerCorrupt(f"event {sequence} is missing: event {event.sequence} follows event {head.count}")
    if event.hash != head.after(event.body).hash:
        raise LedgerCorrupt(f"event {sequence} was altered: its hash does not fit what it says and what came before")
    try:
        content = json.loads(event.body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise LedgerCorrupt(f"event {sequence} is no JSON object")
    for name in _COLUMNS:
        if content.pop(name, None) != getattr(event, name):
            raise LedgerCorrupt(f"event {sequence} was altered: its column {name} does not say what its body says")
    kept = content.get("kept", False)
    if kept != (event.value is not None) or (kept and digest(str(event.value)) != content.get("value_hash")):
        raise LedgerCorrupt(f"event {sequence} was altered: its value is not the one that was recorded")
    return content
