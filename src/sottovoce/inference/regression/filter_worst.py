"""Two neighbouring tables that a filtered regression finds hard to keep apart: what its audit attacks."""

from __future__ import annotations

import numpy as np

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.residuals import Line, family_of
from sottovoce.records.readings import Rows


def worst_rows(design: Design, n: int, *, room: float, full: float) -> tuple[Rows, Rows]:
    """Return two tables in which the last row points the one way or the other, along a line that says nothing.

    The other rows lie along the same line and their labels do not depend on it, so that looks are taken where both
    residuals are longest; and they are so short, by `room`, that the last row is as long as any look lets it be. Full
    looks, where `full` is their room and not 0, have the longest residuals where the model is surest: all the others
    are of one class, and the last is not.

    >>> from sottovoce.inference.regression.losses import Logistic
    >>> one, other = worst_rows(Design(Logistic(), 2, 1.0), 3, room=1.0, full=0.0)
    >>> one.X[-1].round(3).tolist(), other.X[-1].round(3).tolist()
    ([1.0, 0.0], [-1.0, 0.0])
    """
    place, (low, high), family = np.arange(n), design.loss.labels, family_of(design.loss)
    assert family is not None
    X, sides = np.zeros((n, design.dimension)), np.where(place % 2, -1.0, 1.0)
    X[:, 0] = 0.9 * sides / room
    if isinstance(family, Line):  # so near their mean that residuals of the last are held
        y = np.where(place // 2 % 2, 0.2 * low, 0.2 * high)
        y[-1] = high
    elif full and design.dimension > 1:
        X[:, 0], X[:, 1] = sides / (2.5 * full), 0.2
        y = np.where(place == n - 1, high, low)
    else:
        classes = np.linspace(low, high, family.width + 1)
        y = classes[place // 2 % classes.size]
    pair = []
    for side in (1.0, -1.0):
        X[-1, 0] = side
        pair.append(Rows(n, design.clip(X * design.data_norm), y))
    return pair[0], pair[1]
