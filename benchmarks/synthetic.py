r"""Synthetic tables beside AIM and MST at one ρ: errors of two-way and three-way tables, classifiers, and time.

All three learn of the same codes: numbers are cut into 16 even parts of public bounds. Errors are half the L1 distance
of shares, of the model and of a table of as many rows. Privacy is about one record replaced, for all of them.

    python -m benchmarks synthetic --sets magic --epsilons 1
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
from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_marginals import TableMarginals
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Number

DELTA, BINS, TRIPLES = 1e-6, 16, 30
EPSILONS = (0.3, 1.0, 3.0)
_MEGABYTES, _ITERATIONS = 10, 300
"""The largest model that AIM may make, and the steps of each of its fits."""
_TEST = 0.25
"""The part of the records that classifiers are tested on, which nothing learns of."""


@dataclass(frozen=True)
class Table:
    """A data set in codes, the column that is classified, and how many values each column has."""

    frame: pd.DataFrame
    facts: Facts
    label: str

    @property
    def columns(self) -> TableColumns:
        """The columns, cut."""
        return TableColumns.even(self.facts, BINS)

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


SETS = {"adult": _adult, "magic": _magic, "health": _health}


def _table(frame: pd.DataFrame, bounds: dict[str, tuple[float, float]], label: str) -> Table:
    facts = {
        name: Number(*bounds[name]) if name in bounds else Category(sorted(frame[name].dropna().unique().tolist()))
        for name in frame
    }
    return Table(frame.reset_index(drop=True), Facts(facts), label)


def _ours(table: Table, train: pd.DataFrame, codes: Any, rho: float, cliques: Sequence[Any], seed: int) -> Any:
    """Learn and draw as a curator does, of records in memory."""
    begun = time.perf_counter()
    system = TableMarginals(table.columns)
    mechanism = MarginalChoice(system, len(train), rho)
    known = {name: train[name].where(train[name].notna(), None).tolist() for name in system.columns}
    value = mechanism.release(known, seeded_rng(seed)).value
    marginals = [item[0].marginal(item[1], item[2], table.columns, "") for item in value.counted()]
    fit = FieldFit(table.columns.sizes, len(train), tuple(marginals))
    potentials = fit.potentials(fit.duals)[0]
    seconds = time.perf_counter() - begun
    sample = fit.tree.sample(potentials, len(codes), seeded_rng(seed + 1))
    drawn = np.stack([sample[k] for k in range(len(fit.names))], axis=1)
    return [_shares(fit, clique) for clique in cliques], drawn, seconds, len(value.cliques)


def _shares(fit: FieldFit, clique: Sequence[int]) -> Any:
    """Return the law of a few columns under a field: they are joined to its cliques, with nothing known of them."""
    names = tuple(fit.names[k] for k in clique)
    extra = NoisyMarginal(names, np.zeros(int(np.prod([fit.sizes[n] for n in names]))), [fit.n], [1e12])
    wider = FieldFit(fit.sizes, fit.n, (*fit.marginals, extra))
    known = np.append(fit.duals, [[0.0]], axis=1)
    law = wider.tree.split(wider.tree.marginals(wider.potentials(known))[0])[wider.cliques.index(names)]
    return law[0].ravel()


def _theirs(mechanism: str, table: Table, codes: Any, rho: float, cliques: Sequence[Any], seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "table.npz", Path(folder) / "drawn.npz"
        np.savez(source, codes=codes, sizes=np.array(list(table.columns.sizes.values())))
        question = {"table": str(source), "mechanism": mechanism, "rho": rho, "seed": seed, "out": str(out)}
        question |= {"megabytes": _MEGABYTES, "iterations": _ITERATIONS, "rows": len(codes)}
        said = ask("mbi", question | {"cliques": [list(map(int, clique)) for clique in cliques]}, threads=1)
        with np.load(out) as file:
            shares = [file[f"margin {k}"] for k in range(len(cliques))]
            return shares, file["codes"], said["seconds"], len(said["measured"])


def _table_of(codes: Any, sizes: Any, clique: Sequence[int]) -> Any:
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


def compare(name: str, epsilon: float, seed: int, makers: Sequence[str]) -> list[list[str]]:
    """Return a row for each maker of tables: errors of model and table, accuracy, seconds, margins measured."""
    table, rng = SETS[name](), np.random.default_rng(seed)
    order = rng.permutation(len(table.frame))
    cut = int(len(order) * (1 - _TEST))
    train = table.frame.iloc[order[:cut]].reset_index(drop=True)
    codes, test = table.codes(train), table.codes(table.frame.iloc[order[cut:]])
    sizes = list(table.columns.sizes.values())
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    triples = list(itertools.combinations(range(len(sizes)), 3))
    triples = [triples[k] for k in rng.choice(len(triples), min(TRIPLES, len(triples)), replace=False)]
    cliques = [*pairs, *triples]
    truth = [_table_of(codes, sizes, clique) for clique in cliques]
    system = TableMarginals(table.columns)
    rho = MarginalChoice.calibrate(system, len(train), ApproxDP(epsilon, DELTA)).rho
    label, rows = list(table.columns.sizes).index(table.label), []
    for maker in makers:
        try:
            if maker == "ours":
                made = _ours(table, train, codes, rho, cliques, seed)
            else:
                made = _theirs(maker, table, codes, rho, cliques, seed)
        except PeerUnavailable as error:
            rows.append([name, f"{epsilon:g}", maker, str(error)[:60], *[""] * 6])
            continue
        shares, drawn, seconds, measured = made
        model = [np.abs(t - s).sum() / 2 for t, s in zip(truth, shares, strict=True)]
        sampled = [np.abs(t - _table_of(drawn, sizes, c)).sum() / 2 for t, c in zip(truth, cliques, strict=True)]
        cells = [np.mean(model[: len(pairs)]), np.mean(model[len(pairs) :])]
        cells += [np.mean(sampled[: len(pairs)]), np.mean(sampled[len(pairs) :])]
        accuracy = _accuracy(drawn, test, sizes, label)
        known = [f"{value:.4f}" for value in (*cells, accuracy)]
        rows.append([name, f"{epsilon:g}", maker, *known, f"{seconds:.0f}", str(measured)])
        print(rows[-1], flush=True)
    return rows


HEADS = ["data", "ε", "by", "two-way", "three-way", "two-way, table", "three-way, table", "accuracy", "s", "margins"]


def main(quick: bool = False) -> None:
    """Show every set at every ε; quickly, one of each."""
    command(["--sets", "health", "--epsilons", "1"] if quick else [])


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--makers", nargs="*", default=["ours", "aim", "mst"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    rows = [
        row
        for name in given.sets
        for epsilon in given.epsilons
        for row in compare(name, epsilon, given.seed, given.makers)
    ]
    show(f"Synthetic tables (beside {pins_of('mbi')})", HEADS, rows)


if __name__ == "__main__":
    command()
