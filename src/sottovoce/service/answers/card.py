"""A privacy card: one page that says what was let out of a data set, what it means and what it rests on."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.conjugate.named_systems import FORMULAS
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts
from sottovoce.service.answers.explanations import explain, only_budget, texts
from sottovoce.service.ledger import Budget, Entry, Ledger, State

__all__ = ["VERSION", "Card", "card", "in_words", "superseded"]

VERSION = 2
_SUPERSEDED: Mapping[int, Callable[[Promise], str | None]] = {
    1: lambda promise: (
        None
        if promise.to_dict().get("delta") is None
        else "this card is of version 1, which took delta for a bound on how seldom the factor is exceeded; what its "
        "budget keeps is this: " + in_words(promise)
    )
}
"""What earlier cards said that was not so, by their version, and what is so."""


@dataclass(frozen=True)
class Card:
    """All that a card says, as plain values; `to_html` makes the page.

    Attributes
    ----------
    content
        The data set, its facts, the budget, every release with its purpose, what was charged without an answer, the
        explanation, what was assumed, what NIST SP 800-226 asks with an answer each, and where the chain of the ledger
        ended.
    """

    content: Mapping[str, Any]

    def __repr__(self) -> str:
        releases = self.content["releases"]
        return f"Card({self.content['dataset']!r}: {len(releases)} releases; .save(path) writes the page)"

    def to_html(self, fingerprint: str | None = None) -> str:
        """Return the page; with the fingerprint of a key, as it is before that key's signature is put into it."""
        from sottovoce.service.answers.card_page import page  # noqa: PLC0415 - one way: the page knows no card

        return page(self.content, fingerprint)

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f'<iframe srcdoc="{escape(self.to_html())}" width="100%" height="900" style="border:0"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write the page, unsigned, and return its path."""
        place = Path(path)
        try:
            place.write_text(self.to_html(), encoding="utf-8", newline="")
        except OSError as error:
            raise InvalidValue(f"cannot write {place}: {error.strerror}") from None
        return place


def card(
    ledger: Ledger | object,
    dataset: str | None = None,
    *,
    facts: Facts | None = None,
    issuer: str = "",
    title: str = "",
    baseline: float = 0.01,
    language: str = "en",
    made: str | None = None,
) -> Card:
    """Return the privacy card of a data set, from its ledger; the whole chain is checked on the way.

    Parameters
    ----------
    ledger
        The `Ledger`, or a `Curator`.
    dataset
        Whose card, where the ledger has several budgets.
    facts
        What is public of the columns; else what the questions in the ledger say of theirs.
    issuer, title
        Who hands the card out, and what people call the data.
    baseline, language
        As in `explain`.
    made
        When; now, unless given.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> with Ledger(pathlib.Path(tempfile.mkdtemp()) / "l", create=True) as ledger:
    ...     budget = ledger.open_budget("patients", ApproxDP(1.0, 1e-6), n=100, schema={"smoker": "boolean"})
    ...     made = card(ledger)
    >>> made.content["dataset"], made.content["explanation"]["after"], made.content["releases"]
    ('patients', 28, [])
    """
    facts = getattr(ledger, "facts", None) if facts is None else facts
    dataset = getattr(ledger, "dataset", None) if dataset is None else dataset
    result = ledger if isinstance(ledger, Ledger) else getattr(ledger, "ledger", getattr(ledger, "_ledger", None))
    if not isinstance(result, Ledger):
        raise InvalidValue(f"a card is made from a ledger or a curator. Got a {type(ledger).__name__}")
    head, budget = result.verify(), only_budget(result, dataset)
    version = result.version(budget)
    entries, words = result.entries(budget.dataset), texts(language)
    explanation = explain(result, dataset=budget.dataset, baseline=baseline, language=language)
    counted = [entry for entry in entries if entry.counts]
    releases = [_release(entry, budget) for entry in counted if entry.state is State.COMMITTED]
    unanswered = [_release(entry, budget) for entry in counted if entry.state is not State.COMMITTED]
    numbers = {name: f"{value:,}" for name, value in explanation.to_dict().items() if isinstance(value, int)}
    numbers |= words["relation"][str(budget.relation)]
    numbers |= {"promise": str(budget.promise), "notion": in_words(budget.promise, language)}
    numbers["mechanisms"] = _listed([release["mechanism"] for release in releases])
    numbers["verbs"] = _listed([release["kind"] for release in releases])
    questions = [
        {"topic": first["topic"], "answer": first["answer"].format(**numbers), "covered": first.get("covered", True)}
        for first in words["card"]["questions"]
    ]
    division = result.division(budget)
    if division is not None:
        numbers["by"] = division.by
    said = words["card"]["periods"]
    periods = () if division is None else (said["home" if division.home else budget.relation.unit], said["stays"])
    content = {
        "card": VERSION,
        "language": language,
        "issuer": issuer,
        "made": made or datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "dataset": Path(budget.dataset).name,  # where the data lie is nobody's business
        "title": title or Path(budget.dataset).name,
        "n": budget.n if version is None else version.n,
        "columns": dict(budget.schema if version is None else version.schema),
        "grows": version is not None,
        "facts": _facts(facts, entries),
        "relation": numbers["card"],
        "budget": {
            "promise": budget.promise.to_dict(),
            "filter": dict(budget.filter),
            "in_words": numbers["notion"],
        },
        "opened": {"at": budget.at[:10], "who": budget.who},
        "spent": min(1.0, float(result.spent(budget)) / budget.limit) if budget.limit else 1.0,
        "parts": sum(other.whole == budget.id for other in result.budgets()),
        "explanation": {k: v for k, v in explanation.to_dict().items() if k != "sentences"}
        | {"parts": dict(explanation.parts)},
        "releases": releases,
        "unanswered": unanswered,
        "given_up": len(entries) - len(counted),
        "assumptions": [text.format(**numbers) for text in [*words["card"]["assumptions"].values(), *periods]],
        "never": [text.format(**numbers) for text in words["card"]["never"].values()],
        "questions": questions,
        "head": {"count": head.count, "hash": head.hash},
    }
    if division is not None:
        spent = result.spent_by_period(budget)
        each = {name: min(1.0, float(total) / budget.limit) if budget.limit else 1.0 for name, total in spent.items()}
        content["periods"] = {"by": division.by, "spent": each}
    return Card(content)


def superseded(version: Any, promise: Promise) -> str | None:
    """Return what a card of that version said that was not so, where it did.

    >>> from sottovoce.privacy.promises import ApproxDP, PureDP
    >>> superseded(1, PureDP(1.0)), superseded(2, ApproxDP(1.0, 1e-6))
    (None, None)
    """
    errors = _SUPERSEDED.get(version)
    return None if errors is None else errors(promise)


def in_words(promise: Promise, language: str = "en") -> str:
    """Return the definition of a promise in one sentence, rounded to the less private side.

    >>> from sottovoce.privacy.promises import ApproxDP
    >>> in_words(ApproxDP(1.0, 1e-6)).partition("it would be ")[2]
    "with another's record in the place of anyone's, plus 1 in 1,000,000."
    """
    state: Mapping[str, Any] = promise.to_dict()
    numbers, words = {}, texts(language)
    if "epsilon" in state:
        numbers["factor"] = _factor(state["epsilon"])
    if "delta" in state:
        rare = state["delta"]
        numbers["rare"] = f"1 in {math.floor(1 / rare * (1 + 1e-12)):,}" if rare > 1e-12 else _digits(rare)
    numbers |= {"order": f"{state.get('order', 0):g}", "shift": _digits(state.get("mu", 0.0))}
    numbers |= {
        "before_each": _digits(100 * state.get("baseline", 0.0), up=False),
        "after_each": _digits(100 * state.get("success", 0.0)),
    }
    numbers |= words["relation"][str(promise.relation)]
    return str(words["card"]["notions"][promise.word]).format(**numbers)


def _factor(epsilon: float) -> str:
    """Return e^ε, rounded up: no sentence says less than is so.

    >>> _factor(1.0), _factor(1e4)
    ('2.72', '10^4343')
    """
    if epsilon > 700:
        return f"10^{math.ceil(epsilon / math.log(10)):.0f}"
    factor = math.exp(epsilon)
    unit = 10.0 ** (math.floor(math.log10(factor)) - 2)
    factor = math.ceil(factor / unit - 1e-9) * unit
    return f"{factor:,.4g}" if factor < 1e4 else f"{factor:.2e}"


def _digits(value: float, *, up: bool = True) -> str:
    """Return a number in six digits, rounded up or down where it has more.

    >>> _digits(1.234561), _digits(1.0), _digits(1.234561, up=False)
    ('1.23457', '1', '1.23456')
    """
    mode = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    exact = decimal.Context(prec=12).create_decimal_from_float(float(value))  # 100 times 0.07 is 7
    return f"{float(decimal.Context(prec=6, rounding=mode).create_decimal(exact)):g}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(words)) or "None so far"


def _release(entry: Entry, budget: Budget) -> dict[str, Any]:
    """Return what a card says of an entry: when to the day, for a moment that it ended would time the answer."""
    cost = entry.cost if entry.budget == budget.id else (entry.whole_cost or 0.0)
    kind, question = asked(entry.request)
    mechanism = entry.request.get("mechanism")
    return {
        "entry": entry.id,
        "day": entry.at[:10],
        "who": entry.who,
        "question": question,
        "purpose": entry.request.get("purpose"),
        "kind": kind,
        "mechanism": str(mechanism.get("mechanism")) if isinstance(mechanism, Mapping) else str(mechanism or "unnamed"),
        "share": cost / budget.limit if budget.limit else 1.0,
        "state": str(entry.state),
        "basis": str(entry.basis),
        "value_hash": entry.value_hash,
    }


def asked(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a recorded question, and the question in words.

    >>> asked({"mechanism": {"mechanism": "diffused", "system": {"system": "beta-bernoulli"}}, "column": "smoker"})
    ('beta-bernoulli', 'beta-bernoulli of smoker')
    """
    mechanism = request.get("mechanism")
    system = mechanism.get("system") if isinstance(mechanism, Mapping) else None
    system = system if isinstance(system, Mapping) else {}
    if system.get("system") == Question.word:
        try:
            question = Question.from_dict(system)
        except SottovoceError:
            return "question", "a question that this version cannot read"
        return question.verb, question.describe()
    if system.get("system") in FORMULAS:  # in the words of `Formula.describe`: it needs an extra
        text = f"{system.get('family', 'hazard')} regression {system.get('formula')}"
        text += f" (event {system['event']})" if system.get("event") else ""
        return "regression", text + (f" where {system['where']}" if system.get("where") else "")
    kind = str(system.get("system") or (mechanism or {}).get("mechanism") or "unnamed")
    column, where, query = request.get("column"), request.get("where"), request.get("query")
    about = ", ".join(map(str, column)) if isinstance(column, list | tuple) else column
    text = f"{query} of {kind}" if query and query != "theta" else kind
    text += f" of {about}" if about else ""
    return kind, text + (f" where {where}" if where else "")


def _facts(facts: Facts | None, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return what is public of the columns: the facts given, else those that the questions named."""
    if facts is not None:
        if not isinstance(facts, Facts):
            raise InvalidValue(f"facts are Facts, or read by read_facts. Got {shown(facts)}")
        return dict(facts.to_dict())
    result: dict[str, object] = {}
    for entry in entries:
        mechanism = entry.request.get("mechanism")
        system = mechanism.get("system") if isinstance(mechanism, Mapping) else None
        if isinstance(system, Mapping) and isinstance(system.get("facts"), Mapping):
            result |= system["facts"]
    return result
