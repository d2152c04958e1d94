"""200 questions to a PostgreSQL that is ended, restarted and written to meanwhile: what is charged and has no answer.

A keeper ends all connections (`pg_terminate_backend`), stops and starts the whole server, and inserts rows, at random
moments, while proportions, means, quantiles and regressions are asked of a table that grows. Where a question is
refused it is asked again; where its records stay away after it was charged, it is finished.

    PYTHONPATH=tests python -m benchmarks.sources_that_fail
"""

from __future__ import annotations

import argparse
import collections
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.timing import show
from sottovoce.privacy.errors import InvalidData, SourceLost, SourceUnavailable
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag, Number
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import State
from support.postgres import PostgresServer, running_server

FACTS = Facts(smoker=Flag(), age=Number(0, 100))
KINDS = (
    lambda curator: curator.proportion("smoker", spend=0.001),
    lambda curator: curator.mean("age", by="smoker", spend=0.001),
    lambda curator: curator.quantiles("age", at=[0.5], spend=0.002),
    lambda curator: curator.regress("smoker ~ age", spend=0.005),
)
ROWS, PIECE = 2_000, 25
PAUSE = 2.0
"""Seconds between two doings of the keeper, in the mean: so many questions take on two slow cores."""
DOWN = 0.5
"""Seconds that the server stays stopped, at most, beside what starting it takes."""


class Keeper(threading.Thread):
    """Who ends, restarts and fills a database at random moments, until told to stop."""

    def __init__(self, server: PostgresServer, url: str, rows: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.done, self.counts, self._rows = threading.Event(), collections.Counter[str](), rows
        self._server, self._url, self._rng = server, url, seeded_rng(seed)

    def run(self) -> None:
        """Do something at random, again and again; all rows are inserted in the end."""
        while not self.done.wait(float(self._rng.exponential(PAUSE))):
            word = str(self._rng.choice(["ended", "restarted", "inserted"], p=[0.4, 0.1, 0.5]))
            if word == "inserted" and self.counts["rows"] >= self._rows:
                continue
            getattr(self, f"_{word}")()
            self.counts[word] += 1
        while self.counts["rows"] < self._rows:
            self._inserted()

    def _ended(self) -> None:
        name = self._url.rsplit("/", 1)[1]
        asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        execute(self._server.url(scheme="postgresql"), asked, [name])

    def _restarted(self) -> None:
        self._server.stop()
        time.sleep(float(self._rng.uniform(0, DOWN)))
        self._server.start()

    def _inserted(self) -> None:
        fill(self._url, PIECE)
        self.counts["rows"] += PIECE


def execute(url: str, statement: str, values: list[Any] | None = None) -> None:
    """Run a statement on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, values)


def fill(url: str, rows: int) -> None:
    """Insert rows."""
    execute(url, f"INSERT INTO visits SELECT i % 3 = 0, i % 90 FROM generate_series(1, {rows}) AS t(i)")


def ask(curator: Curator, kind: Any, counts: collections.Counter[str]) -> None:
    """Ask until there is an answer: again where nothing was charged, to its end where it was."""
    while True:
        try:
            return kind(curator)
        except SourceLost:
            (waiting,) = (entry for entry in curator.pending() if entry.unread)
            counts["left unread"] += 1
            return finish(curator, waiting.id, counts)
        except (SourceUnavailable, InvalidData):
            counts["refused"] += 1
            time.sleep(PAUSE / 20)


def finish(curator: Curator, entry: int, counts: collections.Counter[str]) -> None:
    """Finish an entry once the database is back, as it was; where rows came meanwhile it is of no version any more."""
    while True:
        try:
            curator.finish(entry)
        except SourceUnavailable:
            time.sleep(PAUSE / 20)
        except (InvalidData, ValueError) as error:
            counts["rows came meanwhile"] += 1
            curator._ledger.recover(entry, note=str(error)[:200])
            return
        else:
            counts["finished"] += 1
            return


def main(quick: bool = False, seed: int = 0) -> collections.Counter[str]:
    """Ask, and show what became of every charge."""
    questions, rows = (20, 50) if quick else (200, 500)
    counts: collections.Counter[str] = collections.Counter()
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        url = server.url(server.create_database(), scheme="postgresql")
        execute(url, "CREATE TABLE visits (smoker boolean, age double precision)")
        fill(url, ROWS)
        source, ledger, budget = f"{url}?table=visits", Path(folder) / "ledger", ApproxDP(1.0, 1e-6)
        with Curator(source, ledger, budget, facts=FACTS, grows=True) as curator:
            keeper = Keeper(server, url, rows, seed)
            keeper.start()
            for number in range(questions):
                ask(curator, KINDS[number % len(KINDS)], counts)
            keeper.done.set()
            keeper.join()
            curator.refresh()
            assert curator.n == ROWS + rows
            entries = curator.history()
            states = collections.Counter(str(entry.state) for entry in entries)
            counts.update(f"lost, {entry.note}" for entry in entries if entry.state is State.LOST)
            curator._ledger.verify()
    counts |= keeper.counts | collections.Counter({f"entries {word}": count for word, count in states.items()})
    counts["charged without an answer"] = states[str(State.LOST)] + states[str(State.PENDING)]
    rows_shown = [(word, str(count)) for word, count in sorted(counts.items())]
    show(f"{questions} questions to a PostgreSQL that fails", ("what", "how often"), rows_shown)
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    main(quick=asked.quick, seed=asked.seed)
