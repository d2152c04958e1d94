"""Low bits: whatever leaves lies on a public grid, far coarser than a double."""

from __future__ import annotations

import numpy as np

from sottovoce.amplification.diffusion import BoundedMean, OrnsteinUhlenbeck
from sottovoce.audit.checks.cases import cases
from sottovoce.audit.checks.result import check, verdict
from sottovoce.audit.low_bits import lowest_bit
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.readings import ClippedSum

__all__ = ["grids"]

_RECORDS, _DRAWS = 12, 500


@check("releases keep to a public grid")
def grids() -> tuple[bool, str]:
    """Posterior samples have 24 significant bits at most, and diffused values are multiples of one power of two."""
    problems = []
    for case in cases(_RECORDS):
        values = np.asarray(case.mechanism.release(case.large, seeded_rng(2), draws=_DRAWS).value)
        if not np.array_equal(values, values.astype(np.float32)):  # a single holds exactly 24 bits
            problems.append(f"{case.name}: samples carry more than 24 significant bits")
    walk = OrnsteinUhlenbeck(BoundedMean(ClippedSum(0, 1)), 1, 1.0, 0.5, 1.0)
    path = walk.path(np.full(_DRAWS, 0.1), [1.0], seeded_rng(3))
    if lowest_bit(path).min() < np.log2(walk.noise) - 22:
        problems.append("a diffused value carries bits far below its noise")
    return verdict(problems, f"{len(cases(_RECORDS))} samplers and a diffusion, {_DRAWS} draws each")
