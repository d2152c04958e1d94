"""Releases of several tables by one regression, made side by side: what they share is found once."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from sottovoce.regression import AdaptiveLooks, Coefficients

__all__ = ["released"]


def released(
    mechanism: AdaptiveLooks, tables: Iterable[Any], rngs: Iterable[np.random.Generator]
) -> list[Coefficients]:
    """Return the value of a release of each table, every one with its own noise: what it would be alone."""
    shown = [partial(_noisy, mechanism, mechanism.see(table), rng) for table, rng in zip(tables, rngs, strict=True)]
    return mechanism.conclude_all(mechanism.walk_all(shown))


def _noisy(mechanism: AdaptiveLooks, seen: Any, rng: np.random.Generator, look: Any, scales: Any) -> Any:
    return mechanism._noisy(seen, look, scales, rng)
