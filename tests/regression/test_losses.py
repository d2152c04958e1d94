"""Each loss keeps the constants it states, and states them no looser than they are."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from sottovoce.inference.regression.custom_loss import CustomLoss
from sottovoce.inference.regression.losses import (
    ComplementaryLogLog,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Probit,
    SmoothedHinge,
    Squared,
)
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue

LOSSES = [
    Logistic(),
    Probit(),
    ComplementaryLogLog(),
    Poisson(largest=7.0),
    Poisson(largest=0.3),
    SmoothedHinge(0.5),
    Huber(largest=2.0, threshold=1.5),
    Huber(largest=2.0, threshold=90.0),
    Squared(largest=2.0),
]


def on_grid(loss: Loss, reach: float):
    t = np.linspace(-reach, reach, 4001)
    low, high = loss.labels
    y = np.array([low, high]) if loss.binary else np.linspace(low, high, 21)
    with jax.enable_x64(True):
        value, slope = compiled(loss)(*np.meshgrid(t, y))
        return t, np.asarray(value), np.asarray(slope)


@cache
def compiled(loss: Loss):
    """Return a loss and its slope as one program, as a chain runs them."""
    return jax.jit(lambda t, y: (loss.value(t, y), loss.slope(t, y)), compiler_options=compiler_options(seldom=True))


@pytest.mark.parametrize("reach", [0.2, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_constants_hold_and_are_reached(loss, reach):
    t, value, slope = on_grid(loss, reach)
    said = loss.constants(reach)
    bend = np.diff(slope, axis=1) / np.diff(t)
    assert np.abs(slope).max() <= said.lipschitz * (1 + 1e-12)
    assert bend.max() <= said.curvature * (1 + 1e-6)
    assert value.max() - value.min() <= said.spread * (1 + 1e-12)
    assert bend.min() >= -1e-9
    assert said.lipschitz <= np.abs(slope).max() * (1 + 1e-9)  # no loss is sold as steeper than it is
    if reach >= 1:
        assert said.curvature <= bend.max() * 1.02


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_slope_is_the_derivative_of_the_value(loss):
    t, value, slope = on_grid(loss, 5.0)
    middle = (value[:, 2:] - value[:, :-2]) / (t[2:] - t[:-2])
    np.testing.assert_allclose(slope[:, 1:-1], middle, atol=2e-3, rtol=1e-4)


@pytest.mark.parametrize("reach", [1.0, 10.0, 40.0])
def test_probit_constants_against_high_precision(reach):
    with mpmath.workdps(60):
        ratio = mpmath.npdf(reach) / mpmath.ncdf(-reach)
        bend = ratio * (ratio - reach)
    said = Probit().constants(reach)
    assert said.lipschitz == pytest.approx(float(ratio), rel=1e-14)
    assert float(bend) <= said.curvature <= float(bend) * (1 + 2e-9)


def test_probit_slope_keeps_its_digits_in_the_far_tail():
    with jax.enable_x64(True):
        got = float(compiled(Probit())(np.array(-30.0), np.array(1.0))[1])
    with mpmath.workdps(60):
        want = float(-mpmath.npdf(30) / mpmath.ncdf(-30))
    assert got == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("loss", [Probit(), ComplementaryLogLog(), Poisson(), Squared()], ids=str)
def test_unbounded_scores_admit_it(loss):
    assert math.isinf(loss.constants(math.inf).lipschitz)


def test_custom_loss_agrees_with_the_built_in_one():
    own = CustomLoss(lambda t, y: jax.nn.softplus(-y * t), lipschitz=1.0, curvature=0.25, two_labels=True)
    np.testing.assert_allclose(on_grid(own, 8.0)[2], on_grid(Logistic(), 8.0)[2], atol=1e-12)


@pytest.mark.parametrize(
    ("function", "lipschitz", "curvature", "words"),
    [
        (lambda t, y: jax.nn.softplus(-y * t), 0.9, 0.25, "slope"),
        (lambda t, y: jax.nn.softplus(-y * t), 1.0, 0.2, "curvature"),
        (lambda t, y: jnp.sin(t), 1.0, 1.0, "not convex"),
        (lambda t, y: -jnp.log(t), 1.0, 1.0, "not finite"),
    ],
)
def test_visibly_wrong_constants_are_refused(function, lipschitz, curvature, words):
    with pytest.raises(InvalidValue, match=words):
        CustomLoss(function, lipschitz=lipschitz, curvature=curvature, two_labels=True)


def test_custom_constants_end_where_they_are_claimed_to():
    own = CustomLoss(lambda t, y: (t - y) ** 2 / 2, lipschitz=3.0, curvature=1.0, valid_reach=2.0)
    assert own.constants(2.0).lipschitz == 3.0
    assert math.isinf(own.constants(2.1).lipschitz)


@pytest.mark.parametrize("make", [lambda: Poisson(0.0), lambda: SmoothedHinge(-1.0), lambda: Huber(threshold=math.nan)])
def test_senseless_parameters_are_refused(make):
    with pytest.raises(InvalidValue, match="must be > 0"):
        make()
