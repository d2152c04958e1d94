"""Faults of posterior samples: weights, priors, bounds, temperatures, pairs."""

from __future__ import annotations

import numpy as np

from audit.faults import Patch, fault
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.mechanisms.conjugate.conjugate import Conjugate
from sottovoce.mechanisms.conjugate.dirichlet_categorical import DirichletCategorical
from sottovoce.mechanisms.conjugate.distributions import NormalVector
from sottovoce.mechanisms.conjugate.normal_mean import NormalMean
from sottovoce.mechanisms.exact_sampling import released
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.mechanisms.statistical_query import StatisticalQuery
from sottovoce.mechanisms.tempered import TemperedPosterior
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.pairs import BetaPairs, LikelihoodRatioProfile
from sottovoce.privacy.tail_integrals import BetaTail, GammaTail
from sottovoce.records.readings import BallSum, ClippedSum, Statistics

SAMPLE, VECTOR = "audit of a posterior sample", "audit of a sampled vector"
FIRST = "the budget is spent before the first read"
TAILS, POLES = "slow tails are followed to their end", "Rényi curves keep their digits at the pole"
DENSITIES, SAMPLERS = "densities keep their profile", "samplers follow their density"


@fault("data counts 5 % more than stated", "posterior sampling", SAMPLERS)
def _heavy_sampler(patch: Patch) -> None:
    def value(self, statistics, rng, draws):
        weight, prior = self._weights
        law = self.system.posterior(statistics, 1.05 * weight, prior)
        return released(self.law(statistics), lambda size: law.sample(size, rng), draws, rng)

    patch.setattr(PosteriorSample, "_value", value)


@fault("profile of 5 % less data weight", "posterior sampling", DENSITIES)
def _light_profile(patch: Patch) -> None:
    def profile(self):
        weight, prior = self._weights
        return self.system.profile(self.n, 0.95 * weight, prior)

    patch.setattr(PosteriorSample, "profile", property(profile))


@fault("prior counted twice in the profile", "conjugate systems", DENSITIES, SAMPLE, VECTOR)
def _prior_twice(patch: Patch) -> None:
    honest = Conjugate.profile
    patch.setattr(Conjugate, "profile", lambda self, n, w=1.0, v=1.0: honest(self, n, w, 2 * v))


@fault("exact profile of the wrong pair", "Beta–Bernoulli", DENSITIES, SAMPLE)
def _wrong_pair(patch: Patch) -> None:
    def profile(self, n, w, v):
        others = w * (n - 1) / 2  # the other records half and half, where two posteriors are nearest
        return LikelihoodRatioProfile((BetaPairs(v * self.alpha + others, v * self.beta + others, w),))

    patch.setattr(BetaBernoulli, "_profile", profile)


@fault("tails followed for a fixed length only", "exact pairs", TAILS)
def _short_tails(patch: Patch) -> None:
    for kind in (BetaTail, GammaTail):
        honest = kind.log_density
        patch.setattr(kind, "log_density", lambda self, u, honest=honest: np.where(u > 1000, -np.inf, honest(self, u)))


@fault("a threshold below a double's range taken for its end", "exact pairs", TAILS)
def _underflow(patch: Patch) -> None:
    honest = GammaTail.of.__func__
    patch.setattr(GammaTail, "of", classmethod(lambda cls, k, x, sign: honest(cls, k, np.maximum(x, -700.0), sign)))


@fault("only one order of a pair looked at", "exact pairs", TAILS)
def _one_order(patch: Patch) -> None:
    from sottovoce.privacy import gamma_pairs as pairs

    honest = pairs._gamma_log_delta
    patch.setattr(
        pairs,
        "_gamma_log_delta",
        lambda k, j, x, y, e, sign, gap: np.full(e.shape, -1e9) if sign < 0 else honest(k, j, x, y, e, sign, gap),
    )


@fault("what is left of a shape at the pole rounded off", "exact pairs", POLES)
def _rounded_pole(patch: Patch) -> None:
    patch.setattr("sottovoce.privacy.numbers.mixed", lambda x, step, order, rest=0.0: x - (order - 1) * step)


@fault("profile of the largest categories, not the least", "Dirichlet–categorical", DENSITIES)
def _largest_categories(patch: Patch) -> None:
    patch.setattr(DirichletCategorical, "_least", property(lambda self: tuple(np.argsort(self.alpha)[-2:])))


@fault("missing √ in μ of a mean", "normal mean", DENSITIES, VECTOR)
def _missing_root(patch: Patch) -> None:
    def profile(self, n, w, v):
        return GaussianProfile(float(w * self.diameter / (self.variance * self.precision(n, w, v))))

    patch.setattr(NormalMean, "_profile", profile)


@fault("clipping skipped", "reading numbers", DENSITIES, SAMPLE)
def _unclipped(patch: Patch) -> None:
    def raw(self, records, missing=None, *, public=False):
        total = np.floor(records).sum() if self.integer else np.sum(records)
        return Statistics(len(records), total, float(total - len(records) * self.low))

    patch.setattr(ClippedSum, "read", raw)
    patch.setattr(ClippedSum, "check", lambda self, statistics: statistics)


@fault("projection onto the ball skipped", "reading vectors", DENSITIES, VECTOR)
def _off_the_ball(patch: Patch) -> None:
    patch.setattr(BallSum, "read", lambda self, rows, *_, public=False: Statistics(len(rows), np.sum(rows, axis=0)))
    patch.setattr(BallSum, "check", lambda self, statistics: statistics)


@fault("noise reused across coordinates of a sample", "normal mean", SAMPLERS)
def _same_coordinate(patch: Patch) -> None:
    def sample(self, size=None, rng=None):
        shape = (1,) if size is None else (size, 1)
        return self.centre + np.sqrt(self.spread) * rng.standard_normal(shape)

    patch.setattr(NormalVector, "sample", sample)


@fault("one draw handed out many times", "posterior sampling", SAMPLERS)
def _same_draw(patch: Patch) -> None:
    def value(self, statistics, rng, draws):
        law = self.system.posterior(statistics, *self._weights)
        one = released(self.law(statistics), lambda size: law.sample(size, rng), 1, rng)
        return one if draws == 1 else np.stack([one] * draws)

    patch.setattr(PosteriorSample, "_value", value)


@fault("truncated range ignored", "tempered posterior", DENSITIES)
def _untruncated(patch: Patch) -> None:
    honest = BetaBernoulli.tempered
    patch.setattr(BetaBernoulli, "tempered", lambda self, s, t, a: honest(self, s, t, a).base)


@fault("temperature off by a factor of 2", "tempered posterior", SAMPLERS)
def _half_temperature(patch: Patch) -> None:
    def value(self, statistics, rng, draws):
        law = self.system.tempered(statistics, self.temperature / 2, self.truncation)
        return released(self.law(statistics), lambda size: law.sample(size, rng), draws, rng)

    patch.setattr(TemperedPosterior, "_value", value)


@fault("window of the log-ratio halved", "tempered posterior", DENSITIES, "tempered losses stay in their window")
def _half_window(patch: Patch) -> None:
    honest = BetaBernoulli.log_ratio_range
    patch.setattr(BetaBernoulli, "log_ratio_range", lambda self, truncation: honest(self, truncation) / 2)


@fault("calibrated 5 % beyond the promise", "calibration", "calibration keeps the promise")
def _beyond(patch: Patch) -> None:
    patch.setattr("sottovoce.mechanisms.diffused.largest_keeping", lambda *a, **k: 1.05 * largest_keeping(*a, **k))


@fault("calibration tries the predicate on a record", "statistical query", "calibration touches no data")
def _peeking(patch: Patch) -> None:
    honest = StatisticalQuery.calibrate.__func__

    def calibrate(cls, system, n, target, *, predicate):
        predicate(0)
        return honest(cls, system, n, target, predicate=predicate)

    patch.setattr(StatisticalQuery, "calibrate", classmethod(calibrate))


@fault("public records counted twice", "public data", "public records act as prior")
def _public_twice(patch: Patch) -> None:
    patch.setattr(Conjugate, "with_public", lambda self, x: self._with_prior(self.posterior(self._read_public(x), 2.0)))


@fault("known records still counted in n", "breaches", "a breach leaves what it says")
def _known_in_n(patch: Patch) -> None:
    from dataclasses import replace

    def known(self, records):
        read = self._statistics(records)
        return replace(self, system=self.system.with_known_records(read, *self._weights))

    patch.setattr(PosteriorSample, "with_known_records", known)


@fault("many draws charged as one", "every mechanism", "every draw is charged", FIRST)
def _draws_free(patch: Patch) -> None:
    patch.setattr(Mechanism, "cost", lambda self, draws=1: self.profile)


@fault("all 53 bits of a sample let out", "posterior sampling", "releases keep to a public grid")
def _all_bits(patch: Patch) -> None:
    patch.setattr(
        "sottovoce.mechanisms.exact_sampling.released",
        lambda law, quick, draws, rng: quick(None if draws == 1 else draws),
    )


CELLS, OFTEN, FAR = (
    "exactly rounded laws keep their claim",
    "exactly rounded samples come as often as they should",
    "far tails are within reach",
)


@fault("a uniform number of 53 bits and no more", "exact sampling", FAR)
def _short_uniform(patch: Patch) -> None:
    from sottovoce.mechanisms.lazy_uniform import LazyUniform

    def beyond(self, threshold):
        return float(threshold(200).mid()) <= (self.value >> (self.bits - 53)) * 2.0**-53

    patch.setattr(LazyUniform, "beyond", beyond)


@fault("normals from uniform numbers of 53 bits", "exact noise", FAR)
def _short_normals(patch: Patch) -> None:
    from sottovoce.mechanisms import exact_normals

    honest = exact_normals._leading_zeros
    patch.setattr(exact_normals, "_leading_zeros", lambda rng, count: honest(rng, count).clip(max=51))


@fault("an edge decided by doubles alone", "exact noise", "noise near an edge waits for its bits")
def _hasty_edge(patch: Patch) -> None:
    from sottovoce.mechanisms import exact_normals

    patch.setattr(exact_normals, "_margin", lambda place, reach: 0.0 * place)


@fault("a record's fit to a state rounded past its bound", "tempered chains", "tempered states stay in their window")
def _loose_fit(patch: Patch) -> None:
    from sottovoce.inference.latent import tempered_hidden_markov

    honest = tempered_hidden_markov.whole_misfits

    def loose(counts, emissions, bounds, weight, highest, n):
        return honest(counts, emissions, bounds, weight * (1 + 2.0**-30), highest, n)

    patch.setattr(tempered_hidden_markov, "whole_misfits", loose)


@fault("the rest rounded off in the category with most records", "exact sampling", "cells are the same for all records")
def _rest_by_records(patch: Patch) -> None:
    from sottovoce.mechanisms import exact_rejection

    def rounded(others, m, cells):
        values = [cells.middle(cells.index(x.low)) for x in others]
        values.insert(m, 1 - sum(values))
        return values[:-1]

    patch.setattr(exact_rejection, "_rounded", rounded)


@fault("a cell next to the right one", "exact sampling", OFTEN)
def _next_cell(patch: Patch) -> None:
    from sottovoce.mechanisms import exact_sampling
    from sottovoce.mechanisms.rounding_cells import EvenCells, FloatingCells, UnitCells

    honest = exact_sampling.find_cell
    coarse = {UnitCells: UnitCells(4, -7), FloatingCells: FloatingCells(4, -7), EvenCells: EvenCells(-3)}

    def shifted(function, cells, uniform):
        wide = coarse.get(type(cells), EvenCells(-3))
        k = honest(function, wide, uniform) + 1
        return cells.index(wide.middle(k))

    patch.setattr(exact_sampling, "find_cell", shifted)


@fault(
    "a table that decides edges by doubles alone", "exact sampling", "a table of a law gives the cells that balls give"
)
def _hasty_table(patch: Patch) -> None:
    from sottovoce.mechanisms import cell_table

    patch.setattr(cell_table, "_WORD", 0.0)
    patch.setattr(cell_table._Pieces, "error", lambda self, places, x: 0.0 * x)


@fault("a series cut off before its end", "exact sampling", CELLS)
def _short_series(patch: Patch) -> None:
    from sottovoce.mechanisms import ball_arithmetic as balls

    honest = balls.beta_series
    patch.setattr(balls, "beta_series", lambda a, b, x, bits: _cut(honest(a, b, x, bits)))


def _cut(found):
    low, high, exponent = found
    return low * 9 // 10, high * 9 // 10, exponent


@fault("parameters of a law doubled after the claim", "exact sampling", CELLS)
def _sharper_law(patch: Patch) -> None:
    from dataclasses import replace

    honest = BetaBernoulli.law

    def law(self, statistics, w=1.0, v=1.0):
        return honest(replace(self, alpha=self.alpha / 4, beta=self.beta / 4), statistics, w, v)

    patch.setattr(BetaBernoulli, "law", law)
