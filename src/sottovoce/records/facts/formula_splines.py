"""``bs(age, df=4)``, ``ns(age)`` and ``center(age)`` in a formula: read off its text, by the bounds of the facts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Column, Count, Number
from sottovoce.records.facts.splines import USUAL, Spline

_NAME = r"`[^`]+`|[^\W\d]\w*"
_SPLINE = re.compile(
    rf"(?:^|\+)\s*(?P<kind>bs|ns)\(\s*(?P<name>{_NAME})\s*(?:,\s*(?:df\s*=\s*)?(?P<df>\d{{1,6}})\s*)?\)\s*(?=\+|-|$)"
)
_SPOILED = re.compile(r"(?<![\w`.])(?:bs|ns)\s*\(")
_CENTRED = re.compile(rf"(?<![\w`.])center\(\s*(?P<name>{_NAME})\s*\)")
_CENTRE = re.compile(r"(?<![\w`.])center\s*\(")
_READS = "a spline stands by itself in a sum, as in y ~ bs(age, df=4) + ward; products with it are not offered"

PUBLIC_TERMS = (
    "a formula may use columns, C(a), a:b, a*b, bs(a, df=4), ns(a, df=4), center(a), derived columns such as log(a) or "
    "square(a), and (1 | a); scales and levels come from the facts"
)
TIMES = "of times to an event say 'days ~ age' and event='died'"


def splines_in(fixed: str, facts: Mapping[str, Column]) -> tuple[str, dict[str, Spline]]:
    """Return a formula's right side without its splines, and the spline of each column that has one.

    >>> splines_in("ward + bs(age, df=5)", {"age": Number(0, 110)})
    ('ward', {'age': Spline(kind='bs', df=5)})
    """
    result: dict[str, Spline] = {}
    while (match := _SPLINE.search(fixed)) is not None:
        name, kind = match["name"].strip("`"), match["kind"]
        column = facts[name]
        if not isinstance(column, Number | Count):
            raise InvalidValue(f"{kind}({name}) is a curve of a number, and {name!r} is a {column.word}")
        if name in result:
            raise InvalidValue(f"{name!r} has one spline. Got two")
        result[name] = Spline(kind, int(match["df"] or USUAL))
        fixed = f"{fixed[: match.start()]} {fixed[match.end() :]}".strip().lstrip("+").strip()
    if _SPOILED.search(re.sub(r"`[^`]*`", "column", fixed)):
        raise InvalidValue(f"{_READS}. Got {shown(fixed)}")
    return fixed, result


def centred_in(fixed: str, facts: Mapping[str, Column]) -> tuple[str, frozenset[str]]:
    """Return a formula's right side with columns for their ``center(column)``, and which these are."""
    names = {match["name"] for match in _CENTRED.finditer(fixed)}
    result = _CENTRED.sub(lambda match: match["name"], fixed)
    if _CENTRE.search(re.sub(r"`[^`]*`", "column", result)):
        raise InvalidValue(f"center takes the name of one column, as in center(age). Got {shown(fixed)}")
    for text in names:
        column = facts[text.strip("`")]
        if not isinstance(column, Number | Count):
            raise InvalidValue(f"center({text}) is of a number, and {text} is a {column.word}")
        bare = re.compile(rf"(?<![\w`.]){re.escape(text)}(?![\w`(])")
        if bare.search(_CENTRED.sub(" ", fixed)):
            raise InvalidValue(
                f"say center({text}) wherever the formula has {text}, or nowhere: the two differ by a constant"
            )
    return result, frozenset(text.strip("`") for text in names)


def centred_words(term: str, names: frozenset[str]) -> str:
    """Return what a term is called in which some columns are centred.

    >>> centred_words("age:sex", frozenset({"age"}))
    'center(age):sex'
    """
    if not names or term.startswith("("):
        return term
    return ":".join(f"center({part})" if part in names else part for part in term.split(":"))
