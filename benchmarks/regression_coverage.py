"""How often the intervals of a private regression hold the truth, over n, ε, d, families and awkward rows.

Every fit runs the mechanism's own looks and posterior. To be quick, sums are added in floating point rather than on the
grid of the reading, and the noise is continuous: both differ by parts in a thousand of a record. Several fits share the
rows of one design, with truths, responses and noise of their own. Runs with other seeds add up.

    python -m benchmarks.regression_coverage --out one.npz --seed 1 --seconds 400 --processes 16
    python -m benchmarks.regression_coverage --add one.npz two.npz --csv coverage.csv
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
_LOT = 5
"""Fits that share a design; of the first alone the fit without privacy is made, to compare widths with."""
_CHUNK = 4096
"""Rows that fit into a core's own memory."""
_HIGH = {"light": 8.0, "heavy": 40.0}
"""The bounds of the response of a linear regression: hardly any is cut, whose mean would then be no line."""
_MOST = 12
"""Counts are cut there, in the table already."""
_FIELDS = (
    *("family", "n", "epsilon", "d", "rows", "fits", "coverage", "error", "least", "z", "bias", "width"),
    *("ideal", "non_private"),
)
"""Coverage of all coefficients with its standard error over fits, of the worst one; the size of what the estimates are
off in standard deviations, and the farthest median of it; and median widths beside those without privacy, beside
√(sampling² + noise²), and beside those without privacy but for the intercept."""


def formula(family: str, d: int, rows: str) -> Formula:
    wide = 6.0 if rows == "light" else 20.0
    names = [f"x{i}" for i in range(1, d)]
    high = _HIGH[rows]
    response: dict[str, Any] = {
        "linear": Number(-high, high),
        "poisson": Count(_MOST),
        "multinomial": Category(["a", "b", "c"]),
    }
    facts = {name: Number(-wide, wide) for name in names} | {"y": response.get(family, Flag())}
    return Formula("y ~ " + " + ".join(names), Facts(facts), family)


def design(n: int, d: int, rows: str, rng: np.random.Generator) -> Any:
    """Return raw columns."""
    if rows == "light":
        return np.clip(rng.standard_normal((n, d - 1)), -6, 6)
    x = rng.standard_t(3, (n, d - 1)) / math.sqrt(3)
    return np.clip(math.sqrt(0.5) * x + math.sqrt(0.5) * rng.standard_t(3, (n, 1)) / math.sqrt(3), -20, 20)


def respond(family: str, x: Any, rows: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return outcomes in the family's own numbers, and the true coefficients of the raw columns."""
    K, (n, d) = 2 if family == "multinomial" else 1, x.shape
    intercept = 0.0 if rows == "light" else {"linear": 3.0, "poisson": -1.0}.get(family, -2.0)
    size = (0.5 if family in ("poisson", "probit") else 1.0) / math.sqrt(d)
    beta = size * rng.standard_normal((K, d))
    t = intercept + x @ beta.T
    if family == "logistic":
        y = (rng.random(n) < special.expit(t[:, 0])).astype(float)
    elif family == "probit":
        y = (rng.random(n) < special.ndtr(t[:, 0])).astype(float)
    elif family == "linear":
        y = (t[:, 0] + rng.standard_normal(n)) / _HIGH[rows]
        y = np.clip(y, -1, 1)
    elif family == "poisson":
        y = np.minimum(rng.poisson(np.exp(np.minimum(t[:, 0], 6.0))), _MOST).astype(float)
    else:
        p = np.exp(np.column_stack([np.zeros(n), t]))
        p /= p.sum(axis=1, keepdims=True)
        y = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).astype(float)
    truth = np.concatenate([np.concatenate([[intercept], row]) for row in beta])
    return np.minimum(y, K if K > 1 else np.inf), truth


def sums(look: Any, rows: Any, y: Any) -> Any:
    """Return the look in whole steps, but for the rounding of each record."""
    starts = range(0, len(y), _CHUNK)
    return sum(_some_sums(look, rows[start : start + _CHUNK], y[start : start + _CHUNK]) for start in starts)


def _some_sums(look: Any, rows: Any, y: Any) -> Any:
    z = rows @ look.matrix.T
    v = look.weights(np.einsum("ij,ij->i", z, z))
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
    return _fit(mechanism, rows, y, rng)[0]


def _fit(mechanism: AdaptiveLooks, rows: Any, y: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the coefficients, and how far the last look's noise alone moves them: σ‖AT'H⁻¹‖, H without its noise."""
    seen: list[Any] = []

    def shown(look: Any, scales: Any) -> Any:
        noise = np.concatenate(
            [np.full(k, n.scale) for n, k in zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)]
        )
        seen[:] = [look, sums(look, rows, y), scales]
        return seen[1] + noise * rng.standard_normal(noise.size)

    path = mechanism.walk(shown)
    look, total, scales = seen
    pull, lean = look.factors
    A, _ = mechanism.system.units
    H = look.split(total)["information"] / lean**2
    leads = A @ path[-1][0].shape.T @ np.linalg.pinv(H, 1e-12)
    return mechanism.conclude(path), scales["score"] / pull * np.linalg.norm(leads, axis=1)


def plain_sd(asked: Formula, rows: Any, y: Any) -> Any:
    """Return the standard errors without any privacy, of the coefficients of the raw columns."""
    family, K = asked.model, asked.model.outputs
    D, theta = K * rows.shape[1], np.zeros(K * rows.shape[1])
    for _ in range(25):
        t = rows @ theta.reshape(K, -1).T
        if K == 1:
            mean, slope = family.mean(t[:, 0]), np.maximum(family.slope(t[:, 0]), 1e-9)
            w = slope * slope / np.maximum(mean * (1 - mean), 1e-9) if asked.family == "probit" else slope
            pull = w / slope * (y - mean)
            if asked.family == "poisson":
                pull, w = _censored(np.exp(np.clip(t[:, 0], -30, 6)), y)
            score, info = rows.T @ pull, (rows * w[:, None]).T @ rows
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


def _censored(mu: Any, y: Any) -> tuple[Any, Any]:
    """Return the derivative of the log likelihood of counts of which is known up to where they are cut, and its mean
    square."""
    least, tail = np.arange(_MOST), np.maximum(special.gammainc(_MOST, mu), 1e-300)
    mass = np.exp(special.xlogy(least, mu[:, None]) - mu[:, None] - special.gammaln(least + 1))
    over = np.clip(mu * special.gammainc(_MOST - 1, mu) / tail - mu, 0.0, None)
    varies = (mass * (least - mu[:, None]) ** 2).sum(axis=1) + over**2 * tail
    return np.where(y < _MOST, y - mu, over), varies


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit several responses to one design at every ε."""
    family, n, d, rows, seed, count, epsilons = job
    asked = formula(family, d, rows)
    targets = {epsilon: AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA)) for epsilon in epsilons}
    rng = np.random.default_rng(seed)
    x = design(n, d, rows, rng)
    encoded = np.column_stack([np.ones(n), x / (6.0 if rows == "light" else 20.0)])
    found = []
    for k in range(count):
        y, truth = respond(family, x, rows, rng)
        bare = plain_sd(asked, encoded, y) if k == 0 else np.full(len(truth), np.nan)
        for epsilon, mechanism in targets.items():
            posterior, noise = _fit(mechanism, encoded, y, rng)
            low, high = posterior.interval().T
            sd, z = (high - low) / (2 * _SIDE), 2 * _SIDE * (truth - (low + high) / 2) / (high - low)
            found.append(((family, n, epsilon, d, rows), z, sd / np.hypot(bare, noise), sd / bare))
    return found


def main(quick: bool = False) -> None:
    """Fit regressions of every kind, and show how often their intervals hold."""
    from benchmarks.timing import show

    with tempfile.TemporaryDirectory() as folder:
        one, path = Path(folder) / "one.npz", Path(folder) / "coverage.csv"
        some = ["--lots", "1", "--sizes", "2000"] if quick else ["--seconds", "7200"]
        command(["--out", str(one), *some])
        command(["--add", str(one), "--csv", str(path)])
        with path.open(newline="", encoding="utf-8") as file:
            rows = [[row[name] for name in _FIELDS] for row in csv.DictReader(file)]
    show("Regression tables", _FIELDS, rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("regression_coverage.npz"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lots", type=int, default=60)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--add", type=Path, nargs="+")
    parser.add_argument("--csv", type=Path, default=Path("regression_coverage.csv"))
    given = parser.parse_args(words)
    if given.add:
        write(given.csv, given.add)
        return
    sizes, families = [int(n) for n in given.sizes.split(",")], given.families.split(",")
    kinds = sorted(itertools.product(sizes, families, DIMENSIONS, ROWS), key=lambda kind: -kind[0] * kind[2])
    jobs = [
        (family, n, d, rows, [given.seed, lot, number], _LOT, EPSILONS)
        for lot in range(given.lots)
        for number, (n, family, d, rows) in enumerate(kinds)
    ]
    cells: dict[Any, list[Any]] = {}
    started = time.time()
    with multiprocessing.Pool(given.processes) as pool:
        for done, batch in enumerate(pool.imap_unordered(some_fits, jobs), 1):
            for key, *rest in batch:
                cells.setdefault(key, []).append(rest)
            late = time.time() - started > given.seconds
            if done % 200 == 0 or late or done == len(jobs):
                save(given.out, cells)
                print(f"{done}/{len(jobs)} lots, {time.time() - started:.0f} s", flush=True)
            if late:
                pool.terminate()
                break


def save(path: Path, cells: dict[Any, list[Any]]) -> None:
    """Keep what every fit was off, and of the first of each lot how wide it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for key, fits in cells.items():
        z, ideal, bare = (np.array(part, dtype=np.float32) for part in zip(*fits, strict=True))
        some = ~np.isnan(bare[:, 0])
        arrays["|".join(map(str, key))] = z
        arrays["|".join(map(str, key)) + "|widths"] = np.stack([ideal[some], bare[some]])
    np.savez_compressed(path.with_suffix(".part.npz"), **arrays)
    path.with_suffix(".part.npz").replace(path)


def write(path: Path, runs: Sequence[Path]) -> None:
    """Add runs up, one line a cell."""
    found = [dict(np.load(run)) for run in runs]
    names = sorted({name for run in found for name in run if not name.endswith("widths")})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        for name in sorted(names, key=_order):
            z = np.concatenate([run[name] for run in found if name in run]).astype(float)
            ideal, bare = np.concatenate([run[f"{name}|widths"] for run in found if name in run], axis=1).astype(float)
            hit = np.abs(z) < _SIDE
            each = hit.mean(axis=1)
            numbers = (each.mean(), each.std() / math.sqrt(len(z)), hit.mean(axis=0).min())
            off = (math.sqrt((z**2).mean()), np.abs(np.median(z, axis=0)).max())
            wide = (np.median(bare), np.median(ideal), np.median(bare[:, 1:]))
            writer.writerow([*name.split("|"), len(z), *(f"{number:.4f}" for number in (*numbers, *off, *wide))])


def _order(name: str) -> tuple[Any, ...]:
    family, n, epsilon, d, rows = name.split("|")
    return FAMILIES.index(family), ROWS.index(rows), int(d), int(n), float(epsilon)


if __name__ == "__main__":
    command()
