"""Naive Bayes on the five numbers of Adult beside diffprivlib's GaussianNB: test error, and time of one fit."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.peers.environment import PeerUnavailable, ask, pins_of
from benchmarks.timing import show
from papers import data
from sottovoce.faces.estimators import NaiveBayes
from sottovoce.inference.latent import Bounded, Field

EPSILONS = (0.01, 0.1, 1.0)
SEXES = ("Female", "Male")
MARITAL = (
    *("Married-civ-spouse", "Divorced", "Never-married", "Separated"),
    *("Widowed", "Married-spouse-absent", "Married-AF-spouse"),
)


def adult(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return five numbers and two categories a person, and whether the income is over 50K."""
    X, y = data.adult_numbers(part)  # type: ignore[arg-type]
    table = data.adult(part)  # type: ignore[arg-type]
    categories = [np.array(table[name].to_pylist(), dtype=object) for name in ("sex", "marital_status")]
    return np.column_stack([X.astype(object), *categories]), y


def ours(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], epsilon: float, fits: int, columns: int
) -> tuple[float, float, float]:
    """Return mean and standard deviation of the test error over so many fits, and the seconds of the fastest."""
    numbers = [Bounded(name, 0, 1) for name in data.ADULT_BOUNDS]
    features = [*numbers, Field("sex", SEXES), Field("marital", MARITAL)][:columns]
    errors, seconds = [], []
    for _ in range(fits):
        model = NaiveBayes(epsilon=epsilon, classes=[0.0, 1.0], features=features)
        start = time.process_time()
        model.fit(train[0][:, :columns], train[1])
        seconds.append(time.process_time() - start)
        errors.append(1 - model.score(test[0][:, :columns], test[1]))
    return float(np.mean(errors)), float(np.std(errors)), min(seconds)


CATEGORIES = (6, 4, 10, 2, 9, 2, 2, 2, 12, 2, 5, 4, 4, 9, 9, 2, 4, 3, 5, 9, 6, 7)
"""Of the columns of the mushroom table, which has 8,124 rows."""


def many_columns(fits: int) -> None:
    """Print the time of a fit with many columns of categories."""
    rng, n = np.random.default_rng(1), 8124
    y = rng.random(n) < 0.48
    fields = [Field(f"column {k}", tuple(range(size))) for k, size in enumerate(CATEGORIES)]
    laws = [rng.dirichlet(np.full(size, 0.5), 2) for size in CATEGORIES]
    columns = [(rng.random((n, 1)) > np.cumsum(law, axis=1)[y.astype(int)]).sum(axis=1) for law in laws]
    X = np.minimum(np.column_stack(columns), np.array(CATEGORIES) - 1).astype(object)
    rows = []
    for epsilon in (0.1, 1.0, 10.0):
        seconds = []
        for _ in range(fits):
            model = NaiveBayes(epsilon=epsilon, classes=[False, True], features=fields)
            start = time.process_time()
            model.fit(X, y)
            seconds.append(time.process_time() - start)
        rows.append([f"ε = {epsilon:g}", f"{1e3 * min(seconds):.0f} ms", "≤ 500 ms"])
    show(
        f"A fit that knows of the noise: {n:,} rows, {len(CATEGORIES)} columns of categories",
        ["", "processor time", "wanted"],
        rows,
        f"The fastest of {fits}: reading, noise, and 256 exact draws of every table.",
    )


def main(quick: bool = False) -> None:
    """Print the tables."""
    many_columns(2 if quick else 5)
    fits = 2 if quick else 10
    train, test = adult("train"), adult("test")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adult.npz"
        numbers = [part[0][:, :5].astype(float) for part in (train, test)]
        np.savez(path, X=numbers[0], y=train[1], X_test=numbers[1], y_test=test[1])
        question = {"model": "naive Bayes", "path": str(path), "epsilons": EPSILONS, "repeats": fits}
        try:
            peer = ask("diffprivlib", {"classifiers": question})
            note = f"diffprivlib ran in an environment of its own ({pins_of('diffprivlib')})."
        except PeerUnavailable as reason:
            peer, note = {}, f"Without diffprivlib: {reason}."
    rows = []
    for epsilon in EPSILONS:
        same, more = (ours(train, test, epsilon, fits, columns) for columns in (5, 7))
        theirs = peer.get(str(epsilon))
        cells = [
            f"{mean:.3f} ± {sd:.3f} ({1e3 * t:.0f} ms)" for mean, sd, t in (same, more, *([theirs] if peer else ()))
        ]
        ratios = [f"{same[0] / theirs[0]:.2f}", f"{same[2] / theirs[2]:.2f}"] if theirs else ["–", "–", "–"]
        rows.append([f"ε = {epsilon:g}", *cells, *ratios])
    show(
        f"Test error on Adult, {len(train[1]):,} rows, pure ε",
        ["", "ours", "ours, with sex and marital status", "GaussianNB", "error, ours / theirs", "time, ours / theirs"],
        rows,
        f"Mean ± standard deviation over {fits} fits, and the time of the fastest. Both see the same five numbers "
        f"and the same public bounds; ours takes categories as well. Always saying no is wrong for 0.236. {note}",
    )


if __name__ == "__main__":
    main()
