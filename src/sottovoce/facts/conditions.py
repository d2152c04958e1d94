"""A small language for conditions on a record: ``age between 40 and 60 and smoker and region in ('N', 'S')``.

Text becomes a tree of the values below and nothing else: no function calls, no arithmetic, no SQL. Days are written as
texts: ``admitted >= '2024-01-31'``.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from sottovoce.facts.columns import Category
from sottovoce.facts.columns import Column as Fact
from sottovoce.facts.tokens import TokenReader
from sottovoce.privacy.errors import InvalidValue

__all__ = [
    "And",
    "Column",
    "Compare",
    "Condition",
    "IsMissing",
    "Literal",
    "Not",
    "OneOf",
    "Or",
    "check_columns",
    "check_levels",
    "checked_text",
    "columns_of",
    "parse_predicate",
]

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


@dataclass(frozen=True)
class Column:
    """A column by name; on its own, a condition where the column holds truth values."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A number, a text or a truth value written in the condition."""

    value: int | float | str | bool


@dataclass(frozen=True)
class Compare:
    """``left sign right`` with sign one of = != < <= > >=."""

    sign: str
    left: Column | Literal
    right: Column | Literal


@dataclass(frozen=True)
class OneOf:
    """``column in (…)``, or ``not in``."""

    column: Column
    values: tuple[Literal, ...]
    negated: bool


@dataclass(frozen=True)
class IsMissing:
    """``column is null``, or ``is not null``."""

    column: Column
    negated: bool


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    part: Condition


@dataclass(frozen=True)
class And:
    """All parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """Some part holds."""

    parts: tuple[Condition, ...]


Condition = Column | Compare | OneOf | IsMissing | Not | And | Or


def parse_predicate(text: str) -> Condition:
    """Return the tree of a condition, or raise `InvalidValue` that says where it stops making sense.

    Examples
    --------
    >>> parse_predicate("not age > 40")
    Not(part=Compare(sign='>', left=Column(name='age'), right=Literal(value=40)))
    >>> parse_predicate("region in ('N', 'S')").values
    (Literal(value='N'), Literal(value='S'))
    >>> parse_predicate("age between 40 and 60") == parse_predicate("age >= 40 and age <= 60")
    True
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidValue("a condition is a text such as \"age > 40 and region = 'N'\". Got nothing")
    if len(text) > LONGEST:
        raise InvalidValue(f"a condition may have {LONGEST} characters. Got {len(text)}")
    parser = _Parser(text)
    tree = parser.either()
    if parser.kind != "end":
        parser.fail("expected 'and', 'or' or the end")
    return tree


class _Parser(TokenReader):
    """Each method reads one rule of the grammar."""

    language, pattern, keywords = "condition", TOKEN, KEYWORDS

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
        if self.kind == "sign" and self.token in ("=", "==", "!=", "<>", "<", "<=", ">", ">="):
            sign = {"==": "=", "<>": "!="}.get(self.token, self.token)
            self.advance()
            right = self.operand()
            if isinstance(left, Literal) and isinstance(right, Literal):
                self.fail("a comparison needs a column")
            return Compare(sign, left, right)
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

    def within(self, column: Column, negated: bool) -> Condition:
        """Read ``low and high``, both included; a missing value lies neither between them nor outside."""
        low = self.operand()
        self.expect("and")
        high = self.operand()
        if negated:
            return Or((Compare("<", column, low), Compare(">", column, high)))
        return And((Compare(">=", column, low), Compare("<=", column, high)))

    def values(self) -> tuple[Literal, ...]:
        closing = {"(": ")", "[": "]"}.get(self.token)
        if closing is None or not self.accept("(", "["):
            self.fail("expected a list such as ('a', 'b')")
        found = []
        while True:
            value = self.operand()
            if not isinstance(value, Literal):
                self.fail("a list holds values, not columns; expected a value before this")
            found.append(value)
            if self.accept(closing):
                return tuple(found)
            if not self.accept(","):
                self.fail(f"expected ',' or {closing!r}")

    def operand(self) -> Column | Literal:
        kind, token = self.kind, self.token
        if kind not in ("text", "quoted", "word", "number") and token not in ("true", "false"):
            self.fail("expected a column or a value")
        self.advance()
        match kind:
            case "word":
                return Column(token)
            case "quoted":
                return Column(token[1:-1])
            case "text":
                return Literal(checked_text(token[1:-1].replace(token[0] * 2, token[0])))
            case "number":
                return Literal(_number(token))
            case _:
                return Literal(token == "true")


def _number(token: str) -> int | float:
    if re.fullmatch(r"[-+]?\d+", token):
        whole = int(token) if len(token) <= 400 else 2**63  # Python reads no more than some thousand digits
        if not -(2**63) <= whole < 2**63:
            raise InvalidValue(f"whole numbers in a condition have 64 bits. Got {token}")
        return whole
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise InvalidValue(f"numbers in a condition are finite. Got {token}")
    return value


def checked_text(text: str) -> str:
    """Return a text that every engine can hold, or raise `InvalidValue`: no NUL, no half of a character."""
    if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InvalidValue("a text must be without NUL characters and surrogates, which no engine holds")
    return text


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the columns that a condition names, again where it names one twice."""
    match condition:
        case Column(name) | OneOf(column=Column(name)) | IsMissing(column=Column(name)):
            yield name
        case Not(part):
            yield from columns_of(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from columns_of(part)
        case Compare(_, left, right):
            yield from (side.name for side in (left, right) if isinstance(side, Column))


def check_columns(where: str | None, facts: Container[str]) -> list[str]:
    """Return the columns that a condition names; refuse one that the facts do not have, most likely a text unquoted.

    >>> check_columns("ward = A", {"ward": Category(["A", "B"])})
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: there is no column 'A' to compare 'ward' with; quote a text: ward = 'A'
    """
    if where is None:
        return []
    tree = parse_predicate(where)
    for sign, column, other in _compared(tree):
        if column in facts and other not in facts:
            raise InvalidValue(
                f"there is no column {other!r} to compare {column!r} with; quote a text: {column} {sign} '{other}'"
            )
    return list(columns_of(tree))


def _compared(condition: Condition) -> Iterator[tuple[str, str, str]]:
    """Yield the sign and the two names wherever a column is compared with a column."""
    match condition:
        case Not(part):
            yield from _compared(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _compared(part)
        case Compare(sign, Column(left), Column(right)):
            yield sign, left, right


def check_levels(where: str | None, facts: Mapping[str, Fact]) -> None:
    """Refuse a condition that asks for a value which the public list of its column does not have: most likely a slip.

    >>> check_levels("ward in ('A', 'Z')", {"ward": Category(["A", "B"])})
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: the facts list no value 'Z' of 'ward'; they list 'A', 'B'
    """
    for name, value in () if where is None else _levels_of(parse_predicate(where)):
        fact = facts[name]
        if isinstance(fact, Category) and not {value, str(value)} & {*fact.categories, *map(str, fact.categories)}:
            listed = ", ".join(repr(known) for known in fact.categories[:10])
            more = ", …" if len(fact.categories) > 10 else ""
            raise InvalidValue(f"the facts list no value {value!r} of {name!r}; they list {listed}{more}")


def _levels_of(condition: Condition) -> Iterator[tuple[str, int | float | str | bool]]:
    """Yield each column with each value that it is said to be, or not to be."""
    match condition:
        case OneOf(column=Column(name), values=values):
            yield from ((name, value.value) for value in values)
        case Not(part):
            yield from _levels_of(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _levels_of(part)
        case Compare("=" | "!=", Column(name), Literal(value)) | Compare("=" | "!=", Literal(value), Column(name)):
            yield name, value
