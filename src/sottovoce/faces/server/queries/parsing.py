"""A small language for what to answer: ``theta``, ``probability(x > 3)``, ``mean(x | x in (1, 2)) / 2``.

Text becomes the tree of `tree.py` and nothing else. Events are written as conditions on a record are elsewhere
(`sottovoce.records.facts.condition_parser`), with ``x`` for the new record.
"""

from __future__ import annotations

import math
import re

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
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.condition_parser import parse_predicate
from sottovoce.records.facts.condition_tree import Condition
from sottovoce.records.facts.tokenizer import TokenReader

__all__ = ["LONGEST", "parse_query"]

LONGEST, DEEPEST = 1_000, 20

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>[-+*/()\[\],|])
    )""",
    re.VERBOSE,
)
_EVENT = re.compile(r"""(?:[^()'"`]|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)*""")
_SAFE_SET = "theta, mean(x), mean(x | EVENT), probability(EVENT), quantile(x, LEVEL), draw(x), log, exp, sqrt"


def parse_query(text: str) -> Query:
    """Return the tree of a query, or raise `InvalidValue` that says where it stops making sense.

    Examples
    --------
    >>> parse_query("theta")
    Parameter(label=None)
    >>> parse_query("1 - probability(x > 3)").right.event
    Compare(sign='>', left=ColumnTerm(name='x'), right=Literal(value=3))
    >>> parse_query("quantile(x, 0.5)")
    Quantile(level=0.5)
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidValue(f"a query is a text made of {_SAFE_SET}. Got nothing")
    if len(text) > LONGEST:
        raise InvalidValue(f"a query may have {LONGEST} characters. Got {len(text)}")
    parser = _QueryParser(text)
    tree = parser.sum()
    if parser.kind != "end":
        parser.fail("expected + - * / or the end")
    return tree


class _QueryParser(TokenReader):
    """Each method reads one rule of the grammar."""

    language, pattern = "query", _TOKEN

    def sum(self) -> Query:
        tree = self.product()
        while self.kind == "sign" and self.token in "+-":
            sign = self.token
            self.advance()
            tree = Arithmetic(sign, tree, self.product())
        return tree

    def product(self) -> Query:
        tree = self.factor()
        while self.kind == "sign" and self.token in "*/":
            sign = self.token
            self.advance()
            tree = Arithmetic(sign, tree, self.factor())
        return tree

    def factor(self) -> Query:
        self.depth += 1
        if self.depth > DEEPEST:
            raise InvalidValue(f"a query may be nested {DEEPEST} deep")
        tree: Query
        if self.accept("-"):
            tree = Negative(self.factor())
        elif self.accept("("):
            tree = self.sum()
            self.expect(")")
        elif self.kind == "number":
            tree = NumberNode(self.number())
        elif self.kind == "word":
            tree = self.word()
        else:
            self.fail(f"expected a number or one of {_SAFE_SET}")
        self.depth -= 1
        return tree

    def number(self) -> float:
        if self.kind != "number":
            self.fail("expected a number")
        value = float(self.token)
        if not math.isfinite(value):
            self.fail("numbers in a query are finite; expected a smaller one")
        self.advance()
        return value

    def word(self) -> Query:
        name = self.token.lower()
        if name in ("probability", "mean"):
            return self.event(name)
        if name not in ("theta", "quantile", "draw", "log", "exp", "sqrt"):
            self.fail(f"expected one of {_SAFE_SET}")
        self.advance()
        if name == "theta":
            return Parameter(self.label() if self.accept("[") else None)
        self.expect("(")
        tree: Query
        if name == "quantile":
            self.record()
            self.expect(",")
            tree = Quantile(self.number())
            if not 0 < tree.level < 1:
                raise InvalidValue(f"the level of a quantile lies strictly between 0 and 1. Got {tree.level:g}")
        elif name == "draw":
            self.record()
            tree = Draw()
        else:
            tree = Function(name, self.sum())
        self.expect(")")
        return tree

    def record(self) -> None:
        if (self.kind, self.token.lower()) != ("word", "x"):
            self.fail("expected x, the new record,")
        self.advance()

    def label(self) -> str | int:
        kind, token = self.kind, self.token
        if kind == "number" and re.fullmatch(r"\d{1,6}", token):
            self.advance()
            self.expect("]")
            return int(token)
        if kind != "text":
            self.fail("expected a category such as 'N', or a position counted from 0,")
        self.advance()
        self.expect("]")
        return token[1:-1].replace(token[0] * 2, token[0])

    def event(self, name: str) -> Query:
        """Read ``mean(x)``, ``mean(x | EVENT)`` or ``probability(EVENT)``; the event has a parser of its own."""
        self.advance()
        if (self.kind, self.token) != ("sign", "("):
            self.fail("expected '('")
        if name == "mean":
            self.advance()
            self.record()
            if self.accept(")"):
                return Expectation()
            if (self.kind, self.token) != ("sign", "|"):
                self.fail("expected ')', or '|' and an event,")
        inside = self.inside()
        self.advance()
        return Probability(inside) if name == "probability" else Expectation(inside)

    def inside(self) -> Condition:
        """Return the condition from here to the closing parenthesis, and stand behind it."""
        start, open_ = self.position, 1
        while open_:
            match = _EVENT.match(self.text, self.position)
            self.position = len(self.text) if match is None else match.end()
            sign = self.text[self.position : self.position + 1]
            if sign not in ("(", ")"):
                raise InvalidValue(f"expected ')' to end the event {self.text[start:]!r}")
            open_ += 1 if sign == "(" else -1
            self.position += 1
        return parse_predicate(self.text[start : self.position - 1])
