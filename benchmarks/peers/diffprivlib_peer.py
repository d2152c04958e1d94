"""diffprivlib: noise scales, answers to simple questions, classifiers. Runs in an environment of its own.

The question is ``{KIND: arguments}``, the kinds ``scales``, ``answers``, ``groups``, ``classifiers``, ``race``.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from clock import best  # the file beside this one
from diffprivlib.mechanisms import GaussianAnalytic, GaussianDiscrete
from diffprivlib.models import GaussianNB, LogisticRegression
from diffprivlib.tools import histogram, mean


def scales(epsilons: list[float], delta: float) -> dict[str, dict[str, tuple[float, float]]]:
    """Return σ of both Gaussian noises on a count, and the seconds to find it."""
    kinds = {"gaussian": GaussianAnalytic, "discrete_gaussian": GaussianDiscrete}
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name, kind in kinds.items():
        for epsilon in epsilons:

            def call(kind: Any = kind, epsilon: float = epsilon) -> float:
                return float(kind(epsilon=epsilon, delta=delta, sensitivity=1)._scale)

            found.setdefault(name, {})[str(epsilon)] = call(), best(call, 3, 0.3)
    return found


def answers(path: str, epsilon: float, repeats: int) -> dict[str, tuple[float, float]]:
    """Return the root mean squared error of a mean and of a histogram, and the seconds of one."""
    ages = np.load(path)["ages"]
    edges = np.arange(0, 101, 5)
    true_mean, true_counts = ages.mean(), np.histogram(ages, edges)[0]
    calls: dict[str, tuple[Callable[[], Any], Any]] = {
        "mean": (lambda: mean(ages, epsilon=epsilon, bounds=(0, 100)), true_mean),
        "histogram": (lambda: histogram(ages, epsilon=epsilon, bins=edges, range=(0, 100))[0], true_counts),
    }
    return {
        name: (float(np.sqrt(np.mean([np.square(call() - truth) for _ in range(repeats)]))), best(call, 3, 0.3))
        for name, (call, truth) in calls.items()
    }


def groups(path: str, epsilon: float, repeats: int) -> dict[str, list[list[float]]]:
    """Return means by group, a row a repeat: each group at half of ε, for a record replaced may change its group."""
    data = np.load(path)
    x, group, bounds = data["x"], data["group"], tuple(data["bounds"].tolist())
    parts = [x[group == g] for g in range(int(group.max()) + 1)]
    rows = [[float(mean(part, epsilon=epsilon / 2, bounds=bounds)) for part in parts] for _ in range(repeats)]
    return {"means": rows}


def classifiers(model: str, path: str, epsilons: list[float], repeats: int) -> dict[str, tuple[float, float, float]]:
    """Return mean and standard deviation of the test error, and the seconds of one fit, at each ε."""
    data = np.load(path)
    X, y, X_test, y_test = (data[name] for name in ("X", "y", "X_test", "y_test"))
    kinds: dict[str, Callable[[float, int], Any]] = {
        "logistic regression": lambda epsilon, seed: LogisticRegression(
            epsilon=epsilon, data_norm=1.0, fit_intercept=False, random_state=seed
        ),
        "naive Bayes": lambda epsilon, seed: GaussianNB(epsilon=epsilon, bounds=(0.0, 1.0), random_state=seed),
    }
    found = {}
    for epsilon in epsilons:
        errors, seconds = [], []
        for seed in range(repeats):
            fitted = kinds[model](epsilon, seed)
            start = time.process_time()
            fitted.fit(X, y)
            seconds.append(time.process_time() - start)
            errors.append(1 - fitted.score(X_test, y_test))
        found[str(epsilon)] = float(np.mean(errors)), float(np.std(errors)), min(seconds)
    return found


def race(path: str, epsilons: list[float], strengths: list[float]) -> dict[str, list[list[float]]]:
    """Return error, log loss and seconds of logistic regressions on every cut of a set, by ε and C."""
    data = np.load(path)
    X, y = data["X"], data["y"].astype(int)
    found: dict[str, list[list[float]]] = {}
    for seed, order in enumerate(data["orders"]):
        train, test = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
        for epsilon in epsilons:
            for strength in strengths:
                model = LogisticRegression(
                    epsilon=epsilon, data_norm=1.0, C=strength, fit_intercept=False, random_state=seed
                )
                start = time.process_time()
                model.fit(X[train], y[train])
                seconds = time.process_time() - start
                p = model.predict_proba(X[test])
                loss = -np.log(np.maximum(p[np.arange(len(test)), y[test]], 1e-12)).mean()
                error = np.mean(p.argmax(axis=1) != y[test])
                found.setdefault(f"{epsilon:g}|{strength:g}", []).append([float(error), float(loss), seconds])
    return found


def main() -> None:
    """Answer one question."""
    [(kind, arguments)] = json.load(sys.stdin).items()
    works: dict[str, Callable[..., Any]] = {"scales": scales, "answers": answers, "groups": groups}
    works |= {"classifiers": classifiers, "race": race}
    json.dump(works[kind](**arguments), sys.stdout)


if __name__ == "__main__":
    main()
