"""The four coefficients of a kernel, its samples, and what it refuses."""

import numpy as np
import pytest
from scipy import integrate

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.amplification import (
    FiniteKernel,
    Kernel,
    LaplaceIntervalKernel,
    TruncatedGaussianKernel,
    randomized_response,
)

INTERVALS = [TruncatedGaussianKernel(0.7, -1.0, 2.0), TruncatedGaussianKernel(3.0), LaplaceIntervalKernel(0.4, 0, 3)]


def random_rows(rng, *shape):
    """Return probabilities of many characters, from nearly uniform to nearly certain."""
    rows = rng.gamma(10 ** rng.uniform(-1, 1.5, (*shape[:-1], 1)), size=shape) + 1e-9
    return rows / rows.sum(-1, keepdims=True)


def test_finite_coefficients_by_hand():
    K = FiniteKernel([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]])
    assert (K.dobrushin, K.doeblin, K.ultra_mixing) == pytest.approx((0.25, 0.25, 1.0), rel=1e-14)
    assert K.spread(np.array([np.log(2), 50.0])) == pytest.approx([0.25, 0.25])
    assert randomized_response(4, 1.5).ultra_mixing == pytest.approx(1 - np.exp(-1.5))


@pytest.mark.parametrize("kernel", INTERVALS, ids=repr)
def test_interval_coefficients_are_the_suprema(kernel):
    """Against a grid of inputs and quadrature over outputs."""
    gaussian = isinstance(kernel, TruncatedGaussianKernel)
    low, high = kernel.low, kernel.high
    y = np.linspace(low, high, 2001)
    x = np.linspace(low, high, 41)
    away = (y - x[:, None]) / kernel.scale
    raw = np.exp(-(away**2) / 2 if gaussian else -np.abs(away))
    rows = raw / integrate.trapezoid(raw, y)[:, None]
    for epsilon in (0.0, 0.2, 1.0):
        gaps = np.maximum(rows[:, None] - np.exp(epsilon) * rows[None], 0)
        worst = integrate.trapezoid(gaps, y).max()
        assert kernel.spread(np.array([epsilon]))[0] == pytest.approx(worst, abs=2e-3 if worst else 1e-9)
    assert kernel.doeblin == pytest.approx(1 - integrate.trapezoid(rows.min(0), y), abs=1e-3)
    assert kernel.ultra_mixing == pytest.approx(1 - np.min(rows.min(0) / rows.max(0)), abs=1e-6)


@pytest.mark.parametrize("kernel", [*INTERVALS, randomized_response(4, 0.7)], ids=lambda k: k.word)
def test_samples_follow_the_kernel(kernel):
    rng = seeded_rng(3)
    if isinstance(kernel, FiniteKernel):
        out = kernel.sample(np.full(40_000, 2), rng)
        assert np.bincount(out, minlength=4) / 40_000 == pytest.approx(kernel.matrix[2], abs=0.012)
        return
    middle = kernel.low + 0.8 * (kernel.high - kernel.low)
    out = kernel.sample(np.full(40_000, middle), rng)
    y = np.linspace(kernel.low, kernel.high, 2001)
    away = (y - middle) / kernel.scale
    density = np.exp(-(away**2) / 2 if isinstance(kernel, TruncatedGaussianKernel) else -np.abs(away))
    cdf = integrate.cumulative_trapezoid(density, y, initial=0) / integrate.trapezoid(density, y)
    seen = np.searchsorted(np.sort(out), y) / out.size
    assert np.abs(seen - cdf).max() < 0.012  # a Kolmogorov distance of 2.4 standard units


def test_figure_6_1_implications():
    rng = seeded_rng(4)
    kernels = [FiniteKernel(random_rows(rng, 4, 3)) for _ in range(500)] + INTERVALS
    for kernel in kernels:
        assert np.all(np.diff(kernel.spread(np.linspace(0, 4, 9))) <= 1e-15)  # (γ, ε)-Dobrushin is below Dobrushin
        assert kernel.dobrushin <= kernel.doeblin + 1e-15
        assert kernel.doeblin <= kernel.ultra_mixing + 1e-15


def test_bad_inputs_of_a_kernel_are_refused():
    with pytest.raises(InvalidData, match="whole numbers from 0 to 1"):
        randomized_response(2, 1.0).sample([2], seeded_rng(0))
    with pytest.raises(InvalidData, match="finite"):
        TruncatedGaussianKernel(1.0).sample([np.nan], seeded_rng(0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FiniteKernel([[0.5, 0.6], [0.5, 0.5]]), "sum to 1. Row 0"),
        (lambda: FiniteKernel([[1.5, -0.5]]), ">= 0"),
        (lambda: FiniteKernel([[np.nan, 1.0]]), "finite"),
        (lambda: FiniteKernel([[1.0], [0.5, 0.5]]), "one length"),
        (lambda: FiniteKernel([0.5, 0.5]), "matrix"),
        (lambda: randomized_response(1, 1.0), "categories"),
        (lambda: randomized_response(2, -1.0), "epsilon"),
        (lambda: TruncatedGaussianKernel(0.0), "scale"),
        (lambda: LaplaceIntervalKernel(1.0, 1.0, 0.0), "low < high"),
        (lambda: Kernel.from_dict({"kernel": "magic"}), "no kernel is called"),
        (lambda: Kernel.from_dict({"kernel": "finite", "colour": 1}), "cannot read"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InvalidValue, match=says):
        make()
