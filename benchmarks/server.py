"""The server under a crowd: answers a second and their 99th percentile beside a bare FastAPI endpoint.

    python benchmarks/server.py [--quick]

The peer is a FastAPI endpoint that reads the same JSON body and does one durable insert (SQLite, write-ahead log,
synchronous=FULL), on one thread, served by the same Uvicorn to the same clients on the same machine. An answer of ours
takes two durable transactions, the reserve before the data is read and the commit before it is told, checks a token,
applies two privacy filters, draws and signs a receipt. The grid of answering times is set to 5 ms here, so that it does
not hide the work. Where there are cores enough, each server process has two of its own, and so has each of the four
processes that the clients are in; elsewhere they share what there is. Then no number of processes answers more than the
cores divided by what an answer takes of them, the client's share included: the last column says how many were busy with
the race, and two bare processes, each with a file of its own, how far such cores go for processes that wait for nothing
of each other's.

Then the rules: a budget for exactly N answers, clients with the tokens of three analysts, two processes, one of them
killed with SIGKILL half way. Each line was verified: exactly N granted, none twice, every answer told is the one that
was recorded; what the killed process had under way is pending, counts as spent, and was told to nobody.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.timing import show
from sottovoce.faces.server.config import Config
from support.crowd import Outcome, RunningServer, crowd, running
from support.offices import SMOKERS, token_for, write_office
from support.postgres import running_server, why_no_server

LIMITS = "answer_grid = 0.005\naddress_requests_per_minute = 1e9\nrequests_per_minute = 1e9\nthreads = 8"
ANALYSTS = ("ada", "bob", "carol")
CORES = sorted(os.sched_getaffinity(0))
APART = len(CORES) >= 12
PARTIES = 4 if APART else 1
PLACES = range(PARTIES)
OF_SERVERS = [set(CORES[:2]), set(CORES[2:4])] if APART else []
BARE = """
import asyncio, json, sqlite3, sys, uvicorn
from concurrent.futures import ThreadPoolExecutor
from fastapi import FastAPI, Request
store = sqlite3.connect(f"{sys.argv[1]}-{sys.argv[2]}.bare", isolation_level=None, check_same_thread=False)
store.execute("PRAGMA journal_mode=WAL")
store.execute("PRAGMA synchronous=FULL")
store.execute("CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, body TEXT)")
thread, app = ThreadPoolExecutor(1), FastAPI()
def insert(body):
    store.execute("BEGIN IMMEDIATE")
    store.execute("INSERT INTO events (body) VALUES (?)", (body,))
    store.execute("COMMIT")
@app.get("/health")
async def health():
    return {"status": "ok"}
@app.post("/ask")
async def ask(request: Request):
    body = await request.json()
    await asyncio.get_running_loop().run_in_executor(thread, insert, json.dumps(body))
    return {"answer": 0.5}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
"""


def office(folder: Path, covers: int, url: str | None = None) -> tuple[Config, list[str]]:
    """Return an office whose whole budget covers so many of the usual questions, and a token for each analyst."""
    budget = f"renyi:8,{covers * 0.05}"
    places = {} if url is None else {"ledger": url, "tokens": url}
    config = write_office(folder, whole=budget, each=budget, limits=LIMITS, **places)
    return config, [token_for(config, name) for name in ANALYSTS]


@dataclass(frozen=True)
class Measured:
    """What a crowd was told, and what answering and asking took of the processor."""

    outcome: Outcome
    busy: float
    asking: float

    @property
    def rate(self) -> float:
        return self.outcome.told["answered"] / self.outcome.took

    @property
    def each(self) -> float:
        """Milliseconds of processor time an answer."""
        return 1000 * self.busy / max(1, self.outcome.told["answered"])

    @property
    def cores(self) -> float:
        """How many cores servers and clients kept busy, on average."""
        return (self.busy + self.asking) / self.outcome.took

    @property
    def slow(self) -> float:
        """The 99th percentile of the milliseconds of an answer."""
        return 1000 * statistics.quantiles(self.outcome.seconds, n=100)[98]

    def row(self, name: str, bare: Measured, one: Measured) -> list[str]:
        ratios = [f"{self.rate / bare.rate:.2f}", f"{self.slow / bare.slow:.2f}", f"{self.rate / one.rate:.2f}"]
        return [name, f"{self.rate:,.0f}", f"{self.slow:,.0f}", *ratios, f"{self.each:.2f}", f"{self.cores:.2f}"]


def measured(servers: list[RunningServer], tokens: list[str], clients: int, seconds: float, **options: str) -> Measured:
    """Let a crowd loose for some seconds, after a moment in which the first questions are built."""
    with get_context("spawn").Pool(PARTIES) as pool:

        def loose(count: int, seconds: float, name: str) -> tuple[Outcome, float]:
            jobs = [
                (servers_at(servers, i), tokens, count // PARTIES, seconds, f"{name}{i}-", options, i) for i in PLACES
            ]
            outcomes, asking = zip(*pool.starmap(_party, jobs, chunksize=1), strict=True)
            return joined(outcomes), sum(asking)

        loose(2 * PARTIES, 1.0, "first")
        before = sum(_busy(server) for server in servers)
        outcome, asking = loose(clients, seconds, "timed")
        return Measured(outcome, sum(_busy(server) for server in servers) - before, asking)


@dataclass(frozen=True)
class _Place:
    """Where a server listens: all that a client in another process needs of it."""

    port: int


def servers_at(servers: list[RunningServer], turn: int) -> list[_Place]:
    """Return the servers, beginning with another one each turn."""
    ports = [server.port for server in servers]
    return [_Place(port) for port in ports[turn % len(ports) :] + ports[: turn % len(ports)]]


def _party(
    servers: Any, tokens: list[str], clients: int, seconds: float, name: str, options: dict[str, str], place: int
) -> tuple[Outcome, float]:
    """Return what some of the clients were told, and the processor seconds that they took themselves."""
    if APART:
        os.sched_setaffinity(0, set(CORES[-2 * (place + 1) :][:2]))
    before = time.process_time()
    told = crowd(servers, tokens, SMOKERS, clients=clients, seconds=seconds, name=name, keep=False, **options)
    return told, time.process_time() - before


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return what all parties were told."""
    told = sum((outcome.told for outcome in outcomes), Counter[str]())
    seconds = [one for outcome in outcomes for one in outcome.seconds]
    return Outcome(told=told, seconds=seconds, took=max(outcome.took for outcome in outcomes))


def _busy(server: RunningServer) -> float:
    """Return the processor seconds of a server's process so far."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def speed(folder: Path, *, clients: int, seconds: float) -> None:
    """Print answers a second and percentiles, ours and the bare endpoint's, of one process and of two."""

    def race(name: str, processes: int, script: str | None = None, **options: str) -> Measured:
        place = folder / f"{name}{processes}"
        place.mkdir()
        config, tokens = office(place, 10**6)
        scripts = {} if script is None else {"script": script}
        with running(config, processes, cores=OF_SERVERS, **scripts) as servers:
            return measured(servers, tokens, clients, seconds, **options)

    bare = [race("bare", processes, BARE, path="/ask") for processes in (1, 2)]
    ours = [race("ours", processes) for processes in (1, 2)]
    rows = [
        bare[0].row("bare FastAPI, one durable insert", bare[0], bare[0]),
        bare[1].row("the same, 2 processes, a file each", bare[0], bare[0]),
        ours[0].row("sottovoce serve, 1 process, SQLite", bare[0], ours[0]),
        ours[1].row("sottovoce serve, 2 processes, SQLite", bare[0], ours[0]),
    ]
    columns = ["", "answers a second", "p99 ms", "ratio to bare (wanted ≥ 0.6)", "p99 beside bare (wanted ≤ 1.5)"]
    columns += ["ratio to one process (wanted ≥ 1.6)", "processor ms each", "cores busy"]
    cores = "cores of their own" if APART else f"{len(CORES)} cores together"
    show(f"{clients} clients on loopback for {seconds:g} s, {cores}", columns, rows)


def exactly(folder: Path, *, clients: int, covers: int) -> None:
    """Print what two processes granted of a budget for exactly `covers` answers, one of them killed half way."""
    rows = []

    def run(name: str, url: str | None) -> None:
        for killed in (False, True):
            place = folder / f"{name}{killed}"
            place.mkdir()
            config, tokens = office(place, covers, None if url is None else database())
            with running(config, 2) as servers:
                limit = covers // 2 if killed else None
                outcome = crowd(servers, tokens, SMOKERS, clients=clients, kill_after=limit)
            found = outcome.check(config, covers)
            refused = outcome.told["budget-exceeded"]
            counts = [covers, found["told"], found["committed"], found["pending"], refused]
            rows.append([f"{name}{', one killed' * killed}", *map(str, counts), f"{outcome.took:.1f}"])

    def database() -> str:
        return server.url(server.create_database())

    run("SQLite", None)
    if reason := why_no_server():
        rows.append([f"PostgreSQL skipped: {reason}", *[""] * 6])
    else:
        with running_server(durable=True) as server:
            run("PostgreSQL", server.url())
    columns = ("two processes", "budget covers", "told", "committed", "pending (spent)", "refused", "seconds")
    show(f"Exactly N: {clients} clients of three analysts, every line verified", columns, rows)


def main(quick: bool = False) -> None:
    """Run both parts; small with `quick`."""
    logging.disable(logging.WARNING)  # the ledger names what a killed process left pending
    with tempfile.TemporaryDirectory() as folder:
        speed(Path(folder), clients=20 if quick else 200, seconds=5.0 if quick else 60.0)
        exactly(Path(folder), clients=20 if quick else 200, covers=100 if quick else 2000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small run")
    main(parser.parse_args().quick)
