"""Size of a formula: how many products it is expanded to and how many columns it has, counted before either is made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sottovoce.privacy.errors import InvalidValue

_MOST_PRODUCTS = 20_000
"""Products of terms that a formula may be expanded to, equal ones counted each time.

Ten columns up to the fourth power, which give 385 terms, are 10,000; expanding 20,000 takes about 0.1 s.
"""
_LONGEST_EXPONENT = 2
"""Digits of an exponent: a power beyond the number of columns adds no term."""


def check_expansion(tree: object) -> None:
    """Refuse a formula whose operators would make too many products; `tree` is formulaic's syntax tree of it."""
    products: dict[int, int] = {}
    pending = [(tree, False)]
    while pending:  # a stack of its own: a formula may be nested deeper than Python calls
        node, ready = pending.pop()
        children = [child for child in getattr(node, "args", ()) if hasattr(child, "operator")]
        if not ready and children:
            pending += [(node, True), *((child, False) for child in children)]
            continue
        sizes = [products.get(id(child), 1) for child in getattr(node, "args", ())]
        products[id(node)] = size = _products(node, sizes)
        if size > _MOST_PRODUCTS:
            raise InvalidValue(
                f"the formula's powers and products would be expanded to more than {_MOST_PRODUCTS:,} terms; "
                "name the interactions that matter, such as age:ward"
            )


def _products(node: Any, sizes: Sequence[int]) -> int:
    """Return at most how many products a node of the tree is expanded to, from those of its arguments."""
    symbol = getattr(getattr(node, "operator", None), "symbol", None)
    if symbol in ("**", "^"):
        return int(sizes[0] ** min(_exponent(node.args[1]), _MOST_PRODUCTS.bit_length()))
    if symbol == "*":
        return math.prod(1 + size for size in sizes) - 1
    if symbol == ":":
        return math.prod(sizes)
    return sum(sizes) if sizes else 1


def _exponent(token: object) -> int:
    """Return the whole number that a power is raised to."""
    text = str(getattr(token, "token", ""))
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_EXPONENT and int(text) >= 1):
        raise InvalidValue("an exponent in a formula is a small whole number, such as (age + ward)**2")
    return int(text)


def check_columns_of_terms(terms: Iterable[Sequence[str]], levels: Mapping[str, int | None], most: int) -> None:
    """Refuse terms whose model matrix would have more than `most` columns.

    A term spans, beside its numbers, every product of some of its factors' levels but the first that no term before it
    spans (the coding of full rank of Chambers and Hastie, Statistical Models in S, 1992, §2.4).

    Parameters
    ----------
    terms
        The factors of each term, by expression; none of the intercept.
    levels
        Of each factor's expression its number of levels; None of a number.
    most
        The columns allowed.

    Examples
    --------
    >>> check_columns_of_terms([[], ["a"], ["b"], ["a", "b"]], {"a": 20, "b": 20}, 400)
    """
    spanned: set[tuple[frozenset[str], frozenset[str]]] = set()
    columns = 0
    for factors in terms:
        coded = [factor for factor in factors if levels[factor] is not None]
        numbers = frozenset(factors).difference(coded)
        for size in range(len(coded) + 1):
            for part in itertools.combinations(coded, size):
                if (span := (numbers, frozenset(part))) not in spanned:
                    spanned.add(span)
                    columns += math.prod(max((levels[factor] or 1) - 1, 1) for factor in part)
                if columns > most:
                    raise InvalidValue(f"a formula has at most {most} terms, and this one has more")
