"""Two private posteriors of a Bernoulli parameter: tempering (OPS) and Laplace noise on the counts.

Tempering holds p to [a₀, 1−a₀] and flattens the posterior by T = 2·log((1−a₀)/a₀)/ε, however many records there are.
The thesis' Laplace mechanism adds noise of scale 2/ε to both counts and projects them to what is possible.
Figure 4.1: ε = 1, a₀ = 0.2, 6 ones among N = 20, 30 privatizing draws. Figure 4.2: one sample of each, ε = 0.1,
p = 0.1, a₀ = 0.05, the mean of |sample − p| (the thesis has 1000 repeats, we 20,000). Theorems 4 and 5: the mean
squared error of one sample beside the optimal p(1−p)/N, for p = 0.3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.mechanisms import TemperedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["draw_truncated", "noisy_counts", "temperature", "tempered"]

EXACT, OPS, LAPLACE = "true posterior", "tempered (OPS)", "Laplace noise"


def temperature(epsilon: float, a0: float) -> float:
    """Return the temperature at which one sample is ε-private, from the mechanism itself."""
    return TemperedPosterior.calibrate(BetaBernoulli(1, 1), n=1, target=PureDP(epsilon), truncation=a0).temperature


def tempered(ones: Floats, n: float, T: float) -> tuple[Floats, Floats]:
    """Return the parameters of the uniform prior's posterior at temperature T: 1 + n₊/T and 1 + n₋/T."""
    return 1 + ones / T, 1 + (n - ones) / T


def noisy_counts(ones: Floats, n: float, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return both counts with Laplace noise of scale 2/ε, projected to be non-negative (thesis, eq. 4.15)."""
    shape = np.shape(ones)
    noise = rng.laplace(scale=2 / epsilon, size=(2, *shape))
    return np.maximum(ones + noise[0], 0.0), np.maximum(n - ones + noise[1], 0.0)


def draw_truncated(a: Floats, b: Floats, a0: float, rng: np.random.Generator) -> Floats:
    """Return one draw of each Beta(a, b) held to [a₀, 1−a₀], by the inverse distribution function."""
    low, high = special.betainc(a, b, a0), special.betainc(a, b, 1 - a0)
    u = low + (high - low) * rng.random(np.shape(a))
    return np.clip(special.betaincinv(a, b, u), a0, 1 - a0)


@experiment("private-beta-posteriors", "Two private posteriors of one proportion", source="Geumlek 2020, Figure 4.1")
def run_posteriors(setting: Setting) -> Outcome:
    """Draw the truncated posterior, the tempered one, and thirty of Laplace noise."""
    epsilon, a0, n, ones = 1.0, 0.2, 20, 6.0
    T = temperature(epsilon, a0)
    theta = np.linspace(a0, 1 - a0, 301)
    counts = noisy_counts(np.full(30, ones), n, epsilon, seeded_rng(setting.seed))
    exact = _density(theta, 1 + ones, 1 + n - ones, a0)
    flat = _density(theta, *tempered(np.array(ones), n, T), a0)
    noisy = [_density(theta, 1 + a, 1 + b, a0) for a, b in zip(*counts, strict=True)]
    drawing, axis = figure(width=5.6)
    for k, line in enumerate(noisy):
        axis.plot(theta, line, color=COLOURS[0], lw=0.7, alpha=0.45, label=LAPLACE if k == 0 else None)
    axis.plot(theta, exact, color="#222222", label=EXACT)
    axis.plot(theta, flat, color=COLOURS[1], label=f"{OPS}, T = {T:.2f}")
    axis.set(xlabel="p", ylabel="density", ylim=(0, 1.6 * exact.max()))
    axis.legend(frameon=False)
    rows = zip(theta, exact, flat, *noisy, strict=True)
    header = ("p", EXACT, OPS, *(f"{LAPLACE} {k + 1}" for k in range(30)))
    table = write_csv(
        setting.output / "private-beta-posteriors.csv", header, ([f"{v:.5g}" for v in row] for row in rows)
    )
    files = setting.save(drawing, "private-beta-posteriors")
    setting.advance(1.0)
    widths = [_spread(theta, line) for line in noisy]
    found = (
        Finding("T = 2.7 at ε = 1 and a₀ = 0.2", abs(T - 2.7) < 0.1, f"T = {T:.4f}"),
        Finding(
            "tempering flattens the posterior",
            _spread(theta, flat) > _spread(theta, exact) and flat.max() < exact.max(),
            f"standard deviation {_spread(theta, flat):.3f} against {_spread(theta, exact):.3f}",
        ),
        Finding(
            "Laplace noise moves the posterior and mostly keeps its width",
            bool(abs(np.median(widths) / _spread(theta, exact) - 1) < 0.3),
            f"median standard deviation of the thirty {np.median(widths):.3f}",
        ),
    )
    return Outcome((*files, table), found)


@experiment(
    "private-beta-error", "Error of one private sample against the number of records", source="Geumlek 2020, Figure 4.2"
)
def run_error(setting: Setting) -> Outcome:
    """Draw the mean |sample − p| of three samplers against N."""
    epsilon, a0, p = 0.1, 0.05, 0.1
    repeats = 20_000
    T = temperature(epsilon, a0)
    sizes = np.unique(np.geomspace(2, 1e6, 12 if setting.quick else 26).astype(int))
    found: dict[str, list[float]] = {EXACT: [], OPS: [], LAPLACE: []}
    noise: list[float] = []  # the standard error of the difference of the two private ones
    rng = seeded_rng(setting.seed)
    for k, n in enumerate(sizes.tolist()):
        ones = rng.binomial(n, p, repeats).astype(np.float64)
        a, b = noisy_counts(ones, n, epsilon, rng)
        draws = {
            EXACT: rng.beta(1 + ones, 1 + n - ones),
            OPS: draw_truncated(*tempered(ones, n, T), a0, rng),
            LAPLACE: rng.beta(1 + a, 1 + b),
        }
        for name, values in draws.items():
            found[name].append(float(np.mean(np.abs(values - p))))
        noise.append(math.hypot(*(np.std(np.abs(draws[name] - p)) for name in (OPS, LAPLACE))) / math.sqrt(repeats))
        setting.advance((k + 1) / (sizes.size + 1))
    lines = {name: np.array(line) for name, line in found.items()}
    drawing, axis = figure(width=5.6)
    for colour, (name, line) in zip(("#222222", COLOURS[1], COLOURS[0]), lines.items(), strict=True):
        axis.plot(sizes, line, "o-", ms=3, color=colour, label=name)
    axis.set(xscale="log", yscale="log", xlabel="records N", ylabel="mean |sample − p|")
    axis.legend(frameon=False)
    rows = zip(sizes, *([f"{v:.6g}" for v in line] for line in lines.values()), strict=True)
    table = write_csv(setting.output / "private-beta-error.csv", ("n", *lines), rows)
    files = setting.save(drawing, "private-beta-error")
    setting.advance(1.0)
    return Outcome((*files, table), _error_findings(sizes, lines, np.array(noise), T))


def _error_findings(sizes: Floats, lines: dict[str, Floats], noise: Floats, T: float) -> tuple[Finding, ...]:
    gap = lines[LAPLACE] - lines[OPS]
    better, level = sizes[gap > 2 * noise], sizes[np.abs(gap) <= 2 * noise]
    overtaken = int(sizes[gap < -2 * noise].min())
    between = f"level within two standard errors at N = {', '.join(map(str, level))}" if level.size else "no N is level"
    ratio = lines[LAPLACE] / lines[EXACT]
    slow = lines[OPS][-1] / lines[EXACT][-1]
    return (
        Finding(
            "tempering is better only when there are very few records, about N = 10",
            bool(0 < better.max(initial=0) < 30 and overtaken < 30),
            f"better at N = {', '.join(map(str, better))}, worse from N = {overtaken} on; {between}: "
            "where they cross is not settled by the thesis' 1000 repeats",
        ),
        Finding(
            "as N grows Laplace noise converges to the performance of the true posterior",
            bool(abs(ratio[-1] - 1) < 0.1),
            f"{ratio[0]:.1f} times its error at N = {sizes[0]}, {ratio[-1]:.2f} times at N = {sizes[-1]}",
        ),
        Finding(
            "tempering behaves like the posterior of fewer records",
            bool(abs(slow / math.sqrt((1 + T) / 2) - 1) < 0.1),
            f"{slow:.2f} times its error at the end, as if N were {slow**2:.0f} times smaller; "
            f"(1+T)/2 = {(1 + T) / 2:.0f}",
        ),
    )


@experiment(
    "asymptotic-efficiency", "Asymptotic relative efficiency, measured", source="Geumlek 2020, Theorems 4 and 5"
)
def run_efficiency(setting: Setting) -> Outcome:
    """Draw the variance of one sample, in units of the optimal p(1−p)/N, against N."""
    p, a0 = 0.3, 0.05
    repeats = 4000 if setting.quick else 40_000
    sizes = np.geomspace(1e2, 1e6, 5 if setting.quick else 13).round().astype(int)
    epsilons = (2.0, 1.0, 0.5)
    temperatures = {epsilon: temperature(epsilon, a0) for epsilon in epsilons}
    limits = {EXACT: 2.0, f"{LAPLACE}, ε = 0.5": 2.0, f"mean under {LAPLACE}, ε = 0.5": 1.0}
    limits |= {f"{OPS}, T = {T:.1f}": 1 + T for T in temperatures.values()}
    found: dict[str, list[float]] = {name: [] for name in limits}
    rng = seeded_rng(setting.seed)
    for k, n in enumerate(sizes.tolist()):
        ones = rng.binomial(n, p, repeats).astype(np.float64)
        a, b = noisy_counts(ones, n, 0.5, rng)
        draws = [rng.beta(1 + ones, 1 + n - ones), rng.beta(1 + a, 1 + b), (1 + a) / (2 + a + b)]
        draws += [draw_truncated(*tempered(ones, n, T), a0, rng) for T in temperatures.values()]
        for name, values in zip(limits, draws, strict=True):
            found[name].append(float(np.mean((values - p) ** 2) * n / (p * (1 - p))))
        setting.advance((k + 1) / (sizes.size + 1))
    drawing, axis = figure(width=7.8, height=3.6)
    colours = ("#222222", COLOURS[0], COLOURS[2], COLOURS[1], COLOURS[4], COLOURS[3])
    for colour, (name, line) in zip(colours, found.items(), strict=True):
        axis.plot(sizes, line, "o-", ms=3, color=colour, label=name)
        axis.axhline(limits[name], color=colour, lw=0.8, ls=":")
    axis.set(xscale="log", yscale="log", xlabel="records N", ylabel="mean squared error × N / p(1−p)")
    drawing.legend(loc="outside right center", frameon=False)
    rows = [
        (name, n, f"{v:.5g}", f"{limits[name]:.5g}")
        for name, line in found.items()
        for n, v in zip(sizes, line, strict=True)
    ]
    table = write_csv(setting.output / "asymptotic-efficiency.csv", ("estimator", "n", "measured", "theorem"), rows)
    files = setting.save(drawing, "asymptotic-efficiency")
    setting.advance(1.0)
    slack = 5 * math.sqrt(2 / repeats)
    claims = dict.fromkeys(limits, "Theorem 5: a tempered sample has efficiency 1 + T")
    claims |= {
        EXACT: "a posterior sample has asymptotic relative efficiency 2",
        f"{LAPLACE}, ε = 0.5": "Theorem 4: a sample under Laplace noise has it too",
        f"mean under {LAPLACE}, ε = 0.5": "Remark 1: the mean under Laplace noise has efficiency 1",
    }
    return Outcome(
        (*files, table),
        tuple(
            Finding(
                claim if name in tuple(limits)[:3] else f"{claim} ({name.split(', ')[1]})",
                abs(found[name][-1] / limits[name] - 1) < slack,
                f"{found[name][-1]:.3f} at N = {sizes[-1]}; the theorem says {limits[name]:.3f}",
            )
            for name, claim in claims.items()
        ),
    )


def _density(theta: Floats, a: Any, b: Any, a0: float) -> Floats:
    """Return the density of Beta(a, b) held to [a₀, 1−a₀]."""
    mass = special.betainc(a, b, 1 - a0) - special.betainc(a, b, a0)
    return np.asarray(np.exp((a - 1) * np.log(theta) + (b - 1) * np.log1p(-theta) - special.betaln(a, b)) / mass)


def _spread(theta: Floats, density: Floats) -> float:
    """Return the standard deviation of a density on a grid."""
    weights = density / density.sum()
    mean = float(weights @ theta)
    return math.sqrt(float(weights @ (theta - mean) ** 2))
