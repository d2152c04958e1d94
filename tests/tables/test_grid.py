"""The grid: as fine as a double allows, and never outside the bounds."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.tables.grid import EngineGrid

SIZES = st.floats(2.0**-64, 2.0**51)


@given(SIZES)
def test_a_bound_is_at_most_two_to_the_51_steps_and_more_than_half(bound: float) -> None:
    steps = Fraction(bound) * 2 ** EngineGrid.covering(bound).bits
    assert 2**50 < steps <= 2**51


@given(SIZES, st.floats(-1, 1), st.floats(-1, 1))
def test_the_steps_inside_lie_inside(bound: float, a: float, b: float) -> None:
    low, high = sorted((a * bound, b * bound))
    grid = EngineGrid.covering(bound)
    first, last = grid.inside(low, high)
    assert Fraction(first, 2**grid.bits) >= Fraction(low)
    assert Fraction(last, 2**grid.bits) <= Fraction(high)
    assert grid.value(first) >= low
    assert grid.value(last) <= high


@given(st.floats(-1, 1))
def test_nearest_is_what_doubles_round_to(x: float) -> None:
    grid = EngineGrid.covering(1.0)
    assert grid.nearest(x) == round(x * grid.scale)  # the product is exact, and round() takes ties to even
    assert math.isclose(grid.value(grid.nearest(x)), x, abs_tol=2.0**-52)


@pytest.mark.parametrize("bound", [2.0**-65, 2.0**52, math.inf, math.nan, -1.0])
def test_sizes_out_of_range_are_refused(bound: float) -> None:
    with pytest.raises(InvalidValue):
        EngineGrid.covering(bound)


def test_a_bound_of_zero_needs_no_grid() -> None:
    assert EngineGrid.covering(0.0).inside(0.0, 0.0) == (0, 0)
