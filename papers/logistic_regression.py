"""Logistic regression on Abalone, Adult and MNIST 3-against-8 by three private samplers, 50 runs a point.

The prior is N(0, I/(nβ)) with β = 1e-3, rows have norm 1; λ ∈ {1, 10, 100} and ε ∈ {e⁻⁵, …, e³}. Algorithms 4 and 5 are
certified chains: they keep (λ, ε)-RDP after any number of steps. OPS is one sample on the ball of radius 1/β that
keeps pure ε, and in a second line only the same Rényi promise; its privacy rests on convergence, so its chain takes
eight times shorter steps. Solid lines have our constants: a certified chain of finite length needs less of a prior
than an exact sample, and OPS only half of the printed 4ρ/β. Dashed lines have the printed ones: m = 2λ/ε,
ρ² = εnβ/(2λ), ρ = εβ/4.
The paper drew all three by slice sampling and read the scales off the data; here the bounds are fixed in advance.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from papers.parts import run_parts
from papers.registry import Finding, Outcome, Setting, experiment
from papers.regression_data import Regression, load_regression
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.inference.regression.certificate import Chain, mixing_steps
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import Placement
from sottovoce.inference.regression.langevin import run_chains
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import ConcentratedRegression, DiffusedRegression
from sottovoce.inference.regression.tempered import TemperedRegression
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import Promise, PureDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Cell", "Point", "measure", "mechanism_for", "printed_constants", "redraw"]

BETA = 1e-3
OPS, OPS_RENYI, FOUR, FIVE, EXACT = "OPS", "OPS, Rényi promise", "Algorithm 4", "Algorithm 5", "no privacy"
PRINTED = {name: f"{name}, as printed" for name in (OPS, FOUR, FIVE)}
MECHANISMS = (OPS, OPS_RENYI, FOUR, FIVE, *PRINTED.values())
NAME = "logistic-regression"


@dataclass(frozen=True)
class Cell:
    """One point of the figure: what is to be measured, and by how many runs."""

    data: str
    mechanism: str
    order: int
    log_epsilon: int
    runs: int
    seed: int

    @property
    def name(self) -> str:
        """Its name in the cache."""
        return " ".join(str(value) for value in vars(self).values())


@dataclass(frozen=True)
class Point:
    """One row of the table."""

    data: str
    mechanism: str
    order: int
    log_epsilon: int
    runs: int
    data_weight: float
    prior_precision: float
    error: float
    error_sd: float
    nll: float
    nll_sd: float


def redraw(table: Path, setting: Setting) -> Outcome:
    """Draw the figures and find the findings from a table written by an earlier run."""
    kinds: dict[str, Any] = dict.fromkeys(Point.__dataclass_fields__, float)
    kinds |= {"data": str, "mechanism": str, "order": int, "log_epsilon": int, "runs": int}
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or set(rows[0]) != set(kinds):
        raise InvalidData(f"{table} is not a table of this experiment: its columns must be {', '.join(kinds)}")
    points = [Point(**{key: kinds[key](value) for key, value in row.items()}) for row in rows]
    return _outcome(points, setting)


@experiment(
    NAME,
    "Logistic regression by private posterior samples",
    source="Geumlek et al. 2017, Figure 3 and appendix Figures 3 and 4",
    redraw=redraw,
)
def run(setting: Setting) -> Outcome:
    """Measure every point, write the table, draw test error and negative log-likelihood."""
    names = ("abalone",) if setting.quick else ("abalone", "adult", "mnist")
    orders = (1, 100) if setting.quick else (1, 10, 100)
    powers = (-4, 1) if setting.quick else tuple(range(-5, 4))
    runs = 20 if setting.quick else 50
    cells = [Cell(name, EXACT, 0, 0, runs, setting.seed) for name in names]
    cells += [
        Cell(name, mechanism, order, power, runs, setting.seed)
        for name in names
        for order in orders
        for power in powers
        for mechanism in MECHANISMS
    ]
    # One process: all runs of a point are one array, which fills every core or the accelerator.
    found = run_parts(replace(setting, jobs=1), measure, {cell.name: cell for cell in cells})
    shown = {field: value for field, value in Cell.__dataclass_fields__.items() if field != "seed"}
    points = [
        Point(**{field: getattr(cell, field) for field in shown}, **answer)
        for cell, answer in zip(cells, found.values(), strict=True)
    ]
    return _outcome(points, setting)


def mechanism_for(
    mechanism: str, design: Design, n: int, target: RenyiDP
) -> DiffusedRegression | ConcentratedRegression:
    """Return the chain of a mechanism: certified for Algorithms 4 and 5, else finely stepped."""
    m = BETA * n
    if mechanism == FOUR:
        return ConcentratedRegression.calibrate(design, n, target, prior_precision=m)
    if mechanism == FIVE:
        return DiffusedRegression.calibrate(design, n, target, prior_precision=m)
    weight, finer = 1.0, 2
    if mechanism in (OPS, OPS_RENYI, PRINTED[OPS]):
        design, finer = replace(design, radius=design.data_norm / BETA), 8
    if mechanism in PRINTED.values():
        weight, m = printed_constants(mechanism, m, target)
    elif mechanism != EXACT:
        promise: Promise = PureDP(target.epsilon) if mechanism == OPS else target
        weight = TemperedRegression.calibrate(design, n, promise, prior_precision=m).data_weight
    step = 1 / (finer * design.smoothness(n, weight, m))
    return DiffusedRegression(design, n, m, weight, n_steps=mixing_steps(m, step), step=step)


def printed_constants(mechanism: str, m: float, target: RenyiDP) -> tuple[float, float]:
    """Return ρ and the prior's precision as printed, for rows of norm 1 and B = 1."""
    order, epsilon = target.order, target.epsilon
    if mechanism == PRINTED[FOUR]:
        return 1.0, max(m, 2 * order / epsilon)
    if mechanism == PRINTED[FIVE]:
        return min(1.0, math.sqrt(epsilon * m / (2 * order))), m
    return min(1.0, epsilon * BETA / 4), m


def measure(cell: Cell) -> dict[str, float]:
    """Return error and negative log-likelihood on the test records, means and deviations over the runs."""
    data = _data(cell.data)
    n, d = data.X.shape
    target = RenyiDP(max(1, cell.order), math.exp(cell.log_epsilon))
    chain = mechanism_for(cell.mechanism, Design(Logistic(), dimension=d, data_norm=1.0), n, target)
    seed = cell.seed + 1000 * cell.order + 10 * (cell.log_epsilon + 5)
    error, nll = _errors(cell.data, chain.design, chain.chain, chain.data_weight, cell.runs, seed)
    return {
        "data_weight": chain.data_weight,
        "prior_precision": chain.prior_precision,
        "error": float(error.mean()),
        "error_sd": float(error.std(ddof=1)),
        "nll": float(nll.mean()),
        "nll_sd": float(nll.std(ddof=1)),
    }


_data = cache(load_regression)


@lru_cache(len(MECHANISMS))
def _errors(name: str, design: Design, chain: Chain, data_weight: float, runs: int, seed: int) -> tuple[Floats, Floats]:
    """Return error and negative log-likelihood of every run; where a promise asks for nothing, all chains are one."""
    data = _data(name)
    start, place = np.zeros((runs, design.dimension)), Placement(precision="float32")
    W = run_chains(
        design, chain, data.X, data.y, data_weight=data_weight, centre=start, rng=seeded_rng(seed), placement=place
    )
    return data.error(W), _negative_log_likelihood(data, W)


def _negative_log_likelihood(data: Regression, W: Floats) -> Floats:
    """Return −log p(y|x, w) averaged over the test records, for each row of W."""
    margins = data.y_test[:, None] * (data.X_test @ W.T)
    return np.asarray(np.logaddexp(0.0, -margins).mean(axis=0))


def _outcome(points: list[Point], setting: Setting) -> Outcome:
    fields = tuple(Point.__dataclass_fields__)
    rows = [[_short(getattr(point, field)) for field in fields] for point in points]
    table = write_csv(setting.output / f"{NAME}.csv", fields, rows)
    files = [
        *setting.save(_draw(points, "error", "test error"), NAME),
        *setting.save(_draw(points, "nll", "negative log-likelihood"), f"{NAME}-likelihood"),
    ]
    return Outcome((*files, table), tuple(_findings(points)))


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _findings(points: list[Point]) -> Iterator[Finding]:
    for field, what in (("error", "test error"), ("nll", "negative log-likelihood")):
        for mine in (FOUR, FIVE):
            yield _never_above(points, mine, OPS, field, f"{mine} has a smaller {what} than OPS everywhere")
        yield _never_above(points, FIVE, FOUR, field, f"Algorithm 5 never has a larger {what} than Algorithm 4")
    yield _never_above(points, FIVE, OPS_RENYI, "error", "the same holds when OPS need only keep the Rényi promise")
    yield _degrades(points)
    yield from _constants(points)


def _constants(points: list[Point]) -> Iterator[Finding]:
    """Say how our constants lie to the printed ones, and whether the order of the lines depends on them."""
    shares: dict[str, list[float]] = {OPS: [], FOUR: [], FIVE: []}
    for p in points:
        if p.mechanism in shares:
            n = {"abalone": 2784, "adult": 32561, "mnist": 7988}[p.data]
            target = RenyiDP(p.order, math.exp(p.log_epsilon))
            rho, m = printed_constants(PRINTED[p.mechanism], BETA * n, target)
            shares[p.mechanism].append(p.prior_precision / m if p.mechanism == FOUR else p.data_weight / rho)
    yield Finding(
        "ours: our constants use no less of the data than the printed ones, under the same promise",
        max(shares[FOUR]) <= 1.001 and min(*shares[OPS], *shares[FIVE]) >= 0.999,
        f"{FOUR} has {min(shares[FOUR]):.2f} to {max(shares[FOUR]):.2f} of the printed precision, {FIVE} "
        f"{min(shares[FIVE]):.2f} to {max(shares[FIVE]):.2f} of the printed ρ, {OPS} {max(shares[OPS]):.2f}",
    )
    some = [p for p in points if p.mechanism in PRINTED.values()]
    if some:
        drawn = ", ".join(dict.fromkeys(p.data for p in some))
        for mine in (FOUR, FIVE):
            claim = f"with the printed constants too, {mine} has a smaller test error than OPS ({drawn})"
            yield _never_above(some, PRINTED[mine], PRINTED[OPS], "error", claim)
        for mine in (FOUR, FIVE, OPS):
            yield _difference(points, mine)


def _difference(points: list[Point], mine: str) -> Finding:
    """Say by how much our constants change what the printed ones give, at every point where both were run."""
    table = {(p.data, p.order, p.log_epsilon, p.mechanism): p for p in points}
    pairs = [(p, table[p.data, p.order, p.log_epsilon, mine]) for p in points if p.mechanism == PRINTED[mine]]
    gaps = np.array([[ours.error - printed.error, ours.nll - printed.nll] for printed, ours in pairs])
    worse = sum(
        ours.error - printed.error > 2 * math.hypot(ours.error_sd, printed.error_sd) / math.sqrt(ours.runs)
        for printed, ours in pairs
    )
    low, high = gaps[:, 0].min(), gaps[:, 0].max()
    return Finding(
        f"ours: what our constants change of {mine}'s printed ones is small, and for the better on average",
        bool(gaps[:, 0].mean() <= 0.001 and worse <= 0.05 * len(pairs) + 1),
        f"test error {gaps[:, 0].mean():+.4f} on average ({low:+.3f} to {high:+.3f} at {len(pairs)} points, worse by "
        f"over two standard errors at {worse}), negative log-likelihood {gaps[:, 1].mean():+.4f}",
    )


def _never_above(points: list[Point], low: str, high: str, field: str, claim: str) -> Finding:
    """Compare two mechanisms at every point; worse by over two standard errors counts as worse."""
    table = {(p.data, p.order, p.log_epsilon, p.mechanism): p for p in points}
    worse, lower, cells = [], 0, 0
    for (data, order, power, mechanism), point in table.items():
        if mechanism == low:
            other = table[data, order, power, high]
            gap = getattr(point, field) - getattr(other, field)
            noise = math.hypot(getattr(point, f"{field}_sd"), getattr(other, f"{field}_sd")) / math.sqrt(point.runs)
            cells, lower = cells + 1, lower + (gap < 0)
            if gap > 2 * noise:
                worse.append(f"{data} λ={order} ε=e^{power} (+{gap:.3g})")
    evidence = f"lower at {lower} of {cells} points"
    if lower < cells and not worse:
        evidence += ", level within noise at the others"
    return Finding(claim, not worse, f"{evidence}; worse at {', '.join(worse)}" if worse else evidence)


def _degrades(points: list[Point]) -> Finding:
    names, orders = _axes(points)
    means = {
        (name, order): np.mean([p.error for p in points if (p.data, p.order, p.mechanism) == (name, order, FIVE)])
        for name in names
        for order in orders
    }
    holds = all(means[name, low] <= means[name, high] for name in names for low, high in pairwise(orders))
    shown = "; ".join(
        f"{name} " + ", ".join(f"{means[name, order]:.3f} at λ = {order}" for order in orders) for name in names
    )
    claim = "utility degrades as λ increases (Algorithm 5's error, mean over ε)"
    return Finding(claim, bool(holds), shown)


def _axes(points: list[Point]) -> tuple[list[str], list[int]]:
    """Return the data sets and the orders of the table."""
    return list(dict.fromkeys(p.data for p in points)), sorted({p.order for p in points if p.mechanism != EXACT})


def _draw(points: list[Point], field: str, label: str) -> Any:
    names, orders = _axes(points)
    drawing, grid = figure(len(orders), len(names), width=2.9, height=2.4)
    grid = np.reshape(grid, (len(names), len(orders)))
    colours = dict(zip((OPS, OPS_RENYI, FOUR, FIVE), (COLOURS[5], "#a9b3ba", COLOURS[1], COLOURS[0]), strict=True))
    colours |= {printed: colours[name] for name, printed in PRINTED.items()}
    for line, name in zip(grid, names, strict=True):
        exact = next(p for p in points if (p.data, p.mechanism) == (name, EXACT))
        for axis, order in zip(line, orders, strict=True):
            axis.axhline(getattr(exact, field), color="#777777", ls=":", lw=1.2, label="posterior, no privacy")
            for mechanism, colour in colours.items():
                mine = [p for p in points if (p.data, p.order, p.mechanism) == (name, order, mechanism)]
                if not mine:  # a table of an earlier run may lack the printed ones
                    continue
                x = [p.log_epsilon for p in mine]
                mean = np.array([getattr(p, field) for p in mine])
                se = np.array([getattr(p, f"{field}_sd") / math.sqrt(p.runs) for p in mine])
                style = "o-" if mechanism in (OPS, FOUR, FIVE) else "o--"
                axis.errorbar(x, mean, 2 * se, fmt=style, color=colour, ms=3, capsize=1.5, lw=1.5, label=mechanism)
            axis.set_title(f"{name}, λ = {order}")
            axis.set_xticks([-5, -3, -1, 1, 3], ["e⁻⁵", "e⁻³", "e⁻¹", "e", "e³"])
            if field == "nll":
                axis.set_yscale("log")
                axis.yaxis.set_major_formatter("{x:.1g}")
                axis.yaxis.set_minor_formatter("{x:.1g}")
        low = min(axis.get_ylim()[0] for axis in line)
        high = max(axis.get_ylim()[1] for axis in line)
        for axis in line:
            axis.set_ylim(low, high)
        line[0].set_ylabel(label)
    for axis in grid[-1]:
        axis.set_xlabel("ε")
    drawing.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return drawing
