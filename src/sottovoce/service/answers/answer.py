"""An answer: a table one can read, with an interval in every row, and what follows from its posterior."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sottovoce.inference.cells.cell_mechanisms import POSTERIORS, Posterior
from sottovoce.inference.cells.intervals import compared
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_groups_posterior import SmoothGroupsPosterior
from sottovoce.inference.cells.smooth_mean_posterior import SmoothMeanPosterior
from sottovoce.mechanisms.arviz_groups import arviz_groups
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.service.answers.answer_plot import densities_of, forest_of
from sottovoce.service.answers.comparison import Comparison, ratio_or_endless
from sottovoce.service.answers.contrast import Independence, RowContrast, Trend, contrast, independence, trend
from sottovoce.service.answers.dated_rows import days_after, with_dates
from sottovoce.service.answers.digits import NUMBERS, formatted
from sottovoce.service.answers.display import PART, drowned, footing, html_table, privacy_part, shown
from sottovoce.service.answers.distribution_function import (
    DistributionFunction,
    at_other_quantiles,
    distribution_of,
    exceedance,
)
from sottovoce.service.answers.excluded_records import left_out_note
from sottovoce.service.answers.far_bounds import far_bounds_note
from sottovoce.service.answers.paper_table import estimate_cells, interval_name
from sottovoce.service.answers.period_words import charged_note
from sottovoce.service.answers.protection import nobody_note, protection_note
from sottovoce.service.answers.recorded_answer import RecordedAnswer
from sottovoce.service.answers.repeated_question import repeat_note
from sottovoce.service.answers.row_names import row_name, row_of
from sottovoce.service.answers.same_sums import of_same_sums
from sottovoce.service.answers.values_at_bounds import bounds_note
from sottovoce.service.answers.wide_answers import narrower_note, pooled_groups

__all__ = ["Answer"]

_MARK = re.compile(r"^(?P<left>.+?)\s*(?P<sign><=|>=|<|>)\s*(?P<right>.+)$")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_DROWNED = "? where noise hides a row: its range is all that there can be"
_SUMS = "do not add rows up, small ones come to too much: ask for a total as a question of its own, with fewer columns"
_SEVERAL = 3


@dataclass(frozen=True, eq=False)
class Answer(RecordedAnswer):
    """What a question came back with.

    Its `release` holds noisy cells; `entry`, `share` and `level` are those of `RecordedAnswer`.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.release.value, POSTERIORS):
            raise InvalidData("an answer is made from noisy cells; this release holds something else")

    @property
    def posterior(self) -> Posterior:
        """What is known of every row: `mean`, `sd`, `interval`, `sample`, `draws`."""
        value: Posterior = self.release.value
        return value

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.posterior.question

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `table` as plain values; the estimate of a row that noise hides is None, and days are dates."""
        first = self.question.first_day
        return self._numbers if first is None else [with_dates(row, first) for row in self._numbers]

    @functools.cached_property
    def _numbers(self) -> list[dict[str, Any]]:
        """The rows with numbers alone: of days, how many they are after the first."""
        posterior = self.posterior
        middle, ends = np.median(posterior.draws, axis=0), posterior.interval(self.level)
        plain = np.divide(posterior.plain_sd, posterior.sd, out=np.ones(middle.size), where=posterior.sd > 0)
        rows = []
        for place, label in zip(self.question.places, self.question.labels, strict=True):
            row: dict[str, object] = dict(zip(self.question.label_names, label, strict=True))
            low, high = map(float, ends[place])
            known = not drowned(low, high, posterior.public_range)
            row |= {"estimate": float(middle[place]) if known else None, "low": low, "high": high}
            rows.append(row | {"privacy_share": float(1 - plain[place]) if known and low < high else None})
        return rows

    @property
    def table(self) -> Any:
        """A data frame: the group columns under their own names, then estimate, low, high and privacy_share.

        An estimate is missing where noise hides the row, and its range is all that there can be. `privacy_share` is the
        part of the interval's width that the noise added, about: 1 where without noise the number would be known, and
        missing where an interval has no width, and where noise hides the row.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        kinds = dict.fromkeys(NUMBERS, "datetime64[s]") if self.question.first_day else {"estimate": "float64"}
        return pd.DataFrame(self.rows).astype(kinds | {"privacy_share": "float64"})

    def summary(self) -> str:
        """Return the question and its rows as text."""
        names = self.question.label_names
        lines = [self.question.describe()]
        for row in self.rows:
            where = " / ".join(shown(row[name]) for name in names)
            lines.append(f"  {where + ': ' if where else ''}{self._sentence(row)}")
        notes = [line for note in self.notes for line in textwrap.wrap(note, 80)]
        return "\n".join([*lines, *notes, self._costing()])

    def _sentence(self, row: Mapping[str, object]) -> str:
        ends = self.formatted(row)
        return f"{ends[0]} ({ends[1]} to {ends[2]})"

    def formatted(self, row: Mapping[str, object]) -> list[str]:
        """Return estimate, low and high with as many digits as the interval bears out."""
        return formatted(row, counts=self._whole)

    @property
    def _whole(self) -> bool:
        """Whether its numbers are whole: counts of records, and quantiles of counts."""
        return self.question.verb == "counts" or (self.question.verb == "quantiles" and self.question.whole)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the table as text."""
        names = self.question.label_names
        body = [[*(shown(row[name]) for name in names), *self.formatted(row), privacy_part(row)] for row in self.rows]
        return [*names, "estimate", "low", "high", PART], body

    def paper_lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the table as a paper prints them."""
        names = self.question.label_names
        body = [
            [
                *(shown(row[name]) for name in names),
                *estimate_cells(self.formatted(row), known=row["estimate"] is not None),
            ]
            for row in self.rows
        ]
        return [*names, "estimate", interval_name(self.level)], body

    def footing(self) -> str:
        """Return what holds for every row, in one line."""
        return "; ".join([*self.notes, self._costing()])

    @functools.cached_property
    def notes(self) -> list[str]:
        """What one must know to read the rows, in words."""
        hidden = _DROWNED if any(row["estimate"] is None for row in self.rows) else None
        asked = self.question
        smooth = SmoothMeanPosterior | SmoothGroupsPosterior
        assumed = self.posterior.assumption if isinstance(self.posterior, smooth) else None
        about_values = assumed, asked.bounded, asked.certain_of, asked.whose, asked.ruled_out
        said = (left_out_note(self.posterior), hidden, self._summing(), *about_values)
        about = (
            nobody_note(asked.facts),
            bounds_note(self.posterior),
            far_bounds_note(self.posterior, self.rows),
            narrower_note(self.release, self._numbers, self.share, self.level),
            protection_note(self.cost, self.release.mechanism),
            charged_note(self.release.mechanism),
            repeat_note(self.earlier, told_with=self.together),
        )
        return [note for note in (*said, *about) if note is not None]

    @property
    def together(self) -> tuple[int, ...]:
        """The entries that it is told of, where it is told of several."""
        return tuple(self.release.mechanism.get("entries", ()))

    def _summing(self) -> str | None:
        """What one must know before adding up counts of several columns: noise can hide that a cell is empty."""
        asked = self.question
        crossed = asked.verb == "counts" and len(asked.label_names) > 1
        return _SUMS if crossed and sum(row["low"] <= 0 < row["high"] for row in self.rows) >= _SEVERAL else None

    def _costing(self) -> str:
        return footing(self.level, self.share, self.entry)

    def __repr__(self) -> str:
        rows = self.rows
        first = self._sentence(rows[0])
        return f"Answer({self.question.describe()!r}: " + (first if len(rows) == 1 else f"{len(rows)} rows") + ")"

    def _repr_html_(self) -> str:
        return html_table(self.rows, self.question.describe(), self.footing(), counts=self._whole)

    def draws(self, *label: object) -> Floats:
        """Return the draws of one row, named by its group: its values in the order of the table's first columns.

        They are NaN where noise hides the row: they would be draws of what was believed beforehand.
        """
        return np.asarray(self._told_draws[:, row_of(self.question, label)])

    @property
    def _every_draw(self) -> Floats:
        """The draws of the rows of `table`, of those that noise hides, too."""
        return np.asarray(self.posterior.draws[:, self.question.places])

    @functools.cached_property
    def _told_draws(self) -> Floats:
        """The draws of the rows of `table`, NaN for those that noise hides."""
        hidden = [row["estimate"] is None for row in self.rows]
        return np.where(hidden, math.nan, self._every_draw)

    def difference(self, first: object, second: object) -> Comparison:
        """Return the first row less the second, from their joint posterior.

        A row of several groups is a tuple, or called as `summary` calls it, ``"A / 2024-01"``. Where noise hides one of
        the two, estimate and draws are NaN, and the interval is all that there can be.
        """
        return self._compared(f"{row_name(first)} - {row_name(second)}", first, second, np.subtract)

    def ratio(self, first: object, second: object) -> Comparison:
        """Return the first row over the second, from their joint posterior."""
        if self.question.first_day is not None:
            raise InvalidValue("one day over another has no meaning; ask for their difference, in days")
        return self._compared(f"{row_name(first)} / {row_name(second)}", first, second, ratio_or_endless)

    def compare(self, first: object, second: object, *, scale: float | None = None) -> RowContrast:
        """Return two rows beside each other: difference and ratio, which is higher, and a Bayes factor against none.

        The factor believes beforehand that there is no difference, or one that is Cauchy about zero: half of all are
        within ± `scale`, √½ of the records' standard deviation unless given (of proportions and means; of others none
        is told without it).
        """
        places = row_of(self.question, first), row_of(self.question, second)
        return contrast(self, places[0], places[1], scale)

    def trend(self, value: object = None, *, scale: float | None = None) -> Trend:
        """Return how rows go on over groups in their order: a straight line's slope, and a Bayes factor against none.

        Of a proportion of several values, `value` says of which. `scale` is as for `compare`, of first and last.
        """
        return trend(self, value, scale)

    def independence(self) -> Independence:
        """Return whether the two columns of counts go together: Cramér's V, and a Bayes factor against independence."""
        return independence(self)

    def comparison(self, what: str, draws: Floats) -> Comparison:
        """Return a number by its draws, with the intervals of this answer's level."""
        return Comparison(what, draws, self.level)

    def _compared(self, what: str, first: object, second: object, made: Callable[[Any, Any], Any]) -> Comparison:
        rows = [row_of(self.question, item) for item in (first, second)]
        draws, places = self._every_draw[:, rows], [self.question.places[row] for row in rows]

        def ends(level: float) -> Floats:
            return compared(made, draws, self.posterior.interval(level)[places], level)

        rises = made is np.subtract or draws.min() >= 0  # a ratio to what may be below zero has no such ends
        known = all(self.rows[row]["estimate"] is not None for row in rows)
        result = made(draws[:, 0], draws[:, 1]) if known else np.full(len(draws), math.nan)
        return Comparison(f"{self.question.describe()}, {what}", result, self.level, ends if rises else None, known)

    def probability(self, claim: str, *group: object) -> float:
        """Return how likely a claim is, ``"A > B"`` or ``"A >= 0.3"``; NaN where noise hides a row that it names.

        Of quantiles ``"days > 30"`` is the share of records of which it holds, in one group where there are several:
        ``probability("days > 30", "A")``. `share_of` has its interval too.
        """
        if (beyond := exceedance(self.posterior, claim, group)) is not None:
            return beyond[0]
        if group:
            raise InvalidValue(f"a group goes with quantiles and a claim about their column, not with {claim!r}")
        result = _MARK.match(claim.strip()) if isinstance(claim, str) else None
        if result is None:
            raise InvalidValue(f'a claim compares two rows, or a row and a number: "A > B". Got {claim!r}')
        left, right = self._side(result["left"]), self._side(result["right"])
        if np.isnan(left).any() or np.isnan(right).any():
            return math.nan
        return float(np.mean(_SIGNS[result["sign"]](left, right)))

    def share_of(self, claim: str, *group: object) -> tuple[float, float, float]:
        """Return the share of records of which a claim about the column of quantiles holds, and its interval; free.

        The claim reads ``"days > 30"``; where there are groups, one is named: ``share_of("days > 30", "A")``.
        """
        if (beyond := exceedance(self.posterior, claim, group, self.level)) is None:
            column = self.question.columns_asked[0]
            raise InvalidValue(
                f'a share beyond a value follows from quantiles of a column, as "{column} > 10" does from '
                f"quantiles of {column}. Got {claim!r} of {self.question.describe()}"
            )
        return beyond

    def _side(self, text: str) -> Any:
        try:
            return self.draws(text.strip())
        except InvalidValue:
            if (first := self.question.first_day) is not None:
                return days_after(text, first)
            with contextlib.suppress(ValueError):
                if not math.isnan(number := float(text)):
                    return number
            raise

    def ecdf(self, *group: object) -> DistributionFunction:
        """Return the distribution of the column that quantiles were asked of, of one group where there are several.

        It has a `table` and a `plot`. It follows from the release, so it is free.
        """
        return distribution_of(self.posterior, group, self.level)

    def quantiles(self, at: Sequence[float | str] | float | str) -> Answer:
        """Return other quantiles of what was released, free; those that were asked for are the narrowest."""
        return replace(self, release=at_other_quantiles(self.release, at))

    def pooled(self) -> Answer:
        """Return the same release told with pooled groups, as ``pool=True`` would have asked: free.

        Whether groups are alike is best decided before either is seen.
        """
        return replace(self, release=pooled_groups(self.release))

    def mean(self) -> Answer:
        """Return the mean of what was released with a total, a standard deviation or a rate of counts: free."""
        return replace(self, release=of_same_sums(self.release, "mean"))

    def sd(self) -> Answer:
        """Return the standard deviation of what was released with a mean, a total or a rate of counts: free."""
        return replace(self, release=of_same_sums(self.release, "sd"))

    def total(self) -> Answer:
        """Return the total of what was released with a mean, a standard deviation or a rate of counts: free."""
        return replace(self, release=of_same_sums(self.release, "total"))

    def plot(self, *, densities: bool = False, ax: object = None) -> Any:
        """Return a figure, or draw into the axes `ax`: an interval for every row, or its posterior density.

        Of groups that were pooled over time a line in a band, for every group of the other columns.
        Of a row that noise hides the range alone is drawn, and that it is not known is written there.
        """
        names = [" / ".join(map(shown, label)) or self.question.parameter for label in self.question.labels]
        if densities:
            known = [row["estimate"] is not None for row in self.rows]
            return densities_of(self.question, names, known, self._told_draws, ax)
        return forest_of(self.question, names, self._numbers, self.level, ax)

    def to_arviz(self) -> Any:
        """Return the draws as an ArviZ `InferenceData`, rows under their names; NaN of a row that noise hides."""
        rows = [" / ".join(map(shown, label)) or "all" for label in self.question.labels]
        name = self.question.parameter.replace(" ", "_")
        attributes = {"profile": self.cost.to_json(), "question": self.question.describe()}
        return arviz_groups(
            {"posterior": {name: self._told_draws[None, ...]}},
            coords={"row": rows},
            dims={name: ["row"]},
            attrs=attributes,
        )
