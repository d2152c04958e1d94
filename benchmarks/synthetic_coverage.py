r"""How often 95 % intervals of analyses of synthetic tables hold, drawn again and again from a known population.

Records are drawn with replacement from a real table, which is the population; relations are learnt, 20 tables drawn,
and shares of every pair that was kept, means of all columns and logistic coefficients are put together by
`sottovoce.combine`. Beside it the usual interval from the first table alone, taken for data.

Learning takes most of the time: with ``--chosen-once`` margins and scales of noise are chosen once, and released
anew in every repeat.

    python -m benchmarks synthetic_coverage --sets health --epsilons 1 --repeats 20
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.synthetic import DELTA, SETS, Table
from benchmarks.timing import show
from sottovoce import combine
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_marginals import NoisyMarginals, TableMarginals
from sottovoce.inference.synthesis.table_posterior import TablePosterior
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts

KEPT = {
    "adult": ["sex", "marital_status", "race", "relationship", "income"],
    "health": ["physlm", "hlthg", "hlthf", "hlthp", "idp", "visits"],
    "magic": ["fLength", "fWidth", "fAlpha", "fM3long", "class"],
}
"""Columns of each set; numbers in quarters of their bounds."""
_BINS, _SETS, _SIDE = 4, 20, 1.959964
_COMMON = 5.0
"""Cells of more records than so many standard deviations of the noise are shown apart."""
EPSILONS = (0.3, 1.0, 3.0)


def population(name: str) -> tuple[TableColumns, Any]:
    """Return a table's columns in parts, and its records as their places."""
    table = SETS[name]()
    known = [column for column in KEPT[name] if column in table.frame]
    wide = Table(table.frame[known], Facts({column: table.facts[column] for column in known}), table.label)
    columns = TableColumns.even(wide.facts, _BINS)
    codes = wide.codes(wide.frame, columns)
    sizes = [int(codes[:, k].max()) + 1 for k in range(codes.shape[1])]
    facts = {column: Category(list(range(size)), missing=0) for column, size in zip(columns.parts, sizes, strict=True)}
    return TableColumns(Facts(facts), {}), codes


def _truths(codes: Any, sizes: Sequence[int]) -> dict[str, Any]:
    pairs = {}
    for a, b in itertools.combinations(range(len(sizes)), 2):
        pairs[a, b] = np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b]) / len(codes)
    return {"pairs": pairs, "means": codes.mean(axis=0), "slopes": _slopes(codes)}


def _slopes(codes: Any) -> Any:
    """Return the logistic regression of whether the last column is above its mean on each other one by itself."""
    answer = (codes[:, -1] > 0).astype(float)
    return np.array([_logistic(codes[:, k].astype(float), answer)[0] for k in range(codes.shape[1] - 1)])


def _logistic(x: Any, y: Any) -> tuple[float, float]:
    """Return the slope of a logistic regression on one column and its variance, by Newton's method."""
    X = np.column_stack([np.ones(len(x)), x])
    theta = np.zeros(2)
    for _ in range(25):
        p = 1 / (1 + np.exp(-X @ theta))
        information = (X * (p * (1 - p))[:, None]).T @ X + 1e-9 * np.eye(2)
        theta = theta + np.linalg.solve(information, X.T @ (y - p))
    return float(theta[1]), float(np.linalg.inv(information)[1, 1])


def learnt(columns: TableColumns, records: Any, epsilon: float, seed: int) -> NoisyMarginals:
    """Return what `MarginalChoice` releases of records."""
    mechanism = MarginalChoice.calibrate(TableMarginals(columns), len(records), ApproxDP(epsilon, DELTA))
    known = {name: records[:, k].tolist() for k, name in enumerate(columns.parts)}
    return mechanism.release(known, seeded_rng(seed)).value  # type: ignore[no-any-return]


def released(chosen: NoisyMarginals, records: Any, seed: int) -> NoisyMarginals:
    """Return margins of records as they were chosen of others, with noise of their own."""
    place, rng = {name: k for k, name in enumerate(chosen.table.parts)}, seeded_rng(seed)
    counts = []
    for clique, scale in zip(chosen.cliques, chosen.scales, strict=True):
        shape = chosen.table.shape(clique)
        cells = np.ravel_multi_index([records[:, place[name]] for name in clique], shape)
        noise = IntegerNoise("gaussian", scale)
        counts.append(noise.add(np.bincount(cells, minlength=int(np.prod(shape))), rng))
    return replace(chosen, counts=tuple(counts))


def once(
    columns: TableColumns, codes: Any, truth: dict[str, Any], epsilon: float, seed: int, chosen: NoisyMarginals | None
) -> list[tuple[Any, ...]]:
    """Return kind, whether the interval of `combine` held, whether the usual one of one table did, for all."""
    rng, names = np.random.default_rng(seed), list(columns.parts)
    n, sizes = len(codes), [columns.sizes[name] for name in names]
    records = codes[rng.integers(0, n, n)]
    value = learnt(columns, records, epsilon, seed) if chosen is None else released(chosen, records, seed)
    marginals = tuple(c.marginal(counts, v, columns, f"{k}") for k, (c, counts, v) in enumerate(value.counted()))
    posterior = TablePosterior(columns, n, marginals)
    tables = [table.to_numpy(dtype=np.int64) for table in posterior.tables(_SETS, n, names)]
    noise = min(value.scales) / n
    rows: list[tuple[Any, ...]] = []

    def told(kind: str, each: Sequence[tuple[Any, Any]], true: Any, labels: Any = None) -> None:
        result = combine(list(each))
        low, high = result.interval
        one, width = each[0][0], _SIDE * np.sqrt(each[0][1])
        held, naive = (low <= true) & (true <= high), np.abs(one - true) <= width
        kinds = labels if labels is not None else [kind] * len(held)
        rows.extend(zip(kinds, held.tolist(), naive.tolist(), (high - low).tolist(), strict=True))

    told("means", [(t.mean(axis=0), t.var(axis=0) / n) for t in tables], truth["means"])
    for (a, b), share in truth["pairs"].items():
        if posterior.kept((names[a], names[b])):
            counts = [np.bincount(t[:, a] * sizes[b] + t[:, b], minlength=share.size) / n for t in tables]
            labels = np.where(share > _COMMON * noise, "two-way shares", "rare two-way shares").tolist()
            told("", [(c, c * (1 - c) / n + 1e-12) for c in counts], share, labels)
    last = len(names) - 1
    for k in range(last):
        if posterior.kept((names[k], names[last])):
            each = [_logistic(t[:, k].astype(float), (t[:, last] > 0).astype(float)) for t in tables]
            told("slopes", [(np.array([q]), np.array([v])) for q, v in each], truth["slopes"][k : k + 1])
    return rows


HEADS = ["data", "ε", "of", "intervals", "held", "of one table", "median width"]


def run(names: Sequence[str], epsilons: Sequence[float], repeats: int, once_chosen: bool = False) -> list[list[str]]:
    """Return a row for each set, ε and kind of number."""
    result = []
    for name, epsilon in itertools.product(names, epsilons):
        columns, codes = population(name)
        truth = _truths(codes, [columns.sizes[column] for column in columns.parts])
        chosen = learnt(columns, codes, epsilon, repeats) if once_chosen else None
        rows = [row for seed in range(repeats) for row in once(columns, codes, truth, epsilon, seed, chosen)]
        frame = pd.DataFrame(rows, columns=["of", "held", "naive", "width"])
        for kind, part in frame.groupby("of"):
            held = [f"{part['held'].mean():.3f}", f"{part['naive'].mean():.3f}", f"{part['width'].median():.4g}"]
            result.append([name, f"{epsilon:g}", str(kind), str(len(part)), *held])
            print(result[-1], flush=True)
    return result


def main(quick: bool = False) -> None:
    """Show every set at every ε; quickly, one of each."""
    show("Intervals from synthetic tables", HEADS, run(["health"], [1.0], 2) if quick else run([*KEPT], EPSILONS, 300))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=[*KEPT], choices=[*KEPT])
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--chosen-once", action="store_true")
    given = parser.parse_args(words)
    rows = run(given.sets, given.epsilons, given.repeats, given.chosen_once)
    show("Intervals from synthetic tables", HEADS, rows)


if __name__ == "__main__":
    command()
