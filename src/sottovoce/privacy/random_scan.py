r"""What an update costs that redraws a random part of the latent variables, their old values being public.

Each latent belongs to one record (or cell of records), and Q of N are redrawn. A latent that has changed was picked for
certain, so that what it shows of its record is not diluted: the pure ε is that of one update, and there is no
amplification as for a secret part of the *records* (`SubsampledProfile`). What is gained is the chance γ that the scan
does not meet the record at all, and even if it tells whom it picked,

.. math:: \delta'(\varepsilon) = \gamma\,\delta(\varepsilon), \qquad
          e^{(\lambda-1)R'(\lambda)} = 1 - \gamma + \gamma e^{(\lambda-1)R(\lambda)} .

(Geumlek 2020, §4.4.1, has 4ΔQ/N instead, which is less than the truth.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sottovoce.privacy.derived_profile import DerivedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, ceil_float, real, whole
from sottovoce.privacy.rounding import log_lifted
from sottovoce.privacy.subsampling import mixed_divergence


@dataclass(frozen=True)
class RandomScanProfile(DerivedProfile):
    """A profile of an update that meets the record with probability `chance`, and lets see whom it met.

    Pure ε, ρ and μ are those of one update: nothing is gained.

    Examples
    --------
    >>> from sottovoce.privacy.pure import BoundedRangeProfile
    >>> scan = RandomScanProfile(BoundedRangeProfile(1.0), 0.1)
    >>> scan.pure(), round(scan.delta(0.0) / BoundedRangeProfile(1.0).delta(0.0), 9)
    (1.0, 0.1)
    """

    word: ClassVar[str] = "random-scan"
    source: ClassVar[str] = "one update"
    chance: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "chance", real("chance", self.chance))
        if not 0 < self.chance <= 1:
            raise InvalidValue(f"chance must be > 0 and at most 1. Got {self.chance:g}")

    def _log_delta(self, epsilon: Floats) -> Floats:
        before = self.one._log_delta(epsilon)
        return before if self.chance == 1 else np.asarray(log_lifted(before + math.log(self.chance)))

    def _renyi(self, order: Floats) -> Floats:
        before = self.one._renyi(order)
        return before if self.chance == 1 else mixed_divergence(before, order, self.chance)


def chance_to_meet(picked: int, latents: int, touched: int = 1) -> float:
    """Return the probability that `picked` of `latents` hold one of those `touched` by a change of one record.

    >>> chance_to_meet(1, 10), round(chance_to_meet(2, 10, touched=2), 6)
    (0.1, 0.377778)
    """
    size = whole("latents", latents, 1)
    count, moved = whole("picked", picked, 1, size), min(whole("touched", touched, 1), size)
    return ceil_float(1 - Fraction(math.comb(size - moved, count), math.comb(size, count)))
