"""Where the residuals of a linear regression are cut: no closer than noise asks for, for what is told is the mean."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.fitting import fit

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.formula import Formula
from sottovoce.records.facts import Facts, Number

N = 20_000
FORMULA = Formula("y ~ age", Facts(y=Number(0, 100), age=Number(0, 110)))


def table(sd: float, *, skewed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and responses, the middle of them off that of the bounds."""
    rng = np.random.default_rng(11)
    age = rng.normal(50, 15, N).clip(0, 110)
    off = rng.exponential(size=N) - 1 if skewed else rng.standard_normal(N)
    y = (30 + 0.3 * (age - 50) + sd * off).clip(0, 100)
    rows, _ = FORMULA.encoding.rows([age], N)
    return rows, FORMULA.model.outcome(y)


def last_cap(rho: float, rows: np.ndarray, y: np.ndarray) -> float:
    """Return at which length the last look cuts residuals."""
    path = AdaptiveLooks(FORMULA, N, rho).walk(lambda look, scales: quick_sums(look, rows, y))
    return path[-1][0].look.cap


@pytest.mark.parametrize(("sd", "skewed"), [(35.0, False), (10.0, True)])
def test_with_little_noise_the_line_is_that_of_least_squares(sd: float, skewed: bool) -> None:
    """Cut at half the bounds, or at 3.5 standard deviations, levels had been off by several standard errors."""
    rows, y = table(sd, skewed=skewed)
    posterior = fit(AdaptiveLooks(FORMULA, N, 50.0), rows, y, np.random.default_rng(3))
    least = np.linalg.lstsq(rows, y, rcond=None)[0]
    A, b = FORMULA.units
    for age in (30.0, 50.0, 70.0):
        row = np.array([1.0, age])
        estimate, error, _, _ = posterior.combined(row)
        assert abs(estimate - row @ (A @ least + b)) < 0.3 * error


def test_residuals_are_cut_no_closer_than_their_spread_asks_for() -> None:
    """What skewed residuals lose weighs nothing where noise is large, and is measured where it is not."""
    rows, y = table(10.0, skewed=True)
    caps = [last_cap(rho, rows, y) for rho in (1e-5, 1e-3, 1e-1, 50.0)]
    assert caps[0] <= 1.0
    assert min(caps) > 3.5 * 2 * 10 / 100  # in halves of the bounds
    assert caps[2] > caps[3]
