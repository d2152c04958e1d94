r"""One likelihood over all looks of a regression: what each released, given the law of the rows and the coefficients.

With pseudo-rows x of weights w that are a function of the latents (`RowLaw`), z = Tx in the coordinates of look ℓ,
v its weights, c its centre, ρ its (cut) residual and N the records that are complete, the sums it released are normal:

.. math::
    \hat s_\ell &\sim N\Bigl(N\sum w v z\,E[\rho(y - \mu(cz))],\; J_{\ell\ell} + \sigma_\ell^2 I + \Omega_\ell\Bigr), \\
    \hat H_\ell &\sim N\Bigl(N\sum w v \mu'(cz) zz',\; \tau_\ell^2\Bigr), \qquad
    \operatorname{cov}(\hat s_\ell, \hat s_m) = J_{\ell m} + \tau^2 \Psi_{\ell m},

where J = NΣw v_ℓ v_m cov(ρ_ℓ, ρ_m) z_ℓ z_m', for looks saw the same records, Ω is what pseudo-rows get wrong on the way
from the centre to θ, and τ²Ψ what a misspecified formula moves: the part of n(A_ℓm − A_ℓ A⁻¹ A_m') that an error of the
mean, of any shape, leaves after the best θ. Latents are standard normal before anything is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy import linalg, special

from sottovoce.inference.regression.coefficient_prior import CoefficientPrior
from sottovoce.inference.regression.count_law import CountLaw
from sottovoce.inference.regression.expected_sums import (
    ExpectedSums,
    LookKernels,
    ObservedLook,
    kernels_of,
    multinomial_kernels,
)
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.person_averages import PersonAverages
from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.residual_law import ResidualLaw, binary_residuals
from sottovoce.inference.regression.row_law import NODES, STRAIGHT_NODES, RowLaw
from sottovoce.inference.regression.row_sums import Moving, SumDerivatives
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look

__all__ = ["LONG", "JointLikelihood", "Quadratic"]

LONG, _MATRICES = 24, 2
"""Of rows of more entries than this, the matrices are read of the two looks that cost most alone: the time goes with
the fourth power of how many entries there are, and those before them tell a sixth of what all tell of the rows."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """−log density near a place: its height, gradient and Gauss–Newton metric, and θ with its derivative there.

    `logs` is −½ log of the determinants of the covariances, `chi` the squares of how far what was released lies from
    what is expected, in standard deviations.
    """

    height: float
    chi: float
    gradient: Floats
    metric: Floats
    logs: float
    theta: Floats
    theta_slopes: Floats


class JointLikelihood:
    """The observation model of all looks of one regression.

    Parameters
    ----------
    formula, n
        What was asked, of how many records, or persons.
    looks
        What was released.
    priors
        Of everything but θ, whose prior the formula says.
    """

    def __init__(
        self,
        formula: Formula,
        n: float,
        looks: Sequence[ReleasedLook],
        priors: JointPriors | None = None,
        *,
        secret: bool = False,
    ) -> None:
        self.formula, self.n, self.priors, self.secret = formula, n, priors or JointPriors(), secret
        self.linear, self.counts = formula.family == "linear", formula.family == "poisson"
        self.law = self._law(STRAIGHT_NODES if self.linear else NODES)
        varies, averaged = self.linear or self.counts, formula.averaged
        # Of averages the last look that is near to θ tells how much they vary: farther off a mean part does, too.
        nearest = max((k for k, look in enumerate(looks) if "meat" in look.sums and "score" in look.sums), default=-1)
        scored = [k for k, look in enumerate(looks) if "score" in look.sums]
        spent = sorted(scored, key=lambda k: looks[k].share if "information" in looks[k].sums else 0.0)
        skipped = spent[:-_MATRICES] if formula.encoding.size > LONG else []
        self.looks = [
            ObservedLook(
                look,
                *(
                    name in look.sums and k not in skipped and kept
                    for name, kept in (("information", True), ("meat", k == nearest if averaged else varies))
                ),
            )
            for k, look in enumerate(looks)
            if varies or k in scored
        ]
        self.scored = [place for place, look in enumerate(self.looks) if look.has_score]
        self.d, self.outputs = formula.encoding.size, formula.model.outputs
        self.upper = np.triu_indices(self.d)
        first = self.law.size
        self.eta = slice(first, first + self.d * self.outputs)
        self.missing = self.eta.stop
        """The place of the share of records with a missing value."""
        self.shape = slice(self.missing + 1, self.missing + 1 + (3 if self.linear else 2 if self.counts else 0))
        """The places of the law of residuals or counts."""
        self.group_spreads = slice(self.shape.stop, self.shape.stop + len(formula.groups))
        """The places of how far the effects of each group spread."""
        alike = slice(self.group_spreads.stop, self.group_spreads.stop + (self.d if averaged else 0))
        self.size = alike.stop
        self.coefficients = CoefficientPrior(formula, self.law, self.priors, self.eta, self.group_spreads, self.size)
        constant = next((i for i, entry in enumerate(formula.encoding.entries) if not entry), None)
        self.averages = PersonAverages(alike, constant) if averaged else None
        self.score = np.concatenate([look.score for look in self.looks])
        self.matrices = np.concatenate([look.matrices for look in self.looks])
        self.normals, self.odds, self.stretches = self.law.points(None)

    def _law(self, nodes: int) -> RowLaw:
        return RowLaw(self.formula.encoding, self.priors, nodes)

    def aim(self, u: Floats) -> None:
        """Lay the pseudo-rows along the linear predictor at u: of several, the way in which they go farthest."""
        pseudo = self.law.rows(u, *self.law.points(None)[:2])
        theta, _ = self.coefficients.theta(u, pseudo)
        directions = np.array([self.law.direction(u, part) for part in theta.reshape(self.outputs, self.d)])
        ahead = directions[0] if self.outputs == 1 or not directions.size else np.linalg.svd(directions)[2][0]
        self.normals, self.odds, self.stretches = self.law.points(ahead)
        if self.averages is not None:
            self.averages.mean = pseudo.weights @ pseudo.rows

    def place(self, u: Floats) -> tuple[Floats, Floats]:
        """Return θ and its derivative."""
        pseudo = self.law.rows(u, self.normals, self.odds)
        theta, root = self.coefficients.theta(u, pseudo)
        return theta, self.coefficients.slopes(u, pseudo, theta, root)

    # What is expected.

    def _whole(self, u: Floats) -> tuple[float, float]:
        """Return the part of n records that tell, without missing values, and its derivative; of a secret n, the number
        of records beside the first guess of it.
        """
        if self.secret:
            part = math.exp(self.priors.secret_log_sd * u[self.missing])
            return part, self.priors.secret_log_sd * part
        at = special.ndtri(self.priors.missing_median) + self.priors.missing_sd * u[self.missing]
        slope = -self.priors.missing_sd * math.exp(-at * at / 2) / math.sqrt(2 * math.pi)
        return float(special.ndtr(-at)), slope

    def records_known(self, u: Floats) -> float:
        """Return the part of n records that tell."""
        return self._whole(u)[0]

    def residual_law(self, u: Floats) -> ResidualLaw:
        """Return the law of a linear regression's residuals."""
        return ResidualLaw.of(u[self.shape], self.priors)

    def count_law(self, u: Floats) -> CountLaw:
        """Return the law of the counts that a Poisson regression explains."""
        return CountLaw.of(u[self.shape], int(self.formula.response.high), self.priors)  # type: ignore[attr-defined]

    def _kernels(self, u: Floats, t1: Floats, *, slopes: bool) -> Callable[[Look, Floats], LookKernels]:
        """Return what gives the kernels of a look, of the predictors at its centre."""
        if self.outputs > 1:
            mean = self.formula.model.mean
            truth = mean(t1)
            return lambda look, t0: multinomial_kernels(mean(t0), truth)
        if self.counts:
            counts = self.count_law(u).at(t1[:, 0], slopes=slopes)
            return lambda look, t0: kernels_of(counts.kernels(look.model, t0[:, 0]))  # type: ignore[arg-type]
        if self.linear:
            law = self.residual_law(u)
            return lambda look, t0: kernels_of(law.kernels(look.cap, look.beyond, t1[:, 0] - t0[:, 0]))
        return lambda look, t0: kernels_of(binary_residuals(look.model, t0[:, 0], t1[:, 0], slopes=slopes))

    def moments(self, u: Floats, *, slopes: bool = True, rows_held: bool = False) -> ExpectedSums:
        """Return what the looks are expected to have released, and the derivatives of that by u, or by all of it but
        the law of rows.
        """
        pseudo = self.law.rows(u, self.normals, self.odds, slopes=slopes and not rows_held)
        pseudo = pseudo.held() if rows_held else pseudo
        theta, root = self.coefficients.theta(u, pseudo)
        x, thetas = pseudo.rows, theta.reshape(self.outputs, self.d)
        complete, dwhole = self._whole(u)
        records = self.n * complete * pseudo.weights
        moved = self.coefficients.slopes(u, pseudo, theta, root) if slopes else np.zeros((len(theta), 0))
        each = moved.reshape(*thetas.shape, -1)
        sums = SumDerivatives(pseudo, self.upper, each, self.missing, dwhole / complete)
        truth = [pseudo.along(part) for part in thetas] if slopes else []
        kernels, averages = self._kernels(u, x @ thetas.T, slopes=slopes), self.averages
        turn = None if averages is None else averages.turn(u)
        scores, matrices, zs, vs = [np.zeros(0)], [np.zeros(0)], [], []
        score_slopes, matrix_slopes = [np.zeros((0, self.size))], [np.zeros((0, self.size))]
        for observed in self.looks:
            look = observed.released.look
            T = look.matrix
            z = x @ T.T
            squares = (z * z).sum(axis=1)
            v = look.weights(squares)
            score, information, variation = kernels(look, z @ look.predictors.T)
            zs.append(z)
            vs.append(v)
            if observed.has_score:
                scores += [z.T @ (records * v * kernel.value) for kernel in score]
            parts = [(kernel, 1, T) for kernel in information] * observed.has_information
            parts += [(kernel, 2, T if turn is None else T @ turn) for kernel in variation] * observed.has_meat
            rows = [z if matrix is T else x @ matrix.T for *_, matrix in parts]
            products = [item[:, self.upper[0]] * item[:, self.upper[1]] for item in rows]
            for (kernel, power, _), product in zip(parts, products, strict=True):
                matrices.append(product.T @ (records * v**power * kernel.value))
            if not slopes:
                continue
            # Weights fall by how much a step lengthens a row.
            step = 1e-6 * np.maximum(squares, 1e-12)
            dv = (look.weights(squares + step) - look.weights(np.maximum(squares - step, 0.0))) / (2 * step)
            length = (dv / v) * pseudo.along(2 * (z @ T).T)
            centre = [pseudo.along(T.T @ part) for part in look.predictors]
            if observed.has_score:
                moving = Moving(z, T, length, centre, truth)
                score_slopes += [sums.of_rows(records * v, kernel, moving) for kernel in score]
            for (kernel, power, matrix), item, product in zip(parts, rows, products, strict=True):
                moving, weights = Moving(item, matrix, length, centre, truth), records * v**power
                derived = sums.of_products(product, weights, kernel, moving, power)
                if averages is not None and matrix is not T:
                    plain = x.T @ (x * (weights * kernel.value)[:, None])
                    derived[:, averages.places] = self._turned_slopes(T, matrix, averages.slopes(u), plain)
                matrix_slopes.append(derived)
        result = np.concatenate(scores), np.concatenate(matrices)
        if not slopes:
            return ExpectedSums(pseudo, theta, root, *result, None, None, None, zs, vs)
        derivatives = np.concatenate(score_slopes), np.concatenate(matrix_slopes), moved
        return ExpectedSums(pseudo, theta, root, *result, *derivatives, zs, vs)

    def _turned_slopes(self, T: Floats, turn: Floats, slopes: Sequence[Floats], plain: Floats) -> Floats:
        """Return the upper triangles of T(dG H G' + G H dG')T', one a column, of H and of TG."""
        halves = [T @ slope @ plain @ turn.T for slope in slopes]
        return np.stack([(half + half.T)[self.upper] for half in halves], axis=1)

    # How it varies.

    def matrix_sds(self, moments: ExpectedSums) -> Floats:
        """Return the standard deviations of what the matrices were released as about what is expected."""
        i, j = self.upper
        at, derived = 0, [np.zeros(0)]
        pairs = list(combinations_with_replacement(range(self.outputs), 2))
        for observed in self.looks:
            noise = observed.released.noise
            for name in observed.named:
                blocks = moments.matrices[at : at + len(pairs) * len(i)].reshape(len(pairs), len(i))
                at += blocks.size
                diagonals = {k: np.maximum(blocks[pairs.index((k, k))][i == j], 0.0) for k in range(self.outputs)}
                error = self.priors.nugget**2 + (2.0 if name == "information" else 6.0) / self.n
                if name == "meat":
                    error += self.counts * self.priors.count_variation_error**2
                    error += (self.averages is not None) * self.priors.person_variation_error**2
                for (k, m), half in zip(pairs, observed.halves, strict=True):
                    size = diagonals[k][i] * diagonals[m][j]
                    derived.append(np.sqrt(half * (noise[name] ** 2 + error * size)))
        return np.concatenate(derived)

    def _pulls_together(self, u: Floats, t1: Floats, offs: list[Floats], looks: list[Look]) -> Floats:
        """Return how what a record pulls with varies together: (looks, looks, outputs, outputs, rows), or ones."""
        if self.linear:
            law = self.residual_law(u)
            cuts = [(look.cap, look.beyond) for look in looks]
            return law.covariances(cuts, [off[:, 0] for off in offs])[:, :, None, None]
        if self.counts:
            counts = self.count_law(u).at(t1[:, 0], slopes=False)
            return counts.covariances([look.model for look in looks])[:, :, None, None]  # type: ignore[misc]
        return np.moveaxis(self.variance(t1), 0, -1)[None, None]

    def _scores_together(
        self, u: Floats, t1: Floats, records: Floats, scaled: Sequence[Floats], offs: list[Floats], looks: list[Look]
    ) -> Floats:
        """Return the covariance of the scores of records: (looks, outputs, entries, looks, outputs, entries)."""
        K, d = self.outputs, self.d
        varies = np.broadcast_to(
            records * self._pulls_together(u, t1, offs, looks), (len(looks), len(looks), K, K, len(records))
        )
        full = np.empty((len(looks), K, d, len(looks), K, d))
        for a, b in combinations_with_replacement(range(len(looks)), 2):
            for k in range(K):
                for m in range(K):
                    part = scaled[a].T @ (scaled[b] * varies[a, b, k, m][:, None])
                    full[a, k, :, b, m, :] = part
                    full[b, m, :, a, k, :] = part.T
        return full

    def without_noise(self, information: Floats, rows: Floats, t: Floats, records: Floats) -> Floats:
        """Return the inverse of the covariance that as many records leave: their information."""
        del rows, t, records
        return information

    def score_covariance(self, u: Floats, moments: ExpectedSums, misfit: Floats, tau: float) -> Floats:
        """Return the covariance of all scores: records', noise, misfit, and what pseudo-rows cannot tell."""
        pseudo, K, d = moments.pseudo, self.outputs, self.d
        records = self.n * self._whole(u)[0] * pseudo.weights
        t1 = pseudo.rows @ moments.theta.reshape(K, d).T
        looks = [self.looks[place].released.look for place in self.scored]
        zs, vs = [moments.z[place] for place in self.scored], [moments.v[place] for place in self.scored]
        offs = [t1 - z @ look.predictors.T for z, look in zip(zs, looks, strict=True)]
        alike = None if self.averages is None else self.averages.turn(u)
        pulls = zs if alike is None else [pseudo.rows @ (look.matrix @ alike).T for look in looks]
        scaled = [pull * v[:, None] for pull, v in zip(pulls, vs, strict=True)]
        full = self._scores_together(u, t1, records, scaled, offs, looks)
        derived = full.reshape(len(self.score), len(self.score))
        error, at = self.priors.nugget**2 + 2 / self.n, 0
        for place, look, z, v, off in zip(self.scored, looks, zs, vs, offs, strict=True):
            steep = self._steepness(look, z @ look.predictors.T)
            weighed = (records * v)[:, None] * steep
            size = float((weighed * off * off).sum()) / (K * d)
            noise = self.looks[place].released.noise["score"]
            ahead = np.arange(at, at + K * d)
            derived[ahead, ahead] += noise**2 + error * size * (weighed.T @ (z * z)).ravel()
            at += K * d
        scale = self.residual_law(u).variance if self.linear else 1.0
        return np.asarray(derived + tau**2 * scale * misfit)

    def _steepness(self, look: Look, t: Floats) -> Floats:
        """Return the slope of the mean of what a look explains, of each output by its predictor."""
        if self.linear:
            return np.ones_like(t)
        if self.outputs > 1:
            p = self.formula.model.mean(t)
            return np.asarray(p * (1 - p))
        return np.asarray((look.model if self.counts else self.formula.model).slope(t[:, 0]))[:, None]

    def variance(self, t: Floats) -> Floats:
        """Return the variance of responses of two values or several, (rows, outputs, outputs)."""
        p = self.formula.model.mean(t)
        if self.outputs > 1:
            return self.formula.model.slope(t)
        return np.asarray(p * (1 - p))[:, :, None]

    def information(self, t: Floats) -> Floats:
        """Return the slope of the mean of what is explained, with nothing cut: (rows, outputs, outputs)."""
        if self.linear:
            return np.ones_like(t)[:, :, None]
        if self.counts:
            return np.asarray(self.formula.model.expected(t[:, 0]))[:, None, None]
        return self.formula.model.slope(t) if self.outputs > 1 else self.formula.model.slope(t[:, 0])[:, None, None]

    # Densities.

    def log_density(self, u: Floats, misfit: Floats, tau: float) -> float:
        """Return the log of the joint density of the latents and of what was released."""
        moments = self.moments(u, slopes=False)
        try:
            root = linalg.cholesky(self.score_covariance(u, moments, misfit, tau), lower=True)
        except linalg.LinAlgError:
            return -math.inf
        off = linalg.solve_triangular(root, self.score - moments.scores, lower=True)
        sds = self.matrix_sds(moments)
        away = (self.matrices - moments.matrices) / sds
        derived = -(off @ off + away @ away + u @ u) / 2 - np.log(np.diag(root)).sum() - np.log(sds).sum()
        return float(derived) if math.isfinite(derived) else -math.inf

    def gauss_newton(self, u: Floats, misfit: Floats, tau: float, moments: ExpectedSums | None = None) -> Quadratic:
        """Return −log density near u as a sum of squares, covariances held; moments are those of u, if known."""
        moments = self.moments(u) if moments is None else moments
        assert moments.score_slopes is not None and moments.matrix_slopes is not None
        assert moments.theta_slopes is not None
        root = linalg.cholesky(self.score_covariance(u, moments, misfit, tau), lower=True)
        sds = self.matrix_sds(moments)
        turned = linalg.solve_triangular(root, moments.score_slopes, lower=True)
        scaled = moments.matrix_slopes / sds[:, None]
        off, away = self._away(moments, root, sds)
        gradient = u - turned.T @ off - scaled.T @ away
        metric = _gram(np.vstack([turned, scaled]))
        metric[np.diag_indices(self.size)] += 1.0
        chi = float(off @ off + away @ away)
        height = (chi + float(u @ u)) / 2
        logs = -np.log(np.diag(root)).sum() - np.log(sds).sum()
        return Quadratic(height, chi, gradient, metric, float(logs), moments.theta, moments.theta_slopes)

    def _away(self, moments: ExpectedSums, root: Floats, sds: Floats) -> tuple[Floats, Floats]:
        """Return how far what was released lies from what is expected, in standard deviations."""
        off = linalg.solve_triangular(root, self.score - moments.scores, lower=True, check_finite=False)
        return np.asarray(off), (self.matrices - moments.matrices) / sds


def _gram(values: Floats) -> Floats:
    """Return V'V, of which BLAS computes one half."""
    upper = linalg.blas.dsyrk(1.0, np.asarray(values, order="C").T)
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)
