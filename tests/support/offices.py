"""A small office to serve: a table of patients, a configuration, tokens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from sottovoce.faces.server.app import create_app
from sottovoce.faces.server.config import Config, read_config
from sottovoce.faces.server.tokens import SCOPES, Tokens
from sottovoce.service.ledger import Ledger

__all__ = ["BETA", "SMOKERS", "N", "ask", "bearer", "patients", "served", "token_for", "under_way", "write_office"]

N = 400
BETA = {"kind": "beta-bernoulli", "alpha": 6, "beta": 12}
SMOKERS: dict[str, Any] = {"system": BETA, "target": "renyi:8,0.05", "column": "smoker"}


@functools.cache
def patients() -> pa.Table:
    """Return the table. Its numbers are odd on purpose: they are easy to find where they must not be."""
    return pa.table(
        {
            "smoker": [i % 4 == 0 for i in range(N)],
            "age": [20 + (37 * i) % 61 for i in range(N)],
            "visits": [i % 5 for i in range(N)],
            "wait": [0.25 + (i % 13) / 10 for i in range(N)],
            "ward": [("N", "S", "E")[i % 3] for i in range(N)],
            "x": [((i * 7) % 11 - 5) / 10 for i in range(N)],
            "y": [((i * 5) % 7 - 3) / 10 for i in range(N)],
            "secret": [f"Smith-{i}" for i in range(N)],
        }
    )


@functools.cache
def _written(*columns: str) -> bytes:
    """Return a file of the table, made once: columns of it, or all."""
    file = io.BytesIO()
    pq.write_table(patients().select(list(columns) or patients().column_names), file)
    return file.getvalue()


def write_office(
    folder: Path,
    *,
    whole: str = "approx:4,1e-6",
    each: str = "approx:2,1e-6",
    server: str = "",
    limits: str = "answer_grid = 0.005",
    ledger: str = "server.ledger",
    tokens: str = "server.tokens",
) -> Config:
    """Write the data and the configuration, and return it as read."""
    (folder / "patients.parquet").write_bytes(_written())
    (folder / "staff.parquet").write_bytes(_written("smoker", "secret"))
    path, order = folder / "server.toml", "order = 8" if whole.startswith("approx") else ""
    path.write_text(
        f"""
[server]
title = "The test office"
ledger = "{ledger}"
tokens = "{tokens}"
{server}

[limits]
{limits}

[datasets.patients]
source = "patients.parquet"
title = "Patients"
budget = "{whole}"
{order}
[datasets.patients.columns.smoker]
kind = "flag"
[datasets.patients.columns.age]
kind = "number"
low = 0
high = 100
[datasets.patients.columns.visits]
kind = "count"
high = 10
[datasets.patients.columns.wait]
kind = "number"
low = 0
high = 2.5
[datasets.patients.columns.ward]
kind = "category"
categories = ["N", "S", "E"]
[datasets.patients.columns.place]
kind = "vector"
of = ["x", "y"]
radius = 1.0

[datasets.staff]
source = "staff.parquet"
budget = "pure:1"
conditions = false
mechanisms = ["tempered", "laplace"]
[datasets.staff.columns.smoker]
kind = "flag"

[analysts.ada]
title = "Ada"
budgets = {{ patients = "{each}", staff = "pure:0.5" }}
[analysts.bob]
budgets = {{ patients = "{each}" }}
[analysts.carol]
budgets = {{ patients = "{each}" }}
""",
        encoding="utf-8",
    )
    return read_config(path)


def token_for(config: Config, analyst: str = "ada", *scopes: str, datasets: tuple[str, ...] = ()) -> str:
    """Return the text of a new token, with every scope but admin unless some are named."""
    with Tokens(config.tokens) as tokens:
        return tokens.create(analyst, scopes or SCOPES[:3], datasets)[1]


class _Prompt(uvicorn.Server):
    """Ends as Uvicorn does, but when it is told to: that looks ten times a second, and then waits a tenth anyway."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self.loop, self.told = asyncio.get_running_loop(), asyncio.Event()
        self.ready.set()
        await self.told.wait()

    def end(self) -> None:
        """Say from another thread that it should end."""
        self.loop.call_soon_threadsafe(self.told.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(0.001)
        await self.lifespan.shutdown()


@contextlib.contextmanager
def served(config: Config, door: socket.socket | None = None) -> Iterator[httpx.Client]:
    """Serve a configuration until the block ends: on a free port, or at a door that others were served at."""
    app = create_app(config)
    settings = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, server_header=False)
    server = _Prompt(settings)
    thread = threading.Thread(target=server.run, args=([door.dup()] if door else None,))
    thread.start()
    while not server.ready.wait(0.1):
        assert thread.is_alive()
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        # Nothing here is encrypted, and reading the certificates of this machine takes longer than most tests.
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False) as client:
            yield client
    finally:
        server.end()
        thread.join()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def ask(client: httpx.Client, headers: dict[str, str], **changes: Any) -> httpx.Response:
    return client.post("/api/v1/datasets/patients/ask", headers=headers, json=SMOKERS | changes)


def under_way(config: Config, asking: Callable[[], httpx.Response]) -> Callable[[], httpx.Response]:
    """Ask in a thread and return once the ledger has the question, on whose answer the returned function waits."""
    outcome: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: outcome.append(asking()))
    thread.start()
    with Ledger(config.ledger) as ledger:
        while thread.is_alive() and not ledger.pending():
            time.sleep(0.01)

    def answer() -> httpx.Response:
        thread.join()
        return outcome[0]

    return answer
