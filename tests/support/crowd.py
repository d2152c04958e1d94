"""A crowd of clients on a server of several processes, any of which may be killed, and what must hold afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sottovoce
from sottovoce.faces.server.config import Config
from sottovoce.service.ledger import Ledger, State
from sottovoce.service.ledger.hash_chain import canonical, digest
from support.nursery import Born, born
from support.ports import free_port

__all__ = ["Outcome", "RunningServer", "crowd", "running", "until_listening"]

_RUN = (
    "import dataclasses, sys; from sottovoce.faces.server.config import read_config; "
    "from sottovoce.faces.server.running import serve; "
    "serve(dataclasses.replace(read_config(sys.argv[1]), port=int(sys.argv[2])))"
)


@dataclass(frozen=True)
class RunningServer:
    """A server in a process of its own."""

    process: subprocess.Popen[bytes] | Born
    port: int


@contextlib.contextmanager
def running(
    config: Config, count: int = 1, script: str = _RUN, cores: Sequence[set[int]] = ()
) -> Iterator[list[RunningServer]]:
    """Run so many server processes of one office, each on its own port and cores, until the block ends."""
    environment = os.environ | {"PYTHONPATH": str(Path(sottovoce.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    servers: list[RunningServer] = []
    with config.path.with_suffix(".log").open("wb") as log:
        try:
            for i in range(count):
                port = free_port()
                if not cores:
                    servers.append(RunningServer(born(script, config.path, port, out=Path(log.name)), port))
                    continue
                command = ["taskset", "-c", ",".join(map(str, sorted(cores[i])))]
                command += [sys.executable, "-c", script, str(config.path), str(port)]
                process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
                servers.append(RunningServer(process, port))
            for server in servers:
                until_listening(server, Path(log.name))
            yield servers
        finally:
            for server in servers:
                server.process.terminate()
            for server in servers:
                server.process.wait(timeout=60)


def until_listening(server: RunningServer, log: Path) -> None:
    """Wait until a server takes connections; that it has started is told a moment before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", server.port)).close()
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-2000:]}")


class _Line(asyncio.Protocol):
    """One kept-alive connection; as little client as possible, so that the server is what is measured.

    A line that broke is opened anew to the next port.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._come = b""

    async def send(self, request: bytes) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, "127.0.0.1", next(self._ports))
        assert self._transport is not None
        self._answer, self._come = loop.create_future(), b""
        self._transport.write(request)
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._come += data
        head, end, body = self._come.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) == length and self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server hung up"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None


@dataclass
class Outcome:
    """What the clients were told."""

    answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    took: float = 0.0

    def check(self, config: Config, covers: int) -> dict[str, int]:
        """Check that exactly `covers` answers were granted, none twice, and that what was told is what was recorded."""
        with Ledger(config.ledger) as ledger:
            ledger.verify()
            whole, entries = ledger.budget("patients"), {e.id: e for e in ledger.entries("patients")}
            states = Counter(str(entry.state) for entry in entries.values())
            assert sum(1 for entry in entries.values() if entry.counts) == covers, states
            assert ledger.spent(whole) <= whole.limit
        assert self.told["answered"] == len(self.answers), "an entry was told to two clients"
        for number, release in self.answers.items():
            assert entries[number].state is State.COMMITTED
            assert entries[number].value_hash == digest(canonical(release))
        keys = Counter(entry.key for entry in entries.values())
        assert max(keys.values()) == 1
        return {"committed": states["committed"], "pending": states["pending"], "told": len(self.answers)}


def crowd(
    servers: Sequence[RunningServer],
    tokens: Sequence[str],
    body: dict[str, Any],
    *,
    clients: int,
    seconds: float = 600.0,
    path: str = "/api/v1/datasets/patients/ask",
    kill_after: int | None = None,
    name: str = "",
    keep: bool = True,
) -> Outcome:
    """Let clients ask until they are refused or the time is over; one whose line breaks asks again under its key.

    After `kill_after` answers the first server is killed with SIGKILL. Keys begin with `name`. Without `keep`, answers
    are counted and not read.
    """
    outcome, start = Outcome(), time.monotonic()
    ports = [server.port for server in servers]

    async def client(number: int) -> None:
        line, count = _Line(ports[number % len(ports) :] + ports[: number % len(ports)]), 0
        content = json.dumps(body)
        while time.monotonic() - start < seconds:
            count += 1
            head = (
                f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tokens[number % len(tokens)]}\r\n"
                f"Content-Type: application/json\r\nIdempotency-Key: {name}{number}-{count}\r\n"
                f"Content-Length: {len(content)}\r\n\r\n{content}"
            )
            if not await attempt(line, head.encode()):
                break
        line.close()

    async def attempt(line: _Line, request: bytes) -> bool:
        """Ask once, and again while nobody answers; say whether to go on."""
        while True:
            before = time.monotonic()
            try:
                status, content = await line.send(request)
            except OSError:
                outcome.told["broken"] += 1
                await asyncio.sleep(0.1)
                continue
            outcome.seconds.append(time.monotonic() - before)
            if status == 200:
                outcome.told["answered"] += 1
                if outcome.told["answered"] == kill_after:
                    servers[0].process.kill()
                if keep:
                    told = json.loads(content)
                    outcome.answers[told["entry"]] = told["release"]
                return True
            told = json.loads(content)
            kind = str(told.get("type", status)).rpartition(":")[2]
            outcome.told[kind] += 1
            if kind == "entry-pending" and outcome.told["broken"] == 0:
                raise AssertionError("a key that nobody used is pending")
            return kind == "entry-pending"  # its worker was killed: the entry is spent, and the client goes on

    async def all_clients() -> None:
        await asyncio.gather(*(client(number) for number in range(clients)))

    asyncio.run(all_clients())
    outcome.took = time.monotonic() - start
    return outcome
