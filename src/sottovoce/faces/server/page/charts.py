"""Small charts as SVG, drawn on the server: no script has to run to see them, and colours follow the theme."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from sottovoce.service.answers.display import round_step, shown

_LEFT, _RIGHT, _TOP, _BOTTOM = 68.0, 12.0, 12.0, 40.0


def number(value: float) -> str:
    """Return a number as a reader wants it: three digits, powers of ten where they are far away.

    >>> number(0.12345), number(1500.0), number(2.5e-7), number(0.0)
    ('0.123', '1,500', '2.5e-7', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ("∞" if value > 0 else "-∞")
    if not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(number_of: float) -> str:
    """Return a number of answers.

    >>> count(1234.0), count(math.inf)
    ('1,234', 'any number')
    """
    return "any number" if number_of == math.inf else f"{number_of:,.0f}"


@dataclass(frozen=True)
class ChartAxis:
    """A range of numbers, on a plain or a logarithmic scale, with ticks at whole numbers only where they count."""

    low: float
    high: float
    label: str
    log: bool = False
    whole: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies, from 0 to 1; beyond the ends it is kept at them."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = (math.log(value) if value > 0 else low) if self.log else value
        return min(max((at - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Return round numbers to write along the axis."""
        if self.log:
            low, high = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if high - low < 2:
                steps = [m * 10.0**k for k in range(low - 1, high + 2) for m in (1.0, 2.0, 5.0)]
                return [s for s in steps if self.low * 0.999 <= s <= self.high * 1.001]
            every = max(1, math.ceil((high - low) / 5))
            return [10.0**k for k in range(low, high + 1, every)]
        span = self.high - self.low
        step = round_step(span / 5 if span > 0 else 1.0)
        step = math.ceil(step) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass
class Chart:
    """A chart to add lines, areas and marks to; `svg` draws it. `title` and `about` are what a screen reader says."""

    x: ChartAxis
    y: ChartAxis
    title: str
    about: str
    width: float = 400.0
    height: float = 240.0
    hide_y: bool = False
    _parts: list[Markup] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a point."""
        inner_w, inner_h = self.width - self._left - _RIGHT, self.height - _TOP - _BOTTOM
        return self._left + inner_w * self.x.place(x), _TOP + inner_h * (1 - self.y.place(y))

    @property
    def _left(self) -> float:
        return 16.0 if self.hide_y else _LEFT

    def line(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """Add a line of a kind: a class that the style sheet colours."""
        self._parts.append(Markup('<path class="line {}" d="{}"/>').format(kind, _path(self._places(points))))

    def area(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Add the area below a line."""
        places = self._places(points)
        if places:
            base = self.at(self.x.low, self.y.low)[1]
            path = f"{_path(places)} L{places[-1][0]:.1f} {base:.1f} L{places[0][0]:.1f} {base:.1f} Z"
            self._parts.append(Markup('<path class="area {}" d="{}"/>').format(kind, path))

    def band(self, points: Sequence[tuple[float, float, float]], kind: str) -> None:
        """Add the area between a lower and an upper line, of (x, lower, upper)."""
        there = self._places([(x, low) for x, low, _ in points])
        back = self._places([(x, high) for x, _, high in reversed(points)])
        self._parts.append(Markup('<path class="area {}" d="{} Z"/>').format(kind, _path([*there, *back])))

    def upright(self, x: float, kind: str, label: str = "", height: float = 1.0) -> None:
        """Add an upright line at x, with a dot on top and a label beside it."""
        x_left, base = self.at(x, self.y.low)
        top = base - (base - _TOP) * height
        self._parts.append(Markup('<path class="line {}" d="M{} {}V{}"/>').format(kind, _n(x_left), _n(base), _n(top)))
        self._parts.append(Markup('<circle class="dot {}" cx="{}" cy="{}" r="4.5"/>').format(kind, _n(x_left), _n(top)))
        if label:
            self.note(x, top - 1, label, strong=True)

    def note(self, x: float, top: float, label: str, *, strong: bool = False) -> None:
        """Add a word at a height in pixels, on the side of x where there is room."""
        left = self.at(x, self.y.low)[0]
        right = left < self.width * 0.66
        self._parts.append(
            Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                "note strong" if strong else "note",
                _n(left + (9 if right else -9)),
                _n(top + 5),
                "start" if right else "end",
                label,
            )
        )

    def _places(self, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [self.at(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]

    def svg(self) -> Markup:
        """Return the chart."""
        out = [_open(self.width, self.height, self.title, self.about)]
        base, right = self.height - _BOTTOM, self.width - _RIGHT
        if not self.hide_y:
            for tick in self.y.ticks():
                y = self.at(self.x.low, tick)[1]
                out.append(Markup('<path class="grid" d="M{} {}H{}"/>').format(_n(self._left), _n(y), _n(right)))
                text = Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>')
                out.append(text.format(_n(self._left - 8), _n(y + 4), number(tick)))
            out.append(
                Markup(
                    '<text class="axis" transform="translate(13 {}) rotate(-90)" text-anchor="middle">{}</text>'
                ).format(_n((_TOP + base) / 2), self.y.label)
            )
        for tick in self.x.ticks():
            x = self.at(tick, self.y.low)[0]
            text = Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>')
            out.append(text.format(_n(x), _n(base + 17), number(tick)))
        out.append(Markup('<path class="base" d="M{} {}H{}"/>').format(_n(self._left), _n(base), _n(right)))
        middle = _n((self._left + right) / 2)
        out.append(
            Markup('<text class="axis" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                middle, _n(self.height - 5), self.x.label
            )
        )
        return Markup("").join([*out, *self._parts, Markup("</svg>")])


def bars(
    rows: Sequence[tuple[str, float, str, str]],
    mark: float,
    mark_label: str,
    title: str,
    about: str,
    *,
    width: float = 400.0,
) -> Markup:
    """Return bars of (name, length, words, kind), with one upright mark across them where it has a label."""
    gap, left, right = 34.0, 108.0, 64.0
    height = gap * len(rows) + 30
    longest = max([mark, *(row[1] for row in rows)]) or 1.0
    scale = (width - left - right) / longest
    out = [_open(width, height, title, about)]
    for index, (name, length, words, kind) in enumerate(rows):
        y = 22 + gap * index
        text = Markup('<text class="name" x="{}" y="{}" text-anchor="end">{}</text>')
        out.append(text.format(_n(left - 10), _n(y + 15), name))
        bar = Markup('<rect class="bar {}" x="{}" y="{}" width="{}" height="20" rx="4"/>')
        out.append(bar.format(kind, _n(left), _n(y), _n(max(length * scale, 2))))
        out.append(
            Markup('<text class="tick" x="{}" y="{}">{}</text>').format(
                _n(left + length * scale + 8), _n(y + 15), words
            )
        )
    if mark_label:
        at = left + mark * scale
        out.append(Markup('<path class="line mark" d="M{} 16V{}"/>').format(_n(at), _n(height - 6)))
        note = Markup('<text class="note" x="{}" y="11" text-anchor="middle">{}</text>')
        out.append(note.format(_n(max(at, 70.0)), mark_label))
    return Markup("").join([*out, Markup("</svg>")])


def dots(
    rows: Sequence[tuple[str, float, float, float, str]], title: str, about: str, *, width: float = 640.0
) -> Markup:
    """Return a dot with its interval for each row of (name, low, middle, high, words), on one common scale."""
    gap, left, right = 30.0, 96.0, 200.0
    height = gap * len(rows) + 12
    low, high = min(0.0, *(row[1] for row in rows)), max(0.0, *(row[3] for row in rows))
    scale = (width - left - right) / (high - low or 1.0)
    out = [_open(width, height, title, about)]
    zero = _n(left - low * scale)
    out.append(Markup('<path class="base" d="M{} 4V{}"/>').format(zero, _n(height - 4)))
    for index, (name, first, middle, last, words) in enumerate(rows):
        y = _n(20 + gap * index)
        places = [_n(left + (value - low) * scale) for value in (first, middle, last)]
        out.append(
            Markup('<text class="name" x="{}" y="{}" dy="5" text-anchor="end">{}</text>').format(_n(left - 14), y, name)
        )
        out.append(Markup('<path class="line one" d="M{} {}H{}"/>').format(places[0], y, places[2]))
        out.append(Markup('<circle class="dot one" cx="{}" cy="{}" r="5"/>').format(places[1], y))
        out.append(Markup('<text class="tick" x="{}" y="{}" dy="5">{}</text>').format(_n(width - right + 16), y, words))
    return Markup("").join([*out, Markup("</svg>")])


def curves(rows: Sequence[Mapping[str, Any]], names: Sequence[str], time: str, level: str) -> list[tuple[str, Markup]]:
    """Return a small chart of each group of an answer on survival, all on the same axes, and the group's name.

    `names` are the columns that name a group. Curves begin at 1, and end before the first time that is not known.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    last, drawn = max(float(row[time]) for row in rows), []
    for group, times in groups.items():
        known = list(itertools.takewhile(lambda row: row["estimate"] is not None, times))
        name = " / ".join(map(shown, group))
        about = f"{name}: the share without the event by {time}, with its {level} range at each time"
        chart = Chart(ChartAxis(0.0, last, time), ChartAxis(0.0, 1.0, "without the event"), name or "Survival", about)
        chart.band([(0.0, 1.0, 1.0), *((float(row[time]), row["low"], row["high"]) for row in known)], "one")
        chart.line([(0.0, 1.0), *((float(row[time]), row["estimate"]) for row in known)], "one")
        if len(known) < len(times):
            chart.note(float(times[len(known)][time]), 24.0, "not known")
        drawn.append((name, chart.svg()))
    return drawn


def rail(
    filled: float,
    stops: Sequence[tuple[float, str, str]],
    title: str,
    about: str,
    *,
    kind: str = "",
    width: float = 560.0,
) -> Markup:
    """Return a rail from 0 to 1, filled from the left, with stops of (place, words, kind) along it."""
    height = 76.0 if stops else 26.0
    inner = width - 4
    out = [_open(width, height, title, about)]
    top = 30.0 if stops else 6.0
    out.append(Markup('<rect class="rail" x="2" y="{}" width="{}" height="14" rx="7"/>').format(_n(top), _n(inner)))
    if filled > 0:
        long = max(inner * min(filled, 1.0), 14.0)
        bar = Markup('<rect class="fill {}" x="2" y="{}" width="{}" height="14" rx="7"/>')
        out.append(bar.format(kind, _n(top), _n(long)))
    for index, (place, words, stop_kind) in enumerate(stops):
        x = 2 + inner * min(max(place, 0.0), 1.0)
        out.append(Markup('<path class="line {}" d="M{} {}v22"/>').format(stop_kind, _n(x), _n(top - 4)))
        anchor = "start" if place < 0.2 else "end" if place > 0.8 else "middle"
        text = Markup('<text class="note {}" x="{}" y="{}" text-anchor="{}">{}</text>')
        out.append(text.format(stop_kind, _n(x), _n(top - 12 if index % 2 == 0 else top + 32), anchor, words))
    return Markup("").join([*out, Markup("</svg>")])


def _open(width: float, height: float, title: str, about: str) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>').format(
        _n(width), _n(height), f"{title}. {about}", title
    )


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))


def _n(value: float) -> str:
    return f"{value:.1f}"
