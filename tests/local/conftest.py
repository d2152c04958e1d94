"""An oracle that shares no code with the package: whole numbers of any size, and e^ε from mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sottovoce.theory.local import ProfileGraph, ProfileMechanism


def exact_exp(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return fractions just below and just above e^ε."""
    with mpmath.workdps(80):
        value = mpmath.exp(mpmath.mpf(epsilon))
        scaled = int(mpmath.floor(value * mpmath.mpf(10) ** 60))
    return Fraction(scaled, 10**60), Fraction(scaled + 1, 10**60)


def broken_constraints(mechanism: ProfileMechanism) -> list[tuple[object, object, object]]:
    """Return every broken constraint of the float matrices, read as the exact numbers floats are."""
    graph = mechanism.graph
    growth, unit = exact_exp(mechanism.epsilon)[0].as_integer_ratio()
    floats = mechanism.matrices
    out = {}
    for i, name in enumerate(graph.names):
        given, whole = in_units(map(Fraction, graph.exact[i]))
        assert sum(given) == whole
        cells, one = in_units(floats[i].ravel().tolist())
        rows = np.array(cells, dtype=object).reshape(floats[i].shape)  # whole numbers of any size
        assert np.all(rows.sum(axis=1) == one) and min(cells) >= 0
        out[name] = np.array(given, dtype=object) @ rows, whole * one
    broken = []
    for a, b in graph.edges:
        for first, second in ((a, b), (b, a)):
            (p, p_whole), (q, q_whole) = out[first], out[second]
            above = p * (unit * q_whole) > q * (growth * p_whole)  # p > e^ε q, as whole numbers
            broken += [(first, second, mechanism.outputs[y]) for y in np.flatnonzero(above)]
    return broken


def in_units(values: Iterable[float | Fraction]) -> tuple[list[int], int]:
    """Return numbers, exactly, as whole numbers of a unit, and how many units make one."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = math.lcm(*(below for _, below in ratios))
    return [above * (unit // below) for above, below in ratios], unit


@pytest.fixture
def broken() -> Callable[[ProfileMechanism], list[tuple[object, object, object]]]:
    return broken_constraints


def random_graph(rng: np.random.Generator, *, k_max: int = 12, d_max: int = 8) -> ProfileGraph:
    """Return a random graph with hard features: zeros, point masses, twins, isolated profiles."""
    k, d = int(rng.integers(1, k_max + 1)), int(rng.integers(1, d_max + 1))
    rows = rng.dirichlet(np.full(d, rng.choice([0.05, 0.5, 1.0, 5.0])), size=k)
    if rng.random() < 0.4:
        rows[rng.random(rows.shape) < 0.3] = 0.0
        rows[rows.sum(axis=1) == 0, 0] = 1.0
        rows /= rows.sum(axis=1, keepdims=True)
    if rng.random() < 0.2:
        rows[-1] = rows[0]
    pairs = [(i, j) for i in range(k) for j in range(i) if rng.random() < rng.choice([0.15, 0.5, 1.0])]
    return ProfileGraph({f"p{i}": row for i, row in enumerate(rows)}, [(f"p{i}", f"p{j}") for i, j in pairs])


@pytest.fixture
def draw_graph() -> Callable[..., ProfileGraph]:
    return random_graph
