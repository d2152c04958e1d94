"""The catalogue of verbs: what can be asked, with which arguments, and how an answer is read. Faces are made of it.

A verb is one entry. The server's schema, its page and the client know a new one from the day it is registered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sottovoce.inference.cells.cell_mechanisms import mechanism_kind
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.question_checks import TAILS
from sottovoce.inference.cells.questions import make_question
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.registry import Registry
from sottovoce.privacy.shares import percent_meant
from sottovoce.records.facts import Category, Cells, Column, Count, Day, Facts, Flag
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers.arguments import BY, NUMBERS, POOL, PRIOR, VALUES, WANTED, WHERE, Argument, is_number
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.answers.predictions import Row
from sottovoce.service.answers.question_parser import parse_spend
from sottovoce.service.answers.survival import answer_of
from sottovoce.service.ledger import Budget

__all__ = ["CATALOGUE", "Verb", "spend_of"]

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

    def checked(self, given: Mapping[str, object]) -> dict[str, Any]:
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
                raise InvalidValue(f"{self.word} needs {name}, {WANTED[argument.kind]}")
        return result

    def schema(self, facts: Mapping[str, Column] | None = None) -> dict[str, Any]:
        """Return the JSON schema of the verb's arguments."""
        properties = {argument.name: argument.schema(facts) for argument in self.arguments}
        needed = [argument.name for argument in self.arguments if argument.needed]
        return {"title": self.title, "type": "object", "properties": properties, "required": needed}

    def serves(self, allowed: Collection[str] | None = None) -> bool:
        """Say whether one of the mechanisms that are allowed, by their short names, can answer this verb."""
        return allowed is None or any(name in allowed for name in NoisyCells.choices)

    def question(self, facts: Facts, given: Mapping[str, object]) -> Any:
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

    def arguments_of(self, question: Any) -> dict[str, object]:
        """Return the arguments that `question` makes this question of, in plain values for the wire."""
        result: dict[str, object] = {}
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

    def check_rows(self, question: object, rows: Sequence[Row]) -> None:
        """Refuse rows to predict for that make no sense; of other verbs than regressions, any."""
        if rows:
            raise InvalidValue(f"a regression says what is expected of a row, and {self.word} does not")

    def expected(self, answer: object, rows: Sequence[Row]) -> list[dict[str, Any]]:
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
    if not is_number(result) or not 0 < result <= 1:
        meant = percent_meant(result) if is_number(result) else ""
        raise InvalidValue(
            f"a share of the budget lies above 0 and at most 1; or say a promise. Got {shown(given)}{meant}"
        )
    return float(result)


def _promise(found: Promise | None) -> Promise:
    if found is None:
        raise InvalidValue("spend= says what a question may cost: a share of the budget such as 0.05, or a promise")
    return found


def _column(kinds: tuple[type[Column], ...]) -> Argument:
    return Argument("column", "column", "Column", "", kinds, needed=True)


PROPORTION = Verb(
    "proportion",
    "What share of records",
    (_column(VALUES), BY, WHERE, POOL, PRIOR),
)
MEAN = Verb(
    "mean",
    "The mean of a number",
    (
        _column(NUMBERS),
        BY,
        WHERE,
        POOL,
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
TOTAL = Verb("total", "The sum of a number over the records", (_column(NUMBERS), BY, WHERE))
SD = Verb("sd", "How far a number spreads (SD)", (_column(NUMBERS), BY, WHERE))
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
            NUMBERS,
        ),
        POOL,
    ),
)
RATIO = Verb(
    "ratio",
    "One sum over another",
    (
        _column(NUMBERS),
        BY,
        WHERE,
        Argument("exposure", "column", "Over the sum of", "As costs over days.", NUMBERS, needed=True),
        POOL,
    ),
    asks="rate",
)
COUNTS = Verb(
    "counts",
    "How many records",
    (
        Argument("columns", "columns", "Columns to count", "", (*VALUES, *NUMBERS), needed=True),
        BY,
        WHERE,
        Argument("cut", "text", "Cut numbers", "age=12 into twelve cells, days=0,7,30,inf at edges; a ; between two."),
        POOL,
        PRIOR,
    ),
)
QUANTILES = Verb(
    "quantiles",
    "Median and quartiles",
    (
        _column((*NUMBERS, Day)),
        BY,
        WHERE,
        Argument("at", "numbers", "Which quantiles", "0.25, 0.5 and 0.75 unless given: quartiles and median."),
    ),
)
SURVIVAL = Verb(
    "survival",
    "How long until something happens",
    (
        Argument("column", "column", "Time", "How long a record was followed.", NUMBERS, needed=True),
        Argument(
            "event",
            "column",
            "Event",
            "Whether the time ended in the event, or in which of several; the first value is of those cut off.",
            (Flag, Category),
            needed=True,
        ),
        BY,
        WHERE,
        Argument(
            "cuts", "numbers", "At which times", "Twelve, evenly up to the bound, unless given: such as 30, 90, 365."
        ),
    ),
)
