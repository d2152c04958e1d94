r"""Gaussian noise on the integers is Gaussian private too, at a hair more than its μ.

Let y be normal with mean x, a whole number, and variance σ² - s², and k a discrete Gaussian of parameter s around y.
The weight of k is the integral of N(y; x, σ² - s²)·e^{-(k-y)²/2s²} over Σ_j e^{-(j-y)²/2s²}. By Poisson summation that
sum is s√(2π)·(1 ± θ), θ = 2.0001·e^{-2π²s²}, whatever y; so k has the discrete Gaussian law of parameter σ around x up
to factors e^{±η}, η = log((1+θ)/(1-θ)). A release with m such noises is therefore, up to factors e^{±h}, h = mη, made
from a release with continuous noise, which is μ₁-Gaussian private, μ₁² = Σ Δᵢ²/(σᵢ² - s²), and with μ = μ₁(1 + 10⁻⁹)

.. math:: \delta(\varepsilon) \le e^h\,\delta_{\mu_1}(\varepsilon - 2h) \le \delta_{\mu}(\varepsilon).

The second step: with M the Mills ratio, a = μ/2 + ε/μ and b = ε/μ - μ/2, the left side is at most
h·φ(b)(M(b) + 2M(a)) above δ_{μ₁}(ε) to first order, for ε ≥ 0, and the right side (μ - μ₁)·φ(b). M(a) ≤ 1.26 and
M(b) ≤ 2.6·e^{μ²/8}, so h ≤ 10⁻¹²·μ·e^{-μ²/8} leaves a factor of a hundred for higher orders. Negative ε follow by
exchanging the two data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_SMALL = 1e-12


def lattice_mu(parts: Sequence[tuple[float, float]], cells: int = 1) -> float:
    """Return the μ of discrete Gaussian noise; infinite where the noise is too small beside the steps.

    Parameters
    ----------
    parts
        Of each kind of number that one record moves: how far beside its noise, squared and added up over such numbers,
        Σ Δᵢ²/σ²; and σ, in steps.
    cells
        At most so many numbers move.

    >>> round(lattice_mu([(0.01, 50.0)]), 6)
    0.100032
    >>> lattice_mu([(1.0, 1.0)])
    inf
    """
    moved = [(squares, scale) for squares, scale in parts if squares > 0]
    if not moved:
        return 0.0
    mu = math.sqrt(math.fsum(squares for squares, _ in moved))
    if not 1e-100 < mu < 20:
        return math.inf
    spread = (math.log(4.001 * cells / (_SMALL * mu)) + mu**2 / 4) / (2 * math.pi**2)
    if any(scale**2 < 2 * spread for _, scale in moved):  # so that μ₁² is at most twice the square, as μ²/4 allows for
        return math.inf
    return math.sqrt(math.fsum(squares / (1 - spread / scale**2) for squares, scale in moved)) * (1 + 1.001e-9)
