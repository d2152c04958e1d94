"""Profile-based privacy at size: planning large graphs, releasing ten million records.

The plan is set beside HiGHS alone on program (7.7) as it is printed (a row for each off-diagonal entry), in the same
run; the release beside drawing the random numbers alone. Memory is the peak of a fresh process for each plan.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from benchmarks.timing import show
from sottovoce.privacy.randomness import secure_rng
from sottovoce.theory.local import MeanError, ProfileGraph, SmoothCategorical
from sottovoce.theory.local.exact import GRID


def graph_of(shape: str, k: int, d: int) -> ProfileGraph:
    rows = dict(enumerate(np.random.default_rng(0).dirichlet(np.ones(d), size=k)))
    return ProfileGraph.chain(rows) if shape == "chain" else ProfileGraph.complete(rows)


def as_written(graph: ProfileGraph, epsilon: float) -> float:
    """Solve (7.7) as printed: all of A, the largest off-diagonal entry as a variable above each of them."""
    k, d, P = graph.k, graph.d, graph.matrix
    n = k * d * d + 1
    entry = np.arange(n - 1).reshape(k, d, d)
    rows = sp.csr_array((np.ones(n - 1), (np.arange(n - 1) // d, np.arange(n - 1))), shape=(k * d, n))
    off = entry[:, ~np.eye(d, dtype=bool)].ravel()
    each = np.arange(off.size)
    caps = sp.csr_array((np.ones(off.size), (each, off)), shape=(off.size, n))
    caps = caps - sp.csr_array((np.ones(off.size), (each, np.full(off.size, n - 1))), shape=(off.size, n))
    both = np.vstack([graph.edge_indices, graph.edge_indices[:, ::-1]])
    i, j = np.repeat(both, d, axis=0).T
    y = np.tile(np.arange(d), len(both))
    line = np.repeat(np.arange(i.size), d)
    left = (P[i].ravel(), (line, entry[i, :, y].ravel()))
    right = (-np.exp(epsilon) * P[j].ravel(), (line, entry[j, :, y].ravel()))
    edges = sp.csr_array(left, shape=(i.size, n)) + sp.csr_array(right, shape=(i.size, n))
    cost = np.zeros(n)
    cost[-1] = 1.0
    upper = sp.vstack([caps, edges]).tocsr()
    answer = linprog(
        cost, A_ub=upper, b_ub=np.zeros(upper.shape[0]), A_eq=rows, b_eq=np.ones(k * d), bounds=(0, 1), method="highs"
    )
    return float(answer.fun)


def _measured(job: Callable[[], Any], pipe: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    value = job()
    pipe.send(
        (value, time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    )


def measured(job: Callable[[], Any]) -> tuple[Any, float, float]:
    """Run `job` in a process of its own: its value, seconds, and megabytes above the start."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_measured, args=(job, there))
    process.start()
    answer: tuple[Any, float, float] = here.recv()
    process.join()
    return answer


def plans(sizes: list[tuple[str, int, int]], quick: bool) -> None:
    """Show what planning costs, beside the bare solver."""
    rows = []
    for shape, k, d in sizes:
        graph = graph_of(shape, k, d)

        def smooth(graph: ProfileGraph = graph) -> float:
            return SmoothCategorical.calibrate(graph, 1.0).objective_value()

        def mean(graph: ProfileGraph = graph) -> float:
            return SmoothCategorical.calibrate(graph, 1.0, MeanError()).objective_value()

        def written(graph: ProfileGraph = graph) -> float:
            return as_written(graph, 1.0)

        jobs = {"largest alteration, ties broken, repaired": smooth, "mean error, repaired": mean}
        if quick or shape == "chain":  # the complete graph as printed has 70,800 dense rows: minutes
            jobs["HiGHS alone on (7.7) as printed"] = written
        found = {name: measured(job) for name, job in jobs.items()}
        ours = found["largest alteration, ties broken, repaired"][1]
        for name, (value, seconds, memory) in found.items():
            ratio = f"{ours / seconds:.2f}" if "HiGHS" in name else ""
            what = f"{shape}, k = {k}, d = {d}: {name}"
            rows.append([what, f"{seconds:.2f} s", f"{memory:.0f} MB", f"{value:.6f}", ratio])
    note = (
        "The ratio is our time for the first row of the graph beside the bare solver, which breaks no ties and repairs "
        "nothing."
    )
    show("Plans at ε = 1", ["", "time", "memory", "optimum", "ours / HiGHS"], rows, note)


def releases(graph: ProfileGraph, n: int) -> None:
    """Show what a release costs, beside the random numbers it needs."""
    mechanism = SmoothCategorical.calibrate(graph, 1.0)
    rng = np.random.default_rng(1)
    records, sources = rng.integers(0, graph.d, n), rng.integers(0, graph.k, n)
    calls: dict[str, Callable[[], Any]] = {
        "the random numbers alone": lambda: secure_rng().integers(0, GRID, size=n),
        "by position": lambda: mechanism.release_codes(records, sources),
        "by label": lambda: mechanism.release(records, sources),
    }
    seconds = {}
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        seconds[name] = time.perf_counter() - start
    alone = seconds["the random numbers alone"]
    rows = [[name, f"{taken:.2f} s", f"{taken / alone:.1f}"] for name, taken in seconds.items()]
    show(f"Release of {n:,} records", ["", "time", "ratio"], rows)


def main(quick: bool = False) -> None:
    sizes = [("chain", 40, 10), ("complete", 20, 10)] if quick else [("chain", 200, 20), ("complete", 60, 20)]
    plans(sizes, quick)
    releases(graph_of(*sizes[0]), 10**6 if quick else 10**7)


if __name__ == "__main__":
    main()
