"""Regressions in the catalogue of verbs: what `Curator.regress` takes, for every face."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.answers.catalogue import WHERE, Argument, Verb
from sottovoce.answers.regression import Regression
from sottovoce.answers.verbs import PaidVerbs, regression_room
from sottovoce.facts import Facts
from sottovoce.ledger import Budget
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise

__all__ = ["REGRESS", "RegressVerb"]

_FAMILIES = ("logistic", "probit", "linear", "poisson", "multinomial")
_LOOKS = "looks"


class RegressVerb(Verb):
    """A regression by formula: terms with intervals, from a few noisy looks at score and information."""

    def serves(self, allowed: Collection[str] | None = None) -> bool:
        """Say whether its mechanism is among those that are allowed."""
        return allowed is None or _LOOKS in allowed

    def question(self, facts: Facts, given: Mapping[str, Any]) -> Any:
        """Return the formula, with the facts of the columns it names."""
        asked = self.checked(given)
        return regression_room().Formula(asked.pop("formula"), facts, **asked)

    def arguments_of(self, question: Any) -> dict[str, Any]:
        """Return what the formula was made of."""
        found = {"formula": question.text, "family": question.family, "prior": question.prior, "where": question.where}
        return {name: value for name, value in found.items() if value is not None}

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
        made: Mechanism = curator.looks_for(question, spend, part)
        return made

    def answer(self, release: Release, entry: int | None, share: float | None, level: float = 0.95) -> Any:
        """Return the regression: a table of terms, contrasts, predictions."""
        return Regression(release, entry, share, level)


REGRESS = RegressVerb(
    "regress",
    "What goes with what (regression)",
    (
        Argument(
            "formula", "text", "Formula", "Such as smoker ~ age + C(ward): what is explained, and by what.", needed=True
        ),
        WHERE,
        Argument("family", "choice", "Family", "By the kind of what is explained, unless given.", choices=_FAMILIES),
        Argument("prior", "number", "Prior spread", "The prior standard deviation of the linear predictor."),
    ),
)
