"""Attacks on a server, through the door that analysts use, and faults that they must find."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from audit.faults import Patch, fault
from sottovoce.audit import AuditReport, audit
from sottovoce.audit.checks import CheckResult
from sottovoce.faces.server import read_config
from sottovoce.faces.server.pacing import TickGrid
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.service import Service
from sottovoce.mechanisms import DiffusedPosterior, DirectPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.promises import RenyiDP

__all__ = ["answers", "refusals"]

ANSWERS, REFUSALS = "audit of a server's answers", "a server refuses without waiting for hidden work"
SURE = 1 - 1e-5
"""The confidence of audits without a seed: of those an alarm is wrong once in 2·10⁷ times at the most."""
QUESTION = ServerQuestion(
    system={"kind": "beta-bernoulli", "alpha": 1, "beta": 1},
    target="renyi:8,0.5",
    column="smoker",
)
OFFICE = """
[limits]
answer_grid = 0.001
draws = 100000
threads = 1
[datasets.patients]
source = "patients.parquet"
budget = "renyi:8,1e9"
[datasets.patients.columns.smoker]
kind = "flag"
[analysts.eve]
budgets = { patients = "renyi:8,1e9" }
"""


@contextmanager
def _service(records: list[bool]) -> Iterator[tuple[Service, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({"smoker": records}), folder / "patients.parquet")
        (folder / "server.toml").write_text(OFFICE)
        with Service(read_config(folder / "server.toml")) as service:
            _, token = service.tokens.create("eve", ["read", "ask"])
            yield service, service.authenticate(token)


def answers() -> AuditReport:
    """Two servers, each with one of two neighbouring data sets, asked the same as an analyst asks."""

    claim = DiffusedPosterior.calibrate(BetaBernoulli(1, 1), n=3, target=RenyiDP(8, 0.5)).profile
    with asyncio.Runner() as loop, ExitStack() as opened:

        @cache
        def server(*records: int) -> tuple[Service, Any]:
            return opened.enter_context(_service([bool(x) for x in records]))

        def release(data: Any, rng: Any, draws: int) -> Any:
            service, eve = server(*data)
            told = loop.run(service.ask(eve, "patients", replace(QUESTION, draws=draws)))
            return told["release"]["value"]["answer"]

        return audit(release, ([0, 0, 0], [0, 0, 1]), claim, draws=6_000, seed=None, confidence=SURE, test="scan")


def refusals() -> CheckResult:
    """While one answer is being made, and makes up its mind no sooner, ask what must be refused."""
    begun, free, refused = threading.Event(), threading.Event(), list[bool]()

    async def story(service: Service, eve: Any) -> None:
        curator = service._datasets["patients"].curator
        make = curator.make_all

        def held(paid: Any) -> Any:
            begun.set()
            free.wait(30)
            return make(paid)

        curator.make_all = held  # type: ignore[method-assign]
        service.grid = TickGrid(0.25, lambda: 0.0, lambda _: asyncio.sleep(0))
        answer = asyncio.create_task(service.ask(eve, "patients", QUESTION))
        await asyncio.to_thread(begun.wait, 30)
        wrong = ServerQuestion(system=QUESTION.system, target="pure:1", column="smoker", mechanism="diffused")
        other = asyncio.create_task(service.ask(eve, "patients", wrong))
        line = service._makers.pool._work_queue
        while not other.done() and line.empty():  # until it is refused, or waits for the thread that is held
            await asyncio.sleep(1e-3)
        refused.append(other.done() and not answer.done())
        free.set()
        await asyncio.gather(answer, other, return_exceptions=True)

    with _service([True, False, False]) as (service, eve):
        try:
            asyncio.run(story(service, eve))
        except SottovoceError as error:
            return CheckResult(REFUSALS, False, str(error))
    said = "refused while the answer was being made" if refused[0] else "a refusal came only when the hidden work ended"
    return CheckResult(REFUSALS, refused[0], said)


@fault("a server that samples the posterior itself", "server", ANSWERS)
def _undiffused(patch: Patch) -> None:
    def value(self: Any, seen: Any, rng: Any, draws: int) -> Any:
        return DirectPosterior(self.system, self.n)._value(seen, rng, draws)

    patch.setattr(DiffusedPosterior, "_value", value)


@fault("refusals wait in line with answers", "server", REFUSALS)
def _one_pool(patch: Patch) -> None:
    async def run(self: Any, caller: str, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(POOL[0], work, *arguments)

    POOL: list[Any] = []
    honest = Service.__init__

    def opened(self: Service, config: Any) -> None:
        honest(self, config)
        POOL[:] = [self._makers.pool]

    patch.setattr(Service, "__init__", opened)
    patch.setattr("sottovoce.faces.server.work_queue.WorkQueue.run", run)
