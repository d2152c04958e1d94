"""How often 95 % intervals of a private Markov random field hold the truth, truths drawn from the prior.

Run ``python -m benchmarks.random_field_coverage --repeats 40 --processes 2``. A line for each field, n and ε: coverage
of all effects and of all conditional queries, beside that of counts taken at their word, and the share of fits whose
chains agreed.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import sys
import time
import warnings
import zlib
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from sottovoce.inference.latent import Field, MarkovRandomField, NoisyTables, RandomFieldPosterior
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.randomness import seeded_rng

NAMES = "abcdef"
HEADS = (
    "field",
    "n",
    "epsilon",
    "noise",
    "fits",
    "effects",
    "queries",
    "effects_at_their_word",
    "queries_at_their_word",
    "agreed",
)


def _field(sizes: tuple[int, ...], cliques: tuple[str, ...], closed: bool = True) -> MarkovRandomField:
    fields = [Field(name, tuple(range(k)), 0 if closed else None) for name, k in zip(NAMES, sizes, strict=False)]
    return MarkovRandomField(tuple(fields), [tuple(clique) for clique in cliques], spread=1.0)


FIELDS = {
    "a chain of four flags": _field((2, 2, 2, 2), ("ab", "bc", "cd")),
    "a ring of four": _field((2, 3, 2, 3), ("ab", "bc", "cd", "ad")),
    "two cliques of three": _field((2, 3, 2, 2), ("abc", "bcd")),
    "a chain, a tenth outside": _field((2, 3, 2), ("ab", "bc"), closed=False),
}
SIZES = (50, 500, 5_000)
NOISES = ((0.3, "laplace"), (1.0, "laplace"), (10.0, "laplace"), (1.0, "gaussian"))


def one(job: tuple[str, int, float, str, int]) -> tuple[Any, ...]:
    """Return how many intervals of one fit hold, of how many, with and without regard to the noise."""
    name, n, epsilon, kind, seed = job
    field, rng = FIELDS[name], seeded_rng(zlib.crc32(repr((name, n, epsilon, kind)).encode()) % 10**6 * 10_000 + seed)
    truth = RandomFieldPosterior(
        field.fields, field.cliques, field.spread * rng.normal(size=(1, field.family.basis.shape[1]))
    )
    inside = n if field.fields[0].other_code >= 0 else n - int(rng.binomial(n, 0.1))
    codes = truth.synthetic(max(inside, 1), rng)
    counts = field.tables.arrays(field.tables.statistics(codes))
    # One record moves two cells of each clique's table; (ε, 1e-6) by the usual bound for Gaussian noise.
    cliques = len(field.cliques)
    scale = 2 * cliques / epsilon if kind == "laplace" else np.sqrt(2 * cliques) * 4.8 / epsilon
    noise = IntegerNoise(kind, float(scale))  # type: ignore[arg-type]
    noisy = tuple(noise.add(c.ravel(), rng).reshape(c.shape) for c in counts)
    tables = NoisyTables(field.tables, n, noisy, (noise,) * cliques)
    found: list[float] = []
    agreed = 0.0
    for aware in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = field.fit(tables, noise_aware=aware, draws=512, rng=rng)
        low, high = np.quantile(posterior.coefficients, [0.025, 0.975], axis=0)
        found.append(float(np.mean((low <= truth.coefficients[0]) & (truth.coefficients[0] <= high))))
        held = []
        for a, b in itertools.permutations(field.fields, 2):
            ends = posterior.query_interval(a.name, {b.name: b.categories[-1]})
            true = truth.query(a.name, {b.name: b.categories[-1]})
            held.append(np.mean((ends[:, 0] <= true) & (true <= ends[:, 1])))
        found.append(float(np.mean(held)))
        if aware:
            agreed = float(posterior.convergence.reached) if posterior.convergence else 0.0
    return (*job, *found, agreed)


def main(quick: bool = False) -> None:
    """Show a few cells."""
    from benchmarks.timing import show

    cells = [(name, n, *noise) for name, n, noise in itertools.product(FIELDS, SIZES, NOISES)]
    rows = run(cells[:2] if quick else cells, 2 if quick else 10, processes=2)
    table = [
        [*map(str, cell), str(len(found)), *(f"{v:.3f}" for v in np.mean(found, axis=0))]
        for cell, found in sorted(rows.items())
    ]
    show("Intervals of random fields", list(HEADS), table)


def command() -> None:
    """Print the table as it fills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--output", default=None)
    asked = parser.parse_args()
    cells = [(name, n, *noise) for name, n, noise in itertools.product(FIELDS, SIZES, NOISES)]
    rows = run(cells, asked.repeats, asked.processes, asked.seconds, asked.output)
    if not asked.output:
        _write(sys.stdout, rows)


def run(
    cells: Sequence[tuple[Any, ...]], repeats: int, processes: int, seconds: float = 1e9, output: str | None = None
) -> dict[tuple[Any, ...], list[Any]]:
    """Return what was found in each cell, written down as it comes."""
    jobs = [(*cell, seed) for seed in range(repeats) for cell in cells]
    begun = time.monotonic()
    rows: dict[tuple[Any, ...], list[Any]] = {}
    with Pool(processes) as pool:
        for i, row in enumerate(pool.imap_unordered(one, jobs, chunksize=1)):
            rows.setdefault(row[:4], []).append(row[5:])
            late = time.monotonic() - begun > seconds
            if output and (late or i % 100 == 99 or i == len(jobs) - 1):
                with Path(output).open("w", newline="", encoding="utf-8") as file:
                    _write(file, rows)
            if late:
                pool.terminate()
                break
    return rows


def _write(file: Any, rows: dict[tuple[Any, ...], list[Any]]) -> None:
    out = csv.writer(file)
    out.writerow(HEADS)
    for cell, found in sorted(rows.items()):
        out.writerow((*cell, len(found), *(f"{v:.3f}" for v in np.mean(found, axis=0))))


if __name__ == "__main__":
    command()
