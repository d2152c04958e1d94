"""Registries: words and what they stand for. A static table says where each word lives; nothing is imported before.

What was written yesterday is read by a process that imported nothing, and an unknown word is an error.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from sottovoce.privacy.errors import InvalidValue, NotInstalled
from sottovoce.privacy.lazy_imports import needing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache  # reads a file of every package that is installed
def _installed() -> Any:
    from importlib.metadata import entry_points  # noqa: PLC0415 - reads mail headers, of all things

    return entry_points()


class Registry:
    """Kinds of one thing by their word.

    Parameters
    ----------
    what
        What they are kinds of, for messages.
    places
        ``module:Class`` for each word, in the order in which they are shown.
    group
        The group of entry points under which other packages register kinds of their own.

    Examples
    --------
    >>> promises = Registry("promise", {"pure": "sottovoce.privacy.promises:PureDP"}, "sottovoce.promises")
    >>> promises["pure"].__name__, "purest" in promises
    ('PureDP', False)
    """

    def __init__(self, what: str, places: Mapping[str, str], group: str) -> None:
        self.what, self.group = what, group
        self._places = dict(places)
        self._found: dict[str, Any] = {}

    @property
    def strangers(self) -> list[str]:
        """The words that other packages, or this process, have registered."""
        return [word for word in self if word not in self._places]

    @property
    def kinds(self) -> list[str]:
        """The words of different kinds: of several words for one, such as an old name, the first."""
        return list({self._places.get(word, word): word for word in reversed(list(self))}.values())[::-1]

    def lasts(self, word: str) -> bool:
        """Say whether a process that imported nothing knows the word too."""
        return word in self._places or word in self._strangers

    def not_installed(self) -> dict[str, NotInstalled]:
        """Return the words of kinds that need a package which is not here, each with what to install."""
        missing = {}
        for word in self.kinds:
            try:
                self[word]
            except NotInstalled as error:
                missing[word] = error
        return missing

    def within(self, package: str) -> list[str]:
        """Return the words of one of our packages, and those of strangers: nothing is imported to tell."""
        return [word for word in self if self._places.get(word, package).startswith(package)]

    @cached_property
    def _strangers(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in _installed().select(group=self.group) if point.name not in self._places}

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from self._strangers
        yield from (word for word in self._found if word not in self._places and word not in self._strangers)

    def __contains__(self, word: object) -> bool:
        return word in self._found or word in self._places or word in self._strangers

    def __getitem__(self, word: object) -> Any:
        """Return the kind that a word stands for, or raise `InvalidValue` with the words there are."""
        if not isinstance(word, str) or word not in self:
            raise InvalidValue(f"no {self.what} is called {word!r}; known: {', '.join(self.kinds)}")
        if word not in self._found:
            if word in self._places:
                module, _, name = self._places[word].partition(":")
                try:
                    self._found[word] = getattr(importlib.import_module(module), name)
                except ModuleNotFoundError as error:
                    raise needing(error) from None
            else:
                self._found[word] = self._strangers[word].load()
        return self._found[word]

    def add(self, kind: Any) -> Any:
        """Register a kind under its `word` for this process; usable as a decorator.

        For good, name it as an entry point of its package instead.
        """
        word = kind.word
        if word in self and self[word] is not kind:
            raise InvalidValue(f"there is a {self.what} called {word!r} already")
        self._found[word] = kind
        return kind
