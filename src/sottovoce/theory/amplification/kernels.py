r"""Kernels: random maps that forget part of their input, and four numbers that say how much.

For K(x), the law of the output when the input is x, and every pair of inputs x, x' (Geumlek 2020, Definition 22):

* Dobrushin γ: the largest total variation between K(x) and K(x');
* (γ, ε)-Dobrushin: the largest hockey-stick divergence D_{e^ε}(K(x)‖K(x'));
* Doeblin γ: 1 − ∫ min_x K(x), what is left after the part all inputs share;
* ultra-mixing γ: 1 − the smallest ratio K(x, y)/K(x', y).

Each is at most the next, Dobrushin ≤ Doeblin ≤ ultra-mixing, and (γ, ε)-Dobrushin is below Dobrushin.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.registry import Registry
from sottovoce.privacy.rounding import LEAST, UP

_HERE = "sottovoce.theory.amplification"
KERNELS = Registry(
    "kernel",
    {
        "finite": f"{_HERE}.kernels:FiniteKernel",
        "truncated-gaussian": f"{_HERE}.interval_kernels:TruncatedGaussianKernel",
        "laplace-interval": f"{_HERE}.interval_kernels:LaplaceIntervalKernel",
        "chain": f"{_HERE}.kernel_chains:KernelChain",
    },
    "sottovoce.kernels",
)
"""Every kind of kernel by its word."""

_NEAR, _MORE = 1e-12, 160
"""How near to an edge doubles are not trusted, and so many bytes more that the least double has 250 bits of its own."""
_BLOCK = 1 << 22
"""Numbers held at a time while pairs of rows are compared."""


class Kernel(ABC):
    """A random map; use one of its kinds. Values: equal when their numbers are."""

    word: ClassVar[str]

    @abstractmethod
    def spread(self, epsilon: Floats) -> Floats:
        """Return the (γ, ε)-Dobrushin coefficient γ at each ε >= 0."""

    @cached_property
    def dobrushin(self) -> float:
        """The Dobrushin coefficient."""
        return float(self.spread(np.zeros(1))[0])

    @property
    @abstractmethod
    def doeblin(self) -> float:
        """The Doeblin coefficient."""

    @property
    @abstractmethod
    def ultra_mixing(self) -> float:
        """The ultra-mixing coefficient; 1 where some output is impossible for some input only."""

    @property
    @abstractmethod
    def level(self) -> float:
        """ε of the kernel's own local privacy, log 1/(1−γ) of ultra-mixing: any two inputs, not only neighbours."""

    @abstractmethod
    def sample(self, inputs: object, rng: np.random.Generator) -> Any:
        """Return one random output for each input."""

    def to_dict(self) -> dict[str, object]:
        """Return the kernel as a plain dictionary; `from_dict` reads it back."""
        return {"kernel": self.word} | {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Kernel:
        """Read a kernel from `to_dict`'s form."""
        remainder = dict(state)
        word = remainder.pop("kernel", None)
        kind = KERNELS[word]
        with restoring(f"a {word} kernel"):
            kernel: Kernel = kind(**remainder)
        return kernel


@dataclass(frozen=True)
class FiniteKernel(Kernel):
    """A kernel between finite sets: one row of probabilities for each input.

    Attributes
    ----------
    rows
        Anything like a matrix whose rows are probabilities; kept as tuples.

    Examples
    --------
    >>> kernel = FiniteKernel([[0.75, 0.25], [0.25, 0.75]])
    >>> round(kernel.dobrushin, 4), round(kernel.doeblin, 4), round(kernel.ultra_mixing, 4)
    (0.5, 0.5, 0.6667)
    """

    word: ClassVar[str] = "finite"
    rows: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        try:
            matrix = np.asarray(self.rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidValue("a kernel is a matrix of numbers, with rows of one length") from None
        if matrix.ndim != 2 or matrix.size == 0:
            raise InvalidValue(f"a kernel is a matrix with at least one row and column. Got shape {matrix.shape}")
        if not np.all(np.isfinite(matrix)) or matrix.min() < 0:
            raise InvalidValue("a kernel holds probabilities: finite and >= 0 everywhere")
        totals = matrix.sum(axis=1)
        worst = int(np.argmax(np.abs(totals - 1)))
        if abs(totals[worst] - 1) > 1e-9:
            raise InvalidValue(f"every row of a kernel must sum to 1. Row {worst} sums to {totals[worst]:.10g}")
        object.__setattr__(self, "rows", tuple(map(tuple, (matrix / totals[:, None]).tolist())))

    @cached_property
    def matrix(self) -> Floats:
        """The rows as an array."""
        return np.asarray(self.rows)

    def spread(self, epsilon: Floats) -> Floats:
        """Return the largest D_{e^ε} between two rows."""
        given = np.ravel(epsilon)
        flat = np.minimum(given, 700.0)
        out = np.empty(flat.shape)
        inputs, outputs = self.matrix.shape
        subset = max(1, _BLOCK // (inputs * inputs * outputs))
        for first in range(0, flat.size, subset):
            scale = np.exp(flat[first : first + subset, None, None, None])
            gaps = np.maximum(self.matrix[:, None, :] - scale * self.matrix[None, :, :], 0.0).sum(axis=-1)
            out[first : first + subset] = gaps.max(axis=(1, 2))
        # Sums of so many differences of products, of rows that add up to nearly one.
        lost = out * (outputs * 2.0**-52) + np.where(given > 0, 2.0**-50, 2.0**-52) + self._off
        out = np.where((out > 0) | (given < self.level), np.minimum(out + lost, 1.0), 0.0)
        return out.reshape(np.shape(epsilon))

    @cached_property
    def _off(self) -> float:
        """How far the rows lie, beside themselves, from the probabilities that are drawn, which add up to one."""
        return 2 * max(abs(math.fsum((*row, -1.0))) for row in self.rows)

    @property
    def doeblin(self) -> float:
        """1 − Σ_y min_x K(x, y), rounded up."""
        remaining = 1 - math.fsum(self.matrix.min(axis=0))
        return min(1.0, remaining + 2.0**-52 + self._off) if remaining > 0 or self.level > 0 else 0.0

    @property
    def ultra_mixing(self) -> float:
        """1 − min K(x, y)/K(x', y), rounded up."""
        return mixing_of(self.level)

    @cached_property
    def level(self) -> float:
        """The largest log K(x, y)/K(x', y), rounded up."""
        low, high = self.matrix.min(axis=0), self.matrix.max(axis=0)
        low, high = low[high > 0], high[high > 0]
        with np.errstate(divide="ignore", over="ignore"):
            # Of two probabilities nearly alike, logarithms would share all their digits.
            above = (high - low) / low
            result = float(np.max(np.where(np.isinf(above), np.log(high) - np.log(low), np.log1p(above))))
        return result * UP + self._off if result > 0 else 0.0

    def sample(self, inputs: object, rng: np.random.Generator) -> Any:
        """Return a random column for each row number, with the very probabilities of its row, however small."""
        states = np.asarray(inputs)
        if states.size and not (
            np.issubdtype(states.dtype, np.integer) and states.min() >= 0 and states.max() < len(self.rows)
        ):
            raise InvalidData(f"the inputs of this kernel are whole numbers from 0 to {len(self.rows) - 1}")
        reach, flat = np.cumsum(self.matrix, axis=1)[:, :-1], states.ravel()
        draws, near = rng.random((flat.size, 1)), _NEAR + self.matrix.shape[1] * 2.0**-52
        first, last = (np.sum(draws + off >= reach[flat], axis=1) for off in (-near, near))
        for place in np.flatnonzero(first != last).tolist():  # so near to an edge that more bits must tell
            more = Fraction(int.from_bytes(rng.bytes(_MORE), "little"), 1 << (53 + 8 * _MORE))
            first[place] = self._column(int(flat[place]), Fraction(float(draws[place, 0])) + more)
        return first.reshape(states.shape)[()]

    def _column(self, row: int, draw: Fraction) -> int:
        """Return the column in which a number between 0 and 1 lies."""
        ends = list(accumulate(map(Fraction, self.rows[row])))
        return sum(draw * ends[-1] >= end for end in ends[:-1])


def mixing_of(level: float) -> float:
    """Return the ultra-mixing coefficient 1 − e^{−level} of a level of local privacy, rounded up."""
    return min(-math.expm1(-level) * UP, 1.0)


def randomized_response(categories: int, epsilon: float) -> FiniteKernel:
    r"""Return randomized response: keep the category with probability e^ε/(e^ε+d−1), else any other.

    >>> import numpy as np
    >>> randomized_response(2, np.log(3)).rows[0]
    (0.75, 0.25)
    """
    whole("categories", categories, 2)
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InvalidValue(f"epsilon must be finite and >= 0. Got {epsilon}")
    # Beyond, e^ε is no double: the least there is for every other category, which is no less private.
    other = max(1 / (math.exp(epsilon) + categories - 1) if epsilon < 700 else math.exp(-epsilon), LEAST)
    matrix = np.full((categories, categories), other)
    np.fill_diagonal(matrix, 1 - (categories - 1) * other)
    return FiniteKernel(matrix)  # type: ignore[arg-type]
