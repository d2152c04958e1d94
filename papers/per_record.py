"""What each record pays in one pass of noisy SGD, and what public steps at the end are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Tally", "attack", "curve", "public_steps"]

_N = 40
_CONFIDENCE = 0.999
_PUBLIC = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
_MU = 0.5


@experiment("per-record-privacy", "What each record pays in one pass of noisy SGD", source="Geumlek 2020, Theorem 22")
def run(setting: Setting) -> Outcome:
    """Write the per-record curve and the error against public steps as CSV, PNG and SVG."""
    index, ours, theirs, most = curve()
    seen = attack(draws=4_000 if setting.quick else 100_000, seed=setting.seed)
    setting.advance(0.3)
    steps = _PUBLIC[::3] if setting.quick else _PUBLIC
    tallies, full = public_steps(steps, chains=5 if setting.quick else 40, setting=setting)
    rows = [
        [int(i), f"{a:.6g}", f"{b:.6g}", f"{seen[i]:.4f}" if i in seen else ""]
        for i, a, b in zip(index, ours, theirs, strict=True)
    ]
    table = write_csv(setting.output / "per-record-privacy.csv", ["index", "mu", "mu of the thesis", "attack"], rows)
    lines = [
        [t.steps, f"{t.noise:.4f}", f"{t.private.mean():.6f}", f"{t.private.std():.6f}", f"{t.alone:.6f}"]
        for t in tallies
    ]
    heads = ["public steps", "noise", "excess risk", "sd", "excess risk of the public records alone"]
    other = write_csv(setting.output / "public-steps.csv", heads, lines)
    files = setting.save(_draw((index, ours, theirs, most), seen, tallies, full), "per-record-privacy")
    first, last = tallies[0].private.mean(), tallies[-1].private.mean()
    notes = f"a full solve with noise on the minimiser, at the same μ, has excess risk {full:.2g}"
    findings = (
        Finding(
            "our bound, rounding of every step included, is never above the thesis' by a part in a million",
            bool(np.all(ours <= theirs * (1 + 1e-6))),
            _span(ours, theirs),
        ),
        Finding(
            "no attack beats the claim",
            all(value <= ours[i - 1] for i, value in seen.items()),
            ", ".join(f"record {i}: {value:.3f} of {ours[i - 1]:.3f}" for i, value in seen.items()),
        ),
        Finding(
            "public steps at the end lower the error",
            bool(last < 0.5 * first),
            f"excess risk {first:.4f} without, {last:.4f} with {steps[-1]}",
        ),
    )
    return Outcome((table, other, *files), findings, notes)


def _span(ours: Floats, theirs: Floats) -> str:
    ratio = theirs / ours
    return f"the thesis' μ is {ratio.min():.2f} to {ratio.max():.2f} times ours"


def _mechanism() -> Any:
    from sottovoce.inference.regression.design import Design
    from sottovoce.inference.regression.losses import SmoothedHinge
    from sottovoce.theory.amplification.sgd import NoisyProjectedSGD

    design = Design(SmoothedHinge(0.5), 2, 1.0)
    return NoisyProjectedSGD(design, _N, noise=1.0, learning_rate=0.2, regularisation=0.25)


def curve() -> tuple[Floats, Floats, Floats, float]:
    """Return the indices, our μ, the thesis' μ, and μ without amplification."""
    sgd = _mechanism()
    index = np.arange(1, _N + 1)
    return index.astype(np.float64), sgd.mu_at(index), sgd.thesis_mu_at(index), sgd.design.sensitivity(1.0) / sgd.noise


def attack(*, draws: int, seed: int) -> dict[int, float]:
    """Return a lower bound on μ at three indices, found by telling two neighbours apart (Clopper and Pearson 1934).

    The record flips its label; the attacker knows everything else and compares the last iterate with a threshold. Rows
    of zeros before and after leave the steps as little contracting as they can be.
    """
    sgd, found = _mechanism(), {}
    for k, index in enumerate((1, _N // 2, _N)):
        X = np.zeros((_N, 2))
        X[index - 1, 0] = 1.0
        one, two = (
            sgd.run(X, np.full(_N, label), seeded_rng(seed + 10 * k + side), chains=draws)[:, 0]
            for side, label in enumerate((1.0, -1.0))
        )
        risk = (1 - _CONFIDENCE) / 2
        hits, false = int(np.sum(one > 0)), int(np.sum(two > 0))  # the two laws mirror each other
        power = stats.beta.ppf(risk, hits, draws - hits + 1)
        error = stats.beta.ppf(1 - risk, false + 1, draws - false)
        found[index] = max(0.0, float(special.ndtri(power) - special.ndtri(error)))
    return found


@dataclass(frozen=True)
class Tally:
    """Excess risks at one number of public steps: of private SGD, and of the public records alone."""

    steps: int
    noise: float
    private: Floats
    alone: float


def public_steps(steps: tuple[int, ...], *, chains: int, setting: Setting) -> tuple[list[Tally], float]:
    """Return the excess risks of SGD at one promise for each number of public steps, and that of a full solve.

    The full solve minimises over all records at once and adds Gaussian noise for the sensitivity 2Bc/(nρ) of the
    minimiser (Chaudhuri, Monteleoni and Sarwate 2011).
    """
    from sottovoce.inference.regression.design import Design
    from sottovoce.inference.regression.losses import Logistic
    from sottovoce.theory.amplification.sgd import NoisyProjectedSGD

    n, d, rho = 20_000, 10, 0.02
    rng = seeded_rng(setting.seed)
    X = rng.standard_normal((n + max(steps), d)) / np.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ (np.arange(d) - 4.5) + rng.logistic(size=len(X)) > 0, 1.0, -1.0)

    def risk(W: Floats, rows: slice) -> Floats:
        margins = np.atleast_2d(W) @ X[rows].T * y[rows]
        return np.asarray(np.logaddexp(0.0, -margins).mean(axis=1) + rho / 2 * np.sum(np.atleast_2d(W) ** 2, axis=1))

    def fit(rows: slice) -> Floats:
        def objective(w: Floats) -> float:
            return float(risk(w, rows)[0])

        return np.asarray(optimize.minimize(objective, np.zeros(d)).x)

    ours = slice(0, n)
    solved, out = fit(ours), []
    best = float(risk(solved, ours)[0])
    noise = 2 / (n * rho * _MU)
    full = float(np.mean(risk(solved + noise * rng.standard_normal((100, d)), ours))) - best
    for k, count in enumerate(steps):
        design, theirs = Design(Logistic(), d, 1.0), slice(n, n + count)
        sgd = NoisyProjectedSGD.calibrate(
            design,
            n,
            GaussianDP(_MU),
            learning_rate=0.005,
            regularisation=rho,
            public_steps=count,
            public=design.reading.read((X[theirs], y[theirs])) if count else None,
        )
        W = sgd.run(X[ours], y[ours], seeded_rng(setting.seed + k), chains=chains)
        alone = fit(theirs) if count else np.zeros(d)
        out.append(Tally(count, sgd.noise, risk(W, ours) - best, float(risk(alone, ours)[0]) - best))
        setting.advance(0.3 + 0.7 * (k + 1) / len(steps))
    return out, full


def _draw(
    curves: tuple[Floats, Floats, Floats, float],
    seen: dict[int, float],
    tallies: list[Tally],
    full: float,
) -> Any:
    index, ours, theirs, most = curves
    drawing, (left, right) = figure(2)
    left.axhline(most, color="0.45", ls="--", lw=1.2, label="its own step's noise alone")
    left.plot(index, theirs, color=COLOURS[1], label="thesis, Theorem 22")
    left.plot(index, ours, color=COLOURS[0], label="tight bound")
    left.plot(list(seen), list(seen.values()), "^", color=COLOURS[2], ms=7, label="what an attack finds")
    left.set(xlabel="place of the record (of 40)", ylabel=r"privacy cost $\mu$", ylim=(0, 1.12 * most))
    left.set_title("Each record pays by its place")
    left.legend(loc="upper left", bbox_to_anchor=(0.02, 0.9))
    steps = [t.steps for t in tallies]
    mean, sd = (np.array([measure(t.private) for t in tallies]) for measure in (np.mean, np.std))
    right.fill_between(steps, mean - sd, mean + sd, color=COLOURS[0], alpha=0.15, lw=0)
    right.plot(steps, mean, "o-", color=COLOURS[0], ms=4, label="20,000 private records, then public steps")
    right.plot(
        steps, [t.alone for t in tallies], "s--", color=COLOURS[1], ms=4, lw=1.2, label="the public records alone"
    )
    right.axhline(full, color=COLOURS[2], ls=":", label="all private records at once, solved, plus noise")
    right.legend(loc="lower left", bbox_to_anchor=(0.0, 0.06))
    right.set_xscale("symlog", linthresh=1, linscale=0.5)
    right.set_xticks([0, 1, 4, 16, 64, 256], ["0", "1", "4", "16", "64", "256"])
    right.minorticks_off()
    right.set_yscale("log")
    right.set(xlabel="public steps at the end", ylabel="excess risk", xlim=(-0.25, 330))
    right.set_title(rf"Error at $\mu = {_MU}$ for every record")
    return drawing
