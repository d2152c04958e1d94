r"""One likelihood over all looks of a regression: what each released, given the law of the rows and the coefficients.

With pseudo-rows x of weights w that are a function of the latents (`RowLaw`), z = Tx in the coordinates of look ℓ,
v its weights, c its centre, ρ its (cut) residual and N the records that are whole, the sums it released are normal:

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, special

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.residual_law import Kernel, ResidualLaw, binary_residuals
from sottovoce.inference.regression.row_law import PseudoRows, RowLaw
from sottovoce.privacy.numbers import Floats

__all__ = ["JointLikelihood", "Quadratic"]

_WIDER = 2.0
"""The prior of an intercept, and of a flag, beside that of a slope: as in `Formula.prior_sd`."""


@dataclass(frozen=True, eq=False)
class _Observed:
    """A look as the likelihood needs it, in the order score, upper triangles of information and meat."""

    released: ReleasedLook
    has_information: bool
    has_meat: bool

    @cached_property
    def score(self) -> Floats:
        return np.asarray(self.released.sums["score"])

    @cached_property
    def matrices(self) -> Floats:
        names = ["information"] * self.has_information + ["meat"] * self.has_meat
        upper = np.triu_indices(len(self.score))
        return np.concatenate([np.zeros(0), *(self.released.sums[name][upper] for name in names)])


@dataclass(frozen=True, eq=False)
class _Moments:
    """What is expected at one place of the latents; derivatives where they were asked for."""

    made: PseudoRows
    theta: Floats
    root: Floats
    scores: Floats
    matrices: Floats
    score_slopes: Floats | None
    matrix_slopes: Floats | None
    theta_slopes: Floats | None
    z: list[Floats]
    v: list[Floats]


@dataclass(frozen=True, eq=False)
class Quadratic:
    """−log density near a place: its height, gradient and Gauss–Newton metric, and θ with its derivative there.

    `logs` is −½ log of the determinants of the covariances, `root` and `sds` are those of scores and of matrices.
    """

    height: float
    gradient: Floats
    metric: Floats
    logs: float
    root: Floats
    sds: Floats
    theta: Floats
    theta_slopes: Floats


class JointLikelihood:
    """The observation model of all looks of one logistic, probit or linear regression.

    Parameters
    ----------
    formula, n
        What was asked, of how many records.
    looks
        What was released.
    priors
        Of everything but θ, whose prior the formula says.
    """

    def __init__(
        self, formula: Formula, n: int, looks: Sequence[ReleasedLook], priors: JointPriors | None = None
    ) -> None:
        self.formula, self.n, self.priors = formula, n, priors or JointPriors()
        self.law = RowLaw(formula.encoding, self.priors)
        self.linear = formula.family == "linear"
        self.looks = [
            _Observed(look, "information" in look.sums, self.linear and "meat" in look.sums)
            for look in looks
            if "score" in look.sums
        ]
        self.d = formula.encoding.size
        self.upper = np.triu_indices(self.d)
        first = self.law.size
        self.eta = slice(first, first + self.d)
        self.missing = first + self.d
        """The place of the share of records with a missing value; after it those of the residuals' law."""
        self.size = first + self.d + 1 + (2 if self.linear else 0)
        self.score = np.concatenate([look.score for look in self.looks])
        self.matrices = np.concatenate([look.matrices for look in self.looks])
        self.normals, self.odds, self.stretches = self.law.points(None)
        entries = formula.encoding.entries
        self._constant = next((i for i, entry in enumerate(entries) if not entry), None)
        prior = formula.prior or 0.0
        slopes = sum(bool(entry) for entry in entries)
        self._slope_sd = min(prior / 2, prior / math.sqrt(max(slopes, 1)))
        self._level_sd = _WIDER * prior
        self._numbers = formula.encoding.numbers & ~formula.encoding.ones

    def aim(self, u: Floats) -> None:
        """Lay the pseudo-rows along the linear predictor at u."""
        made = self.law.rows(u, *self.law.points(None)[:2])
        theta, _ = self._theta(u, made)
        self.normals, self.odds, self.stretches = self.law.points(self.law.direction(u, theta))

    # θ.

    def _theta(self, u: Floats, made: PseudoRows) -> tuple[Floats, Floats]:
        """Return θ = Bη and B: a slope counts by its column's spread, an intercept is that of a mean row."""
        mean = made.weights @ made.rows
        spread = np.sqrt(np.maximum(made.weights @ (made.rows - mean) ** 2, 1e-14))
        sd = np.where(self._numbers, self._slope_sd / spread, _WIDER * self._slope_sd)
        root = np.diag(sd)
        if self._constant is not None:
            root[self._constant] = -mean * sd
            root[self._constant, self._constant] = self._level_sd
        return root @ u[self.eta], root

    def _theta_slopes(self, u: Floats, made: PseudoRows, theta: Floats, root: Floats) -> Floats:
        """Return dθ/du."""
        mean = made.weights @ made.rows
        off = made.rows - mean
        square = np.maximum(made.weights @ off**2, 1e-14)
        found = np.zeros((self.d, self.size))
        found[:, self.eta] = root
        dmean, dlog = np.zeros((self.d, self.law.size)), np.zeros((self.d, self.law.size))
        for slopes, (moved, block) in zip(made.slopes, made.moves, strict=True):
            weighed = made.weights[:, None] * moved
            dmean[:, block] = slopes.T @ weighed
            dlog[:, block] = (slopes * off).T @ weighed / square[:, None]
        tilts = made.weights[:, None] * made.tilts
        dmean[:, self.law.tilted] = made.rows.T @ tilts
        dlog[:, self.law.tilted] = (off**2).T @ tilts / square[:, None] / 2
        dlog[~self._numbers] = 0.0
        slopes_ = -theta[:, None] * dlog
        if self._constant is not None:
            at = self._constant
            slopes_[at] = 0.0
            others = np.arange(self.d) != at
            slopes_[at] = -(dmean[others] * theta[others, None] + mean[others, None] * slopes_[others]).sum(axis=0)
        found[:, : self.law.size] = slopes_
        return found

    def place(self, u: Floats) -> tuple[Floats, Floats]:
        """Return θ and its derivative."""
        made = self.law.rows(u, self.normals, self.odds)
        theta, root = self._theta(u, made)
        return theta, self._theta_slopes(u, made, theta, root)

    # What is expected.

    def _whole(self, u: Floats) -> tuple[float, float]:
        """Return the share of records without missing values, and its derivative."""
        at = special.ndtri(self.priors.missing_median) + self.priors.missing_sd * u[self.missing]
        slope = -self.priors.missing_sd * math.exp(-at * at / 2) / math.sqrt(2 * math.pi)
        return float(special.ndtr(-at)), slope

    def residual_law(self, u: Floats) -> ResidualLaw:
        """Return the law of a linear regression's residuals."""
        return ResidualLaw.of(u[self.missing + 1], u[self.missing + 2], self.priors)

    def moments(self, u: Floats, *, slopes: bool = True) -> _Moments:
        """Return what the looks are expected to have released, and the derivatives of that by u."""
        made = self.law.rows(u, self.normals, self.odds)
        theta, root = self._theta(u, made)
        x, w = made.rows, made.weights
        moved = self._theta_slopes(u, made, theta, root) if slopes else None
        whole, dwhole = self._whole(u)
        t1, many = x @ theta, self.n * whole * w
        law = self.residual_law(u) if self.linear else None
        scores, matrices, score_slopes, matrix_slopes, zs, vs = [], [], [], [], [], []
        for observed in self.looks:
            look = observed.released.look
            z, c = x @ look.matrix.T, look.predictors[0]
            squares, t0 = (z * z).sum(axis=1), z @ c
            v = look.weights(squares)
            if law is None:
                kernels = binary_residuals(look.model, t0, t1, slopes=slopes)
            else:
                kernels = law.kernels(look.cap, look.beyond, t1 - t0)
            zs.append(z)
            vs.append(v)
            parts = [(kernels.mean, v, 1)]
            parts += [(kernels.kept, v, 2)] if observed.has_information else []
            parts += [(kernels.square, v * v, 2)] if observed.has_meat else []
            scores.append(z.T @ (many * v * kernels.mean[0]))
            products = z[:, self.upper[0]] * z[:, self.upper[1]] if len(parts) > 1 else np.zeros((len(z), 0))
            matrices += [products.T @ (many * part * kernel[0]) for kernel, part, _ in parts[1:]]
            if not slopes or moved is None:
                continue
            # Weights fall by how much a step lengthens a row.
            step = 1e-6 * np.maximum(squares, 1e-12)
            dv = (look.weights(squares + step) - look.weights(np.maximum(squares - step, 0.0))) / (2 * step)
            ahead = many, dwhole / whole, theta, moved
            for kernel, weight, order in parts:
                dweight = dv if weight is v else 2 * v * dv
                by = self._slopes(observed, made, z, (weight, dweight), kernel, order, *ahead)
                (score_slopes if order == 1 else matrix_slopes).append(by)
        stacked = [np.concatenate(part) if part else None for part in (score_slopes, matrix_slopes)]
        none = np.zeros((0, self.size))
        return _Moments(
            made,
            theta,
            root,
            np.concatenate(scores),
            np.concatenate(matrices) if matrices else np.zeros(0),
            stacked[0],
            (none if stacked[1] is None else stacked[1]) if slopes else None,
            moved,
            zs,
            vs,
        )

    def _slopes(
        self,
        observed: _Observed,
        made: PseudoRows,
        z: Floats,
        weights: tuple[Floats, Floats],
        kernel: Kernel,
        order: int,
        many: Floats,
        dlog: float,
        theta: Floats,
        moved: Floats,
    ) -> Floats:
        """Return the derivative by u of N Σw v·kernel·z, or of that of zz' where the order is 2.

        `weights` are v and its derivative by the squared length of a row, `many` N·w, `dlog` the derivative of log N,
        `moved` dθ/du.
        """
        look = observed.released.look
        (weight, dweight), (value, by_centre, by_truth, by_law) = weights, kernel
        base = z if order == 1 else z[:, self.upper[0]] * z[:, self.upper[1]]
        weighed = base * (many * weight)[:, None]
        found = (weighed.T @ (by_truth[:, None] * made.rows)) @ moved
        for k, by in enumerate(by_law):
            found[:, self.missing + 1 + k] += weighed.T @ by
        found[:, self.missing] += weighed.T @ value * dlog
        found[:, self.law.tilted] += weighed.T @ (value[:, None] * made.tilts)
        for dx, (drawn, block) in zip(made.slopes, made.moves, strict=True):
            dz = dx @ look.matrix.T
            dt0, dt1, dsquare = dz @ look.predictors[0], dx @ theta, 2 * (z * dz).sum(axis=1)
            rate = weight * (by_centre * dt0 + by_truth * dt1) + dweight * dsquare * value
            each = base * rate[:, None]
            if order == 1:
                each += dz * (weight * value)[:, None]
            else:
                both = dz[:, self.upper[0]] * z[:, self.upper[1]] + z[:, self.upper[0]] * dz[:, self.upper[1]]
                each += both * (weight * value)[:, None]
            found[:, block] += each.T @ (many[:, None] * drawn)
        return found

    # How it varies.

    def matrix_sds(self, moments: _Moments) -> Floats:
        """Return the standard deviations of what the matrices were released as about what is expected."""
        i, j = self.upper
        half, at, found = np.where(i == j, 1.0, 0.5), 0, []
        error = self.priors.nugget**2
        for observed in self.looks:
            noise = observed.released.noise
            for name, more in (("information", 2.0), ("meat", 6.0)):
                if name == "information" and not observed.has_information:
                    continue
                if name == "meat" and not observed.has_meat:
                    continue
                part = moments.matrices[at : at + len(i)]
                at += len(i)
                diagonal = np.maximum(part[i == j], 0.0)
                size = diagonal[i] * diagonal[j]
                found.append(np.sqrt(half * (noise[name] ** 2 + (error + more / self.n) * size)))
        return np.concatenate(found) if found else np.zeros(0)

    def score_covariance(self, u: Floats, moments: _Moments, misfit: Floats, tau: float) -> Floats:
        """Return the covariance of all scores: records', noise, misfit, and what pseudo-rows cannot tell."""
        made, whole = moments.made, self._whole(u)[0]
        many = self.n * whole * made.weights
        t1 = made.rows @ moments.theta
        L, d = len(self.looks), self.d
        if self.linear:
            law = self.residual_law(u)
            offs = [t1 - z @ look.released.look.predictors[0] for z, look in zip(moments.z, self.looks, strict=True)]
            cuts = [(look.released.look.cap, look.released.look.beyond) for look in self.looks]
            varies = law.covariances(cuts, offs)
        else:
            mean = self.formula.model.mean(t1)
            varies = np.broadcast_to(mean * (1 - mean), (L, L, len(t1)))
        scaled = [z * v[:, None] for z, v in zip(moments.z, moments.v, strict=True)]
        found = np.empty((L * d, L * d))
        for a in range(L):
            for b in range(a, L):
                part = scaled[a].T @ (scaled[b] * (many * varies[a, b])[:, None])
                found[a * d : (a + 1) * d, b * d : (b + 1) * d] = part
                found[b * d : (b + 1) * d, a * d : (a + 1) * d] = part.T
        error = self.priors.nugget**2 + 2 / self.n
        for a, observed in enumerate(self.looks):
            look, z = observed.released.look, moments.z[a]
            weighed = many * moments.v[a] * (1.0 if self.linear else self.formula.model.slope(z @ look.predictors[0]))
            diagonal = (z * z).T @ weighed
            off = float(weighed @ (t1 - z @ look.predictors[0]) ** 2) / d
            at = np.arange(a * d, (a + 1) * d)
            found[at, at] += observed.released.noise["score"] ** 2 + error * off * diagonal
        scale = self.residual_law(u).variance if self.linear else 1.0
        return np.asarray(found + tau**2 * scale * misfit)

    def misfit(self, u: Floats) -> Floats:
        """Return by how much, for τ = 1, an error of the mean of any shape moves the scores: Ψ."""
        made = self.law.rows(u, self.normals * self.stretches[:, None], self.odds)
        theta, _ = self._theta(u, made)
        t1 = made.rows @ theta
        slope = np.ones(len(t1)) if self.linear else self.formula.model.slope(t1)
        many = self.n * self._whole(u)[0] * made.weights * slope
        scaled = []
        for observed in self.looks:
            look = observed.released.look
            z = made.rows @ look.matrix.T
            part = z * look.weights((z * z).sum(axis=1))[:, None]
            scaled.append(part if not look.beyond else 0.0 * part)
        each = np.hstack(scaled)
        full = made.rows.T @ (made.rows * many[:, None])
        full += 1e-9 * np.trace(full) * np.eye(self.d)
        cross = each.T @ (made.rows * many[:, None])
        whole = self.n * (each.T @ (each * many[:, None]) - cross @ np.linalg.solve(full, cross.T))
        return np.asarray((whole + whole.T) / 2)

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
        found = -(off @ off + away @ away + u @ u) / 2 - np.log(np.diag(root)).sum() - np.log(sds).sum()
        return float(found) if math.isfinite(found) else -math.inf

    def log_likelihood(self, release: ReleasedLook, latent: Floats) -> float:
        """Return the log density of one look given the latents, the formula taken to be right."""
        alone = JointLikelihood(self.formula, self.n, [release], self.priors)
        alone.normals, alone.odds, alone.stretches = self.normals, self.odds, self.stretches
        misfit = np.zeros((self.d, self.d))
        return alone.log_density(latent, misfit, 0.0) + float(latent @ latent) / 2

    def gauss_newton(self, u: Floats, misfit: Floats, tau: float) -> Quadratic:
        """Return −log density near u as a sum of squares, covariances held."""
        moments = self.moments(u)
        assert moments.score_slopes is not None and moments.matrix_slopes is not None
        assert moments.theta_slopes is not None
        root = linalg.cholesky(self.score_covariance(u, moments, misfit, tau), lower=True)
        sds = self.matrix_sds(moments)
        turned = linalg.solve_triangular(root, moments.score_slopes, lower=True)
        scaled = moments.matrix_slopes / sds[:, None]
        off, away = self._away(moments, root, sds)
        gradient = u - turned.T @ off - scaled.T @ away
        metric = turned.T @ turned + scaled.T @ scaled + np.eye(self.size)
        height = float(off @ off + away @ away + u @ u) / 2
        logs = -np.log(np.diag(root)).sum() - np.log(sds).sum()
        return Quadratic(height, gradient, metric, float(logs), root, sds, moments.theta, moments.theta_slopes)

    def height(self, u: Floats, near: Quadratic) -> float:
        """Return the sum of squares at u with the covariances of another place."""
        off, away = self._away(self.moments(u, slopes=False), near.root, near.sds)
        found = float(off @ off + away @ away + u @ u) / 2
        return found if math.isfinite(found) else math.inf

    def _away(self, moments: _Moments, root: Floats, sds: Floats) -> tuple[Floats, Floats]:
        """Return how far what was released lies from what is expected, in standard deviations."""
        off = linalg.solve_triangular(root, self.score - moments.scores, lower=True, check_finite=False)
        return np.asarray(off), (self.matrices - moments.matrices) / sds
