"""One name a state: the same labels in every draw, the commonest state first."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from sottovoce.privacy.numbers import Integers


def common_labels(states: Integers, size: int) -> Integers:
    """Return for each draw which of its states takes each common label: (draw, label).

    A sampler may rename its states at any time. Each draw's states are matched to a reference by the number of
    cells they share (an assignment problem); the reference is the last draw at first, then the majority of the
    renamed draws. Labels run from the commonest state to the rarest.

    Parameters
    ----------
    states
        The states of every cell in every draw, cells along all axes but the first.
    size
        The number of states.

    Examples
    --------
    >>> draws = np.array([[0, 0, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 0, 0, 1]])
    >>> labels = common_labels(draws, 2)
    >>> [np.argsort(new)[old].tolist() for new, old in zip(labels, draws)]
    [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 1]]
    """
    draws = states.reshape(len(states), -1)
    reference = draws[-1]
    labels = np.tile(np.arange(size), (len(draws), 1))
    for _ in range(2):
        labels = _match(draws, reference, size)
        renamed = np.take_along_axis(np.argsort(labels, axis=1), draws, axis=1)
        shares = np.stack([(renamed == label).sum(axis=0) for label in range(size)])
        reference = shares.argmax(axis=0)
    order = np.argsort(-np.bincount(reference, minlength=size), kind="stable")
    return np.asarray(labels[:, order])


def _match(draws: Integers, reference: Integers, size: int) -> Integers:
    """Return for each draw the state that shares most cells with each label of the reference."""
    draw = np.arange(len(draws))[:, None]
    shared = np.bincount(
        ((draw * size + reference) * size + draws).ravel(), minlength=len(draws) * size * size
    ).reshape(len(draws), size, size)
    return np.array([optimize.linear_sum_assignment(-overlap)[1] for overlap in shared], dtype=np.int64)
