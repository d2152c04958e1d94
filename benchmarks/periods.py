"""Periods: a hospital of 36 months under a budget for each month, beside one budget for all; and how long 10⁵ entries
over 60 periods take to verify.

Every night the file grows (of the first hospital; of others at the end of the month). At the end of a month its report
is asked: the share of a flag and the mean of a cost, by ward. At the end of a year a regression of it. The truth is
that of the population which stays are drawn from.

    python -m benchmarks.periods --hospitals 3
"""

from __future__ import annotations

import argparse
import calendar
import datetime
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.timing import show
from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Day, Facts, Flag, Number
from sottovoce.service.answers.answer import Answer
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger, Reservation

BUDGET, FIRST, WARDS = ApproxDP(1.0, 1e-6), datetime.date(2023, 1, 1), ("A", "B", "C", "D", "E")
REPORT, YEARLY = 0.125, 0.5
"""The share of each of the two questions of a monthly report, and of a yearly regression."""
READMITTED, COSTS = np.array([0.08, 0.12, 0.2, 0.15, 0.3]), np.array([3.0, 4.0, 5.5, 4.5, 7.0])
SLOPE = 0.6
AUDIT = Path(__file__).parents[1] / "tests" / "support" / "period_audit.py"
"""Adds up what each period has spent, from the text of a ledger alone, and fails where one has spent too much."""


class Told(NamedTuple):
    """What was asked of a hospital in 36 months: which intervals of reports hold, how wide they are by month, and what
    was refused."""

    held: dict[str, list[bool]]
    widths: dict[int, tuple[float, float]]
    slopes: list[bool]
    refused: list[int]
    fullest: float


def stays_of(first: datetime.date, stays: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return the stays of a month."""
    days = calendar.monthrange(first.year, first.month)[1]
    ward = rng.choice(5, stays, p=(0.3, 0.25, 0.2, 0.15, 0.1))
    severity = rng.uniform(-1, 1, stays)
    admitted = np.sort(rng.integers(0, days, stays))
    frame = {
        "admitted": pd.to_datetime(first) + pd.to_timedelta(admitted, unit="D"),
        "ward": np.array(WARDS)[ward],
        "readmitted": rng.random(stays) < READMITTED[ward],
        "cost": rng.gamma(4, COSTS[ward] / 4),
        "severity": severity,
        "died": rng.random(stays) < 1 / (1 + np.exp(2 - SLOPE * severity)),
    }
    return pd.DataFrame(frame)


def hospital(seed: int, months: int, *, periods: bool, nightly: bool) -> Told:
    """Live through the months, night by night or month by month, and return what was told."""
    rng, firsts = seeded_rng(seed), [month_after(FIRST, k) for k in range(months + 1)]
    facts = Facts(
        admitted=Day(FIRST, firsts[-1] - datetime.timedelta(days=1)),
        ward=Category(WARDS),
        readmitted=Flag(),
        cost=Number(0, 20),
        severity=Number(-1, 1),
        died=Flag(),
    )
    told = Told({"share": [], "mean": []}, {}, [], [], 0.0)
    with tempfile.TemporaryDirectory() as folder:
        place, ledger = Path(folder) / "stays.parquet", Path(folder) / "ledger"
        known: list[pd.DataFrame] = []
        options: dict[str, Any] = {"facts": facts, "grows": True}
        options |= {"period": "admitted: monthly"} if periods else {}
        for month, first in enumerate(firsts[:-1]):
            stays = 2000 if month in (0, months - 1) else int(rng.integers(1000, 3001))
            new = stays_of(first, stays, rng)
            for night in sorted(set(new["admitted"])) if nightly else [new["admitted"].iloc[-1]]:
                so_far = pd.concat([*known, new[new["admitted"] <= night]])
                so_far.assign(admitted=so_far["admitted"].dt.date).to_parquet(place)
                with Curator(place, ledger, BUDGET, **options):
                    pass  # which notes the version of the night
            known.append(new)
            with Curator(place, ledger, BUDGET, **options) as curator:
                report(curator, month, firsts[month : month + 2], told)
                if month % 12 == 11:
                    where = between(firsts[month - 11], firsts[month + 1])
                    try:
                        fit = curator.regress("died ~ severity", where=where, spend=YEARLY)
                    except BudgetExceeded:
                        told.refused.append(month + 1)
                        continue
                    term = next(row for row in fit.rows if row["term"] == "severity")
                    told.slopes.append(bool(term["low"] <= SLOPE <= term["high"]))
        with Ledger(ledger) as kept:
            kept.verify()
            budget = kept.budgets()[0]
            fullest = float(kept.spent(budget)) / budget.limit
        subprocess.run([sys.executable, AUDIT, ledger], check=True, stdout=subprocess.DEVNULL)
    so_far = ", ".join(f"{sum(each)} of {len(each)} {word}s hold" for word, each in told.held.items())
    print(f"hospital {seed}, a budget for {'each month' if periods else 'all'}: {so_far}", flush=True)
    return told._replace(fullest=fullest)


def month_after(first: datetime.date, months: int) -> datetime.date:
    """Return the first day of a later month."""
    year, month = divmod(first.month - 1 + months, 12)
    return datetime.date(first.year + year, month + 1, 1)


def between(first: datetime.date, end: datetime.date) -> str:
    """Return the condition that a stay began on the first day or later, and before the end."""
    return f"admitted >= '{first}' and admitted < '{end}'"


def report(curator: Curator, month: int, ends: list[datetime.date], told: Told) -> None:
    """Ask a month's report, and note whether its intervals hold the truth."""
    where = between(*ends)
    try:
        answers = [
            curator.proportion("readmitted", by="ward", where=where, spend=REPORT),
            curator.mean("cost", by="ward", where=where, spend=REPORT),
        ]
    except BudgetExceeded:
        told.refused.append(month + 1)
        return
    clipped = [np.minimum(seeded_rng(1).gamma(4, cost / 4, 400_000), 20).mean() for cost in COSTS]
    for word, answer, truths in zip(told.held, answers, (READMITTED, clipped), strict=True):
        told.held[word] += hits(answer, truths)
    share, mean = (float(np.mean([row["high"] - row["low"] for row in answer.rows])) for answer in answers)
    told.widths[month + 1] = share, mean


def hits(answer: Answer, truths: Any) -> list[bool]:
    """Return of each row whether its interval holds the truth."""
    return [bool(row["low"] <= truth <= row["high"]) for row, truth in zip(answer.rows, truths, strict=True)]


def verification(entries: int, periods: int) -> float:
    """Return the seconds that verifying a ledger takes, of so many entries over so many periods."""
    rng = seeded_rng(3)
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger", create=True) as ledger:
        budget = ledger.open_budget("t", ApproxDP(1.0, 1e-6), n=100, schema={})
        names = [f"month {k}" for k in range(periods)]
        ledger.divide(budget, "admitted: monthly", [*names, "no period"])
        profile = GaussianProfile(1e-5)
        for _ in range(entries // 500):
            changes = [
                ledger.reserving(
                    ledger.charge(budget, profile, {}, periods=rng.choice(names, 3, replace=False).tolist())
                )
                for _ in range(500)
            ]
            assert all(isinstance(right, Reservation) for right in ledger.write_all(changes))
        start = time.process_time()
        ledger.verify()
        assert sum(ledger.spent_by_period(budget).values(), Fraction(0)) > 0
        return time.process_time() - start


def main(quick: bool = False, hospitals: int = 1) -> None:
    """Show what months were told, with and without a budget for each, and how verification grows."""
    months = 6 if quick else 36
    rows = []
    for periods in (True, False):
        lives = [hospital(k, months, periods=periods, nightly=periods and not k) for k in range(hospitals)]
        held = [np.concatenate([life.held[word] for life in lives]) for word in ("share", "mean")]
        slopes = [hit for life in lives for hit in life.slopes]
        refused = min((month for life in lives for month in life.refused), default=None)
        ends = [np.mean([life.widths.get(month, (np.nan,) * 2) for life in lives], axis=0) for month in (1, months)]
        rows.append(
            (
                "for each month" if periods else "one for all",
                *(f"{np.mean(each):.3f} of {len(each)}" for each in held),
                f"{sum(slopes)} of {len(slopes)}",
                *("{:.4f} and {:.3f}".format(*end) for end in ends),
                f"{max(life.fullest for life in lives):.3f}",
                "none" if refused is None else f"month {refused}",
            )
        )
    columns = (
        "budget",
        "shares hold",
        "means hold",
        "slopes hold",
        "widths, month 1",
        f"widths, month {months}",
        "fullest",
        "first refused",
    )
    show(f"A hospital of {months} months", columns, rows)
    sizes = (1_000, 2_000) if quick else (25_000, 50_000, 100_000)
    timed = [(f"{size:,}", f"{(taken := verification(size, 60)):.1f}", f"{1e6 * taken / size:.0f}") for size in sizes]
    show("Verifying a ledger of 60 periods", ("entries", "seconds", "µs an entry"), timed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--hospitals", type=int, default=1)
    known = parser.parse_args()
    main(quick=known.quick, hospitals=known.hospitals)
