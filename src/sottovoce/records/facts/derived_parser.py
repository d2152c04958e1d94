"""A small language for columns that are derived from others: ``log(cost)``, ``discharged - admitted``, ``month(day)``.

Text becomes a tree of names, values and calls and nothing else. What a tree means is said by `derived_columns`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.tokenizer import TokenReader, checked_text

FUNCTIONS = (
    "abs",
    "bands",
    "clip",
    "coalesce",
    "I",
    "log",
    "month",
    "quarter",
    "recode",
    "sqrt",
    "square",
    "weekday",
    "year",
    "yearmonth",
)
"""What may be called, by name."""
_LONGEST = 2000
"""The most characters of an expression."""
_DEEPEST = 20
"""How deep parentheses may be nested."""
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`[^`]+`|"[^"]+")
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>\*\*|[-+*/^(),=])
    )""",
    re.VERBOSE,
)
_CALL = re.compile(rf"(?<![\w`.])(?:{'|'.join(FUNCTIONS)})\s*\(")
_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


@dataclass(frozen=True)
class Named:
    """A column by its name."""

    name: str

    def __str__(self) -> str:
        return self.name if re.fullmatch(r"[^\W\d]\w*", self.name) else f"`{self.name}`"


@dataclass(frozen=True)
class Said:
    """A number or a text that is written in the expression; a text may be a day."""

    value: float | str

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return repr(self.value).removesuffix(".0")


@dataclass(frozen=True)
class Call:
    """A function, or one of the signs ``+ - * /``, of one or several expressions."""

    word: str
    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        if not self.word[0].isalpha():
            return f"({f' {self.word} '.join(map(str, self.parts))})"
        return f"{self.word}({', '.join(map(str, self.parts))})"


Expression = Named | Said | Call


def names_in(tree: Expression) -> Iterator[str]:
    """Yield the columns that an expression names, again where it names one twice."""
    if isinstance(tree, Named):
        yield tree.name
    elif isinstance(tree, Call):
        for part in tree.parts:
            yield from names_in(part)


def is_expression(text: object) -> bool:
    """Say whether a text speaks of columns, rather than being the name of one.

    >>> is_expression("log(cost)"), is_expression("discharged - admitted"), is_expression("blood pressure")
    (True, True, False)
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return False
    bare = _QUOTES.sub("q", text)
    return _CALL.search(bare) is not None or re.search(r"[\w)]\s*(?:\s[-+]\s|\*|/|\^)\s*[\w(]", bare) is not None


@functools.lru_cache(maxsize=1024)
def parse_derived(text: str) -> Expression:
    """Return the tree of an expression, or raise `InvalidValue` that says where it stops making sense.

    >>> parse_derived("log(1 + cost)")
    Call(word='log', parts=(Call(word='+', parts=(Said(value=1.0), Named(name='cost'))),))
    """
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise InvalidValue(f"a derived column is a text such as 'log(cost)', of at most {_LONGEST} characters")
    parser = _ExpressionParser(text)
    tree = parser.sum()
    if parser.kind != "end":
        parser.fail("expected an operator or the end, and names of several words in backticks,")
    if next(names_in(tree), None) is None:
        raise InvalidValue(f"a derived column is made of at least one column. Got {shown(text)}")
    return tree


class _ExpressionParser(TokenReader):
    """Each method reads one rule of the grammar."""

    language, pattern = "derived column", _TOKEN

    def sum(self) -> Expression:
        tree = self.product()
        while self.kind == "sign" and self.token in ("+", "-"):
            sign = self.token
            self.advance()
            tree = Call(sign, (tree, self.product()))
        return tree

    def product(self) -> Expression:
        tree = self.factor()
        while self.kind == "sign" and self.token in ("*", "/"):
            sign = self.token
            self.advance()
            tree = Call(sign, (tree, self.factor()))
        return tree

    def factor(self) -> Expression:
        if self.accept("-"):
            part = self.factor()
            return Said(-part.value) if _is_number(part) else Call("-", (Said(0.0), part))  # type: ignore[operator,union-attr]
        tree = self.atom()
        if self.accept("^", "**"):
            power = self.atom()
            if power != Said(2.0):
                self.fail("expected 2: the only power is the square")
            tree = Call("square", (tree,))
        return tree

    def atom(self) -> Expression:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise InvalidValue(f"a derived column may be nested {_DEEPEST} deep")
        kind, token = self.kind, self.token
        result: Expression
        if self.accept("("):
            result = self.sum()
            self.expect(")")
        elif kind == "number":
            self.advance()
            result = Said(_finite(token))
        elif kind == "text":
            self.advance()
            result = Said(checked_text(token[1:-1].replace("''", "'")))
        elif kind in ("word", "quoted"):
            self.advance()
            called = kind == "word" and self.token == "(" and self.kind == "sign"
            result = self.call(token) if called else Named(token if kind == "word" else token[1:-1])
        else:
            self.fail("expected a column, a value or a function")
        self.depth -= 1
        return result

    def call(self, word: str) -> Expression:
        if word not in FUNCTIONS:
            raise InvalidValue(f"no function is called {word!r}; there are {', '.join(FUNCTIONS)}")
        self.expect("(")
        parts: list[Expression] = []
        while True:
            parts.append(self.sum())
            if word == "recode" and len(parts) > 1 and self.accept("="):
                if not isinstance(parts[-1], Said):
                    self.fail("recode pairs values, 'A' = 'surgery'; expected a value before this")
                parts[-1] = Call("=", (parts[-1], self.sum()))
            if self.accept(")"):
                break
            if not self.accept(","):
                self.fail("expected ',' or ')'")
        return parts[0] if word == "I" and len(parts) == 1 else Call(word, tuple(parts))


def _is_number(tree: Expression) -> bool:
    return isinstance(tree, Said) and isinstance(tree.value, float)


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise InvalidValue(f"numbers in a derived column are finite. Got {token}")
    return value


def call_at(text: str, start: int) -> int | None:
    """Return where a call ends that begins at a place of a text; None where there begins none.

    >>> call_at("mean of log(cost) by ward", 8), call_at("log of it", 0)
    (17, None)
    """
    opening = _CALL.match(text, start)
    if opening is None:
        return None
    depth, place = 1, opening.end()
    while place < len(text):
        quotes = _QUOTES.match(text, place)
        if quotes is not None:
            place = quotes.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        place += 1
        if depth == 0:
            return place
    return None
