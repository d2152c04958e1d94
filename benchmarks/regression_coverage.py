"""How often the intervals of a private regression hold the truth, over n, ε, d, families and awkward rows.

Several fits share the rows of one design, with truths, responses and noise of their own. Runs with other seeds add up.
Truths are chosen as tables have them, or with `--truths prior` or `stated` drawn from the prior, rows too: then
intervals should hold as often as they say, however little the looks tell.

    python -m benchmarks.regression_coverage --out one.npz --seed 1 --seconds 400 --processes 16
    python -m benchmarks.regression_coverage --add one.npz two.npz --csv coverage.csv
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from benchmarks.fitting import DELTA, SIDE, Cells, fit_beside, options, run, show_csv
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.moment_gibbs_sampler import NARROWEST, POWER
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

FAMILIES = ("logistic", "probit", "linear", "poisson", "multinomial")
SIZES, EPSILONS, DIMENSIONS = (2_000, 20_000, 200_000), (0.3, 1.0, 3.0), (5, 20)
ROWS = ("light", "heavy")
"""Normal, independent columns; or t3 tails, columns that share half of their variance, and an intercept far from 0."""
PRIORS: dict[str, dict[str, float]] = {
    "chosen": {},
    "prior": {},
    "stated": dict.fromkeys(FAMILIES, 1.0) | {"linear": 0.02},
}
"""Where truths come from, and the prior that is stated by family: tables' own with the usual prior; the usual prior
itself; or a narrower one that is stated. Of a line the usual prior is wider than the bounds of its response: it is
never drawn from."""
_LOT = 5
"""Fits that share a design; of the first alone the fit without privacy is made, to compare widths with."""
_WIDE = {"light": 6.0, "heavy": 20.0}
"""The bounds of the columns."""
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


def formula(family: str, d: int, rows: str, prior: float | None = None, misses: float | None = None) -> Formula:
    """Return what is asked, and the public facts of it."""
    wide = _WIDE[rows]
    names = [f"x{i}" for i in range(1, d)]
    high = _HIGH[rows]
    response: dict[str, Any] = {
        "linear": Number(-high, high),
        "poisson": Count(_MOST),
        "multinomial": Category(["a", "b", "c"]),
    }
    facts = {name: Number(-wide, wide) for name in names} | {"y": response.get(family, Flag())}
    return Formula("y ~ " + " + ".join(names), Facts(facts), family, prior, misses=misses)


def design(n: int, d: int, rows: str, rng: np.random.Generator) -> Any:
    """Return raw columns."""
    if rows == "light":
        return np.clip(rng.standard_normal((n, d - 1)), -6, 6)
    x = rng.standard_t(3, (n, d - 1)) / math.sqrt(3)
    return np.clip(math.sqrt(0.5) * x + math.sqrt(0.5) * rng.standard_t(3, (n, 1)) / math.sqrt(3), -20, 20)


def believed(asked: Formula, n: int, rows: str, rng: np.random.Generator) -> Any:
    """Return rows as the prior has them: columns that spread over any part of their bounds, about any place."""
    x = design(n, asked.encoding.size, rows, rng)
    places = rng.random(x.shape[1]) * (1 - NARROWEST**POWER) + NARROWEST**POWER
    spread = places ** (1 / POWER)
    middle = rng.uniform(-1, 1, x.shape[1]) * (1 - spread)
    return np.column_stack([np.ones(n), np.clip(middle + spread * x, -1, 1)])


def drawn(asked: Formula, encoded: Any, rng: np.random.Generator) -> Any:
    """Return coefficients of the rows, drawn from the prior."""
    K, d = asked.model.outputs, encoded.shape[1]
    _, sd = asked.prior_sd(encoded.std(axis=0)[None])
    theta = (sd[0] * rng.standard_normal(K * d)).reshape(K, d)
    theta[:, 0] -= theta[:, 1:] @ encoded[:, 1:].mean(axis=0)
    return theta.ravel()


def chosen(asked: Formula, rows: str, rng: np.random.Generator) -> Any:
    """Return coefficients of the rows as tables have them: of a moderate size."""
    family, d = asked.family, asked.encoding.size - 1
    intercept = 0.0 if rows == "light" else {"linear": 3.0, "poisson": -1.0}.get(family, -2.0)
    size = (0.5 if family in ("poisson", "probit") else 1.0) / math.sqrt(d)
    beta = size * rng.standard_normal((asked.model.outputs, d))
    A, b = asked.units
    return np.linalg.solve(A, np.concatenate([np.concatenate([[intercept], row]) for row in beta]) - b)


def respond(asked: Formula, encoded: Any, theta: Any, rows: str, rng: np.random.Generator) -> Any:
    """Return outcomes in the family's own numbers."""
    family, n, K = asked.family, len(encoded), asked.model.outputs
    t = encoded @ theta.reshape(K, -1).T
    if family == "logistic":
        return (rng.random(n) < special.expit(t[:, 0])).astype(float)
    if family == "probit":
        return (rng.random(n) < special.ndtr(t[:, 0])).astype(float)
    if family == "linear":
        return np.clip(t[:, 0] + rng.standard_normal(n) / _HIGH[rows], -1, 1)
    if family == "poisson":
        return np.minimum(rng.poisson(np.exp(np.minimum(t[:, 0], 6.0))), _MOST).astype(float)
    p = special.softmax(np.column_stack([np.zeros(n), t]), axis=1)
    return np.minimum((rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).astype(float), K)


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
    family, n, d, rows, seed, count, epsilons, *rest = job
    truths, misses = rest or ("chosen", None)
    asked = formula(family, d, rows, PRIORS[truths].get(family), misses)
    targets = {epsilon: AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA)) for epsilon in epsilons}
    rng = np.random.default_rng(seed)
    if truths == "chosen":
        encoded = np.column_stack([np.ones(n), design(n, d, rows, rng) / _WIDE[rows]])
    tables, found = [], []
    A, b = asked.units
    for k in range(count):
        if truths != "chosen":
            encoded = believed(asked, n, rows, rng)
        theta = chosen(asked, rows, rng) if truths == "chosen" else drawn(asked, encoded, rng)
        y, truth = respond(asked, encoded, theta, rows, rng), A @ theta + b
        bare = plain_sd(asked, encoded, y) if k == 0 and truths == "chosen" else np.full(len(truth), np.nan)
        tables.append((encoded, y, truth, bare))
    for epsilon, mechanism in targets.items():
        fits = fit_beside(mechanism, [(encoded, y) for encoded, y, *_ in tables], rng)
        for (posterior, noise), (_, _, truth, bare) in zip(fits, tables, strict=True):
            low, high = posterior.interval().T
            sd, z = (high - low) / (2 * SIDE), 2 * SIDE * (truth - (low + high) / 2) / (high - low)
            found.append(((family, n, epsilon, d, rows), z, sd / np.hypot(bare, noise), sd / bare))
    return found


def main(quick: bool = False) -> None:
    """Fit regressions of every kind, and show how often their intervals hold."""

    def fill(path: Path) -> None:
        one = path.with_suffix(".npz")
        some = ["--lots", "1", "--sizes", "2000"] if quick else ["--seconds", "7200"]
        command(["--out", str(one), *some])
        command(["--add", str(one), "--csv", str(path)])

    show_csv("Regression tables", _FIELDS, fill)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_coverage.npz", SIZES, 280.0)
    parser.add_argument("--lots", type=int, default=60)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--truths", choices=PRIORS, default="chosen")
    parser.add_argument("--misses", type=float, help="How much the formula may miss; 0 where it is right.")
    parser.add_argument("--add", type=Path, nargs="+")
    parser.add_argument("--csv", type=Path, default=Path("regression_coverage.csv"))
    given = parser.parse_args(words)
    if given.add:
        write(given.csv, given.add)
        return
    families = [family for family in given.families.split(",") if (given.truths, family) != ("prior", "linear")]
    kinds = sorted(itertools.product(given.sizes, families, DIMENSIONS, ROWS), key=lambda kind: -kind[0] * kind[2])
    jobs = [
        (family, n, d, rows, [given.seed, lot, number], _LOT, EPSILONS, given.truths, given.misses)
        for lot in range(given.lots)
        for number, (n, family, d, rows) in enumerate(kinds)
    ]
    run(given, jobs, some_fits, save)


def save(path: Path, cells: Cells) -> None:
    """Keep what every fit was off, and of the first of each lot how wide it was."""
    arrays = {}
    for key, fits in cells.items():
        z, ideal, bare = (np.array(part, dtype=np.float32) for part in zip(*fits, strict=True))
        some = ~np.isnan(bare[:, 0])  # none where truths are drawn from a prior
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
            hit = np.abs(z) < SIDE
            each = hit.mean(axis=1)
            numbers = (each.mean(), each.std() / math.sqrt(len(z)), hit.mean(axis=0).min())
            off = (math.sqrt((z**2).mean()), np.abs(np.median(z, axis=0)).max())
            wide = (np.median(bare), np.median(ideal), np.median(bare[:, 1:])) if bare.size else ()
            shown = [f"{number:.4f}" for number in (*numbers, *off, *wide)]
            writer.writerow([*name.split("|"), len(z), *shown, *[""] * (len(_FIELDS) - 6 - len(shown))])


def _order(name: str) -> tuple[Any, ...]:
    family, n, epsilon, d, rows = name.split("|")
    return FAMILIES.index(family), ROWS.index(rows), int(d), int(n), float(epsilon)


if __name__ == "__main__":
    command()
