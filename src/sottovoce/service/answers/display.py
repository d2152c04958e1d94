"""An answer as people see it: rows with their intervals drawn beside them, on one common scale, in HTML.

Places are in percent, so that a picture is as wide as there is room and its words keep their size.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from sottovoce.inference.cells.groups import shown
from sottovoce.privacy.shares import in_hundred, percent
from sottovoce.service.answers.dated_rows import placed
from sottovoce.service.answers.digits import NUMBERS, formatted

__all__ = [
    "PART",
    "DisplayScale",
    "PlacedRow",
    "drawn_rows",
    "drowned",
    "footing",
    "html_table",
    "picture",
    "plain_words",
    "privacy_part",
    "round_step",
    "scale_of",
    "shown",
]

PART = "privacy's part"
"""The heading of what privacy added to the width of an interval."""
_FAR = 1e300
"""What lies beyond is drawn at the end of a scale: its length is no number any more."""


def footing(level: float, share: float | None, entry: int | None) -> str:
    """Return what holds for every row of a table, and what it cost, in one line.

    >>> footing(0.95, 0.05, 3)
    '95 % intervals, privacy noise included; cost 5 % of the budget, entry 3'
    """
    paid = "" if share is None else f"; cost {percent(share)} of the budget"
    written = "" if entry is None else f", entry {entry}"
    return f"{percent(level)} intervals, privacy noise included{paid}{written}"


def drowned(low: float, high: float, ends: tuple[float, float]) -> bool:
    """Return whether noise hides a row: its interval is all of its public range, whose middle is no estimate.

    >>> drowned(0.0, 1.0, (0.0, 1.0)), drowned(0.0, 0.9, (0.0, 1.0))
    (True, False)
    """
    return ends[0] < ends[1] and (low, high) == ends


def privacy_part(row: Mapping[str, Any], unknown: str = "") -> str:
    """Return the part of a row's width that privacy added; what is less than it can be told to is not told as nothing.

    >>> [privacy_part({"low": 0.0, "high": high, "privacy_share": 0.002}) for high in (1.0, 0.0)]
    ['less than 1 %', '–']
    """
    share = row["privacy_share"]
    if row["low"] == row["high"]:
        return "–"
    return unknown if share is None else "less than 1 %" if share < 0.01 else percent(share, whole=True)


@dataclass(frozen=True)
class DisplayScale:
    """A common scale for the intervals of all rows, with round numbers to write below it, or dates."""

    low: float
    high: float
    ticks: tuple[float, ...]
    dated: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies, in percent; beyond the ends it is kept at them.

        >>> DisplayScale(0.0, 2.0, (0.0, 1.0, 2.0)).place(0.5)
        25.0
        """
        span = self.high - self.low
        return float(np.clip(100 * (value - self.low) / span, 0.0, 100.0)) if span > 0 else 50.0

    def axis(self) -> str:
        """Return the numbers along the scale as a picture."""
        words = []
        for tick in self.ticks:
            place = self.place(tick)
            anchor = "start" if place < 8 else "end" if place > 92 else "middle"
            words.append(f'<text class="tick" x="{place:.2f}%" y="14" text-anchor="{anchor}">{self._word(tick)}</text>')
        return (
            '<svg class="scale" width="100%" height="18" font-size="12" fill="currentColor" aria-hidden="true">'
            f"{''.join(words)}</svg>"
        )

    def _word(self, tick: float) -> str:
        return datetime.date.fromordinal(int(tick)).isoformat() if self.dated else _tick(tick)


def _tick(value: float) -> str:
    if 1e6 <= abs(value) < 1e9:
        return f"{value / 1e6:.4g}M"
    return f"{value:,.0f}" if value == round(value) and 1e3 <= abs(value) < 1e6 else f"{value:.4g}"


def scale_of(rows: Iterable[Mapping[str, object]]) -> DisplayScale:
    """Return the scale that holds the interval of every row; zero is on it where that costs little room.

    Rows that noise hides are left out where there are others: all that there can be would leave these no room.
    """
    rows = list(rows)
    known = [row for row in rows if row["estimate"] is not None] or rows
    dated = any(isinstance(row[name], str) for row in known for name in NUMBERS)
    ends = [placed(row[name]) for row in known for name in NUMBERS if row[name] is not None]
    ends = [min(max(value, -_FAR), _FAR) for value in ends if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    if low > 0 and low < 0.6 * high:
        low = 0.0
    if high < 0 and high > 0.6 * low:
        high = 0.0
    margin = 0.04 * (high - low) or (1.0 if dated else max(abs(high), 1.0) * 0.1)
    low, high = low - (margin if low else 0.0), high + margin
    step = math.ceil(round_step((high - low) / 4)) if dated else round_step((high - low) / 5)  # a date is long
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return DisplayScale(low, high, tuple(k * step for k in range(first, last + 1)), dated)


def round_step(raw: float) -> float:
    """Return the least round number, 1, 2, 2.5 or 5 times a power of ten, that is no less.

    >>> round_step(0.3), round_step(18.0)
    (0.5, 20.0)
    """
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= raw * 0.999)


@dataclass(frozen=True)
class PlacedRow:
    """One row: the words of its group, its numbers as written, and its interval as a picture."""

    labels: tuple[str, ...]
    estimate: str
    low: str
    high: str
    privacy: str
    picture: str


def finite_rows(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return rows as JSON can say them: an interval without an end has None there.

    >>> finite_rows([{"estimate": None, "low": 0.0, "high": math.inf}])
    [{'estimate': None, 'low': 0.0, 'high': None}]
    """
    return [dict(row) | {name: None for name in NUMBERS[1:] if not math.isfinite(placed(row[name]))} for row in rows]


def _with_ends(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose interval has an end on either side, even if it is infinite."""
    endless = zip(NUMBERS[1:], (-math.inf, math.inf), strict=True)
    return dict(row) | {name: end for name, end in endless if row.get(name) is None}


def drawn_rows(
    rows: Sequence[Mapping[str, Any]], *, counts: bool = False
) -> tuple[list[str], list[PlacedRow], DisplayScale]:
    """Return the names of the groups, every row as it is shown, and the scale of their pictures.

    The thick part of an interval is what would be there without the noise, the thin rest is the price of privacy.
    """
    rows = [_with_ends(row) for row in rows]
    names = list(itertools.takewhile(lambda name: name != NUMBERS[0], rows[0] if rows else ()))
    scale = scale_of(rows)
    result = []
    for row in rows:
        (estimate, low, high), noise = formatted(row, counts=counts), row.get("privacy_share")
        share = privacy_part(row) if "privacy_share" in row else ""
        labels = tuple(shown(row[name]) for name in names)
        result.append(PlacedRow(labels, estimate, low, high, share, picture(row, scale, noise)))
    return names, result, scale


def picture(
    row: Mapping[str, object],
    scale: DisplayScale,
    noise: float | None = None,
    mark: float | None = None,
) -> str:
    """Return the interval of a row as a picture.

    `noise` is the part of its width that privacy added, if known; at `mark` stands an upright line. Of a row without an
    estimate only its range is drawn, in dashes, as far as the scale goes: it has no middle, and where it would lie
    without privacy nobody knows.
    """
    numbers = [placed(row[name]) for name in NUMBERS]
    if any(map(math.isnan, numbers[1:])):
        return ""
    known = not math.isnan(numbers[0])
    middle, low, high = map(scale.place, numbers)
    parts = [_line("rest" if known else "rest unknown", low, high, 2.5)]
    if mark is not None:
        x = f"{scale.place(mark):.2f}%"
        parts.append(f'<line class="nothing" x1="{x}" x2="{x}" y1="0" y2="22" stroke="currentColor"/>')
    if known and noise is not None and noise < 1:
        inner = [middle + (end - middle) * (1 - noise) for end in (low, high)]
        parts.append(_line("plain", inner[0], inner[1], 7))
    if known:
        parts.append(f'<circle class="dot" cx="{middle:.2f}%" cy="11" r="5" fill="#1f5f8b"/>')
    return f'<svg class="interval" width="100%" height="22" aria-hidden="true">{"".join(parts)}</svg>'


def _line(kind: str, start: float, end: float, width: float) -> str:
    faint = "0.45" if kind == "plain" else "0.9"
    dashes = ' stroke-dasharray="1 8"' if "unknown" in kind else ""
    return (
        f'<line class="{kind}" x1="{start:.2f}%" x2="{end:.2f}%" y1="11" y2="11" stroke="#1f5f8b" '
        f'stroke-width="{width}" stroke-linecap="round" stroke-opacity="{faint}"{dashes}/>'
    )


def plain_words(level: float, rows: int, *, noisy: bool = True) -> str:
    """Return what the intervals of an answer mean, for a reader who has never met one.

    >>> plain_words(0.95, 1, noisy=False)
    'In 95 of 100 answers like this one, the true number lies within the range.'
    """
    what = "the true number lies within the range" if rows == 1 else "the true number of a row lies within its range"
    said = f"In {in_hundred(level)} of 100 answers like this one, {what}."
    more = " Chance was added on purpose, to hide any one person in the answer as well as the budget promises"
    wider = "; the range is wider for it." if rows == 1 else "; the ranges are wider for it."
    return said + (more + wider if noisy else "")


def html_table(
    rows: Sequence[Mapping[str, object]],
    title: str,
    foot: str,
    *,
    counts: bool = False,
) -> str:
    """Return rows with their intervals as a table for a notebook; no style sheet is needed."""
    names, result, scale = drawn_rows(rows, counts=counts)
    left, right = 'style="text-align:left"', 'style="text-align:right"'
    head = "".join(f"<th {left}>{escape(name)}</th>" for name in names)
    head += f'<th {right}>estimate</th><th {left}>interval</th><th style="min-width:14em"></th><th {right}>{PART}</th>'
    body = []
    for row in result:
        cells = "".join(f"<td>{escape(label)}</td>" for label in row.labels)
        cells += f"<td {right}><strong>{row.estimate}</strong></td><td {left}>{row.low} to {row.high}</td>"
        body.append(f"<tr>{cells}<td>{row.picture}</td><td {right}>{row.privacy}</td></tr>")
    axis = f'<tr><td colspan="{len(names) + 2}"></td><td>{scale.axis()}</td><td></td></tr>'
    return (
        f"<table><caption {left}><strong>{escape(title)}</strong></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}{axis}</tbody></table><p><small>{escape(foot)}</small></p>"
    )
