"""Faults of what every registered reading and mechanism must do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.faults import Patch, fault
from sottovoce.audit.checks import registered
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.registry import Registry
from sottovoce.records.readings import BallSum, CategoryCounts, CrossCounts, FunctionSum, Joint, Reading, Sensitivity
from sottovoce.records.readings import columns as cells
from sottovoce.service.ledger.ledger import Ledger

READINGS = "every registered reading does what all must"
MECHANISMS = "every registered mechanism does what all must"


def _alone(patch: Patch, kind: type[Reading]) -> None:
    """Register the kind with the fault alone: the check ends with it, and those before take most of the time."""
    some = Registry("reading", {}, "readings with faults")
    some.add(kind)
    patch.setattr(registered, "READINGS", some)


@fault("the radius of a ball, not its diameter", "ball sums", READINGS)
def _radius(patch: Patch) -> None:
    _alone(patch, BallSum)
    honest = BallSum.movement
    patch.setattr(BallSum, "movement", lambda self, n: replace(honest(self, n), squares=honest(self, n).squares / 4))


@fault("the moves of one table alone", "count tables", READINGS)
def _one_table(patch: Patch) -> None:
    _alone(patch, CrossCounts)
    patch.setattr(CrossCounts, "movement", lambda self, n: Sensitivity(1.0, 2, 1, 2.0))


@fault("the moves of the last part forgotten", "joint readings", READINGS)
def _first_parts(patch: Patch) -> None:
    _alone(patch, Joint)
    honest = Joint.blocks

    def blocks(self, n):
        found = honest(self, n)
        return (*found[:-1], replace(found[-1], movement=replace(found[-1].movement, width=1, squares=1.0)))

    patch.setattr(Joint, "blocks", blocks)


@fault("half the width of a function's sum", "functions of one record", READINGS)
def _half_width(patch: Patch) -> None:
    _alone(patch, FunctionSum)
    honest = FunctionSum.movement

    def movement(self, n):
        found = honest(self, n)
        return replace(found, width=found.width // 2, squares=found.squares / 4)

    patch.setattr(FunctionSum, "movement", movement)


@fault("an unknown category left out of n", "category counts", READINGS)
def _fewer(patch: Patch) -> None:
    _alone(patch, CategoryCounts)
    honest = CategoryCounts.read

    def read(self, records, missing=None, *, public=False):
        return honest(self, [r for r in records if cells.as_codes([r], self.categories, -1)[0] >= 0], missing)

    patch.setattr(CategoryCounts, "read", read)


@fault("counts projected to more records than there are", "count tables", READINGS)
def _too_many(patch: Patch) -> None:
    _alone(patch, CrossCounts)
    patch.setattr(CrossCounts, "project", lambda self, n, total: np.clip(total, 0.0, float(n)))


@fault("any number of records taken", "every mechanism", MECHANISMS)
def _any_n(patch: Patch) -> None:
    honest = Mechanism.see

    def see(self, records):
        seen = records.look(self.reading) if hasattr(records, "look") else records
        return honest(self, replace(seen, n=self.n) if hasattr(seen, "n") else seen)

    patch.setattr(Mechanism, "see", see)


@fault("a pair that differs in every record", "posterior sampling", MECHANISMS)
def _far_apart(patch: Patch) -> None:
    honest = PosteriorSample.worst_pair

    def worst_pair(self):
        first, _ = honest(self)
        return self.system.statistics([0] * first.n), self.system.statistics([1] * first.n)

    patch.setattr(PosteriorSample, "worst_pair", worst_pair)


@fault("a retry under its key answered anew", "ledger", MECHANISMS)
def _anew(patch: Patch) -> None:
    honest = Ledger.reserve
    patch.setattr(Ledger, "reserve", lambda self, *a, key=None, **options: honest(self, *a, key=None, **options))
