"""Kernels that forget nearly everything, and steps that shrink to nearly nothing: claims stay above the truth."""

from __future__ import annotations

import mpmath as mp
import pytest

from sottovoce.amplification import amplify, randomized_response, shift_mu
from sottovoce.privacy.pure import PureProfile


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


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("local", [1e-12, 1e-6, 0.1, 30.0, 690.0])
@pytest.mark.parametrize("epsilon", [1e-12, 0.1, 690.0])
def test_kernels_in_turn_leave_no_more_privacy_than_they_do(epsilon: float, local: float, times: int) -> None:
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


@pytest.mark.parametrize("lipschitz", [1e-300, 1e-160, 1e-3, 0.9, 1 - 1e-12, 1.5])
@pytest.mark.parametrize("later", [0, 1, 5])
def test_a_shift_before_steps_that_shrink_to_nothing_has_a_mu(lipschitz: float, later: int) -> None:
    with mp.workdps(700):
        truth = 1 / mp.sqrt(mp.fsum(mp.mpf(lipschitz) ** (-2 * j) for j in range(later + 1)))
        claim = float(shift_mu(1.0, lipschitz, 1.0, later))
        assert truth <= claim <= max(truth * (1 + mp.mpf(10) ** -9), mp.mpf(10) ** -149)
