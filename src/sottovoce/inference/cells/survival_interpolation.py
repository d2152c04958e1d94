r"""Survival curves between their cuts: smooth and falling, with the doubt of what a hazard does within a cell.

What is released says nothing of where in a cell events lie. The cumulative hazard H is drawn through its values at the
cuts by the monotone cubic of Fritsch and Carlson (SIAM Journal on Numerical Analysis 17, 1980), its logarithm over that
of time: every Weibull law is met, H = (t/b)^a, also in the first cell, where a hazard that rises from nothing has few
events early. A constant hazard within each cell would be the straight line; what lies between the two measures doubt,

.. math:: H(t) + \kappa z\,|H(t) - H_{\text{line}}(t)|, \qquad z \sim N(0, 1),

one z for each draw, never beyond the cuts on either side.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from sottovoce.privacy.numbers import Floats

_DOUBT = 0.1
"""κ. Where it misses most, the cubic misses 3 to 13 % of its distance to the straight line beside log-logistic, gamma
and Gompertz laws and one whose hazard falls and rises again. A jump within a cell is missed."""
_STEEPEST = 4.0
"""In the first cell the hazard's power a lies between one over this and this: as of laws of waiting, whatever noise has
made of the counts of two cells."""
_LEAST = 1e-12
"""Of a cumulative hazard that is nothing."""


def between_cuts(curves: Floats, edges: Floats, times: Floats, normals: Floats) -> Floats:
    """Return draws of curves at some times, (draws, times), from those at the edges, (draws, edges).

    Parameters
    ----------
    curves, edges
        The shares still without the event at the edges; at the first they are one.
    times
        From the first edge to the last.
    normals
        A standard normal number for each draw: which way it errs within cells.

    Examples
    --------
    >>> edges = np.array([0.0, 10.0, 20.0, 40.0])
    >>> weibull = np.exp(-((edges / 20) ** 1.5))[None]
    >>> between_cuts(weibull, edges, np.array([5.0, 10.0, 30.0]), np.zeros(1)).round(4).tolist()
    [[0.8825, 0.7022, 0.1593]]
    """
    passed, wanted = edges - edges[0], np.asarray(times, dtype=np.float64) - edges[0]
    hazard = -np.log(np.maximum(curves, 1e-300))
    cell = np.clip(np.searchsorted(passed, wanted, side="left") - 1, 0, passed.size - 2)
    before, after = hazard[:, cell], hazard[:, cell + 1]
    line = before + (after - before) * (wanted - passed[cell]) / np.diff(passed)[cell]
    if passed.size < 3:  # one cell says nothing of a bend
        return np.asarray(np.exp(-line))
    places, heights = np.log(passed[1:]), np.log(np.maximum(hazard[:, 1:], _LEAST))
    cubic = PchipInterpolator(places, heights, axis=1)
    power = np.clip(cubic.derivative()(places[0]), 1 / _STEEPEST, _STEEPEST)[:, None]
    logs = np.log(np.maximum(wanted, passed[1] * 1e-9))
    early = heights[:, :1] + power * (logs - places[0])
    smooth = np.exp(np.where(cell == 0, early, cubic(np.maximum(logs, places[0]))))
    bent = smooth + _DOUBT * normals[:, None] * np.abs(smooth - line)
    return np.asarray(np.exp(-np.where(wanted > 0, np.clip(bent, before, after), 0.0)))
