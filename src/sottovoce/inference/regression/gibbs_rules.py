r"""Gibbs posteriors of any convex Lipschitz loss: what an exact sample costs, and what its risk is bounded by.

G ∝ exp(−βΣℓ(θ, x_i))·π(θ) with −log π m-strongly convex and every ℓ(·, x) convex and L-Lipschitz, smooth or not. One
record replaced adds a 2βL-Lipschitz function to a potential that is m-strongly convex, so an exact sample is Gaussian
private (Gopi, Lee and Liu 2022), which implies Minami et al. 2016, Theorem 7 and Corollary 8; where each ℓ is
m_ℓ-strongly convex itself the potential has m + nβm_ℓ (their Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import real, whole
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.rounding import UP

__all__ = [
    "gibbs_profile",
    "hinge_hoeffding",
    "joint_temperature",
    "largest_temperature",
    "minami_temperature",
    "oracle_bound",
    "risk_bound",
]

Hoeffding = Callable[[float, int], float]
"""f(b, n) of the Hoeffding assumption (C.5), infinite where it does not hold; b counts the *mean* loss."""


def gibbs_profile(
    beta: float, lipschitz: float, prior_convexity: float, *, loss_convexity: float = 0.0, n: int = 1
) -> GaussianProfile:
    r"""Return what one **exact** sample of the Gibbs posterior costs: μ = 2βL/√(m + nβm_ℓ).

    Examples
    --------
    The logit-normal example of Minami et al. (Example 17), at their β = 0.012:

    >>> round(gibbs_profile(0.012, 1.0, 1.0).epsilon(0.001), 3)
    0.032
    """
    b, L = real("beta", beta), real("lipschitz", lipschitz)
    m = real("prior_convexity", prior_convexity) + whole("n", n, 1) * b * real("loss_convexity", loss_convexity)
    if not m > 0:
        raise InvalidValue("the prior or the loss must be strongly convex; else an exact sample may cost anything")
    return GaussianProfile(2 * b * L / math.sqrt(m) * UP)


def minami_temperature(epsilon: float, delta: float, lipschitz: float, prior_convexity: float) -> float:
    """Return β = (ε/2L)√(m/(1 + 2 log 1/δ)), the rule of Theorem 7: sound, and lower than it need be.

    >>> round(minami_temperature(0.1, 0.001, 1.0, 1.0), 5)
    0.01299
    """
    d = real("delta", delta, above=0.0, below=1.0)
    m = real("prior_convexity", prior_convexity, above=0.0)
    return (
        real("epsilon", epsilon) / (2 * real("lipschitz", lipschitz, above=0.0)) * math.sqrt(m / (1 - 2 * math.log(d)))
    )


def largest_temperature(
    target: Promise, lipschitz: float, prior_convexity: float, *, loss_convexity: float = 0.0, n: int = 1
) -> float:
    """Return the largest β that keeps a promise for an exact sample, of any such prior and loss.

    >>> from sottovoce.privacy.promises import ApproxDP
    >>> round(largest_temperature(ApproxDP(0.1, 0.001), 1.0, 1.0), 4)
    0.0287
    """
    return largest_keeping(
        lambda b: gibbs_profile(b, lipschitz, prior_convexity, loss_convexity=loss_convexity, n=n),
        target,
        high=1e9,
        low=1e-12,
        name="beta",
    )


def hinge_hoeffding(radius: float, prior_precision: float) -> Hoeffding:
    r"""Return f of the hinge loss on rows of norm ≤ r under θ ~ N(0, I/(nλ)), with nλ = `prior_precision`.

    .. math:: f(b, n) = \frac{b^2}{4n} - \tfrac12\log\Big(1 - \frac{r^2b^2}{4\lambda n^2}\Big), \qquad
              b < b^* = \frac{2n\sqrt\lambda}{r}

    (Minami et al. 2016, Example 19, after Alquier, Ridgway and Chopin). The example prints b* = 2√(λn)/r, where its own
    logarithm ends at 2n√λ/r.
    """
    r, precision = real("radius", radius, above=0.0), real("prior_precision", prior_precision, above=0.0)

    def f(b: float, n: int) -> float:
        inside = 1 - (r * b) ** 2 / (4 * (precision / n) * n**2)
        return b * b / (4 * n) - math.log(inside) / 2 if inside > 0 else math.inf

    return f


def risk_bound(
    empirical_risk: float, divergence: float, b: float, n: int, hoeffding: Hoeffding, confidence: float = 0.95
) -> float:
    r"""Return (C.6): E_G R ≤ E_G R_n + (f(b, n) + KL(G‖π) + log 1/α)/b, with the asked confidence 1 − α.

    b counts the mean loss R_n; of a Gibbs posterior exp(−βΣℓ)·π it is nβ. It holds for every law G and b fixed in
    advance. **The first two numbers are read off the records**: the bound is for whoever holds them.
    """
    b, alpha = real("b", b, above=0.0), 1 - real("confidence", confidence, below=1.0)
    return (
        real("empirical_risk", empirical_risk, -math.inf)
        + (hoeffding(b, whole("n", n, 1)) + real("divergence", divergence) - math.log(alpha)) / b
    )


def oracle_bound(
    risk: float, divergence: float, b: float, n: int, hoeffding: Hoeffding, confidence: float = 0.95
) -> float:
    """Return (C.7) at one comparison law ρ: E_G R ≤ E_ρ R + 2(f(b, n) + KL(ρ‖π) + log 1/α)/b, confidence 1 − 2α.

    Public: it speaks of laws, not of records.
    """
    b, alpha = real("b", b, above=0.0), (1 - real("confidence", confidence, below=1.0)) / 2
    slack = hoeffding(b, whole("n", n, 1)) + real("divergence", divergence) - math.log(alpha)
    return real("risk", risk, -math.inf) + 2 * slack / b


def joint_temperature(
    target: Promise, n: int, lipschitz: float, prior_precision: float, hoeffding: Hoeffding, *, divergence: float = 1.0
) -> float:
    r"""Return the β that keeps a promise and, among those, has the least slack (f(nβ, n) + KL + 1)/(nβ) of risk.

    Example 19 chooses one β for both, the least of ε√(λn)/(2r√(1+2 log 1/δ)) and 2n√λ/r; the first counts the
    summed loss and the second the mean, which is n times as much. Here both count the sum.

    Parameters
    ----------
    target
        The promise for one exact sample.
    n, lipschitz, prior_precision
        How many records, L, and m of the prior.
    hoeffding
        f, such as `hinge_hoeffding`.
    divergence
        A guess of KL(G‖π); no record is read.
    """
    top = largest_temperature(target, lipschitz, prior_precision)
    size = whole("n", n, 1)

    def slack(beta: float) -> float:
        return (hoeffding(size * beta, size) + real("divergence", divergence) + 1) / (size * beta)

    # The slack falls and then rises: a golden section in log β.
    low, high = math.log(top) - 40, math.log(top)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(200):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if slack(math.exp(left)) <= slack(math.exp(right)) else (left, high)
    return min(math.exp((low + high) / 2), top)
