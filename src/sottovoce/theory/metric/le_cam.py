"""Le Cam's bound for sets of data sets and their mixtures (Dimitrakakis et al. 2014, Lemma 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, real, whole


@dataclass(frozen=True, eq=False)
class Hulls:
    """The nearest mixtures of two sets of laws: their weights, and the total variation between them."""

    first: Floats
    second: Floats
    total_variation: float


def guess_error_of_sets(separation: float, first: object, second: object) -> tuple[float, Hulls]:
    r"""Return Le Cam's lower bound for two sets of data sets at least `separation` apart, and the mixtures behind it.

    Whatever is guessed from the answers, its expected distance from the truth is, for one of the data sets, at least

    .. math:: \frac{\rho(S_1, S_2)}{2}\,\sup_{\xi_i \in \mathrm{co}(\Xi_i)} \big(1 - \mathrm{TV}(\xi_1, \xi_2)\big).

    Mixtures lie nearer to each other than any two of their members may, so that the bound is never below the one for
    two points. Any weights give a bound that holds; a linear program finds the best, and what it finds is evaluated
    anew.

    Parameters
    ----------
    separation
        The least distance between a data set of the one and one of the other set.
    first, second
        The laws of the answers, over finitely many outcomes: a row a data set.

    Examples
    --------
    Two coins that fall 0.4 and 0.6 of the time, against one of 0.5: no pair is near, the middle of the two is.

    >>> bound, hulls = guess_error_of_sets(1.0, [[0.4, 0.6], [0.6, 0.4]], [[0.5, 0.5]])
    >>> round(bound, 6), hulls.first.round(3).tolist()
    (0.5, [0.5, 0.5])
    """
    laws = [_laws(item) for item in (first, second)]
    if laws[0].shape[1] != laws[1].shape[1]:
        raise InvalidValue(f"both sets have the same outcomes. Got {laws[0].shape[1]} and {laws[1].shape[1]}")
    (k, m), l_ = laws[0].shape, laws[1].shape[0]
    # Least Σt with t ≥ a'P − b'Q: the positive part, whose sum is the total variation of two laws.
    result = optimize.linprog(
        np.concatenate([np.zeros(k + l_), np.ones(m)]),
        A_ub=np.hstack([laws[0].T, -laws[1].T, -np.eye(m)]),
        b_ub=np.zeros(m),
        A_eq=np.array([[1.0] * k + [0.0] * (l_ + m), [0.0] * k + [1.0] * l_ + [0.0] * m]),
        b_eq=[1.0, 1.0],
    )
    if result.x is None:
        raise InvalidValue("the nearest mixtures were not found; give fewer outcomes")
    weights = [np.maximum(result.x[:k], 0.0), np.maximum(result.x[k : k + l_], 0.0)]
    weights = [item / item.sum() for item in weights]
    apart = np.abs(weights[0] @ laws[0] - weights[1] @ laws[1]).sum() / 2
    total_variation = min(float(apart) * (1 + 1e-12) + 1e-15, 1.0)
    return real("separation", separation) / 2 * (1 - total_variation), Hulls(weights[0], weights[1], total_variation)


def table_error(records: int, total_variation: float) -> float:
    r"""Return how many records any guess at the whole table has wrong at least, on average over tables of coin tosses.

    For each record Lemma 8 with mixtures: the tables in which it has the one value, against those in which it has the
    other, the rest tossed alike in both. Mixtures lie no farther apart than the farthest two neighbours, so each record
    is wrong with probability ≥ (1 − TV)/2, and these add up (Assouad):

    .. math:: \mathbb E\,\rho(\hat x, x) \ge \tfrac n2\,(1 - \mathrm{TV}).

    It is n times what two neighbours alone say (`guess_error` at distance 1), and holds for any two values of a record.

    Parameters
    ----------
    records
        n.
    total_variation
        Of all the answers together, over the worst two neighbours: `delta(0)` of their profile, or an upper bound.

    Examples
    --------
    >>> table_error(1000, 0.1)
    450.0
    """
    tv = real("total_variation", total_variation)
    if tv > 1:
        raise InvalidValue(f"total_variation must be <= 1. Got {tv}")
    return whole("records", records) * (1 - tv) / 2


def _laws(rows: Any) -> Floats:
    laws = np.atleast_2d(as_floats("laws", rows, 0.0))
    if laws.ndim != 2 or not laws.size or not np.allclose(laws.sum(axis=1), 1.0, atol=1e-9):
        raise InvalidValue("laws must be rows of probabilities that sum to one")
    return laws
