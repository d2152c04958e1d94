"""Regressions: the grid, awkward laws and real tables, each beside its oracle.

Columns lie between 0 and 100 unless said. Each cell has `TRUTHS` sets of coefficients, taken in turn; slopes alone are
targets. On real tables, drawn with repetition, the truth is the ordinary regression of the whole table.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from papers.data import ADULT_BOUNDS, adult
from scipy import special

from benchmarks.fitting import fit
from benchmarks.sharpness import oracle, tables
from benchmarks.sharpness.store import Cell, Fit, data_rng, noise_rng
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

__all__ = ["cells", "table"]

Array = npt.NDArray[Any]
FAMILIES, SIZES, EPSILONS, DIMENSIONS = (
    ("logistic", "linear", "poisson"),
    (3_000, 20_000, 200_000),
    (0.3, 1.0, 3.0),
    (3, 10, 20),
)
DELTA = 1e-6
TRUTHS = 4
_STANDING = 4_000
"""Rows that stand for the population in the oracle."""
_RESIDUAL, _WIDE, _MOST = 2.0, 10.0, 60
"""Of linear regressions the residuals' deviation and the bounds ∓10 of the response; the bound of counts."""
_SLOPE = {"logistic": 0.8, "linear": 0.8, "poisson": 0.4}
"""The deviation of slopes in half ranges of their columns."""


def _normal(rng: np.random.Generator, n: int, d: int) -> Array:
    return rng.normal(50, 20, (n, d))


def _first(column: Callable[[np.random.Generator, int], Array]) -> Callable[[np.random.Generator, int, int], Array]:
    def drawn(rng: np.random.Generator, n: int, d: int) -> Array:
        rows = _normal(rng, n, d)
        rows[:, 0] = column(rng, n)
        return rows

    return drawn


def _correlated(rng: np.random.Generator, n: int, d: int) -> Array:
    rows = _normal(rng, n, d)
    rows[:, 1] = 50 + 0.95 * (rows[:, 0] - 50) + math.sqrt(1 - 0.95**2) * (rows[:, 1] - 50)
    return rows


def _heavy(rng: np.random.Generator, n: int, d: int) -> Array:
    common = rng.standard_t(3, (n, 1))
    return 50 + 20 * 0.7 * (rng.standard_t(3, (n, d)) + common) / math.sqrt(3)


def _square(rng: np.random.Generator, n: int, d: int) -> Array:
    rows = _normal(rng, n, d)
    rows[:, 1] = (rows[:, 0] - 50) ** 2 / 25
    return rows


LAWS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "normal": _normal,
    "skewed": _first(lambda rng, n: 5 * np.exp(rng.normal(1, 0.7, n))),
    "exponential": _first(lambda rng, n: 5 + rng.exponential(15, n)),
    "flag of 2 %": _first(lambda rng, n: 100.0 * (rng.random(n) < 0.02)),
    "correlation .95": _correlated,
    "narrow, 1/500": _first(lambda rng, n: rng.normal(50, 0.2, n)),
    "heavy tails": _heavy,
    "nine in ten zero": _first(lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.uniform(0, 100, n))),
    "a column squared": _square,
    "bent formula": _normal,
    "residuals of t3": _normal,
    "counts twice as varied": _normal,
    "surveyed spreads": _normal,
}
"""Laws of the columns: what is special is mostly the first one. Surveyed spreads are stretched afterwards."""


def _stretch(cell: str, d: int, turn: int) -> tuple[Array, Array]:
    """Return the middles and spreads of columns in half ranges, by what real columns do (`benchmarks.spreads`)."""
    rng = data_rng(f"{cell}, spreads", turn)
    return 2 * rng.beta(1.04, 3.11, d) - 1, np.minimum(np.exp(rng.normal(-2.02, 0.70, d)), 1.0)


def _theta(cell: str, family: str, law: str, d: int, turn: int) -> Array:
    """Return the coefficients in half ranges of the columns, the intercept first."""
    rng = data_rng(f"{cell}, truth", turn)
    theta = np.concatenate([[-0.5], rng.normal(0, _SLOPE[family], d)])
    if law == "narrow, 1/500":
        theta[1] = (0.5 if family == "logistic" else 0.25) / 0.004
    if law == "surveyed spreads":
        middle, spread = _stretch(cell, d, turn)
        theta[1:] *= 0.4 / spread
        theta[0] -= middle @ theta[1:]
    if law == "flag of 2 %":
        theta[1] = math.copysign(0.4, theta[1])  # a flag from 0 to 1 is two half ranges
    return theta


def _rows(cell: str, law: str, rng: np.random.Generator, n: int, d: int, turn: int) -> Array:
    """Return a one and the columns in half ranges, cut at their bounds."""
    columns = LAWS[law](rng, n, d)
    if law == "surveyed spreads":
        middle, spread = _stretch(cell, d, turn)
        columns = 50 + 50 * middle + (columns - 50) / 20 * 50 * spread
    columns = columns.clip(0, 100)
    return np.column_stack([np.ones(n), columns / 50 - 1])


def _predictor(law: str, rows: Array, theta: Array) -> Array:
    bend = 2.0 * (rows[:, 1] ** 2 - 0.16) if law == "bent formula" else 0.0
    return np.asarray(rows @ theta + bend)


def _response(family: str, law: str, eta: Array, rng: np.random.Generator) -> Array:
    n = len(eta)
    if family == "logistic":
        return (rng.random(n) < special.expit(eta)).astype(float)
    if family == "poisson":
        rate = np.exp(np.minimum(eta, 20.0))
        if law == "counts twice as varied":  # a gamma rate, so that the variance is 2 where the mean is 1
            rate = rate * rng.gamma(1.0, 1.0, n)
        return np.minimum(rng.poisson(rate), _MOST).astype(float)
    noise = rng.standard_t(3, n) / math.sqrt(3) if law == "residuals of t3" else rng.standard_normal(n)
    return np.clip(eta + _RESIDUAL * noise, -_WIDE, _WIDE)


def ordinary(family: str, rows: Array, y: Array) -> Array:
    """Return the coefficients of an ordinary regression, by Newton's method."""
    theta = np.zeros(rows.shape[1])
    if family == "poisson":
        theta = np.linalg.lstsq(rows, np.log(y + 0.5), rcond=None)[0]
    for _ in range(1 if family == "linear" else 60):
        mean, slope = _mean(family, rows @ theta)
        step = np.linalg.solve((rows.T * slope) @ rows, rows.T @ (y - mean))
        theta = theta + step
        if np.abs(step).max() < 1e-10 * max(np.abs(theta).max(), 1):
            break
    return theta


def _mean(family: str, eta: Array) -> tuple[Array, Array]:
    if family == "linear":
        return eta, np.ones_like(eta)
    if family == "poisson":
        mean = np.exp(np.minimum(eta, 30.0))
        return mean, mean
    mean = special.expit(eta)
    return mean, mean * (1 - mean)


@cache
def _standing(
    cell: str, family: str, law: str, n: int, epsilon: float, d: int, turn: int
) -> tuple[Array, Array, Array]:
    """Return the slopes of the columns as they are, and the widths of the oracle and of no privacy."""
    theta = _theta(cell, family, law, d, turn)
    rng = data_rng(f"{cell}, population", turn)
    bent = law in ("bent formula", "residuals of t3", "counts twice as varied")
    rows = _rows(cell, law, rng, (20 if bent else 1) * _STANDING, d, turn)
    if bent:
        y = _response(family, law, _predictor(law, rows, theta), rng)
        if law == "bent formula":
            expected, _ = _mean(family, _predictor(law, rows, theta))
            theta = ordinary(family, rows, expected)
        mean, slope = _mean(family, rows @ theta)
        population = oracle.given(rows, slope, y - mean, 1.0 if family == "logistic" else None, family != "logistic")
    elif family == "logistic":
        widest = float(special.expit(abs(theta[0]) + np.abs(theta[1:]).sum()))  # over the public box
        population = oracle.logistic(rows, theta, widest)
    elif family == "linear":
        population = oracle.gaussian(rows, _RESIDUAL)
    else:
        population = oracle.poisson(rows, theta, _MOST)
    best, plain = oracle.coefficients(population, n, oracle.rho_of(epsilon, DELTA))
    return theta[1:] / 50, best[1:] / 50, plain[1:] / 50


def _formula(family: str, law: str, d: int) -> Formula:
    names = [f"x{k}" for k in range(d)]
    response = {"logistic": Flag(), "linear": Number(-_WIDE, _WIDE), "poisson": Count(_MOST)}[family]
    columns: dict[str, Any] = {name: Number(0, 100) for name in names}
    if law == "flag of 2 %":
        columns["x0"] = Flag()
    return Formula(f"y ~ {' + '.join(names)}", Facts(columns | {"y": response}), family)


def table(
    cell: str, family: str, law: str, n: int, epsilon: float, d: int, k: int
) -> tuple[AdaptiveLooks, Array, Array, Array, Array]:
    """Return the mechanism of a repetition, its encoded rows, responses, and the slopes with the oracle's widths."""
    turn = k % TRUTHS
    slopes, best, _ = _standing(cell, family, law, n, epsilon, d, turn)
    columns, y, scale = _columns(cell, family, law, n, d, k)
    formula = _formula(family, law, d)
    rows, _ = formula.encoding.rows([np.asarray(columns[name], dtype=float) for name in formula.encoding.names], n)
    return AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA)), rows, y, slopes * scale, best * scale


def _columns(cell: str, family: str, law: str, n: int, d: int, k: int) -> tuple[dict[str, Array], Array, Array]:
    """Return the columns and responses of a repetition, and by what their slopes are multiplied."""
    turn = k % TRUTHS
    theta, rng = _theta(cell, family, law, d, turn), data_rng(cell, k)
    rows = _rows(cell, law, rng, n, d, turn)
    y = _response(family, law, _predictor(law, rows, theta), rng)
    columns = {f"x{j}": (rows[:, j + 1] + 1) * 50 for j in range(d)}
    scale = np.ones(d)
    if law == "flag of 2 %":
        columns["x0"], scale[0] = columns["x0"] / 100, 100.0
    return columns, y / _WIDE if family == "linear" else y, scale


def _made_up(cell: str, family: str, law: str, n: int, epsilon: float, d: int, k: int) -> Fit:
    slopes, best, plain = _standing(cell, family, law, n, epsilon, d, k % TRUTHS)
    columns, y, scale = _columns(cell, family, law, n, d, k)
    terms = dict(zip(columns, slopes * scale, strict=True))
    return _private(cell, _formula(family, law, d), columns, y, epsilon, 1.0, terms, best * scale, plain * scale, k)


def _private(
    cell: str,
    formula: Formula,
    columns: Mapping[str, Array],
    y: Array,
    epsilon: float,
    share: float,
    truth: Mapping[str, float],
    best: Array,
    plain: Array,
    k: int,
) -> Fit:
    """Answer privately. `y` is in half ranges where it is a number; categories are given by place."""
    n, start = len(y), time.process_time()
    mechanism = AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))
    if share < 1:
        mechanism = AdaptiveLooks(formula, n, mechanism.rho * share)
    values = [np.asarray(columns[name], dtype=float) for name in formula.encoding.names]
    rows, _ = formula.encoding.rows(values, n)
    posterior = fit(mechanism, rows, np.asarray(y, dtype=float), noise_rng(cell, k))
    low, high = np.asarray(posterior.interval(0.95)).T
    seconds = time.process_time() - start
    at = [formula.terms.index(term) for term in truth]
    expected = np.array(list(truth.values()))
    return Fit(low[at], high[at], np.asarray(posterior.mean)[at], expected, best, plain, seconds)


# Real tables, and one that is like a hospital's.


def _term(term: str, columns: Mapping[str, Array], words: Mapping[str, list[str]]) -> Array:
    """Return the values of a term by its name: a column, an indicator g[T.level], or a product of those."""
    value: Array = np.ones(1)
    for factor in term.split(":"):
        if "[T." in factor:
            name, level = factor.removesuffix("]").split("[T.")
            value = value * (columns[name] == words[name].index(level))
        elif factor != "Intercept":
            value = value * columns[factor]
    return value


class _Real:
    """A whole table, a formula, and the ordinary regression of everybody."""

    def __init__(self, text: str, facts: dict[str, Any], columns: Mapping[str, Array], family: str) -> None:
        self.formula = Formula(text, Facts(facts), family)
        self.family, self.response = family, text.split("~", maxsplit=1)[0].strip()
        words = {name: list(fact.categories) for name, fact in facts.items() if isinstance(fact, Category)}
        self.columns = {name: columns[name] for name in facts}
        size = len(self.columns[self.response])
        self.terms = [term for term in self.formula.terms if term != "Intercept"]
        rows = [np.broadcast_to(_term(term, self.columns, words), size) for term in ["Intercept", *self.terms]]
        self.rows = np.column_stack(rows).astype(float)
        self.y = np.asarray(self.columns[self.response], dtype=float)
        scale = np.abs(self.rows).max(axis=0)
        self.theta = ordinary(family, self.rows / scale, self.y) / scale
        fact = facts[self.response]
        self.middle, self.half = 0.0, 1.0
        if family == "linear":
            self.middle, self.half = (fact.low + fact.high) / 2, (fact.high - fact.low) / 2
        self._widths: dict[tuple[int, float], tuple[Array, Array]] = {}

    def widths(self, n: int, rho: float) -> tuple[Array, Array]:
        if (n, rho) not in self._widths:
            scale = np.abs(self.rows).max(axis=0)
            mean, slope = _mean(self.family, self.rows @ self.theta)
            logistic = self.family == "logistic"
            population = oracle.given(self.rows / scale, slope, self.y - mean, 1.0 if logistic else None, not logistic)
            best, plain = oracle.coefficients(population, n, rho)
            self._widths[n, rho] = (best / scale)[1:], (plain / scale)[1:]
        return self._widths[n, rho]

    def answer(self, cell: str, n: int, epsilon: float, share: float, k: int) -> Fit:
        drawn = data_rng(cell, k).integers(0, len(self.y), n)
        best, plain = self.widths(n, share * oracle.rho_of(epsilon, DELTA))
        truth = dict(zip(self.terms, self.theta[1:].tolist(), strict=True))
        columns = {name: self.columns[name][drawn] for name in self.formula.encoding.names}
        y = (self.y[drawn] - self.middle) / self.half
        return _private(cell, self.formula, columns, y, epsilon, share, truth, best, plain, k)


def _number(name: str) -> Number:
    low, high = ADULT_BOUNDS[name]
    return Number(low, high)


@cache
def _adult(linear: bool) -> _Real:
    table = adult().to_pydict()
    names = ("age", "education_num", "hours_per_week")
    facts: dict[str, Any] = {name: _number(name) for name in names} | {"female": Flag()}
    columns = {name: np.clip(np.array(table[name], dtype=float), *ADULT_BOUNDS[name]) for name in names}
    columns["female"] = np.array([one == "Female" for one in table["sex"]]).astype(float)
    if linear:
        return _Real("hours_per_week ~ age + education_num + female", facts, columns, "linear")
    columns["rich"] = np.array([one.startswith(">") for one in table["income"]]).astype(float)
    text = "rich ~ female + age + hours_per_week + education_num"
    return _Real(text, facts | {"rich": Flag()}, columns, "logistic")


@cache
def _rand() -> _Real:
    names = {"lncoins": 5, "lpi": 8, "fmde": 9, "disea": 60, "physlm": 1}
    facts: dict[str, Any] = {name: Number(0, high) for name, high in names.items()}
    facts |= {"idp": Flag(), "hlthg": Flag(), "hlthf": Flag(), "mdvis": Count(_MOST)}
    table = tables.insurance()
    columns = {name: np.clip(table[name], 0, names.get(name, _MOST)) for name in facts}
    text = "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf"
    return _Real(text, facts, columns, "poisson")


@cache
def _abalone() -> _Real:
    table = tables.abalone()
    sexes = ["F", "I", "M"]
    facts: dict[str, Any] = {
        "sex": Category(sexes),
        "length": Number(0, 1),
        "whole": Number(0, 4),
        "rings": Number(0, 30),
    }
    columns = {"sex": np.array([sexes.index(one) for one in table["sex"]])}
    columns |= {name: table[name] for name in ("length", "whole", "rings")}
    return _Real("rings ~ sex + length + whole", facts, columns, "linear")


@cache
def _collisions(family: str) -> _Real:
    table = tables.collisions()
    columns: dict[str, Array] = {
        "vehicles": np.clip(table["n_vehicles"], 1, 30),
        "night": ((table["hour"] < 6) | (table["hour"] >= 22)).astype(float),
        "run": table["hit_and_run"],
        "cycle": (table["cycle"] != "none").astype(float),
        "worse": (table["severity"] != "slight").astype(float),
        "casualties": np.clip(table["n_casualties"], 0, _MOST),
    }
    facts: dict[str, Any] = {"vehicles": Number(1, 30), "night": Flag(), "run": Flag(), "cycle": Flag()}
    if family == "logistic":
        return _Real("worse ~ vehicles + night + run + cycle", facts | {"worse": Flag()}, columns, family)
    return _Real("casualties ~ vehicles + night + run + cycle", facts | {"casualties": Count(_MOST)}, columns, family)


@cache
def _patients() -> _Real:
    """Return 400,000 made-up patients, of whom an ordinary hospital's model of eleven terms is right."""
    rng, n, wards = np.random.default_rng(7), 400_000, list("ABCDEFG")
    columns: dict[str, Array] = {"age": np.clip(rng.normal(64, 17, n), 18, 110).round()}
    columns["sex"] = (rng.random(n) < 0.48).astype(float)
    columns["charlson"] = np.clip(rng.negative_binomial(1.2, 0.4, n), 0, 37).astype(float)
    columns["ward"] = rng.choice(7, n, p=[0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05])
    effect = np.array([0.0, 0.3, -0.2, 0.5, -0.4, 0.1, 0.6])[columns["ward"]]
    eta = -5.0 + 0.04 * columns["age"] + 0.3 * columns["sex"] - 0.006 * columns["age"] * columns["sex"]
    eta = eta + 0.2 * columns["charlson"] + effect
    columns["died"] = (rng.random(n) < special.expit(eta)).astype(float)
    facts: dict[str, Any] = {"age": Number(18, 110), "sex": Flag(), "charlson": Count(37), "ward": Category(wards)}
    return _Real("died ~ age*sex + charlson + ward", facts | {"died": Flag()}, columns, "logistic")


def _awkward() -> list[tuple[str, str, int, float, int]]:
    both = ((20_000, 0.3, 3), (20_000, 1.0, 10))
    logistic = [law for law in LAWS if law not in ("normal", "residuals of t3", "counts twice as varied")]
    found = [("logistic", law, *size) for law in logistic for size in both]
    large = ("skewed", "exponential", "heavy tails", "bent formula")
    found += [("logistic", law, 200_000, 1.0, d) for law in large for d in (3, 10)]
    found += [("logistic", "surveyed spreads", n, e, d) for n, e, d in ((3_000, 1.0, 3), (200_000, 1.0, 10))]
    linear = ("surveyed spreads", "exponential", "flag of 2 %", "narrow, 1/500", "bent formula", "residuals of t3")
    found += [("linear", law, *both[0]) for law in linear]
    found += [
        ("poisson", law, 20_000, 1.0, 3)
        for law in ("surveyed spreads", "exponential", "flag of 2 %", "counts twice as varied")
    ]
    return found


def cells() -> list[Cell]:
    """Return all cells: the grid, awkward laws, real tables."""
    found = []

    def made_up(group: str, family: str, law: str, n: int, epsilon: float, d: int) -> Cell:
        name = f"{family}, {law}, n = {n:,}, ε = {epsilon:g}, d = {d}"
        return Cell("regressions", name, lambda k: _made_up(name, family, law, n, epsilon, d, k), group)

    for family, n, epsilon, d in itertools.product(FAMILIES, SIZES, EPSILONS, DIMENSIONS):
        found.append(made_up("grid", family, "normal", n, epsilon, d))
    for family, law, n, epsilon, d in _awkward():
        found.append(made_up("awkward", family, law, n, epsilon, d))

    def real(title: str, table: Callable[[], _Real], n: int, epsilon: float, share: float = 1.0) -> Cell:
        name = f"{title}, n = {n:,}, ε = {epsilon:g}" + (f", {share:.0%}" if share < 1 else "")
        return Cell("regressions", name, lambda k: table().answer(name, n, epsilon, share, k), "real")

    for n, epsilon in ((5_000, 0.5), (20_000, 1.0)):
        found.append(real("Adult, income", lambda: _adult(False), n, epsilon))
        found.append(real("Adult, hours", lambda: _adult(True), n, epsilon))
        found.append(real("RAND, visits", _rand, n, epsilon))
        found.append(real("collisions, severe", lambda: _collisions("logistic"), n, epsilon))
        found.append(real("collisions, casualties", lambda: _collisions("poisson"), n, epsilon))
    found += [real("abalone, rings", _abalone, n, 1.0) for n in (1_000, 4_000)]
    found += [real("patients, eleven terms", _patients, 7_000, 1.0, share) for share in (0.3, 1.0)]
    return found
