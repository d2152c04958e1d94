"""A released look: the noisy sums of a regression, with the centre, the weights and the noise they were taken with.

It is what any later inference needs: `log_likelihood` of an observation model is a function of these and of the latents
alone. Stored with the posterior that was concluded from them; releases from before have none and are read as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import HazardLook, Look

if TYPE_CHECKING:
    from sottovoce.inference.regression.formula import Formula


@dataclass(frozen=True, eq=False)
class ReleasedLook:
    """One look and what it released.

    Attributes
    ----------
    look
        Where it was taken: centre, coordinates, norm, cuts, and which sums.
    scales
        The standard deviation of the noise of each part, in whole steps: of a vector's entries and of a matrix'
        diagonal; √½ of it beside the diagonal. Entries are independent.
    share
        Which part of the regression's ρ it cost.
    total
        The noisy sums, in whole steps.
    """

    look: Look
    scales: Mapping[str, float]
    share: float
    total: Floats

    @cached_property
    def sums(self) -> dict[str, Floats]:
        """The score, the information and the meat that were taken, in the units of the model."""
        return {part: value * self._unit[part] for part, value in self.look.split(self.total).items()}

    @cached_property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each, in the same units."""
        return {part: scale * self._unit[part] for part, scale in self.scales.items()}

    @cached_property
    def _unit(self) -> dict[str, float]:
        pull, lean = self.look.factors
        return {"score": 1 / pull, "information": 1 / lean**2, "meat": 1 / pull**2}

    def to_dict(self) -> dict[str, Any]:
        """Return the look as plain values, but for the formula it belongs to."""
        look = self.look
        return {
            "parts": list(look.parts),
            "centre": list(look.centre),
            "shape": [list(row) for row in look.shape],
            "norm": look.norm,
            "bits": look.bits,
            "cap": look.cap,
            "extra": look.extra,
            "beyond": look.beyond,
            "noise": dict(self.scales),
            "share": self.share,
            "total": self.total.tolist(),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], formula: Formula) -> ReleasedLook:
        """Read a look of a formula from `to_dict`'s form."""
        with restoring("a look of a regression"):
            shape = tuple(tuple(map(float, row)) for row in state["shape"])
            places = tuple(map(float, state["centre"])), shape, float(state["norm"]), int(state["bits"])
            cuts = (state[name] for name in ("cap", "extra", "beyond"))
            look = formula.look_kind(
                formula.encoding, formula.response, formula.family, *places, tuple(state["parts"]), *cuts
            )
            scales = {part: float(state["noise"][part]) for part in look.parts}
            total = np.asarray(state["total"], dtype=np.float64)
            if total.shape != (look.size,) or not np.all(np.isfinite(total)) or min(scales.values()) < 0:
                raise InvalidData(f"a look at {', '.join(look.parts)} of this formula has {look.size} sums")
            return cls(look, scales, float(state["share"]), total)


@dataclass(frozen=True, eq=False)
class ReleasedHazardLook(ReleasedLook):
    """One look at hazards and what it released."""

    look: HazardLook  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return the look as plain values, but for the formula it belongs to."""
        look = self.look
        state = {name: getattr(look, name) for name in ("constant", "norm", "limit", "bits")}
        state |= {"centre": list(look.centre), "shape": [list(row) for row in look.shape], "about": list(look.about)}
        return state | {"noise": dict(self.scales), "share": self.share, "total": self.total.tolist()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], formula: Formula) -> ReleasedHazardLook:
        """Read a look of a formula from `to_dict`'s form."""
        with restoring("a look of a hazard regression"):
            asked: Any = formula
            arrays = (np.asarray(state[name], dtype=np.float64) for name in ("centre", "shape", "about"))
            numbers = (float(state[name]) for name in ("constant", "norm", "limit"))
            look = replace(asked.hazard_look(None, *arrays, *numbers), bits=int(state["bits"]))
            scales = {part: float(state["noise"][part]) for part in look.parts}
            total = np.asarray(state["total"], dtype=np.float64)
            if total.shape != (look.size,) or not np.all(np.isfinite(total)) or min(scales.values()) < 0:
                raise InvalidData(f"a look of this formula has {look.size} sums")
            return cls(look, scales, float(state["share"]), total)


def read_looks(states: Sequence[Mapping[str, Any]], formula: Formula) -> tuple[ReleasedLook, ...]:
    """Return the looks of a release; none of one from before looks were stored."""
    return tuple(
        (ReleasedHazardLook if "limit" in state else ReleasedLook).from_dict(state, formula) for state in states
    )
