"""Sums over pseudo-rows beside those over 10⁶ random rows: what `JointPriors.nugget` stands for.

A release with next to no noise is concluded; what its information matrices are expected to be at its mode is laid
beside what they are, entry by entry, as a part of √(HᵢᵢHⱼⱼ).

python -m benchmarks.sharpness.pseudo_rows
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import numpy as np

from benchmarks.fitting import released
from benchmarks.sharpness import regressions
from benchmarks.sharpness.store import noise_rng
from benchmarks.timing import show
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.inference.regression.joint_posterior import JointRegression
from sottovoce.privacy.numbers import Floats

__all__ = ["errors", "main"]

LAWS = ("normal", "exponential", "skewed", "heavy tails")
_RHO = 20.0
"""Of 10⁶ records so much leaves noise of less than a thousandth."""


def errors(law: str, n: int, d: int) -> tuple[int, Floats]:
    """Return how many pseudo-rows there are, and the error of each entry of each look's information."""
    cell = f"nugget {law}"
    mechanism, rows, y, _, _ = regressions.table(cell, "logistic", law, n, 1.0, d, 0)
    mechanism = AdaptiveLooks(mechanism.system, n, _RHO)
    path = mechanism.walk(released(mechanism, rows, y, noise_rng(cell, 0)))
    latent = JointRegression(mechanism.system, n).posterior(path.looks).latent
    model = JointLikelihood(mechanism.system, n, path.looks)
    model.aim(latent)
    moments = model.moments(latent, slopes=False)
    i, j = model.upper
    parts, seen = (values.reshape(-1, len(i)) for values in (moments.matrices, model.matrices))
    diagonal = parts[:, i == j]
    return len(moments.pseudo.rows), (seen - parts) / np.sqrt(diagonal[:, i] * diagonal[:, j])


def main(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--dimensions", default="3,8")
    given = parser.parse_args(words)
    lines = []
    for law, d in itertools.product(LAWS, map(int, given.dimensions.split(","))):
        count, off = errors(law, given.size, d)
        each = np.sqrt((off**2).mean(axis=1))
        lines.append([law, str(d), str(count), f"{each.max():.4f}", f"{np.abs(off).max():.3f}"])
    show("Pseudo-rows", ["columns", "d", "pseudo-rows", "rms of the worst look", "largest"], lines)


if __name__ == "__main__":
    main()
