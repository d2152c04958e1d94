"""Private logistic regressions on Abalone and Adult beside diffprivlib's: test error, and time of one fit."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from papers.regression_data import Regression, load_regression
from threadpoolctl import threadpool_limits

from benchmarks.peers.environment import PeerUnavailable, ask, pins_of
from benchmarks.timing import show
from sottovoce.faces.estimators import LogisticRegression

DELTA = 1e-5
Row = tuple[float, float, float]  # mean and standard deviation of the error, seconds of one fit


def ours(data: Regression, epsilon: float, mechanism: str, releases: int) -> Row:
    """Fit ours so many times, with secure randomness, compiled beforehand."""
    errors, seconds = [], []
    for _ in range(releases + 1):
        model = LogisticRegression(
            epsilon=epsilon, delta=DELTA, data_norm=1.0, classes=[-1, 1], fit_intercept=False, mechanism=mechanism
        )
        with threadpool_limits(1):  # threads that wait for one another count as busy
            start = time.process_time()
            model.fit(data.X, data.y)
            seconds.append(time.process_time() - start)
        errors.append(1 - model.score(data.X_test, data.y_test))
    return float(np.mean(errors[1:])), float(np.std(errors[1:])), min(seconds[1:])


def main(quick: bool = False) -> None:
    """Print one table for each data set."""
    epsilons, releases = ((1.0,), 3) if quick else ((0.1, 0.3, 1.0, 3.0), 5)
    for name in ("abalone",) if quick else ("abalone", "adult"):
        data = load_regression(name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.npz"
            np.savez(path, X=data.X, y=data.y, X_test=data.X_test, y_test=data.y_test)
            question = {"model": "logistic regression", "path": str(path), "epsilons": epsilons, "repeats": releases}
            try:
                peer = ask("diffprivlib", {"classifiers": question}, threads=1)
                note = f"diffprivlib ran in an environment of its own ({pins_of('diffprivlib')})."
            except PeerUnavailable as reason:
                peer, note = {}, f"Without diffprivlib: {reason}."
        rows = []
        for epsilon in epsilons:
            auto = ours(data, epsilon, "auto", releases)
            quickest = ours(data, epsilon, "noisy-moments", releases)
            row = [f"ε = {epsilon:g}"]
            row += [f"{mean:.3f} ± {spread:.3f} ({1e3 * seconds:.0f} ms)" for mean, spread, seconds in (auto, quickest)]
            theirs = peer.get(str(epsilon))
            row.append(f"{theirs[0]:.3f} ± {theirs[1]:.3f} ({1e3 * theirs[2]:.0f} ms)" if theirs else "–")
            row += [f"{auto[0] / theirs[0]:.2f}", f"{auto[2] / theirs[2]:.2f}"] if theirs else ["–", "–"]
            rows.append(row)
        show(
            f"Test error on {name.capitalize()}, {data.X.shape[0]:,} rows of {data.X.shape[1]}",
            ["", "ours, auto", "ours, noisy statistics", "diffprivlib", "error, auto / theirs", "time, auto / theirs"],
            rows,
            f"Mean ± standard deviation over {releases} fits, and the processor time of the fastest, on one thread. "
            f"Ours keep (ε, {DELTA:g}), diffprivlib's the stricter pure ε. {note}",
        )


if __name__ == "__main__":
    main()
