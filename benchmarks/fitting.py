"""Many private regressions at once: fits with quick sums and quick noise, run in lots by several processes.

Every fit runs the mechanism's own looks and posterior. To be quick, sums are added in floating point rather than on the
grid of the reading, and the noise is continuous: both differ by parts in a thousand of a record.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import show
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.noisy_score_information import once_each

__all__ = ["DELTA", "SIDE", "Cells", "fit", "fit_all", "fit_beside", "options", "released", "run", "show_csv"]

DELTA = 1e-5
SIDE = 1.959964
_PAUSE = 15.0
"""Seconds between two savings."""
Cells = dict[Any, list[Any]]
"""What the fits of each cell found."""


def sums(look: Any, rows: Any, y: Any) -> Any:
    """Return the look in whole steps, but for the rounding of each record."""
    return quick_sums(look, rows, look.model.outcome(y) if look.family == "poisson" else y)


def fit(mechanism: AdaptiveLooks, rows: Any, y: Any, rng: np.random.Generator) -> Any:
    """Return the coefficients of one release."""
    return mechanism.conclude(mechanism.walk(_Shown(mechanism, rows, y, rng)))


def fit_all(mechanism: AdaptiveLooks, tables: Sequence[tuple[Any, Any]], rng: np.random.Generator) -> list[Any]:
    """Return the coefficients of a release of each table, side by side, each with noise of its own."""
    return [found for found, _ in fit_beside(mechanism, tables, rng)]


def fit_beside(
    mechanism: AdaptiveLooks, tables: Sequence[tuple[Any, Any]], rng: np.random.Generator
) -> list[tuple[Any, Any]]:
    """Return the same, and how far the last look's noise alone moves each: σ‖AT'H⁻¹‖, H without its noise."""
    rngs = [np.random.default_rng(seed) for seed in rng.integers(2**63, size=len(tables)).tolist()]
    shown = [_Shown(mechanism, *table, own) for table, own in zip(tables, rngs, strict=True)]
    found = mechanism.conclude_all(mechanism.walk_all(shown))
    return [(one, last.noise) for one, last in zip(found, shown, strict=True)]


def released(mechanism: AdaptiveLooks, rows: Any, y: Any, rng: np.random.Generator) -> Any:
    """Return what gives the noisy sums of records, for `AdaptiveLooks.walk`."""
    return _Shown(mechanism, rows, y, rng)


class _Shown:
    """Noisy sums of records, and what the noise of the last look does."""

    def __init__(self, mechanism: AdaptiveLooks, rows: Any, y: Any, rng: np.random.Generator) -> None:
        self._asked = mechanism, rows, y, rng
        self._last: tuple[Any, Any, Any] | None = None

    def __call__(self, look: Any, scales: Any) -> Any:
        mechanism, rows, y, rng = self._asked
        noise = np.concatenate(
            [np.full(k, n.scale) for n, k in zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)]
        )
        total = sums(look, rows, y)
        if "information" in look.parts:  # no look at tails alone
            self._last = look, total, scales
        return total + noise * rng.standard_normal(noise.size)

    @property
    def noise(self) -> Any:
        """How far the noise of the last look moves the coefficients."""
        assert self._last is not None
        (look, total, scales), system = self._last, self._asked[0].system
        pull, lean = look.factors
        H = look.split(total)["information"] / lean**2
        leads = system.units[0] @ once_each(look.matrix, look.model.outputs).T @ np.linalg.pinv(H, 1e-12)
        return scales["score"] / pull * np.linalg.norm(leads, axis=1)


def options(about: str | None, out: str, sizes: Sequence[int], seconds: float) -> argparse.ArgumentParser:
    """Return what every such command line takes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", type=_whole, default=sizes)
    parser.add_argument("--seconds", type=float, default=seconds)
    return parser


def _whole(words: str) -> list[int]:
    return [int(word) for word in words.split(",")]


def run(
    given: argparse.Namespace,
    jobs: Sequence[Any],
    some_fits: Callable[[Any], list[tuple[Any, ...]]],
    save: Callable[[Path, Cells], Any],
) -> None:
    """Run jobs until all are done or time is up; `save` what was found now and then, and at the end."""
    given.out.parent.mkdir(parents=True, exist_ok=True)
    cells: Cells = {}
    started = time.time()
    saved = started
    with multiprocessing.Pool(given.processes) as pool:
        for done, batch in enumerate(pool.imap_unordered(some_fits, jobs), 1):
            for key, *rest in batch:
                cells.setdefault(key, []).append(rest)
            now = time.time()
            late = now - started > given.seconds
            if now - saved > _PAUSE or late or done == len(jobs):
                saved = now
                save(given.out, cells)
                print(f"{done}/{len(jobs)} lots, {now - started:.0f} s", flush=True)
            if late:
                pool.terminate()
                break


def show_csv(title: str, fields: Sequence[str], fill: Callable[[Path], Any]) -> None:
    """Let a file be written, and show it as a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        fill(path)
        with path.open(newline="", encoding="utf-8") as file:
            rows = [[row[name] for name in fields] for row in csv.DictReader(file)]
    show(title, fields, rows)


def write_cells(path: Path, fields: Sequence[str], cells: Cells, summed_up: Callable[..., tuple[float, ...]]) -> None:
    """Write one line a cell: how many fits, and what they sum up to."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        for key in sorted(cells):
            parts = [np.array(part, dtype=float) for part in zip(*cells[key], strict=True)]
            writer.writerow([*key, len(parts[0]), *(f"{number:.4g}" for number in summed_up(*parts))])
