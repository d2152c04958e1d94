"""A small language for conditions on a record: ``age between 40 and 60 and smoker and region in ('N', 'S')``.

Text becomes a tree of `condition` and nothing else: no arithmetic, no SQL, and no functions but those of derived
columns, ``month(admitted) = 3``. Days are written as texts: ``admitted >= '2024-01-31'``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Category, Day, Flag
from sottovoce.records.facts.columns import Column as Fact
from sottovoce.records.facts.condition_tree import (
    MIRRORED,
    SIGNS,
    And,
    ColumnTerm,
    Compare,
    Condition,
    IsMissing,
    Literal,
    Not,
    OneOf,
    Or,
    Value,
)
from sottovoce.records.facts.derived_parser import call_at, parse_derived
from sottovoce.records.facts.tokenizer import TokenReader, checked_text

__all__ = ["check_columns", "check_levels", "columns_of", "parse_predicate"]

LONGEST, DEEPEST = 10_000, 50

KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "none", "true", "false"})

TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<quoted>`[^`]+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),\[\]])
    )""",
    re.VERBOSE,
)


def parse_predicate(text: str) -> Condition:
    """Return the tree of a condition, or raise `InvalidValue` that says where it stops making sense.

    Examples
    --------
    >>> parse_predicate("not age > 40")
    Not(part=Compare(sign='>', left=ColumnTerm(name='age'), right=Literal(value=40)))
    >>> parse_predicate("region in ('N', 'S')").values
    (Literal(value='N'), Literal(value='S'))
    >>> parse_predicate("age between 40 and 60") == parse_predicate("age >= 40 and age <= 60")
    True
    """
    if not isinstance(text, str) or not text.strip():
        got = "nothing" if str(text).strip() in ("", "None") else shown(text)
        raise InvalidValue(f"a condition is a text such as \"age > 40 and region = 'N'\". Got {got}")
    if len(text) > LONGEST:
        raise InvalidValue(f"a condition may have {LONGEST} characters. Got {len(text)}")
    parser = _Parser(text)
    tree = parser.either()
    if parser.kind != "end":
        parser.fail("expected 'and', 'or' or the end, and names of several words in backticks,")
    return tree


_BARE_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?!\d)")


class _Parser(TokenReader):
    """Each method reads one rule of the grammar."""

    language, pattern, keywords = "condition", TOKEN, KEYWORDS

    def fail(self, expected: str) -> NoReturn:
        day = _BARE_DAY.match(self.text, max(self.start - 4, 0))  # read as a number, less two others
        super().fail(expected if day is None else f"a day stands in quotes, '{day[0]}'; {expected}")

    def either(self) -> Condition:
        parts = [self.both()]
        while self.accept("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def both(self) -> Condition:
        parts = [self.single()]
        while self.accept("and"):
            parts.append(self.single())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def single(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST:
            raise InvalidValue(f"a condition may be nested {DEEPEST} deep")
        tree: Condition
        if self.accept("not"):
            tree = Not(self.single())
        elif self.accept("("):
            tree = self.either()
            self.expect(")")
        else:
            tree = self.comparison()
        self.depth -= 1
        return tree

    def comparison(self) -> Condition:
        left = self.operand()
        sign = {"==": "=", "<>": "!="}.get(self.token, self.token)
        if sign in SIGNS:
            self.advance()
            right = self.operand()
            if isinstance(left, ColumnTerm):
                return Compare(sign, left, right)
            if isinstance(right, ColumnTerm):
                return Compare(MIRRORED[sign], right, left)
            self.fail("a comparison needs a column, in backticks where its name has several words,")
        if isinstance(left, Literal):
            self.fail("a value alone is no condition; expected a comparison")
        if self.accept("is"):
            negated = self.accept("not")
            if not self.accept("null", "none"):
                self.fail("expected 'null'")
            return IsMissing(left, negated)
        negated = self.accept("not")
        if self.accept("in"):
            return OneOf(left, self.values(), negated)
        if self.accept("between"):
            return self.within(left, negated)
        if negated:
            self.fail("expected 'in' or 'between'")
        return left

    def within(self, column: ColumnTerm, negated: bool) -> Condition:
        """Read ``low and high``, both included; a missing value lies neither between them nor outside."""
        low = self.operand()
        self.expect("and")
        high = self.operand()
        match low, high:
            case (Literal(str(first)), Literal(str(last))) if first > last:
                raise InvalidValue(f"between takes the earlier day first. Got {first!r} and {last!r}")
            case (Literal(float(first) | int(first)), Literal(float(last) | int(last))) if first > last:
                raise InvalidValue(f"between takes the smaller number first. Got {first!r} and {last!r}")
        if negated:
            return Or((Compare("<", column, low), Compare(">", column, high)))
        return And((Compare(">=", column, low), Compare("<=", column, high)))

    def values(self) -> tuple[Literal, ...]:
        closing = {"(": ")", "[": "]"}.get(self.token)
        if closing is None or not self.accept("(", "["):
            self.fail("expected a list such as ('a', 'b')")
        result = []
        while True:
            value = self.operand()
            if not isinstance(value, Literal):
                self.fail("a list holds values, not columns; expected a value before this")
            result.append(value)
            if self.accept(closing):
                return tuple(result)
            if not self.accept(","):
                self.fail(f"expected ',' or {closing!r}")

    def operand(self) -> ColumnTerm | Literal:
        kind, token = self.kind, self.token
        place = self.position - len(token)
        if kind == "word" and (end := call_at(self.text, place)) is not None:
            parse_derived(name := self.text[place:end])  # which says what is wrong with it
            self.position = end
            self.advance()
            return ColumnTerm(name)
        if kind not in ("text", "quoted", "word", "number") and token not in ("true", "false"):
            self.fail("expected a column or a value")
        self.advance()
        match kind:
            case "word":
                return ColumnTerm(token)
            case "quoted":
                return ColumnTerm(token[1:-1])
            case "text":
                return Literal(checked_text(token[1:-1].replace(token[0] * 2, token[0])))
            case "number":
                return Literal(_number(token))
            case _:
                return Literal(token == "true")


def _number(token: str) -> int | float:
    if re.fullmatch(r"[-+]?\d+", token):
        full = int(token) if len(token) <= 400 else 2**64  # Python reads no more than some thousand digits
        if not -(2**63) <= full < 2**64:  # with a sign, or without one
            raise InvalidValue(f"whole numbers in a condition have 64 bits. Got {token}")
        return full
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise InvalidValue(f"numbers in a condition are finite. Got {token}")
    return value


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition names, again where it names one twice."""
    return (side.name for leaf in condition.leaves() for side in leaf.sides if isinstance(side, ColumnTerm))


def check_columns(where: str | None, facts: Mapping[str, Fact]) -> list[str]:
    """Return the columns that a condition names; refuse one that the facts do not have, most likely a text unquoted.

    >>> check_columns("ward = A", {"ward": Category(["A", "B"])})
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: there is no column 'A' to compare 'ward' with; quote a text: ward = 'A'
    """
    if where is None:
        return []
    tree = parse_predicate(where)
    for leaf in tree.leaves():
        match leaf:
            case Compare(sign, ColumnTerm(column), ColumnTerm(other)) if column in facts and other not in facts:
                flag = isinstance(facts[column], Flag)
                hint = f"of a flag write {column} = true" if flag else f"quote a text: {column} {sign} '{other}'"
                raise InvalidValue(f"there is no column {other!r} to compare {column!r} with; {hint}")
    return list(columns_of(tree))


def check_levels(where: str | None, facts: Mapping[str, Fact]) -> None:
    """Refuse a condition on a value or on days that its column does not have by the facts: most likely a slip.

    >>> check_levels("ward in ('A', 'Z')", {"ward": Category(["A", "B"])})
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: the facts list no value 'Z' of 'ward'; they list 'A', 'B'
    """
    if where is None:
        return
    tree = parse_predicate(where)
    for leaf in tree.leaves():
        match leaf:
            case Compare(sign, ColumnTerm(name), Literal(str(text))) if isinstance(fact := facts.get(name), Day):
                _check_day(name, sign, text, fact)
    for name, value in _levels_of(tree):
        fact = facts[name]
        if isinstance(fact, Category) and not {value, str(value)} & {*fact.categories, *map(str, fact.categories)}:
            listed = ", ".join(repr(known) for known in fact.categories[:10])
            more = ", …" if len(fact.categories) > 10 else ""
            raise InvalidValue(f"the facts list no value {value!r} of {name!r}; they list {listed}{more}")


def _check_day(name: str, sign: str, text: str, fact: Day) -> None:
    """Refuse a comparison that holds of no day of a column; of what is no day, the table's own type says so."""
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return
    nearest = min(max(day, fact.first), fact.last)
    if not any(SIGNS[sign](item, day) for item in (fact.first, nearest, fact.last)):
        raise InvalidValue(f"the facts say that {name!r} is from {fact.first} to {fact.last}. Got {sign} '{text}'")


def _levels_of(condition: Condition) -> Iterator[tuple[str, Value]]:
    """Yield each column with each value that it is said to be, or not to be."""
    for leaf in condition.leaves():
        names = [side.name for side in leaf.sides if isinstance(side, ColumnTerm)]
        if leaf.equates:
            yield from ((names[0], side.value) for side in leaf.sides if isinstance(side, Literal))
