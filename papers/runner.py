"""Running experiments: many at once, each kept when done, so that a run that was stopped goes on where it stood.

Under ``OUTPUT/.cache`` every experiment has a folder for each size, seed and version of its code. It holds the finished
parts and, at the end, the record. A record counts only while the files it speaks of are still the ones it wrote.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from papers.parts import read_json, write_json
from papers.registry import Experiment, Finding, Outcome, Setting, find
from papers.version import code_version
from sottovoce.privacy.errors import InvalidValue

__all__ = ["Failure", "Record", "Request", "run_experiment", "run_experiments"]


@dataclass(frozen=True)
class Request:
    """How experiments are to be run."""

    output: Path
    quick: bool = False
    seed: int = 0
    jobs: int = 1
    again: bool = False
    """Run even what is in the cache."""
    table: Path | None = None
    """Draw again from this table instead of running."""


@dataclass(frozen=True)
class Record:
    """What is kept of a finished experiment."""

    name: str
    quick: bool
    seed: int
    version: str
    seconds: float
    """How long it ran; nothing where it was only drawn again."""
    files: dict[str, str]
    """The digest of each file, by its path under the output folder."""
    findings: tuple[Finding, ...]
    notes: str
    cached: bool = False

    @classmethod
    def from_plain(cls, plain: dict[str, Any], *, cached: bool = False) -> Record:
        """Return the record that `asdict` turned into plain values."""
        findings = tuple(Finding(**finding) for finding in plain["findings"])
        return cls(**(plain | {"findings": findings, "cached": cached}))


@dataclass(frozen=True)
class Failure:
    """An experiment that raised an error, in one line."""

    name: str
    error: str


def run_experiment(name: str, request: Request, advance: Callable[[float], None] = lambda fraction: None) -> Record:
    """Run one experiment, or return the record of an earlier run of the same code."""
    experiment = find(name)
    version = code_version(experiment.run.__module__)
    size = "quick" if request.quick else "full"
    folder = request.output / ".cache" / name / f"{size}-{request.seed}-{version}"
    kept = read_json(folder / "record.json")
    if kept and not (request.again or request.table) and _intact(request.output, kept["files"]):
        advance(1.0)
        return Record.from_plain(kept, cached=True)
    request.output.mkdir(parents=True, exist_ok=True)
    cache = None if request.again else folder
    began = time.monotonic()
    setting = Setting(request.output, request.quick, request.seed, advance, cache, request.jobs)
    outcome = _outcome(experiment, request, setting)
    files = {str(path.relative_to(request.output)): _digest(path) for path in outcome.files}
    spent = 0.0 if request.table else round(time.monotonic() - began, 1)
    findings = tuple(replace(finding, holds=bool(finding.holds)) for finding in outcome.findings)  # not NumPy's
    record = Record(name, request.quick, request.seed, version, spent, files, findings, outcome.notes)
    write_json(folder / "record.json", asdict(record))
    advance(1.0)
    return record


def run_experiments(
    names: Sequence[str], request: Request, report: Callable[[str, float], None] = lambda name, fraction: None
) -> dict[str, Record | Failure]:
    """Run the experiments, `request.jobs` of them at a time; one that fails does not stop the others.

    A single one runs here, with its parts in parallel; several run in processes of their own, one process each.
    """
    if len(names) == 1:
        return {names[0]: run_experiment(names[0], request, lambda fraction: report(names[0], fraction))}
    # Fresh processes: a forked child of one that runs JAX can hang. They take memory of an accelerator as they need it.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    fresh = multiprocessing.get_context("spawn")
    news: Any = fresh.Queue()
    single = Request(request.output, request.quick, request.seed, 1, request.again)
    with ProcessPoolExecutor(request.jobs, mp_context=fresh, initializer=_listen, initargs=(news,)) as pool:
        waiting = {name: pool.submit(_in_worker, name, single) for name in names}
        while not all(future.done() for future in waiting.values()):
            _tell(news, report)
        _tell(news, report)
    return {name: _result(name, future) for name, future in waiting.items()}


def _outcome(experiment: Experiment, request: Request, setting: Setting) -> Outcome:
    if request.table is None:
        return experiment.run(setting)
    if experiment.redraw is None:
        raise InvalidValue(f"{experiment.name} cannot be drawn from a table; leave --table out and it runs")
    if not request.table.exists():
        raise InvalidValue(f"no table {request.table}")
    drawn = experiment.redraw(request.table, setting)
    return replace(drawn, notes=f"{drawn.notes} Drawn from the table of an earlier run.".strip())


def _intact(output: Path, files: dict[str, str]) -> bool:
    return all((output / name).exists() and _digest(output / name) == digest for name, digest in files.items())


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


_NEWS: Any = None


def _listen(news: Any) -> None:
    global _NEWS  # noqa: PLW0603 - the one thing a worker is told when it starts
    _NEWS = news
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End the worker when its parent is killed; else it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(name: str, request: Request) -> Record:
    return run_experiment(name, request, lambda fraction: _NEWS.put((name, fraction)))


def _tell(news: Any, report: Callable[[str, float], None]) -> None:
    """Pass on the news that came within a moment."""
    try:
        while True:
            report(*news.get(timeout=0.2))
    except queue.Empty:
        return


def _result(name: str, future: Future[Record]) -> Record | Failure:
    error = future.exception()
    return future.result() if error is None else Failure(name, " ".join(f"{type(error).__name__}: {error}".split()))
