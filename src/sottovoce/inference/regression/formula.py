"""A regression by its formula: the public side of `AdaptiveLooks`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.moment_gibbs_sampler import NARROWEST
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, real, shown
from sottovoce.records.facts import Facts
from sottovoce.records.facts.columns import Category, Column, Number
from sottovoce.records.facts.condition_parser import check_columns
from sottovoce.records.facts.derived_parser import Call, Named, Said
from sottovoce.records.facts.encodings import Encoding, levels_of
from sottovoce.records.facts.formula_parser import ParsedFormula, parse_formula
from sottovoce.records.readings import Look, PersonLook
from sottovoce.records.readings.families import Family, LinearFamily, family_of
from sottovoce.records.readings.grid import check_span
from sottovoce.records.readings.look import fine_bits
from sottovoce.records.readings.look_parts import PARTS

_FARTHEST = 1e140
"""Coefficients are counted in units up to this, and down to one over it: their squares are doubles, too."""
_WIDEST = 1e100
"""A prior is narrower than this and wider than one over it: its precision and every step under it are doubles, too."""
_IMAGINED = 2048
_WIDER = 2.0
"""The prior of an intercept beside that of the linear predictor."""
_FIXED = 2.0**-20
"""The prior standard deviation, beside its value, of a coefficient that is known: far less than any interval tells."""
_OFFSET = re.compile(r"\+\s*offset\(\s*log\(\s*(?P<name>`[^`]+`|[^\W\d]\w*)\s*\)\s*\)\s*")
_SMALL, _LARGE, _MANY = 0.02, 12.0, 48
"""The least and the largest standard deviation of a group's effects, beside the scale of their prior, and how many."""


@dataclass(frozen=True, eq=False)
class Formula:
    """``response ~ terms``, a family, and the public facts of every column it names.

    Parameters
    ----------
    text
        Such as ``smoker ~ age + C(ward) + (1 | hospital)``; see `parse_formula`.
    facts
        What is public of the columns.
    family
        ``logistic``, ``probit``, ``linear``, ``poisson`` or ``multinomial``; by the kind of the response unless given.
    prior
        The prior standard deviation of the whole linear predictor over the records (in half widths of the response's
        bounds in a linear regression), which the slopes share: 5 unless given, 2 in a linear regression.
    spread
        For ``(1 | group)``: the scale of the half-Cauchy prior of the groups' standard deviation.
    where
        Which records it is about; the others, and those with a missing value, give zeros.
    misses
        How much the formula may miss, as a part of how far responses vary about it, on average over formulas: 0.15 of
        numbers and counts, 0.1 of flags and categories unless given. At 0 the formula is taken to be right: most
        intervals are narrower, up to several times where there are many records, and too narrow where it is not.
    exposure
        Of a Poisson regression the column of numbers, with bounds above zero, that says how long or of how many each
        record was counted: rates are per unit of it. ``+ offset(log(column))`` in the text says the same. What is
        missing or lies below the bounds counts as the least.

    Examples
    --------
    >>> from sottovoce.records.facts import Flag, Number
    >>> Formula("smoker ~ age", Facts(smoker=Flag(), age=Number(0, 110))).terms
    ['Intercept', 'age']
    """

    word: ClassVar[str] = "formula"
    parameter: ClassVar[str] = "coefficients"
    mechanisms: ClassVar[tuple[str, ...]] = ("adaptive looks",)
    default_mechanism: ClassVar[str] = "looks"
    text: str
    facts: Facts
    family: str = ""
    prior: float | None = None
    spread: float = 1.0
    where: str | None = None
    misses: float | None = None
    exposure: str | None = None

    def __post_init__(self) -> None:
        self._take_exposure()
        parsed = self.parsed
        conditions = check_columns(self.where, self.facts)
        read = [*parsed.encoding.names, parsed.response]
        named = dict.fromkeys([*read, *conditions])
        object.__setattr__(self, "facts", self.facts.about(named))
        if self.facts.person in named:
            raise InvalidValue(f"{self.facts.person!r} says whose a row is; nobody is asked about it")
        for name in read:
            column = self.facts[name]
            if isinstance(column, Number):
                check_span(column.low, column.high, f"the bounds of {name!r}")
        persons = self.facts.persons
        if persons is not None and (persons.rows or 0) > 1:
            raise InvalidValue(
                "a regression takes one record a person, for rows of one person go together: Person() averages their "
                f"rows, Person(rows=1) takes one. Got Person(rows={persons.rows})"
            )
        if self.family is not None and not isinstance(self.family, str):
            raise InvalidValue(f"a family is named, such as 'logistic'. Got {shown(self.family)}")
        object.__setattr__(self, "family", self.family or _usual(self.response))
        if self.prior is None:
            object.__setattr__(self, "prior", self.usual_prior)
        # One number in one way: 1 and 1.0, and 0, 0.0 and -0.0, are the same question.
        object.__setattr__(self, "prior", real("prior", self.prior, above=1 / _WIDEST, below=_WIDEST))
        object.__setattr__(self, "spread", real("spread", self.spread, above=1 / _WIDEST, below=_WIDEST))
        self.model  # noqa: B018 - a response of the wrong kind is refused here
        if self.exposure is not None and self.family != "poisson":
            raise InvalidValue(f"an exposure goes with counts, family='poisson'. Got a {self.family} regression")
        misses = self.model.missed if self.misses is None else real("misses", self.misses, below=10.0) + 0.0
        object.__setattr__(self, "misses", misses)
        with np.errstate(all="ignore"):
            sizes = np.abs(self.units[0])
        if not np.all((sizes == 0) | ((sizes > 1 / _FARTHEST) & (sizes < _FARTHEST))):
            raise InvalidValue("coefficients of columns with such bounds are too large or too small; use other units")
        if self.groups and self.model.outputs > 1:
            raise InvalidValue("groups (1 | column) go with families of one linear predictor, not multinomial")

    def _take_exposure(self) -> None:
        """Take an offset out of the text, so that one question is written in one way; refuse what is no exposure."""
        offsets = list(_OFFSET.finditer(self.text)) if isinstance(self.text, str) else []
        if len(offsets) + (self.exposure is not None) > 1:
            raise InvalidValue("a regression has one exposure: name it once")
        if offsets:
            object.__setattr__(self, "text", _OFFSET.sub("", self.text).strip())
            object.__setattr__(self, "exposure", offsets[0]["name"].strip("`"))
        if self.exposure is None:
            return
        column = self.facts[self.exposure]
        if not (isinstance(column, Number) and column.low > 0):
            raise InvalidValue(
                f"an exposure is a number with bounds above zero, such as Number(1, 365). Got {self.exposure!r}, "
                f"{column}"
            )

    @cached_property
    def parsed(self) -> ParsedFormula:
        """What the text says, the logarithm of the exposure among its terms."""
        offset = "" if self.exposure is None else f" + {self.log_exposure}"
        return parse_formula(self.text if not offset else f"{self.text}{offset}", self.facts)

    @property
    def log_exposure(self) -> str:
        """The derived column that is added to the linear predictor, defined of every record; empty without one."""
        if self.exposure is None:
            return ""
        low = Said(float(self.facts[self.exposure].low))  # type: ignore[attr-defined]
        return str(Call("log", (Call("coalesce", (Named(self.exposure), low)),)))

    @property
    def nuisance(self) -> tuple[int, ...]:
        """The places of coefficients that no table shows."""
        return () if self.offset is None else (self.offset,)

    @cached_property
    def offset(self) -> int | None:
        """The entry of a row whose coefficient is known, the logarithm of the exposure; None where there is none."""
        if self.exposure is None:
            return None
        return self.encoding.entries.index(((self.encoding.names.index(self.log_exposure), -1),))

    @cached_property
    def prior_mean(self) -> Floats:
        """The prior mean of θ: zero, but for the logarithm of the exposure, which counts once."""
        result = np.zeros(self.dimension)
        if self.offset is not None:
            result[self.offset] = 1 / self.parsed.units[self.offset, self.offset]
        return result

    @property
    def encoding(self) -> Encoding:
        """How a record becomes a row."""
        return self.parsed.encoding

    @property
    def values(self) -> Sequence[Any] | None:
        """The values of the response of which each is expected of a part of records; None of a number or a count."""
        return levels_of(self.response)

    @property
    def design(self) -> Encoding:
        """How a public row becomes one to predict for."""
        return self.encoding

    @property
    def response(self) -> Column:
        """What is public of the column to be explained."""
        return self.facts[self.parsed.response]

    @cached_property
    def model(self) -> Family:
        """The family with its response."""
        built: Family = family_of(self.family, self.response, centred=bool(self.encoding.wholes))
        return built

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """The entries of each group."""
        return self.parsed.groups

    @property
    def columns(self) -> list[str]:
        """The columns to read, the response last; where rows are averaged, whose they are after it."""
        person = [self.facts.person] if self.averaged and self.facts.person else []
        return [*self.encoding.names, self.parsed.response, *person]

    @property
    def averaged(self) -> bool:
        """Whether a record is the average of a person's rows."""
        return self.facts.persons is not None and self.facts.persons.rows is None

    @property
    def counts_varied(self) -> bool:
        """Whether it is measured how much counts vary: what the rows of one person have in common hides it."""
        return self.family == "poisson" and not self.averaged

    @property
    def sees_tails(self) -> bool:
        """Whether a look measures what the last one cuts off: all rows have something alike, along which it is seen."""
        return bool(self.encoding.wholes) and (self.family == "linear" or self.counts_varied)

    @property
    def variation_seen(self) -> bool:
        """Whether it is looked at how much scores vary."""
        return True

    @property
    def whose(self) -> str | None:
        """What a person counts as in the answer, in words; None where a record is a row."""
        if self.facts.person is None:
            return None
        return (
            f"each person counts once, with {'all rows of theirs together' if self.averaged else 'one row of theirs'}"
        )

    @property
    def predicted(self) -> str:
        """What is expected of a row, in words."""
        return self.parsed.response

    def expected(self, thetas: Floats, rows: Floats) -> Floats:
        """Return the mean responses of one linear predictor, a row for each draw of θ."""
        return self.model.expected(thetas @ rows.T)

    @property
    def dimension(self) -> int:
        """The unknowns."""
        return self.encoding.size * self.model.outputs

    @property
    def terms(self) -> list[str]:
        """What the unknowns are called; with several predictors, after their class."""
        if self.model.outputs == 1:
            named = {self.offset: f"offset(log({self.exposure}))"}
            return [named.get(place, term) for place, term in enumerate(self.parsed.terms)]
        assert isinstance(self.response, Category)
        return [f"{level}: {term}" for level in self.response.categories[1:] for term in self.parsed.terms]

    @cached_property
    def units(self) -> tuple[Floats, Floats]:
        """The matrix A and the shift b with which θ becomes coefficients of the columns as they are, Aθ + b."""
        A = np.asarray(np.kron(np.eye(self.model.outputs), self.parsed.units), dtype=np.float64)
        b = np.zeros(len(A))
        if isinstance(self.model, LinearFamily):
            scale = self.model.scale
            A = A * scale.half
            for full in self.encoding.wholes[:1]:
                b[full] = scale.middle
        return A, b

    @property
    def guesses(self) -> int:
        """How many guesses the spreads of groups ask for."""
        return _MANY if self.groups else 1

    @property
    def usual_prior(self) -> float:
        """The prior standard deviation where none is given: so wide that records decide."""
        return 2.0 if self.family == "linear" else 5.0

    @property
    def slope_sd(self) -> float:
        """The prior standard deviation of what one column does to the linear predictor, over the records."""
        slopes = sum(bool(entry) for entry in self.encoding.entries)
        slopes -= sum(last - first for first, last in self.groups) + (self.offset is not None)
        prior = self.prior or 0.0
        return min(prior / 2, prior / math.sqrt(max(slopes, 1)))

    def prior_sd(self, spread: Floats) -> tuple[Floats, Floats]:
        """Return the log of each guess's weight and the prior standard deviations of θ, by how far entries spread.

        A slope counts by what it does to the linear predictor: its column's spread, one row a guess, times the slope.
        The spread of a group is unknown: guesses are spread over it, weighed by the half-Cauchy law.
        """
        entries, prior, size = self.encoding.entries, self.prior or 0.0, self.slope_sd
        logs = np.zeros(len(spread))
        sd = np.where(self.encoding.numbers, size / np.maximum(spread, NARROWEST), 2 * size)
        sd[:, [not entry for entry in entries]] = _WIDER * prior
        rng = np.random.default_rng(5) if self.groups else None
        for first, last in self.groups:
            assert rng is not None
            even = (rng.permutation(len(spread)) + 0.5) / len(spread)
            part = _SMALL * (_LARGE / _SMALL) ** even
            logs += np.log(part) - np.log1p(part * part)  # even steps of the logarithm, each of weight dσ
            sd[:, first:last] = (self.spread * part)[:, None]
        if self.offset is not None:
            sd[:, self.offset] = _FIXED * abs(self.prior_mean[self.offset])
        return logs, np.tile(sd, self.model.outputs)

    @cached_property
    def first_frame(self) -> tuple[Floats, float]:
        """The coordinates and the norm of the first look: those in which imagined, evenly spread records are round."""
        rows = self.encoding.samples(_IMAGINED)
        moment = rows.T @ rows / len(rows)
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 1e-6 * values[-1])
        shape = (vectors / np.sqrt(values)) @ vectors.T
        return shape, math.sqrt(len(moment))

    @property
    def look_kind(self) -> type[Look]:
        """What its looks are of: records, or averages of persons."""
        return PersonLook if self.averaged else Look

    def look(self, n: int | None) -> Look:
        """Return the first look, at zero."""
        shape, norm = self.first_frame
        parts = PARTS[:2] if self.model.curved else PARTS
        return self.look_at(n, self.prior_mean, shape, norm, parts)

    def look_at(
        self,
        n: int | None,
        centre: Floats,
        shape: Floats,
        norm: float,
        parts: tuple[str, ...],
        cap: float = 0,
        extra: float = 0.0,
        beyond: float = 0.0,
    ) -> Look:
        """Return a look at θ in the coordinates z = Tx."""
        places = centre.reshape(self.model.outputs, -1)
        moved = np.linalg.solve(shape.T, places.T).T
        rows, centres = tuple(map(tuple, shape.tolist())), tuple(moved.ravel().tolist())
        laws = (fine_bits(n), parts, cap, extra, beyond)
        return self.look_kind(self.encoding, self.response, self.family, centres, rows, float(norm), *laws)

    def statistics(self, records: Any) -> Any:
        """Refuse: a regression looks at its records more than once."""
        raise InvalidValue("a regression by formula looks at its records itself; give them to the mechanism's release")

    @property
    def modelled(self) -> str:
        """Which of two values the coefficients speak of, where the response is a column of categories; else nothing."""
        two = isinstance(self.response, Category) and self.model.outputs == 1
        return f"{self.parsed.response} = {self.response.categories[1]!r}" if two else ""  # type: ignore[attr-defined]

    @property
    def reference(self) -> str:
        """Which of several values the others are set against, where there are more than two; else nothing."""
        multinomial = self.model.outputs > 1
        return f"{self.parsed.response} = {self.response.categories[0]!r}" if multinomial else ""  # type: ignore[attr-defined]

    @property
    def stated(self) -> float | None:
        """How much it was said that the formula may miss; None where it may miss as much as others."""
        return None if self.misses == self.model.missed else self.misses

    def describe(self) -> str:
        """Return the regression in one line, with what was said of how much it may miss."""
        where = "" if self.where is None else f" where {self.where}"
        misses = "" if self.stated is None else f", misses={self.stated:g}"
        exposure = "" if self.exposure is None else f", exposure {self.exposure}"
        return f"{self.family} regression {self.text.strip()}{exposure}{where}{misses}"

    def to_dict(self) -> dict[str, Any]:
        """Return the regression as plain values; `from_dict` reads it back."""
        given = {"formula": self.text, "family": self.family, "prior": self.prior, "spread": self.spread}
        given["where"] = self.where
        if self.stated is not None:  # what was asked before there was a choice is the same question still
            given["misses"] = self.stated
        if self.exposure is not None:
            given["exposure"] = self.exposure
        return {"system": self.word} | given | {"facts": self.facts.to_dict()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read a regression from `to_dict`'s form."""
        given = mapping("formula", state)
        with restoring("a formula"):
            remainder = {name: given[name] for name in ("family", "prior", "spread", "where")}
            remainder |= {"misses": given.get("misses"), "exposure": given.get("exposure")}
            return cls(given["formula"], Facts.from_dict(given["facts"]), **remainder)

    @classmethod
    def from_facts(cls, settings: Mapping[str, Any], facts: Facts, column: str | None = None) -> Self:
        """Return the regression of a question: its ``formula``, and what else is given of it."""
        del column
        given = {key: value for key, value in settings.items() if key not in ("kind", "system") and value is not None}
        if unknown := set(given) - {"formula", "family", "prior", "spread", "misses", "exposure"}:
            shown = ", ".join(sorted(unknown))
            raise InvalidValue(f"a formula takes formula, family, prior, spread, misses and exposure. Got {shown}")
        return cls(given.pop("formula", ""), facts, **given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def _usual(response: Column) -> str:
    """Return the family that goes with the kind of the response."""
    if isinstance(response, Category) and len(response.categories) > 2:
        return "multinomial"
    return {"number": "linear", "count": "poisson"}.get(response.word, "logistic")
