"""The ledger: durable transactions a second beside bare SQLite, and a stampede of processes on one budget.

A release takes two durable transactions, the reserve before the data is read and the commit before it is answered, so
it is set beside two bare transactions: BEGIN IMMEDIATE, one INSERT of the same bytes into the same columns with no
index, COMMIT, with the same settings (write-ahead log, synchronous=FULL, one fsync each). Between the two stands what
is SQLite's of the ledger: the statements that it runs, by hand, on the same tables with the same indexes and triggers
(move the head from where it was, insert the event), of rows that were made before. No ledger that keeps its head and
its indexes in SQLite is faster than that; what it takes beyond is ours: to write JSON, apply the privacy filter, seal
each event with a hash of all before it, look at its files, and note the head beside the ledger. They take turns,
release by release, so that all meet the same moods of the disk; medians are compared. The ledger adds a roughly
constant time to each transaction, so the ratio depends on the disk: it is near 1 where an fsync takes milliseconds, and
falls below the target where one takes a tenth of a millisecond or less.
"""

from __future__ import annotations

import functools
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.timing import show
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.promises import RenyiDP, ZeroConcentratedDP
from sottovoce.service.ledger import Budget, Ledger, Reservation
from sottovoce.service.ledger.changes import committing
from support.postgres import running_server, why_no_server
from support.stampede import stampede

GROUP = 16
WANTED = 0.7
COST = 0.125**2  # of the Gaussian profile that the spenders spend, at order 2
PROFILE = ZeroConcentratedProfile(1e-6)
REQUEST = {"mechanism": {"mechanism": "noisy statistics", "n": 1000, "scale": 3.5}, "column": "smoker", "where": None}
VALUE = {"value": 0.37, "profile": PROFILE.to_dict(), "mechanism": REQUEST["mechanism"]}


class Bare:
    """The least that a durable record costs in SQLite."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        columns = "kind TEXT, budget INT, entry INT, key TEXT, spent TEXT, body TEXT, value TEXT, hash TEXT"
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, {columns})")

    def write(self, row: tuple[object, ...]) -> None:
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        run("INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row[1:])
        run("COMMIT")

    def close(self) -> None:
        self.connection.close()


_RESERVE = "sequence, kind, budget, entry, spent, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
_COMMIT = "sequence, kind, budget, entry, body, value, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"


class ByHand(Bare):
    """The statements of a ledger's transaction, on tables like its own, with their indexes or without."""

    def __init__(self, path: Path, tables: list[str], *, indexes: bool = True) -> None:
        super().__init__(path)
        for table in tables:
            if indexes or " INDEX " not in table:
                self.connection.execute(table)
        self.connection.execute("INSERT INTO sottovoce_head VALUES (1, 0, '')")
        self.count, self.entry = 0, 0
        self.last: object = ""

    def write(self, row: tuple[object, ...]) -> None:
        run = self.connection.execute
        self.count += 1
        if row[1] == "reserve":
            self.entry = self.count
        run("BEGIN IMMEDIATE")
        moved = (self.count, row[8], self.count - 1, self.last)
        run("UPDATE sottovoce_head SET count = ?, hash = ? WHERE id = 1 AND count = ? AND hash = ?", moved)
        if row[1] == "reserve":
            run(f"INSERT INTO sottovoce_events ({_RESERVE}", (self.count, *row[1:3], self.entry, *row[5:7], row[8]))
        else:
            run(f"INSERT INTO sottovoce_events ({_COMMIT}", (self.count, *row[1:3], self.entry, *row[6:]))
        run("COMMIT")
        self.last = row[8]


class Traced:
    """A ledger's cursor that notes when each of its statements began and ended."""

    def __init__(self, ledger: Ledger) -> None:
        connection = ledger._store.take()  # the only one of a ledger that one thread uses
        self._cursor, connection.cursor = connection.cursor, self
        ledger._store._idle.append(connection)
        self.spans: list[tuple[float, float]] = []

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        start = time.perf_counter()
        found = self._cursor.execute(statement, values)
        self.spans.append((start, time.perf_counter()))
        return found

    def parts(self, work: Callable[[], Any]) -> tuple[list[float], Any]:
        """Return the seconds before the first statement, between them, within them and after the last; the outcome."""
        self.spans.clear()
        start = time.perf_counter()
        outcome = work()
        end = time.perf_counter()
        within = sum(last - first for first, last in self.spans)
        begun, durable = self.spans[0][0], self.spans[-1][1]
        return [begun - start, durable - begun - within, within, end - durable], outcome


def release(ledger: Ledger, budget: Budget) -> None:
    right = ledger.reserve(budget, PROFILE, REQUEST, who="ada")
    assert isinstance(right, Reservation)
    right.touch()
    ledger.commit(right, VALUE)


def where_it_goes(folder: Path, releases: int) -> None:
    """Show what each part of a transaction takes: SQLite's of it by hand, in turns, and ours between the statements."""
    with Ledger(folder / "parts.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", ZeroConcentratedDP(1.0), n=1000, schema={"smoker": "boolean"})
        release(ledger, budget)
        rows, tables = _written(folder / "parts.ledger")
        peers = [Bare(folder / "1.db"), ByHand(folder / "2.db", tables, indexes=False), ByHand(folder / "3.db", tables)]
        traced, parts = Traced(ledger), list[list[float]]()

        def one() -> None:
            reserved, right = traced.parts(lambda: ledger.reserve(budget, PROFILE, REQUEST, who="ada"))
            right.touch()
            committed, _ = traced.parts(lambda: ledger.commit(right, VALUE))
            parts.append([sum(both) for both in zip(reserved, committed, strict=True)])

        taken, _ = _in_turns([one, *(functools.partial(_both, peer, rows) for peer in peers)], releases)
    for peer in peers:
        peer.close()
    _, bare, head, hand = (1e6 * statistics.median(one) / 2 for one in taken)
    before, between, within, after = (1e6 * statistics.median(one) / 2 for one in zip(*parts, strict=True))
    whole = before + between + within + after
    lines = [
        ("SQLite: a bare insert, durable", bare, bare),
        ("the head, moved: a page more", head - bare, head),
        ("an index: a page more", hand - head, hand),
        ("the four statements within the ledger, beyond those by hand", within - hand, within),
        ("before: price, token, JSON of what is asked or said, the turn", before, within + before),
        ("between: a look at the file, the filter, JSON, a hash", between, within + before + between),
        ("after: a look at the folder, the turn, the note", after, whole),
    ]
    table = [[name, f"{took:.0f} µs", f"{upto:.0f} µs", f"{bare / upto:.2f}"] for name, took, upto in lines]
    show("Where one transaction goes", ["", "takes", "up to here", "bare / up to here"], table)


def _written(path: Path) -> tuple[list[tuple[object, ...]], list[str]]:
    """Return the rows of a ledger's last release, and what made its tables."""
    reader = sqlite3.connect(path)
    rows = reader.execute("SELECT * FROM sottovoce_events ORDER BY sequence DESC LIMIT 2").fetchall()[::-1]
    tables = [sql for (sql,) in reader.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")]
    reader.close()
    return rows, tables


def _together(ledger: Ledger, budget: Budget) -> float:
    """Return the seconds of a group of releases, each of whose two transactions they share."""
    start = time.perf_counter()
    asked = ledger.charge(budget, PROFILE, REQUEST)
    rights = ledger.write_all([ledger.reserving(asked, who="ada") for _ in range(GROUP)])
    ledger.write_all([committing(right, VALUE) for right in rights])
    return time.perf_counter() - start


def commits(folder: Path, releases: int) -> list[list[str]]:
    """Return what a transaction takes beside a bare one, in turns, of one thread and of some that wait together."""
    with Ledger(folder / "bench.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", ZeroConcentratedDP(1.0), n=1000, schema={"smoker": "boolean"})
        release(ledger, budget)
        rows, _ = _written(folder / "bench.ledger")
        peer = Bare(folder / "bare.db")
        taken, busy = _in_turns([lambda: release(ledger, budget), functools.partial(_both, peer, rows)], releases)
        group = [_together(ledger, budget) for _ in range(releases // GROUP)]
    peer.close()
    (mine, bare), many = (statistics.median(one) for one in taken), statistics.median(group) / GROUP
    return [
        _beside("one thread, time of one", mine, bare, releases=1),
        _beside(f"{GROUP} that wait together, time of one", many, bare, releases=1),
        _beside("one thread, processor time of one", *busy, releases=releases),
    ]


def _beside(name: str, mine: float, bare: float, *, releases: int) -> list[str]:
    """Return a row of what two transactions of each of so many releases took."""
    told = [f"{1e6 * seconds / 2 / releases:,.0f} µs" for seconds in (mine, bare)]
    return [name, *told, f"{bare / mine:.2f}", _judged(bare / mine)]


def _judged(ratio: float) -> str:
    return "met" if ratio >= WANTED else "**missed**"


def at_once(folder: Path, releases: int) -> list[str]:
    """Return how many transactions a second threads make at once, three times, beside one thread that inserts."""
    with Ledger(folder / "crowd.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", ZeroConcentratedDP(1.0), n=1000, schema={"smoker": "boolean"})
        release(ledger, budget)
        rows, _ = _written(folder / "crowd.ledger")
        Bare(folder / "crowd.db").close()

        def spend(times: int) -> None:
            for _ in range(times):
                release(ledger, budget)

        def insert(times: int) -> None:
            peer = Bare(folder / "crowd.db")
            for _ in range(times):
                _both(peer, rows)
            peer.close()

        rates = []
        for _ in range(3):
            mine, start = _with_threads(spend, releases), time.perf_counter()
            insert(GROUP * releases)
            rates.append([2 * GROUP * releases / one for one in (mine, time.perf_counter() - start)])
    told = [", ".join(f"{one:,.0f}" for one in each) for each in zip(*rates, strict=True)]
    ratios = [mine / bare for mine, bare in rates]
    name = f"{GROUP} threads at once, transactions a second"
    return [name, *told, ", ".join(f"{one:.2f}" for one in ratios), _judged(min(ratios))]


def _with_threads(work: Callable[[int], None], times: int) -> float:
    threads = [threading.Thread(target=work, args=(times,)) for _ in range(GROUP)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def _both(peer: Bare, rows: list[tuple[object, ...]]) -> None:
    for row in rows:
        peer.write(row)


def _in_turns(works: list[Callable[[], None]], times: int) -> tuple[list[list[float]], list[float]]:
    """Return the seconds that each of some works took each time, and its processor seconds in all."""
    taken, busy = [[0.0] * times for _ in works], [0.0] * len(works)
    for turn in range(times):
        for i, work in enumerate(works):
            clock, start = time.thread_time(), time.perf_counter()
            work()
            taken[i][turn] = time.perf_counter() - start
            busy[i] += time.thread_time() - clock
    return taken, busy


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
        rows = [*commits(Path(folder), 300 if quick else 3000), at_once(Path(folder), 20 if quick else 200)]
        note = "Medians of releases of two durable transactions each, in turns. Ratios count and not times."
        title = f"Durable transactions beside bare SQLite (wanted: {WANTED} times as many)"
        show(title, ["", "ledger", "bare SQLite", "times as many", ""], rows, note)
        where_it_goes(Path(folder), 300 if quick else 3000)
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
