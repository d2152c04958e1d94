"""Lines of long public work: one at a time a caller, bounded, given up when nobody waits, no hindrance to the end."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sottovoce.faces.client.errors import CallerLeft, ServerStopping, TooManyRequests
from sottovoce.faces.server.work_queue import WorkQueue, breathe, while_there
from sottovoce.service.ledger import Ledger
from support.crowd import RunningServer, until_listening
from support.nursery import born
from support.offices import SMOKERS, bearer, served, token_for, write_office
from support.ports import free_port

PATIENCE = 60.0
PLAN = {name: SMOKERS[name] for name in ("system", "target", "column")}


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(PATIENCE):
            await story()

    asyncio.run(told())


class Jobs:
    """Jobs that are held by name, and the order in which they began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.free: dict[str, threading.Event] = {}
        self._turn = threading.Condition()

    def __call__(self, name: str) -> str:
        with self._turn:
            self.begun.append(name)
            free = self.free.setdefault(name, threading.Event())
            self._turn.notify_all()
        assert free.wait(PATIENCE)
        breathe()
        return name

    def let(self, *names: str) -> None:
        for name in names:
            self.free.setdefault(name, threading.Event()).set()

    async def begins(self, name: str) -> None:
        def wait() -> None:
            with self._turn:
                assert self._turn.wait_for(lambda: name in self.begun, PATIENCE)

        await asyncio.to_thread(wait)


def test_a_caller_has_one_job_at_a_time_and_others_do_not_wait_for_it() -> None:
    async def story() -> None:
        line, jobs = WorkQueue(3, 64), Jobs()
        tasks = [asyncio.create_task(line.run("ada", jobs, f"ada {i}")) for i in range(3)]
        await jobs.begins("ada 0")
        tasks.append(asyncio.create_task(line.run("bob", jobs, "bob 0")))
        await jobs.begins("bob 0")
        assert jobs.begun == ["ada 0", "bob 0"]  # two threads are free, and Ada's others wait all the same
        jobs.let("ada 0")
        await jobs.begins("ada 1")
        jobs.let("ada 1", "ada 2", "bob 0")
        assert await asyncio.gather(*tasks) == ["ada 0", "ada 1", "ada 2", "bob 0"]
        while line._jobs:  # a thread forgets its job a moment after it told the outcome
            await asyncio.sleep(0.001)
        line.close()

    run(story)


def test_the_line_is_bounded_for_each_and_for_all() -> None:
    async def story() -> None:
        line, jobs = WorkQueue(1, 10), Jobs()
        tasks = [asyncio.create_task(line.run("ada", jobs, f"ada {i}")) for i in range(8)]
        await jobs.begins("ada 0")
        with pytest.raises(TooManyRequests):
            await line.run("ada", jobs, "one more")
        tasks += [asyncio.create_task(line.run(name, jobs, name)) for name in ("bob", "carol")]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await line.run("dora", jobs, "dora")
        jobs.let(*(f"ada {i}" for i in range(8)), "bob", "carol")
        await asyncio.gather(*tasks)
        assert "one more" not in jobs.begun and "dora" not in jobs.begun
        line.close()

    run(story)


def test_who_hangs_up_leaves_the_line_and_stops_what_is_under_way() -> None:
    async def story() -> None:
        line, jobs, ended = WorkQueue(1, 64), Jobs(), threading.Event()

        def watched(name: str) -> None:
            try:
                jobs(name)
            except CallerLeft:
                ended.set()
                raise

        tasks = [asyncio.create_task(line.run("ada", watched, f"ada {i}")) for i in range(3)]
        await jobs.begins("ada 0")
        for task in tasks[:2]:
            task.cancel()
        await asyncio.gather(*tasks[:2], return_exceptions=True)
        jobs.let("ada 0", "ada 2")
        await tasks[2]
        assert jobs.begun == ["ada 0", "ada 2"]
        assert ended.is_set()
        line.close()

    run(story)


def test_when_it_stops_everyone_is_told_and_nobody_is_waited_for() -> None:
    async def story() -> None:
        line, jobs = WorkQueue(1, 64), Jobs()
        tasks = [asyncio.create_task(line.run("ada", jobs, f"ada {i}")) for i in range(2)]
        await jobs.begins("ada 0")
        line.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ServerStopping, ServerStopping]
        with pytest.raises(ServerStopping):
            await line.run("ada", jobs, "late")
        assert all(thread.daemon for thread in line._threads)
        jobs.let("ada 0", "ada 1")
        for thread in line._threads:
            await asyncio.to_thread(thread.join, PATIENCE)
        assert jobs.begun == ["ada 0"]

    run(story)


def test_a_failure_is_told_and_the_line_goes_on() -> None:
    async def story() -> None:
        line = WorkQueue(1, 64)
        with pytest.raises(ZeroDivisionError):
            await line.run("ada", lambda: 1 / 0)
        assert await line.run("ada", lambda: 3) == 3
        line.close()

    run(story)


@pytest.mark.parametrize("stays", [True, False])
def test_work_goes_on_while_the_caller_is_there(stays: bool) -> None:
    async def story() -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        messages.put_nowait({"type": "http.request"})
        ended: list[str] = []

        async def work() -> str:
            try:
                await asyncio.sleep(0 if stays else PATIENCE)
            except asyncio.CancelledError:
                ended.append("given up")
                raise
            return "done"

        task = asyncio.create_task(while_there(messages.get, work()))
        if stays:
            assert await task == "done"
        else:
            messages.put_nowait({"type": "http.disconnect"})
            with pytest.raises(CallerLeft):
                await task
        assert ended == ([] if stays else ["given up"])

    run(story)


@pytest.mark.parametrize("face", ["api", "page"])
def test_a_plan_ends_with_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, face: str) -> None:
    """The caller hangs up while the first mechanism is calibrated; the second is never begun."""
    from sottovoce.faces.server import plans
    from support.visitors import Visitor

    begun, free, names = threading.Event(), threading.Event(), list[str]()
    real = plans.calibrated

    def calibrated(name: str, *arguments: Any) -> Any:
        names.append(name)
        begun.set()
        assert free.wait(PATIENCE)
        return real(name, *arguments)

    left, over = threading.Event(), threading.Event()
    leave, follow = WorkQueue._leave, WorkQueue._follow
    config = write_office(tmp_path)
    with served(config) as client:
        token = token_for(config)
        body, more = json.dumps(PLAN).encode(), f"Authorization: Bearer {token}\r\nContent-Type: application/json"
        path = "/api/v1/datasets/patients/plan"
        if face == "page":
            visitor = Visitor(client)
            visitor.log_in(token)
            body = str(httpx.QueryParams(visitor.fields())).encode()
            more = f"Cookie: sottovoce-session={client.cookies['sottovoce-session']}\r\nX-Plan: whole"
            path = "/data/patients/plan"
        monkeypatch.setattr(plans, "calibrated", calibrated)
        monkeypatch.setattr(WorkQueue, "_leave", lambda self, job: leave(self, job) or left.set())
        monkeypatch.setattr(WorkQueue, "_follow", lambda self, job: follow(self, job) or over.set())
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as line:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{more}\r\nContent-Length: {len(body)}\r\n\r\n"
            line.sendall(head.encode() + body)
            assert begun.wait(PATIENCE)
        assert left.wait(PATIENCE)
        free.set()
        assert over.wait(PATIENCE)
    assert len(names) == 1


STUCK = """
import sys, time
from sottovoce.faces.server.config import read_config
from sottovoce.faces.server import {module}
from sottovoce.faces.server.running import serve
def stuck(*arguments, **options):
    print("stuck", file=sys.stderr, flush=True)
    time.sleep(600)
{module}.{name} = stuck
serve(read_config(sys.argv[1]))
"""


@pytest.mark.parametrize("hung", ["a plan", "an answer"])
def test_told_to_stop_it_ends_within_its_grace(tmp_path: Path, hung: str) -> None:
    """A plan is given up at once, its caller told; an answer that never comes is cut off when the grace is over."""
    port, grace = free_port(), 60 if hung == "a plan" else 1
    config = write_office(tmp_path, server=f"port = {port}\ngrace = {grace}")
    where = {"a plan": ("service", "choice_of"), "an answer": ("datasets._Remembered", "read")}[hung]
    script = STUCK.format(module=where[0], name=where[1]).replace("import datasets._Remembered", "import datasets")
    log, outcome = tmp_path / "log", list[httpx.Response | Exception]()
    headers, verb = bearer(token_for(config)), "plan" if hung == "a plan" else "ask"

    def send() -> None:
        try:
            address = f"http://127.0.0.1:{port}/api/v1/datasets/patients/{verb}"
            outcome.append(httpx.post(address, headers=headers, json=PLAN, timeout=600, verify=False))
        except httpx.HTTPError as error:
            outcome.append(error)

    def until(word: bytes) -> None:
        deadline = time.monotonic() + 120
        while word not in log.read_bytes():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)

    log.touch()
    process = born(script, config.path, out=log)
    try:
        until_listening(RunningServer(process, port), log)
        thread = threading.Thread(target=send)
        thread.start()
        until(b"stuck")
        told = time.monotonic()
        process.terminate()
        process.wait(timeout=grace + 60)  # the work itself would take ten minutes
        took = time.monotonic() - told
        thread.join(PATIENCE)
    finally:
        process.kill()
    if hung == "a plan":
        assert isinstance(outcome[0], httpx.Response) and outcome[0].status_code == 503
        assert outcome[0].json()["type"] == "urn:sottovoce:server-stopping"
        assert took < grace  # at once, and not when the grace is over
    with Ledger(config.ledger) as ledger:
        assert [str(entry.state) for entry in ledger.entries()] == ([] if hung == "a plan" else ["pending"])
