"""Tests of fit: how surely some draws do not follow a law."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from sottovoce.audit.checks.quadrature import Nodes
from sottovoce.privacy.numbers import Floats

ALARM = 1e-9
"""Below this p-value a check does not pass: one false alarm in a billion runs."""


def uniforms(nodes: Nodes, log_density: Floats, draws: Floats) -> Floats:
    """Return the draws through the distribution function of a density given on sorted nodes.

    They are uniform if the draws follow that density.
    """
    mass = np.exp(log_density)
    below = np.cumsum(mass) - mass / 2  # a node's own mass lies half on each side of it
    return np.interp(draws, np.asarray(nodes.points), below)


def kolmogorov(u: Floats) -> float:
    """Return the p-value of the Kolmogorov–Smirnov test that these are uniform on (0, 1).

    >>> bool(kolmogorov(np.linspace(0, 1, 1000)) > 0.99), bool(kolmogorov(np.linspace(0, 0.9, 1000)) < 1e-6)
    (True, True)
    """
    return float(stats.kstest(u, "uniform").pvalue)


def chi_square(draws: Any, k: Any, probability: Floats) -> float:
    """Return the p-value of whole draws against the probabilities of the whole numbers k, rare ones pooled."""
    ordered = np.sort(draws)
    counts = (np.searchsorted(ordered, k, "right") - np.searchsorted(ordered, k)).astype(np.float64)
    expected = len(draws) * probability
    often = expected >= 10
    seen = np.append(counts[often], len(draws) - counts[often].sum())
    wanted = np.append(expected[often], len(draws) - expected[often].sum())
    if wanted[-1] < 1e-6 * len(draws):  # nothing is left to pool, and what lies there cannot happen
        if seen[-1]:
            return 0.0
        seen, wanted = seen[:-1], wanted[:-1] * (len(draws) / wanted[:-1].sum())
    return float(stats.chisquare(seen, wanted).pvalue)


def independence(first: Any, second: Any) -> float:
    """Return the p-value of the chi-square test that two columns of draws are independent, by quarters.

    >>> line = np.linspace(0, 1, 400)
    >>> bool(independence(line, line) < 1e-9)
    True
    """
    left, right = (np.digitize(column, np.quantile(column, [0.25, 0.5, 0.75])) for column in (first, second))
    table = np.bincount(4 * left + right, minlength=16).reshape(4, 4)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    return float(stats.chi2_contingency(table).pvalue) if min(table.shape) > 1 else 0.0
