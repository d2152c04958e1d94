"""Kernels that forget nearly everything, and steps that shrink to nearly nothing: claims stay above the truth."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.pure import PureProfile
from sottovoce.theory.amplification import amplify, lipschitz_gaussian, path_mu, randomized_response, shift_mu
from sottovoce.theory.amplification.interval_kernels import LaplaceIntervalKernel, TruncatedGaussianKernel


def _after(epsilon: float, kernels: list[object], digits: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Return the two laws of a purely private answer of two values, passed through kernels as they are stored."""
    with mp.workdps(digits):
        first = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        laws = [[first, 1 - first], [1 - first, first]]
        for kernel in kernels:
            rows = [[mp.mpf(p) for p in row] for row in kernel.rows]  # type: ignore[attr-defined]
            rows = [[p / mp.fsum(row) for p in row] for row in rows]
            laws = [[mp.fsum(law[x] * rows[x][y] for x in range(2)) for y in range(2)] for law in laws]
    return laws[0], laws[1]


@pytest.mark.parametrize("local", [1e-12, 1e-6, 0.1, 30.0, 690.0])
def test_kernels_in_turn_leave_no_more_privacy_than_they_do(local: float) -> None:
    for epsilon, times in itertools.product((1e-12, 0.1, 690.0), (1, 2, 3)):
        kernels = [randomized_response(2, local)] * times
        claim = amplify(PureProfile(epsilon), kernels)
        with mp.workdps(700):
            p, q = _after(epsilon, list(kernels), 700)
            level = max(mp.log(a / b) for a, b in zip(p, q, strict=True))
            assert claim.pure() >= level * (1 - mp.mpf(10) ** -15)
            for part in (0.0, 0.5, 0.999, 1 - 1e-12):
                at = float(level) * part
                delta = mp.fsum(max(a - mp.exp(mp.mpf(at)) * b, 0) for a, b in zip(p, q, strict=True))
                assert claim.delta(at) >= delta * (1 - mp.mpf(10) ** -13)


@pytest.mark.parametrize("later", [0, 1, 5])
def test_a_shift_before_steps_that_shrink_to_nothing_has_a_mu(later: int) -> None:
    for lipschitz in (1e-300, 1e-160, 1e-3, 0.9, 1 - 1e-12, 1.5):
        with mp.workdps(700):
            truth = 1 / mp.sqrt(mp.fsum(mp.mpf(lipschitz) ** (-2 * j) for j in range(later + 1)))
            claim = float(shift_mu(1.0, lipschitz, 1.0, later))
            assert truth <= claim <= max(truth * (1 + mp.mpf(10) ** -9), mp.mpf(10) ** -149)


@pytest.mark.parametrize("unit", [1e-200, 1e-130, 1.0, 1e120, 1e200])
def test_a_path_costs_the_same_in_every_unit(unit: float) -> None:
    # One shift, then one that is larger by far: two blocks of the taut string, neither of which may be lost.
    shifts, lipschitz, noise = np.array([1.0, 0.0, 1e6]), [1.0, 0.5, 0.25], np.array([2.0, 1.0, 4.0])
    with mp.workdps(50):
        first = (mp.mpf("0.125")) ** 2 / ((mp.mpf("0.125") * 2) ** 2 + mp.mpf("0.25") ** 2)
        truth = mp.sqrt(first + mp.mpf(10) ** 12 / 16)
        assert truth <= path_mu(unit * shifts, lipschitz, unit * noise) <= truth * (1 + mp.mpf(10) ** -9)
    assert path_mu([unit], 1.0, unit) >= 1


def test_a_distance_that_leaves_the_range_of_doubles_and_comes_back_is_not_lost() -> None:
    # It grows by 10³²⁰ and shrinks by as much: all of it is left, and of the noise that of the first step and the last.
    assert path_mu([3.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1e160, 1e160, 1e-160, 1e-160], 1.0) >= 3 / np.sqrt(2)
    assert path_mu([1e-100, 0.0, 0.0], [1.0, 1e150, 1e150], [1e-300, 1e-300, 1e200]) >= 1
    assert path_mu([0.0, 1e100, 0.0, 0.0], [0.0, 0.0, 1e-250, 1e-250], 1e10) > 0
    assert path_mu([0.0], 1e-200, 1e100, start=1e-150) > 0
    assert path_mu([1.0, 0.0, 0.0], [1.0, 0.0, 1.0], 1.0) == 0


def test_a_map_that_shrinks_nearly_everything_leaves_a_mu() -> None:
    with mp.workdps(50):
        truth = mp.mpf(1e300) / mp.sqrt(1 + (mp.mpf(1e10) / mp.mpf(1e-300)) ** 2)
        assert truth <= lipschitz_gaussian(1e300, 1.0, 1e10, 1e-300).mu <= truth * (1 + mp.mpf(10) ** -9)
    assert lipschitz_gaussian(1.0, 1.0, 1e10, 1e-300).mu > 0


@pytest.mark.parametrize("width", [1e-7, 1e-6, 1e-5, 1e-3, 0.1, 0.999, 1.001, 8.0])
def test_two_ends_of_a_narrow_interval_differ_by_as_much_as_they_do(width: float) -> None:
    kernel = TruncatedGaussianKernel(1.0, 0.0, width)
    for part in (0.0, 1e-3, 0.5, 0.9):
        epsilon = part * kernel.level
        with mp.workdps(60):
            w, half = mp.mpf(width), mp.mpf(1) / 2
            place = w / 2 - mp.mpf(epsilon) / w
            far = mp.exp(mp.mpf(epsilon)) * (mp.ncdf(place - w) - mp.ncdf(-w))
            truth = (mp.ncdf(place) - half - far) / (mp.ncdf(w) - half)
            claim = mp.mpf(float(kernel.spread(np.array([epsilon]))[0]))
            assert abs(claim - truth) <= mp.mpf(10) ** -14 + truth * mp.mpf(10) ** -12
            assert claim >= truth * (1 - mp.mpf(10) ** -13) - (0 if width < 1 else mp.mpf(10) ** -14)


@pytest.mark.parametrize("kernel", [TruncatedGaussianKernel, LaplaceIntervalKernel])
@pytest.mark.parametrize("width", [3e-12, 1e-9, 1e-4, 0.7])
def test_two_ends_are_no_less_apart_than_they_are_where_hardly_anything_is_left(kernel, width: float) -> None:
    one = kernel(1.0, 0.0, width)
    for part in (0.0, 0.5, 1 - 1e-6, 1 - 1e-10, 1 - 1e-13):
        epsilon = part * one.level
        with mp.workdps(120):
            w, e = mp.mpf(width), mp.mpf(epsilon)
            if kernel is LaplaceIntervalKernel:
                truth = (1 - mp.exp((e - w) / 2)) ** 2 / (1 - mp.exp(-w))
            else:
                p, half = w / 2 - e / w, mp.mpf(1) / 2
                truth = (mp.ncdf(p) - half - mp.exp(e) * (mp.ncdf(p - w) - mp.ncdf(-w))) / (mp.ncdf(w) - half)
            claim = mp.mpf(float(one.spread(np.array([epsilon]))[0]))
            assert truth <= claim <= truth * (1 + mp.mpf(10) ** -13) + mp.mpf(10) ** -14 * width**2


@pytest.mark.parametrize("kernel", [TruncatedGaussianKernel, LaplaceIntervalKernel])
@pytest.mark.parametrize("width", [1e-320, 1e-200, 1e-160])
def test_the_narrowest_intervals_still_tell_something(kernel, width: float) -> None:
    one = kernel(1.0, 0.0, width)
    assert one.level > 0 and one.ultra_mixing > 0 and one.dobrushin > 0


@pytest.mark.parametrize(("rest", "expected"), [(b"\x00", [0, 1]), (b"\xff", [1, 0])])
def test_an_answer_is_turned_however_seldom(rest: bytes, expected: list[int]) -> None:
    # It is turned with probability 4e-18, and a double from 0 to 1 has steps of 1e-16: the bits after them decide.
    top = 1 - 2.0**-53 if rest == b"\xff" else 0.5
    source = SimpleNamespace(random=lambda shape: np.full(shape, top), bytes=lambda count: rest * count)
    kernel = randomized_response(2, 40.0)
    assert kernel.sample(np.array([0]), source).tolist() == expected[:1]
    source.random = lambda shape: np.zeros(shape)
    assert kernel.sample(np.array([1]), source).tolist() == ([1] if rest == b"\xff" else [0])
