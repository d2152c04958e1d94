"""Regressions in the catalogue of verbs: what `Curator.regress` takes, for every face."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers.arguments import WHERE, Argument
from sottovoce.service.answers.catalogue import Verb
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.answers.planned_verbs import regression_room
from sottovoce.service.answers.predictions import Row, expected, parse_rows
from sottovoce.service.answers.regression import Regression
from sottovoce.service.ledger import Budget

_FAMILIES = ("logistic", "probit", "linear", "poisson", "multinomial", "ordinal")
_LOOKS = "looks"
_MOST = 20_000


class RegressVerb(Verb):
    """A regression by formula: terms with intervals, from a few noisy looks at score and information."""

    def serves(self, allowed: Collection[str] | None = None) -> bool:
        """Say whether its mechanism is among those that are allowed."""
        return allowed is None or _LOOKS in allowed

    def question(self, facts: Facts, given: Mapping[str, object]) -> Any:
        """Return the formula, with the facts of the columns it names."""
        asked = self.checked(given)
        _check_size(asked["formula"], facts)
        built = regression_room().formula_of(asked.pop("formula"), facts, **asked)
        check_levels(built.where, facts)
        return built

    def arguments_of(self, question: Any) -> dict[str, object]:
        """Return what the formula was made of."""
        result = {"formula": question.text, "prior": question.prior, "where": question.where}
        if question.family == "hazard":
            result |= {"event": question.event, "cuts": list(question.cuts), "start": question.start}
        else:
            result |= {"family": question.family, "misses": question.stated, "exposure": question.exposure}
        return {name: value for name, value in result.items() if value is not None}

    def mechanism(
        self,
        curator: PaidVerbs,
        question: Any,
        spend: Promise | float,
        part: Budget | None = None,
        allowed: Collection[str] | None = None,
    ) -> Mechanism:
        """Return the mechanism that would fit it."""
        if not self.serves(allowed):
            raise InvalidValue(f"regress is answered by {_LOOKS}, which is not allowed here")
        built: Mechanism = curator.looks_for(question, spend, part)
        return built

    def answer(self, release: Release, entry: int | None, share: float | None, level: float = 0.95) -> Regression:
        """Return the regression: a table of terms, contrasts, predictions."""
        return Regression(release, entry, share, level)

    def check_rows(self, question: Any, rows: Sequence[Row]) -> None:
        """Refuse rows to predict for that do not say all that the formula names."""
        parse_rows(question, rows)

    def expected(self, answer: Any, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return what is expected of rows, each with its interval."""
        return expected(answer.posterior, rows, answer.level)


def _check_size(text: str, facts: Facts) -> None:
    """Refuse products of so many categories that writing their terms down would take minutes, before any is written."""
    plain = not re.search(r"\*\*|\^|\((?!\s*1\s*\|)(?<!C\()", text)
    for piece in text.split("+") if plain else [text]:
        named = [name.strip("`") for name in dict.fromkeys(re.findall(r"`[^`]+`|[^\W\d]\w*", piece))]
        columns = [facts[name] for name in named if name in facts]
        sizes = [len(column.categories) for column in columns if isinstance(column, Category)]
        if math.prod(sizes) > _MOST:
            raise InvalidValue(f"a formula has at most 400 terms, and {piece.strip()[:60]!r} has far more")


_MISSES = (
    "Leave it empty unless you know that the formula is right, as of an experiment: then 0, and ranges are mostly "
    "narrower. If it is not right, they are too narrow. Other numbers: how much it may miss, as a part of how far "
    "what is explained varies (0.1 or 0.15 by default)."
)

_EXPOSURE = "Of counts: how long, or of how many, each was counted, such as days at risk. Bounds above zero."

_EVENT = "Of a time that is explained: whether it ended in the event. The table is then of hazard ratios."
_CUTS = "With an event: the times between which hazards are constant, such as 30, 90, 365; six even intervals else."
_START = "With an event: when follow-up began, on the same clock, where that was not at 0 for all."

REGRESS = RegressVerb(
    "regress",
    "What goes with what",
    (
        Argument(
            "formula", "text", "Formula", "Such as smoker ~ age + C(ward): what is explained, and by what.", needed=True
        ),
        WHERE,
        Argument("family", "choice", "Family", "By the kind of what is explained, unless given.", choices=_FAMILIES),
        Argument("prior", "number", "Prior spread", "The prior standard deviation of the linear predictor."),
        Argument("misses", "number", "How much it may miss", _MISSES),
        Argument("exposure", "column", "Exposure", _EXPOSURE, (Number,)),
        Argument("event", "column", "Event", _EVENT, (Flag,)),
        Argument("cuts", "numbers", "Hazards change at", _CUTS),
        Argument("start", "column", "Followed from", _START, (Number, Count)),
    ),
)
