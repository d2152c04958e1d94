"""Scores: one number for an output, high where the first data set is the likelier source.

Any function of the output is a valid score; a good one only makes the bound higher. Where the likelihood ratio is known
it is the best there is (Neyman and Pearson 1933). Else several are tried on the pilot, and what one half of it taught
is measured on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import special

from sottovoce.audit.bounds import Mu, noise
from sottovoce.audit.events import Pilot
from sottovoce.audit.low_bits import lowest_bit
from sottovoce.privacy.errors import InvalidData, NotInstalled
from sottovoce.privacy.numbers import Floats

TESTS = ("auto", "exact", "learned", "scan")
_FEW = 4096
"""Up to this many different outputs are counted one by one."""
_BIT_COLUMNS = 8
"""How many coordinates' last bits are looked at."""
_TRAIN = 200_000
"""Draws of each data set that a learner sees; more would change little and take long."""


@dataclass(frozen=True)
class Score:
    """A named score of outputs."""

    name: str
    of: Callable[[Any], Floats]

    def __call__(self, outputs: object) -> Floats:
        """Return the score of each output, kept finite."""
        return np.nan_to_num(np.asarray(self.of(outputs), dtype=np.float64), nan=0.0, posinf=1e300, neginf=-1e300)


def exact_score(log_ratio: Callable[[Any], Any]) -> Score:
    """Return the score of a known likelihood ratio."""

    def of(outputs: object) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(log_ratio(outputs))

    return Score("exact likelihood ratio", of)


def best_score(first: Floats, second: Floats, test: str, seed: int) -> Score:
    """Return the score that tells the pilot's data sets apart best: taught by its first half, measured on the other."""
    half = first.shape[0] // 2
    x, y = _rows(first[:half]), _rows(second[:half])
    candidates = _scans(x, y) + low_bits(x, y)
    if test in ("auto", "learned"):
        learned = _learned(x, y, seed, required=test == "learned")
        candidates = learned if test == "learned" else candidates + learned
    if not candidates:
        raise InvalidData("no score fits these outputs; give the likelihood ratio of your mechanism")
    held = [(s, power(s(first[half:]), s(second[half:]))) for s in candidates]
    return max(held, key=lambda pair: pair[1])[0]


def rival_score(exact: tuple[Floats, Floats], first: Floats, second: Floats) -> Score | None:
    """Return a score of the lowest bits that tells the pilot's data sets apart far better than the `exact` scores.

    A likelihood ratio is that of real numbers; what floats add to them shows in their last bits, if anywhere.
    """
    half = first.shape[0] // 2
    result = low_bits(_rows(first[:half]), _rows(second[:half]))
    held = [(s, power(s(first[half:]), s(second[half:]))) for s in result]
    best, strength = max(held, key=lambda pair: pair[1], default=(None, 0.0))
    return best if strength > 0.2 + 1.2 * power(exact[0][half:], exact[1][half:]) else None


def not_finite(outputs: object) -> Floats:
    """Return 1 for each output that holds a NaN or an infinity, 0 for the others."""
    return np.asarray((~np.isfinite(_rows(outputs))).any(axis=1), dtype=np.float64)


def power(first: Floats, second: Floats) -> float:
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
            scores.append(_frequencies(x[:, k], y[:, k], values, partial(_coordinate, k=k), where))
    return scores


def low_bits(x: Floats, y: Floats) -> list[Score]:
    """Return scores of the last bit of each coordinate: its place, and how often it occurs about each value."""
    scores = []
    both = np.concatenate([x, y])
    middle, spread = np.median(both, axis=0), np.maximum(np.ptp(both, axis=0), 1e-300) / 16
    for k in range(min(x.shape[1], _BIT_COLUMNS)):
        where = "output" if x.shape[1] == 1 else f"coordinate {k}"
        scores.append(Score(f"lowest bit of {where}", partial(_last_bit, k=k)))
        seen = partial(_cell_and_bit, k=k, middle=float(middle[k]), spread=float(spread[k]))
        cells, others = seen(x), seen(y)
        values = np.unique(np.concatenate([cells, others]))
        scores.append(_frequencies(cells, others, values, seen, f"the lowest bit of {where}"))
    return scores


def _last_bit(outputs: object, k: int) -> Floats:
    return lowest_bit(_coordinate(outputs, k))


def _cell_and_bit(outputs: object, k: int, middle: float, spread: float) -> Floats:
    cell = np.rint(np.clip((_coordinate(outputs, k) - middle) / spread, -16, 16))
    return np.asarray(4096 * cell + np.clip(_last_bit(outputs, k), -1100, 1100))


def _coordinate(outputs: object, k: int) -> Floats:
    return np.asarray(_rows(outputs)[:, k])


def _distance(outputs: object, k: int, middle: float) -> Floats:
    return np.abs(_coordinate(outputs, k) - middle)


def _frequencies(x: Floats, y: Floats, values: Floats, seen_of: Callable[[Any], Floats], where: str) -> Score:
    seen = [np.bincount(np.searchsorted(values, c), minlength=values.size) + 0.5 for c in (x, y)]
    ratio = np.log(seen[0]) - np.log(seen[1])

    def of(outputs: object) -> Floats:
        column = seen_of(outputs)
        place = np.minimum(np.searchsorted(values, column), values.size - 1)
        return np.where(values[place] == column, ratio[place], 0.0)

    return Score(f"how often each value of {where} occurs", of)


@cache  # looking through all libraries that are loaded takes longer than many a fit
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - scikit-learn brings it

    return ThreadpoolController()


def _learned(x: Floats, y: Floats, seed: int, *, required: bool) -> list[Score]:
    """Return classifiers taught to tell the two data sets apart; none where scikit-learn is not installed."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - an extra
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    except ImportError:
        if required:
            said = "a learned test needs scikit-learn: pip install 'sottovoce[regression]'"
            raise NotInstalled(said, name="sklearn") from None
        return []
    rows = np.concatenate([x[:_TRAIN], y[:_TRAIN]])
    source = np.repeat([1, 0], [len(x[:_TRAIN]), len(y[:_TRAIN])])
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)

    def wide(outputs: object) -> Floats:
        z = (_rows(outputs) - centre) / spread
        return np.concatenate([z, z * z, np.abs(z)], axis=1)

    with _threads().limit(limits=1):  # on a busy machine threads that wait for each other take fifty times as long
        line = LogisticRegression(max_iter=200).fit(wide(rows), source)
        count = 20 if len(x) < 1000 else 60  # of few draws, more trees learn much of the noise
        trees = HistGradientBoostingClassifier(max_iter=count, max_leaf_nodes=15, random_state=seed).fit(rows, source)
    return [
        Score("learned: logistic regression", lambda o: line.decision_function(wide(o))),
        Score("learned: gradient boosting", lambda o: special.logit(trees.predict_proba(_rows(o))[:, 1])),
    ]
