"""Kernels, iterations and diffusions small enough to be multiplied out: what is left is never below the joint law."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.pure import PureProfile
from sottovoce.records.readings import ClippedSum
from sottovoce.theory.amplification import iteration, mixing
from sottovoce.theory.amplification.diffusion import BoundedMean, OrnsteinUhlenbeck
from sottovoce.theory.amplification.kernels import FiniteKernel

__all__ = ["coefficients", "diffusions", "iterations", "kernels"]

_POINTS = np.array([0.0, 0.1, 0.3, 0.7])
_TWO = (((0.9, 0.1), (0.3, 0.7)), ((0.6, 0.4), (0.55, 0.45)), ((0.999, 0.001), (0.2, 0.8)), ((0.8, 0.2), (0.2, 0.8)))
_THREE = (((0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.3, 0.3, 0.4)), ((0.5, 0.4, 0.1), (0.4, 0.1, 0.5), (0.1, 0.5, 0.4)))


def _cases() -> list[tuple[float, Floats]]:
    """Return levels of randomized response and the rows of a kernel that follows it."""
    return [(level, np.array(kernel)) for level in (0.3, 1.0, 3.0) for kernel in _TWO]


def _stick(p: Floats, q: Floats, epsilon: float) -> float:
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


@check("what a kernel leaves covers the law behind it")
def kernels() -> tuple[bool, str]:
    """Randomized response, then a kernel of two rows: δ(ε), the pure level and a divergence, multiplied out."""
    problems = []
    for level, rows in _cases():
        told = 1 / (1 + math.exp(-level))
        p, q = (np.array(law) @ rows for law in ([told, 1 - told], [1 - told, told]))
        kernel = FiniteKernel(rows.tolist())  # type: ignore[arg-type]
        after = mixing.amplify(PureProfile(level), kernel)
        bounds = mixing.mixing_bounds(PureProfile(level), kernel, _POINTS) | {"the profile": after.delta(_POINTS)}
        for k, epsilon in enumerate(_POINTS.tolist()):
            truth = _stick(p, q, epsilon)
            problems += [
                f"{name}: δ({epsilon:g}) is {truth:.4g} and {claim[k]:.4g} is claimed"
                for name, claim in bounds.items()
                if truth > claim[k] * (1 + 1e-9) + 1e-13
            ]
        largest = float(np.abs(np.log(p / q)).max())
        if largest > after.pure() * (1 + 1e-9):
            problems.append(f"a loss of {largest:.4g} and {after.pure():.4g} is claimed")
        divergence = max(math.log(float(np.sum(a**3 * b**-2.0))) / 2 for a, b in ((p, q), (q, p)))
        if divergence > float(after.renyi(3.0)) * (1 + 1e-9):
            problems.append(f"R(3) is {divergence:.4g} and {float(after.renyi(3.0)):.4g} is claimed")
    return verdict(problems, f"{len(_cases())} pairs of a response and a kernel, none above its claim")


@check("coefficients of a kernel are those of its rows")
def coefficients() -> tuple[bool, str]:
    """The four of Definition 22 for three inputs, row by row: none below what the rows have."""
    problems = []
    for rows in _THREE:
        kernel, pairs = FiniteKernel(rows), list(itertools.permutations(rows, 2))
        truth = {
            "dobrushin": max(_stick(np.array(p), np.array(q), 0.0) for p, q in pairs),
            "doeblin": 1 - sum(min(column) for column in zip(*rows, strict=True)),
            "ultra_mixing": 1 - min(a / b for p, q in pairs for a, b in zip(p, q, strict=True)),
        }
        problems += [
            f"{name} is {value:.6g} and {getattr(kernel, name):.6g} is claimed"
            for name, value in truth.items()
            if not value * (1 - 1e-12) <= getattr(kernel, name) <= value * (1 + 1e-9)
        ]
    return verdict(problems, "three coefficients of two kernels, each to nine digits")


@check("later steps hide no more than their law does")
def iterations() -> tuple[bool, str]:
    """Linear steps x ← Lx + shift + noise from a known start are Gaussian: their own μ against what is claimed."""
    problems, count = [], 0
    for L, later in itertools.product((0.5, 0.9, 1.0, 1.2), (0, 1, 4, 20)):
        gap, variance = 1.5, 0.49
        for _ in range(later):
            gap, variance = L * gap, L * L * variance + 0.49
        claims = {"one shift": float(iteration.shift_mu(1.5, L, 0.7, later))}
        claims["any steps"] = iteration.path_mu([1.5] + [0.0] * later, L, 0.7)
        claims["closed form"] = iteration.iteration_mu(1.5, [L] * later, [0.7] * (later + 1))
        if L <= 1:
            claims["the thesis"] = float(iteration.thesis_mu(1.5, L, 0.7, later))
        count += len(claims)
        problems += [
            f"{name}, L = {L}, {later} later steps: μ is {gap / math.sqrt(variance):.5g} and {claim:.5g} is claimed"
            for name, claim in claims.items()
            if gap / math.sqrt(variance) > claim * (1 + 1e-9)
        ]
    return verdict(problems, f"{count} claims of linear steps, none below their own law")


@check("a diffusion carries the noise that it claims")
def diffusions() -> tuple[bool, str]:
    """The variance of an Ornstein–Uhlenbeck process by Euler's scheme with many steps, and what one record moves."""
    problems, n = [], 4
    for time, rate in ((0.5, 0.0), (1.0, 0.8), (2.0, 1.5)):
        mechanism = OrnsteinUhlenbeck(BoundedMean(ClippedSum(0, 1)), n, time, rate, 0.3)
        steps = 20_000
        pull, variance = 1 - rate * time / steps, 0.0
        for _ in range(steps):
            variance = pull * pull * variance + 2 * 0.3**2 * time / steps
        truth = math.exp(-rate * time) / n / math.sqrt(variance)
        claim = float(mechanism.profile.gdp())
        if truth > claim * (1 + 1e-3) or claim > truth * (1 + 1e-2):
            problems.append(f"time {time}, rate {rate}: μ is {truth:.5g} and {claim:.5g} is claimed")
    return verdict(problems, "three diffusions, each within a hundredth of Euler's scheme")
