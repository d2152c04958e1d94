"""diffprivlib's part of the race, which runs in an environment of its own, and how long its fits take beside ours."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers.environment import ask
from benchmarks.racing import sets
from benchmarks.racing.measure import DELTA, Found, jobs
from benchmarks.racing.rivals import with_intercept
from sottovoce.faces.estimators.linear import LogisticRegression

__all__ = ["PEER", "join", "times"]

PEER = "diffprivlib"
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""The values of C among which it may choose."""


def _asked(
    name: str, cuts: Sequence[int], epsilons: Sequence[float], strengths: Sequence[float], threads: int | None = None
) -> Any:
    data = sets.load(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        orders = np.array([sets.order_of(data, cut) for cut in cuts])
        np.savez(path, X=with_intercept(data.X), y=data.y, orders=orders)
        question = {"path": str(path), "epsilons": list(epsilons), "strengths": list(strengths)}
        return ask(PEER, {"race": question}, threads=threads)


def join(found: Found, names: Sequence[str], epsilons: Sequence[float], cuts: int) -> None:
    """Add the scores of diffprivlib on the same cuts; raises `PeerUnavailable` where it cannot be asked."""
    for name in names:
        numbers = sorted({cut for _, _, _, cut in jobs([name], epsilons, cuts)})
        answer = _asked(name, numbers, epsilons, STRENGTHS)
        for epsilon in epsilons:
            for strength in STRENGTHS:
                scores = [(error, loss) for error, loss, _ in answer[f"{epsilon:g}|{strength:g}"]]
                found["classes", name, epsilon][f"{PEER}|C {strength:g}"] = scores


def times(name: str, epsilon: float, repeats: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (error, processor seconds of the fastest fit) on one cut: ours with secure noise, and diffprivlib's.

    On one thread each: threads that wait for one another count as busy, the more the fuller the machine is.
    """
    X, y, X_test, y_test = sets.split(sets.load(name), 0)
    errors, seconds = [], []
    for _ in range(repeats):
        model = LogisticRegression(epsilon, DELTA, data_norm=1.0, classes=[0, 1])
        with threadpool_limits(1):
            start = time.process_time()
            model.fit(X, y)
            seconds.append(time.process_time() - start)
        errors.append(float(np.mean(model.predict(X_test) != y_test)))
    theirs = np.array(_asked(name, [0] * repeats, [epsilon], [1.0], threads=1)[f"{epsilon:g}|1"])
    return (float(np.mean(errors)), min(seconds)), (float(theirs[:, 0].mean()), float(theirs[:, 2].min()))
