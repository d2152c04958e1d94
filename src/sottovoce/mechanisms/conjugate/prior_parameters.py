"""What a question may set of a system: the numbers of its prior. Bounds and categories are facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown

__all__ = ["RATE", "Setting", "checked_settings"]

LEAST, MOST = 1e-3, 1e6
"""Between these lie the numbers of a prior that count records: beyond them lies no model, only overflow."""
_SEVERAL = 64


@dataclass(frozen=True)
class Setting:
    """One number, or a list of them.

    Attributes
    ----------
    label
        What a form calls it.
    least, most
        Between which numbers it lies.
    several
        Whether there may be one for each coordinate.
    """

    label: str
    least: float = LEAST
    most: float = MOST
    several: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """What it may be, as JSON Schema says it."""
        number = {"type": "number", "minimum": self.least, "maximum": self.most}
        if not self.several:
            return number | {"title": self.label}
        listed = {"type": "array", "items": number, "minItems": 1, "maxItems": _SEVERAL}
        return {"anyOf": [number, listed], "title": self.label}

    def check(self, name: str, value: Any) -> None:
        """Raise `InvalidValue` unless it may be this."""
        listed = self.several and isinstance(value, list) and 1 <= len(value) <= _SEVERAL
        for number in value if listed else [value]:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InvalidValue(f"{name} must be a number. Got {shown(number)}")
            if not self.least <= number <= self.most:  # nor does NaN
                raise InvalidValue(f"{name} must lie between {self.least:g} and {self.most:g}. Got {shown(number)}")


RATE = Setting("Prior rate", 1e-9, 1e12)
"""A rate has the units of the records, which may be large or small."""


def checked_settings(word: str, known: Mapping[str, Setting], given: Mapping[str, object]) -> dict[str, object]:
    """Return what a question sets of a system, or raise `InvalidValue`."""
    numbers = {name: value for name, value in given.items() if name not in ("kind", "system") and value is not None}
    if unknown := set(numbers) - set(known):
        raise InvalidValue(f"{word} takes {', '.join(known) or 'nothing'}. Got {', '.join(sorted(unknown))}")
    for name, value in numbers.items():
        known[name].check(name, value)
    return numbers
