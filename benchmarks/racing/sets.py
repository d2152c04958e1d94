"""The sets of the race: rows of norm 1 by bounds fixed by hand, from what the columns mean.

Numbers are scaled to [−½, ½] by bounds that anyone who knows the units would give, clipped, and each row is then scaled
to norm 1, which needs no other row. Nothing is read off a file but its cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from papers.data import data_path
from papers.regression_data import load_regression
from sklearn.datasets import load_breast_cancer, load_digits

from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["HELD", "LINEAR", "SETS", "RaceSet", "load", "load_linear", "order_of", "split"]

_MAGIC = ((0, 200), (0, 100), (2, 5), (0, 1), (0, 1), (-250, 250), (-250, 250), (-100, 100), (0, 90), (0, 400))
_MAMMOGRAPHY = ((-3, 3),) * 6  # standardised measurements
_PIMA = ((0, 15), (0, 200), (0, 140), (0, 60), (0, 600), (10, 60), (0, 2.5), (20, 85))
_WINE = (
    ((4, 12), (0, 1), (0, 1), (0, 30), (0, 0.2), (0, 120), (0, 300), (0.985, 1.005), (2.7, 3.9), (0.2, 1.1), (8, 15))
)  # fmt: skip
_HOUSING = (
    (0, 90), (0, 100), (0, 30), (0, 1), (0.3, 0.9), (3, 9), (0, 100), (0, 13), (1, 24), (150, 750), (12, 23), (0, 400),
    (0, 40),
)  # fmt: skip
_CELLS = (
    (5, 30), (5, 40), (40, 190), (100, 2500), (0.05, 0.17), (0, 0.35), (0, 0.45), (0, 0.2), (0.1, 0.3), (0.05, 0.1),
    (0, 3), (0, 5), (0, 22), (0, 540), (0, 0.03), (0, 0.14), (0, 0.4), (0, 0.05), (0, 0.08), (0, 0.03),
    (5, 40), (10, 50), (50, 250), (150, 4000), (0.07, 0.22), (0, 1), (0, 1.25), (0, 0.3), (0.15, 0.66), (0.05, 0.21),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RaceSet:
    """Rows of norm 1 and labels: places of classes, or responses in [−1, 1]."""

    name: str
    X: Floats
    y: Floats
    classes: int = 2
    unit: float = 1.0
    """What a response of 1 is in its own units."""


def _scaled(columns: Floats, bounds: tuple[tuple[float, float], ...]) -> Floats:
    low, high = np.array(bounds, dtype=np.float64).T
    return np.asarray(np.clip((columns - low) / (high - low), 0.0, 1.0) - 0.5)


def _unit(X: Floats) -> Floats:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


def _table(name: str, **options: object) -> Floats:
    return np.loadtxt(data_path(f"race/{name}"), delimiter=",", dtype=str, **options)  # type: ignore[call-overload]


def _of(name: str, cells: Floats, bounds: tuple[tuple[float, float], ...], y: Floats, classes: int = 2) -> RaceSet:
    return RaceSet(name, _unit(_scaled(cells, bounds)), np.asarray(y, dtype=np.float64), classes)


def _magic() -> RaceSet:
    table = _table("magic04.data.gz", skiprows=1)
    return _of("magic", table[:, :-1].astype(float), _MAGIC, table[:, -1] == "g")


def _mammography() -> RaceSet:
    table = _table("mammography.csv.gz")
    return _of("mammography", table[:, :-1].astype(float), _MAMMOGRAPHY, np.char.strip(table[:, -1], "'\"") == "1")


def _pima() -> RaceSet:
    table = _table("pima-indians-diabetes.csv.gz").astype(float)
    return _of("pima", table[:, :-1], _PIMA, table[:, -1])


def _breast_cancer() -> RaceSet:
    X, y = load_breast_cancer(return_X_y=True)
    return _of("breast cancer", X, _CELLS, y)


def _digits(name: str, classes: int) -> RaceSet:
    X, y = load_digits(return_X_y=True)
    return _of(name, X, ((0, 16),) * 64, y if classes == 10 else y % 2 == 0, classes)


def _wine() -> RaceSet:
    table = _table("winequality-white.csv.gz").astype(float)
    return _of("wine", table[:, :-1], _WINE, table[:, -1] >= 6)


def _housing() -> RaceSet:
    table = _table("housing.csv.gz").astype(float)
    return _of("housing", table[:, :-1], _HOUSING, table[:, -1] > 20)


def _whole(name: str) -> RaceSet:
    data = load_regression(name)
    labels = np.concatenate([data.y, data.y_test]) > 0
    return RaceSet(name, np.concatenate([data.X, data.X_test]), labels.astype(float))


def _votes() -> RaceSet:
    table = np.loadtxt(data_path("small/house-votes-84.data"), delimiter=",", dtype=str)
    X = (table[:, 1:] == "y") * 0.5 - (table[:, 1:] == "n") * 0.5
    return RaceSet("votes", _unit(X), (table[:, 0] == "democrat").astype(np.float64))


_CAR = ("vhigh high med low", "vhigh high med low", "2 3 4 5more", "2 4 more", "small med big", "low med high")


def _car() -> RaceSet:
    table = np.loadtxt(data_path("small/car.data.gz"), delimiter=",", dtype=str)
    X = np.hstack([(table[:, [k]] == np.array(values.split())) - 0.5 for k, values in enumerate(_CAR)])
    return RaceSet("car", _unit(X), (table[:, -1] != "unacc").astype(np.float64))


_VISITS = ((0, 4.7), (0, 1), (0, 8), (0, 9), (0, 1), (0, 60), (0, 1), (0, 1), (0, 1))


def _visits() -> RaceSet:
    table = np.loadtxt(data_path("small/randhie.csv.gz"), delimiter=",", skiprows=1)
    return _of("visits", table[:, 1:], _VISITS, table[:, 0] > 0)


_LOADERS: dict[str, Callable[[], RaceSet]] = {
    "abalone": lambda: _whole("abalone"),
    "adult": lambda: _whole("adult"),
    "mnist": lambda: _whole("mnist"),
    "magic": _magic,
    "mammography": _mammography,
    "pima": _pima,
    "breast cancer": _breast_cancer,
    "even digits": lambda: _digits("even digits", 2),
    "wine": _wine,
    "housing": _housing,
    "digits": lambda: _digits("digits", 10),
    "votes": _votes,
    "car": _car,
    "visits": _visits,
}
SETS = tuple(_LOADERS)[:10]
"""The ten sets of two classes, of which settings are chosen; ``load("digits")`` has ten."""
HELD = ("votes", "car", "visits")
"""Three sets on which nothing was tuned."""


@cache
def load(name: str) -> RaceSet:
    """Return a set by its name, all its records."""
    return _LOADERS[name]()


@cache
def load_linear(name: str) -> RaceSet:
    """Return wine (quality, 0 to 10) or housing (price, 0 to 50 thousand dollars) as linear regressions."""
    if name == "wine":
        table, bounds, high = _table("winequality-white.csv.gz").astype(float), _WINE, 10.0
    else:
        table, bounds, high = _table("housing.csv.gz").astype(float), _HOUSING, 50.0
    return RaceSet(name, _unit(_scaled(table[:, :-1], bounds)), table[:, -1] / (high / 2) - 1, 0, high / 2)


LINEAR = ("wine", "housing")


def order_of(data: RaceSet, seed: int) -> NDArray[np.intp]:
    """Return the records in another order for each seed: two thirds to learn from, then a third to test on."""
    return seeded_rng(10_000 + seed).permutation(len(data.y))


def split(data: RaceSet, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return rows and labels to learn from, two thirds, and to test on: another cut for each seed."""
    order = order_of(data, seed)
    cut = 2 * len(order) // 3
    train, test = order[:cut], order[cut:]
    return data.X[train], data.y[train], data.X[test], data.y[test]
