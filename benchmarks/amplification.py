"""Amplification: noisy SGD beside a bare loop in NumPy, per-record curves and amplified profiles."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import best, show
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.theory.amplification import (
    FiniteKernel,
    IteratedLaplaceProfile,
    NoisyProjectedSGD,
    amplify,
    path_mu,
)


def bare_loop(sgd: NoisyProjectedSGD, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the last iterate of the same algorithm, written down in NumPy with NumPy's own generator."""
    rng, w = np.random.default_rng(0), np.zeros(X.shape[1])
    noise = rng.standard_normal(X.shape) * sgd.noise
    for x, label, xi in zip(X, y, noise, strict=True):
        w = w - sgd.step * (-label / (1 + np.exp(label * (w @ x))) * x + sgd.regularisation * w + xi)
    return w


def passes(quick: bool) -> None:
    """Time one pass over n records, secure randomness included."""
    rows = []
    for n, d in ((2_000, 10), (2_000, 100)) if quick else ((20_000, 10), (20_000, 100), (200_000, 20)):
        rng = seeded_rng(0)
        X = rng.standard_normal((n, d)) / np.sqrt(2 * d)
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        sgd = NoisyProjectedSGD(Design(Logistic(), d, 1.0), n, noise=1.0, learning_rate=0.01)
        ours = best(lambda sgd=sgd, X=X, y=y: sgd.run(X, y, secure_rng()), repeats=3)
        theirs = best(lambda sgd=sgd, X=X, y=y: bare_loop(sgd, X, y), repeats=3)
        rows.append([f"n = {n:,}, d = {d}", f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms", f"{ours / theirs:.2f}"])
    show("One pass of noisy SGD", ["records", "ours", "bare NumPy loop", "ratio"], rows)


def curves(quick: bool) -> None:
    """Time what the guarantees cost to compute."""
    size = 10**5 if quick else 10**6
    sgd = NoisyProjectedSGD(Design(Logistic(), 10, 1.0), size, noise=1.0, learning_rate=0.01, epochs=3)
    index = np.arange(1, size + 1)
    shifts = np.zeros(size // 10)
    shifts[:: size // 100] = 1.0
    kernel = FiniteKernel(np.random.default_rng(0).dirichlet(np.ones(30), 30))
    grid = np.linspace(0, 1, 100)
    cases = [
        (f"mu of {size:,} records, 3 epochs", lambda: sgd.mu_at(index)),
        (f"taut string over {shifts.size:,} steps", lambda: path_mu(shifts, 0.999, 1.0)),
        ("delta at 100 points after a 30 x 30 kernel", lambda: amplify(GaussianProfile(1.0), kernel).delta(grid)),
        ("exact delta at 100 points, iterated Laplace", lambda: IteratedLaplaceProfile(1.0, 0.7).delta(grid)),
        ("exact Renyi at 100 orders, iterated Laplace", lambda: IteratedLaplaceProfile(1.0, 0.7).renyi(1 + grid)),
    ]
    show("Guarantees", ["what", "time"], [[name, f"{best(call, repeats=3) * 1e3:.2f} ms"] for name, call in cases])


def main(quick: bool = False) -> None:
    """Run all of them."""
    passes(quick)
    curves(quick)


if __name__ == "__main__":
    main()
