"""Answers by group, beside OpenDP and diffprivlib at an equal promise: error and interval, and pooled small areas."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
from papers.data import adult

from benchmarks.peers.environment import PeerUnavailable, ask
from benchmarks.timing import show
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.records.facts import Category, Facts, Number
from sottovoce.records.tables.bundled import HK_DISTRICTS, hk_collisions

DELTA = 1e-6
BOUNDS = (1.0, 99.0)


def opendp_means(promise: Promise, groups: int) -> tuple[Callable[[Floats, Floats], tuple[Floats, Floats]], float]:
    """Return OpenDP's noisy counts and sums of groups, half of the promise each, and the deviation on a sum.

    One record replaced moves two counts by one, and sums by at most the larger bound twice, or by the width.
    """
    dp.enable_features("contrib", "honest-but-curious")
    far = int(max(2 * BOUNDS[1], BOUNDS[1] - BOUNDS[0]))
    if isinstance(promise, PureDP):
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        scales = [2 * moved / promise.epsilon for moved in (2, far)]
        made = [dp.m.make_laplace(*space, scale=scale) for scale in scales]
        deviation = scales[1] * 2**0.5
    else:
        allowed = PrivacyFilter(promise)
        rho = allowed.limit / float(allowed.order or 1) / 2  # zCDP, half each, the best conversion
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        scales = [moved / (2 * rho) ** 0.5 for moved in (2**0.5, far / 2**0.5)]
        made = [dp.m.make_gaussian(*space, scale=scale) for scale in scales]
        deviation = scales[1]

    def answer(counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        first, second = (np.array(m(v.astype(int))) for m, v in zip(made, (counts, sums), strict=True))
        return first, second

    del groups
    return answer, deviation


def means(quick: bool) -> None:
    """Show the mean weekly hours by education in Adult: sixteen groups from 51 to 10,501 people."""
    table = adult()
    names = sorted(set(table.column("education").to_pylist()))
    group = np.array([names.index(v) for v in table.column("education").to_pylist()])
    x = table.column("hours_per_week").to_numpy().astype(float)
    n, repeats = x.size, 12 if quick else 60
    counts, sums = np.bincount(group), np.bincount(group, x)
    truth = sums / counts
    facts = Facts(x=Number(*BOUNDS), g=Category(tuple(range(len(names)))))
    question = Question("mean", ("x",), facts, by=("g",))
    rows = []
    for promise in (PureDP(0.1), PureDP(1.0), ApproxDP(0.1, DELTA), ApproxDP(1.0, DELTA)):
        budget = PrivacyFilter(PureDP(1.0) if isinstance(promise, PureDP) else ApproxDP(1.0, DELTA))
        mechanism = NoisyCells.calibrate(question, n, promise, price=budget.cost)
        found, ends = [], []
        for _ in range(repeats):
            posterior = mechanism.release({"x": x, "g": group}).value
            found.append(np.median(posterior.draws, axis=0))
            ends.append(posterior.interval())
        ours, widths = np.array(found), np.array(ends)
        answer, deviation = opendp_means(promise, len(names))
        theirs = []
        for _ in range(repeats * 5):
            c, s = answer(counts, sums)
            theirs.append(np.clip(s / np.maximum(c, 1), *BOUNDS))
        plain = 2 * 1.96 * deviation / counts
        peer = _diffprivlib(x, group, promise, repeats * 2) if isinstance(promise, PureDP) else None
        rows.append(
            [
                str(promise),
                _error(ours, truth),
                f"{np.mean(widths[..., 1] - widths[..., 0]):.3g}",
                f"{np.mean((widths[..., 0] <= truth) & (truth <= widths[..., 1])):.0%}",
                _error(np.array(theirs), truth),
                f"{np.mean(np.minimum(plain, BOUNDS[1] - BOUNDS[0])):.3g}",
                "–" if peer is None else _error(peer, truth),
            ]
        )
    show(
        f"Mean weekly hours of {n:,} people by education, 16 groups of 51 to 10,501",
        ["promise", "our error", "our width", "covers", "OpenDP's error", "its noise alone", "diffprivlib's error"],
        rows,
        "Root mean squared error over groups and repeats, in hours. Ours is one release with 95 % intervals. OpenDP's "
        "means are noisy sums over noisy counts, half of the promise each, and have no interval: the width is that of "
        "the noise on the sums alone. diffprivlib takes the number of each group for public; each gets half of ε, "
        "since one record replaced may change two groups.",
    )


def _error(found: Floats, truth: Floats) -> str:
    return f"{float(np.sqrt(np.mean((found - truth) ** 2))):.3g}"


def _diffprivlib(x: Floats, group: Any, promise: PureDP, repeats: int) -> Floats | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "groups.npz"
        np.savez(path, x=x, group=group, bounds=np.array(BOUNDS))
        try:
            told = ask("diffprivlib", {"groups": {"path": str(path), "epsilon": promise.epsilon, "repeats": repeats}})
        except PeerUnavailable:
            return None
    return np.array(told["means"])


def small_areas(quick: bool) -> None:
    """Show the collisions of 18 districts in 72 months: raw noisy cells, ours, and ours pooled."""
    table = hk_collisions().to_pandas()
    month = (table["year"] - 2014) * 12 + table["month"] - 1
    facts = Facts(district=Category(HK_DISTRICTS), month=Category(tuple(range(72))))
    records = {"district": table["district"].to_numpy(), "month": month.to_numpy()}
    cells = np.array([[np.sum((records["district"] == d) & (month == m)) for m in range(72)] for d in HK_DISTRICTS])
    truth, rows = cells.ravel().astype(float), []
    for epsilon in (0.05, 0.1, 1.0):
        errors: dict[str, list[float]] = {"raw": [], "ours": [], "pooled": []}
        covered = []
        for pool in (False, True):
            question = Question("counts", ("district", "month"), facts, pool=pool)
            mechanism = NoisyCells.calibrate(question, len(table), PureDP(epsilon))
            for _ in range(2 if quick else 10):
                posterior = mechanism.release(records).value
                errors["pooled" if pool else "ours"].append(_squares(np.median(posterior.draws, axis=0), truth))
                errors["raw"].append(_squares(posterior.cells[: truth.size], truth))
                ends = posterior.interval()
                covered += [np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))] * pool
        raw, ours, pooled = (float(np.sqrt(np.mean(errors[name]))) for name in ("raw", "ours", "pooled"))
        cellwise = [f"{raw:.3g}", f"{ours:.3g}", f"{pooled:.3g}", f"{pooled / raw:.2f}", f"{np.mean(covered):.0%}"]
        rows.append([f"pure:{epsilon:g}", *cellwise])
    show(
        "Collisions in 18 districts × 72 months, 74 a cell",
        ["promise", "raw noisy cells", "ours", "ours, pooled", "pooled / raw", "covers"],
        rows,
        "Root mean squared error a cell. The raw noisy cells are what OpenDP, diffprivlib and Tumult give out for this "
        "promise.",
    )


def _squares(found: Any, truth: Floats) -> float:
    return float(np.mean((np.asarray(found, dtype=float) - truth) ** 2))


def main(quick: bool = False) -> None:
    """Print the tables."""
    means(quick)
    small_areas(quick)


if __name__ == "__main__":
    main()
