"""The ledger: durable transactions a second beside bare SQLite, and a stampede of processes on one budget.

A release takes two durable transactions, the reserve before the data is read and the commit before it is answered, so
it is set beside two bare transactions: BEGIN IMMEDIATE, one INSERT of the same bytes into the same columns with no
index, COMMIT, with the same settings (write-ahead log, synchronous=FULL, one fsync each). Ours also keep three
indexes and the head, apply the privacy filter, and seal each event with a hash of all before it. The two take turns,
release by release, so that both meet the same moods of the disk; medians are compared. The ledger adds a roughly
constant time to each transaction, so the ratio depends on the disk: it is near 1 where an fsync takes milliseconds, and
falls below the target where one takes a tenth of a millisecond or less.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.timing import show
from sottovoce.ledger import Budget, Ledger, Reservation
from sottovoce.ledger.changes import committing
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.promises import RenyiDP, ZeroConcentratedDP
from support.postgres import running_server, why_no_server
from support.stampede import stampede

GROUP = 16
COST = 0.125**2  # of the Gaussian profile that the spenders spend, at order 2
PROFILE = ZeroConcentratedProfile(1e-6)
REQUEST = {"mechanism": {"mechanism": "noisy statistics", "n": 1000, "scale": 3.5}, "column": "smoker", "where": None}


class Bare:
    """The least that a durable record costs in SQLite."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        columns = "kind TEXT, budget INT, entry INT, key TEXT, spent TEXT, body TEXT, value TEXT, hash TEXT"
        self.connection.execute(f"CREATE TABLE events (sequence INTEGER PRIMARY KEY, {columns})")

    def write(self, row: tuple[object, ...]) -> None:
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        run("INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row[1:])
        run("COMMIT")


def release(ledger: Ledger, budget: Budget) -> None:
    right = ledger.reserve(budget, PROFILE, REQUEST, who="ada")
    assert isinstance(right, Reservation)
    right.touch()
    ledger.commit(right, {"value": 0.37, "profile": PROFILE.to_dict(), "mechanism": REQUEST["mechanism"]})


def _together(ledger: Ledger, budget: Budget) -> float:
    """Return the seconds of a group of releases, each of whose two transactions they share."""
    start = time.perf_counter()
    asked = ledger.charge(budget, PROFILE, REQUEST)
    rights = ledger.write_all([ledger.reserving(asked, who="ada") for _ in range(GROUP)])
    value = {"value": 0.37, "profile": PROFILE.to_dict(), "mechanism": REQUEST["mechanism"]}
    ledger.write_all([committing(right, value) for right in rights])
    return time.perf_counter() - start


def commits(folder: Path, releases: int) -> None:
    """Show transactions a second beside the bare inserts, in turns."""
    bare, ours, theirs, busy = Bare(folder / "bare.db"), [], [], [0.0, 0.0]
    with Ledger(folder / "bench.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", ZeroConcentratedDP(1.0), n=1000, schema={"smoker": "boolean"})
        release(ledger, budget)
        reader = sqlite3.connect(folder / "bench.ledger")
        rows = reader.execute("SELECT * FROM sottovoce_events ORDER BY sequence DESC LIMIT 2").fetchall()
        reader.close()
        for _ in range(releases):
            clock, start = time.thread_time(), time.perf_counter()
            release(ledger, budget)
            half, middle = time.thread_time(), time.perf_counter()
            for row in reversed(rows):
                bare.write(row)
            ours.append(middle - start)
            theirs.append(time.perf_counter() - middle)
            busy = [busy[0] + half - clock, busy[1] + time.thread_time() - half]
        group = [_together(ledger, budget) for _ in range(releases // GROUP)]
        start = time.perf_counter()
        count = ledger.verify().count
        verify = time.perf_counter() - start
    bare.connection.close()
    mine, other, many = statistics.median(ours), statistics.median(theirs), statistics.median(group) / GROUP
    rows = [
        ["transactions a second", f"{2 / mine:,.0f}", f"{2 / other:,.0f}", f"{other / mine:.2f}"],
        [f"{GROUP} that wait together", f"{2 / many:,.0f}", f"{2 / other:,.0f}", f"{other / many:.2f}"],
        ["time of one", f"{1e6 * mine / 2:.0f} µs", f"{1e6 * other / 2:.0f} µs", f"{mine / other:.2f}"],
        ["processor time of one", *(f"{1e6 * one / 2 / releases:.0f} µs" for one in busy), f"{busy[0] / busy[1]:.2f}"],
        ["events verified a second", f"{count / verify:,.0f}", "", ""],
    ]
    note = (
        f"Medians of {releases:,} releases of two durable transactions each, in turns. The ledger adds a roughly "
        f"constant time (here {1e6 * (mine - other) / 2:.0f} µs) to each transaction, so the ratio depends on the "
        "disk: 0.7 times as many a second as bare SQLite are reached where a bare transaction takes half a "
        "millisecond or more, and not where an fsync is nearly free."
    )
    show("Durable transactions", ["", "ledger", "bare SQLite", "ratio"], rows, note)


def double_spend(name: str, url: str, *, processes: int, attempts: int, kills: int) -> list[str]:
    """Return what a stampede did, after checking that nothing was spent twice or lost."""
    covers = processes * attempts // 2
    with Ledger(url, create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, covers * COST), n=1000, schema={})
        outcome = stampede(url, processes=processes, attempts=attempts, kills=kills, seed=1)
        outcome.check(ledger, budget)
        spent, pending = ledger.spent(budget), len(ledger.pending())
        events = ledger.verify().count
    return [
        f"{name}, {processes} processes × {attempts} attempts",
        *(str(outcome.killed), str(len(outcome.answered)), str(outcome.refused), str(pending)),
        *(f"{float(spent) / budget.limit:.1%}", str(events), f"{outcome.seconds:.1f} s"),
    ]


def main(quick: bool = False) -> None:
    """Run both parts; small with `quick`."""
    with tempfile.TemporaryDirectory() as folder:
        commits(Path(folder), 300 if quick else 3000)
        size = {"processes": 4, "attempts": 20, "kills": 1} if quick else {"processes": 16, "attempts": 200, "kills": 6}
        rows = [double_spend("SQLite", f"sqlite:///{folder}/stampede.ledger", **size)]
        note = (
            "A budget for half of the attempts, and processes killed on the way. Nothing was spent twice, nothing "
            "lost: every row was verified."
        )
        if reason := why_no_server():
            note += f" PostgreSQL was left out: {reason}."
        else:
            with running_server(durable=True) as server:
                rows.append(double_spend("PostgreSQL", server.url(server.create_database()), **size))
        show(
            "A stampede on one budget",
            ["", "killed", "answered", "refused", "pending", "spent", "events", "time"],
            rows,
            note,
        )


if __name__ == "__main__":
    main()
