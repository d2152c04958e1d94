"""Survival as an answer: a curve for every group with its band, who is at risk, medians and restricted means."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.inference.cells.survival_interpolation import between_cuts
from sottovoce.inference.cells.survival_posterior import SurvivalPosterior
from sottovoce.inference.figures import COLOURS, figure, titled, words
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.shares import percent, read_share
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.comparison import Comparison
from sottovoce.service.answers.digits import formatted
from sottovoce.service.answers.display import shown
from sottovoce.service.answers.incidence import IncidenceAnswer, of_group

_TIMES = 7
"""At so many times, at most, a figure tells who is at risk."""
_POINTS = 8
"""So many points of a curve are drawn in a cell."""
_STEPS = 16
"""Into so many steps a cell is cut where a curve is added up or followed down to a share."""
_LISTED = 12
"""Of so many groups a note tells the medians."""
_RISK = "at risk (behind noise)"


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalAnswer(IncidenceAnswer):
    """What a question for survival came back with: a row for every group and time, and what follows from the curves.

    Between two cuts a curve is smooth, with the doubt of where in the cell events lie (`between_cuts`). From the first
    time on that nobody may have been followed to nothing is known: rows say ``?``, and medians and means that lie there
    are open above.
    """

    @property
    def notes(self) -> list[str]:
        """What one must know to read the rows, the medians among it."""
        return [*([self._medians] if len(self._groups) <= _LISTED else []), *super().notes]

    @functools.cached_property
    def _medians(self) -> str:
        said = []
        for label in self._groups:
            name = " / ".join(map(shown, label))
            said.append(f"{name and name + ' '}{self._in_words(self.median(*label))}")
        return f"median {self.question.columns_asked[0]}: {'; '.join(said)}"

    def _in_words(self, number: Comparison) -> str:
        last = f"{self.posterior.question.cuts[-1]:,.6g}"
        low, high = (float(end) for end in number.interval())
        if math.isfinite(high):
            middle, first, after = formatted(number.row)
            return f"{middle} ({first} to {after})"
        middle = f"{number.estimate:,.4g}" if number.told else "not known"
        return f"{middle} ({f'{low:,.4g} or more' if math.isfinite(low) else f'beyond {last}'})"

    # What follows from the curves.

    def _at(self, group: int, times: Floats) -> tuple[Floats, Any]:
        """Return draws of the curve of a group at some times, (draws, times), and the cell that each lies in."""
        edges, curves = self.posterior.question.edges, self.posterior.curves(group)
        if not np.all((times >= 0) & (times <= edges[-1])):
            raise InvalidValue(f"a curve is known from 0 to its last cut, {edges[-1]:g}. Got {times.tolist()}")
        cell = np.clip(np.searchsorted(edges, times, side="left") - 1, 0, edges.size - 2)
        return between_cuts(curves, edges, times, self.posterior.bends), cell

    def _ends_at(self, group: int, times: Floats, level: float) -> tuple[Floats, Floats]:
        draws, cell = self._at(group, times)
        hidden = self.posterior.unknown(level)[group][cell] & (times > self.posterior.question.edges[0])
        return draws, np.where(hidden[:, None], [0.0, 1.0], central(draws, level))

    def rows_at(self, times: Sequence[float] | float) -> list[dict[str, object]]:
        """Return the share of each group still without the event at other times than the cuts, as plain values."""
        wanted = _times_of(times)
        names = self.question.label_names
        rows = []
        for label in self._groups:
            draws, ends = self._ends_at(self._group(label), wanted, self.level)
            for place, time in enumerate(wanted.tolist()):
                low, high = ends[place].tolist()
                middle = None if (low, high) == (0.0, 1.0) else float(np.median(draws[:, place]))
                named = dict(zip(names, (*label, time), strict=True))
                rows.append(named | {"estimate": middle, "low": low, "high": high})
        return rows

    def at(self, times: Sequence[float] | float) -> Any:
        """Return a frame with the share of each group still without the event at some times up to the last cut; free.

        Between two cuts curves are smooth, and intervals know the doubt of where in the cell events lie.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows_at(times)).astype({"estimate": float})

    def median(self, *group: object) -> Comparison:
        """Return the time by which half of a group has had the event; open above where curves do not fall so far."""
        return self.quantile(0.5, *group)

    def quantile(self, share: float | str, *group: object) -> Comparison:
        """Return the time by which a share of a group has had the event."""
        part = read_share("a share", share) if isinstance(share, str) else share
        if not 0 < real("share", part) < 1:
            raise InvalidValue(f"a share lies between 0 and 1. Got {share}")
        place, name = self._group(group), self.question.columns_asked[0]
        edges = self.posterior.question.edges
        fine = self._fine(edges)
        curves, within = self._at(place, fine)
        fallen = curves[:, 1:] <= 1 - part
        step = np.where(fallen.any(axis=1), fallen.argmax(axis=1), fine.size - 1)
        inside = np.minimum(step, fine.size - 2)
        before, after = (np.take_along_axis(curves, (inside + k)[:, None], axis=1)[:, 0] for k in (0, 1))
        falls = np.maximum(np.log(before) - np.log(np.maximum(after, 1e-300)), 1e-300)
        way = np.clip((np.log(before) - math.log(1 - part)) / falls, 0.0, 1.0)
        times = np.where(step < fine.size - 1, fine[inside] + way * np.diff(fine)[inside], math.inf)
        cell = np.where(step < fine.size - 1, within[inside + 1], edges.size - 1)

        def drawn(level: float) -> Floats:
            hidden = self.posterior.unknown(level)[place]
            return np.where(np.append(hidden, True)[cell], math.inf, times)

        known = drawn(self.level)
        middle = float(np.quantile(known, 0.5, method="higher"))
        what = f"{'median' if part == 0.5 else percent(part) + ' quantile of'} {name}"
        return Comparison(
            what + of_group(group),
            known,
            self.level,
            lambda level: np.asarray(central(drawn(level)[:, None], checked_level(level))[0]),
            math.isfinite(middle),
        )

    def restricted_mean(self, *group: object, until: float | None = None) -> Comparison:
        """Return the mean time without the event up to a time, the last cut unless given: the area below the curve."""
        place, name = self._group(group), self.question.columns_asked[0]
        edges = self.posterior.question.edges
        end = float(edges[-1]) if until is None else real("until", until)
        if not 0 < end <= edges[-1]:
            raise InvalidValue(f"a curve is known up to its last cut, {edges[-1]:g}. Got until={end:g}")
        stops = self._fine(np.concatenate([edges[edges < end], [end]]))
        if stops.size == 1:  # before anybody's time may end
            stops = np.array([0.0, end])
        draws, cell = self._at(place, np.maximum(stops, edges[0]))
        starts, ends, widths, cell = draws[:, :-1], draws[:, 1:], np.diff(stops), cell[1:]
        falls = np.log(starts) - np.log(np.maximum(ends, 1e-300))
        mean = np.where(falls > 1e-9, (starts - ends) / np.maximum(falls, 1e-9), (starts + ends) / 2)

        def between(level: float) -> Floats:
            hidden = self.posterior.unknown(level)[place][cell]
            first = np.argmax(hidden) if hidden.any() else widths.size
            known = stops[0] + (mean * widths)[:, :first].sum(axis=1)
            more = widths[first:].sum() * (starts[:, first] if first < widths.size else 0.0)
            return np.array([central(known[:, None], level)[0, 0], central((known + more)[:, None], level)[0, 1]])

        known = not self.posterior.unknown(self.level)[place][cell].any()
        draws = stops[0] + (mean * widths).sum(axis=1)
        return Comparison(f"mean of {name} up to {end:g}{of_group(group)}", draws, self.level, between, known)

    @staticmethod
    def _fine(stops: Floats) -> Floats:
        """Return times with more between them, close enough that a curve is nearly straight from one to the next."""
        if stops.size < 2:
            return stops
        steps = np.arange(_STEPS) / _STEPS
        return np.unique(np.append((stops[:-1, None] + np.diff(stops)[:, None] * steps).ravel(), stops[-1]))

    def mean_difference(self, first: object, second: object, until: float | None = None) -> Comparison:
        """Return the restricted mean of one group less that of another: the time gained up to a time."""
        sides = [
            self.restricted_mean(*(item if isinstance(item, tuple) else (item,)), until=until)
            for item in (first, second)
        ]
        what = f"{sides[0].what} less {shown(second)}"
        draws = sides[0].draws - sides[1].draws
        if sides[0].told and sides[1].told:
            return Comparison(what, draws, self.level)

        def between(level: float) -> Floats:
            here, there = (side.interval(level) for side in sides)
            return np.array([here[0] - there[1], here[1] - there[0]])

        return Comparison(what, np.full(len(draws), math.nan), self.level, between, told=False)

    def difference(self, first: object, second: object, at: float | None = None) -> Comparison:
        """Return the share of one group less that of another at a time; of two rows where no time is given."""
        return super().difference(first, second) if at is None else self._groups_at(first, second, at, np.subtract, "-")

    def ratio(self, first: object, second: object, at: float | None = None) -> Comparison:
        """Return the share of one group over that of another at a time; of two rows where no time is given."""
        return super().ratio(first, second) if at is None else self._groups_at(first, second, at, _over, "/")

    def _groups_at(self, first: Any, second: Any, at: float, made: Any, sign: str) -> Comparison:
        time = _times_of(at)
        sides = [self._ends_at(self._group(item), time, self.level) for item in (first, second)]
        known = all(tuple(ends[0]) != (0.0, 1.0) for _, ends in sides)
        draws = made(sides[0][0][:, 0], sides[1][0][:, 0])
        what = f"{self.question.describe()}, {shown(first)} {sign} {shown(second)} at {time[0]:g}"
        if known:
            return Comparison(what, draws, self.level)
        least, most = made(sides[0][1][0, 0], sides[1][1][0, 1]), made(sides[0][1][0, 1], sides[1][1][0, 0])
        return Comparison(
            what, np.full(len(draws), math.nan), self.level, lambda level: np.array([least, most]), told=False
        )

    # Who is at risk.

    @property
    def at_risk_rows(self) -> list[dict[str, object]]:
        """Of each group as a cell of time begins how many are at risk, with an interval, and what happens in the cell.

        All are known through noise: medians of what the released counts tell.
        """
        posterior, (*names, time) = self.posterior, self.question.label_names
        rows = []
        for label in self._groups:
            place = self._group(label)
            risk = posterior.at_risk[:, place]
            ends = central(risk, self.level)
            counts = [np.median(draws[:, place], axis=0) for draws in (posterior.events, posterior.censored)]
            for cell, start in enumerate(posterior.question.edges[:-1].tolist()):
                row = dict(zip(names, label, strict=True)) | {time: start, "at_risk": float(np.median(risk[:, cell]))}
                row |= {"low": float(ends[cell, 0]), "high": float(ends[cell, 1])}
                rows.append(row | {"events": float(counts[0][cell]), "censored": float(counts[1][cell])})
        return rows

    @property
    def at_risk(self) -> Any:
        """A data frame of who is at risk as each cell of time begins, of events and of censorings, behind the noise."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.at_risk_rows)

    def plot(self, *, densities: bool = False, ax: object = None) -> Any:
        """Return a figure, or draw into the axes `ax`: the curve of every group with its band.

        A figure has below it how many are at risk, behind the noise. Where noise hides a curve the plane is hatched,
        and that it is not known is written there.
        """
        if densities:
            return super().plot(densities=True, ax=ax)
        groups, below = self._groups[: len(COLOURS)], None
        if ax is not None:
            drawing, axes = figure(ax=ax)
        else:
            drawing, (axes, below) = figure(rows=2, width=6.4, height=2.4 + 0.1 * len(groups))
            axes.get_subplotspec().get_gridspec().set_height_ratios([4.0, 0.5 + 0.32 * len(groups)])
        edges = self.posterior.question.edges
        for place, label in enumerate(groups):
            self._draw_curve(axes, label, COLOURS[place])
        axes.set(xlim=(edges[0] if edges[0] > 0 else 0.0, edges[-1]), ylim=(0, 1.02), ylabel="share without the event")
        axes.set_xlabel(words(self.question.columns_asked[0]))
        if len(groups) > 1:
            axes.legend(frameon=False)
        if below is not None:
            self._draw_at_risk(below, groups)
        few = f" (the first {len(groups)} of {len(self._groups)} groups)" if len(groups) < len(self._groups) else ""
        titled(drawing, f"{self.question.describe()}{few} ({percent(self.level)} intervals)", ax)
        return drawing

    def _draw_curve(self, axes: Any, label: tuple[object, ...], colour: str) -> None:
        place, edges = self._group(label), self.posterior.question.edges
        hidden = self.posterior.unknown(self.level)[place]
        last = int(np.argmax(hidden)) if hidden.any() else hidden.size
        name = words(" / ".join(map(shown, label)) or self.question.parameter)
        times = np.unique(np.concatenate([np.linspace(a, b, _POINTS) for a, b in itertools.pairwise(edges)]))
        times = times[times <= edges[last]]
        draws, ends = self._ends_at(place, times, self.level)
        axes.fill_between(times, ends[:, 0], ends[:, 1], alpha=0.22, color=colour, linewidth=0, gid="band")
        axes.plot(times, np.median(draws, axis=0), color=colour, label=name, gid="curve")
        if hidden.any():
            gap = (edges[last], edges[-1])
            axes.fill_between(
                gap, 0, 1, facecolor="none", edgecolor=colour, alpha=0.3, hatch="///", linewidth=0, gid="not known"
            )
            side, unknown = self._groups.index(label), f"{name}: not known" if label else "not known"
            axes.text(
                edges[-1],
                0.92 - 0.08 * side,
                unknown,
                ha="right",
                va="center",
                size="small",
                color=colour,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
            )

    def _draw_at_risk(self, axes: Any, groups: Sequence[tuple[object, ...]]) -> None:
        edges, risk = self.posterior.question.edges, self.posterior.at_risk
        starts, room = [0], (edges[-1] - edges[0]) / (_TIMES + 1)
        for cell in range(1, edges.size - 1):
            if edges[cell] - edges[starts[-1]] >= room:
                starts.append(cell)
        axes.set(xlim=(edges[0], edges[-1]), ylim=(-len(groups) + 0.3, 1.6))
        axes.set_axis_off()
        axes.text(edges[0], 1.0, _RISK, ha="left", va="center", size="small", fontweight="bold")
        for row, label in enumerate(groups):
            middle = np.median(risk[:, self._group(label)], axis=0)
            if label:
                name, beside = words(" / ".join(map(shown, label))), {"textcoords": "offset points", "size": "small"}
                axes.annotate(name, (edges[0], -row), (-8, 0), ha="right", va="center", color=COLOURS[row], **beside)
            for cell in starts:
                text = f"{middle[cell]:,.0f}"
                axes.text(
                    edges[cell],
                    -row,
                    text,
                    ha="left" if cell == 0 else "center",
                    va="center",
                    size="small",
                    color=COLOURS[row],
                )


def answer_of(
    release: Release, entry: int | None, share: float | None, level: float = 0.95, earlier: int | None = None
) -> Answer:
    """Return the answer of a release, of the kind that goes with what it holds."""
    kind = SurvivalAnswer if isinstance(release.value, SurvivalPosterior) else Answer
    return kind(release, entry, share, level, earlier)


def _times_of(times: object) -> Floats:
    try:
        wanted = np.atleast_1d(np.asarray(times, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidValue(f"times are numbers, such as [90, 180]. Got {times!r}") from None
    if wanted.ndim != 1 or not np.all(np.isfinite(wanted)):
        raise InvalidValue(f"times are numbers, such as [90, 180]. Got {times!r}")
    return wanted


def _over(first: Any, second: Any) -> Any:
    return first / np.maximum(second, np.finfo(np.float64).tiny)
