"""What an audit found."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.shares import percent


class Verdict(enum.StrEnum):
    """Whether the claim survived."""

    HOLDS = "holds"
    """No bound exceeds the claim."""
    DOUBTFUL = "doubtful"
    """A bound exceeds the claim, not clearly enough for an alarm: audit again with more draws and another seed."""
    VIOLATED = "violated"
    """A bound exceeds the claim at a confidence that 200 audits in a row together would keep."""


@dataclass(frozen=True)
class Bound:
    """A number that the mechanism leaks at least, beside the most that is claimed."""

    lower: float
    claimed: float

    @property
    def ratio(self) -> float | None:
        """How much of the claim the attack reached; None where nothing, or no bound at all, is claimed."""
        return self.lower / self.claimed if 0 < self.claimed < math.inf else None

    @property
    def exceeded(self) -> bool:
        """Whether the bound lies above the claim."""
        return self.lower > self.claimed

    def to_dict(self) -> dict[str, object]:
        """Return plain values; infinity becomes None."""
        return {"lower": self.lower, "claimed": _plain(self.claimed), "ratio": self.ratio}


@dataclass(frozen=True, eq=False)
class Band:
    """The errors of the attack over a grid of thresholds, with bounds that all hold together.

    `fpr` is how often the attack says "first" of the second data set, `fnr` how often "second" of the first.
    """

    fpr: Floats
    fnr: Floats
    fpr_low: Floats
    fpr_high: Floats
    fnr_low: Floats
    fnr_high: Floats

    def certified(self, fpr: ArrayLike) -> Floats:
        """Return a false-negative rate that the best attack stays below at each false-positive rate.

        The lower convex hull of the upper ends: two tests mixed by a coin are a test.
        """
        x = np.concatenate([[0.0], self.fpr_high, [1.0]])
        y = np.concatenate([[1.0], self.fnr_high, [0.0]])
        corners = _lower_hull(x, y)
        return np.interp(np.asarray(fpr, dtype=np.float64), *corners)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists."""
        return {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}


def _lower_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    order = np.lexsort((y, x))
    hull: list[tuple[float, float]] = []
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    corners = np.array(hull)
    return corners[:, 0], corners[:, 1]


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What an audit found.

    Attributes
    ----------
    name, claim
        What was audited, and the profile it was held to.
    test
        The score that told the two data sets apart.
    draws
        How many outputs of each data set were drawn, those spent on choosing the test among them.
    delta, confidence, seed
        As asked for; no seed means secure randomness.
    epsilon
        ε at `delta`: the lower bound holds with `confidence`.
    mu
        The Gaussian μ, likewise.
    accusation
        δ at the ε where the claim looked weakest in the pilot, likewise; its `epsilon` is `accused_at`.
    accused_at
        That ε.
    band
        The trade-off curve of the attack; all of it holds with `confidence`.
    verdict
        Whether the claim survived.
    stopped_early
        Whether the audit ended before its draws were used up, having seen a clear violation.
    seconds
        How long it took.
    """

    name: str
    claim: Profile
    test: str
    draws: int
    delta: float
    confidence: float
    seed: int | None
    epsilon: Bound
    mu: Bound
    accusation: Bound
    accused_at: float
    band: Band = field(repr=False)
    verdict: Verdict
    stopped_early: bool
    seconds: float

    @property
    def tightness(self) -> float | None:
        """How much of the claimed ε the attack reached."""
        return self.epsilon.ratio

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "name": self.name,
            "verdict": str(self.verdict),
            "epsilon": self.epsilon.to_dict() | {"delta": self.delta},
            "mu": self.mu.to_dict(),
            "accusation": self.accusation.to_dict() | {"epsilon": self.accused_at},
            "test": self.test,
            "draws": self.draws,
            "confidence": self.confidence,
            "seed": self.seed,
            "stopped_early": self.stopped_early,
            "seconds": round(self.seconds, 3),
            "claim": self.claim.to_dict(),
            "band": self.band.to_dict(),
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return the report as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        reached = "" if self.tightness is None else f" ({percent(self.tightness, whole=True)} of it)"
        return (
            f"{self.name}: {self.verdict}. At δ = {self.delta:g}, ε >= {self.epsilon.lower:.4g} with "
            f"{self.confidence:.4g} confidence; claimed {self.epsilon.claimed:.4g}{reached}"
        )


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
