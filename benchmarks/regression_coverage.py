"""How often the intervals of a private regression hold the truth, over n, ε, d, families and awkward rows.

Every fit runs the mechanism's own looks and posterior. To be quick, sums are added in floating point rather than on the
grid of the reading, and the noise is continuous: both differ by parts in a thousand of a record.

    python -m benchmarks.regression_coverage --out coverage.csv --fits 300 --processes 16
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from benchmarks.timing import show
from sottovoce.facts import Category, Count, Facts, Flag, Number
from sottovoce.privacy.promises import ApproxDP
from sottovoce.regression.adaptive_looks import AdaptiveLooks
from sottovoce.regression.formula import Formula

FAMILIES = ("logistic", "probit", "linear", "poisson", "multinomial")
SIZES, EPSILONS, DIMENSIONS = (2_000, 20_000, 200_000), (0.3, 1.0, 3.0), (5, 20)
ROWS = ("light", "heavy")
"""Normal, independent columns; or t3 tails, columns that share half of their variance, and an intercept far from 0."""
DELTA = 1e-5
_SIDE = 1.959964
_BARE = 1
"""Of how many data sets of a lot the fit without privacy is made, to compare widths with."""
_HIGH = {"light": 8.0, "heavy": 40.0}
"""The bounds of the response of a linear regression: hardly any is cut, whose mean would then be no line."""
_FIELDS = (
    *("family", "n", "epsilon", "d", "rows", "fits", "coverage", "least", "z", "bias", "width"),
    *("ideal", "non_private", "seconds"),
)


def formula(family: str, d: int, rows: str) -> Formula:
    wide = 6.0 if rows == "light" else 20.0
    names = [f"x{i}" for i in range(1, d)]
    high = _HIGH[rows]
    response: dict[str, Any] = {
        "linear": Number(-high, high),
        "poisson": Count(12),
        "multinomial": Category(["a", "b", "c"]),
    }
    facts = {name: Number(-wide, wide) for name in names} | {"y": response.get(family, Flag())}
    return Formula("y ~ " + " + ".join(names), Facts(facts), family)


def imagine(family: str, n: int, d: int, rows: str, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return raw columns, outcomes in the family's own numbers, and the true coefficients of the raw columns."""
    K = 2 if family == "multinomial" else 1
    if rows == "light":
        x, intercept = np.clip(rng.standard_normal((n, d - 1)), -6, 6), 0.0
    else:
        x = rng.standard_t(3, (n, d - 1)) / math.sqrt(3)
        x = np.clip(math.sqrt(0.5) * x + math.sqrt(0.5) * rng.standard_t(3, (n, 1)) / math.sqrt(3), -20, 20)
        intercept = {"linear": 3.0, "poisson": -1.0}.get(family, -2.0)
    size = (0.5 if family in ("poisson", "probit") else 1.0) / math.sqrt(d - 1)
    beta = size * rng.standard_normal((K, d - 1))
    t = intercept + x @ beta.T
    if family == "logistic":
        y = (rng.random(n) < special.expit(t[:, 0])).astype(float)
    elif family == "probit":
        y = (rng.random(n) < special.ndtr(t[:, 0])).astype(float)
    elif family == "linear":
        y = (t[:, 0] + rng.standard_normal(n)) / _HIGH[rows]
        y = np.clip(y, -1, 1)
    elif family == "poisson":
        y = np.minimum(rng.poisson(np.exp(np.minimum(t[:, 0], 6.0))), 12).astype(float)
    else:
        p = np.exp(np.column_stack([np.zeros(n), t]))
        p /= p.sum(axis=1, keepdims=True)
        y = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).astype(float)
    truth = np.concatenate([np.concatenate([[intercept], row]) for row in beta])
    return x, np.minimum(y, K if K > 1 else np.inf), truth


def sums(look: Any, rows: Any, y: Any) -> Any:
    """Return the look in whole steps, but for the rounding of each record."""
    z = rows @ look.matrix.T
    v = look.norm**2 / np.maximum(np.einsum("ij,ij->i", z, z), look.norm**2)
    t, family, K = z @ look.predictors.T, look.model, look.model.outputs
    y = np.minimum(y, family.most) if look.family == "poisson" else y
    pull, lean = look.factors
    parts = {}
    if K == 1:
        r = family.residual(y, t[:, 0])[:, None]
        slopes = {(0, 0): family.steepness(y, t[:, 0])}
    else:
        p = family.mean(t)
        r = (y[:, None] == np.arange(1, K + 1)) - p
        slopes = {(k, m): p[:, k] * ((k == m) - p[:, m]) for k in range(K) for m in range(K)}
    d = z.shape[1]
    zv = z * (pull * v)[:, None]
    if "score" in look.parts:
        parts["score"] = np.concatenate([zv.T @ r[:, k] for k in range(K)])
    for name, weigh in (("information", lambda k, m: lean**2 * v * slopes[k, m]), ("meat", None)):
        if name not in look.parts:
            continue
        whole = np.zeros((K * d, K * d))
        for k, m in itertools.combinations_with_replacement(range(K), 2):
            part = (z * weigh(k, m)[:, None]).T @ z if weigh else (zv * (r[:, k] * r[:, m])[:, None]).T @ zv
            whole[k * d : (k + 1) * d, m * d : (m + 1) * d] = part
            whole[m * d : (m + 1) * d, k * d : (k + 1) * d] = part.T
        parts[name] = whole
    return look.join(**parts)


def fit(mechanism: AdaptiveLooks, rows: Any, y: Any, rng: np.random.Generator) -> Any:
    def shown(look: Any, scales: Any) -> Any:
        noise = np.concatenate(
            [np.full(k, n.scale) for n, k in zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)]
        )
        return sums(look, rows, y) + noise * rng.standard_normal(noise.size)

    return mechanism.conclude(mechanism.walk(shown))


def plain_sd(asked: Formula, rows: Any, y: Any) -> Any:
    """Return the standard errors without any privacy, of the coefficients of the raw columns."""
    family, K = asked.model, asked.model.outputs
    D, theta = K * rows.shape[1], np.zeros(K * rows.shape[1])
    for _ in range(25):
        t = rows @ theta.reshape(K, -1).T
        if K == 1:
            mean, slope = family.mean(t[:, 0]), np.maximum(family.slope(t[:, 0]), 1e-9)
            if asked.family == "poisson":
                mean = slope = np.exp(np.clip(t[:, 0], -30, 5))
            w = slope * slope / np.maximum(mean * (1 - mean), 1e-9) if asked.family == "probit" else slope
            ratio = w / slope
            score, info = rows.T @ (ratio * (y - mean)), (rows * w[:, None]).T @ rows
        else:
            p = family.mean(t)
            score = (((y[:, None] == np.arange(1, K + 1)) - p).T @ rows).ravel()
            info = np.zeros((K, rows.shape[1], K, rows.shape[1]))
            for k, m in itertools.product(range(K), repeat=2):
                info[k, :, m, :] = (rows * (p[:, k] * ((k == m) - p[:, m]))[:, None]).T @ rows
            info = info.reshape(D, D)
        step = np.linalg.solve(info + 1e-9 * np.eye(D), score)
        theta = theta + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-8:
            break
    scale = 1.0
    if asked.family == "linear":
        scale = float(np.mean((y - rows @ theta) ** 2))
    A, _ = asked.units
    return np.sqrt(np.diag(A @ np.linalg.inv(info + 1e-9 * np.eye(D)) @ A.T) * scale)


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit several data sets of one kind at every ε."""
    family, n, d, rows, seed, count, epsilons = job
    asked = formula(family, d, rows)
    targets = {epsilon: AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA)) for epsilon in epsilons}
    found = []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        x, y, truth = imagine(family, n, d, rows, rng)
        scale = 6.0 if rows == "light" else 20.0
        encoded = np.column_stack([np.ones(n), x / scale])
        bare = plain_sd(asked, encoded, y) if k < _BARE else np.full(len(truth), np.nan)
        for epsilon, mechanism in targets.items():
            started = time.perf_counter()
            posterior = fit(mechanism, encoded, y, rng)
            low, high = posterior.interval().T
            sd, z = (high - low) / (2 * _SIDE), 2 * _SIDE * (truth - (low + high) / 2) / (high - low)
            ideal = np.hypot(bare, np.sqrt(np.maximum(sd**2 - posterior.plain_sd**2, 0)))
            key = (family, n, epsilon, d, rows)
            found.append((key, z, sd / ideal, sd / bare, time.perf_counter() - started))
    return found


def main(quick: bool = False) -> None:
    """Fit regressions of every kind, and show how often their intervals hold."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.csv"
        some = ["--fits", "4", "--sizes", "2000"] if quick else ["--seconds", "7200"]
        command(["--out", str(path), *some])
        with path.open(newline="", encoding="utf-8") as file:
            rows = [[row[name] for name in _FIELDS] for row in csv.DictReader(file)]
    show("Regression tables", _FIELDS, rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("regression_coverage.csv"))
    parser.add_argument("--fits", type=int, default=300)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--seconds", type=float, default=280.0)
    given = parser.parse_args(words)
    sizes, families = [int(n) for n in given.sizes.split(",")], given.families.split(",")
    jobs = []
    for n, family, d, rows in itertools.product(sizes, families, DIMENSIONS, ROWS):
        lot = 3 if n > 20_000 else 10
        for number, first in enumerate(range(0, given.fits, lot)):
            late = first * (3 if n > 20_000 else 1)  # where time is short, fewer of the large ones
            jobs.append((late, (family, n, d, rows, 1000 + number, min(lot, given.fits - first), EPSILONS)))
    jobs.sort(key=lambda job: job[0])
    cells: dict[Any, list[Any]] = {}
    started = time.time()
    with multiprocessing.Pool(given.processes) as pool:
        for done, batch in enumerate(pool.imap_unordered(some_fits, [job for _, job in jobs]), 1):
            for key, *rest in batch:
                cells.setdefault(key, []).append(rest)
            late = time.time() - started > given.seconds
            if done % 100 == 0 or late or done == len(jobs):
                write(given.out, cells)
                print(f"{done}/{len(jobs)} lots, {time.time() - started:.0f} s", flush=True)
            if late:
                pool.terminate()
                break


def write(path: Path, cells: dict[Any, list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        for key in sorted(cells):
            z, ideal, bare, seconds = (np.array(part) for part in zip(*cells[key], strict=True))
            hit = np.abs(z) < _SIDE
            numbers = (hit.mean(), hit.mean(axis=0).min(), math.sqrt((z**2).mean()), np.abs(np.median(z, axis=0)).max())
            more = (np.nanmedian(bare), np.nanmedian(ideal), np.nanmedian(bare[:, 1:]), seconds.mean())
            writer.writerow([*key, len(z), *(f"{number:.4f}" for number in (*numbers, *more))])


if __name__ == "__main__":
    command()
