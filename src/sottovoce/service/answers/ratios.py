"""Odds and rate ratios: what e to the power of a coefficient is, with its interval, and where nothing is told of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.digits import NUMBERS, formatted, formatted_ratio, sure

FAR = math.log(sys.float_info.max) / 2
"""A coefficient farther from zero has no ratio that is told: its square is no double, and an axis needs room."""
_KNOWN = math.log(1e6)
"""A ratio that may be a million times as large as it may be small is not told: its middle alone would look like one."""


@dataclass(frozen=True)
class Contrast:
    """One combination of coefficients, with its interval and how likely it is to have the sign that it shows.

    Attributes
    ----------
    what
        The combination in words.
    estimate, sd, low, high
        The posterior median, standard deviation and interval.
    probability
        How likely it has the sign of its estimate.
    level
        How often the interval holds.
    ratio_name
        What e to its power is called, ``odds ratio`` or ``rate ratio``; None where it is nothing.
    """

    what: str
    estimate: float
    sd: float
    low: float
    high: float
    probability: float
    level: float = 0.95
    ratio_name: str | None = None

    @property
    def ratio(self) -> dict[str, float] | None:
        """The odds or rate ratio that it comes to: estimate, low, high. None where there is none or noise hides it."""
        row = self._row
        if self.ratio_name is None or not ratio_is_told(row):
            return None
        return dict(zip(NUMBERS, ratios_of([row[name] for name in NUMBERS]).tolist(), strict=True))

    @property
    def _row(self) -> dict[str, float]:
        return {"estimate": self.estimate, "low": self.low, "high": self.high}

    def sentence(self) -> str:
        """Return the combination with its interval in words; of odds and rates the ratio as well."""
        said = f"{self.what}: {self._ranged(formatted(self._row))}"
        if (ratio := self.ratio) is not None:
            said += f", {self.ratio_name} {self._ranged(formatted_ratio(ratio))}"
        return f"{said}; probability of the sign {sure(self.probability)}"

    def _ranged(self, numbers: list[str]) -> str:
        return f"{numbers[0]} ({percent(self.level)} interval {numbers[1]} to {numbers[2]})"

    def to_dict(self) -> dict[str, object]:
        """Return the combination as plain values, its ratio among them."""
        state: dict[str, object] = {"what": self.what, **self._row, "sd": self.sd, "probability": self.probability}
        return state | {"level": self.level, "ratio_name": self.ratio_name, "ratio": self.ratio}

    def __repr__(self) -> str:
        return self.sentence()


def ratios_of(coefficients: object) -> Floats:
    """Return e to the power of coefficients, those too far from zero held where it is a double still."""
    return np.exp(np.clip(np.asarray(coefficients, dtype=np.float64), -FAR, FAR))


def ratio_is_told(row: Mapping[str, Any]) -> bool:
    """Return whether enough is known of a coefficient that the middle of its ratio is no mere look of a finding."""
    ends = row["low"], row["high"]
    return all(end is not None and abs(end) < FAR for end in ends) and bool(ends[1] - ends[0] <= _KNOWN)


def ratio_numbers(row: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the ratio of a row of a regression and its ends as written; nothing of an intercept, which is no ratio.

    None where it is not told: noise hides the coefficient, or leaves the ratio anything.
    """
    if is_intercept(row["term"]):
        return ["", "", ""]
    if not ratio_is_told(row):
        return None
    return formatted_ratio({"estimate": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]})


def is_intercept(term: str) -> bool:
    """Return whether a term is an intercept, or that of one value of several: a column's name may hold the word."""
    return term == "Intercept" or term.endswith(": Intercept")
