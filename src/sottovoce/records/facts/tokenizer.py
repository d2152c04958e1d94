"""Reading a small language token by token: what the languages of conditions and of queries share."""

from __future__ import annotations

import re
from typing import ClassVar, NoReturn

from sottovoce.privacy.errors import InvalidValue


class TokenReader:
    """One token of look-ahead over a text.

    A language says what it calls a text of its own, how a token looks (a pattern whose groups name the kinds), and
    which words are keywords. Its methods then read one rule of the grammar each.

    Attributes
    ----------
    kind, token
        The token ahead: a group of the pattern, ``keyword``, or ``end``.
    start
        Where it stands.
    """

    language: ClassVar[str]
    pattern: ClassVar[re.Pattern[str]]
    keywords: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, text: str) -> None:
        self.text, self.position, self.depth = text, 0, 0
        self.advance()

    def advance(self) -> None:
        """Take the token ahead and look at the next."""
        match = self.pattern.match(self.text, self.position)
        remainder = self.text[self.position :].strip()
        if match is None and remainder:
            raise InvalidValue(f"a {self.language} cannot contain {remainder[:10]!r} (character {self.position + 1})")
        self.start = self.position
        if match is None:
            self.kind, self.token = "end", ""
            return
        self.kind = str(match.lastgroup)
        self.token, self.position = match[self.kind], match.end()
        if self.kind == "word" and self.token.lower() in self.keywords:
            self.kind, self.token = "keyword", self.token.lower()

    def fail(self, expected: str) -> NoReturn:
        """Say what was expected here, and what is there."""
        got = repr(self.token) if self.token else "the end"
        raise InvalidValue(f"{expected} at character {self.start + 1} of the {self.language} {self.text!r}. Got {got}")

    def accept(self, *tokens: str) -> bool:
        """Take the token ahead if it is one of these signs or keywords."""
        if self.kind in ("keyword", "sign") and self.token in tokens:
            self.advance()
            return True
        return False

    def expect(self, sign: str) -> None:
        """Take this sign or keyword, or fail."""
        if not self.accept(sign):
            self.fail(f"expected {sign!r}")


def checked_text(text: str) -> str:
    """Return a text that every engine can hold, or raise `InvalidValue`: no NUL, no half of a character."""
    if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InvalidValue("a text must be without NUL characters and surrogates, which no engine holds")
    return text
