"""A question: what an analyst asks of a data set, checked against what the administrator allows."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.facts.conditions import columns_of, parse_predicate
from sottovoce.ledger.chain import canonical
from sottovoce.mechanisms import Mechanism, NoisyStatistics
from sottovoce.mechanisms.choices import build_mechanism
from sottovoce.privacy.errors import InvalidPromise, InvalidValue, SottovoceError
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.server.config import ColumnConfig, DatasetConfig
from sottovoce.server.errors import NotFound
from sottovoce.server.queries import check_query, parse_query
from sottovoce.server.queries.tree import Query
from sottovoce.systems import System
from sottovoce.systems.naming import system_from

__all__ = ["Model", "Prepared", "Question", "build", "calibrated", "model_of", "target_of"]

LEAST, MOST = 1e-3, 1e6
"""Between these lie the numbers of a prior: beyond them lies no model, only overflow."""

_TARGETS = {
    "epsilon": (1e-6, 1e3),
    "delta": (1e-30, 0.5),
    "rho": (1e-6, 1e3),
    "mu": (1e-6, 1e3),
    "order": (1.0, 1e4),
}
_SETTINGS = {
    "beta-bernoulli": ("alpha", "beta"),
    "dirichlet-categorical": ("alpha",),
    "gamma-poisson": ("shape", "rate"),
    "gamma-exponential": ("shape", "rate"),
    "normal-mean": ("variance", "prior_variance", "prior_mean"),
}


@dataclass(frozen=True)
class Question:
    """What is asked, in plain values.

    Attributes
    ----------
    system
        The system's ``kind`` and the numbers of its prior; bounds and categories are the administrator's.
    target
        The promise that this one answer must keep.
    mechanism
        By name: direct, diffused, concentrated, tempered, laplace or gaussian.
    column, where, missing
        What to read, as in `Curator.release`.
    query
        What to answer of the drawn parameter; see `sottovoce.server.queries`.
    draws
        How many answers at once; each costs as much as the first.
    """

    system: Mapping[str, Any]
    target: str
    mechanism: str = "diffused"
    column: str | None = None
    where: str | None = None
    missing: str | float | bool | None = None
    query: str = "theta"
    draws: int = 1


@dataclass(frozen=True)
class Model:
    """A question's system, and the columns it reads."""

    system: System
    columns: str | list[str] | None


@dataclass(frozen=True)
class Prepared:
    """A question that makes sense: calibrated, its query parsed. No record was read for it."""

    mechanism: Mechanism
    columns: str | list[str] | None
    query: Query


def build(question: Question, dataset: DatasetConfig, n: int, most_draws: int) -> Prepared:
    """Return the mechanism and the query of a question, or raise what is wrong with it."""
    model = model_of(question.system, question.column, question.where, dataset)
    if question.mechanism not in dataset.mechanisms:
        raise InvalidValue(f"mechanism must be one of {', '.join(dataset.mechanisms)}. Got {question.mechanism!r}")
    if isinstance(question.draws, bool) or not 1 <= question.draws <= most_draws:
        raise InvalidValue(f"draws must be a whole number from 1 to {most_draws}. Got {question.draws!r}")
    query = parse_query(question.query)
    check_query(query, model.system)
    mechanism = calibrated(question.mechanism, model.system, n, target_of(question.target))
    if isinstance(mechanism, NoisyStatistics) and question.draws != 1:
        raise InvalidValue("noisy statistics release a whole posterior at once; leave draws out")
    return Prepared(mechanism, model.columns, query)


def model_of(settings: Mapping[str, Any], column: str | None, where: str | None, dataset: DatasetConfig) -> Model:
    """Return the system of a question with the administrator's bounds and categories filled in."""
    found = None
    if column is not None:
        if column not in dataset.columns:
            raise NotFound(f"{dataset.name} has no column {column!r}; it has {', '.join(dataset.columns)}")
        found = dataset.columns[column]
    if where is not None:
        _check_condition(where, dataset)
    kind = settings.get("kind")
    allowed = ("beta-bernoulli",) if found is None else found.systems
    if kind not in allowed or not isinstance(kind, str):
        about = "a condition alone" if found is None else column
        raise InvalidValue(f"the system for {about} must be one of {', '.join(allowed)}. Got {kind!r}")
    numbers = {name: value for name, value in settings.items() if name != "kind" and value is not None}
    wanted = _SETTINGS[kind]
    if unknown := set(numbers) - set(wanted):
        raise InvalidValue(f"{kind} takes {', '.join(wanted)}. Got {', '.join(sorted(unknown))}")
    for name, value in numbers.items():
        _check_number(name, value, kind)
    system = system_from({"kind": kind} | numbers | _public_facts(kind, found))
    return Model(system, list(found.of) if found is not None and found.of else column)


def _public_facts(kind: str, column: ColumnConfig | None) -> dict[str, Any]:
    if column is None or kind == "beta-bernoulli":
        return {}
    if kind == "dirichlet-categorical":
        return {"categories": column.categories}
    if column.of:
        return {"radius": column.radius, "dimension": len(column.of)}
    if kind == "normal-mean":
        return {"bounds": column.bounds}
    high = 0.0 if column.bounds is None else column.bounds[1]
    return {"high": int(high) if kind == "gamma-poisson" else high}


def target_of(text: str) -> Promise:
    """Return the promise that an answer must keep; its numbers within what can be calibrated in good time.

    >>> target_of("approx:0.5,1e-6")
    ApproxDP(epsilon=0.5, delta=1e-06)
    """
    promise = parse_promise(text)
    for field in dataclasses.fields(promise):
        low, high = _TARGETS[field.name]
        value = getattr(promise, field.name)
        if not low <= value <= high and (field.name, value) != ("delta", 0.0):
            raise InvalidPromise(f"{field.name} of the target must lie between {low:g} and {high:g}. Got {value:g}")
    return promise


def _check_number(name: str, value: Any, kind: str) -> None:
    several = name == "prior_mean" or (name == "alpha" and kind == "dirichlet-categorical")
    numbers = value if several and isinstance(value, list) and 1 <= len(value) <= 64 else [value]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise InvalidValue(f"{name} must be a number. Got {number!r}")
        if name == "prior_mean" and abs(number) > MOST:
            raise InvalidValue(f"{name} must lie between {-MOST:g} and {MOST:g}. Got {number!r}")
        if name != "prior_mean" and not LEAST <= number <= MOST:
            raise InvalidValue(f"{name} must lie between {LEAST:g} and {MOST:g}. Got {number!r}")


def _check_condition(where: str, dataset: DatasetConfig) -> None:
    if not dataset.conditions:
        raise InvalidValue(f"{dataset.name} answers no conditions; leave where out")
    open_ = {name for name, column in dataset.columns.items() if not column.of}
    open_ |= {name for column in dataset.columns.values() for name in column.of}
    for name in columns_of(parse_predicate(where)):
        if name not in open_:
            raise NotFound(f"{dataset.name} has no column {name!r}; it has {', '.join(sorted(open_))}")


def calibrated(name: str, system: System, n: int, target: Promise) -> Mechanism:
    """Return the mechanism for a promise; the same question finds it ready."""
    return _calibrated(name, canonical(system.to_dict()), n, target)


@functools.lru_cache(maxsize=1024)
def _calibrated(name: str, system: str, n: int, target: Promise) -> Mechanism:
    state = json.loads(system)
    word = state.pop("system")
    try:
        return build_mechanism(name, system_from({"kind": word} | state), n, target)
    except SottovoceError:
        raise
    except (ArithmeticError, ValueError, RuntimeError):
        raise InvalidValue(
            f"{name} cannot be calibrated for {word} and {target}: beyond what can be computed"
        ) from None
