"""Faults of the regressions: chains, their certificates, SGD, noisy moments."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audit.faults import Patch, fault
from sottovoce.faces.estimators import pipeline_guard
from sottovoce.inference.regression import (
    best_of,
    certificate,
    exact_sums,
    filtered,
    langevin,
    noisy_moments,
    posterior,
    refined,
    sums,
    unit_rows,
)
from sottovoce.inference.regression import (
    random_stopping as tries,
)
from sottovoce.inference.regression.certificate import Chain
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.inference.regression.refined import RefinedRegression
from sottovoce.inference.regression.residuals import Classes, Line
from sottovoce.inference.regression.row_maps import Flattening
from sottovoce.privacy.best_of import BestOfProfile, RandomStopping
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.records.readings import ClippedRows
from sottovoce.records.readings import design_rows as rows
from sottovoce.theory.amplification.diffusion import OrnsteinUhlenbeck
from sottovoce.theory.amplification.sgd import NoisyProjectedSGD

STEP, EXACT = "a chain takes the step it certifies", "certificates are exact on a quadratic"
ODD = "odd records move a chain no further than others"
NOISE, SGD, MOMENTS = (
    "chains carry the noise they certify",
    "SGD hides its records as it claims",
    "noisy moments cover their sensitivity",
)
LEAKAGE = "no row that reaches a private fit knows of another record"


@fault("step size up to 4/(m+M) certified", "Langevin certificate", STEP)
def _long_step(patch: Patch) -> None:
    patch.setattr(certificate, "largest_step", lambda m, M: 4 / (m + M))


@fault("smoothness of one record instead of n", "Langevin step", STEP)
def _one_record(patch: Patch) -> None:
    honest = Design.smoothness
    patch.setattr(Design, "smoothness", lambda self, n, weight, m: honest(self, 1, weight, m))


@fault("row clipping skipped", "Langevin sampler", STEP, "audit of a Langevin chain")
def _long_rows(patch: Patch) -> None:
    patch.setattr(Design, "clip", lambda self, rows, dtype=None: np.asarray(rows, dtype=float))


@fault("rows cast to single precision before they are clipped", "Langevin sampler", ODD)
def _cast_first(patch: Patch) -> None:
    honest = Design.clip

    def clip(self, rows, dtype=np.float64):
        with np.errstate(all="ignore"):
            cast = np.asarray(rows).astype(dtype)
            if dtype == np.float64:
                return honest(self, cast)
            length = np.sqrt(np.sum(cast * cast, axis=1, keepdims=True))
            return cast * (self.data_norm / np.maximum(length, self.data_norm))

    patch.setattr(Design, "clip", clip)


@fault("cells that are no numbers let through", "regression design", ODD)
def _holes(patch: Patch) -> None:
    patch.setattr(rows, "fill", lambda values, missing: values)


@fault("lengths of rows squared out of range", "regression design", ODD)
def _overflow(patch: Patch) -> None:
    def scale_down(rows, norm, dtype=np.float64):
        with np.errstate(all="ignore"):
            length = np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
            return np.where(length < np.inf, rows * (norm / np.maximum(length, norm)), rows)

    patch.setattr(rows, "scale_down", scale_down)


@fault("statistics of rows half as long", "refined posterior", "statistics know the norm of their rows")
def _short_statistics(patch: Patch) -> None:
    patch.setattr(RefinedRegression, "__post_init__", lambda self: None)


@fault("noise √h instead of √(2h)", "Langevin sampler", STEP, NOISE)
def _weak_kick(patch: Patch) -> None:
    class Weak(langevin._Numbers):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self["kick"] = self["kick"] / math.sqrt(2)

    patch.setattr(langevin, "_Numbers", Weak)


class _Repeating:
    """A generator that hands the first coordinate out for all of them."""

    def __init__(self, rng):
        self._rng = rng

    def standard_normal(self, shape):
        return np.broadcast_to(self._rng.standard_normal((*shape[:-1], 1)), shape)


@fault("noise reused across coordinates of a chain", "Langevin sampler", NOISE)
def _same_noise(patch: Patch) -> None:
    honest = langevin._resident

    def resident(design, rows, numbers, start, steps, rng, progress):
        return honest(design, rows, numbers, start, steps, _Repeating(rng), progress)

    patch.setattr(langevin, "_resident", resident)


@fault("sensitivity of adding, not replacing, a record", "regression design", STEP)
def _add_one(patch: Patch) -> None:
    honest = Design.sensitivity
    patch.setattr(Design, "sensitivity", lambda self, weight: honest(self, weight) / 2)


@fault("missing √ in the certificate", "Langevin certificate", EXACT)
def _square(patch: Patch) -> None:
    honest = Chain.mu.fget
    patch.setattr(Chain, "mu", property(lambda self: honest(self) ** 2))


@fault("certificate of the first step at every step", "Langevin certificate", EXACT)
def _one_step(patch: Patch) -> None:
    honest = Chain.mu.fget
    patch.setattr(Chain, "mu", property(lambda self: honest(replace(self, n_steps=1))))


@fault("many chains charged as one", "regression posteriors", EXACT)
def _chains_free(patch: Patch) -> None:
    patch.setattr(DiffusedRegression, "profile", property(lambda self: GaussianProfile(self.chain.mu)))


@fault("gradient clipping skipped", "noisy SGD", SGD)
def _unclipped_sgd(patch: Patch) -> None:
    patch.setattr(ClippedRows, "clip", lambda self, X, dtype=None: np.asarray(X, dtype=float))


@fault("half the noise", "noisy SGD", SGD)
def _half_noise(patch: Patch) -> None:
    honest = NoisyProjectedSGD._iterate

    def iterate(self, *arguments):
        return honest(replace(self, noise=self.noise / 2), *arguments)

    patch.setattr(NoisyProjectedSGD, "_iterate", iterate)


@fault("later steps counted twice", "noisy SGD", SGD)
def _more_later(patch: Patch) -> None:
    honest = NoisyProjectedSGD._later
    patch.setattr(NoisyProjectedSGD, "_later", lambda self, index: 2 * honest(self, index) + 1)


@fault("sensitivity of X'X alone", "noisy moments", MOMENTS)
def _gram_alone(patch: Patch) -> None:
    patch.setattr(noisy_moments, "joint_sensitivity", lambda c, response, balance: c**2)


@fault("all 53 bits of a chain let out", "Langevin sampler", "regressions keep to a public grid")
def _all_bits_of_a_chain(patch: Patch) -> None:
    patch.setattr(langevin, "to_grid", lambda values, noise: np.asarray(values, dtype=float))


@fault("all 53 bits of the moments let out", "noisy moments", "regressions keep to a public grid")
def _all_bits_of_moments(patch: Patch) -> None:
    patch.setattr(
        noisy_moments, "exact_normals", lambda means, s, rng: means + s * rng.standard_normal(np.shape(means))
    )


ROUNDED, ADDED = "rounding is part of the claim", "mapped rows are added exactly"


@fault("rounding of X'X and X'y left out", "noisy moments", ROUNDED)
def _moments_unrounded(patch: Patch) -> None:
    patch.setattr(noisy_moments.NoisyMoments, "rounding", property(lambda self: 0.0))


@fault("rounding of the mean row left out", "flattening", ROUNDED)
def _flat_unrounded(patch: Patch) -> None:
    patch.setattr(Flattening, "noise", lambda self, n: 2 * self.design.data_norm / self.mu)


@fault("rounding of the steps left out", "noisy SGD", ROUNDED)
def _sgd_unrounded(patch: Patch) -> None:
    patch.setattr(NoisyProjectedSGD, "rounding", property(lambda self: 0.0))


@fault("rounding of the steps left out of a chain", "Langevin certificate", ROUNDED)
def _chain_unrounded(patch: Patch) -> None:
    patch.setattr(posterior, "step_error", lambda *public: 0.0)


@fault("rounding of the mean left out", "diffusions", ROUNDED)
def _diffusion_unrounded(patch: Patch) -> None:
    patch.setattr(OrnsteinUhlenbeck, "sensitivity", property(lambda self: self.system.sensitivity(self.n)))


@fault("mapped rows added in doubles", "refined regression", ADDED)
def _added_in_doubles(patch: Patch) -> None:
    for room in (exact_sums, refined):
        patch.setattr(room, "exact_moments", lambda X, y, largest: (X.mT @ X, X.mT @ y, X.sum(axis=-2)))


LOOKS, LOOK_NOISE = "no record moves a look by more than one", "looks carry the noise they are charged for"
TRIES, PARTS = "the best of several tries costs what is charged", "a try is scored on records that it left out"


@fault("rows not weighed in a look", "filtered regression", LOOKS)
def _unweighed(patch: Patch) -> None:
    patch.setattr(unit_rows.UnitRows, "lengths", lambda self, z: np.ones(len(z)))


@fault("residuals of classes not held", "filtered regression", LOOKS)
def _long_residuals(patch: Patch) -> None:
    honest = Classes.residuals

    def residuals(self, predictors, y, bound, *, consistent):
        return honest(self, predictors, y, 2 * bound, consistent=consistent)

    patch.setattr(Classes, "residuals", residuals)


@fault("residuals of lines not held", "filtered regression", LOOKS)
def _long_lines(patch: Patch) -> None:
    patch.setattr(Line, "residuals", lambda self, predictors, y, bound, *, consistent: y[:, None] - predictors)


@fault("the information not counted in a first look", "filtered regression", LOOKS)
def _free_information(patch: Patch) -> None:
    honest = unit_rows.UnitRows.first_look

    def first_look(self, *arguments):
        asked = honest(self, *arguments)
        return replace(asked, blocks=(asked.blocks[0], *((size, reach / 2) for size, reach in asked.blocks[1:])))

    patch.setattr(unit_rows.UnitRows, "first_look", first_look)


def _full_blocks(patch: Patch, scale: float, part: float) -> None:
    honest = unit_rows.UnitRows.full_look

    def full_look(self, *arguments):
        asked = honest(self, *arguments)
        (size, reach), *grams = asked.blocks
        return replace(asked, blocks=((size, reach * scale), *((size, reach * part) for size, reach in grams)))

    patch.setattr(unit_rows.UnitRows, "full_look", full_look)


@fault("residuals of a full look charged as those at 0", "filtered regression", LOOKS)
def _full_residuals(patch: Patch) -> None:
    _full_blocks(patch, 0.5, 1.0)


@fault("the information not counted in a full look", "filtered regression", LOOKS)
def _free_full_information(patch: Patch) -> None:
    _full_blocks(patch, 1.0, 0.5)


@fault("all looks charged as one", "filtered regression", LOOK_NOISE)
def _one_look(patch: Patch) -> None:
    patch.setattr(filtered, "total_mu", lambda mus: max(mus))


@fault("half the noise on a look", "looks", LOOK_NOISE)
def _half_a_look(patch: Patch) -> None:
    honest = sums.exact_normals
    patch.setattr(sums, "exact_normals", lambda total, scale, rng: honest(total, scale / 2, rng))


@fault("rounding of rows left out of a sum's reach", "filtered regression", LOOKS)
def _free_rounding(patch: Patch) -> None:
    patch.setattr(unit_rows.UnitRows, "_longest", lambda self, numbers: 1.0)


@fault("noise of a look in doubles", "looks", LOOK_NOISE)
def _between_steps(patch: Patch) -> None:
    patch.setattr(sums, "exact_normals", lambda total, scale, rng: total + scale * rng.standard_normal(total.shape))


@fault("choosing between tries charged nothing", "private search", TRIES)
def _free_choice(patch: Patch) -> None:
    patch.setattr(BestOfProfile, "pure", lambda self: self.one.pure())


@fault("more tries than the law says", "private search", TRIES)
def _more_tries(patch: Patch) -> None:
    honest = RandomStopping.probability
    patch.setattr(RandomStopping, "probability", lambda self, k: honest(self, np.maximum(np.asarray(k) - 1, 1)))


@fault("the number of tries drawn in doubles", "private search", TRIES)
def _tries_in_doubles(patch: Patch) -> None:
    def drawn(law: RandomStopping, source) -> int:
        left, k = source.random(), 1
        while left >= (weight := float(law.probability(np.array(k)))) and k < 1000 * law.mean:
            left, k = left - weight, k + 1
        return k

    patch.setattr(tries, "drawn", drawn)


@fault("scored on the records it was fitted to", "private search", PARTS)
def _same_records(patch: Patch) -> None:
    honest = best_of.BestRegression._tries

    def twice(self, seen, rng, count):
        order = rng.permutation(40)  # ten of them twice
        first = np.append(order, order[:10])
        return honest(self, replace(seen, X=seen.X[first], y=seen.y[first]), rng, count)

    patch.setattr(best_of.BestRegression, "_tries", twice)


@fault("no noise on a score", "private search", PARTS)
def _bare_score(patch: Patch) -> None:
    patch.setattr(best_of, "exact_normals", lambda total, scale, rng: total)


@fault("a step that needs no fit taken for one that reads single rows", "pipelines", LEAKAGE)
def _stateless(patch: Patch) -> None:
    honest = pipeline_guard.learns_nothing

    def by_tags(step, *, fitted=False):
        return honest(step, fitted=fitted) or not step.__sklearn_tags__().requires_fit

    patch.setattr(pipeline_guard, "learns_nothing", by_tags)


@fault("whatever is frozen taken for public", "pipelines", LEAKAGE)
def _frozen(patch: Patch) -> None:
    honest = pipeline_guard.learns_nothing
    patch.setattr(pipeline_guard, "learns_nothing", lambda step, *, fitted=False: fitted or honest(step))


@fault("no meta-estimator looked for but a pipeline", "pipelines", LEAKAGE)
def _pipelines_alone(patch: Patch) -> None:
    patch.setattr(pipeline_guard, "_is_estimator", lambda owner: pipeline_guard._kind(owner).endswith("Pipeline"))
