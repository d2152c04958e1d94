"""Several kernels one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.root_finding import decreasing_root
from sottovoce.theory.amplification.kernels import FiniteKernel, Kernel, mixing_of

_MOVED = 2.1
"""How far coefficients move, at most, beside what the entries of two rows lost: a little more than one of each."""


@dataclass(frozen=True)
class KernelChain(Kernel):
    r"""Kernels applied in turn, the first one first.

    Finite kernels are multiplied, and the coefficients are those of the product. Of others only the parts' coefficients
    are known: Dobrushin and Doeblin ones multiply, and each kernel amplifies the local privacy of those before it
    (Theorem 17 again), which gives the curve of (γ, ε)-Dobrushin coefficients and the ultra-mixing one.

    >>> from sottovoce.theory.amplification.kernels import randomized_response
    >>> round(KernelChain([randomized_response(2, 1.0)] * 3).dobrushin, 6)
    0.098686
    """

    word: ClassVar[str] = "chain"
    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        parts = tuple(Kernel.from_dict(p) if isinstance(p, Mapping) else p for p in self.parts)
        if not parts or not all(isinstance(p, Kernel) for p in parts):
            raise InvalidValue(f"a chain is made of at least one kernel, and of kernels only. Got {self.parts!r}")
        object.__setattr__(self, "parts", parts)
        _ = self._links  # shapes that do not fit are refused here

    @cached_property
    def _links(self) -> tuple[Kernel, ...]:
        """The parts, neighbouring finite ones multiplied."""
        links: list[Kernel] = []
        for part in self.parts:
            if links and isinstance(part, FiniteKernel) and isinstance(links[-1], FiniteKernel):
                links[-1] = _product(links[-1], part)
            else:
                links.append(part)
        return tuple(links)

    def spread(self, epsilon: Floats) -> Floats:
        """Return the (γ, ε)-Dobrushin coefficient: each link amplifies the local privacy of those before."""
        return self._spread_of(len(self._links), epsilon)

    def _spread_of(self, count: int, epsilon: Floats) -> Floats:
        value = self._links[0].spread(epsilon)
        for link in self._links[1:count]:
            with np.errstate(divide="ignore"):
                value = value * link.spread(tilted(epsilon, np.log(value)))
        return value

    @property
    def doeblin(self) -> float:
        """The product of the links' coefficients."""
        return math.prod(link.doeblin for link in self._links)

    @property
    def ultra_mixing(self) -> float:
        """1 − e^{−level}."""
        return mixing_of(self.level)

    @cached_property
    def level(self) -> float:
        """The ε at which the last link's coefficient has fallen to zero."""
        local = self._links[-1].level
        if len(self._links) == 1:
            return local

        def minus_tilted(epsilon: Floats) -> Floats:
            with np.errstate(divide="ignore"):
                return -tilted(epsilon, np.log(self._spread_of(len(self._links) - 1, epsilon)))

        earlier = KernelChain(self._links[:-1]).level
        if math.isinf(local):
            return earlier
        high = np.array([min(local, earlier)])
        return float(decreasing_root(minus_tilted, np.array([-local]), np.zeros(1), high)[0])

    def sample(self, inputs: object, rng: np.random.Generator) -> Any:
        """Return the outputs of the last kernel."""
        for part in self.parts:
            inputs = part.sample(inputs, rng)
        return inputs

    def to_dict(self) -> dict[str, object]:
        """Return the chain as a plain dictionary."""
        return {"kernel": self.word, "parts": [part.to_dict() for part in self.parts]}


def tilted(epsilon: Floats, log_delta: Floats) -> Floats:
    """Return ε̃ = log(1 + (e^ε − 1)/δ) >= ε, infinite where δ = 0 < ε (Geumlek 2020, Theorem 17)."""
    with np.errstate(divide="ignore"):
        log_gap = np.where(epsilon > 30, epsilon, np.log(np.expm1(np.minimum(epsilon, 30.0))))
    # δ at ε = 0 may be 0 too; ε̃ = 0 is then safe.
    return np.logaddexp(0.0, np.where(epsilon > 0, log_gap - log_delta, -np.inf))


@dataclass(frozen=True)
class _Product(FiniteKernel):
    """Two finite kernels in turn. Each entry of their product is off by at most `lost` times itself."""

    lost: float = 0.0

    def spread(self, epsilon: Floats) -> Floats:
        return np.minimum(super().spread(epsilon) + _MOVED * self.lost, 1.0)

    @property
    def doeblin(self) -> float:
        return min(1.0, super().doeblin + _MOVED * self.lost)

    @cached_property
    def level(self) -> float:
        return super().level + _MOVED * self.lost


def _product(first: FiniteKernel, second: FiniteKernel) -> FiniteKernel:
    if first.matrix.shape[1] != second.matrix.shape[0]:
        raise InvalidValue(
            f"a kernel with {first.matrix.shape[1]} outputs cannot be followed by one "
            f"with {second.matrix.shape[0]} inputs"
        )
    # Sums of so many products, none below zero, and then of a row, by which it is divided.
    lost = sum(second.matrix.shape) * 2.0**-52 + sum(getattr(kernel, "lost", 0.0) for kernel in (first, second))
    return _Product(first.matrix @ second.matrix, lost)  # type: ignore[arg-type]
