"""Where the looks of a Poisson regression cut counts: by imagined rows and what those before them let out."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.inference.regression.budget_allocation import Step
from sottovoce.inference.regression.overdispersion import Overdispersion, variation_look
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look
from sottovoce.records.readings.families import MOST_COUNTED

if TYPE_CHECKING:
    from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks

__all__ = ["cut_counts", "cut_variation"]

_NEARLY = 1.05
"""Counts are cut at the highest place that is so near to the best: rows have longer tails than imagined ones."""
_HEARD = 0.3
"""How much counts vary is looked at with noise of no more than this part of their mean, where that can be."""
_CAPS = (*range(1, 17), *range(18, 41, 2), *range(44, MOST_COUNTED + 1, 4))
"""Where counts may be cut."""


def cut_counts(
    mechanism: AdaptiveLooks, look: Look, rows: Floats, records: Floats, step: Step, extra: Overdispersion
) -> Look:
    """Return a look that cuts counts where, on imagined rows, noise, variation and doubt weigh least."""
    z = rows @ look.matrix.T
    squares, t = (z * z).sum(axis=1), z @ look.predictors[0]
    v, d = look.weights(squares), look.dimension
    most = min(int(mechanism.system.response.high), MOST_COUNTED)  # type: ignore[attr-defined]
    caps = np.array(sorted({min(cap, most) for cap in _CAPS}))
    # Two contributions point apart at any cap, so that the noise is the same but for what counts are divided by.
    highest = look.of_cap(most, extra.mean)
    family: Any = highest.model
    reach = family.reach(look.predictors, family.stretch * look.norm)
    low, high = family.means_by_cap(np.array([-reach, reach]))[caps - 1].T
    score = mechanism.scales(highest, step)["score"] / highest.pull * np.maximum(caps - low, high) / highest.bound
    _, slopes, variances = family.by_cap(t)
    slope, variance = slopes[caps - 1], variances[caps - 1]
    moved = (((records * v * extra.shifts(family, t, slopes)[:, caps - 1]) @ z) ** 2).sum(axis=2)
    shown = np.maximum(slope @ (records * v * squares), 1e-300) / d
    # What is doubted lies along one direction, that of all levels together; noise and variation lie along all.
    each = variance @ (records * v**2 * squares) / d + score**2
    bad = ((d - len(moved)) * np.log(each) + np.log(each + moved).sum(axis=0)) / d - 2 * np.log(shown)
    bad = np.exp(bad - bad.min())
    return look.of_cap(int(caps[bad <= _NEARLY].max()), extra.mean)


def cut_variation(
    mechanism: AdaptiveLooks, rows: Floats, records: Floats, theta: Floats, first: int, step: Step
) -> Look:
    """Return a look at how much counts vary, cut as high as noise hides no more of it than a part of their mean."""
    mean = records @ mechanism.system.model.expected(rows @ theta)
    most = min(int(mechanism.system.response.high), MOST_COUNTED)  # type: ignore[attr-defined]
    caps = [first, *sorted({min(cap, most) for cap in _CAPS if cap > first})]

    look = variation_look(mechanism.system, mechanism.n, theta, first)

    def hidden(cap: float) -> bool:
        asked = look.of_cap(cap)
        return bool(mechanism.scales(asked, step)["meat"] / asked.pull**2 > _HEARD * mean)

    return look.of_cap(caps[max(bisect.bisect_left(caps, True, key=hidden) - 1, 0)])
