"""A regression as a statistician expects it: a table of terms with intervals, predictions, contrasts and plots."""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.mechanisms.arviz_groups import arviz_groups
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.shares import percent
from sottovoce.service.answers import predictions
from sottovoce.service.answers.average_effects import average_effects
from sottovoce.service.answers.coefficient_plot import coefficient_plot
from sottovoce.service.answers.contrast_parser import parse_contrast
from sottovoce.service.answers.digits import sure
from sottovoce.service.answers.display import PART, footing, privacy_part
from sottovoce.service.answers.hazards import baseline_rows, changed_rows, surviving_rows
from sottovoce.service.answers.paper_table import estimate_cells, interval_name
from sottovoce.service.answers.ratios import Contrast, is_intercept, ratio_numbers, ratios_of
from sottovoce.service.answers.recorded_answer import RecordedAnswer
from sottovoce.service.answers.regression_notes import NAMED, numbers_of, regression_notes
from sottovoce.service.answers.wide_answers import MOSTLY, about
from sottovoce.service.answers.word_table import NOT_KNOWN

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients
    from sottovoce.inference.regression.formula import Formula
    from sottovoce.inference.regression.narrowing import Narrowing

__all__ = ["Contrast", "Regression"]

_DRAWS = 2000
_APART = 1.05
"""How much more uncertain than with noise an estimate may seem without, by the numbers that compute it."""
_UNKNOWN = "not known at this budget"


@dataclass(frozen=True, eq=False)
class Regression(RecordedAnswer):
    """What a regression came back with.

    Its `release` holds the posterior of the coefficients; `entry`, `share` and `level` are those of `RecordedAnswer`.
    """

    kind: ClassVar[str] = "a regression"

    def __post_init__(self) -> None:
        checked_level(self.level)
        if not hasattr(self.release.value, "combined"):
            raise InvalidData("a regression is made from coefficients; this release holds something else")

    @property
    def posterior(self) -> Coefficients:
        """What is known of the coefficients: `mean`, `sd`, `covariance`, `interval`, `sample`."""
        value: Coefficients = self.release.value
        return value

    @property
    def question(self) -> Formula:
        """What was asked."""
        return self.posterior.formula

    @property
    def ratio(self) -> str | None:
        """What e^coefficient is called: an odds ratio, a rate ratio; None where it is nothing."""
        return self.question.model.ratio

    @property
    def _ratio_column(self) -> str | None:
        return None if self.ratio is None else self.ratio.replace(" ", "_")

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `table` as plain values."""
        posterior, rows = self.posterior, []
        name = self._ratio_column
        for place, term in enumerate(posterior.terms):
            if place in self.question.nuisance:
                continue
            item = np.zeros(len(posterior.terms))
            item[place] = 1.0
            median, sd, low, high = posterior.combined(item, self.level)
            up = posterior.probability_positive(item)
            row: dict[str, object] = {"term": term, "estimate": median, "low": low, "high": high, "sd": sd}
            plain = float(posterior.plain_sd[place]) / sd if sd > 0 else 0.0
            # Of groups that an earlier version released the part cannot be told.
            shown = 1 - min(plain, 1.0) if plain <= _APART else None  # NaN where noise hides the column
            row |= {"probability": max(up, 1 - up), "privacy_share": shown}
            if name is not None:
                ends = ratios_of([median, low, high]).tolist()
                row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
            hidden = shown is None and self._drowned(place)
            rows.append(row | {"note": self._unknown(place) if hidden else None})
        return rows

    @functools.cached_property
    def narrowings(self) -> dict[str, tuple[Narrowing, ...]]:
        """What would narrow the intervals of terms that noise hides, and of the one of the others that it widens most,
        by term, the cheapest way first: each with half the width that a plan foresees, for records as far as they are
        known from what was released. Free; none where the last look alone was read, or there are many terms.
        """
        from sottovoce.inference.regression.narrowing import narrowings  # noqa: PLC0415 - the room needs an extra

        places = [place for place in self._slopes if self._drowned(place)][:NAMED]
        if (widest := self._widest) is not None:
            places.append(widest)
        ways = narrowings(self.posterior, self.release.mechanism, places, self.share, self.level)
        return {self.posterior.terms[place]: each for place, each in ways.items()}

    @property
    def _slopes(self) -> list[int]:
        """The places of all terms but intercepts."""
        terms = self.posterior.terms
        return [k for k in range(len(terms)) if k not in self.question.nuisance and not is_intercept(terms[k])]

    @property
    def _widest(self) -> int | None:
        """The place of the term that noise widens most, where it makes up most of its interval."""
        sd = self.posterior.sd
        parts = {place: 1 - self.posterior.plain_sd[place] / sd[place] for place in self._slopes if sd[place] > 0}
        noisy = {place: part for place, part in parts.items() if part >= MOSTLY}  # NaN where it hides the column
        return max(noisy, key=lambda place: noisy[place], default=None)

    def _narrower_notes(self) -> list[str]:
        """Return what would narrow the intervals of terms, in words, a line each."""
        result, terms = [], self.posterior.terms
        for term, ways in self.narrowings.items():
            place = terms.index(term)
            if ways and self._drowned(place):
                result.append(f"{term}: {self._unknown(place)}")
            elif ways:
                low, high = self.posterior.interval(self.level)[place]
                noise = f"most of the ± {about((high - low) / 2)} is privacy's noise"
                result.append(f"{term}: {noise}; {_ways(ways)}")
        return result

    @property
    def table(self) -> Any:
        """A data frame, one row a term.

        After term, estimate, low and high come sd, the probability of the sign, the part of the interval's width that
        privacy added (missing where it cannot be told), and the odds or rate ratio with its ends. Privacy adds noise,
        and doubt of the formula: rows are weighed for the noise's sake alone, and what a formula misses counts then.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows)

    def formatted(self, row: Mapping[str, object]) -> list[str]:
        """Return estimate, sd, low and high with as many digits as the interval bears out."""
        return numbers_of(row)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the table as text."""
        head = ["term", "estimate", "sd", "low", "high", "P(sign)", PART]
        name = self._ratio_column
        head += [] if name is None else [f"{self.ratio} ({percent(self.level)})"]
        body = []
        for row in self.rows:
            cells = [row["term"], *self.formatted(row), sure(row["probability"]), privacy_part(row, "?")]
            if row["note"] is not None:
                cells[1] = "not known"
            body.append(cells if name is None else [*cells, _in_one(ratio_numbers(row, name))])
        return head, body

    def paper_lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the table as a paper prints them: ratios with their intervals."""
        interval, name = interval_name(self.level), self._ratio_column
        head, body = ["term", "estimate", interval], []
        for row in self.rows:
            estimate, _, low, high = self.formatted(row)
            known = row["privacy_share"] is not None
            cells = [row["term"], *estimate_cells([estimate, low, high], known=known)]
            if name is not None:
                numbers = ratio_numbers(row, name) or [NOT_KNOWN, "", ""]
                cells += estimate_cells(numbers, known=known) if numbers[1] else [numbers[0], ""]
            body.append(cells)
        return [*head, *([] if name is None else [str(self.ratio), interval])], body

    def summary(self) -> str:
        """Return the regression as text: the table, and what holds for all of it."""
        head, body = self.lines()
        wide = [max(len(line[k]) for line in [head, *body]) for k in range(len(head))]
        shown = [
            "  ".join([line[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(line[1:], wide[1:], strict=True))])
            for line in [head, *body]
        ]
        notes = [line for note in self._footnotes() for line in textwrap.wrap(note, 80)]
        return "\n".join([self.question.describe(), *(line.rstrip() for line in shown), *notes])

    def footing(self) -> str:
        """Return what holds for every row, in one line."""
        return "; ".join(self._footnotes())

    def _footnotes(self) -> list[str]:
        hidden = any("?" in line[-2:] for line in self.lines()[1])
        shown = ["? where noise hides too much to tell"] if hidden else []
        return [*self.notes, *shown, footing(self.level, self.share, self.entry)]

    @property
    def notes(self) -> list[str]:
        """What one must know to read the coefficients, in words."""
        return regression_notes(
            self.posterior, self.rows, self.release, self.level, self.earlier, self._narrower_notes()
        )

    def __repr__(self) -> str:
        return f"Regression({self.question.describe()!r}: {len(self.rows)} terms)"

    def _repr_html_(self) -> str:
        head, body = self.lines()
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body)
        title = f"<caption>{escape(self.question.describe())}</caption>"
        foot = f"<p><small>{escape(self.footing())}</small></p>"
        return f"<table>{title}<thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>{foot}"

    # What follows from the posterior.

    def contrast(self, first: object, second: object = None) -> Contrast:
        """Return a combination of coefficients: a term, a term less another, or weights by term, also in words.

        ``contrast("C(ward)[T.B]", "C(ward)[T.C]")`` compares two wards; ``contrast({"age": 10, "sex": 1})`` and
        ``contrast("age=10, sex=1")`` are ten years and the other sex. Of log-odds and log-rates its `ratio` is the odds
        or rate ratio with its interval.
        """
        terms = self.posterior.terms
        weights = first
        if isinstance(first, str):
            weights = {first: 1.0} if first in terms or second is not None else parse_contrast(first, terms)
        if not (isinstance(weights, Mapping) and weights and isinstance(second, str | None)):
            raise InvalidValue("a contrast is a term, two terms, or a mapping from terms to weights")
        if second is not None and second in weights:
            raise InvalidValue(f"a contrast names {second!r} twice; say its weight once")
        weights = dict(weights) | ({} if second is None else {second: -1.0})
        row = np.zeros(len(terms))
        for term, weight in weights.items():
            if term not in terms:
                raise InvalidValue(f"no term is called {term!r}; there are {', '.join(terms[:20])}")
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not np.isfinite(weight):
                raise InvalidValue(f"a weight is a number. Got {weight!r}")
            row[terms.index(term)] += weight
        what = " + ".join(term if weight == 1 else f"{weight:g}·{term}" for term, weight in weights.items())
        what = what.replace("+ -1·", "- ").replace("+ -", "- ")
        median, sd, low, high = self.posterior.combined(row, self.level)
        up = self.posterior.probability_positive(row)
        return Contrast(what, median, sd, low, high, max(up, 1 - up), self.level, self.ratio)

    def predict(self, frame: object, *, level: float | None = None, draws: int = _DRAWS) -> Any:
        """Return the expected response of each row of a frame, averaged over the posterior, with its interval.

        Of counts the estimate is the posterior's median: where little is known of a rate its mean would be decided by
        the last draws, and lie beyond the interval. No number and no count is expected beyond its public bounds.

        Parameters
        ----------
        frame
            Columns by name, those of the formula and no other, each as long as the others or one value for all rows; no
            private table, for what is asked for is shown. A number beyond its public bounds is held there, as those
            of the records were; a column ``held`` then says which.
        level
            Of the intervals: how sure one is of the mean, not how far single responses scatter about it.
        draws
            How many draws of the coefficients to average over.
        """
        return predictions.predict(self.posterior, frame, self.level if level is None else level, draws)

    def baseline(self) -> Any:
        """Return the hazards of the intervals per unit of time, or of ordered values the shares above each cut, with
        all columns at zero or their first value; free.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(baseline_rows(self.posterior, self.level))

    def survival(self, frame: object, at: Sequence[float], *, draws: int = _DRAWS) -> Any:
        """Return the share still without the event of each row of a public frame at some times; of hazards, free."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(surviving_rows(self.posterior, frame, at, self.level, draws))

    def changed_since(self, early: Regression, *, draws: int = 10 * _DRAWS) -> Any:
        """Return by how much log hazard ratios differ from those of earlier times, as a frame; free.

        A check of proportional hazards by two regressions, each of which was paid for: `early`, whose last cut is t,
        and this one, asked ``where="days > t"`` with t among its cuts. ``times`` is by how many times the ratio
        changed.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(changed_rows(self.posterior, early.posterior, self.level, draws))

    def effect(self, column: str, **at: object) -> Any:
        """Return what one column does, as a frame: the expected response over its public range, the others held.

        Numbers are held in the middle of their bounds and categories at their first value, unless `at` says otherwise;
        ``by="arm"`` has it for each value of another category or flag, as an interaction is read.
        """
        return predictions.effect(self.posterior, column, at, self.level)

    def average_effects(self, column: str, *, over: object = None, draws: int = _DRAWS) -> Any:
        """Return what one column does to the expected response, averaged over a population, as a frame; free.

        Of a flag or category each value is set beside the first: a risk difference, or a difference of means. Of a
        number it is the slope per unit, the average marginal effect. The column ``over`` says which population it is.

        Parameters
        ----------
        column
            A column of the formula.
        over
            The population: a public frame with the columns of the formula, such as a census. Without it, imagined
            records whose columns are each spread evenly over their public values; the records that were fitted are
            not seen again.
        draws
            How many draws of the coefficients to average over.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(average_effects(self.posterior, column, over, self.level, draws))

    def plot_effect(self, column: str, *, ax: object = None, **at: object) -> Any:
        """Return a figure of `effect`, ``by=`` included, or draw it into `ax`: a band over a column's range."""
        return predictions.plot_effect(self.posterior, column, at, self.level, ax)

    # Pictures and files.

    def plot(self, ax: object = None) -> Any:
        """Return a forest plot, or draw it into the axes `ax`: every coefficient but the intercept, or its ratio.

        The axis goes as far as what is known does. Of a term that noise hides, a ratio that nothing is told of or a
        coefficient whose column it hides, the range alone is drawn, and that it is not known is written there.
        """
        return coefficient_plot(
            self.rows, self.ratio, f"{self.question.describe()} ({percent(self.level)} intervals)", ax
        )

    def _unknown(self, place: int) -> str:
        """Return that a term is not known, and what would narrow it, each with the width that is foreseen."""
        if ways := self.narrowings.get(self.posterior.terms[place]):
            return f"{_UNKNOWN}; {_ways(ways)}"
        encoding = self.question.design
        factors = encoding.entries[place % encoding.size]
        numbers = dict.fromkeys(encoding.names[column] for column, level in factors if level < 0)
        closer = f"state closer bounds of {' and '.join(numbers)}, which is free, or " if numbers else ""
        return f"{_UNKNOWN}; {closer}spend more or ask of more records"

    def _drowned(self, place: int) -> bool:
        """Return whether noise hides the column of a term, so that beliefs alone end its interval."""
        return not math.isfinite(self.posterior.plain_sd[place])

    def to_arviz(self, draws: int = _DRAWS) -> Any:
        """Return draws of the coefficients as an ArviZ `InferenceData`, the terms under their names."""
        samples = self.posterior.sample(draws)[None]
        attributes = {"profile": self.cost.to_json(), "question": self.question.describe()}
        return arviz_groups(
            {"posterior": {"coefficients": samples}},
            coords={"term": self.posterior.terms},
            dims={"coefficients": ["term"]},
            attrs=attributes,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the regression as plain values, its table among them; `from_dict` reads it back."""
        ways = {term: [way.to_dict() for way in each] for term, each in self.narrowings.items() if each}
        return super().to_dict() | ({"narrower": ways} if ways else {})


def _ways(ways: Sequence[Narrowing]) -> str:
    """Return what would narrow an interval, in words: each way with the width that is foreseen."""
    return "foreseen " + ", or ".join(f"± {about(way.width)} {way.way}" for way in ways)


def _in_one(numbers: list[str] | None) -> str:
    """Return a ratio and its interval in one cell."""
    return "?" if numbers is None else f"{numbers[0]} ({numbers[1]} to {numbers[2]})" if numbers[0] else ""
