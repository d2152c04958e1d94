"""Fits of the race: every method and setting on every cut of every set, many processes at once."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import clone
from sklearn.linear_model import LinearRegression as Unhidden
from sklearn.linear_model import LogisticRegression as Open

from benchmarks.racing import sets
from benchmarks.racing.family import FAMILY
from benchmarks.racing.rivals import CLASSIFIERS, LINES, descent, mu_of, with_intercept
from sottovoce.faces.estimators.linear import LinearRegression, LogisticRegression
from sottovoce.inference.regression import FilteredRegression
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["DELTA", "Found", "jobs", "line_jobs", "measure"]

DELTA = 1e-5
Job = tuple[str, str, float, int]
Found = dict[tuple[str, str, float], dict[str, list[tuple[float, float]]]]
"""For (kind, set, ε): by method, or method and setting, the scores of each cut: error and log loss, or RMSE twice."""


def jobs(names: Iterable[str], epsilons: Sequence[float], cuts: int, kind: str = "classes") -> list[Job]:
    """Return what there is to fit, the longest first."""
    return [
        (kind, name, epsilon, cut)
        for name in sorted(names, key=lambda name: -len(sets.load(name).X) * sets.load(name).X.shape[1])
        for epsilon in epsilons
        for cut in range(cuts)
    ]


def line_jobs(epsilons: Sequence[float], cuts: int) -> list[Job]:
    """Return the linear regressions to fit."""
    return [("line", name, epsilon, cut) for name in sets.LINEAR for epsilon in epsilons for cut in range(cuts)]


def measure(work: Sequence[Job], processes: int | None = None) -> Found:
    """Fit everything and return the scores."""
    found: Found = {}
    count = min(processes or os.cpu_count() or 1, len(work))
    if count == 1:
        done: Iterable[Any] = map(_scores, work)
        return _gathered(found, done)
    for name in {job[1] for job in work}:  # children share what the parent has read
        sets.load(name)
    with get_context("fork").Pool(count) as pool:
        return _gathered(found, pool.imap_unordered(_scores, work, chunksize=1))


def _gathered(found: Found, done: Iterable[tuple[Job, dict[str, tuple[float, float]]]]) -> Found:
    for (kind, name, epsilon, cut), scores in done:
        for method, score in scores.items():
            places = found.setdefault((kind, name, epsilon), {}).setdefault(method, [])
            places.append((*score, cut))  # type: ignore[arg-type]
    for methods in found.values():
        for method, scored in methods.items():
            methods[method] = [one[:2] for one in sorted(scored, key=lambda one: one[2])]  # type: ignore[misc]
    return found


def _scores(job: Job) -> tuple[Job, dict[str, tuple[float, float]]]:
    kind, name, epsilon, cut = job
    work = {"classes": _classes, "many": _many, "line": _line}[kind]
    return job, work(name, epsilon, cut)


def _score(p: Floats, y: Floats) -> tuple[float, float]:
    """Return error and log loss of probabilities, one column a class."""
    places = y.astype(int)
    return float(np.mean(p.argmax(axis=1) != places)), float(
        -np.mean(np.log(np.maximum(p[range(len(y)), places], 1e-12)))
    )


def _two(p: Floats) -> Floats:
    return np.stack([1 - p, p], axis=1)


def _classes(name: str, epsilon: float, cut: int) -> dict[str, tuple[float, float]]:
    X, y, X_test, y_test = sets.split(sets.load(name), cut)
    found = _ours(X, y, X_test, y_test, epsilon, cut, 2)
    found["majority"] = _score(_two(np.full(len(y_test), y.mean())), y_test)
    found["not private"] = _score(Open(C=100.0, max_iter=300).fit(X, y).predict_proba(X_test), y_test)
    rows, tests = with_intercept(X), with_intercept(X_test)
    for rival, settings in CLASSIFIERS.items():
        for setting, fit in settings.items():
            w = fit(rows, y, epsilon, DELTA, seeded_rng(cut))
            found[f"{rival}|{setting}"] = _score(_two(special.expit(tests @ w)), y_test)
    return found


def _ours(
    X: Floats, y: Floats, X_test: Floats, y_test: Floats, epsilon: float, cut: int, classes: int
) -> dict[str, tuple[float, float]]:
    """Return the scores of every rule of the family: what a fit of the estimator does, with a rule of its own.

    Rules that say the same of these n, d and μ are fitted once.
    """
    model, known, found = LogisticRegression(data_norm=1.0, classes=range(classes)), {}, {}
    design = model._design(X.shape[1])
    for word, rule in FAMILY.items():
        mechanism = FilteredRegression.calibrate(design, len(X), ApproxDP(epsilon, DELTA), rule=rule)
        settings = tuple(mechanism._parameters().items())
        if settings not in known:
            fitted = clone(model).keep(mechanism.release((X, y), seeded_rng(cut)))
            known[settings] = _score(fitted.predict_proba(X_test), y_test)
        found[f"ours|{word}"] = known[settings]
    return found


def _many(name: str, epsilon: float, cut: int) -> dict[str, tuple[float, float]]:
    data = sets.load(name)
    X, y, X_test, y_test = sets.split(data, cut)
    found = _ours(X, y, X_test, y_test, epsilon, cut, data.classes)
    share = np.bincount(y.astype(int), minlength=data.classes) / len(y)
    found["majority"] = _score(np.tile(share, (len(y_test), 1)), y_test)
    found["not private"] = _score(Open(C=100.0, max_iter=300).fit(X, y).predict_proba(X_test), y_test)
    rows, tests = with_intercept(X), with_intercept(X_test)
    for setting in CLASSIFIERS["private descent"]:
        steps, rate = setting.split(" steps of ")
        W = descent(rows, y, mu_of(epsilon, DELTA), seeded_rng(cut), steps=int(steps), rate=float(rate), classes=10)
        found[f"private descent|{setting}"] = _score(special.softmax(tests @ W.T, axis=1), y_test)
    return found


def _line(name: str, epsilon: float, cut: int) -> dict[str, tuple[float, float]]:
    data = sets.load_linear(name)
    X, y, X_test, y_test = sets.split(data, cut)

    def rmse(guess: Any) -> tuple[float, float]:
        found = data.unit * math.sqrt(float(np.mean((guess - y_test) ** 2)))
        return found, found

    model = LinearRegression(epsilon, DELTA, data_norm=1.0, response_bound=1.0, random_state=cut)
    found = {"ours": rmse(model.fit(X, y).predict(X_test)), "mean": rmse(y.mean())}
    found["not private"] = rmse(Unhidden().fit(X, y).predict(X_test))
    rows, tests = with_intercept(X), with_intercept(X_test)
    for rival, settings in LINES.items():
        for setting, fit in settings.items():
            found[f"{rival}|{setting}"] = rmse(tests @ fit(rows, y, epsilon, DELTA, seeded_rng(cut)))
    return found
