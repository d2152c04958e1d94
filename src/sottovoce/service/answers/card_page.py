"""The page of a privacy card: one file of HTML, for screens light and dark, wide and narrow, and for paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.explanations import texts
from sottovoce.service.answers.icon_arrays import icons

EMPTY_SIGNATURE = '<script type="application/json" id="signature"></script>'
"""Where the signature goes. What is signed is the page with nothing in it."""


def style() -> str:
    """Return the style sheet of a card."""
    return resources.files("sottovoce.service.answers").joinpath("card.css").read_text(encoding="utf-8")


def page(content: Mapping[str, Any], fingerprint: str | None = None) -> str:
    """Return the page that says what `content` holds; whatever is put into it is escaped."""
    words = texts(str(content["language"]))
    card = words["card"]
    title = _text(content["title"])
    sections = [
        _header(content, card, title),
        _section(card["meaning"], _meaning(content["explanation"], words), "meaning"),
        '<div class="pair">'
        + _section(card["budget"], _budget(content, card), "budget")
        + _section(card["data"], _data(content, card), "data")
        + "</div>",
        _section(card["releases"], _releases(content, card), "releases"),
        '<div class="pair">'
        + _section(card["assumed"], _list(content["assumptions"]))
        + _section(card["not_promised"], _list(content["never"]))
        + "</div>",
        _section(card["nist"], _questions(content, card), "nist"),
        _section(card["proof"], _proof(content, card, fingerprint), "proof"),
    ]
    head = (
        f'<!doctype html>\n<html lang="{_text(content["language"])}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(card['heading'])}: {title}</title>\n<style>{style()}</style>\n</head>\n"
    )
    body = "\n".join(sections)
    return f"{head}<body>\n<main>\n{body}\n</main>\n{EMPTY_SIGNATURE}\n</body>\n</html>\n"


def _text(value: object) -> str:
    return escape(str(value))


def _section(heading: str, body: str, name: str = "") -> str:
    return f'<section class="{name}"><h2>{_text(heading)}</h2>{body}</section>'


def _list(items: Iterable[object]) -> str:
    return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """Return a table whose cells, on a narrow screen, each say what column they are of. Cells are HTML already."""
    top = "".join(f'<th scope="col">{_text(head)}</th>' for head in heads)
    body = "".join(
        "<tr>"
        + "".join(f'<td data-head="{_text(h)}">{cell}</td>' for h, cell in zip(heads, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<table class="{name}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _header(content: Mapping[str, object], card: Mapping[str, object], title: str) -> str:
    by = f"{_text(content['issuer'])} · " if content["issuer"] else ""
    return (
        f'<header><p class="kind">{_text(card["heading"])}</p><h1>{title}</h1><p class="lead">{_text(card["lead"])}</p>'
        f'<p class="soft">{by}{_text(content["made"])}</p></header>'
    )


def _meaning(told: Mapping[str, Any], words: Mapping[str, Any]) -> str:
    dots = icons(told["people"], told["before"], told["after"])
    names = ("anyway", "more", "rest", "each")
    legend = "".join(
        f'<li class="{name}">{_text(label)}</li>' for name, label in zip(names, dots.legend(words), strict=False)
    )
    parts = told["parts"]
    warned = "".join(f'<p class="beware">{_text(parts[name])}</p>' for name in ("weak", "unproven") if name in parts)
    remainder = "".join(f"<p>{_text(parts[name])}</p>" for name in ("toss", "sure"))
    first = parts["guess"]
    return (
        f'<p class="first">{_text(first)}</p>{warned}'
        f'<figure>{dots.svg(first)}<figcaption><ul class="legend">{legend}</ul></figcaption></figure>{remainder}'
    )


def _budget(content: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    spent, shown = float(content["spent"]), content["explanation"]
    lines = [shown["parts"][name] for name in ("whole", "spent", "so_far", "nothing") if name in shown["parts"]]
    who = card["by"].format(who=content["opened"]["who"]) if content["opened"]["who"] else ""
    lines.append(card["opened"].format(at=content["opened"]["at"], who=who))
    lines += [card["parts"].format(count=content["parts"])] if content["parts"] else []
    filled = 400 * min(max(spent, 0.0), 1.0)
    rail = (
        f'<svg class="rail" role="img" aria-label="{percent(spent)}" viewBox="0 0 400 14" width="100%" height="14" '
        f'preserveAspectRatio="none"><rect class="rest" width="400" height="14" fill="#d5d8dc"/>'
        f'<rect class="anyway" width="{filled:.2f}" height="14" fill="#1f77b4"/></svg>'
    )
    said = "".join(f"<p>{_text(line)}</p>" for line in lines)
    promise = Promise.from_dict(content["budget"]["promise"])
    return f'<p class="promise"><code>{_text(promise)}</code> {_text(content["budget"]["in_words"])}</p>{rail}{said}'


def _data(content: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    rows = []
    for name, kind in content["columns"].items():
        fact = content["facts"].get(name)
        if fact is not None:
            rows.append((_text(name), _text(fact.get("kind", kind)), _text(_public(fact, card))))
        elif not content["facts"]:
            rows.append((_text(name), _text(kind), "–"))
    rows += [
        (_text(name), _text(fact.get("kind", "")), _text(_public(fact, card)))
        for name, fact in content["facts"].items()
        if name not in content["columns"]
    ]
    relation = str(Promise.from_dict(content["budget"]["promise"]).relation)
    size = "" if content["n"] is None else f"{content['n']:,}"
    counted = texts(str(content["language"]))["relation"][relation]["records"].format(n=size)
    table = _table(card["columns"]["facts"], rows, "facts") if rows else f"<p>{_text(card['all_columns'])}</p>"
    return f"<p>{_text(counted)}</p><p>{_text(content['relation'])}</p>{table}"


def _public(fact: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """Return what is public of a column in a few words: its bounds, or its categories."""
    if "categories" in fact:
        result = [str(item) for item in fact["categories"]]
        return ", ".join(result[:12]) + (f" … ({len(result)})" if len(result) > 12 else "")
    if fact.get("kind") == "flag":
        return str(card["yes_no"])
    ends = [0] if fact.get("kind") == "count" else []
    ends += [fact[name] for name in ("low", "high", "first", "last") if name in fact]
    shown = " – ".join(f"{end:g}" if isinstance(end, float | int) else str(end) for end in ends)
    return shown or "–"


def _releases(content: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    said = ""
    if content["given_up"]:
        said = f'<p class="soft">{_text(card["given_up"].format(count=content["given_up"]))}</p>'
    answered = _entries(content["releases"], card) if content["releases"] else f"<p>{_text(card['none_yet'])}</p>"
    if content["unanswered"]:
        said = f"<h3>{_text(card['unanswered'])}</h3>" + _entries(content["unanswered"], card) + said
    return answered + said


def _entries(entries: Iterable[Mapping[str, Any]], card: Mapping[str, Any]) -> str:
    """Return a table of what was charged: when, who, what, why, how much and on what it rests."""
    rows = []
    for item in entries:
        note = card.get(item["state"], "")
        question = _text(item["question"]) + (f' <span class="soft">({_text(note)})</span>' if note else "")
        purpose = (
            _text(item["purpose"]) if item["purpose"] else f'<span class="soft">{_text(card["not_stated"])}</span>'
        )
        basis = _text(card["basis"].get(item["basis"], item["basis"]))
        share = percent(item["share"])
        rows.append((str(int(item["entry"])), _text(item["day"]), _text(item["who"]), question, purpose, share, basis))
    return _table(card["columns"]["releases"], rows, "entries")


def _questions(content: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    rows = [
        (
            _text(item["topic"]),
            f'<span class="{"covered" if item["covered"] else "open"}">{_text(item["answer"])}</span>',
        )
        for item in content["questions"]
    ]
    return _table(card["columns"]["nist"], rows, "asked")


def _proof(content: Mapping[str, Any], card: Mapping[str, Any], fingerprint: str | None) -> str:
    head = card["head"].format(count=f"{content['head']['count']:,}", hash=content["head"]["hash"])
    if fingerprint is None:
        return f'<p class="hash">{_text(head)}</p><p>{_text(card["unsigned"])}</p>'
    command = f"<pre>sottovoce card --verify CARD.html --key PUBLIC.pem</pre><p class='hash'>{_text(fingerprint)}</p>"
    return f'<p class="hash">{_text(head)}</p><p>{_text(card["verify"])}</p>{command}'
