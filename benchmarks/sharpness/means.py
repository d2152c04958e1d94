"""Means of columns whose bounds are generous, beside their oracle: of any tail, and where a smooth one is assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from papers.data import adult

from benchmarks.sharpness import oracle, tables
from benchmarks.sharpness.questions import RHO, ask, ends
from benchmarks.sharpness.store import Cell, Fit, data_rng
from sottovoce.records.facts import Category, Number

__all__ = ["cells"]

Array = npt.NDArray[Any]
SHARE = 0.2
_POPULATION = 400_000
_TWICE = ("age", "hours", "two hills", "lognormal stays, bound 10 × their 99 % point")
"""Asked for twice for half the share, and told together: as one answer for all of it."""
_DISTRICTS = ("CW", "WCH", "E", "S", "YTM", "SSP", "KC", "WTS", "KT")
_DISTRICTS += ("KTS", "TW", "TM", "YL", "N", "TP", "SK", "ST", "I")


@dataclass(frozen=True)
class Column:
    """A whole column, its bounds, how many records are drawn, and whether `tails="smooth"` could help it."""

    values: Callable[[], Array]
    low: float
    high: float
    n: int = 5_000
    smooth: bool = False


def _made(draw: Callable[[np.random.Generator], Array]) -> Callable[[], Array]:
    return cache(lambda: draw(np.random.default_rng(13)))


@cache
def _adult(name: str) -> Array:
    return adult()[name].to_numpy().astype(float)


def _fires(name: str) -> Callable[[], Array]:
    def values() -> Array:
        found = tables.fires()[name]
        return found[np.isfinite(found)]

    return cache(values)


_LOGNORMAL = _made(lambda rng: np.ceil(4 * np.exp(rng.normal(0, 1.0, _POPULATION))))
_WEIBULL = _made(lambda rng: np.ceil(6 * rng.weibull(0.8, _POPULATION)))
_PARETO = _made(lambda rng: 3 * (1 - rng.random(_POPULATION)) ** (-1 / 2.5))


def _far(values: Callable[[], Array], times: float) -> Column:
    """Return a column whose upper bound is so many times its 99 % point."""
    return Column(values, 0, float(np.ceil(times * np.quantile(values(), 0.99))), smooth=True)


@cache
def columns() -> dict[str, Column]:
    """Return all columns."""
    two = _made(
        lambda rng: np.where(
            rng.random(_POPULATION) < 0.6, rng.normal(20, 3, _POPULATION), rng.normal(70, 5, _POPULATION)
        )
    )
    return {
        "fire durations, bound 43,200": Column(_fires("duration_min"), 0, 43_200, smooth=True),
        "hectares, bound 100,000": Column(_fires("forest_ha"), 0, 100_000, smooth=True),
        "visits, bound 1,000": Column(lambda: tables.insurance()["mdvis"], 0, 1_000, smooth=True),
        "capital gain, an atom at the bound": Column(lambda: _adult("capital_gain"), 0, 99_999),
        "age": Column(lambda: _adult("age"), 0, 110),
        "hours": Column(lambda: _adult("hours_per_week"), 0, 168),
        "all zero": Column(lambda: np.zeros(100), 0, 100),
        "all equal": Column(lambda: np.full(100, 37.0), 0, 100),
        "two hills": Column(two, 0, 1_000, smooth=True),
        "years in 1900 to 2100": Column(lambda: tables.collisions()["year"], 1900, 2100, smooth=True),
        "lognormal stays, bound 10 × their 99 % point": _far(_LOGNORMAL, 10),
        "lognormal stays, bound 100 ×": _far(_LOGNORMAL, 100),
        "Weibull stays, bound 10 ×": _far(_WEIBULL, 10),
        "Weibull stays, bound 100 ×": _far(_WEIBULL, 100),
        "Pareto 2.5, bound 10 ×": _far(_PARETO, 10),
        "Pareto 2.5, bound 100 ×": _far(_PARETO, 100),
        "lognormal stays, n = 500, bound 365": Column(_LOGNORMAL, 0, 365, n=500),
        "casualties, bound 50": Column(lambda: tables.collisions()["n_casualties"], 0, 50, smooth=True),
    }


def _mean(spend: float, options: dict[str, Any], by: str | None = None) -> Callable[[Any], Any]:
    return lambda curator: curator.mean("x", by=by, spend=spend, **options)


@cache
def _beside(name: str) -> tuple[Array, Array, Array]:
    """Return the truth and the widths of the oracle and of no privacy."""
    column = columns()[name]
    values = column.values().clip(column.low, column.high)
    best = oracle.mean(values, column.low, column.n, SHARE * RHO)
    return np.array([values.mean()]), np.array([best]), np.array([oracle.plain_mean(values, column.n)])


def _answer(name: str, options: dict[str, Any], k: int) -> Fit:
    column = columns()[name]
    values = column.values()
    drawn = values[data_rng(name, k).integers(0, len(values), column.n)].clip(column.low, column.high)
    table, seconds = ask({"x": drawn.astype(float)}, {"x": Number(column.low, column.high)}, _mean(SHARE, options))
    low, high, estimate = ends(table)
    return Fit(low, high, estimate, *_beside(name), seconds)


def _asked_twice(name: str, k: int) -> Fit:
    """Answer twice for half the share each: the second is told with what the first knows."""
    column, half = columns()[name], _mean(SHARE / 2, {})
    drawn = column.values()[data_rng(name, k).integers(0, len(column.values()), column.n)].clip(column.low, column.high)

    def twice(curator: Any) -> Any:
        half(curator)
        return half(curator)

    table, seconds = ask({"x": drawn.astype(float)}, {"x": Number(column.low, column.high)}, twice)
    low, high, estimate = ends(table)
    return Fit(low, high, estimate, *_beside(name), seconds)


def _by_district(share: float, options: dict[str, Any], k: int) -> Fit:
    """Answer for casualties per collision by district, 5,000 of them and a bound of 50."""
    table, n = tables.collisions(), 5_000
    casualties, district = table["n_casualties"].clip(0, 50), table["district"]
    drawn = data_rng("casualties by district", k).integers(0, len(casualties), n)
    facts = {"x": Number(0, 50), "district": Category(list(_DISTRICTS))}
    rows, seconds = ask(
        {"x": casualties[drawn].astype(float), "district": district[drawn]}, facts, _mean(share, options, "district")
    )
    low, high, estimate = ends(rows)
    groups = [casualties[district == name] for name in rows["district"]]
    sizes = [n * len(values) / len(casualties) for values in groups]
    best = [oracle.mean(values, 0, size, share * RHO) for values, size in zip(groups, sizes, strict=True)]
    plain = [oracle.plain_mean(values, size) for values, size in zip(groups, sizes, strict=True)]
    truth = [values.mean() for values in groups]
    return Fit(low, high, estimate, np.array(truth), np.array(best), np.array(plain), seconds)


def cells() -> list[Cell]:
    """Return all cells: every column with any tail, and with a smooth one where that could help."""
    found = []
    for name, column in columns().items():
        for group, options in (("any tail", {}), ("smooth", {"tails": "smooth"})):
            if not options or column.smooth:
                title = f"{name}, {group}"
                found.append(
                    Cell("means", title, lambda k, name=name, options=options: _answer(name, options, k), group)
                )
    for name in _TWICE:
        found.append(Cell("means", f"{name}, asked twice", lambda k, name=name: _asked_twice(name, k), "together"))
    for share in (0.1, 0.2):
        for group, options in (("any tail", {}), ("smooth", {"tails": "smooth"})):
            title = f"casualties by 18 districts, {share:.0%}, {group}"
            found.append(
                Cell(
                    "means",
                    title,
                    lambda k, share=share, options=options: _by_district(share, options, k),
                    group,
                )
            )
    return found
