"""What verbs take beside their questions: options of a release, of an answer and of a plan."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.service.ledger import Budget

if TYPE_CHECKING:  # the room needs an extra
    import numpy as np

    from sottovoce.mechanisms import Release


class ReleaseOptions(TypedDict, total=False):
    """What is passed on to where an answer is paid for, as `Curator.release` takes it; a client refuses some of it."""

    idempotency_key: str | None
    purpose: str | None
    who: str | None
    rng: np.random.Generator | None
    accept_unproven: bool
    missing: Any
    draws: int
    about: Mapping[str, Any] | None
    then: Callable[[Release], Release] | None
    again: bool


class AnswerOptions(ReleaseOptions, total=False):
    """What every verb takes beside its question and its price."""

    level: float | str


class PlanOptions(TypedDict):
    """What a plan is told beside its question."""

    part: Budget | None
    level: float | str
    records: int | None
    imagined: AssumedDistribution | Iterable[str] | None


def check_options(
    verb: Callable[..., Any],
    options: Mapping[str, object],
    known: Collection[str] = tuple(AnswerOptions.__annotations__),
) -> None:
    """Refuse an option that nobody takes, by its name, before anything is made or charged.

    >>> from sottovoce.service.answers.verbs import Verbs
    >>> check_options(Verbs.mean, {"spent": 0.1})
    Traceback (most recent call last):
    sottovoce.privacy.errors.InvalidValue: mean takes no 'spent'; did you mean 'spend'?
    """
    for name in (name for name in options if name not in known):
        taken = [item for item in inspect.signature(verb).parameters if item not in ("self", "options", name)]
        close = difflib.get_close_matches(name, [*taken, *known], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(taken)}"
        raise InvalidValue(f"{verb.__name__} takes no {name!r}; {hint}")
