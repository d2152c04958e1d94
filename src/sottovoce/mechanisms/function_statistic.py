"""A function of the records as a system: what `NoisyStatistics` puts exact noise on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, real
from sottovoce.records.readings import Reading, Statistics
from sottovoce.records.readings.function_reading import FunctionReading


@dataclass(frozen=True)
class FunctionOf:
    """f(D), or Σ g(x), as a system whose release is the number with exact discrete noise (thesis §4.2).

    Parameters
    ----------
    reading
        A `FunctionValue` (any function, its sensitivity declared and spot-checked) or a `FunctionSum` (one record at
        a time, its sensitivity enforced).

    Examples
    --------
    >>> from sottovoce.records.facts import Category
    >>> from sottovoce.mechanisms import NoisyStatistics
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> from sottovoce.records.readings import FunctionValue
    >>> wards = FunctionValue(lambda seen: len(set(seen)), (Category(list("ABCDE")),), 0, 5, integer=True)
    >>> mech = NoisyStatistics.calibrate(FunctionOf(wards), n=6, target=PureDP(2.0), noise="laplace")
    >>> round(mech.scale, 9), mech.release(list("AABCCC"), seeded_rng(2)).value.interval(0.9)
    (0.5, (2.0, 4.0))
    """

    word: ClassVar[str] = "function of records"
    parameter: ClassVar[str] = "value"
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy statistics",)
    reading: Reading

    def __post_init__(self) -> None:
        if not isinstance(self.reading, FunctionReading):
            raise InvalidValue(f"a function of records is a FunctionValue or a FunctionSum. Got {self.reading!r}")

    def statistics(self, records: object) -> Statistics:
        """Return n and what the function says."""
        return self.reading.read(records)

    def through_blocks(self, n: int, total: Floats, noises: Sequence[IntegerNoise], rng: object) -> NoisyValue:
        """Return the noisy value with the law of its noise."""
        del rng
        return NoisyValue(total, noises[0], self.reading.movement(n).grid)

    def forecast_blocks(self, n: int, mean: object, noises: Sequence[IntegerNoise], level: float) -> Forecast:
        """Return how wide an interval for the value will be; without noise it has no width."""
        value = NoisyValue(self.reading.imagined(n, mean).total, noises[0], self.reading.movement(n).grid)
        low, high = value.interval(level)
        return Forecast(0.0, float(np.mean(np.subtract(high, low))), 0.0, level)

    def to_dict(self) -> dict[str, object]:
        """Return the system as plain values."""
        return {"system": self.word, "reading": self.reading.to_dict()}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> FunctionOf:
        """Read a system from `to_dict`'s form; of the function only its name is known then."""
        return FunctionOf(Reading.from_dict(mapping("function of records", state).get("reading") or {}))


@dataclass(frozen=True, eq=False)
class NoisyValue:
    """Numbers with discrete noise of a known law: what is known of f(D).

    An interval here is about f of **these** records, which only the noise hides; it says nothing of the people the
    records were drawn from.

    Attributes
    ----------
    values
        The numbers, as they left the house.
    noise, grid
        The noise, in steps of the grid.
    """

    values: Floats
    noise: IntegerNoise
    grid: float

    @property
    def mean(self) -> Any:
        """The noisy number, or numbers: unbiased up to a step of the grid."""
        return float(self.values[0]) if self.values.size == 1 else self.values

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return self.noise.variance * self.grid**2

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval that holds each number of f(D) with this probability at least."""
        share = real("level", level, below=1.0)
        reach = _reach(self.noise, share)
        # Rounding to the grid, within the bounds, hides up to one more step, unless it is the grid of whole numbers.
        steps = (reach if self.grid == 1.0 else reach + 1) * self.grid
        low, high = self.values - steps, self.values + steps
        return (float(low[0]), float(high[0])) if self.values.size == 1 else (low, high)

    def to_dict(self) -> dict[str, object]:
        """Return the value as plain numbers; `from_dict` reads it back."""
        noise = {"kind": self.noise.kind, "scale": self.noise.scale}
        return {"value": "noisy value", "values": self.values.tolist(), "noise": noise, "grid": self.grid}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NoisyValue:
        """Read a value from `to_dict`'s form."""
        with restoring("a noisy value"):
            values, noise = np.asarray(state["values"], dtype=np.float64), IntegerNoise(**state["noise"])
            return NoisyValue(np.atleast_1d(values), noise, real("grid", state["grid"], above=0.0))


@lru_cache
def _reach(noise: IntegerNoise, level: float) -> int:
    """Return the fewest steps within which the noise stays with this probability."""
    scale = noise.scale
    if noise.kind == "laplace":  # Pr[|k| > r] = 2 a^(r+1)/(1+a), a = e^(-1/scale)
        tail = (1 - level) * (1 + np.exp(-1 / scale)) / 2
        return max(int(np.ceil(-scale * np.log(tail) - 1 - 1e-9)), 0)
    step = max(1, int(scale / 1000))
    k = np.arange(0, int(40 * scale) + 2, step)
    weights = np.exp(noise.log_weight(k)) * np.where(k == 0, 1, 2)
    return int(k[np.searchsorted(np.cumsum(weights) / weights.sum(), level)]) + (step if step > 1 else 0)
