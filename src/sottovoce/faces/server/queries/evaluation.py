"""From a query and drawn parameters to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.faces.server.queries.tree import (
    Arithmetic,
    Draw,
    Expectation,
    Function,
    Negative,
    NumberNode,
    Parameter,
    Probability,
    Quantile,
    Query,
)
from sottovoce.mechanisms.conjugate.conjugate import Conjugate
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

_FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_SIGNS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def evaluate(query: Query, system: Conjugate, theta: Floats, rng: np.random.Generator) -> Any:
    """Return q(θ) for each row of `theta`; what is not a finite number is NaN or infinite, never an error.

    Parameters
    ----------
    theta
        Drawn parameters, one a row: shape (m,), or (m, d) where the parameter is a vector.
    rng
        For ``draw(x)`` alone.

    Examples
    --------
    >>> from sottovoce.faces.server.queries import parse_query
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> query = parse_query("theta / (1 - theta)")
    >>> evaluate(query, BetaBernoulli(1, 1), np.array([0.5, 0.75]), seeded_rng(0))
    array([1., 3.])
    """
    with np.errstate(all="ignore"):
        return _evaluate(query, system, theta, rng)


def check_query(query: Query, system: Conjugate) -> None:
    """Raise what `evaluate` would raise for any parameter of this system: no data is needed to tell."""
    evaluate(query, system, _some_parameter(system), seeded_rng(0))


def dimension(system: Conjugate) -> int | None:
    """Return how many coordinates the parameter has; None where it is one number."""
    return None if system.coordinates is None else len(system.coordinates)


def _some_parameter(system: Conjugate) -> Floats:
    size = dimension(system)
    return np.array([0.5]) if size is None else np.full((1, size), 1 / size)


def _evaluate(query: Query, system: Conjugate, theta: Floats, rng: np.random.Generator) -> Any:
    record, value = system.new_record(), None
    match query:
        case NumberNode(number):
            value = np.full(len(theta), number)
        case Parameter(None):
            value = theta
        case Parameter(label):
            value = theta[:, _coordinate(label, system)]
        case Expectation(given):
            value = record.mean(theta) if given is None else record.mean_given(theta, given)
        case Probability(event):
            value = record.probability(theta, event)
        case Quantile(level):
            value = record.quantile(theta, level)
        case Draw():
            value = record.draw(theta, rng)
        case Function(name, argument):
            value = _FUNCTIONS[name](_numbers(_evaluate(argument, system, theta, rng)))
        case Negative(argument):
            value = -_numbers(_evaluate(argument, system, theta, rng))
        case Arithmetic(sign, left, right):
            sides = (_numbers(_evaluate(side, system, theta, rng)) for side in (left, right))
            value = _SIGNS[sign](*_side_by_side(*sides))
    return value


def _coordinate(label: str | int | None, system: Conjugate) -> int:
    names = system.coordinates
    if names is None:
        raise InvalidValue(f"theta is one number here and has no coordinate {label!r}")
    if label in names:
        return names.index(label)
    if isinstance(label, str):
        raise InvalidValue(f"theta has no category {label!r}; it has {', '.join(map(repr, names))}")
    if not isinstance(label, int) or not 0 <= label < len(names):
        raise InvalidValue(f"theta has the coordinates 0 to {len(names) - 1}. Got {label!r}")
    return label


def _numbers(value: Any) -> Any:
    if value.dtype == object:
        raise InvalidValue("a drawn category is no number; ask for draw(x) alone")
    return value


def _side_by_side(left: Any, right: Any) -> tuple[Any, Any]:
    """Let one number meet a vector, row by row."""
    if left.ndim < right.ndim:
        return left[:, None], right
    return (left, right[:, None]) if right.ndim < left.ndim else (left, right)
