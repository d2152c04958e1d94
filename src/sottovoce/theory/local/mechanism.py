"""The profile mechanism: a transition matrix for each profile, checked exactly, drawn from exactly."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.theory.local.coding import codes_of, label_array, positions_of
from sottovoce.theory.local.exact import GRID, Steps, loss_up, output_steps, worst_excess
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.guarantee import ProfilePrivacy, checked_epsilon

__all__ = ["ProfileMechanism", "ProfileRelease"]

_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class ProfileRelease:
    """What was let out: the released category of each record, and the promise kept for each record."""

    value: NDArray[Any]
    guarantee: ProfilePrivacy
    reproducible: bool = False
    """True when a seeded generator made it: fit for experiments, never to publish."""


@dataclass(frozen=True, eq=False)
class ProfileMechanism:
    r"""Release y instead of a record x of profile i with probability :math:`A^i_{x,y}`.

    Probabilities are whole numbers of steps of 2^-53. Every constraint of (G, ε)-profile-based privacy is checked in
    whole numbers when the mechanism is made, so one that exists keeps its promise; one that would not is refused.

    Parameters
    ----------
    graph, epsilon
        What is promised.
    steps
        The matrices in steps: a whole-number array (profile, category, output) whose rows sum to 2^53.
    outputs
        The names of the outputs; by default the categories.
    repair_weight
        How much of the uniform row was mixed in to make a solver's answer keep every constraint exactly.
    """

    word: ClassVar[str] = "transition matrices"
    local: ClassVar[bool] = False
    """Whether the mechanism is ε-locally private, whatever the profiles."""

    graph: ProfileGraph
    epsilon: float
    steps: Steps = field(repr=False)
    outputs: tuple[Hashable, ...] = ()
    repair_weight: float = 0.0

    def __post_init__(self) -> None:
        graph = self.graph
        if not isinstance(graph, ProfileGraph):
            raise InvalidValue(f"graph must be a ProfileGraph. Got a {type(graph).__name__}")
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "outputs", tuple(self.outputs) or graph.categories)
        steps = np.array(self.steps)
        if steps.dtype.kind not in "iu" or steps.shape != (graph.k, graph.d, len(self.outputs)):
            raise InvalidValue(
                f"steps must be whole numbers of shape {(graph.k, graph.d, len(self.outputs))}. "
                f"Got {steps.dtype} of shape {steps.shape}"
            )
        if steps.min() < 0 or steps.max() > GRID or not _sum_to_one(steps.astype(np.int64)):
            raise InvalidValue("steps must be >= 0 and every row must sum to 2**53")
        steps = steps.astype(np.int64)
        steps.setflags(write=False)
        object.__setattr__(self, "steps", steps)
        self._check()

    def _check(self) -> None:
        worst = worst_excess(self.graph, self.steps, self.epsilon)
        if worst.amount > 0:
            first, second = self.graph.names[worst.first], self.graph.names[worst.second]
            raise PromiseUnreachable(
                f"the transition matrices do not keep ε = {self.epsilon:g} across {first!r}–{second!r}: "
                f"output {self.outputs[worst.output]!r} is too likely under {first!r} by {worst.amount:.3g}; "
                "calibrate a mechanism instead, or ask for a larger ε"
            )

    @property
    def guarantee(self) -> ProfilePrivacy:
        """What is promised for each record."""
        return ProfilePrivacy(self.graph, self.epsilon, self.local)

    @cached_property
    def matrices(self) -> Floats:
        """The transition matrices as floats, exactly those drawn from; axes: profile, category, output."""
        floats: Floats = self.steps / GRID
        floats.setflags(write=False)
        return floats

    def matrix(self, profile: Hashable) -> Floats:
        """Return one profile's transition matrix."""
        return np.asarray(self.matrices[self.graph.index(profile)])

    @cached_property
    def output_distributions(self) -> Floats:
        """The distribution P_i A^i an observer sees from each profile, a row a profile."""
        return np.array([[weight / total for weight in weights] for weights, total in self._outputs])

    @cached_property
    def _outputs(self) -> list[tuple[list[int], int]]:
        return [output_steps(p, a) for p, a in zip(self.graph.exact, self.steps, strict=True)]

    def edge_losses(self) -> Floats:
        """Return the largest |log ratio| of output probabilities each edge really reaches, rounded up, at most ε."""
        losses = [loss_up(self._outputs[i], self._outputs[j]) for i, j in self.graph.edge_indices]
        # Known exactly to be at most ε; the logarithms may round above it.
        return np.minimum(np.array(losses, dtype=np.float64), self.epsilon)

    def max_error(self) -> float:
        """Return the largest off-diagonal entry, the objective of (7.7)."""
        off = self._same_place() == 0
        return float(self.matrices[:, off].max(initial=0.0))

    def mean_error(self, prior: Mapping[Any, float] | None = None) -> float:
        """Return the probability that a record is altered; `prior` weighs profiles, by default equally."""
        kept = np.einsum("ix,ixy,xy->i", self.graph.matrix, self.matrices, self._same_place())
        return float(1.0 - profile_weights(self.graph, prior) @ kept)

    def output_error(self) -> Floats:
        r"""Return cost (7.9) for each category: :math:`\max_i |P_i(y) - (P_iA^i)(y)|`."""
        self._same_place()
        return np.asarray(np.abs(self.graph.matrix - self.output_distributions).max(axis=0))

    def _same_place(self) -> Floats:
        if self.outputs != self.graph.categories:
            raise InvalidValue("an error is defined only where the outputs are the categories themselves")
        return np.eye(self.graph.d)

    # Release.

    @cached_property
    def _thresholds(self) -> Steps:
        """Running sums of each row, padded to a power of two with a bound no draw reaches."""
        rows = self.steps.reshape(-1, len(self.outputs)).cumsum(axis=1)
        width = 1 << max(len(self.outputs) - 1, 1).bit_length()
        padded = np.full((rows.shape[0], width), GRID, dtype=np.int64)
        padded[:, : len(self.outputs) - 1] = rows[:, :-1]
        return padded

    @cached_property
    def _stands_for(self) -> NDArray[np.intp]:
        """The category each one is released as, a row a profile, a record of none first.

        A local mechanism protects every record, so there each stands for itself.
        """
        possible = np.ones((self.graph.k, self.graph.d), dtype=bool) if self.local else self.graph.matrix > 0
        first = possible.argmax(axis=1)[:, None]
        return np.hstack([first, np.where(possible, np.arange(self.graph.d), first)])

    def release_codes(
        self, records: NDArray[Any], profiles: NDArray[Any], rng: np.random.Generator | None = None
    ) -> NDArray[np.intp]:
        """Release records given by position: categories and profiles in, outputs out.

        Each draw is a uniform whole number below 2^53, found in its row by halving, all records at once. A position of
        no profile counts as the first profile; one of no category, or of a category that the profile says cannot be, as
        the first that can: the promise is about records drawn from their profiles, which never are any of these.
        """
        rng = secure_rng() if rng is None else rng
        records = positions_of(records, self.graph.d, "category")
        profiles = positions_of([profiles] if _is_one(profiles) else profiles, self.graph.k, "profile")
        if profiles.size not in (1, records.size):
            raise InvalidData(f"there are {records.size} records but {profiles.size} profiles; give one a record")
        profiles = np.broadcast_to(profiles, records.shape)
        stands_for = self._stands_for.ravel()
        table, width = self._thresholds.ravel(), self._thresholds.shape[1]
        out = np.empty(records.shape, dtype=np.intp)
        for start in range(0, records.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            source = np.maximum(profiles[part], 0)
            row = source * self.graph.d + stands_for[source * (self.graph.d + 1) + records[part] + 1]
            out[part] = _draw(table, row * width, width, rng)
        return out

    def release(self, records: object, profiles: object, rng: np.random.Generator | None = None) -> ProfileRelease:
        """Release a column of records; `profiles` names each record's profile, or one profile for them all.

        Randomness is secure unless a generator is given. Release each record once: a second release of the same record
        is not covered by the promise. Every record is released, whatever it holds, for a refusal would tell what the
        promise hides: see `release_codes` for what an unknown one counts as.
        """
        graph = self.graph
        rng = secure_rng() if rng is None else rng
        codes = codes_of("category", records, graph.categories)
        item = (isinstance(profiles, Hashable) and profiles in graph.names) or _is_one(profiles)
        sources = codes_of("profile", [profiles] if item else profiles, graph.names)
        if not item and sources.size != codes.size:
            raise InvalidData(f"there are {codes.size} records but {sources.size} profiles; give one a record")
        value = label_array(self.outputs)[self.release_codes(codes, sources, rng)]
        return ProfileRelease(value, self.guarantee, reproducible=not is_secure(rng))

    # Export.

    def to_dict(self) -> dict[str, object]:
        """Return the mechanism as plain values; probabilities are exact, being multiples of 2^-53."""
        return {
            "mechanism": self.word,
            "guarantee": self.guarantee.to_dict(),
            "categories": list(self.graph.categories),
            "outputs": list(self.outputs),
            "repair_weight": self.repair_weight,
            "matrices": [
                {"profile": name, "rows": rows.tolist()}
                for name, rows in zip(self.graph.names, self.matrices, strict=True)
            ],
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the mechanism as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: rows (profile, category), columns outputs."""
        import pandas as pd  # noqa: PLC0415 - an extra

        index = pd.MultiIndex.from_product([self.graph.names, self.graph.categories], names=["profile", "category"])
        columns = pd.Index(self.outputs, name="output")
        return pd.DataFrame(self.matrices.reshape(-1, len(self.outputs)).copy(), index=index, columns=columns)

    def to_csv(self) -> str:
        """Return CSV text: a line for each profile and category, a column for each output."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["profile", "category", *self.outputs])
        for name, rows in zip(self.graph.names, self.matrices, strict=True):
            writer.writerows([name, x, *row.tolist()] for x, row in zip(self.graph.categories, rows, strict=True))
        return text.getvalue()


def _is_one(profiles: Any) -> bool:
    return not isinstance(profiles, list | tuple) and np.ndim(profiles) == 0


def _sum_to_one(steps: Steps) -> bool:
    """Say whether every row sums to GRID; thousands of large entries would wrap around 64 bits, their halves do not."""
    low, high = (steps & 0x7FFFFFF).sum(axis=2), (steps >> 27).sum(axis=2)
    return bool(np.all((low & 0x7FFFFFF) == 0) and np.all(high + (low >> 27) == GRID >> 27))


def _draw(table: Steps, base: NDArray[np.intp], width: int, rng: np.random.Generator) -> NDArray[np.intp]:
    draws = rng.integers(0, GRID, size=base.size, dtype=np.int64)
    result = base.copy()
    step = width // 2
    while step:
        result += step * (table[result + (step - 1)] <= draws)
        step //= 2
    return result - base


def profile_weights(graph: ProfileGraph, prior: Mapping[Any, float] | None) -> Floats:
    """Return a prior over profiles as weights summing to one; equal weights for None."""
    if prior is None:
        return np.full(graph.k, 1.0 / graph.k)
    unknown = [name for name in prior if name not in graph.names]
    if unknown:
        raise InvalidValue(f"the prior weighs {unknown[0]!r}, which is no profile of the graph")
    weights = np.array([float(prior.get(name, 0.0)) for name in graph.names])
    if not np.all(np.isfinite(weights)) or weights.min() < 0 or weights.sum() <= 0:
        raise InvalidValue(f"prior weights must be >= 0 and not all zero. Got {dict(prior)!r}")
    return np.asarray(weights / weights.sum())
