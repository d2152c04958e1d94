"""What one notion says of another: claims in (ε, δ), ρ and μ against mechanisms whose law is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import stats

from sottovoce.audit.checks.result import check, verdict
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.pure import BoundedRangeProfile, PureProfile
from sottovoce.privacy.renyi_conversion import renyi_log_delta

__all__ = ["converted", "sums_of_two", "windows_of_responses"]


@check("a converted claim covers the mechanism it is of")
def converted() -> tuple[bool, str]:
    """The Gaussian mechanism has R(λ) = λμ²/2 and ρ = μ²/2: what these say of δ may not be below its own δ."""
    problems, closest = [], math.inf
    for mu, epsilon in itertools.product((0.1, 0.5, 2.0, 4.0), (0.0, 0.3, 1.0, 4.0)):
        truth = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        if truth < 1e-12:
            continue
        log_delta = renyi_log_delta(lambda order, mu=mu: order * mu * mu / 2, np.array([epsilon]))  # type: ignore[misc]
        for name, claim in (
            ("Rényi", math.exp(float(log_delta[0]))),
            ("ρ", float(ZeroConcentratedProfile(mu * mu / 2).delta(epsilon))),
        ):
            closest = min(closest, claim / truth)
            if claim < truth * (1 - 1e-9):
                problems.append(f"{name}, μ = {mu}: δ({epsilon}) is {truth:.4g} and {claim:.4g} is claimed")
    return verdict(problems, f"Gaussian noise of four sizes, the closest claim {closest:.2f} times its δ")


@check("windows and levels cover randomized response")
def windows_of_responses() -> tuple[bool, str]:
    """Two outcomes whose log-ratio spans a window, wherever the window lies: δ, R(2), ρ and μ, summed up."""
    problems = []
    for width in (0.2, 1.0, 3.0):
        window, level = BoundedRangeProfile(width), PureProfile(width)
        for place in np.linspace(0.02, 0.98, 49) * width:
            # Losses are `place` and place − width: the chance of the first makes both laws add up to one.
            top = (math.exp(-(place - width)) - 1) / (math.exp(-(place - width)) - math.exp(-place))
            p = np.array([top, 1 - top])
            q = p * np.exp([-place, width - place])
            order_two = math.log(float(np.sum(p**2 / q)))
            divergence = float(np.sum(p * np.log(p / q)))
            for name, profile in (("a window", window), ("a level", level)):
                for epsilon in (0.0, 0.1, 0.5):
                    truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
                    if truth > float(profile.delta(epsilon)) * (1 + 1e-9):
                        problems.append(f"{name} of {width}: δ({epsilon}) is {truth:.4g}")
                if order_two > float(profile.renyi(2.0)) * (1 + 1e-9) or order_two > 2 * profile.zcdp() * (1 + 1e-9):
                    problems.append(f"{name} of {width}: R(2) is {order_two:.4g}, ρ {profile.zcdp():.4g} is claimed")
                if divergence > profile.zcdp() * (1 + 1e-9):
                    problems.append(f"{name} of {width}: KL is {divergence:.4g}, ρ {profile.zcdp():.4g} is claimed")
                shift = stats.norm.ppf(p[0]) - stats.norm.ppf(q[0])  # a Gaussian that does no less at this test
                if shift > profile.gdp() * (1 + 1e-9):
                    problems.append(f"{name} of {width}: μ is {shift:.4g} and {profile.gdp():.4g} is claimed")
    return verdict(problems, "49 places of three windows, none above its claim")


@check("noise on the integers costs what its sum says")
def sums_of_two() -> tuple[bool, str]:
    """Discrete Laplace noise on a count that one record moves by one or by three, its masses added up."""
    problems, k = [], np.arange(-400, 401)
    for scale, step in itertools.product((0.7, 2.0, 8.0), (1, 3)):
        p, q = (np.exp(-np.abs(k - moved) / scale) for moved in (0, step))
        p, q = p / p.sum(), q / q.sum()
        profile = DiscreteLaplaceProfile(scale, step)
        for epsilon in (0.0, 0.2, 1.0):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
            if truth > float(profile.delta(epsilon)) * (1 + 1e-9) + 1e-15:
                problems.append(f"scale {scale}, {step}: δ({epsilon}) is {truth:.4g}")
        if step / scale > profile.pure() * (1 + 1e-12):
            problems.append(f"scale {scale}: ε is {step / scale:.4g} and {profile.pure():.4g} is claimed")
    return verdict(problems, "six scales and steps, none above its claim")
