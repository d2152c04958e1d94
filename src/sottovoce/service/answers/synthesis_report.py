"""The report of synthetic tables: one file of HTML that says what they keep, how well, and what they are not for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sottovoce.privacy.shares import percent
from sottovoce.service.answers.card_page import style
from sottovoce.service.answers.explanations import explain

if TYPE_CHECKING:
    from sottovoce.service.answers.synthesis import Synthesis

__all__ = ["report_page"]

_CELL, _MARGIN, _BAR, _LABEL = 22, 150, 160, 150
"""Sizes of the pictures, in pixels: a square, the names beside squares, a full bar, the names beside bars."""
_MOST_BARS = 12
"""The most parts of a column that are drawn."""
_COARSE = 0.2
"""An error from which a square is drawn at its darkest: a fifth of all records would have to change their cell."""


def report_page(synthesis: Synthesis) -> str:
    """Return the report as a page; whatever is put into it is escaped."""
    title = f"Synthetic tables of {synthesis.dataset}"
    kept = sorted((row for row in synthesis.kept if row["kept"]), key=lambda row: -row["error"])
    lost = [f"{row['first']} × {row['second']}" for row in synthesis.kept if not row["kept"]]
    sections = [
        f"<header><h1>{escape(title)}</h1><p>{escape(_head(synthesis))}</p></header>",
        _section("What they are not for", _list(synthesis.notes)),
        _section("Relations kept", _list(" × ".join(clique) for clique in synthesis.posterior.relations)),
        _section("How well two columns together are kept", _MEANING + squares(synthesis.columns, synthesis.kept)),
        _section("Errors, largest first", _table(kept)),
        _section("Relations not kept", _list(lost or ["None: every two columns were released together."])),
        _section("Columns by themselves", "".join(_bars(column) for column in synthesis.shares())),
    ]
    if synthesis.refused:
        said = (f"{source}: {why}" for source, why in synthesis.refused)
        sections.append(_section("Releases that are no part of it", _list(said)))
    if synthesis.promise is not None:
        known = explain(synthesis.promise)
        words = (f"All releases of these data keep {synthesis.promise} together; drawing tables adds nothing to it.",)
        sections.append(_section("Privacy", _list((*words, *known.sentences))))
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{escape(title)}</title>\n'
        f"<style>{style()}</style>\n</head>\n"
    )
    return f"{head}<body>\n<main>\n{chr(10).join(sections)}\n</main>\n</body>\n</html>\n"


_MEANING = (
    "<p>The error of a pair is the share of records that would have to change their cell, as the noise and the number "
    "of records leave it uncertain; the darker a square, the larger. Hatched pairs are not kept.</p>"
)


def _head(synthesis: Synthesis) -> str:
    entries = ", ".join(map(str, synthesis.entries)) or "none"
    return (
        f"{synthesis.sets} tables of {synthesis.size:,} rows, drawn from the noise-aware posterior of what entries "
        f"{entries} released of {synthesis.n:,} records; {synthesis.cost_words()}. Every row is made up."
    )


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{body}</section>"


def _list(items: Iterable[object]) -> str:
    return "<ul>" + "".join(f"<li>{escape(str(item))}</li>" for item in items) + "</ul>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    body = "".join(
        f"<tr><td>{escape(row['first'])} × {escape(row['second'])}</td><td>{percent(row['error'])}</td></tr>"
        for row in rows
    )
    head = '<thead><tr><th scope="col">Columns</th><th scope="col">Error</th></tr></thead>'
    return f"<table>{head}<tbody>{body}</tbody></table>" if rows else "<p>No two columns were released together.</p>"


def squares(names: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> str:
    """Return a square for every two columns, as dark as their table's error, as SVG.

    >>> drawn = squares(["a", "b"], [{"first": "a", "second": "b", "kept": True, "error": 0.05}])
    >>> "a × b: 5 %" in drawn
    True
    """
    known = {frozenset((row["first"], row["second"])): row for row in pairs}
    parts = []
    for down, first in enumerate(names):
        y = _CELL * down
        parts.append(f'<text x="{_MARGIN - 6}" y="{y + 15}" text-anchor="end">{escape(first[:20])}</text>')
        for across, second in enumerate(names[:down]):
            row = known[frozenset((first, second))]
            said = percent(row["error"]) if row["kept"] else "not kept"
            look = f'fill-opacity="{min(0.1 + 0.9 * row["error"] / _COARSE, 1):.2f}"' if row["kept"] else 'class="none"'
            fill = "currentColor" if row["kept"] else "url(#hatched)"
            parts.append(
                f'<rect x="{_MARGIN + _CELL * across}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" fill="{fill}" '
                f"{look}><title>{escape(f'{second} × {first}: {said}')}</title></rect>"
            )
    hatched = (
        '<defs><pattern id="hatched" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line x1="0" y1="0" x2="0" y2="5" stroke="currentColor" stroke-width="1"/></pattern></defs>'
    )
    width, height = _MARGIN + _CELL * len(names), _CELL * len(names)
    return (
        f'<svg role="img" aria-label="Errors of all pairs of columns" viewBox="0 0 {width} {height}" width="{width}" '
        f'style="max-width:100%;font-size:11px" fill="currentColor">{hatched}{"".join(parts)}</svg>'
    )


def _bars(column: Mapping[str, Any]) -> str:
    """Return the shares of a column's parts with their intervals, as SVG."""
    rows = column["rows"][:_MOST_BARS]
    parts = []
    for place, row in enumerate(rows):
        y, low, high = 18 * place, *(_LABEL + _BAR * row[end] for end in ("low", "high"))
        middle = _BAR * row["estimate"]
        parts.append(
            f'<text x="{_LABEL - 6}" y="{y + 12}" text-anchor="end">{escape(str(row["part"])[:22])}</text>'
            f'<rect x="{_LABEL}" y="{y + 3}" width="{middle:.1f}" height="10" fill-opacity=".35"/>'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 8}" y2="{y + 8}" stroke="currentColor" stroke-width="2"/>'
            f'<text x="{_LABEL + _BAR + 8}" y="{y + 12}">{percent(row["estimate"])}</text>'
        )
    more = len(column["rows"]) - len(rows)
    beyond = f"<p>and {more} more</p>" if more > 0 else ""
    width, height = _LABEL + _BAR + 60, 18 * len(rows)
    return (
        f'<h3>{escape(column["name"])}</h3><svg role="img" aria-label="Shares of {escape(column["name"])}" '
        f'viewBox="0 0 {width} {height}" width="{width}" style="max-width:100%;font-size:11px" fill="currentColor">'
        f"{''.join(parts)}</svg>{beyond}"
    )
