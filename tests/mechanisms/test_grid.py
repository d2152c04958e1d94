"""Noisy numbers leave on a public grid: multiples of a power of two, as near as can be, fine beside the noise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.mechanisms.grid import grid_step, to_grid
from sottovoce.privacy.errors import InvalidValue

scales = st.floats(1e-12, 1e12)


@given(noise=scales)
def test_the_step_is_a_power_of_two_just_below_its_share_of_the_noise(noise):
    step = grid_step(noise)
    assert math.frexp(step)[0] == 0.5
    assert step <= noise * 2.0**-16 < 2 * step


@given(value=st.floats(-1e6, 1e6), noise=st.floats(1e-6, 1e6))
def test_values_move_to_the_nearest_multiple(value, noise):
    step, rounded = grid_step(noise), float(to_grid(value, noise))
    assert rounded == round(rounded / step) * step
    assert abs(rounded - value) <= step / 2
    assert float(to_grid(rounded, noise)) == rounded


def test_zero_has_no_sign_and_shapes_stay():
    rounded = to_grid(np.array([[-1e-9, 0.25], [1e-9, -0.25]]), 1.0)
    assert rounded.tolist() == [[0.0, 0.25], [0.0, -0.25]]
    assert not np.signbit(rounded[0, 0])


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_noise_must_be_a_positive_number(noise):
    with pytest.raises(InvalidValue, match="noise must be > 0"):
        to_grid(1.0, noise)
