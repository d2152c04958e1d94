"""The catalogue of verbs: what can be asked, with which arguments, and how an answer is read. Faces are made of it.

A verb is one entry. The server's schema, its page and the client know a new one from the day it is registered.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sottovoce.inference.cells.cell_mechanisms import mechanism_kind
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import OVER_TIME, TAILS, make_question
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.registry import Registry
from sottovoce.records.facts import Category, Cells, Column, Count, Day, Facts, Flag, Number
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.answers.predictions import Row
from sottovoce.service.answers.question_parser import parse_spend
from sottovoce.service.answers.survival import answer_of
from sottovoce.service.ledger import Budget

__all__ = ["BY", "CATALOGUE", "WHERE", "Argument", "Verb", "spend_of"]

CATALOGUE = Registry(
    "verb",
    {
        "proportion": "sottovoce.service.answers.catalogue:PROPORTION",
        "mean": "sottovoce.service.answers.catalogue:MEAN",
        "total": "sottovoce.service.answers.catalogue:TOTAL",
        "sd": "sottovoce.service.answers.catalogue:SD",
        "rate": "sottovoce.service.answers.catalogue:RATE",
        "ratio": "sottovoce.service.answers.catalogue:RATIO",
        "counts": "sottovoce.service.answers.catalogue:COUNTS",
        "quantiles": "sottovoce.service.answers.catalogue:QUANTILES",
        "survival": "sottovoce.service.answers.catalogue:SURVIVAL",
        "regress": "sottovoce.service.answers.regress_verb:REGRESS",
        "describe": "sottovoce.service.answers.describe_verb:DESCRIBE",
    },
    "sottovoce.verbs",
)
"""Every verb by its word."""

_VALUES, _NUMBERS = (Flag, Category), (Number, Count)
_LONGEST = 2000
_SCHEMAS: dict[str, dict[str, Any]] = {
    "column": {"type": "string", "maxLength": 200},
    "columns": {
        "anyOf": [
            {"type": "string", "maxLength": _LONGEST},
            {"type": "array", "items": {"type": "string", "maxLength": _LONGEST}, "maxItems": 16},
        ]
    },
    "text": {"type": "string", "maxLength": _LONGEST},
    "number": {"type": "number", "minimum": -1e6, "maximum": 1e6},
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -1e6, "maximum": 1e6}, "maxItems": 64},
    "whole": {"type": "integer", "minimum": 0, "maximum": 4096},
    "flag": {"type": "boolean"},
    "choice": {"type": "string", "maxLength": 100},
}


@dataclass(frozen=True)
class Argument:
    """One thing that a verb is told.

    Attributes
    ----------
    name
        The keyword, in Python and over the wire.
    kind
        ``column``, ``columns``, ``text``, ``number``, ``numbers``, ``whole``, ``flag`` or ``choice``.
    label, help
        What a form calls it, and what it says below.
    columns
        The kinds of column it may name; none for other arguments.
    choices
        What a ``choice`` is one of; of a ``flag``, what it may be beside true and false.
    needed
        Whether the verb makes no sense without it.
    bands
        Whether it may also name bands of a number, in words.
    """

    name: str
    kind: str
    label: str
    help: str = ""
    columns: tuple[type[Column], ...] = ()
    choices: tuple[str, ...] = ()
    needed: bool = False
    bands: bool = False

    def fitting(self, facts: Mapping[str, Column]) -> list[str]:
        """Return the columns that this argument may name."""
        return [name for name, column in facts.items() if isinstance(column, self.columns)]

    def schema(self, facts: Mapping[str, Column] | None = None) -> dict[str, Any]:
        """Return the JSON schema of its values; with facts, the columns there are."""
        schema = {"title": self.label} | _SCHEMAS[self.kind] | ({"description": self.help} if self.help else {})
        if self.kind == "choice":
            schema["enum"] = list(self.choices)
        elif self.choices:
            schema = {name: part for name, part in schema.items() if name != "type"}
            schema["enum"] = [False, True, *self.choices]
        if facts is not None and self.columns:
            item: dict[str, Any] = {"type": "string", "enum": self.fitting(facts)}
            if self.bands and (numbers := [name for name, column in facts.items() if isinstance(column, _NUMBERS)]):
                words = f"Bands of a number, such as {numbers[0]}: 12 bands"
                item = {"anyOf": [item, {"type": "string", "maxLength": _LONGEST, "description": words}]}
            several = {"anyOf": [item, {"type": "array", "items": item}]}
            schema = {"title": self.label} | (item if self.kind == "column" else several)
        return schema

    def checked(self, value: Any) -> Any:
        """Return a value of the right kind, or raise `InvalidValue`."""
        if self.kind == "flag" and isinstance(value, str) and value in self.choices:
            return value
        if not _KINDS[self.kind](value):
            raise InvalidValue(f"{self.name} must be {_WANTED[self.kind]}. Got {shown(value)}")
        if self.kind == "choice" and value not in self.choices:
            raise InvalidValue(f"{self.name} must be one of {', '.join(self.choices)}. Got {value!r}")
        return tuple(value) if isinstance(value, list) else value


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _number(value: Any) -> bool:
    """Say whether a value is a number that a double holds: neither infinite nor NaN, nor of a thousand digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


_KINDS: dict[str, Any] = {
    "column": _text,
    "columns": lambda v: _text(v) or (isinstance(v, list | tuple) and len(v) <= 16 and all(map(_text, v))),
    "text": _text,
    "number": _number,
    "numbers": lambda v: _number(v) or (isinstance(v, list | tuple) and len(v) <= 64 and all(map(_number, v))),
    "whole": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "flag": lambda v: isinstance(v, bool),
    "choice": _text,
}
_WANTED = {
    "column": "the name of a column",
    "columns": "the name of a column, or a list of at most 16, each of at most 2000 characters",
    "text": "a text of at most 2000 characters",
    "number": "a number",
    "numbers": "a number, or a list of at most 64",
    "whole": "a whole number",
    "flag": "true or false",
    "choice": "a word",
}


@dataclass(frozen=True)
class Verb:
    """A verb: its arguments, how a curator is asked, and how what comes back is read.

    A verb of another kind overrides `question`, `mechanism` and `answer`.

    Attributes
    ----------
    word, title
        The verb, and what it finds out, for people.
    arguments
        What it is told, the first one first.
    asks
        The verb of the question that is asked; this one's own unless said.

    Examples
    --------
    >>> from sottovoce.records.facts import Flag, Facts
    >>> CATALOGUE["proportion"].question(Facts(smoker=Flag()), {"column": "smoker"}).describe()
    'proportion of smoker'
    """

    word: str
    title: str
    arguments: tuple[Argument, ...]
    asks: str = ""
    composed: ClassVar[bool] = False
    """Whether it is several questions, each an entry of its own, under one price."""

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that were given, each of the right kind; none is left out that is needed."""
        known = {argument.name: argument for argument in self.arguments}
        if unknown := [name for name in given if name not in known]:
            raise InvalidValue(
                f"{self.word} takes {', '.join(known)}, and as every verb spend, level and purpose. "
                f"Got {', '.join(map(shown, unknown[:5]))}"
            )
        result = {name: known[name].checked(value) for name, value in given.items() if value is not None}
        for name, argument in known.items():
            if argument.needed and not result.get(name):
                raise InvalidValue(f"{self.word} needs {name}, {_WANTED[argument.kind]}")
        return result

    def schema(self, facts: Mapping[str, Column] | None = None) -> dict[str, Any]:
        """Return the JSON schema of the verb's arguments."""
        properties = {argument.name: argument.schema(facts) for argument in self.arguments}
        needed = [argument.name for argument in self.arguments if argument.needed]
        return {"title": self.title, "type": "object", "properties": properties, "required": needed}

    def serves(self, allowed: Collection[str] | None = None) -> bool:
        """Say whether one of the mechanisms that are allowed, by their short names, can answer this verb."""
        return allowed is None or any(name in allowed for name in NoisyCells.choices)

    def question(self, facts: Facts, given: Mapping[str, Any]) -> Any:
        """Return what is asked: a value with `where`, `reading`, `columns`, `describe` and `to_dict`."""
        asked = self.checked(given)
        columns = asked.pop("columns", None) or asked.pop("column")
        if self.word == "quantiles":
            asked.setdefault("at", (0.25, 0.5, 0.75))
        if cut := asked.pop("cut", ""):
            asked["cells"] = Cells.parse(facts, [columns] if isinstance(columns, str) else columns, cut)
        built = make_question(self.asks or self.word, columns, facts, **asked)
        check_levels(built.where, facts)
        return built

    def arguments_of(self, question: Any) -> dict[str, Any]:
        """Return the arguments that `question` makes this question of, in plain values for the wire."""
        result: dict[str, Any] = {}
        for argument in self.arguments:
            if argument.name in ("column", "columns"):
                asked = list(question.columns_asked)
                result[argument.name] = asked[0] if argument.name == "column" else asked
            elif (value := getattr(question, argument.name)) and value != next(iter(argument.choices), None):
                result[argument.name] = list(value) if isinstance(value, tuple) else value
        return result

    def mechanism(
        self,
        curator: PaidVerbs,
        question: Any,
        spend: Promise | float,
        part: Budget | None = None,
        allowed: Collection[str] | None = None,
    ) -> Mechanism:
        """Return the mechanism that would answer: the quietest for what the budget charges, of those `allowed`."""
        kinds = [name for name in NoisyCells.choices if allowed is None or name in allowed]
        if len(kinds) == len(NoisyCells.choices):
            return curator.mechanism_for(question, spend, part)
        if not kinds:
            raise InvalidValue(f"{self.word} is answered with noise: laplace or gaussian, and neither is allowed here")
        noise = NoisyCells.choices[kinds[0]]
        return mechanism_kind(question, curator.n).calibrate(
            question, curator.n, _promise(curator.promise(spend, part)), **noise
        )

    def answer(self, release: Release, entry: int | None, share: float | None, level: float = 0.95) -> Any:
        """Return the answer of a release: a value with `rows`, `table`, `level`, `summary` and `to_dict`."""
        return answer_of(release, entry, share, level)

    def check_rows(self, question: Any, rows: Sequence[Row]) -> None:
        """Refuse rows to predict for that make no sense; of other verbs than regressions, any."""
        if rows:
            raise InvalidValue(f"a regression says what is expected of a row, and {self.word} does not")

    def expected(self, answer: Any, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return what an answer expects of rows, as plain values; it follows from the release, so it is free."""
        del answer
        self.check_rows(None, rows)
        return []

    def read(self, state: Mapping[str, Any]) -> Any:
        """Read an answer from the plain values of its `to_dict`."""
        with restoring("an answer"):
            given = state["entry"], state["share"], state["level"]
            answer = self.answer(Release.from_dict(state["release"]), *given)
            return answer if state.get("earlier") is None else replace(answer, earlier=state["earlier"])


def spend_of(given: Any) -> Promise | float:
    """Return what an answer may cost: a share such as 0.05 or ``"5%"``, or a promise such as ``"approx:0.1,1e-6"``.

    >>> spend_of("5%"), spend_of("pure:0.5")
    (0.05, PureDP(epsilon=0.5))
    """
    if isinstance(given, Promise):
        return given
    result = parse_spend(given) if isinstance(given, str) else given
    if isinstance(result, str):
        return parse_promise(result)
    if not _number(result) or not 0 < result <= 1:
        raise InvalidValue(f"spend is a share of the budget above 0 and at most 1, or a promise. Got {shown(given)}")
    return float(result)


def _promise(found: Promise | None) -> Promise:
    if found is None:
        raise InvalidValue("spend= says what a question may cost: a share of the budget such as 0.05, or a promise")
    return found


BY = Argument(
    "by",
    "columns",
    "By group",
    "Every group that the condition leaves gets a row, and all together cost once. Numbers are grouped in bands, such "
    "as age: under 18, 18-64, 65+ or age: 12 bands.",
    _VALUES,
    bands=True,
)
WHERE = Argument(
    "where",
    "text",
    "Only records where",
    "The answer is about the records for which this holds. The others are left out, never counted as a value.",
)
_POOL = Argument(
    "pool",
    "flag",
    "Let groups share strength",
    "Small groups borrow from the others, as much as the groups are alike; or, 'time', from those before and after.",
    choices=(OVER_TIME,),
)
_PRIOR = Argument("prior", "number", "Records the prior counts for", "1.5, shared by the values, unless given.")


def _column(kinds: tuple[type[Column], ...]) -> Argument:
    return Argument("column", "column", "Column", "", kinds, needed=True)


PROPORTION = Verb(
    "proportion",
    "What share of records",
    (_column(_VALUES), BY, WHERE, _POOL, _PRIOR),
)
MEAN = Verb(
    "mean",
    "The mean of a number",
    (
        _column(_NUMBERS),
        BY,
        WHERE,
        _POOL,
        Argument(
            "tails",
            "choice",
            "Assume of its tail",
            "smooth: where bounds are far beyond nearly all values, intervals are a half to a third as wide, and the "
            "answer says what could hide beyond.",
            choices=TAILS,
        ),
    ),
)
TOTAL = Verb("total", "The sum of a number over the records", (_column(_NUMBERS), BY, WHERE))
SD = Verb("sd", "How far a number spreads (SD)", (_column(_NUMBERS), BY, WHERE))
RATE = Verb(
    "rate",
    "How often something happens",
    (
        _column((Count,)),
        BY,
        WHERE,
        Argument(
            "exposure",
            "column",
            "Per unit of",
            "Divide by the sum of this column; by the records if left out.",
            _NUMBERS,
        ),
        _POOL,
    ),
)
RATIO = Verb(
    "ratio",
    "One sum over another",
    (
        _column(_NUMBERS),
        BY,
        WHERE,
        Argument("exposure", "column", "Over the sum of", "As costs over days.", _NUMBERS, needed=True),
        _POOL,
    ),
    asks="rate",
)
COUNTS = Verb(
    "counts",
    "How many records",
    (
        Argument("columns", "columns", "Columns to count", "", (*_VALUES, *_NUMBERS), needed=True),
        BY,
        WHERE,
        Argument("cut", "text", "Cut numbers", "age=12 into twelve cells, days=0,7,30,inf at edges; a ; between two."),
        _POOL,
        _PRIOR,
    ),
)
QUANTILES = Verb(
    "quantiles",
    "Median and quartiles",
    (
        _column((*_NUMBERS, Day)),
        BY,
        WHERE,
        Argument("at", "numbers", "Which quantiles", "0.25, 0.5 and 0.75 unless given: quartiles and median."),
    ),
)
SURVIVAL = Verb(
    "survival",
    "How long until something happens",
    (
        Argument("column", "column", "Time", "How long a record was followed.", _NUMBERS, needed=True),
        Argument(
            "event",
            "column",
            "Event",
            "Whether the time ended in the event; if not, it was cut off.",
            (Flag,),
            needed=True,
        ),
        BY,
        WHERE,
        Argument(
            "cuts", "numbers", "At which times", "Twelve, evenly up to the bound, unless given: such as 30, 90, 365."
        ),
    ),
)
