r"""Convex sets in which the parameters of a run stay, each with its projection.

The projection onto a closed convex set brings no two points farther apart: that is a theorem, and all that privacy
needs of the set. Of a projection of one's own it is *trusted* that it is one; building the set tries it on many points
and refuses what is visibly none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.inference.regression.losses import positive
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.registry import Registry

_HERE = "sottovoce.theory.amplification.convex_sets"
CONVEX_SETS = Registry(
    "convex set", {name: f"{_HERE}:{name}" for name in ("Box", "Simplex", "OwnSet")}, "sottovoce.sets"
)
"""Every kind of convex set by its word."""


@dataclass(frozen=True)
class ConvexSet(ABC):
    """A closed convex set of vectors; use one of its kinds."""

    word: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.word = cls.__name__

    @abstractmethod
    def project(self, W: jax.Array) -> jax.Array:
        """Return the nearest point of the set to every row of W."""

    @abstractmethod
    def reach(self, dimension: int) -> float:
        """Return the length of the longest vector of the set."""

    def offset(self, dimension: int) -> float:
        """Return how far the set lies from the origin."""
        del dimension
        return 0.0

    def error(self, dimension: int) -> float:
        """Return by how much a computed projection may be off, beside the length of what is projected."""
        del dimension
        return 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the set as plain values; `from_dict` reads it back."""
        return {"set": self.word} | {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> ConvexSet:
        """Read a set from `to_dict`'s form."""
        given = dict(state)
        word = given.pop("set", None)
        with restoring(f"a convex set {word!r}"):
            built: ConvexSet = CONVEX_SETS[word](**given)
        return built


@dataclass(frozen=True)
class Box(ConvexSet):
    """|w_j| ≤ size for every entry; its projection clips, without error.

    >>> Box(0.5).project(jnp.array([[0.2, -3.0]])).tolist()
    [[0.20000000298023224, -0.5]]
    """

    size: float = 1.0

    def __post_init__(self) -> None:
        positive("box", self.size)

    def project(self, W: jax.Array) -> jax.Array:
        """Return W with every entry clipped."""
        return jnp.clip(W, -self.size, self.size)

    def reach(self, dimension: int) -> float:
        """Return size·√d."""
        return self.size * math.sqrt(dimension)


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """w_j ≥ 0 with Σw_j = total: weights and probabilities.

    >>> Simplex().project(jnp.array([[0.5, 0.5, 0.0], [2.0, 0.0, 0.0]])).tolist()
    [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        positive("total", self.total)

    def project(self, W: jax.Array) -> jax.Array:
        """Return max(w − τ, 0), τ such that it sums to the total: by the sorted entries."""
        down = -jnp.sort(-W, axis=1)
        above = (jnp.cumsum(down, axis=1) - self.total) / jnp.arange(1, W.shape[1] + 1)
        # The largest of these thresholds is the one: each is what the first k entries alone would need.
        return jnp.maximum(W - jnp.max(above, axis=1, keepdims=True), 0.0)

    def reach(self, dimension: int) -> float:
        """Return the total: a corner is the longest."""
        del dimension
        return self.total

    def offset(self, dimension: int) -> float:
        """Return total/√d: the middle is the nearest."""
        return self.total / math.sqrt(dimension)

    def error(self, dimension: int) -> float:
        """Return 4d√d·u: sums of at most d entries, in every coordinate."""
        return 4 * dimension * math.sqrt(dimension) * 2.0**-53


@dataclass(frozen=True)
class OwnSet(ConvexSet):
    """A set of one's own, known by its projection alone.

    Parameters
    ----------
    projection
        A JAX function of one vector that returns the nearest point of a closed convex set. That it does is trusted:
        spots alone are checked (the nearest point makes no acute angle between the way to it and the way on to any
        other point of the set). A map that is no projection may bring two runs apart, and nothing here would know.
    longest
        The length of the longest vector of the set, infinite where there is none; checked on spots too.
    dimension
        How many entries a vector has.
    precision
        By how much a computed projection may be off beside the length of what is projected; part of the claim.

    Examples
    --------
    >>> OwnSet(lambda w: jnp.maximum(w, 0.0), dimension=2).word
    'OwnSet'
    >>> OwnSet(lambda w: 2 * w, dimension=2)
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: this map is no projection onto a convex set: ...
    """

    projection: Callable[[jax.Array], jax.Array]
    dimension: int
    longest: float = math.inf
    precision: float = 2.0**-40
    _offset: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.projection):
            raise InvalidValue("a set of your own needs its projection, which no file holds; build it again")
        positive("longest", self.longest, high=math.inf)
        positive("precision", self.precision, high=2.0**-20)
        positive("dimension", self.dimension)
        object.__setattr__(self, "_offset", _spot_check(self) * (1 + 1e-6))

    def project(self, W: jax.Array) -> jax.Array:
        """Return the projection of every row, and 0 where it is no number."""
        return jnp.nan_to_num(jax.vmap(self.projection)(W), nan=0.0)

    def reach(self, dimension: int) -> float:
        """Return the length given."""
        if dimension != self.dimension:
            raise InvalidValue(f"the set has vectors of {self.dimension} entries, and the run has {dimension}")
        return self.longest

    def offset(self, dimension: int) -> float:
        """Return the length of the projection of the origin, and a little."""
        del dimension
        return self._offset

    def error(self, dimension: int) -> float:
        """Return the precision given."""
        del dimension
        return self.precision

    def to_dict(self) -> dict[str, object]:
        """Return the set in public numbers. Its projection is none: who has it must build the set again."""
        known = self.longest if math.isfinite(self.longest) else None
        return super().to_dict() | {"projection": None, "longest": known}


def _spot_check(own: OwnSet) -> float:
    """Try a projection on points of many lengths: idempotent, within reach, and obtuse to the set.

    Returns
    -------
    float
        How far from the origin its own projection lies.
    """
    rng = np.random.default_rng(0)
    scale = min(own.longest, 1e3)
    lengths = np.repeat(scale * 4.0 ** np.arange(-6, 4), 24)[:, None]
    with jax.enable_x64(True):
        x = np.vstack([lengths * rng.standard_normal((len(lengths), own.dimension)), np.zeros((1, own.dimension))])
        project = jax.jit(own.project, compiler_options=compiler_options(seldom=True))
        onto = np.asarray(project(x), dtype=np.float64)
        again = np.asarray(project(onto))
    if onto.shape != x.shape or not np.all(np.isfinite(onto)):
        raise InvalidValue("a projection returns a finite vector for every vector, of the same length")
    size = 1 + np.linalg.norm(x, axis=1) + np.linalg.norm(onto, axis=1)
    slack = max(own.precision, 1e-9)
    # ⟨x − Px, z − Px⟩ ≤ 0 for every z of the set, and these z are of it.
    angle = (x - onto) @ onto.T - np.sum((x - onto) * onto, axis=1, keepdims=True)
    wrong = {
        "projected again, a point moves": np.linalg.norm(again - onto, axis=1) > slack * size,
        "another point of the set is nearer": np.any(angle > slack * np.outer(size, size), axis=1),
        "a point lies beyond the longest vector": np.linalg.norm(onto, axis=1) > own.longest * (1 + slack),
    }
    for what, result in wrong.items():
        if np.any(result):
            where = np.array2string(x[int(np.argmax(result))], precision=3)
            raise InvalidValue(f"this map is no projection onto a convex set: {what}, from {where}")
    return float(np.linalg.norm(onto[-1]))
