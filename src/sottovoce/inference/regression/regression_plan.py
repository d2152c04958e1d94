"""The plan of a regression, as every door tells it: how wide each term's interval will be, and what that assumes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.assumed_rows import rarely
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.hazard_forecast import foresee_hazards
from sottovoce.inference.regression.hazard_formula import HazardFormula
from sottovoce.inference.regression.hazard_looks import HazardLooks
from sottovoce.inference.regression.ordinal_forecast import foresee_ordinal
from sottovoce.inference.regression.ordinal_formula import OrdinalFormula
from sottovoce.inference.regression.precision_forecast import PrecisionForecast, foresee_all
from sottovoce.mechanisms.expected_error import cautions
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import in_hundred, percent
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, imagined_of
from sottovoce.records.facts.columns import Category, Column, Count, Flag

_ALIKE = (
    "flags are set half the time, values of categories are met alike, numbers spread over 1/15 of their bounds, as "
    "half of real columns do at least"
)
_RARE = (
    "flags are set once in ten, values of categories but the first are met as rarely (or a quarter as often as alike), "
    "numbers spread over 1/44 of their bounds, as one real column in ten does at most"
)
_PLAIN = (
    "Each column has a small effect (0.3), none goes with another, and numbers are symmetric; where that is not so "
    "widths may grow, of flags and counts to two or three times as much and more."
)
_EXPLAINED = {
    "poisson": ("; what is explained is 1 on average", "; what is explained is 0.1 on average"),
    "linear": ("", "; what is explained over a quarter"),
    "hazard": ("; half have the event and all are followed to the last cut", "; one in ten has the event"),
}
_SCALES = {
    "logistic": ("log-odds", "odds"),
    "multinomial": ("log-odds", "odds"),
    "ordinal": ("log-odds", "odds"),
    "poisson": ("log-rates", "rates"),
    "hazard": ("log hazards", "hazards"),
}


@dataclass(frozen=True)
class RegressionPlan:
    """What a regression will tell, before anything is read or spent.

    Attributes
    ----------
    question, n, target, level
        What would be asked, of how many records or persons, for which promise, and how often its intervals hold.
    mechanism, looks
        The looks as plain values, and which part of what is spent each takes.
    terms
        What is expected of each term: if values are met alike and numbers spread widely, but for what was imagined.
    rare
        The same if values are rare and numbers narrow; None where all columns were imagined.
    unsaid, hints
        The columns of which nothing was said, and what may be said of some of them, as examples.
    cautions
        What to beware of in the promise.
    """

    question: str
    n: int
    target: Promise
    level: float
    mechanism: Mapping[str, Any]
    looks: tuple[float, ...]
    terms: tuple[PrecisionForecast, ...]
    rare: tuple[PrecisionForecast, ...] | None
    assumed: str
    unsaid: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row a term: half the width of its interval, if values are even and if rare, and without privacy."""
        if self.rare is None:
            return [{"term": item.term, "known_to": item.width, "no_privacy": item.plain} for item in self.terms]
        return [
            {"term": item.term, "if_even": item.width, "if_rare": few.width}
            | {"no_privacy": item.plain, "no_privacy_if_rare": few.plain}
            for item, few in zip(self.terms, self.rare, strict=True)
        ]

    @property
    def table(self) -> Any:
        """The rows as a data frame."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads of a table of text, and a line a term."""
        if self.rare is None:
            body = [[item.term, item.told, f"± {item.plain:.3g}"] for item in self.terms]
            return ["term", "known to", "no privacy"], body
        pairs = zip(self.terms, self.rare, strict=True)
        body = [[item.term, item.told, few.told, f"± {item.plain:.3g} to {few.plain:.3g}"] for item, few in pairs]
        return ["term", "if even", "if rare", "no privacy"], body

    def footing(self, hint: Callable[[Sequence[str]], str]) -> str:
        """Return what the widths are of and what they assume; `hint` writes examples of what may be said."""
        size = f"{self.n:,} {self.target.relation.unit}{'' if self.n == 1 else 's'}"
        better = f" Which of the two {', '.join(self.unsaid)} may be is not public; if you know, say so, such as "
        better = better + hint(self.hints) + "." if self.unsaid else ""
        return f"in {in_hundred(self.level)} of 100 answers, for {size}. {self.assumed}{better} Nothing was read."

    def summary(self) -> str:
        """Return the plan as text: half the width of each interval, and what that assumes."""
        head, body = self.lines()
        wide = [max(len(line[k]) for line in [head, *body]) for k in range(len(head))]
        shown = [
            "  ".join([line[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(line[1:], wide[1:], strict=True))]).rstrip()
            for line in [head, *body]
        ]
        beware = [line for caution in self.cautions for line in textwrap.wrap(f"beware: {caution}", 80)]
        footing = self.footing(lambda hints: f"imagined={list(hints)}")
        notes = textwrap.wrap(f"Half of intervals that hold {footing}", 80)
        return "\n".join([*beware, self.question, *shown, *notes])

    def __repr__(self) -> str:
        return f"RegressionPlan({self.question!r}: {len(self.terms)} terms, n = {self.n:,})"

    def _repr_html_(self) -> str:
        head, body = self.lines()
        top = "".join(f"<th>{name}</th>" for name in head)
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body)
        return f"<p>{escape(self.question)}, n = {self.n:,}</p><table><tr>{top}</tr>{rows}</table>"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values; `from_dict` reads it back."""
        return {
            "question": self.question,
            "n": self.n,
            "target": self.target.to_dict(),
            "level": self.level,
            "mechanism": dict(self.mechanism),
            "looks": list(self.looks),
            "terms": [item.to_dict() for item in self.terms],
            "rare": None if self.rare is None else [item.to_dict() for item in self.rare],
            "assumed": self.assumed,
            "unsaid": list(self.unsaid),
            "hints": list(self.hints),
            "cautions": list(self.cautions),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read a plan from `to_dict`'s form."""
        given = mapping("plan", state)
        with restoring("a plan"):
            few = given["rare"]
            return cls(
                question=given["question"],
                n=given["n"],
                target=Promise.from_dict(given["target"]),
                level=given["level"],
                mechanism=given["mechanism"],
                looks=tuple(given["looks"]),
                terms=tuple(PrecisionForecast(**item) for item in given["terms"]),
                rare=None if few is None else tuple(PrecisionForecast(**item) for item in few),
                assumed=given["assumed"],
                unsaid=tuple(given["unsaid"]),
                hints=tuple(given["hints"]),
                cautions=tuple(given["cautions"]),
            )


def plan_looks(
    mechanism: AdaptiveLooks,
    target: Promise,
    n: int | None = None,
    level: float = 0.95,
    imagined: AssumedDistribution | Iterable[str] | None = None,
    pause: Callable[[], None] | None = None,
) -> RegressionPlan:
    """Return the plan of a regression; nothing is read.

    Parameters
    ----------
    mechanism, target
        What would be asked, and the promise it was calibrated for.
    n, level, pause
        As in `foresee`.
    imagined
        What the records are imagined to be, or words for it such as ``["smoker=20%", "ward:C=5%"]``, or by column.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Number
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> promise, facts = ApproxDP(1.0, 1e-6), Facts(smoker=Flag(), age=Number(0, 110))
    >>> looks = AdaptiveLooks.calibrate(Formula("smoker ~ age", facts), 10_000, promise)
    >>> plan = plan_looks(looks, promise)
    >>> [list(row) for row in plan.rows][0], plan.hints
    (['term', 'if_even', 'if_rare', 'no_privacy', 'no_privacy_if_rare'], ('age=0.1', 'smoker=20%'))
    """
    formula = mechanism.system
    said = imagined_of(imagined, formula.facts)
    count = mechanism.n if n is None else n
    explained = formula.event if isinstance(formula, HazardFormula) else formula.parsed.response
    late = [getattr(formula, "start", None)]
    unsaid = [name for name in (*formula.design.names, explained, *filter(None, late)) if name not in said.columns]
    sorts = [said, rarely(formula, said)] if unsaid else [said]
    if isinstance(mechanism, HazardLooks):
        terms, *rare = [foresee_hazards(mechanism, item, count, level) for item in sorts]
    elif isinstance(formula, OrdinalFormula):
        terms, *rare = [foresee_ordinal(mechanism, item, count, level) for item in sorts]
    else:
        terms, *rare = foresee_all(mechanism, sorts, count, level, pause)
    assert count is not None  # it is refused otherwise
    return RegressionPlan(
        formula.describe(),
        count,
        target,
        level,
        mechanism.to_dict(),
        tuple(share for share, _ in mechanism.plan),
        tuple(terms),
        tuple(rare[0]) if rare else None,
        _assumed(formula, said, alike=not unsaid),
        tuple(unsaid),
        tuple(_hint(name, formula.facts[name]) for name in unsaid[:3]),
        cautions(target, count),
    )


def _assumed(formula: Formula, said: AssumedDistribution, *, alike: bool) -> str:
    """Return what the plan takes for so."""
    size = "all" if said.kept == 1 else percent(said.kept)
    kept = "" if formula.where is None and said.kept == 1 else f" The condition holds for {size} of them."
    fits = " A formula that misses a little is allowed for." if formula.misses else " The formula is taken to be right."
    small = f"{_scale(formula.family)}{_PLAIN}{fits}{kept}"
    if alike:
        return f"{small} Columns are as imagined."
    even, fewer = _EXPLAINED.get(formula.family, ("", ""))
    return f"{small} If even: {_ALIKE}{even}. If rare: {_RARE}{fewer}."


def _scale(family: str) -> str:
    """Return what widths are of, where that is no number that people know."""
    if family not in _SCALES:
        return ""
    inner, outer = _SCALES[family]
    return f"Widths are of {inner}, of a number for each unit of it: ± 0.7 is {outer} of half to twice as much. "


def _hint(name: str, column: Column) -> str:
    """Return what may be said of a column, as an example."""
    match column:
        case Category(categories):
            return f"{name}:{categories[-1]}=10%"
        case Flag():
            return f"{name}=20%"
        case Count(high):  # whose mean is said
            return f"{name}={max(high // 4, 1)}"
    return f"{name}=0.1"
