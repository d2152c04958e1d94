"""What was spent of each period of a budget: added up from what its entries say that they charge.

Every period has the budget's limit to itself. An entry is charged to each period that it reads, and to no other.
Periods that are named later begin with what their records were charged before: all that the budget had spent, where it
had no periods; else what `Division.others` had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger.records import Division


class Spending(NamedTuple):
    """What was spent of each period of a budget, up to an event."""

    event: int
    totals: Mapping[str, Fraction]


class PeriodTotals:
    """What a process knows of the periods of a ledger's budgets.

    Attributes
    ----------
    divided
        By budget, the number of the event that named its periods last; None where it has none.
    divisions
        What such an event says, by its number.
    spent
        By budget, what was spent of each period.
    """

    def __init__(self) -> None:
        self.divided: dict[int, int | None] = {}
        self.divisions: dict[int, Division] = {}
        self.spent: dict[int, Spending] = {}

    def copied(self) -> PeriodTotals:
        """Return the same, to be changed apart."""
        result = PeriodTotals()
        result.divided, result.divisions = dict(self.divided), dict(self.divisions)
        result.spent = dict(self.spent)
        return result

    def advanced(self, start: int, end: int) -> PeriodTotals:
        """Return the same, where all that happened from one event to another was this process's doing."""
        self.spent = {
            budget: Spending(end, known.totals) if known.event >= start else known
            for budget, known in self.spent.items()
        }
        return self


def begun(division: Division, before: Mapping[str, Fraction] | None, spent: Fraction) -> dict[str, Fraction]:
    """Return what is spent of each period as it is named: what its records were charged so far."""
    if before is None:
        return dict.fromkeys(division.names, spent)
    others = before[division.others]
    return {name: before.get(name, others) for name in division.names}


def moved(totals: Mapping[str, Fraction], periods: Iterable[str] | None, cost: Fraction) -> dict[str, Fraction]:
    """Return what is spent once an entry of these periods, or of all, was charged; or given back, below zero.

    >>> moved({"a": Fraction(1), "b": Fraction(0)}, ["b"], Fraction(1, 2))["b"]
    Fraction(1, 2)
    """
    return {**totals, **{name: totals[name] + cost for name in (totals if periods is None else periods)}}


def charged_periods(
    division: Division | None, periods: tuple[str, ...] | None, before: Division | None
) -> tuple[str, ...]:
    """Return the periods that a question is charged to: all, where it was priced without any.

    Parameters
    ----------
    division
        The periods that there are.
    periods, before
        Those that the question reads, and those that there were when it was priced: what was in none of them then may
        be in one that was named since.
    """
    if division is None:
        raise InvalidValue("this budget has no periods, so a question reads none of them")
    if periods is None:
        return division.names
    if before is not None and before != division and division.others in periods:
        return tuple(name for name in division.names if name in periods or name not in before.names)
    division.check(periods)
    return periods
