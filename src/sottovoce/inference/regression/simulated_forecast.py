"""Forecasts by simulation: the looks at imagined records, with a few draws of their noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.precision_forecast import PrecisionForecast
from sottovoce.mechanisms.single_threaded import one_thread
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts.encodings import Encoding

__all__ = ["check_varied", "records_imagined", "simulated"]

_DRAWS = 3
"""So many draws of the noise are made."""
_STILL = 1e-5
"""What spreads less does not vary: a spread of nothing is imagined as a millionth of the bounds."""


def records_imagined(mechanism: AdaptiveLooks, n: int | None) -> int:
    """Return how many records to imagine."""
    count = mechanism.n if n is None else n
    if count is None:
        raise InvalidValue("how many records there are is a secret; say n=..., how many to imagine")
    return whole("n", count, 1)


def check_varied(rows: Floats, encoding: Encoding) -> None:
    """Raise `InvalidValue` where an entry is the same in all imagined rows: nothing tells its coefficient."""
    spreads = zip(encoding.entries, rows.std(axis=0), strict=True)
    if still := [entry for entry, spread in spreads if entry and spread < _STILL]:
        name = " * ".join(encoding.names[place] for place, _ in still[0])
        raise InvalidValue(f"{name} is imagined not to vary, and then nothing tells its coefficient; say how it does")


def simulated(
    mechanism: AdaptiveLooks, looked: Callable[[Any], Floats], plain: Floats, level: float
) -> list[PrecisionForecast]:
    """Return how wide the interval of each term that a table shows will be.

    Parameters
    ----------
    mechanism, level
        The looks, and how often intervals hold.
    looked
        What a look at the imagined records gives without noise.
    plain
        The standard deviation of each term without privacy.
    """
    system = mechanism.system

    def widths(seed: int) -> Floats:
        rng = seeded_rng(seed)

        def shown(look: Any, scales: Any) -> Floats:
            blocks = zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)
            noise = np.concatenate([np.full(size, item.scale) for item, size in blocks])
            return np.asarray(looked(look) + noise * rng.standard_normal(look.size))

        ends = mechanism.conclude(mechanism.walk(shown)).interval(level)
        return np.asarray(ends[:, 1] - ends[:, 0]) / 2

    with one_thread():
        drawn = np.array([widths(seed) for seed in range(_DRAWS)])
    width = np.median(drawn, axis=0)
    least = np.minimum(plain * float(special.ndtri((1 + level) / 2)), width)
    terms = zip(system.terms, width, drawn.max(axis=0), least, strict=True)
    expected = [PrecisionForecast(term, *map(float, each)) for term, *each in terms]
    return [item for place, item in enumerate(expected) if place not in system.nuisance]
