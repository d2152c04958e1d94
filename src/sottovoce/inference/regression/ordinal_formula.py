r"""An ordinal regression by its formula: the odds of lying above each cut between ordered values, all of one slope.

P(y > k) is logistic in :math:`a_k + \beta\cdot x` for every cut k (proportional odds: McCullagh, Journal of the Royal
Statistical Society B 42, 1980), so that :math:`e^\beta` are odds ratios of lying higher, wherever the cut is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Flag
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import OrdinalLook
from sottovoce.records.readings.families import Family, family_of
from sottovoce.records.readings.ordinal_look import MOST_ORDERED, cuts_of, stacked_encoding

__all__ = ["OrdinalFormula"]


@dataclass(frozen=True, eq=False)
class OrdinalFormula(Formula):
    """``response ~ terms`` of an ordered response: proportional odds.

    The response is a category whose values are declared in their order, or a count from 0 to 11 at most. The parameters
    are those of a `Formula`, without groups and an exposure.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Number
    >>> facts = Facts(pain=Category(["none", "mild", "severe"]), age=Number(18, 100))
    >>> OrdinalFormula("pain ~ age", facts, "ordinal").terms
    ['pain > none', 'age', 'pain > mild']
    """

    word: ClassVar[str] = "ordinal formula"

    def __post_init__(self) -> None:
        if self.family != "ordinal":
            raise InvalidValue(f"this is of the family 'ordinal'. Got {self.family!r}")
        if self.exposure is not None:
            raise InvalidValue("an ordinal regression takes no exposure=")
        self._check()
        super().__post_init__()

    def _check(self) -> None:
        name, column = self.parsed.response, self.response
        if not cuts_of(column):
            size = len(column.categories) if isinstance(column, Category) else 2
            few = isinstance(column, Flag) or size < 3
            raise InvalidValue(
                f"an ordinal regression explains a category of 3 to {MOST_ORDERED} values, declared in their order, or "
                f"a count up to {MOST_ORDERED - 1}; {name!r} is {column}"
                + (". Of two values it is the logistic one" if few and size == 2 and column.word != "number" else "")
            )
        if self.averaged:
            raise InvalidValue("an ordinal response is of one record a person: say Person(rows=1), which takes one row")
        if self.groups:
            raise InvalidValue("groups (1 | column) are not offered of ordered responses; C(column) is")
        entries = self.parsed.encoding.entries
        if () not in entries:
            raise InvalidValue("an ordinal regression has cuts of its own: leave out '0 +' and '- 1'")
        if len(entries) < 2:
            raise InvalidValue(f"nothing explains {name!r}: name a column, or ask for counts instead")

    @cached_property
    def model(self) -> Family:
        """The logistic family, of whether a record lies above a cut."""
        built: Family = family_of("logistic", Flag())
        return built

    @property
    def cuts(self) -> int:
        """How many cuts lie between the values of the response."""
        return cuts_of(self.response)

    @property
    def values(self) -> list[Any]:
        """The ordered values of the response."""
        column = self.response
        return list(column.categories) if isinstance(column, Category) else list(range(self.cuts + 1))

    @property
    def modelled(self) -> str:
        """Coefficients speak of no one value."""
        return ""

    @property
    def design(self) -> Encoding:
        """How a public row becomes numbers, without the cuts."""
        return self.parsed.encoding

    @cached_property
    def encoding(self) -> Encoding:
        """How a record's row at a cut becomes numbers."""
        return stacked_encoding(self.parsed.encoding, self.cuts)

    @property
    def columns(self) -> list[str]:
        """The columns to read, the response last."""
        return [*self.parsed.encoding.names, self.parsed.response]

    @property
    def nuisance(self) -> tuple[int, ...]:
        """The cuts, which no table shows: `Regression.baseline` does."""
        first = self.parsed.encoding.entries.index(())
        return (first, *range(self.parsed.encoding.size, self.encoding.size))

    @property
    def cut_names(self) -> list[str]:
        """What the cuts are called."""
        return [f"{self.parsed.response} > {value}" for value in self.values[:-1]]

    @property
    def terms(self) -> list[str]:
        """What the unknowns are called, the intercept after the first cut."""
        first, *others = self.cut_names
        named = zip(self.parsed.terms, self.parsed.encoding.entries, strict=True)
        return [*(term if entry else first for term, entry in named), *others]

    @cached_property
    def units(self) -> tuple[Floats, Floats]:
        """The matrix A and the shift b with which θ becomes log-odds at each cut and slopes of the columns."""
        parsed, size = self.parsed.units, self.parsed.encoding.size
        first = self.parsed.encoding.entries.index(())
        A = np.eye(self.encoding.size)
        A[:size, :size] = parsed
        A[size:, :size] = parsed[first]
        return A, np.zeros(len(A))

    @property
    def slope_sd(self) -> float:
        """The prior standard deviation of what one column does to the log-odds, over the records."""
        prior, slopes = self.prior or 0.0, self.parsed.encoding.size - 1
        return min(prior / 2, prior / float(np.sqrt(slopes)))

    @property
    def look_kind(self) -> type[OrdinalLook]:
        """What its looks are of: every cut of each record."""
        return OrdinalLook

    @property
    def variation_seen(self) -> bool:
        """No: how the cuts of one record go together follows from their log-odds."""
        return False

    @property
    def predicted(self) -> str:
        """What is expected of a row, in words."""
        return f"share of {self.parsed.response}"

    def expected(self, thetas: Floats, rows: Floats) -> Floats:
        """Return the share of each value: draws first, then rows, then values. Cuts that a draw has in another order
        have nothing between them.
        """
        size = rows.shape[1]
        moved = np.concatenate([np.zeros((len(thetas), 1)), thetas[:, size:]], axis=1)
        above = special.expit((thetas[:, :size] @ rows.T)[:, :, None] + moved[:, None])
        above = np.minimum.accumulate(above, axis=2)
        ends = np.ones((*above.shape[:2], 1))
        return np.asarray(-np.diff(np.concatenate([ends, above, 0 * ends], axis=2), axis=2))

    def describe(self) -> str:
        """Return the regression in one line, with the order of the values."""
        order = f" ({' < '.join(map(str, self.values))})"
        return super().describe().replace(self.text.strip(), self.text.strip() + order, 1)
