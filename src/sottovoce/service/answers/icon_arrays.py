"""Icon arrays: a chance as so many dots of so many, in text and in SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

_MOST = 1000
_WIDE = 50
_MARKS = ("●", "○", "·")
_STYLES = (("anyway", "#1f77b4"), ("more", "#ff7f0e"), ("rest", "#d5d8dc"))


@dataclass(frozen=True)
class Icons:
    """How many dots show people who are guessed right anyway, who are so at most besides, and who are not.

    Each stands for `each` people; those not guessed are left out where they would be more than a picture holds.
    """

    anyway: int
    more: int
    rest: int
    each: int = 1
    left_out: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """The three numbers of dots, in the order in which they are drawn."""
        return self.anyway, self.more, self.rest

    def places(self) -> list[list[tuple[int, int]]]:
        """Return the column and the row of every dot, kind by kind."""
        result, start = [], 0
        for count in self.counts:
            result.append([(p % _WIDE, p // _WIDE) for p in range(start, start + count)])
            start += count
        return result

    def legend(self, words: Mapping[str, str]) -> list[str]:
        """Return what each kind of dot means, in the words of a language."""
        numbers = (self.anyway * self.each, self.more * self.each, self.rest * self.each)
        shown = [
            words[name].format(number=f"{n:,}") for name, n in zip(("anyway", "more", "rest"), numbers, strict=True)
        ]
        if self.left_out:
            shown[2] = words["left_out"].format(number=f"{self.left_out:,}")
        if self.each > 1:
            shown.append(words["each"].format(number=f"{self.each:,}"))
        return shown

    def lines(self) -> list[str]:
        """Return the dots as lines of text."""
        dots = "".join(mark * count for mark, count in zip(_MARKS, self.counts, strict=True))
        return [dots[start : start + _WIDE] for start in range(0, len(dots), _WIDE)]

    def svg(self, about: str) -> str:
        """Return the dots as an SVG image that says `about` to those who cannot see it."""
        height = 10 * max(1, -(-sum(self.counts) // _WIDE))
        paths = [
            f'<path class="{name}" fill="none" stroke="{colour}" stroke-width="6.4" stroke-linecap="round" '
            f'd="{"".join(f"M{10 * x + 5} {10 * y + 5}h0" for x, y in dots)}"/>'
            for (name, colour), dots in zip(_STYLES, self.places(), strict=True)
            if dots
        ]
        size = f'viewBox="0 0 {10 * _WIDE} {height}" width="100%"'
        return f'<svg class="icons" role="img" aria-label="{escape(about)}" {size}>{"".join(paths)}</svg>'


def icons(people: int, before: int, after: int) -> Icons:
    """Return the dots for `people`, of whom `before` are guessed right anyway and at most `after` in the end.

    >>> icons(1000, 10, 28).counts
    (10, 18, 972)
    >>> icons(10**9, 1, 3)
    Icons(anyway=1, more=2, rest=0, each=1, left_out=999999997)
    """
    if people <= _MOST:
        return Icons(before, after - before, people - after)
    if after <= _MOST // 2:
        return Icons(before, after - before, 0, left_out=people - after)
    each = -(-people // _MOST)
    anyway, last = before // each, -(-after // each)
    return Icons(anyway, last - anyway, max(people // each - last, 0), each)
