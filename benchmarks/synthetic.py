r"""Synthetic tables beside AIM and MST at one ρ: errors of two-way and three-way tables, classifiers, and intervals.

All three learn of the same codes: numbers are cut into even parts of public bounds. The population is three quarters of
a real table, of which as many records are drawn with replacement each time; the last quarter is what classifiers are
tested on. Errors are half the L1 distance of shares from the records', of the model and of one synthetic table of as
many rows. Intervals of shares of two columns are about the population, within pairs that a maker measured: the usual
ones of one synthetic table, and those of `sottovoce.combine` of 20. Privacy is about one record replaced, for all.

    python -m benchmarks synthetic --sets adult-six --epsilons 1 --seeds 3
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from papers.data import adult, data_path
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from benchmarks.peers.environment import PeerUnavailable, ask, pins_of
from benchmarks.timing import show
from sottovoce import combine
from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_marginals import TableMarginals
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Number

DELTA, BINS, TRIPLES, SETS_DRAWN = 1e-6, 16, 30, 20
EPSILONS = (0.3, 1.0, 3.0)
_MEGABYTES, _ITERATIONS = 2, 300
"""The largest model that AIM may make, as many cells as ours, and the steps of each of its fits."""
_SIDE, _COMMON = 1.959964, 30
"""Half the width of a usual interval, and how many records a cell needs for one to make sense."""
_TEST = 0.25
"""The part of the records that classifiers are tested on, which nothing learns of."""


@dataclass(frozen=True)
class Table:
    """A data set in codes, the column that is classified, and how many values each column has."""

    frame: pd.DataFrame
    facts: Facts
    label: str
    bins: int = BINS

    @property
    def columns(self) -> TableColumns:
        """The columns, cut."""
        return TableColumns.even(self.facts, self.bins)

    def codes(self, frame: pd.DataFrame, columns: TableColumns | None = None) -> Any:
        """Return the parts that records are in, (records, columns)."""
        result = []
        for name, parts in (self.columns if columns is None else columns).parts.items():
            values = frame[name]
            if parts.values:
                known = {value: place for place, value in enumerate(parts.values)}
                code = values.map(known).to_numpy(dtype=float)
            else:
                code = np.searchsorted(parts.edges, values.to_numpy(dtype=float), side="right").astype(float)
                code[values.isna().to_numpy()] = np.nan
            result.append(np.where(np.isnan(code), parts.size - 1, code).astype(np.int64))
        return np.stack(result, axis=1)


def _adult() -> Table:
    frame = pd.concat([adult("train").to_pandas(), adult("test").to_pandas()]).drop(columns="fnlwgt")
    bounds = {
        "age": (17, 90),
        "education_num": (1, 16),
        "capital_gain": (0, 99_999),
        "capital_loss": (0, 4_500),
        "hours_per_week": (1, 99),
    }
    return _table(frame, bounds, "income")


def _magic() -> Table:
    frame = pd.read_csv(io.BytesIO(gzip.decompress(data_path("race/magic04.data.gz").read_bytes())))
    bounds = {"fLength": (0, 350), "fWidth": (0, 260), "fSize": (1.5, 5.5), "fConc": (0, 1), "fConc1": (0, 1)}
    bounds |= {"fAsym": (-500, 600), "fM3long": (-350, 250), "fM3Trans": (-210, 180), "fAlpha": (0, 90)}
    return _table(frame, bounds | {"fDist": (0, 500)}, "class")


def _health() -> Table:
    frame = pd.read_csv(io.BytesIO(gzip.decompress(data_path("small/randhie.csv.gz").read_bytes())))
    frame["visits"] = np.where(frame.pop("mdvis") > 0, "some", "none")
    for name in ("idp", "physlm", "hlthg", "hlthf", "hlthp"):
        frame[name] = frame[name].round(3).astype(str)
    return _table(frame, {"lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "disea": (0, 60)}, "visits")


def _six() -> Table:
    """Six columns of Adult, numbers in eight parts: as many as AIM is soon done with."""
    wide = _adult()
    frame = wide.frame[["age", "education_num", "marital_status", "occupation", "sex", "income"]]
    return Table(frame, Facts({name: wide.facts[name] for name in frame}), wide.label, 8)


SETS = {"adult-six": _six, "adult": _adult, "magic": _magic, "health": _health}


def _table(frame: pd.DataFrame, bounds: dict[str, tuple[float, float]], label: str) -> Table:
    facts = {
        name: Number(*bounds[name]) if name in bounds else Category(sorted(frame[name].dropna().unique().tolist()))
        for name in frame
    }
    return Table(frame.reset_index(drop=True), Facts(facts), label)


@dataclass(frozen=True)
class Learnt:
    """What one maker learnt: its model's shares of all cliques, tables in codes, the pairs measured, and seconds."""

    shares: list[Any]
    tables: list[Any]
    pairs: list[tuple[int, int]]
    seconds: float


def _ours(table: Table, records: pd.DataFrame, codes: Any, rho: float, cliques: Sequence[Any], seed: int) -> Learnt:
    """Learn and draw as a curator does, of records in memory."""
    begun = time.perf_counter()
    columns, n = table.columns, len(records)
    system = TableMarginals(columns)
    known = {name: records[name].where(records[name].notna(), None).tolist() for name in system.columns}
    value = MarginalChoice(system, n, rho).release(known, seeded_rng(seed)).value
    marginals = tuple(item[0].marginal(item[1], item[2], columns, "") for item in value.counted())
    fit = FieldFit(columns.sizes, n, marginals)
    draws = fit.draws(SETS_DRAWN, seeded_rng(seed + 1))
    seconds = time.perf_counter() - begun
    tables = []
    for potentials in (fit.potentials(fit.duals)[0], *draws):  # the first of the model itself, as theirs are
        sample = fit.tree.sample(potentials, n, seeded_rng(seed + 2 + len(tables)))
        tables.append(np.stack([sample[k] for k in range(len(fit.names))], axis=1))
    place = {name: k for k, name in enumerate(fit.names)}
    pairs = {tuple(sorted(place[name] for name in clique)) for clique in value.cliques if len(clique) == 2}
    return Learnt([_shares(fit, clique) for clique in cliques], tables, sorted(pairs), seconds)  # type: ignore[arg-type]


def _shares(fit: FieldFit, clique: Sequence[int]) -> Any:
    """Return the law of a few columns under a field: they are joined to its cliques, with nothing known of them."""
    names = tuple(fit.names[k] for k in clique)
    extra = NoisyMarginal(names, np.zeros(int(np.prod([fit.sizes[n] for n in names]))), [fit.n], [1e12])
    wider = FieldFit(fit.sizes, fit.n, (*fit.marginals, extra))
    known = np.append(fit.duals, [[0.0]], axis=1)
    law = wider.tree.split(wider.tree.marginals(wider.potentials(known))[0])[wider.cliques.index(names)]
    return law[0].ravel()


def _theirs(mechanism: str, table: Table, codes: Any, rho: float, cliques: Sequence[Any], seed: int) -> Learnt:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "table.npz", Path(folder) / "drawn.npz"
        np.savez(source, codes=codes, sizes=np.array(list(table.columns.sizes.values())))
        question = {"table": str(source), "mechanism": mechanism, "rho": rho, "seed": seed, "out": str(out)}
        question |= {"megabytes": _MEGABYTES, "iterations": _ITERATIONS, "rows": len(codes)}
        said = ask("mbi", question | {"cliques": [list(map(int, clique)) for clique in cliques]}, threads=1)
        with np.load(out) as file:
            shares = [file[f"margin {k}"] for k in range(len(cliques))]
            measured = {tuple(sorted(int(name[1:]) for name in clique)) for clique in said["measured"]}
            pairs = sorted(pair for pair in measured if len(pair) == 2)
            return Learnt(shares, [file["codes"]], pairs, said["seconds"])


def table_of(codes: Any, sizes: Any, clique: Sequence[int]) -> Any:
    """Return the shares of all cells of a few columns."""
    shape = tuple(int(sizes[k]) for k in clique)
    places = np.ravel_multi_index([codes[:, k] for k in clique], shape)
    return np.bincount(places, minlength=int(np.prod(shape))) / len(codes)


def _accuracy(codes: Any, real: Any, sizes: Any, label: int) -> float:
    """Train on codes, test on real ones: logistic regression on all categories."""
    features = [k for k in range(len(sizes)) if k != label]
    encoder = OneHotEncoder(categories=[np.arange(sizes[k]) for k in features])
    if len(np.unique(codes[:, label])) < 2:
        return float(np.mean(real[:, label] == codes[0, label]))
    model = LogisticRegression(max_iter=300).fit(encoder.fit_transform(codes[:, features]), codes[:, label])
    return float(model.score(encoder.transform(real[:, features]), real[:, label]))


def _held(learnt: Learnt, truth: dict[Any, Any], sizes: Any, n: int) -> tuple[float, float]:
    """Return how many usual intervals of one table hold shares of the measured pairs, and of `combine` of 20."""
    naive, combined = [], []
    for pair in learnt.pairs:
        share = truth[pair]
        counted = share * n >= _COMMON
        one, *drawn = (table_of(codes, sizes, pair)[counted] for codes in learnt.tables)
        naive.append(np.abs(one - share[counted]) <= _SIDE * np.sqrt(one * (1 - one) / n))
        if drawn:
            low, high = combine([(q, q * (1 - q) / n) for q in drawn]).interval
            combined.append((low <= share[counted]) & (share[counted] <= high))
    return float(np.concatenate(naive).mean()), float(np.concatenate(combined).mean()) if combined else np.nan


MEASURES = ["two-way", "three-way", "two-way, table", "three-way, table", "accuracy", "held", "combined", "s", "pairs"]


def compare(name: str, epsilon: float, seed: int, makers: Sequence[str]) -> dict[str, list[float]]:
    """Return for each maker of tables what it measures, in the order of `MEASURES`."""
    table, rng = SETS[name](), np.random.default_rng(seed)
    order = rng.permutation(len(table.frame))
    cut = int(len(order) * (1 - _TEST))
    population, test = table.frame.iloc[order[:cut]], table.codes(table.frame.iloc[order[cut:]])
    records = population.iloc[rng.integers(0, cut, cut)].reset_index(drop=True)
    codes, everybody = table.codes(records), table.codes(population)
    sizes = list(table.columns.sizes.values())
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    triples = list(itertools.combinations(range(len(sizes)), 3))
    triples = [triples[k] for k in rng.choice(len(triples), min(TRIPLES, len(triples)), replace=False)]
    cliques = [*pairs, *triples]
    true, known = [table_of(codes, sizes, c) for c in cliques], {c: table_of(everybody, sizes, c) for c in pairs}
    rho = MarginalChoice.calibrate(TableMarginals(table.columns), len(records), ApproxDP(epsilon, DELTA)).rho
    label, result = list(table.columns.sizes).index(table.label), {}
    for maker in makers:
        if maker == "ours":
            learnt = _ours(table, records, codes, rho, cliques, seed)
        else:
            learnt = _theirs(maker, table, codes, rho, cliques, seed)
        drawn = learnt.tables[0]
        model = [np.abs(t - s).sum() / 2 for t, s in zip(true, learnt.shares, strict=True)]
        sampled = [np.abs(t - table_of(drawn, sizes, c)).sum() / 2 for t, c in zip(true, cliques, strict=True)]
        cut = len(pairs)
        errors = [np.mean(part) for part in (model[:cut], model[cut:], sampled[:cut], sampled[cut:])]
        held = _held(learnt, known, sizes, len(codes))
        result[maker] = [*errors, _accuracy(drawn, test, sizes, label), *held, learnt.seconds, float(len(learnt.pairs))]
        print(name, epsilon, seed, maker, *(f"{value:.4g}" for value in result[maker]), flush=True)
    return result


def _rows(name: str, epsilon: float, runs: Sequence[dict[str, list[float]]]) -> list[list[str]]:
    """Return a row for each maker: its means over all runs, errors of ours beside, as ratios."""
    rows = []
    ours = np.mean([run["ours"] for run in runs], axis=0) if "ours" in runs[0] else None
    for maker in runs[0]:
        means = np.mean([run[maker] for run in runs], axis=0)
        cells = [f"{value:.4f}" for value in means[:4]]
        if ours is not None and maker != "ours":
            cells = [f"{cell} ({mine / value:.2f})" for cell, mine, value in zip(cells, ours, means, strict=False)]
        combined = "" if np.isnan(means[6]) else f"{means[6]:.3f}"
        rows.append([name, f"{epsilon:g}", maker, *cells, f"{means[4]:.4f}", f"{means[5]:.3f}", combined])
        rows[-1] += [f"{means[7]:.0f}", f"{means[8]:.1f}"]
    return rows


def main(quick: bool = False) -> None:
    """Show every set at every ε; quickly, one of each."""
    command(["--sets", "health", "--epsilons", "1", "--seeds", "1"] if quick else [])


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--makers", nargs="*", default=["ours", "aim", "mst"])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(words)
    rows, note = [], f"Beside {pins_of('mbi')}. In parentheses: the error of ours as a ratio to theirs."
    try:
        for name, epsilon in itertools.product(given.sets, given.epsilons):
            rows += _rows(name, epsilon, [compare(name, epsilon, seed, given.makers) for seed in range(given.seeds)])
    except PeerUnavailable as error:
        note = str(error)
    show("Synthetic tables", ["data", "ε", "by", *MEASURES], rows, note)


if __name__ == "__main__":
    command()
