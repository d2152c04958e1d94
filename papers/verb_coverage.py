"""How often the 95 % intervals of the verbs hold the truth, over sizes, noise, groups, gaps and awkward data.

A cell of the design is one verb with one n, one ε, one number of groups, a share of missing values, a share of records
that a condition selects, and one shape of data. In most cells every table has truths of its own: of plain data drawn
from the default prior, of other shapes from laws that are no prior of ours; in some truths are fixed and awkward.
Coverage is averaged over groups and tables.
"""

from __future__ import annotations

import csv
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from papers.verb_worlds import SHARED, Cell, budget_price, question_of, world
from sottovoce.inference.cells.cell_mechanisms import mechanism_kind
from sottovoce.inference.figures import figure, write_csv
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers.answer import Answer

__all__ = ["Cell", "cover", "design", "kind_of", "summed_up"]

CORNERS = (
    *((50, 0.1, 1), (500, 0.5, 1), (5000, 2.0, 4)),
    *((50, 0.5, 4), (50, 2.0, 1), (500, 0.1, 4), (500, 2.0, 4), (5000, 0.1, 1), (5000, 0.5, 4)),
)
PLAIN = ("proportion", "mean", "rate", "counts", "quantiles")
MAIN = (*PLAIN, "difference", "ratio")
SHAPES = {
    "proportion": ("rare",),
    "mean": ("normal", "skewed", "heavy", "zeros", "ends", "two hills"),
    "rate": ("skewed", "heavy", "zeros"),
    "exposure": ("skewed", "heavy"),
    "counts": ("sparse",),
    "quantiles": ("skewed", "heavy", "two hills"),
    "difference": ("rare",),
    "ratio": ("rare",),
    "mean difference": ("skewed", "heavy"),
    "mean ratio": ("skewed", "heavy"),
    "rate ratio": ("skewed", "heavy"),
}


def design() -> list[Cell]:
    """Return every cell: each verb at corners of n, ε and groups, with awkward data, gaps and conditions."""
    cells = []
    for verb, shapes in SHAPES.items():
        least = 4 if verb in SHARED else 1
        cells += [Cell(verb, n, e, max(g, least)) for n, e, g in (CORNERS if verb in MAIN else CORNERS[:3])]
        cells += [Cell(verb, n, e, 4, shape) for shape in shapes for n, e in ((500, 0.5), (5000, 2.0))]
    gaps = ((0.2, 1.0), (0.0, 0.4), (0.0, 0.03))
    cells += [Cell(v, 5000, 0.5, 4, missing=missing, selected=selected) for v in MAIN for missing, selected in gaps]
    cells += [Cell(v, n, e, 20) for v in PLAIN for n, e in ((500, 2.0), (5000, 0.5))]
    cells += [Cell(v, 500, 2.0, 4, pure=True) for v in PLAIN]
    cells += [Cell(v, 5000, 0.5, 20, pool=True) for v in ("proportion", "mean", "rate", "counts")]
    awkward = {"mean": "ends", "counts": "plain"}
    cells += [Cell(v, n, 0.5, 4, awkward.get(v, SHAPES[v][0]), fixed=True) for v in MAIN for n in (500, 5000)]
    return cells


def cover(cell: Cell, repeats: int, seed: int) -> dict[str, float]:
    """Return how often intervals hold the truth, and how wide they are."""
    rng = seeded_rng(seed)
    question = question_of(cell)
    mechanism = mechanism_kind(question, cell.n).calibrate(question, cell.n, cell.promise, price=budget_price(cell))
    hits, widths = [], []
    for _ in range(repeats):
        records, truth = world(cell, rng)
        ends = _intervals(cell, Answer(mechanism.release(records, rng)))
        hits.append(np.mean((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1])))
        widths.append(np.mean(ends[:, 1] - ends[:, 0]))
    with np.errstate(over="ignore"):  # a ratio to a row that may be nothing has no end
        return {"covered": float(np.mean(hits)), "width": float(np.mean(widths))}


def _intervals(cell: Cell, answer: Answer) -> Floats:
    if cell.verb not in SHARED:
        return answer.posterior.interval()
    compared = answer.ratio(0, 1) if cell.verb.endswith("ratio") else answer.difference(0, 1)
    return compared.interval()[None]


def row_of(cell: Cell, found: dict[str, float], repeats: int) -> dict[str, Any]:
    """Return a cell and what was found of it, for a table."""
    return {name: getattr(cell, name) for name in cell.__dataclass_fields__} | {"repeats": repeats} | found


KINDS = {
    "truths of the default prior": 0.93,
    "truths of other laws": 0.9,
    "fixed awkward truths": 0.9,
}
"""What a cell's truths are, and what its intervals are to cover at least."""


def kind_of(row: dict[str, Any]) -> str:
    """Return what the truths of a row's cell are; quantiles have no prior, so normal laws stand for it."""
    prior, other, fixed = KINDS
    return fixed if row["fixed"] else prior if row["shape"] == "plain" else other


def summed_up(rows: list[dict[str, Any]]) -> Outcome:
    """Return what all cells together say, by what their truths are."""
    findings = []
    for kind, floor in KINDS.items():
        levels = np.array([row["covered"] for row in rows if kind_of(row) == kind])
        if not levels.size:
            continue
        slack = 2.5 * (0.95 * 0.05 / min(row["repeats"] for row in rows)) ** 0.5
        inside = np.mean((levels >= 0.93) & (levels <= 0.97))
        findings.append(
            Finding(
                f"95 % intervals of the verbs cover at least {floor:.0%}, the chance of so few tables aside: {kind}",
                bool(levels.min() >= floor - slack),
                f"{levels.min():.3f} to {levels.max():.3f} over {levels.size} cells, {inside:.0%} of them in 93-97 %, "
                f"{np.mean(levels > 0.97):.0%} above",
            )
        )
    return Outcome((), tuple(findings))


def redraw(table: Path, setting: Setting) -> Outcome:
    """Draw the figure and find the findings from a table written by an earlier run."""
    names = [field.name for field in fields(Cell)]
    header, width = [*names, "repeats", "covered", "width"], len(names)
    known = {tuple(map(str, astuple(cell))): cell for cell in design()}
    with table.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    if not lines or lines.pop(0) != header or not all(tuple(line[:width]) in known for line in lines):
        raise InvalidData(f"{table} is not a table of this experiment: its columns must be {', '.join(header)}")
    rows = []
    for line in lines:
        found = {"covered": float(line[-2]), "width": float(line[-1])}
        rows.append(row_of(known[tuple(line[:width])], found, int(line[width])))
    return _outcome(rows, setting)


@experiment("verb-coverage", "Answers whose intervals keep their level", source="ours", redraw=redraw)
def run(setting: Setting) -> Outcome:
    """Measure the coverage of every cell, and draw it."""
    cells = design()
    cells = cells[::23] if setting.quick else cells
    repeats, rows = 12 if setting.quick else 400, []
    for index, cell in enumerate(cells):
        rows.append(row_of(cell, cover(cell, repeats, setting.seed + index), repeats))
        setting.advance((index + 1) / len(cells))
    return _outcome(rows, setting)


def _outcome(rows: list[dict[str, Any]], setting: Setting) -> Outcome:
    table = write_csv(setting.output / "verb-coverage.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    return Outcome((*setting.save(draw(rows), "verb-coverage"), table), summed_up(rows).findings)


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw the coverage of every cell, verb by verb."""
    drawing, axes = figure(width=7.0, height=3.4)
    verbs = list(dict.fromkeys(row["verb"] for row in rows))
    axes.axhspan(0.93, 0.97, color="#dfe6e2", label="93 to 97 %")
    for off, mark, kind in zip((-0.2, 0.0, 0.2), "o^x", KINDS, strict=True):
        places = [(verbs.index(row["verb"]) + off, row["covered"]) for row in rows if kind_of(row) == kind]
        if places:
            axes.plot(*zip(*places, strict=True), mark, markersize=4, label=kind, alpha=0.7)
    axes.set_xticks(range(len(verbs)), verbs, rotation=20)
    axes.set(ylim=(0.85, 1.005), ylabel="coverage of 95 % intervals", title="Every cell of the design")
    axes.legend(loc="lower right")
    return drawing
