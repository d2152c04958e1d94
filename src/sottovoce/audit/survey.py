"""The survey: every registered case audited, several at a time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from sottovoce.audit.cases import Case, all_cases, find_case
from sottovoce.audit.engine import FEWEST, audit
from sottovoce.audit.report import AuditReport

__all__ = ["survey"]


def survey(
    names: Iterable[str] | None = None,
    *,
    draws: int = 1_000_000,
    delta: float = 1e-3,
    confidence: float = 0.99,
    seed: int | None = 0,
    jobs: int = 1,
    progress: Callable[[float], None] | None = None,
) -> list[tuple[Case, AuditReport]]:
    """Audit the named cases, all of them by default, and return each with its report, in order.

    Slow cases have a tenth of the draws, or fewer. With several jobs each case is audited in a process of its own.

    Examples
    --------
    >>> [(case, report)] = survey(["direct, beta-bernoulli"], draws=20_000)
    >>> case.tight, str(report.verdict)
    (True, 'holds')
    """
    cases = [find_case(name) for name in (all_cases() if names is None else names)]
    tasks = [(c.name, max(c.share(draws), min(draws, FEWEST)), delta, confidence, seed) for c in cases]
    work = [2 * draws if c.slow else draws for c in cases]
    done, reports = 0, {}
    for index, report in _in_turn(tasks) if jobs == 1 else _at_once(tasks, work, jobs):
        reports[index] = report
        done += work[index]
        if progress is not None:
            progress(done / sum(work))
    return [(c, reports[k]) for k, c in enumerate(cases)]


Task = tuple[str, int, float, float, int | None]


def _in_turn(tasks: list[Task]) -> Iterator[tuple[int, AuditReport]]:
    yield from ((index, _one(task)) for index, task in enumerate(tasks))


def _at_once(tasks: list[Task], work: list[int], jobs: int) -> Iterator[tuple[int, AuditReport]]:
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("forkserver")) as pool:
        longest_first = sorted(range(len(tasks)), key=lambda k: -work[k])
        waiting = {pool.submit(_one, tasks[index]): index for index in longest_first}
        yield from ((waiting[future], future.result()) for future in as_completed(waiting))


def _one(task: Task) -> AuditReport:
    name, draws, delta, confidence, seed = task
    return audit(find_case(name).build(), draws=draws, delta=delta, confidence=confidence, seed=seed)
