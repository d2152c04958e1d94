"""A stampede: many processes on one budget, some killed at random, and what must hold afterwards."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sottovoce.service.ledger import Budget, Ledger, State
from support.nursery import born

__all__ = ["Outcome", "stampede"]


@dataclass(frozen=True)
class Outcome:
    """What the spenders said they had answered, and how many of them were killed."""

    answered: list[int]
    refused: int
    killed: int
    seconds: float

    def check(self, ledger: Ledger, budget: Budget) -> None:
        """Check that nothing was spent twice and nothing answered was lost."""
        ledger.verify()
        entries = {entry.id: entry for entry in ledger.entries()}
        told = set(self.answered)
        assert ledger.spent(budget) <= budget.limit
        assert ledger.spent(budget) == sum(entry.cost for entry in entries.values() if entry.counts)
        assert len(told) == len(self.answered)
        assert all(entries[number].state is State.COMMITTED for number in told)
        # A killed spender leaves one entry at most that nobody heard of: pending, or committed and not told.
        untold = [entry for entry in entries.values() if entry.id not in told]
        assert len(untold) <= self.killed
        assert len(ledger.pending()) <= len(untold)


def stampede(url: str, *, processes: int, attempts: int, kills: int, seed: int) -> Outcome:
    """Let the spenders loose, kill `kills` of them at random moments with SIGKILL, and wait for the rest."""
    rng, start = random.Random(seed), time.monotonic()
    doomed = {worker: rng.randrange(1, max(2, attempts // 2)) for worker in rng.sample(range(processes), kills)}
    answered, ends, lines = [], [], Counter[tuple[str, str]]()
    pids: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")
        os.mkfifo(said)
        script = Path(__file__).with_name("spenders.py").read_text()
        spenders = born(script, url, processes, attempts, *doomed, out=said)
        with said.open() as words:
            for line in words:
                worker, word, number = line.split()
                lines[worker, word] += 1
                match word:
                    case "started":
                        pids[worker] = int(number)
                    case "answered":
                        answered.append(int(number))
                    case "ended":
                        ends.append(int(number))
                if lines[worker, "answered"] + lines[worker, "refused"] == doomed.get(int(worker)):
                    doomed.pop(int(worker))
                    delay = 0.003 * rng.random()  # somewhere inside the next transactions
                    threading.Timer(delay, os.kill, (pids[worker], signal.SIGKILL)).start()
    assert spenders.wait() == 0
    assert set(ends) <= {0, -signal.SIGKILL}
    refused = sum(count for (_, word), count in lines.items() if word == "refused")
    return Outcome(answered, refused, ends.count(-signal.SIGKILL), time.monotonic() - start)
