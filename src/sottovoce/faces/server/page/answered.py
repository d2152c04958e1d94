"""An answer as a picture: the draw on what the prior said, or the whole released posterior with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from sottovoce.faces.server.page.charts import Chart, ChartAxis, bars, dots, number
from sottovoce.faces.server.queries import evaluate, parse_query
from sottovoce.mechanisms.conjugate.conjugate import Conjugate
from sottovoce.mechanisms.conjugate.distributions import ScalarDistribution
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent
from sottovoce.records.readings import Statistics

__all__ = ["answer_view", "posterior_view"]

_DRAWS = 20_000
_LOW, _HIGH = 0.05, 0.95
_MOST = 60
"""The most unknowns of a posterior that are drawn."""
Points = list[tuple[float, float]]


def answer_view(value: Mapping[str, Any], system: Conjugate) -> dict[str, Any]:
    """Return words and a picture for the value of an answer; all of it is public once the answer is.

    `value` is what the release holds: samples (``answer``), a posterior's summary (``quantiles``), or shares.
    """
    if "shares" in value:
        rows = [(name, share, percent(share), "one") for name, share in sorted(value["shares"].items())]
        shown = ", ".join(f"{name} {words}" for name, _, words, _ in rows)
        return {
            "kind": "shares",
            "words": shown,
            "picture": bars(rows, 0.0, "", "Shares of a new record", shown, width=640.0),
        }
    if "quantiles" in value:
        return _posterior(value, system)
    return _samples(value, system)


def posterior_view(value: Any, system: Any) -> dict[str, Any]:
    """Return words and a picture for a released value of any kind: its unknowns with intervals, or its summary."""
    if isinstance(value, np.ndarray):
        return {
            "kind": "words",
            "words": f"{value.size} numbers: {', '.join(map(number, value.ravel()[:8]))}",
            "picture": None,
        }
    if not hasattr(value, "interval"):
        shown = value.summary() if hasattr(value, "summary") else value
        words = "; ".join(f"{k}: {v}" for k, v in shown.items()) if isinstance(shown, Mapping) else str(shown)
        return {"kind": "words", "words": words, "picture": None}
    means = np.ravel(value.mean)
    names = [str(name) for name in getattr(system, "terms", ())]
    names = names if len(names) == means.size else [f"θ[{index}]" for index in range(means.size)]
    try:
        ends = np.reshape(value.interval(0.95), (-1, 2))
    except SottovoceError as error:  # it says why it gives none
        shown = ", ".join(f"{name} {number(float(mean))}" for name, mean in zip(names, means, strict=True))
        return {"kind": "words", "words": f"{shown}; {error}", "picture": None}
    shown = f"{means.size} unknown{'' if means.size == 1 else 's'}, each with its 95 % interval"
    return {"kind": "vector", "words": shown, "picture": _table(names[:_MOST], means[:_MOST], ends[:_MOST].T)}


def _names(system: Conjugate, size: int) -> list[str]:
    names = system.coordinates or ()
    named = len(names) == size and names != tuple(range(size))
    return [str(name) for name in names] if named else [f"θ[{index}]" for index in range(size)]


def _prior(query: str, system: Conjugate) -> Floats | None:
    """Return draws of the query under the prior, which nobody pays for; None where they are not numbers."""
    theta = np.asarray(_before(system).sample(_DRAWS, seeded_rng(0)))
    result = np.asarray(evaluate(parse_query(query), system, theta, seeded_rng(1)))
    return None if result.dtype == object else result


def _before(system: Conjugate) -> Any:
    """Return the prior: the posterior of no records."""
    return system.posterior(Statistics(0, np.zeros(system.reading.size)))


def _prior_density(query: str, system: Conjugate, draws: Floats) -> Points:
    """Return the density of a query under the prior; of the parameter itself exactly."""
    prior = _before(system)
    if query.strip() != "theta" or not isinstance(prior, ScalarDistribution):
        return _density(draws[np.isfinite(draws)])
    grid = np.linspace(float(prior.ppf(0.001)), float(prior.ppf(0.99)), 160)
    return list(zip(grid.tolist(), np.exp(prior.log_density(grid)).tolist(), strict=True))


def _samples(value: Mapping[str, Any], system: Conjugate) -> dict[str, Any]:
    answer = value["answer"]
    prior = _prior(value["query"], system)
    values = answer if isinstance(answer, list) else [answer]
    if prior is None or any(item is None or isinstance(item, str) for item in _flat(values)):
        said = ", ".join("no number" if item is None else str(item) for item in _flat(values))
        return {"kind": "words", "words": said, "picture": None}
    if prior.ndim == 2:
        rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
        names = _names(system, rows.shape[1])
        means = rows.mean(axis=0)
        shown = ", ".join(f"{name} {number(float(v))}" for name, v in zip(names, means, strict=True))
        return {"kind": "vector", "words": shown, "picture": _table(names, means, None)}
    numbers = [float(item) for item in values]
    words = number(numbers[0]) if len(numbers) == 1 else f"{len(numbers)} draws, mean {number(float(np.mean(numbers)))}"
    density = _prior_density(value["query"], system, prior)
    low, high = _ends([density], numbers)
    chart = Chart(
        ChartAxis(low, high, value["query"]), ChartAxis(0.0, _top([density]), "density"), "The answer on the prior",
        f"Drawn: {', '.join(map(number, numbers[:10]))}", width=640.0, height=230.0, hide_y=True,
    )  # fmt: skip
    chart.area(density, "prior")
    chart.line(density, "prior")
    for item in numbers:
        chart.upright(item, "one", f"drawn: {number(item)}" if len(numbers) == 1 else "", height=0.78)
    return {"kind": "samples", "words": words, "picture": chart.svg(), "legend": [("one", "drawn"), ("prior", "prior")]}


def _posterior(value: Mapping[str, Any], system: Conjugate) -> dict[str, Any]:
    quantiles = np.asarray(value["quantiles"], dtype=np.float64)
    levels = np.asarray(value["levels"], dtype=np.float64)
    at = [int(np.argmin(np.abs(levels - level))) for level in (_LOW, _HIGH)]
    if quantiles.ndim == 2:
        names = _names(system, quantiles.shape[1])
        means = np.asarray(value["mean"], dtype=np.float64)
        text = ", ".join(f"{name} {number(float(v))}" for name, v in zip(names, means, strict=True))
        return {"kind": "vector", "words": text, "picture": _table(names, means, quantiles[at])}
    if not np.isfinite(quantiles).all() or value["mean"] is None:
        return {"kind": "words", "words": "not a finite number for part of the posterior", "picture": None}
    low, high = (float(quantiles[i]) for i in at)
    density, shown = _from_quantiles(quantiles), []
    prior = _prior(value["query"], system)
    before = _prior_density(value["query"], system, prior) if prior is not None and prior.ndim == 1 else []
    ends = _ends([density], [float(quantiles[0]), float(quantiles[-1])])
    words = f"{number(value['mean'])}, 90 % between {number(low)} and {number(high)}"
    chart = Chart(
        ChartAxis(*ends, value["query"]), ChartAxis(0.0, _top([density]), "density"), "The released posterior", words,
        width=640.0, height=230.0, hide_y=True,
    )  # fmt: skip
    inside = [(x, y) for x, y in before if ends[0] <= x <= ends[1]]
    if inside:
        chart.area(inside, "prior")
        shown.append(("prior", "prior"))
    chart.area([(x, y) for x, y in density if low <= x <= high], "one")
    chart.line(density, "one")
    chart.upright(float(value["mean"]), "mark", f"mean {number(value['mean'])}", height=0.9)
    return {
        "kind": "posterior",
        "words": words,
        "picture": chart.svg(),
        "legend": [("one", "posterior, 90 % shaded"), *shown],
    }


def _table(names: Sequence[str], means: Floats, interval: Floats | None) -> Markup:
    rows = []
    for index, (name, mean) in enumerate(zip(names, means.tolist(), strict=True)):
        low, high = (mean, mean) if interval is None else interval[:, index].tolist()
        words = number(mean) if interval is None else f"{number(mean)} ({number(low)} to {number(high)})"
        rows.append((name, low, mean, high, words))
    return dots(rows, "The answer", ", ".join(f"{row[0]} {row[4]}" for row in rows))


def _flat(values: object) -> list[Any]:
    return [item for value in values for item in _flat(value)] if isinstance(values, list) else [values]


def _density(draws: Floats) -> Points:
    """Return a smooth density of draws, from their quantiles."""
    return _from_quantiles(np.quantile(draws, np.linspace(0.01, 0.99, 99))) if draws.size else []


def _from_quantiles(quantiles: Floats) -> Points:
    """Return a density with about these quantiles, evenly spread in level: each one smoothed by a little bell."""
    width = 0.3 * float(np.std(quantiles))
    if width == 0:  # a law on one point has no density
        return []
    grid = np.linspace(quantiles[0] - 2 * width, quantiles[-1] + 2 * width, 160)
    bells = np.exp(-0.5 * np.square((grid[:, None] - quantiles) / width))
    heights = bells.mean(axis=1) / (width * np.sqrt(2 * np.pi))
    return list(zip(grid.tolist(), heights.tolist(), strict=True))


def _ends(curves: Sequence[Points], numbers: Sequence[float]) -> tuple[float, float]:
    seen = [x for curve in curves for x, _ in curve] + list(numbers)
    low, high = min(seen), max(seen)
    margin = (high - low) * 0.04 or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def _top(curves: Sequence[Points]) -> float:
    return 1.12 * max((y for curve in curves for _, y in curve), default=1.0)
