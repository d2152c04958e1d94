"""A question: what an analyst asks of a data set, checked against what the administrator allows."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.faces.client.errors import NotFound
from sottovoce.faces.server.answers import answering
from sottovoce.faces.server.config import DatasetConfig
from sottovoce.faces.server.orders import Asking, Order
from sottovoce.faces.server.queries import check_query, parse_query
from sottovoce.faces.server.queries.tree import Query
from sottovoce.faces.server.work_queue import apart
from sottovoce.mechanisms import Mechanism, Release, TemperedPosterior
from sottovoce.mechanisms.conjugate.conjugate import Conjugate
from sottovoce.mechanisms.conjugate.named_systems import FORMULAS, SYSTEMS, column_systems, system_from
from sottovoce.mechanisms.mechanism_choice import build_mechanism, usual_name
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.errors import InvalidPromise, InvalidValue, SottovoceError
from sottovoce.privacy.promises import Promise, PureDP, parse_promise
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.facts import Person, Vector
from sottovoce.records.facts.condition_parser import columns_of, parse_predicate
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Budget, Entry
from sottovoce.service.ledger.hash_chain import canonical

_TARGETS = {
    "epsilon": (1e-6, 1e3),
    "delta": (1e-30, 0.5),
    "rho": (1e-6, 1e3),
    "mu": (1e-6, 1e3),
    "order": (1.0, 1e4),
    "advantage": (1e-6, 1 - 1e-6),
    "success": (1e-9, 1 - 1e-6),
    "baseline": (1e-9, 1 - 1e-6),
}
_MOST_CELLS = 100_000
"""The most numbers that one answer may be made of."""


@dataclass(frozen=True)
class ServerQuestion(Asking):
    """What is asked, in plain values.

    Attributes
    ----------
    system
        The system's ``kind`` and what it takes: the numbers of a prior, or the columns of tables. Bounds and
        categories are the administrator's.
    target
        The promise that this one answer must keep.
    mechanism
        By its short name, such as diffused or gaussian; where None, a whole posterior if the system has one.
    column, where, missing
        What to read, as in `Curator.release`.
    query
        What to answer of the drawn parameter; see `sottovoce.faces.server.queries`.
    draws
        How many answers at once; each costs as much as the first.
    purpose
        What the answer is for, in a sentence; recorded with it, and on the data set's privacy card.
    """

    system: Mapping[str, Any]
    target: str
    mechanism: str | None = None
    column: str | None = None
    where: str | None = None
    missing: str | float | bool | None = None
    query: str = "theta"
    draws: int = 1
    purpose: str | None = None

    def order(self, config: DatasetConfig, curator: Curator, part: Budget, most_draws: int) -> Order:
        """Return the order, or raise what is wrong with the question. Reads no record."""
        built = build(self, config, curator.n, most_draws, part.promise)
        return Order(
            built.mechanism,
            built.columns,
            where=self.where,
            missing=self.missing,
            draws=self.draws,
            purpose=self.purpose,
            about={"query": self.query, "target": str(target_of(self.target))},
            then=None if built.query is None else answering(built.query, self.query, built.mechanism.system),
        )

    def told(self, release: Release, entry: Entry, part: Budget) -> dict[str, Any]:
        """Return nothing more: the release holds what was asked for."""
        del release, entry, part
        return {}


@dataclass(frozen=True)
class Model:
    """A question's system, and the columns it reads."""

    system: Any
    columns: str | list[str] | None


@dataclass(frozen=True)
class Prepared:
    """A question that makes sense: calibrated, its query parsed. No record was read for it."""

    mechanism: Mechanism
    columns: str | list[str] | None
    query: Query | None


def build(
    question: ServerQuestion, dataset: DatasetConfig, n: int | None, most_draws: int, budget: Promise
) -> Prepared:
    """Return the mechanism and the query of a question, or raise what is wrong with it."""
    model = model_of(question.system, question.column, question.where, dataset)
    name = mechanism_name(question, model.system, dataset, budget)
    if isinstance(question.draws, bool) or not 1 <= question.draws <= most_draws:
        raise InvalidValue(f"draws must be a whole number from 1 to {most_draws}. Got {question.draws!r}")
    query = _query(question.query, model.system)
    mechanism = calibrated(name, model.system, n, target_of(question.target))
    if question.draws != 1 and not isinstance(mechanism, PosteriorSample | TemperedPosterior):
        raise InvalidValue(f"{name} releases a whole posterior at once; leave draws out")
    return Prepared(mechanism, model.columns, query)


def mechanism_name(question: ServerQuestion, system: object, dataset: DatasetConfig, budget: Promise) -> str:
    """Return the mechanism that a question is to be answered by: the one it names, or the usual one.

    That is a whole posterior that knows of its noise, of the kind that the budget counts best, where the system has
    one; who wants several draws names another.
    """
    allowed = dataset.names_for(system)
    if question.mechanism is None and allowed:
        pure = any(isinstance(promise, PureDP) for promise in (budget, target_of(question.target)))
        full = ("laplace", "gaussian") if pure else ("gaussian", "laplace")
        usual = (*(full if question.draws == 1 else ()), usual_name(system))
        return next((name for name in usual if name in allowed), allowed[0])
    if question.mechanism not in allowed:
        raise InvalidValue(f"mechanism must be one of {', '.join(allowed) or 'none'}. Got {question.mechanism!r}")
    return question.mechanism


def _query(text: str, system: Any) -> Query | None:
    """Return a query about a new record; None for a system that has none, whose posterior is the answer."""
    if isinstance(system, Conjugate):
        query = parse_query(text)
        check_query(query, system)
        return query
    if text != "theta":
        raise InvalidValue(f"{system.word} is answered by its whole posterior; leave query out")
    return None


def model_of(settings: Mapping[str, object], column: str | None, where: str | None, dataset: DatasetConfig) -> Model:
    """Return the system of a question with the administrator's facts filled in, and the columns it reads."""
    if column is not None and column not in dataset.columns:
        raise NotFound(f"{dataset.name} has no column {column!r}; it has {', '.join(dataset.columns)}")
    if where is not None:
        check_condition(where, dataset)
    kind, result = settings.get("kind"), None if column is None else dataset.columns[column]
    if column is None and isinstance(kind, str) and kind in SYSTEMS and kind not in column_systems():
        return _several(kind, settings, dataset)
    allowed = result.systems if result is not None else _of_conditions()
    if kind not in allowed or not isinstance(kind, str):
        about = "a condition alone" if result is None else column
        raise InvalidValue(f"the system for {about} must be one of {', '.join(allowed) or 'none'}. Got {kind!r}")
    system = SYSTEMS[kind].from_facts(settings, dataset.facts, column)
    several = result is not None and isinstance(result.fact, Vector)
    return Model(system, list(result.fact.columns(result.name)) if result is not None and several else column)


def _of_conditions() -> tuple[str, ...]:
    return tuple(word for word, kind in column_systems().items() if kind.usual(None) is not None)


def _several(kind: str, settings: Mapping[str, object], dataset: DatasetConfig) -> Model:
    """Return a system that names its columns itself; only columns that are open may be among them."""
    make = getattr(SYSTEMS[kind], "from_facts", None)
    if kind in FORMULAS:
        raise InvalidValue("a formula is asked by its verb, regress, and planned as one; see the routes of answers")
    if make is None:
        raise InvalidValue(f"{kind} cannot be asked for here: it takes nothing from the facts")
    system = make(settings, dataset.facts)
    columns = list(system.columns)
    for name in columns:
        if name not in dataset.columns or isinstance(dataset.columns[name].fact, Person):
            raise NotFound(f"{dataset.name} has no column {name!r}; it has {', '.join(dataset.columns)}")
    readings = (system.reading, getattr(system, "moments", system.reading))
    if (cells := max(reading.size for reading in readings)) > _MOST_CELLS:
        raise InvalidValue(f"an answer is made of at most {_MOST_CELLS} numbers. Got {cells}")
    return Model(system, columns)


def target_of(text: str) -> Promise:
    """Return the promise that an answer must keep; its numbers within what can be calibrated in good time.

    >>> target_of("approx:0.5,1e-6")
    ApproxDP(epsilon=0.5, delta=1e-06)
    """
    promise = parse_promise(text)
    for name in promise.numbers():
        low, high = _TARGETS[name]
        value = getattr(promise, name)
        if not low <= value <= high and (name, value) != ("delta", 0.0):
            raise InvalidPromise(f"{name} of the target must lie between {low:g} and {high:g}. Got {value:g}")
    return promise


def check_condition(where: str, dataset: DatasetConfig) -> None:
    """Refuse a condition where none is answered, or one on a column that is not open."""
    if not dataset.conditions:
        raise InvalidValue(f"{dataset.name} answers no conditions; leave where out")
    facts = dataset.facts
    open_ = {part for name in facts if name != facts.person for part in facts[name].columns(name)}
    for name in columns_of(parse_predicate(where)):
        if name not in open_ and (facts.derivation(name) is None or name not in facts):
            raise NotFound(f"{dataset.name} has no column {name!r}; it has {', '.join(sorted(open_))}")


def calibrated(name: str, system: Any, n: int | None, target: Promise) -> Mechanism:
    """Return the mechanism for a promise; the same question finds it ready.

    A promise that names no relation is about the neighbours that a data set of this n has.
    """
    if n is None and target.relation.kind == REPLACE_ONE.kind:
        target = target.under(ADD_REMOVE)
    target = target.under(replace(target.relation, unit=REPLACE_ONE.unit))  # it is shown one record a person
    return _calibrated(name, canonical(system.to_dict()), n, target)


@functools.lru_cache(maxsize=1024)
def _calibrated(name: str, system: str, n: int | None, target: Promise) -> Mechanism:
    built: Mechanism = apart(_calibrate, name, system, n, target)
    return built


def _calibrate(name: str, system: str, n: int | None, target: Promise) -> Mechanism:
    state = json.loads(system)
    try:
        return build_mechanism(name, system_from(state), n, target)
    except SottovoceError:
        raise
    except (ArithmeticError, ValueError, RuntimeError):
        raise InvalidValue(
            f"{name} cannot be calibrated for {state['system']} and {target}: beyond what can be computed"
        ) from None
