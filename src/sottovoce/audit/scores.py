"""Scores: one number for an output, high where the first data set is the likelier source.

Any function of the output is a valid score; a good one only makes the bound higher. Where the likelihood ratio is known
it is the best there is (Neyman and Pearson 1933). Else several are tried on the pilot, and what one half of it taught
is measured on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from sottovoce.audit.bounds import Mu, noise
from sottovoce.audit.events import Pilot
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["TESTS", "Score", "best_score", "exact_score"]

TESTS = ("auto", "exact", "learned", "scan")
_FEW = 4096
"""Up to this many different outputs are counted one by one."""
_TRAIN = 200_000
"""Draws of each data set that a learner sees; more would change little and take long."""


@dataclass(frozen=True)
class Score:
    """A named score of outputs."""

    name: str
    of: Callable[[Any], Floats]

    def __call__(self, outputs: Any) -> Floats:
        """Return the score of each output, kept finite."""
        return np.nan_to_num(np.asarray(self.of(outputs), dtype=np.float64), nan=0.0, posinf=1e300, neginf=-1e300)


def exact_score(log_ratio: Callable[[Any], Any]) -> Score:
    """Return the score of a known likelihood ratio."""

    def of(outputs: Any) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(log_ratio(outputs))

    return Score("exact likelihood ratio", of)


def best_score(first: Floats, second: Floats, test: str, seed: int) -> Score:
    """Return the score that tells the pilot's data sets apart best: taught by its first half, measured on the other."""
    half = first.shape[0] // 2
    x, y = _rows(first[:half]), _rows(second[:half])
    candidates = _scans(x, y)
    if test in ("auto", "learned"):
        learned = _learned(x, y, seed, required=test == "learned")
        candidates = learned if test == "learned" else candidates + learned
    if not candidates:
        raise InvalidData("no score fits these outputs; give the likelihood ratio of your mechanism")
    held = [(s, _power(s(first[half:]), s(second[half:]))) for s in candidates]
    return max(held, key=lambda pair: pair[1])[0]


def _power(first: Floats, second: Floats) -> float:
    """Return the highest μ that some threshold shows, less three standard deviations."""
    pilot, values = Pilot(first, second), []
    for above in (True, False):
        _, p, q = pilot.shares(above)
        values.append(np.max(Mu().value(p, q) - 3 * np.hypot(*noise(Mu(), p, q, first.size))))
    return float(max(values))


def _rows(outputs: Any) -> Floats:
    return np.asarray(outputs, dtype=np.float64).reshape(len(outputs), -1)


def _scans(x: Floats, y: Floats) -> list[Score]:
    """Return every coordinate, its distance from the middle, and how often each value was seen where values repeat."""
    middle = np.median(np.concatenate([x, y]), axis=0)
    scores = []
    for k in range(min(x.shape[1], 64)):
        where = "output" if x.shape[1] == 1 else f"coordinate {k}"
        scores.append(Score(where, partial(_coordinate, k=k)))
        scores.append(Score(f"distance of {where} from the middle", partial(_distance, k=k, middle=middle[k])))
        values = np.unique(np.concatenate([x[:, k], y[:, k]]))
        if values.size <= min(_FEW, x.shape[0] // 8):
            scores.append(_frequencies(x[:, k], y[:, k], values, k, where))
    return scores


def _coordinate(outputs: Any, k: int) -> Floats:
    return np.asarray(_rows(outputs)[:, k])


def _distance(outputs: Any, k: int, middle: float) -> Floats:
    return np.abs(_coordinate(outputs, k) - middle)


def _frequencies(x: Floats, y: Floats, values: Floats, k: int, where: str) -> Score:
    seen = [np.bincount(np.searchsorted(values, c), minlength=values.size) + 0.5 for c in (x, y)]
    ratio = np.log(seen[0]) - np.log(seen[1])

    def of(outputs: Any) -> Floats:
        column = _rows(outputs)[:, k]
        place = np.minimum(np.searchsorted(values, column), values.size - 1)
        return np.where(values[place] == column, ratio[place], 0.0)

    return Score(f"how often each value of {where} occurs", of)


def _learned(x: Floats, y: Floats, seed: int, *, required: bool) -> list[Score]:
    """Return classifiers taught to tell the two data sets apart; none where scikit-learn is not installed."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - an extra
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    except ImportError:
        if required:
            raise InvalidValue("a learned test needs scikit-learn: pip install 'sottovoce[glm]'") from None
        return []
    rows = np.concatenate([x[:_TRAIN], y[:_TRAIN]])
    source = np.repeat([1, 0], [len(x[:_TRAIN]), len(y[:_TRAIN])])
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)

    def wide(outputs: Any) -> Floats:
        z = (_rows(outputs) - centre) / spread
        return np.concatenate([z, z * z, np.abs(z)], axis=1)

    line = LogisticRegression(max_iter=200).fit(wide(rows), source)
    trees = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed).fit(rows, source)
    return [
        Score("learned: logistic regression", lambda o: line.decision_function(wide(o))),
        Score("learned: gradient boosting", lambda o: special.logit(trees.predict_proba(_rows(o))[:, 1])),
    ]
