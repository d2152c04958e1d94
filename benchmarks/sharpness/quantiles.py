"""Quantiles of real and made-up columns, each beside its oracle and the exponential mechanism of a peer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from papers.data import adult

from benchmarks.sharpness import oracle, tables
from benchmarks.sharpness.questions import RHO, ask, ends
from benchmarks.sharpness.store import Cell, Fit, data_rng
from sottovoce.records.facts import Category, Count, Number

__all__ = ["cells"]

Array = npt.NDArray[Any]
WARDS = list("ABCDEFGH")
_WARD_SHARES = np.array([0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.04])
_CANDIDATES = 4_321
"""At most so many candidates are given to the peer, evenly between the bounds."""
_ASKED_OF_PEERS = 3
"""Of more quantiles at once, peers take long."""


@dataclass(frozen=True)
class Column:
    """A whole column, its public bounds, how finely it is recorded, and whether the facts call it a count."""

    values: Callable[[], Array]
    low: float
    high: float
    grid: float = 1.0
    whole: bool = False

    @property
    def fact(self) -> Any:
        """What is public of it."""
        return Count(int(self.high)) if self.whole else Number(self.low, self.high)


@cache
def _durations() -> Array:
    values = tables.fires()["duration_min"]
    return values[np.isfinite(values)]


@cache
def _adult(name: str) -> Array:
    return adult()[name].to_numpy().astype(float)


@cache
def _stays() -> tuple[Array, Array]:
    """Return lengths of stay of 400,000 made-up patients in whole days, and their wards, whose medians differ."""
    rng = np.random.default_rng(11)
    ward = rng.choice(len(WARDS), 400_000, p=_WARD_SHARES)
    median = np.array([3.0, 4.0, 2.0, 6.0, 5.0, 8.0, 3.5, 10.0])[ward]
    return np.ceil(median * np.exp(rng.normal(0, 0.9, ward.size))).clip(0, 3650), ward


COLUMNS = {
    "fire durations": Column(_durations, 0, 43_200),
    "age": Column(lambda: _adult("age"), 0, 110),
    "age in whole years": Column(lambda: _adult("age"), 0, 110, whole=True),
    "hours": Column(lambda: _adult("hours_per_week"), 0, 168),
    "capital gain": Column(lambda: _adult("capital_gain"), 0, 100_000),
    "abalone length": Column(lambda: tables.abalone()["length"], 0, 1, 0.005),
    "abalone rings": Column(lambda: tables.abalone()["rings"], 0, 100, whole=True),
    "visits": Column(lambda: tables.insurance()["mdvis"], 0, 365, whole=True),
    "stays": Column(lambda: _stays()[0], 0, 365, whole=True),
}


def _answer(cell: str, column: Column, n: int, share: float, at: tuple[float, ...], k: int) -> Fit:
    values = column.values()
    drawn = values[data_rng(cell, k).integers(0, len(values), n)].clip(column.low, column.high)
    stored = drawn.astype(int) if column.whole else drawn
    table, seconds = ask(
        {"x": stored}, {"x": column.fact}, lambda curator: curator.quantiles("x", list(at), spend=share)
    )
    low, high, estimate = ends(table)
    truth, best, plain = _expected(cell, column, n, share, at)
    peers = _peers(drawn, column, at, share * RHO) if len(at) <= _ASKED_OF_PEERS else {}
    return Fit(low, high, estimate, truth, best, plain, seconds, column.grid, peers)


_known: dict[tuple[str, tuple[float, ...]], tuple[Array, Array, Array]] = {}


def _expected(cell: str, column: Column, n: int, share: float, at: tuple[float, ...]) -> tuple[Array, Array, Array]:
    if (cell, at) not in _known:
        values = column.values().clip(column.low, column.high)
        _known[cell, at] = (
            np.quantile(values, at, method="inverted_cdf"),
            np.array([oracle.quantile(values, q, n, share * RHO) for q in at]),
            np.array([oracle.quantile(values, q, n, None) for q in at]),
        )
    return _known[cell, at]


def _by_ward(cell: str, bound: int, n: int, share: float, at: tuple[float, ...], k: int) -> Fit:
    stays, ward = _stays()
    drawn = data_rng(cell, k).integers(0, len(stays), n)
    columns = {"days": stays[drawn].clip(0, bound).astype(int), "ward": np.array(WARDS)[ward[drawn]]}
    facts = {"days": Count(bound), "ward": Category(WARDS)}
    table, seconds = ask(columns, facts, lambda curator: curator.quantiles("days", list(at), by="ward", spend=share))
    low, high, estimate = ends(table)
    groups = [
        (stays[ward == WARDS.index(name)].clip(0, bound), WARDS.index(name)) for name in dict.fromkeys(table["ward"])
    ]
    pairs = [(values, n * _WARD_SHARES[place], q) for values, place in groups for q in at]
    truth = np.array([np.quantile(values, q, method="inverted_cdf") for values, _, q in pairs])
    best = np.array([oracle.quantile(values, q, size, share * RHO) for values, size, q in pairs])
    plain = np.array([oracle.quantile(values, q, size, None) for values, size, q in pairs])
    return Fit(low, high, estimate, truth, best, plain, seconds, 1.0)


def _peers(values: Array, column: Column, at: Sequence[float], rho: float) -> dict[str, Array]:
    """Return quantiles by the exponential mechanisms of those libraries that are installed, ρ split evenly.

    The mechanism has bounded range ε, so it is ε²/8-zCDP: one quantile is paid with ε = √(8ρ/how many).
    """
    epsilon, found = math.sqrt(8 * rho / len(at)), {}
    for name, quantile in (("OpenDP", _opendp), ("diffprivlib", _diffprivlib)):
        with contextlib.suppress(ImportError):
            found[name] = np.array([quantile(values, column, q, epsilon) for q in at])
    return found


def _opendp(values: Array, column: Column, q: float, epsilon: float) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    steps = int(min(_CANDIDATES - 1, max((column.high - column.low) / column.grid, 1)))
    candidates = np.linspace(column.low, column.high, steps + 1).tolist()
    space = dp.vector_domain(dp.atom_domain(bounds=(column.low, column.high), nan=False, T="f64"), size=len(values))
    choice = dp.binary_search_chain(
        lambda scale: dp.m.make_private_quantile(
            space, dp.symmetric_distance(), dp.max_divergence(), candidates, q, scale
        ),
        d_in=2,
        d_out=epsilon,
        T=float,
    )
    return float(choice(values.astype(float).tolist()))


def _diffprivlib(values: Array, column: Column, q: float, epsilon: float) -> float:
    from diffprivlib.tools import quantile

    return float(quantile(values, q, epsilon=epsilon, bounds=(column.low, column.high)))


def cells() -> list[Cell]:
    """Return all cells."""
    found = []

    def add(name: str, n: int, share: float, at: tuple[float, ...]) -> None:
        asked = ", ".join(f"{q:g}" for q in at) if len(at) < 5 else f"{len(at)} at once"
        title = f"{name}, {asked}, n = {n:,}, {share:.0%}"
        found.append(Cell("quantiles", title, lambda k: _answer(title, COLUMNS[name], n, share, at, k), name))

    nine = tuple(round(0.1 * k, 1) for k in range(1, 10))
    for share in (0.1, 0.5):
        add("fire durations", 5_000, share, (0.5,))
        add("fire durations", 5_000, share, (0.9,))
    add("fire durations", 5_000, 0.1, nine)
    for name in ("age", "age in whole years"):
        add(name, 10_000, 0.1, (0.25, 0.5, 0.75))
    add("age in whole years", 10_000, 0.1, (0.5,))
    add("age in whole years", 10_000, 0.1, nine)
    add("age in whole years", 1_000, 0.1, (0.25, 0.5, 0.75))
    add("hours", 10_000, 0.1, (0.1, 0.9))
    add("capital gain", 10_000, 0.1, (0.95,))
    add("capital gain", 10_000, 0.5, (0.95, 0.99))
    add("abalone length", 2_000, 0.5, (0.25, 0.5, 0.75))
    add("abalone length", 2_000, 0.1, (0.5,))
    add("abalone rings", 2_000, 0.1, (0.25, 0.5, 0.75))
    add("visits", 5_000, 0.1, (0.5, 0.75, 0.9))
    add("visits", 20_000, 0.5, (0.5, 0.75, 0.9))
    for bound in (365, 3650):
        for n, share in ((8_000, 0.1), (8_000, 0.5)):
            title = f"stays by eight wards, bound {bound:,}, quartiles, n = {n:,}, {share:.0%}"
            at = (0.25, 0.5, 0.75)
            found.append(
                Cell(
                    "quantiles",
                    title,
                    lambda k, title=title, bound=bound, n=n, share=share, at=at: _by_ward(
                        title, bound, n, share, at, k
                    ),
                    "stays by wards",
                )
            )
    return found
