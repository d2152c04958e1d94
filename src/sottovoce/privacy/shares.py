"""Shares in words: read in percent or as numbers, and said to people as they write them."""

from __future__ import annotations

import math
from decimal import Decimal

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real, shown


def read_share(name: str, text: str) -> float:
    """Return the number that a text such as ``5%`` or ``0.05`` says, or raise `InvalidValue` naming it.

    >>> read_share("level", "80%"), read_share("level", "0.8")
    (0.8, 0.8)
    """
    said = text.strip()
    try:
        number = Decimal(said.removesuffix("%").strip())  # which ends at the double that 0.007 is, for 0.7% too
        return float(number / 100 if said.endswith("%") else number)
    except (ArithmeticError, ValueError):
        raise InvalidValue(f"{name} reads like 5% or 0.05. Got {shown(text)}") from None


def percent_meant(given: float) -> str:
    """Return how a number that is no share would be said, where it looks like one in percent.

    >>> percent_meant(25), percent_meant(0.0), percent_meant(2e6)
    ("; 25 % is '25%' or 0.25", '', '')
    """
    return f"; {percent(given / 100)} is '{given:g}%' or {given / 100:g}" if 1 < given <= 100 else ""


def read_width(given: object, *, of_share: bool) -> float:
    """Return an accuracy, ± so much, as a number; of a share also from a text in percent.

    >>> read_width("5%", of_share=True), read_width("2", of_share=False)
    (0.05, 2.0)
    """
    if not isinstance(given, str):
        return real("width", given)
    if of_share:
        return real("width", read_share("width", given))
    try:
        number = float(given)
    except ValueError:
        raise InvalidValue(
            f"width is ± so much in the units of the answer, such as 2; percent are for shares. Got {shown(given)}"
        ) from None
    return real("width", number)


def percent(share: float, *, whole: bool = False) -> str:
    """Return a share in percent as people write it: neither powers of ten nor more than three digits.

    >>> percent(0.05), percent(2e-12), percent(0.0), percent(1234.5), percent(1e200)
    ('5 %', 'less than 0.001 %', '0 %', '123,450 %', 'more than 1,000,000 %')
    >>> percent(0.9996), percent(1 - 1e-7), percent(0.9996, whole=True), percent(0.83, whole=True)
    ('99.96 %', 'more than 99.999 %', '99.96 %', '83 %')
    """
    return f"{in_hundred(share, whole=whole)} %"


def in_hundred(share: float, *, whole: bool = False) -> str:
    """Return how many in a hundred a share is, as `percent` says it: 0 and 100 are said of nothing and of all alone.

    What differs from all by a billionth, as rounding leaves it, is all. Those in a hundred are `whole` where they may.
    """
    if 0 < share < 1e-5:
        return "less than 0.001"
    if share > 1e4:
        return "more than 1,000,000"
    text = f"{100 * share:,.0f}" if whole or share >= 10 else f"{100 * share:.3g}"
    gap = abs(1 - share)
    if text == "0" and share > 0:
        return f"{100 * share:.3g}"
    if text != "100" or gap < 1e-9:
        return text
    if gap < 1e-5:
        return "more than 99.999" if share < 1 else "more than 100"
    return f"{100 * share:.{-math.floor(math.log10(100 * gap))}f}".rstrip("0")
