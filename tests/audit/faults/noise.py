"""Faults of noisy statistics and of profile-based local privacy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from audit.faults import Patch, fault
from sottovoce.mechanisms import IntegerNoise, NoisyStatistics
from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import CategoryCounts, ClippedSum, Statistics
from sottovoce.records.readings.base import Sensitivity
from sottovoce.theory.local.exact import on_grid
from sottovoce.theory.local.mechanism import ProfileMechanism

MOMENTS = "bounded numbers move their moments no more than is claimed"
HISTOGRAM = "audit of a noisy histogram"
GENERATORS, RELEASES = "noise generators follow their law", "noisy releases carry the noise they claim"


@fault("sensitivity 1 instead of 2", "noisy histogram", "noisy statistics claim no less than they cost", HISTOGRAM)
def _one_cell(patch: Patch) -> None:
    patch.setattr(CategoryCounts, "movement", lambda self, n: Sensitivity(1.0, 1, 1, 1.0))


@fault("√ missing in the sensitivity of counts", "noisy sums", "noisy statistics claim no less than they cost")
def _root_of_width(patch: Patch) -> None:
    from sottovoce.mechanisms import block_noise
    from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile

    def profile(scale, width, cells):
        return DiscreteGaussianProfile(scale, round(width**0.5), cells)

    profile.most = DiscreteGaussianProfile.most
    patch.setattr(block_noise, "DiscreteGaussianProfile", profile)


@fault("noise scale halved", "integer noise", GENERATORS, RELEASES, HISTOGRAM)
def _half_scale(patch: Patch) -> None:
    honest = IntegerNoise.add
    patch.setattr(IntegerNoise, "add", lambda self, x, rng: honest(IntegerNoise(self.kind, self.scale / 2), x, rng))


@fault("rounded floating-point noise instead of discrete noise", "integer noise", GENERATORS, RELEASES)
def _rounded(patch: Patch) -> None:
    def add(self, counts):
        rng = np.random.default_rng()
        draw = rng.laplace if self.kind == "laplace" else rng.normal
        return counts + np.rint(draw(0.0, self.scale, counts.size)).astype(np.int64)

    patch.setattr(IntegerNoise, "_add_secure", add)


@fault("one noise for every coordinate", "integer noise", RELEASES)
def _one_noise(patch: Patch) -> None:
    honest = IntegerNoise.add
    patch.setattr(IntegerNoise, "add", lambda self, x, rng: x + honest(self, np.zeros(1, dtype=np.int64), rng))


@fault("one noise for all releases made together", "noisy statistics", RELEASES)
def _one_noise_for_all(patch: Patch) -> None:
    honest = NoisyStatistics.noisy_totals

    def totals(self, statistics, rng, draws=1):
        return np.tile(honest(self, statistics, rng), (draws, 1))

    patch.setattr(NoisyStatistics, "noisy_totals", totals)


@fault("data read again after the noise", "noisy statistics", "nothing is read after the noise")
def _read_again(patch: Patch) -> None:
    from dataclasses import replace

    honest = NoisyStatistics._value

    def value(self, statistics, rng, draws):
        return replace(honest(self, statistics, rng, draws), plug_in=self.system.posterior(statistics))

    patch.setattr(NoisyStatistics, "_value", value)


@fault("noise added off the grid", "noisy statistics", "nothing is read after the noise")
def _off_grid(patch: Patch) -> None:
    def value(self, statistics, rng, draws):
        return self.posterior_from(statistics.total + self.scale * rng.laplace(size=statistics.total.shape), rng)

    patch.setattr(NoisyStatistics, "_value", value)


@fault("noise scaled by the data", "noisy statistics", "public numbers do not depend on data")
def _scaled(patch: Patch) -> None:
    honest = NoisyStatistics._value

    def value(self, statistics, rng, draws):
        object.__setattr__(self, "scale", self.scale * (1 + float(np.abs(statistics.total).max())))
        return honest(self, statistics, rng, draws)

    patch.setattr(NoisyStatistics, "_value", value)


@fault("only the first of many tables charged", "count tables", "count tables claim no less than they cost")
def _first_table(patch: Patch) -> None:
    from sottovoce.mechanisms import block_noise, noisy_statistics

    honest = block_noise.noise_profile
    for room in (block_noise, noisy_statistics):
        patch.setattr(room, "noise_profile", lambda noises, blocks: honest(noises[:1], blocks[:1]))


@fault(
    "cliques charged only where they share nothing", "random fields", "cliques that share variables are charged each"
)
def _disjoint_cliques(patch: Patch) -> None:
    from sottovoce.inference.latent import MarkovRandomField
    from sottovoce.mechanisms import NoisyStatistics

    honest = NoisyStatistics.blocks.func

    def blocks(self):
        found, met, kept = honest(self), set(), []
        for block, clique in zip(found, getattr(self.system, "cliques", [()] * len(found)), strict=True):
            if met.isdisjoint(clique) or not isinstance(self.system, MarkovRandomField):
                kept.append(block)
                met.update(clique)
        return tuple(kept)

    patch.setattr(NoisyStatistics, "blocks", property(blocks))


@fault("only one node of a network charged", "tempered network", "tempered tables stay in their window")
def _one_node(patch: Patch) -> None:
    from sottovoce.inference.latent import tempered_tables

    honest = tempered_tables.floored_bounds
    patch.setattr(tempered_tables, "floored_bounds", lambda sizes, floor: honest(sizes, floor)[:1])


@fault("repair of the solver's matrices skipped", "profile graphs", "profile matrices keep every edge")
def _unrepaired(patch: Patch) -> None:
    for room in ("smooth_categorical", "one_bit"):
        patch.setattr(
            f"sottovoce.theory.local.{room}.repair", lambda graph, matrices, epsilon: (on_grid(matrices), 0.0)
        )
    patch.setattr(ProfileMechanism, "_check", lambda self: None)


@fault("records altered half as often", "profile graphs", "profile releases follow their matrices")
def _lazy(patch: Patch) -> None:
    honest = ProfileMechanism.release_codes

    def release(self, records, profiles, rng=None):
        drawn = honest(self, records, profiles, rng)
        return np.where(rng.random(drawn.shape) < 0.5, records, drawn)

    patch.setattr(ProfileMechanism, "release_codes", release)


@fault("doubles added as they come", "clipped sums", "one record moves a sum by no more than its width")
def _plain_sum(patch: Patch) -> None:
    def read(self, records, missing=None, *, public=False):
        total = np.clip(np.asarray(records, dtype=float), self.low, self.high).sum()
        return Statistics(len(records), total, float(total - len(records) * self.low))

    patch.setattr(ClippedSum, "read", read)


@fault("a sample drawn from a sum in doubles", "normal means", "one record moves a sum by no more than its width")
def _far_from_zero(patch: Patch) -> None:
    def rounded(statistics):
        return tuple(Fraction(entry) for entry in statistics.total.tolist())

    patch.setattr("sottovoce.mechanisms.conjugate.normal_mean.exact_total", rounded)


@fault("bounded numbers measured from their middle", "bounded numbers", MOMENTS)
def _from_the_middle(patch: Patch) -> None:
    from sottovoce.records.readings import class_moments

    def centred(values, low, high, missing):
        x = np.clip(np.nan_to_num(np.asarray(values, dtype=float)), low, high)
        return (x - (low + high) / 2) / ((high - low) / 2)

    patch.setattr(class_moments, "centred", centred)


@fault("moments of a class moved to another charged once", "bounded numbers", MOMENTS)
def _one_class(patch: Patch) -> None:
    from dataclasses import replace

    from sottovoce.records.readings import class_moments

    honest = class_moments._MOVED
    patch.setattr(class_moments, "_MOVED", replace(honest, squares=honest.squares / 2, total=honest.total / 2))


@fault("an odd record refused", "readings", "no record makes a reading fail")
def _refused(patch: Patch) -> None:
    def number(value):
        if not isinstance(value, int | float):
            raise InvalidData("records must be numbers")
        return float(value)

    patch.setattr("sottovoce.records.readings.columns._number", number)


@fault("row sums that wrap around 64 bits", "profile graphs", "matrices whose rows do not sum to one are refused")
def _wrapped(patch: Patch) -> None:
    patch.setattr(
        "sottovoce.theory.local.mechanism._sum_to_one", lambda steps: bool(np.all(steps.sum(axis=2) == 2**53))
    )
