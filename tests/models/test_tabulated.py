"""The table of the exact likelihood: what it holds is the sum over true counts, by convolution, near and far."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

jax = pytest.importorskip("jax")
pytest.importorskip("numpyro")

from sottovoce.inference.custom.likelihood import LikelihoodPlan, exact, plan_for, two_sided  # noqa: E402
from sottovoce.inference.custom.tabulated import LikelihoodTable, table_for, tabulated  # noqa: E402
from sottovoce.mechanisms.integer_noise import IntegerNoise  # noqa: E402
from sottovoce.mechanisms.jax_compilation import compiler_options  # noqa: E402


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def convolved(pi: np.ndarray, noisy: np.ndarray, n: int, scale: float) -> float:
    """Every true count of every cell, one cell after the other, by the sum so far."""
    values, law, off = np.arange(n + 1), np.ones(1), 0.0
    for p, count in zip(pi, noisy, strict=True):
        logs = -np.abs(count - values) / scale - gammaln(values + 1) + values * np.log(n * p)
        law = np.convolve(law, np.exp(logs - logs.max()))[: n + 1]
        off += logs.max() + np.log(law.max())
        law = law / law.max()
    return float(np.log(law[n]) + off + gammaln(n + 1) - n * np.log(n) + len(pi) * np.log(math.tanh(0.5 / scale)))


CASES = {
    "many cells": (1500, 20.0, np.random.default_rng(1).dirichlet(np.full(25, 2.0))),
    "cells that hold nobody": (800, 40.0, np.array([0.5, 0.4995, 1e-4, 2e-4, 1e-4, 1e-4, 3e-12])),
    "noise beyond all counts": (30, 400.0, np.full(12, 1 / 12)),
    "a hundred records in two cells": (101, 20.0, np.array([0.1, 0.9])),
}


def made(name: str) -> tuple[int, IntegerNoise, np.ndarray, np.ndarray, LikelihoodPlan, LikelihoodTable]:
    n, scale, pi = CASES[name]
    rng, noise = np.random.default_rng(len(name)), IntegerNoise("laplace", scale)
    noisy = rng.multinomial(n, pi / pi.sum()) + noise.add(np.zeros(pi.size, dtype=np.int64), rng)
    plan = plan_for(noisy, n, noise)
    first, last = two_sided(noisy, noise)
    plan = LikelihoodPlan(plan.width, plan.modulus, plan.terms, plan.pieces or math.ceil(np.max(last - first) / 0.2))
    return n, noise, pi / pi.sum(), noisy, plan, table_for(noisy, noise, plan)


@pytest.mark.parametrize("name", CASES)
def test_a_table_holds_the_sum_over_all_counts_and_its_slope(name: str) -> None:
    n, noise, pi, noisy, plan, table = made(name)
    rng = np.random.default_rng(2)
    far = [rng.dirichlet(np.full(pi.size, a)) for a in (0.3, 3.0)]  # models that are wrong, some of them by much
    edge = np.full(pi.size, 1e-9) + np.eye(pi.size)[0]
    slopes = jax.value_and_grad(lambda p, table: tabulated(p, table, n, noise, plan))
    found = jax.jit(slopes, compiler_options=compiler_options(seldom=True))
    for p in (pi, *(np.maximum(q, 1e-14) / np.maximum(q, 1e-14).sum() for q in (*far, edge))):
        value, slope = found(p, table)
        assert float(value) == pytest.approx(convolved(p, noisy, n, noise.scale), rel=1e-7, abs=1e-6), p
        step = 1e-4 * p * rng.choice([-1.0, 1.0], p.size)
        ends = [convolved(p + sign * step, noisy, n, noise.scale) for sign in (1, -1)]
        assert float(slope @ step) * 2 == pytest.approx(ends[0] - ends[1], rel=1e-4, abs=2e-8)


def test_the_table_and_the_sums_made_anew_agree_where_convolution_is_long() -> None:
    noise, n = IntegerNoise("laplace", 20.0), 20_000
    rng = np.random.default_rng(4)
    pi = rng.dirichlet(np.full(12, 2.0))
    noisy = rng.multinomial(n, pi) + noise.add(np.zeros(12, dtype=np.int64), rng)
    plan = plan_for(noisy, n, noise)
    assert plan.pieces
    table = table_for(noisy, noise, plan)
    near = rng.dirichlet(n * pi / 4, 8)

    def each(rows: Any, table: LikelihoodTable) -> Any:
        return jax.lax.map(
            lambda p: (tabulated(p, table, n, noise, plan), exact(p, table.counts, n, noise, plan)), rows
        )

    both = jax.jit(each, compiler_options=compiler_options(seldom=True))(near, table)
    assert np.allclose(both[0], both[1], rtol=0, atol=1e-7)


def test_tables_are_for_wide_laplace_noise_alone_and_never_too_large() -> None:
    wide = np.full(12, 1000)
    assert plan_for(wide, 12_000, IntegerNoise("laplace", 20.0)).pieces > 0
    assert plan_for(wide, 12_000, IntegerNoise("laplace", 1.0)).pieces == 0
    assert plan_for(wide, 12_000, IntegerNoise("gaussian", 20.0)).pieces == 0
    assert plan_for(np.full(4000, 1000), 4_000_000, IntegerNoise("laplace", 20.0)).pieces == 0
    assert plan_for([0, 0], 0, IntegerNoise("laplace", 20.0)).pieces == 0
    for counts in ([10**12, 5], [-(10**12), 5], [0, 0]):
        plan = plan_for(counts, 10**6, IntegerNoise("laplace", 20.0))
        assert plan.pieces * plan.terms * 2 <= 1_000_000
