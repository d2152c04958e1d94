"""All looks in one likelihood beside the last look alone: persons, groups, no intercept, long rows, several classes.

A cell is a design, its family, how many records (or persons), ε, and what the design asks of it: how alike residuals
are within a person, how many groups there are, how many entries a row has, or how many classes.

python -m benchmarks.sharpness.designs --cells persons,groups --repeats 20
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from benchmarks.fitting import DELTA
from benchmarks.sharpness.store import data_rng, noise_rng
from benchmarks.timing import show
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.formula import Formula
from sottovoce.mechanisms.single_threaded import one_thread
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.facts import Category, Count, Facts, Flag, Number, Person

__all__ = ["DESIGNS", "compare", "main"]

Array = npt.NDArray[Any]
Cell = tuple[str, str, int, float, float, bool]
"""Design, family, n, ε, what is special, and whether n is a secret."""

_HIGH, _MOST_ROWS = 40, 30
_WARDS = 0.5
"""The deviation of the effects of groups."""
_SLOPES = np.array([0.6, -0.4, 0.5])
DESIGNS: dict[str, list[Cell]] = {
    "persons": [
        ("persons", family, n, epsilon, within, secret)
        for family in ("logistic", "linear", "poisson")
        for n, epsilon, within, secret in (
            (2_000, 1.0, 0.3, False),
            (10_000, 0.3, 0.9, False),
            (10_000, 1.0, 0.9, False),
            (10_000, 1.0, 0.0, False),
            (30_000, 1.0, 0.5, False),
            (10_000, 1.0, 0.5, True),
        )
    ],
    "groups": [
        ("groups", family, n, epsilon, count, secret)
        for family in ("logistic", "linear", "poisson")
        for n, epsilon, count, secret in (
            (5_000, 1.0, 6, False),
            (5_000, 0.5, 12, False),
            (20_000, 1.0, 6, False),
            (20_000, 1.0, 20, False),
            (200_000, 1.0, 20, False),
            (20_000, 1.0, 6, True),
        )
    ],
    "zero": [
        (design, family, n, 1.0, 0, False)
        for design in ("levels alone", "through zero")
        for family in ("logistic", "linear", "poisson")
        for n in (5_000, 50_000)
    ],
    "long": [
        ("long", family, n, 1.0, d, False)
        for family in ("logistic", "linear", "poisson")
        for n, d in ((20_000, 30), (100_000, 40))
    ],
    "classes": [
        ("classes", "multinomial", n, epsilon, classes, secret)
        for n, epsilon, classes, secret in (
            (5_000, 1.0, 3, False),
            (20_000, 0.3, 3, False),
            (20_000, 1.0, 3, False),
            (20_000, 1.0, 5, False),
            (200_000, 1.0, 3, False),
            (20_000, 1.0, 3, True),
        )
    ],
}


def _response(family: str) -> Any:
    kinds = {"logistic": Flag(), "linear": Number(-10, 10), "poisson": Count(_HIGH)}
    return kinds.get(family, Flag())


@cache
def _asked(cell: Cell) -> AdaptiveLooks:
    design, family, n, epsilon, size, secret = cell
    facts: dict[str, Any] = {"y": _response(family), "x": Number(-4, 4), "age": Number(-4, 4), "f": Flag()}
    text = "y ~ x + age + f"
    if design == "persons":
        facts["p"] = Person()
    elif design == "groups":
        facts["g"] = Category([f"w{k}" for k in range(int(size))])
        text += " + (1 | g)"
    elif design == "levels alone":
        facts["g"] = Category(list("abcd"))
        text = "y ~ 0 + g + x"
    elif design == "through zero":
        facts = {"y": _response(family), "x": Number(0, 8), "age": Number(0, 8)}
        text = "y ~ 0 + x + age"
    elif design == "long":
        numbers = int(size) - 1
        facts = {"y": _response(family)} | {f"x{k}": Number(-4, 4) for k in range(numbers)}
        text = "y ~ " + " + ".join(list(facts)[1:])
    elif design == "classes":
        facts["y"] = Category([f"c{k}" for k in range(int(size))])
    relation = ADD_REMOVE if secret else REPLACE_ONE
    promise = ApproxDP(epsilon, DELTA, relation=relation.of_person() if design == "persons" else relation)
    return AdaptiveLooks.calibrate(Formula(text, Facts(facts), family), None if secret else n, promise)


def _outcome(family: str, t: Array, u: Array) -> Array:
    """Return responses of linear predictors, in the units of the looks, by their ranks."""
    if family == "linear":
        return np.asarray(np.clip(t + special.ndtri(u), -10, 10) / 10)
    if family == "poisson":
        return np.minimum(stats.poisson.ppf(u, np.exp(t)), _HIGH)
    return np.asarray(u < special.expit(t)).astype(float)


def _table(cell: Cell, k: int) -> tuple[Array, Array, Array | None, Array]:
    """Return encoded rows, responses, whose each is, and the coefficients, in the units of the columns."""
    design, family, n, _, size, _ = cell
    system, rng = _asked(cell).system, data_rng(str(cell), k)
    whose, count = None, n
    columns: dict[str, Array] = {}
    if design == "persons":  # who has a high value has more rows
        own = rng.standard_normal(n)
        m = np.minimum(rng.geometric(1 / (1 + 4 * np.exp(0.7 * own))), _MOST_ROWS)
        whose = np.repeat(np.arange(n), m)
        count = whose.size
        columns["x"] = (rng.standard_normal(n)[whose] + rng.standard_normal(count)) / math.sqrt(2)
        columns["age"], columns["f"] = rng.standard_normal(n)[whose], (rng.random(n) < 0.3)[whose] * 1.0
        u = special.ndtr(math.sqrt(size) * own[whose] + math.sqrt(1 - size) * rng.standard_normal(count))
    else:
        u = rng.random(n)
        columns = {"x": rng.standard_normal(n), "age": rng.standard_normal(n), "f": (rng.random(n) < 0.3) * 1.0}
    level = {"poisson": 0.0, "linear": 0.5}.get(family, -0.5)
    truth = np.concatenate([[level], _SLOPES])
    if design == "groups":
        shares = 0.85 ** np.arange(int(size))
        columns["g"] = rng.choice(int(size), n, p=shares / shares.sum()).astype(float)
        truth = np.concatenate([truth, rng.normal(0, _WARDS, int(size))])
    elif design == "levels alone":
        columns = {"g": rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]).astype(float), "x": columns["x"]}
        truth = np.array([-0.5, 0.2, 0.5, -0.8, 0.5])
    elif design == "through zero":
        columns = {"x": 2 + columns["x"], "age": 3 + columns["age"]}
        truth = np.array([0.5, -0.3])
    elif design == "long":
        common = rng.standard_normal((n, 1))
        values = math.sqrt(0.8) * rng.standard_normal((n, int(size) - 1)) + math.sqrt(0.2) * common
        columns = {f"x{j}": values[:, j] for j in range(int(size) - 1)}
        truth = np.concatenate([[level], rng.normal(0, 0.8 / math.sqrt(size), int(size) - 1)])
    columns = {name: np.clip(value, *_bounds(system, name)) for name, value in columns.items()}
    rows, _ = system.encoding.rows([columns[name] for name in system.encoding.names], count)
    if design == "classes":
        truth = np.concatenate([np.array([-0.3, *_SLOPES]) * (-1) ** j for j in range(int(size) - 1)])
        theta = np.linalg.solve(system.units[0], truth).reshape(int(size) - 1, -1)
        powers = np.exp(np.column_stack([np.zeros(count), rows @ theta.T]))
        below = np.cumsum(powers / powers.sum(axis=1, keepdims=True), axis=1)
        return rows, (u[:, None] > below[:, :-1]).sum(axis=1).astype(float), whose, truth
    A, b = system.units
    # Rows are in the units of the looks, as θ is.
    theta = np.linalg.lstsq(A, truth - b, rcond=None)[0]
    t = rows @ theta
    if family == "linear":
        half = system.model.scale.half  # type: ignore[attr-defined]
        middle = system.model.scale.middle  # type: ignore[attr-defined]
        y = (np.clip(half * t + middle + special.ndtri(u), -10, 10) - middle) / half
        return rows, y, whose, truth
    return rows, _outcome(family, t, u), whose, truth


def _bounds(system: Formula, name: str) -> tuple[float, float]:
    column = system.facts[name]
    return (column.low, column.high) if isinstance(column, Number) else (0.0, math.inf)


class _Released:
    """Noisy sums of records, or of averages of persons' rows."""

    def __init__(self, cell: Cell, rows: Array, y: Array, whose: Array | None, rng: np.random.Generator) -> None:
        self._mechanism, self._table, self._rng = _asked(cell), (rows, y, whose), rng

    def __call__(self, look: Any, scales: Any) -> Array:
        rows, y, whose = self._table
        y = look.model.outcome(y) if look.family == "poisson" else y
        total = quick_sums(look, rows, y) if whose is None else _averaged(look, rows, y, whose)
        noises = zip(self._mechanism.noises(look, scales), look.sizes.values(), strict=True)
        noise = np.concatenate([np.full(size, item.scale) for item, size in noises])
        return np.asarray(total + noise * self._rng.standard_normal(noise.size))


def _averaged(look: Any, rows: Array, y: Array, whose: Array) -> Array:
    """Return a look at averages of the rows of persons, whose numbers rise."""
    w, roots = look.contributions(rows, y)
    starts = np.flatnonzero(np.r_[True, np.diff(whose) > 0])
    many = np.diff(np.r_[starts, whose.size])
    each = np.add.reduceat(w, starts, axis=0) / many[:, None]
    weights = 1 / many[np.repeat(np.arange(many.size), many)]
    parts = {"score": each.sum(axis=0), "meat": each.T @ each}
    parts["information"] = sum(root.T @ (root * weights[:, None]) for root in roots)
    return np.asarray(look.join(**{part: parts[part] for part in look.parts}))


def _classed(cell: Cell) -> Array:
    """Return of each coefficient 0 where it is an intercept, 1 of a slope, 2 of a group's effect."""
    system = _asked(cell).system
    kinds = np.array([1 if entry else 0 for entry in system.encoding.entries])
    for first, last in system.groups:
        kinds[first:last] = 2
    return np.tile(kinds, system.model.outputs)


def compare(job: tuple[Cell, int]) -> tuple[Cell, Array, float]:
    """Return by the last look and by all, of each kind of coefficient, how often intervals hold, and log widths."""
    cell, k = job
    warnings.simplefilter("ignore")
    mechanism = _asked(cell)
    rows, y, whose, truth = _table(cell, k)
    path = mechanism.walk(_Released(cell, rows, y, whose, noise_rng(str(cell), k)))
    (last,) = mechanism.conclude_last([path])
    started = time.process_time()
    with one_thread():
        joint = mechanism.conclude_jointly(path)
    seconds = time.process_time() - started
    both = [last, last if joint is None else joint]
    low, high = np.array([posterior.interval().T for posterior in both]).transpose(1, 0, 2)
    held, kinds = (low <= truth) & (truth <= high), _classed(cell)
    result = np.full((2, 3, 2), math.nan)
    for kind in range(3):
        if (kinds == kind).any():
            result[:, kind, 0] = held[:, kinds == kind].mean(axis=1)
            result[:, kind, 1] = np.log((high - low)[:, kinds == kind]).mean(axis=1)
    return cell, result, seconds if joint is not None else math.nan


def name_of(cell: Cell) -> str:
    """Return a cell in words."""
    design, family, n, epsilon, size, secret = cell
    return f"{design} {size:g}, {family}, {'secret ' * secret}n = {n:,}, ε = {epsilon:g}"


def _line(cell: Cell, results: Sequence[tuple[Array, float]]) -> list[str]:
    each = np.array([result for result, _ in results])
    seconds = np.array([item for _, item in results])
    line = [name_of(cell), str(len(results)), f"{np.isfinite(seconds).mean():.2f}"]
    for kind in range(3):
        if np.isnan(each[:, 0, kind, 0]).all():
            line += ["", "", ""]
            continue
        ratio = math.exp((each[:, 1, kind, 1] - each[:, 0, kind, 1]).mean())
        line += [f"{each[:, 0, kind, 0].mean():.3f}", f"{each[:, 1, kind, 0].mean():.3f}", f"{ratio:.2f}"]
    return [*line, f"{np.nanmedian(seconds):.2f}" if np.isfinite(seconds).any() else ""]


def main(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(DESIGNS))
    parser.add_argument("--only", default="", help="cells whose name has this in it")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing after so many")
    given = parser.parse_args(words)
    asked = [cell for design in given.cells.split(",") for cell in DESIGNS[design] if given.only in name_of(cell)]
    results: dict[Cell, list[tuple[Array, float]]] = {cell: [] for cell in asked}
    started = time.time()
    with multiprocessing.Pool(given.processes) as pool:
        for cell, *item in pool.imap_unordered(compare, [(cell, k) for k in range(given.repeats) for cell in asked]):
            results[cell].append((item[0], item[1]))
            if len(results[cell]) % 5 == 0:
                print(" | ".join(_line(cell, results[cell])), flush=True)
            if time.time() - started > given.seconds:
                break
    head = ["cell", "repeats", "told by all"]
    for word in ("intercept", "slopes", "effects"):
        head += [f"{word}: last", "all", "width"]
    lines = [_line(cell, items) for cell, items in results.items() if items]
    show("Designs: all looks beside the last", [*head, "s"], lines)


if __name__ == "__main__":
    main()
