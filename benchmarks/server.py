"""The server under a crowd: answers a second and their 99th percentile beside a bare FastAPI endpoint.

    python benchmarks/server.py [--quick]

The peer is a FastAPI endpoint that reads the same JSON body and does one durable insert (SQLite, write-ahead log,
synchronous=FULL), on one thread, served by the same Uvicorn to the same clients on the same machine. An answer of ours
takes two durable transactions, the reserve before the data is read and the commit before it is told, checks a token,
applies two privacy filters, draws, signs a receipt and reads the ledger back. The grid of answering times is set to
5 ms here, so that it does not hide the work.

Then the rules: a budget for exactly N answers, clients with the tokens of three analysts, two processes, one of them
killed with SIGKILL half way. Each line was verified: exactly N granted, none twice, every answer told is the one that
was recorded; what the killed process had under way is pending, counts as spent, and was told to nobody.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.timing import show
from sottovoce.server.config import Config
from support.crowd import Outcome, crowd, running
from support.offices import SMOKERS, token_for, write_office
from support.postgres import running_server, why_no_server

LIMITS = "answer_grid = 0.005\naddress_requests_per_minute = 1e9\nrequests_per_minute = 1e9\nthreads = 8"
ANALYSTS = ("ada", "bob", "carol")
BARE = """
import asyncio, json, sqlite3, sys, uvicorn
from concurrent.futures import ThreadPoolExecutor
from fastapi import FastAPI, Request
store = sqlite3.connect(sys.argv[1] + ".bare", isolation_level=None, check_same_thread=False)
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


def row(name: str, outcome: Outcome, per_second: float) -> list[str]:
    spread = statistics.quantiles(outcome.seconds, n=100)
    rate = outcome.told["answered"] / outcome.took
    return [name, f"{rate:,.0f}", f"{1000 * spread[49]:,.0f}", f"{1000 * spread[98]:,.0f}", f"{rate / per_second:.2f}"]


def speed(folder: Path, *, clients: int, seconds: float) -> None:
    """Print answers a second and percentiles, ours and the bare endpoint's."""
    rows = []
    (folder / "bare").mkdir()
    config, tokens = office(folder / "bare", 10)
    with running(config, script=BARE) as servers:
        bare = crowd(servers, tokens, SMOKERS, clients=clients, seconds=seconds, path="/ask")
    per_second = bare.told["answered"] / bare.took
    rows.append(row("bare FastAPI, one durable insert", bare, per_second))
    for processes in (1, 2):
        place = folder / f"speed{processes}"
        place.mkdir()
        config, tokens = office(place, 10**6)
        with running(config, processes) as servers:
            ours = crowd(servers, tokens, SMOKERS, clients=clients, seconds=seconds)
        rows.append(row(f"sottovoce serve, {processes} process{'es' * (processes > 1)}, SQLite", ours, per_second))
    columns = ("", "answers a second", "median ms", "p99 ms", "ratio to bare")
    show(f"{clients} clients for {seconds:g} s on loopback", columns, rows)


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
