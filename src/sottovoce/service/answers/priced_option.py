"""One price of a question: the share, how wide intervals will be, and what it means for a person."""

from __future__ import annotations

import decimal
from dataclasses import dataclass

from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import in_hundred, percent
from sottovoce.service.answers.period_words import listed
from sottovoce.service.answers.repeated_question import repeat_note


@dataclass(frozen=True)
class PricedOption:
    """What a share of the budget buys, and what it leaves to a guess.

    Attributes
    ----------
    share
        The share of the budget.
    width
        Half the width of the interval that is expected in the widest row: the answer is known to ± so much.
    success
        The largest chance of a guess that comes true with the baseline without the answer.
    advantage
        The largest advantage over chance of a guess between two data sets that differ in one record.
    promise
        What the answer keeps.
    noise
        ``"laplace"`` or ``"gaussian"``: where the second gives way to the first, as exact, the risk falls.
    level, baseline
        Of the intervals, and of the guess.
    of
        Which of several groups the width is of, in words; empty where there is one row alone.
    earlier
        The entry that answered the very same question before, which is told again for nothing; None where none did.
    periods
        Those that it would be charged to, where each has a budget of its own.
    """

    share: float
    width: float
    success: float
    advantage: float
    promise: Promise
    noise: NoiseKind
    level: float = 0.95
    baseline: float = 0.01
    of: str = ""
    earlier: int | None = None
    periods: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return the offer in a sentence."""
        before, after = (people(chance, self.baseline) for chance in (self.baseline, self.success))
        whose = f" of {listed(self.periods)}" if self.periods else ""
        return (
            f"{percent(self.share)} of the budget{whose} buys ± {self.width:.3g}{self.of and ' for '}{self.of}, "
            f"in {in_hundred(self.level)} of 100 answers; "
            f"a guess that is right for {before} people without it is right for {after} with it, at most."
            + ("" if self.earlier is None else f" Note: {repeat_note(self.earlier)}.")
        )

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, object]:
        """Return the offer as plain values."""
        numbers = {"share": self.share, "width": self.width, "success": self.success, "advantage": self.advantage}
        return numbers | {"promise": str(self.promise), "noise": self.noise} | self._noted()

    def _noted(self) -> dict[str, object]:
        noted = {"of": self.of or None, "earlier": self.earlier, "periods": list(self.periods) or None}
        return {name: value for name, value in noted.items() if value is not None}


def people(chance: float, baseline: float) -> str:
    """Return a chance as so many of a thousand people, or of more where the baseline is rarer; rounded up.

    >>> people(0.0123456, 0.01), people(2e-5, 1e-5)
    ('12.4 of 1,000', '2 of 100,000')
    """
    thousand = 1000
    while thousand * baseline < 1:
        thousand *= 10
    exact = decimal.Context(prec=12).create_decimal_from_float(chance * thousand)
    lifted = decimal.Context(prec=3, rounding=decimal.ROUND_CEILING).create_decimal(exact)
    return f"{float(lifted):,.10g} of {thousand:,}"
