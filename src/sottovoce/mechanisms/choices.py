"""Which mechanisms keep a promise, and what to expect of each: calibrated and forecast, no data read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.concentrated import ConcentratedPosterior
from sottovoce.mechanisms.diffused import DiffusedPosterior
from sottovoce.mechanisms.direct import DirectPosterior
from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.mechanisms.tempered import TemperedPosterior
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable, SottovoceError
from sottovoce.privacy.promises import Promise
from sottovoce.systems import System
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum

__all__ = ["DELTAS", "MECHANISMS", "ORDERS", "Choice", "build_mechanism", "choices", "middle"]

DELTAS = (1e-3, 1e-6, 1e-9)
ORDERS = (1.0, 2.0, 4.0, 16.0)


def _direct(system: System, n: int, target: Promise) -> Mechanism:
    mechanism = DirectPosterior(system, n)
    if not mechanism.profile.satisfies(target):
        raise PromiseUnreachable(f"the plain posterior does not keep {target}; use diffused or concentrated")
    return mechanism


MECHANISMS: dict[str, Callable[[System, int, Promise], Mechanism]] = {
    "direct": _direct,
    "diffused": DiffusedPosterior.calibrate,
    "concentrated": ConcentratedPosterior.calibrate,
    "tempered": TemperedPosterior.calibrate,
    "laplace": lambda system, n, target: NoisyStatistics.calibrate(system, n, target, "laplace"),
    "gaussian": lambda system, n, target: NoisyStatistics.calibrate(system, n, target, "gaussian"),
}


def build_mechanism(name: str, system: System, n: int, target: Promise) -> Mechanism:
    """Calibrate the mechanism called `name`."""
    if name not in MECHANISMS:
        raise InvalidValue(f"no mechanism is called {name!r}; known: {', '.join(MECHANISMS)}")
    return MECHANISMS[name](system, n, target)


@dataclass(frozen=True)
class Choice:
    """One mechanism for the promise, with what to expect of it; or the reason why there is none."""

    name: str
    mechanism: Mechanism | None
    forecast: Forecast | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        if self.mechanism is None:
            return {"name": self.name, "unreachable": self.reason}
        profile = self.mechanism.profile
        return {
            "name": self.name,
            "mechanism": self.mechanism.to_dict(),
            "basis": str(profile.basis),
            "epsilon": {f"{d:g}": _finite(profile.epsilon(d)) for d in (0.0, *DELTAS)},
            "renyi": {f"{o:g}": _finite(profile.renyi(o)) for o in ORDERS},
            "forecast": None if self.forecast is None else self.forecast.to_dict(),
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def middle(system: System) -> Any:
    """Return a data mean to forecast for when the user names none: the middle of what records can be."""
    match system.reading:
        case ClippedSum(low, high):
            return (low + high) / 2
        case CategoryCounts(categories):
            return [1 / len(categories)] * len(categories)
        case BallSum(dimension, _):
            return [0.0] * dimension


def choices(system: System, n: int, target: Promise, mean: Any, names: list[str]) -> list[Choice]:
    """Calibrate each named mechanism and forecast its use; best forecast first, unreachable ones last."""
    found = []
    for name in names:
        try:
            mechanism = build_mechanism(name, system, n, target)
            found.append(Choice(name, mechanism, mechanism.forecast(mean)))
        except SottovoceError as error:
            if len(names) == 1:
                raise
            found.append(Choice(name, None, None, str(error)))
    return sorted(found, key=lambda c: np.inf if c.forecast is None else c.forecast.expected_kl)
