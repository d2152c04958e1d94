"""Reading a section of a configuration file: each value checked, each error naming where it stands."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidValue

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Section:
    """A table of the file. What is taken is checked off; `finish` refuses whatever nobody asked for."""

    def __init__(self, values: object, where: str, folder: Path) -> None:
        if not isinstance(values, Mapping):
            raise InvalidValue(f"[{where}] must be a table. Got {values!r}")
        self.where, self.folder = where, folder
        self._left = dict(values)
        self._known: list[str] = []

    def fail(self, name: str, wanted: str, got: object) -> InvalidValue:
        """Return the error of one value."""
        return InvalidValue(f"{name} in [{self.where}] must be {wanted}. Got {got!r}")

    def take(self, name: str, default: object = None) -> Any:
        """Return a value of any kind."""
        self._known.append(name)
        return self._left.pop(name, default)

    def rest(self) -> dict[str, Any]:
        """Return all that nobody took yet."""
        remaining, self._left = self._left, {}
        return remaining

    def has(self, name: str) -> bool:
        """Say whether the file gives this value."""
        self._known.append(name)
        return name in self._left

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; ``env:NAME`` stands for the environment variable NAME, so that secrets stay out of the file.

        >>> Section({"title": "Patients"}, "datasets.patients", Path()).text("title")
        'Patients'
        """
        value = self.take(name, default)
        if value is None:
            raise InvalidValue(f"[{self.where}] lacks {name}")
        if not isinstance(value, str):
            raise self.fail(name, "a text", value)
        if not value.startswith("env:"):
            return value
        result = os.environ.get(value[4:])
        if result is None:
            raise InvalidValue(
                f"{name} in [{self.where}] is read from {value[4:]}, which the environment does not have"
            )
        return result

    def number(self, name: str, default: float | None, low: float, high: float) -> float:
        """Return a number within its range."""
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.fail(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number within its range."""
        value = self.number(name, default, low, high)
        if value != math.floor(value):
            raise self.fail(name, "a whole number", value)
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, "true or false", value)
        return value

    def texts(self, name: str, among: Mapping[str, object] | None = None) -> tuple[str, ...]:
        """Return a list of texts, each of them `among` the known ones."""
        value = self.take(name, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(name, "a list of texts", value)
        for item in value if among is not None else ():
            if item not in (among or ()):
                raise self.fail(name, f"a list of some of {', '.join(among or ())}", value)
        return tuple(value)

    def path(self, name: str, default: str | None = None) -> Path:
        """Return a path, relative to the folder of the file."""
        return self.folder / self.text(name, default)

    def address(self, name: str, default: str | None = None) -> str:
        """Return a database's address as it is, or a file's path, relative to the folder of the file."""
        text = self.text(name, default)
        if text.startswith("sqlite:///"):
            return f"sqlite:///{self.folder / text.removeprefix('sqlite:///')}"
        return text if "://" in text else str(self.folder / text)

    def under(self, name: str) -> str:
        """Return a path that others begin with, such as ``/sottovoce``; the empty text where there is none."""
        text = self.text(name, "").rstrip("/")
        if re.fullmatch(r"(/[A-Za-z0-9_-]+)*", text) is None:
            raise self.fail(name, "a path such as /sottovoce", text)
        return text

    def tables(self, name: str) -> dict[str, Section]:
        """Return the tables below this one by name; names are short, plain and fit for an address."""
        return {key: Section(value, self._under(name, key), self.folder) for key, value in self.mapping(name).items()}

    def named_tables(self, name: str) -> dict[str, Section]:
        """Return `tables` whose names go into addresses and entries, and so must be plain."""
        result = self.tables(name)
        for key in result:
            if _NAME.fullmatch(key) is None:
                raise InvalidValue(
                    f"{key!r} in [{self._under(name)}] is no name; use 1 to 64 of the characters a-z 0-9 _ -, "
                    "a letter or digit first"
                )
        return result

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a table below this one as plain values."""
        value = self.take(name, {})
        if not isinstance(value, dict):
            raise self.fail(name, "a table", value)
        return value

    def finish(self) -> None:
        """Refuse what nobody asked for: a misspelt limit is no limit."""
        if self._left:
            known = ", ".join(dict.fromkeys(self._known))
            raise InvalidValue(f"[{self.where}] has no {', '.join(map(repr, self._left))}; known: {known}")

    def _under(self, *names: str) -> str:
        return ".".join([*(() if self.where == "the file" else (self.where,)), *names])
