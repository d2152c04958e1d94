"""What is kept of each fit, so that a run can be resumed, and what the fits of a cell sum up to."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["Cell", "Fit", "Store", "data_rng", "noise_rng", "run", "save", "screened", "significant", "summary"]

Array = npt.NDArray[np.float64]
SEED = 49
LEAST, FAMILY_WISE = 0.93, 0.01
"""A cell is flagged where its coverage is significantly below this, with this chance that any is flagged wrongly."""


@dataclass(frozen=True)
class Fit:
    """One private answer: of each target the ends of its interval, the estimate, the truth and the widths beside it.

    `grid` is how finely values are recorded: 1 for whole numbers, of which an interval from 39 to 40 holds two. It is
    added to widths that are compared.
    """

    low: Array
    high: Array
    estimate: Array
    truth: Array
    oracle: Array
    plain: Array
    seconds: float
    """Processor time of the private answer."""
    grid: float = 0.0
    peers: dict[str, Array] = field(default_factory=dict)
    """Estimates of peers."""

    def record(self) -> dict[str, Any]:
        """Return what is written down."""
        slack = 1e-9 * np.maximum(np.abs(self.truth), 1e-9)
        held = (self.low - slack <= self.truth) & (self.truth <= self.high + slack)
        found = {
            "held": held.astype(int).tolist(),
            "width": _short(self.high - self.low),
            "error": _short(self.estimate - self.truth),
            "oracle": _short(self.oracle),
            "plain": _short(self.plain),
            "grid": self.grid,
            "seconds": round(self.seconds, 4),
        }
        return found | {f"peer {name}": _short(value - self.truth) for name, value in self.peers.items()}


def _short(values: Array) -> list[float | None]:
    return [float(f"{one:.6g}") if math.isfinite(one) else None for one in np.atleast_1d(values)]


@dataclass(frozen=True)
class Cell:
    """One kind of table and question; `fit` answers it for the k-th table, the same table in every run."""

    kind: str
    name: str
    fit: Callable[[int], Fit]
    group: str = ""
    """What it is summed up with."""


def _seed(name: str, k: int, what: int) -> list[int]:
    return [SEED, zlib.crc32(name.encode()), k, what]


def data_rng(name: str, k: int) -> np.random.Generator:
    """Return the randomness of the k-th table of a cell."""
    return np.random.default_rng(_seed(name, k, 0))


def noise_rng(name: str, k: int) -> np.random.Generator:
    """Return the randomness of its private answer."""
    return np.random.default_rng(_seed(name, k, 1))


class Store:
    """A file with one line for each fit, read when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fits: dict[str, dict[int, dict[str, Any]]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                self.fits.setdefault(one["cell"], {})[one["k"]] = one

    def add(self, cell: str, k: int, record: dict[str, Any]) -> None:
        """Write down one fit."""
        one = {"cell": cell, "k": k, **record}
        self.fits.setdefault(cell, {})[k] = one
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")


def _answer(job: tuple[Cell, int]) -> dict[str, Any]:
    cell, k = job
    try:
        fit = cell.fit(k)
    except Exception as reason:  # the cell is told of; the others go on
        return {"failed": f"{type(reason).__name__}: {reason}"[:200]}
    return fit.record()


def run(store: Store, cells: Sequence[Cell], repeats: int, seconds: float, tell: Callable[[str], None]) -> None:
    """Answer every cell `repeats` times, the k-th table of all cells before the next one's, until time is up."""
    started, answered = time.time(), 0
    for k in range(repeats):
        for cell in cells:
            if k in store.fits.get(cell.name, {}):
                continue
            if time.time() - started > seconds:
                tell(f"{answered} fits, stopped at repeat {k + 1} of {repeats} after {seconds:.0f} s")
                return
            store.add(cell.name, k, _answer((cell, k)))
            answered += 1
    if answered:
        tell(f"{answered} fits in {time.time() - started:.0f} s")


def _matrix(records: Iterable[dict[str, Any]], key: str) -> Array:
    """Return the numbers of all fits; an endless width is written as none, and so is an oracle there is none of."""
    endless = math.inf if key == "width" else math.nan
    return np.array([[endless if one is None else one for one in record[key]] for record in records], dtype=float)


def summary(fits: dict[int, dict[str, Any]]) -> dict[str, Any] | None:
    """Sum up the fits of a cell; none where it was never answered.

    Coverage is over fits and targets. `rotating` hits count one target of each fit, the next in turn, so that they are
    independent and their number is exactly binomial whatever the correlation of targets within a fit.
    """
    records = [fits[k] for k in sorted(fits) if "held" in fits[k]]
    failed = [one["failed"] for one in fits.values() if "failed" in one]
    if not records:
        return {"fits": 0, "failed": len(failed), "reason": failed[0]} if failed else None
    held, width, oracle, plain = (_matrix(records, key) for key in ("held", "width", "oracle", "plain"))
    error = _matrix(records, "error")
    turn = held[np.arange(len(held)), np.arange(len(held)) % held.shape[1]]
    grid = records[0]["grid"]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(oracle + grid > 0, (width + grid) / (oracle + grid), np.nan)
        price = np.where(plain + grid > 0, (oracle + grid) / (plain + grid), np.nan)
    found: dict[str, Any] = {
        "fits": len(records),
        "targets": held.shape[1],
        "coverage": held.mean(),
        "least": held.mean(axis=0).min(),
        "hits": int(held.sum()),
        "rotating": int(turn.sum()),
        "width": np.median(width, axis=0).tolist(),
        "oracle": np.median(oracle, axis=0).tolist(),
        "plain": np.median(plain, axis=0).tolist(),
        "ratio": _middle(ratio),
        "ratio 95": _upper(ratio),
        "worst": float(np.nanmax(ratio)) if np.isfinite(ratio).any() else None,
        "price": _middle(price),
        "rmse": np.sqrt(np.mean(error**2, axis=0)).tolist(),
        "seconds": float(np.median([one["seconds"] for one in records])),
    }
    for key in sorted({key for one in records for key in one if key.startswith("peer ")}):
        theirs = np.sqrt(np.mean(_matrix(records, key) ** 2, axis=0))
        found[f"rmse {key.removeprefix('peer ')}"] = theirs.tolist()
    if failed:
        found |= {"failed": len(failed), "reason": failed[0]}
    return {key: _rounded(value) for key, value in found.items()}


def _middle(values: Array) -> float | None:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


def _upper(values: Array) -> float | None:
    return float(np.nanquantile(values, 0.95)) if np.isfinite(values).any() else None


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def screened(cells: dict[str, dict[str, Any]], level: float = LEAST) -> list[str]:
    """Return the cells whose coverage looks too low: all targets as if independent, Bonferroni over the cells."""
    rows = {name: one for name, one in cells.items() if one.get("fits")}
    bar = FAMILY_WISE / max(len(rows), 1)
    return [
        name for name, one in rows.items() if stats.binom.cdf(one["hits"], one["fits"] * one["targets"], level) < bar
    ]


def significant(cells: dict[str, dict[str, Any]], level: float = LEAST) -> list[str]:
    """Return the cells significantly below `level` by an exact one-sided binomial test of one target a fit."""
    rows = {name: one for name, one in cells.items() if one.get("fits")}
    bar = FAMILY_WISE / max(len(rows), 1)
    return [name for name, one in rows.items() if stats.binom.cdf(one["rotating"], one["fits"], level) < bar]


def save(path: Path, store: Store, cells: Sequence[Cell], stamp: str, code: str) -> dict[str, dict[str, Any]]:
    """Write the summary of every cell that was answered, keeping those of cells that are not asked for now."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cells": {}}
    for cell in cells:
        found = summary(store.fits.get(cell.name, {}))
        if found is not None:
            kept["cells"][cell.name] = {"kind": cell.kind, "group": cell.group, "code": code, **found}
    kept["stamp"] = stamp
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(kept['cells'][name])}" for name in sorted(kept["cells"]))
    beside.write_text(f'{{"stamp": {json.dumps(stamp)}, "cells": {{\n{lines}\n}}}}\n', encoding="utf-8")
    beside.replace(path)
    return dict(kept["cells"])
