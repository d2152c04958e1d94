"""Processes that spend from one budget, any of which may be killed at any moment.

    spenders.py URL PROCESSES ATTEMPTS DOOMED...

Each process prints its worker number with its process id, then one line for each release it would have answered: the
entry's number, once the commit is durable. They are forked after the imports, so that many start at once. Those
that are doomed never end by themselves: whoever kills them may come late.
"""

import logging
import os
import signal
import sys

from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.service.ledger import Ledger, Reservation


def say(worker: int, word: str, number: int) -> None:
    os.write(1, f"{worker} {word} {number}\n".encode())  # one short write: lines of two workers never mix


def spend(url: str, worker: int, attempts: int, *, doomed: bool) -> None:
    say(worker, "started", os.getpid())
    with Ledger(url, timeout=300) as ledger:
        budget = ledger.budget("patients")
        for i in range(attempts):
            request = {"mechanism": "noise", "attempt": i}
            try:
                right = ledger.reserve(budget, GaussianProfile(0.125), request, who=f"worker {worker}")
            except BudgetExceeded:
                say(worker, "refused", i)
                continue
            assert isinstance(right, Reservation)
            right.touch()
            ledger.commit(right, {"value": [worker, i]})
            say(worker, "answered", right.entry)
        while doomed:
            signal.pause()


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # each opens the ledger while others have entries pending
    url, (processes, attempts, *doomed) = sys.argv[1], map(int, sys.argv[2:])
    children = {}
    for worker in range(processes):
        if (child := os.fork()) == 0:
            spend(url, worker, attempts, doomed=worker in doomed)
            os._exit(0)
        children[child] = worker
    for child, worker in children.items():
        say(worker, "ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
