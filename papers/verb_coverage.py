"""How often the 95 % intervals of the verbs hold the truth, over sizes, noise, groups, gaps and awkward data.

Truths are fixed: a population's proportion, mean, rate or quantile, of records cut to the public bounds; for counts,
the true counts. A cell of the design is one verb with one n, one ε, one number of groups, a share of missing values, a
share of records that a condition selects, and one shape of data. Groups are unequal; coverage is averaged over them.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.answers.answer import Answer
from sottovoce.answers.noisy_cells import NoisyCells
from sottovoce.answers.questions import Question
from sottovoce.answers.style import figure, save, write_csv
from sottovoce.facts import Category, Count, Facts, Flag, Number
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Cell", "cover", "design"]

SIZES, EPSILONS, GROUPS = (50, 500, 5000), (0.1, 0.5, 2.0), (1, 4, 20)
SHARES = (0.3, 0.05, 0.5, 0.9, 0.15)
AT = (0.25, 0.5, 0.9)
DELTA = 1e-6


@dataclass(frozen=True)
class Cell:
    """One place of the design."""

    verb: str
    n: int
    epsilon: float
    groups: int
    shape: str = "normal"
    missing: float = 0.0
    selected: float = 1.0
    pure: bool = False
    pool: bool = False

    @property
    def promise(self) -> Promise:
        """What each answer keeps."""
        return PureDP(self.epsilon) if self.pure else ApproxDP(self.epsilon, DELTA)


def design() -> list[Cell]:
    """Return every cell: all sizes for proportions and means, corners and awkward data for the rest."""
    cells = [Cell(v, n, e, g) for v in ("proportion", "mean") for n, e, g in itertools.product(SIZES, EPSILONS, GROUPS)]
    corners = [(50, 2.0, 1), (500, 0.1, 4), (500, 2.0, 4), (5000, 0.1, 20), (5000, 0.5, 4), (5000, 2.0, 20)]
    for verb in ("rate", "counts", "quantiles", "difference", "ratio", "mean difference"):
        groups = {"difference": 4, "ratio": 4, "mean difference": 4}.get(verb)
        cells += [Cell(verb, n, e, max(g, 4) if groups else g) for n, e, g in corners]
    for verb, shapes in (
        ("mean", ("skewed", "heavy", "zeros", "ends")),
        ("rate", ("skewed", "zeros")),
        ("quantiles", ("skewed", "heavy")),
        ("proportion", ("rare",)),
        ("counts", ("rare",)),
        ("difference", ("rare",)),
        ("ratio", ("rare",)),
    ):
        for shape, (n, e) in itertools.product(shapes, ((500, 0.5), (5000, 0.5), (5000, 2.0))):
            cells.append(Cell(verb, n, e, 4, shape))
    for verb, (missing, selected) in itertools.product(
        ("proportion", "mean", "rate", "counts", "quantiles"), ((0.2, 1.0), (0.0, 0.4), (0.0, 0.03), (0.2, 0.4))
    ):
        cells.append(Cell(verb, 5000, 0.5, 4, missing=missing, selected=selected))
    cells += [Cell(v, 500, e, 4, pure=True) for v in ("proportion", "mean", "rate", "quantiles") for e in (0.5, 2.0)]
    cells += [Cell(v, n, 0.5, 20, pool=True) for v in ("proportion", "mean", "counts") for n in (500, 5000)]
    return cells


def cover(cell: Cell, repeats: int, seed: int) -> dict[str, float]:
    """Return how often intervals hold the truth, how wide they are, and how much of that is privacy."""
    rng = seeded_rng(seed)
    question = _question(cell)
    mechanism = NoisyCells.calibrate(question, cell.n, cell.promise)
    hits, widths = [], []
    for _ in range(repeats):
        records, truth = _world(cell, rng)
        answer = Answer(mechanism.release(records, rng))
        ends = _intervals(cell, answer)
        hits.append(np.mean((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1])))
        widths.append(np.mean(ends[:, 1] - ends[:, 0]))
    return {"covered": float(np.mean(hits)), "width": float(np.mean(widths))}


def _question(cell: Cell) -> Question:
    named: dict[str, Any] = {"yes": Flag(), "x": Number(0, 100), "k": Count(20), "part": Category(("a", "b", "c"))}
    by = ("group",) if cell.groups > 1 else ()
    if by or cell.selected < 1:
        named["group"] = Category(tuple(range(cell.groups)))
    by = ("group",) if "group" in named else ()
    facts = Facts(named)
    options: dict[str, Any] = {"by": by, "pool": cell.pool}
    match cell.verb:
        case "proportion" | "difference" | "ratio":
            return Question("proportion", ("yes",), facts, **options)
        case "mean" | "mean difference":
            return Question("mean", ("x",), facts, **options)
        case "rate":
            return Question("rate", ("k",), facts, **options)
        case "counts":
            return Question("counts", ("part",), facts, **options)
        case _:
            return Question("quantiles", ("x",), facts, by=by, at=AT)


def _intervals(cell: Cell, answer: Answer) -> Floats:
    if cell.verb == "difference":
        return answer.difference(0, 1).interval()[None]
    if cell.verb == "mean difference":
        return answer.difference(0, 1).interval()[None]
    if cell.verb == "ratio":
        return answer.ratio(0, 1).interval()[None]
    return answer.posterior.interval()


def _world(cell: Cell, rng: np.random.Generator) -> tuple[dict[str, Any], Floats]:
    """Return the records of one imagined table, and what the answer is about."""
    n, groups = cell.n, cell.groups
    sizes = np.arange(1, groups + 1, dtype=float)
    group = rng.choice(groups, n, p=sizes / sizes.sum())
    placed = np.where(rng.random(n) < cell.selected, group, -1)  # outside of a condition: in no group
    gone = rng.random(n) < cell.missing
    records: dict[str, Any] = {"group": placed}
    match cell.verb:
        case "proportion" | "difference" | "ratio":
            shares = np.resize([0.02, 0.01, 0.03] if cell.shape == "rare" else SHARES, groups)
            records["yes"] = np.where(gone, -1, rng.random(n) < shares[group])
            truth = shares
            if cell.verb != "proportion":
                first, second = shares[:2]
                truth = np.array([first - second if cell.verb == "difference" else first / second])
        case "mean" | "mean difference" | "quantiles":
            values = _numbers(cell.shape, group, n, rng)
            records["x"] = np.where(gone, np.nan, values)
            means, quantiles = _truths(cell.shape, groups)
            truth = quantiles.ravel() if cell.verb == "quantiles" else means
            truth = np.array([means[0] - means[1]]) if cell.verb == "mean difference" else truth
        case "rate":
            records["k"] = np.where(gone, np.nan, _whole(cell.shape, group, n, rng))
            truth = _rates(cell.shape, groups)
        case _:
            part = rng.choice(3, n, p=[0.98, 0.015, 0.005] if cell.shape == "rare" else [0.6, 0.3, 0.1])
            records["part"] = [None if g else "abc"[p] for g, p in zip(gone, part, strict=True)]
            kept = (placed >= 0) & ~gone
            truth = np.array([[np.sum(kept & (group == g) & (part == p)) for p in range(3)] for g in range(groups)])
            truth = truth.ravel().astype(float)
    return records, truth


def _numbers(shape: str, group: Any, n: int, rng: np.random.Generator) -> Floats:
    shift = 3.0 * (group % 5)
    match shape:
        case "skewed":
            found = np.exp(rng.normal(2.5, 0.8, n)) + shift
        case "heavy":
            found = 40 + shift + 6 * rng.standard_t(3, n)
        case "zeros":
            found = np.where(rng.random(n) < 0.6, 0.0, rng.exponential(20 + shift, n))
        case "ends":
            found = np.where(rng.random(n) < 0.2 + shift / 40, 100.0, 0.0)
        case _:
            found = rng.normal(40 + shift, 10, n)
    return np.asarray(np.clip(found, 0, 100))


def _whole(shape: str, group: Any, n: int, rng: np.random.Generator) -> Floats:
    mean = 1.0 + 0.5 * (group % 4)
    match shape:
        case "skewed":
            found = rng.negative_binomial(0.7, 0.7 / (0.7 + mean), n)
        case "zeros":
            found = np.where(rng.random(n) < 0.7, 0, rng.poisson(3 * mean, n))
        case _:
            found = rng.poisson(mean, n)
    return np.asarray(np.minimum(found, 20), dtype=np.float64)


@functools.cache
def _truths(shape: str, groups: int) -> tuple[Floats, Floats]:
    """Return each group's mean and quantiles, from a million records of it."""
    many, rng = 1_000_000, seeded_rng(7)
    found = {g: _numbers(shape, np.full(many, g), many, rng) for g in range(min(groups, 5))}
    means, quantiles = ({g: f(x) for g, x in found.items()} for f in (np.mean, lambda x: np.quantile(x, AT)))
    return np.array([means[g % 5] for g in range(groups)]), np.array([quantiles[g % 5] for g in range(groups)])


@functools.cache
def _rates(shape: str, groups: int) -> Floats:
    many, rng = 1_000_000, seeded_rng(8)
    found = [float(_whole(shape, np.full(many, g), many, rng).mean()) for g in range(min(groups, 4))]
    return np.array([found[g % 4] for g in range(groups)])


@experiment("verb-coverage", "Answers whose intervals keep their level", source="ours")
def run(setting: Setting) -> Outcome:
    """Measure the coverage of every cell, and draw it."""
    cells = design()
    cells = cells[::11] if setting.quick else cells
    rows: list[dict[str, Any]] = []
    for index, cell in enumerate(cells):
        repeats = 12 if setting.quick else 400
        found = cover(cell, repeats, setting.seed + index)
        rows.append({k: getattr(cell, k) for k in cell.__dataclass_fields__} | found | {"repeats": repeats})
        setting.advance((index + 1) / len(cells))
    table = write_csv(setting.output / "verb-coverage.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    files = save(_draw(rows), setting.output / "verb-coverage")
    levels = [row["covered"] for row in rows]
    slack = 3 * (0.95 * 0.05 / rows[0]["repeats"]) ** 0.5
    inside = np.mean([0.93 - slack <= level <= 0.97 + slack for level in levels])
    finding = Finding(
        "95 % intervals of the verbs cover at least 90 % in every cell",
        min(levels) >= 0.9 - slack,
        f"{min(levels):.3f} to {max(levels):.3f} over {len(rows)} cells, {inside:.0%} of them within 93-97 %",
    )
    return Outcome((*files, table), (finding,))


def _draw(rows: list[dict[str, Any]]) -> Any:
    drawing, axes = figure(width=7.0, height=3.4)
    verbs = list(dict.fromkeys(row["verb"] for row in rows))
    axes.axhspan(0.93, 0.97, color="#dfe6e2", label="93 to 97 %")
    for place, verb in enumerate(verbs):
        levels = [row["covered"] for row in rows if row["verb"] == verb]
        spread = np.linspace(-0.3, 0.3, len(levels)) if len(levels) > 1 else [0.0]
        axes.plot(place + np.asarray(spread), levels, "o", markersize=4)
    axes.set_xticks(range(len(verbs)), verbs, rotation=20)
    axes.set(ylim=(0.7, 1.01), ylabel="coverage of 95 % intervals", title="Every cell of the design")
    axes.legend(loc="lower right")
    return drawing
