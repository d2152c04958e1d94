"""Which mechanism says most about one proportion, for every ε and number of records: a map.

The colour is the mechanism whose single draw has the least expected squared distance from the data's own proportion,
with the prior Beta(6, 12); data that agree with it (30 % ones) above, data that do not (80 %) below. Nothing is
simulated: Beta moments, and for noisy statistics the sum over every noise and every latent count that carries weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import linalg, special

from papers.parts import run_parts
from papers.registry import Finding, Outcome, Setting, experiment
from papers.which_mechanism import WAYS, mechanisms_for
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import parse_promise
from sottovoce.records.readings import Statistics

__all__ = ["best_map", "expected_error", "noisy_error"]

ALPHA, BETA = 6.0, 12.0
PROMISES = {"pure ε": "pure:{}", "(ε, 1e-6)": "approx:{},1e-6", "Rényi (2, ε)": "renyi:2,{}"}
MEANS = {"prior agrees": 0.3, "prior disagrees": 0.8}
_FAR = 40.0
"""Noise of probability below e^-40 is left out."""


def noisy_error(n: int, ones: int, log_weight: Any, reach: int) -> float:
    """Return E(θ − s/n)² of one draw from the posterior that knows of the noise, to nine digits.

    Over every noise k, and every latent count s' with weight BetaBinomial(s')·P(ŝ − s').
    """
    noise = np.arange(-reach, reach + 1)
    low, high = max(0, ones - 2 * reach), min(n, ones + 2 * reach)
    latent = np.arange(low, high + 1)
    evidence = special.betaln(ALPHA + latent, BETA + n - latent) - (
        special.gammaln(latent + 1) + special.gammaln(n - latent + 1)
    )
    a, b, truth = ALPHA + latent, BETA + n - latent, ones / n
    square = a * b / ((a + b) ** 2 * (a + b + 1)) + (a / (a + b) - truth) ** 2
    # Sums over s' weigh P(k + s - s'); where rounding is all there is of them, the noise has next to no probability.
    law = (np.exp(log_weight(way)) for way in (ones - low + noise, ones - reach - latent))
    sums, whole = linalg.matmul_toeplitz(tuple(law), (special.softmax(evidence) * [square, np.ones_like(square)]).T).T
    errors = np.clip(sums / np.maximum(whole, 1e-300), square.min(), square.max())
    return float(special.softmax(log_weight(noise)) @ errors)


def expected_error(name: str, mechanism: Any, ones: int) -> float:
    """Return the expected squared distance of one released draw from the data's proportion."""
    n = mechanism.n
    if name in ("Laplace", "Gaussian"):
        scale = mechanism.scale
        if name == "Laplace":
            return noisy_error(n, ones, lambda k: -np.abs(k) / scale, int(np.ceil(_FAR * scale)))
        return noisy_error(n, ones, lambda k: -((k / scale) ** 2) / 2, int(np.ceil(np.sqrt(2 * _FAR) * scale)))
    system = mechanism.system
    if name == "tempered":
        sampled = system.tempered(Statistics(n, np.array([float(ones)])), mechanism.temperature, mechanism.truncation)
        mean, variance = sampled.mean, sampled.variance
    else:
        r, v = getattr(mechanism, "data_weight", 1.0), getattr(mechanism, "prior_weight", 1.0)
        a, b = v * ALPHA + r * ones, v * BETA + r * (n - ones)
        mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    return float(variance + (mean - ones / n) ** 2)


def best_map(cell: tuple[int, str]) -> dict[str, dict[str, float]]:
    """Return the root of the expected error of every mechanism that keeps the promise, for either data."""
    n, promise = cell
    ways = mechanisms_for(n, parse_promise(promise))
    return {
        data: {name: expected_error(name, way, round(mean * n)) ** 0.5 for name, way in ways.items()}
        for data, mean in MEANS.items()
    }


@experiment("choice-map", "Which mechanism is best where", source="ours")
def run(setting: Setting) -> Outcome:
    """Draw the best mechanism against n and ε under three promises."""
    points = 3 if setting.quick else 10
    sizes = np.unique(np.geomspace(10, 2e4, points).astype(int)).tolist()
    epsilons = [float(f"{e:.3g}") for e in np.geomspace(0.03, 3.0, points)]
    cells = {
        f"{promise.format(e)} n={n}": (n, promise.format(e))
        for promise in PROMISES.values()
        for e in epsilons
        for n in sizes
    }
    found = run_parts(setting, best_map, cells)
    rows = [
        (*cells[key], data, name, f"{error:.6g}")
        for key, answer in found.items()
        for data, errors in answer.items()
        for name, error in errors.items()
    ]
    table = write_csv(setting.output / "choice-map.csv", ("n", "promise", "data", "mechanism", "rms error"), rows)
    names = list(WAYS)
    maps = {
        (data, label): np.array(
            [[_best(found[f"{promise.format(e)} n={n}"][data], names) for n in sizes] for e in epsilons]
        )
        for data in MEANS
        for label, promise in PROMISES.items()
    }
    files = setting.save(_draw(maps, sizes, epsilons), "choice-map")
    return Outcome((*files, table), _findings(maps, sizes, found, names))


def _best(errors: Mapping[str, float], names: list[str]) -> int:
    """Return the number of the best mechanism; the first of those that are level."""
    least = min(errors.values())
    return next(k for k, name in enumerate(names) if errors.get(name, np.inf) <= least * (1 + 1e-9))


def _findings(maps: dict[Any, Floats], sizes: list[int], found: Any, names: list[str]) -> tuple[Finding, ...]:
    tempered, concentrated, direct = (names.index(name) for name in ("tempered", "concentrated", "direct"))
    noisy = {names.index("Laplace"), names.index("Gaussian")}
    pure = np.concatenate([maps[data, "pure ε"][:, [-1]] for data in MEANS])
    share = {data: float(np.mean([np.mean(maps[data, label] == concentrated) for label in PROMISES])) for data in MEANS}
    loose = np.concatenate([maps[data, "Rényi (2, ε)"][-1] for data in MEANS])
    gaps = [max(e.values()) / min(e.values()) for answer in found.values() for e in answer.values() if len(e) > 1]
    return (
        Finding(
            f"under pure privacy noise on the count is always best with n = {sizes[-1]}",
            bool(np.isin(pure, list(noisy)).all()),
            f"tempering is best at {int(sum((maps[data, 'pure ε'] == tempered).sum() for data in MEANS))} points of "
            f"{sum(maps[data, 'pure ε'].size for data in MEANS)}",
        ),
        Finding(
            "where the posterior itself keeps the promise nothing is better",
            bool((loose == direct).all()),
            f"Rényi (2, 3): the posterior itself at {int((loose == direct).sum())} of {loose.size} points",
        ),
        Finding(
            "a stronger prior is the best choice less often when the prior disagrees",
            share["prior disagrees"] < share["prior agrees"],
            ", ".join(f"{data}: {100 * value:.0f} % of the map" for data, value in share.items()),
        ),
        Finding("the choice matters", max(gaps) > 5, f"worst and best differ by a factor of up to {max(gaps):.0f}"),
    )


def _edges(points: Sequence[float]) -> Floats:
    """Return the borders half-way between the points, on a log scale."""
    logs = np.log(np.asarray(points, dtype=np.float64))
    middle = (logs[1:] + logs[:-1]) / 2
    return np.asarray(np.exp(np.concatenate([[2 * logs[0] - middle[0]], middle, [2 * logs[-1] - middle[-1]]])))


def _draw(maps: dict[Any, Floats], sizes: list[int], epsilons: list[float]) -> Any:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    names = list(WAYS)
    shades = ("#222222", *COLOURS[:5])
    drawing, grid = figure(len(PROMISES), len(MEANS), width=2.9, height=2.6)
    for line, data in zip(grid, MEANS, strict=True):
        for axis, label in zip(line, PROMISES, strict=True):
            colours = ListedColormap(shades)
            axis.pcolormesh(_edges(sizes), _edges(epsilons), maps[data, label], cmap=colours, vmin=-0.5, vmax=5.5)
            axis.set(xscale="log", yscale="log", title=f"{label}, {data}")
            axis.title.set_fontsize(9)
            axis.grid(visible=False)
            axis.minorticks_off()
        line[0].set_ylabel("ε")
    for axis in grid[-1]:
        axis.set_xlabel("records n")
    words = {"direct": "the posterior itself", "Laplace": "Laplace noise", "Gaussian": "Gaussian noise"}
    patches = [Patch(color=shade, label=words.get(name, name)) for shade, name in zip(shades, names, strict=True)]
    drawing.legend(handles=patches, loc="outside lower center", ncols=6, frameon=False)
    return drawing
