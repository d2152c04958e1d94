"""The tree of a query: the values that text becomes, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.records.facts.condition_tree import Condition


@dataclass(frozen=True)
class NumberNode:
    """A number written in the query."""

    value: float


@dataclass(frozen=True)
class Parameter:
    """``theta``: what was drawn; ``theta['N']`` or ``theta[2]``, one coordinate of it (counted from 0)."""

    label: str | int | None = None


@dataclass(frozen=True)
class Expectation:
    """``mean(x)``: what a new record is on average; ``mean(x | x > 3)``, given that an event holds."""

    given: Condition | None = None


@dataclass(frozen=True)
class Probability:
    """``probability(x > 3)``: how likely an event is for a new record."""

    event: Condition


@dataclass(frozen=True)
class Quantile:
    """``quantile(x, 0.9)``: what a new record stays below with this probability."""

    level: float


@dataclass(frozen=True)
class Draw:
    """``draw(x)``: a new record drawn at random."""


@dataclass(frozen=True)
class Function:
    """``log``, ``exp`` or ``sqrt`` of a query."""

    name: str
    argument: Query


@dataclass(frozen=True)
class Negative:
    """The opposite of a query's number."""

    argument: Query


@dataclass(frozen=True)
class Arithmetic:
    """``left sign right`` with sign one of + - * /."""

    sign: str
    left: Query
    right: Query


Query = NumberNode | Parameter | Expectation | Probability | Quantile | Draw | Function | Negative | Arithmetic
