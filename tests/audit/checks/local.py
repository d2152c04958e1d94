"""Profile-based local privacy: every edge of the graph, in exact fractions, and the draws themselves."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from scipy import stats

from sottovoce.audit.checks.fits import ALARM
from sottovoce.audit.checks.result import check, verdict
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.local import (
    OneBitCluster,
    ProfileGraph,
    RandomizedResponse,
    SmoothCategorical,
    SmoothOneBit,
    TwoProfileOneBit,
)

__all__ = ["edges", "local_draws", "rows"]


def _graph() -> ProfileGraph:
    return ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3], "c": [0.6, 0.3, 0.1]})


def _exp_below(epsilon: float) -> Fraction:
    """Return a rational number just below e^ε, by its series in exact fractions."""
    x, term, total = Fraction(epsilon), Fraction(1), Fraction(1)
    for k in range(1, 40):
        term = term * x / k
        total += term
    return total


@check("profile matrices keep every edge")
def edges() -> tuple[bool, str]:
    """The output probabilities across each edge, as exact fractions, must stay within e^ε of each other."""
    problems, checked = [], 0
    bits = ProfileGraph.bernoulli({"x": 0.1, "y": 0.35, "z": 0.9}, [("x", "y"), ("y", "z")])
    pair = ProfileGraph.bernoulli({"x": 0.1, "y": 0.35}, [("x", "y")])
    for mechanism in (
        SmoothCategorical.calibrate(_graph(), 0.5),
        SmoothCategorical.calibrate(_graph(), 0.037),
        SmoothOneBit.calibrate(bits, 0.3),
        TwoProfileOneBit.calibrate(pair, 0.3),
        OneBitCluster.calibrate(bits, 0.3),
    ):
        graph, most = mechanism.graph, _exp_below(mechanism.epsilon)
        rows = graph.exact
        out = [
            [
                sum(p * Fraction(float(a)) for p, a in zip(row, matrix[:, y], strict=True))
                for y in range(matrix.shape[1])
            ]
            for row, matrix in zip(rows, mechanism.matrices, strict=True)
        ]
        for a, b in graph.edge_indices.tolist():
            for i, j in ((a, b), (b, a)):
                for y, (p, q) in enumerate(zip(out[i], out[j], strict=True)):
                    checked += 1
                    if p > most * q:
                        over = float(p / (most * q) - 1)
                        problems.append(f"output {y} exceeds e^ε across an edge, by {over:.2g} of itself")
    return verdict(problems, f"{checked} constraints hold in exact fractions")


@check("a record by itself keeps its ε")
def rows() -> tuple[bool, str]:
    """Randomized response over two to five categories: every output under every two records, in exact fractions."""
    problems = []
    for size, epsilon in itertools.product((5, 3, 2), (0.1, 1.0)):
        laws = {name: [0.0] * size for name in "ab"}
        laws["a"][0] = laws["b"][-1] = 1.0
        matrix = RandomizedResponse.calibrate(ProfileGraph.complete(laws), epsilon).matrices[0]
        most = _exp_below(epsilon)
        for p, q in itertools.permutations([[Fraction(float(x)) for x in row] for row in matrix], 2):
            problems += [
                f"{size} categories: e^{epsilon} is exceeded" for a, b in zip(p, q, strict=True) if a > most * b
            ]
    return verdict(problems, "six matrices, in exact fractions")


@check("profile releases follow their matrices")
def local_draws() -> tuple[bool, str]:
    """Chi-square of released categories against the row that each record is released by."""
    mechanism, worst = SmoothCategorical.calibrate(_graph(), 0.2), 1.0
    count = 20_000
    for profile, name in enumerate(mechanism.graph.names):
        for x, category in enumerate(mechanism.graph.categories):
            value = mechanism.release([category] * count, name, seeded_rng(10 * profile + x)).value
            seen = np.array([np.count_nonzero(value == y) for y in mechanism.outputs], dtype=float)
            wanted = mechanism.matrices[profile, x] * count
            often = wanted > 5
            if seen[~often].sum() > 60 + 10 * wanted[~often].sum():
                worst = 0.0
            scale = seen[often].sum() / wanted[often].sum()
            if often.sum() > 1:
                worst = min(worst, float(stats.chisquare(seen[often], wanted[often] * scale).pvalue))
    problems = [] if worst >= ALARM else [f"p = {worst:.2g} that records are altered by their matrices"]
    return verdict(problems, f"nine rows of {count} draws, least p = {worst:.2g}")
