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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, special

from sottovoce.inference.regression.count_law import CountLaw
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.residual_law import ResidualLaw, binary_residuals
from sottovoce.inference.regression.row_law import NODES, STRAIGHT_NODES, PseudoRows, RowLaw
from sottovoce.inference.regression.row_sums import Moving, SumDerivatives
from sottovoce.privacy.numbers import Floats

__all__ = ["ExpectedSums", "JointLikelihood", "Quadratic"]

_WIDER = 2.0
"""The prior of an intercept, and of a flag, beside that of a slope: as in `Formula.prior_sd`."""
_KNOWN = 2.0**-20
"""The prior standard deviation, beside its value, of a coefficient that is known: as there."""


@dataclass(frozen=True, eq=False)
class _Observed:
    """A look as the likelihood needs it, in the order score, upper triangles of information and meat."""

    released: ReleasedLook
    has_score: bool
    has_information: bool
    has_meat: bool

    @cached_property
    def score(self) -> Floats:
        return np.asarray(self.released.sums["score"]) if self.has_score else np.zeros(0)

    @cached_property
    def matrices(self) -> Floats:
        names = ["information"] * self.has_information + ["meat"] * self.has_meat
        upper = np.triu_indices(self.released.look.dimension)
        return np.concatenate([np.zeros(0), *(self.released.sums[name][upper] for name in names)])


@dataclass(frozen=True, eq=False)
class ExpectedSums:
    """What is expected at one place of the latents; derivatives where they were asked for."""

    pseudo: PseudoRows
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
    """The observation model of all looks of one logistic, probit or linear regression.

    Parameters
    ----------
    formula, n
        What was asked, of how records records.
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
        self.law = RowLaw(formula.encoding, self.priors, STRAIGHT_NODES if self.linear else NODES)
        varies = self.linear or self.counts
        self.looks = [
            _Observed(look, "score" in look.sums, "information" in look.sums, varies and "meat" in look.sums)
            for look in looks
            if varies or "score" in look.sums
        ]
        self.scored = [place for place, look in enumerate(self.looks) if look.has_score]
        self.d = formula.encoding.size
        self.upper = np.triu_indices(self.d)
        first = self.law.size
        self.eta = slice(first, first + self.d)
        self.missing = first + self.d
        """The place of the share of records with a missing value; after it those of the residuals' law."""
        self.size = first + self.d + 1 + (3 if self.linear else 2 if self.counts else 0)
        self.score = np.concatenate([look.score for look in self.looks])
        self.matrices = np.concatenate([look.matrices for look in self.looks])
        self.normals, self.odds, self.stretches = self.law.points(None)
        entries = formula.encoding.entries
        self._constant = next((i for i, entry in enumerate(entries) if not entry), None)
        self._slope_sd, self._level_sd = formula.slope_sd, _WIDER * (formula.prior or 0.0)
        self._numbers = formula.encoding.numbers & ~formula.encoding.ones
        self.prior_mean, self.free = formula.prior_mean, np.arange(self.d) != formula.offset
        """The prior mean of θ, and which of its entries are not known beforehand."""
        self._numbers &= self.free

    def aim(self, u: Floats) -> None:
        """Lay the pseudo-rows along the linear predictor at u."""
        pseudo = self.law.rows(u, *self.law.points(None)[:2])
        theta, _ = self._theta(u, pseudo)
        self.normals, self.odds, self.stretches = self.law.points(self.law.direction(u, theta))

    # θ.

    def _theta(self, u: Floats, pseudo: PseudoRows) -> tuple[Floats, Floats]:
        """Return θ = Bη and B: a slope counts by its column's spread, an intercept is that of a mean row."""
        mean = pseudo.weights @ pseudo.rows
        spread = np.sqrt(pseudo.weights @ (pseudo.rows - mean) ** 2 + self.priors.narrowest**2)
        sd = np.where(self._numbers, self._slope_sd / spread, _WIDER * self._slope_sd)
        sd = np.where(self.free, sd, _KNOWN * np.abs(self.prior_mean))
        root = np.diag(sd)
        if self._constant is not None:
            root[self._constant] = -mean * sd
            root[self._constant, self._constant] = self._level_sd
        return self.prior_mean + root @ u[self.eta], root

    def _theta_slopes(self, u: Floats, pseudo: PseudoRows, theta: Floats, root: Floats) -> Floats:
        """Return dθ/du."""
        mean = pseudo.weights @ pseudo.rows
        off = pseudo.rows - mean
        square = pseudo.weights @ off**2 + self.priors.narrowest**2
        derived = np.zeros((self.d, self.size))
        derived[:, self.eta] = root
        dmean, dlog = np.zeros((self.d, self.law.size)), np.zeros((self.d, self.law.size))
        places = np.arange(len(pseudo.drawn))
        for entries, slopes in pseudo.entered:
            weighed, at = pseudo.weights * slopes, pseudo.owned(entries)
            dmean[at, places] += pseudo.moved(weighed).sum(axis=1)
            dlog[at, places] += pseudo.moved(weighed * off.T[entries]).sum(axis=1) / square[at]
        tilts = pseudo.weights[:, None] * pseudo.tilts
        dmean[:, self.law.tilted] = pseudo.rows.T @ tilts
        dlog[:, self.law.tilted] = (off**2).T @ tilts / square[:, None] / 2
        dlog[~self._numbers] = 0.0
        theta = theta - self.prior_mean
        slopes_ = -theta[:, None] * dlog
        if self._constant is not None:
            at = self._constant
            slopes_[at] = 0.0
            others = np.arange(self.d) != at
            slopes_[at] = -(dmean[others] * theta[others, None] + mean[others, None] * slopes_[others]).sum(axis=0)
        derived[:, : self.law.size] = slopes_
        return derived

    def place(self, u: Floats) -> tuple[Floats, Floats]:
        """Return θ and its derivative."""
        pseudo = self.law.rows(u, self.normals, self.odds)
        theta, root = self._theta(u, pseudo)
        return theta, self._theta_slopes(u, pseudo, theta, root)

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
        return ResidualLaw.of(u[self.missing + 1 :], self.priors)

    def count_law(self, u: Floats) -> CountLaw:
        """Return the law of the counts that a Poisson regression explains."""
        return CountLaw.of(u[self.missing + 1 :], int(self.formula.response.high), self.priors)  # type: ignore[attr-defined]

    def moments(self, u: Floats, *, slopes: bool = True) -> ExpectedSums:
        """Return what the looks are expected to have released, and the derivatives of that by u."""
        pseudo = self.law.rows(u, self.normals, self.odds, slopes=slopes)
        theta, root = self._theta(u, pseudo)
        x = pseudo.rows
        complete, dwhole = self._whole(u)
        t1, records = x @ theta, self.n * complete * pseudo.weights
        law = self.residual_law(u) if self.linear else None
        counts = self.count_law(u).at(t1, slopes=slopes) if self.counts else None
        moved = self._theta_slopes(u, pseudo, theta, root) if slopes else np.zeros((self.d, 0))
        sums = SumDerivatives(pseudo, self.upper, moved, self.missing, dwhole / complete)
        along = pseudo.along(theta) if slopes else None
        scores, matrices, zs, vs = [], [], [], []
        score_slopes: list[Floats] = []
        matrix_slopes: list[Floats] = []
        for observed in self.looks:
            look = observed.released.look
            T = look.matrix
            z, c = x @ T.T, look.predictors[0]
            squares, t0 = (z * z).sum(axis=1), z @ c
            v = look.weights(squares)
            if counts is not None:
                kernels = counts.kernels(look.model, t0)  # type: ignore[arg-type]
            elif law is None:
                kernels = binary_residuals(look.model, t0, t1, slopes=slopes)
            else:
                kernels = law.kernels(look.cap, look.beyond, t1 - t0)
            zs.append(z)
            vs.append(v)
            parts = [(kernels.kept, 1)] if observed.has_information else []
            parts += [(kernels.square, 2)] if observed.has_meat else []
            if observed.has_score:
                scores.append(T @ (x.T @ (records * v * kernels.mean[0])))
            products = z[:, self.upper[0]] * z[:, self.upper[1]] if parts else z
            matrices += [products.T @ (records * v**power * kernel[0]) for kernel, power in parts]
            if along is None:
                continue
            # Weights fall by how much a step lengthens a row.
            step = 1e-6 * np.maximum(squares, 1e-12)
            dv = (look.weights(squares + step) - look.weights(np.maximum(squares - step, 0.0))) / (2 * step)
            length = (dv / v) * pseudo.along(2 * (z @ T).T)
            moving = Moving(z, T, length, pseudo.along(T.T @ c), along)
            if observed.has_score:
                score_slopes.append(sums.of_rows(records * v, kernels.mean, moving))
            for kernel, power in parts:
                matrix_slopes.append(sums.of_products(products, records * v**power, kernel, moving, power))
        none = np.zeros((0, self.size))
        return ExpectedSums(
            pseudo,
            theta,
            root,
            np.concatenate(scores),
            np.concatenate(matrices) if matrices else np.zeros(0),
            np.concatenate(score_slopes) if slopes else None,
            np.concatenate([none, *matrix_slopes]) if slopes else None,
            moved if slopes else None,
            zs,
            vs,
        )

    # How it varies.

    def matrix_sds(self, moments: ExpectedSums) -> Floats:
        """Return the standard deviations of what the matrices were released as about what is expected."""
        i, j = self.upper
        half, at, derived = np.where(i == j, 1.0, 0.5), 0, []
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
                law = self.priors.count_variation_error**2 if self.counts and name == "meat" else 0.0
                derived.append(np.sqrt(half * (noise[name] ** 2 + (error + more / self.n + law) * size)))
        return np.concatenate(derived) if derived else np.zeros(0)

    def score_covariance(self, u: Floats, moments: ExpectedSums, misfit: Floats, tau: float) -> Floats:
        """Return the covariance of all scores: records', noise, misfit, and what pseudo-rows cannot tell."""
        pseudo, complete = moments.pseudo, self._whole(u)[0]
        records = self.n * complete * pseudo.weights
        t1 = pseudo.rows @ moments.theta
        looks = [self.looks[place].released.look for place in self.scored]
        zs, vs = [moments.z[place] for place in self.scored], [moments.v[place] for place in self.scored]
        L, d = len(looks), self.d
        if self.linear:
            law = self.residual_law(u)
            offs = [t1 - z @ look.predictors[0] for z, look in zip(zs, looks, strict=True)]
            varies = law.covariances([(look.cap, look.beyond) for look in looks], offs)
        elif self.counts:
            varies = self.count_law(u).at(t1, slopes=False).covariances([look.model for look in looks])  # type: ignore[misc]
        else:
            mean = self.formula.model.mean(t1)
            varies = np.broadcast_to(mean * (1 - mean), (L, L, len(t1)))
        scaled = [z * v[:, None] for z, v in zip(zs, vs, strict=True)]
        derived = np.empty((L * d, L * d))
        for a in range(L):
            for b in range(a, L):
                part = scaled[a].T @ (scaled[b] * (records * varies[a, b])[:, None])
                derived[a * d : (a + 1) * d, b * d : (b + 1) * d] = part
                derived[b * d : (b + 1) * d, a * d : (a + 1) * d] = part.T
        error = self.priors.nugget**2 + 2 / self.n
        for a, (look, z, v) in enumerate(zip(looks, zs, vs, strict=True)):
            family = look.model if self.counts else self.formula.model
            weighed = records * v * (1.0 if self.linear else family.slope(z @ look.predictors[0]))
            diagonal = (z * z).T @ weighed
            off = float(weighed @ (t1 - z @ look.predictors[0]) ** 2) / d
            at = np.arange(a * d, (a + 1) * d)
            noise = self.looks[self.scored[a]].released.noise["score"]
            derived[at, at] += noise**2 + error * off * diagonal
        scale = self.residual_law(u).variance if self.linear else 1.0
        return np.asarray(derived + tau**2 * scale * misfit)

    def information(self, t: Floats) -> Floats:
        """Return the slope of the mean of what is explained, with nothing cut."""
        if self.linear:
            return np.ones_like(t)
        if self.counts:
            return np.asarray(self.formula.model.expected(t))
        return self.formula.model.slope(t)

    def misfit(self, u: Floats) -> Floats:
        """Return by how much, for τ = 1, an error of the mean of any shape moves the scores: Ψ."""
        pseudo = self.law.rows(u, self.normals * self.stretches[:, None], self.odds)
        theta, _ = self._theta(u, pseudo)
        t1 = pseudo.rows @ theta
        slope = self.information(t1)
        records = self.n * self._whole(u)[0] * pseudo.weights * slope
        scaled = []
        for place in self.scored:
            look = self.looks[place].released.look
            z = pseudo.rows @ look.matrix.T
            part = z * look.weights((z * z).sum(axis=1))[:, None]
            if self.counts:  # of what lies beyond the cut less is seen
                part = part * (look.model.slope(t1) / slope)[:, None]
            scaled.append(part if not look.beyond else 0.0 * part)
        each = np.hstack(scaled)
        free = pseudo.rows[:, self.free]
        full = free.T @ (free * records[:, None])
        full += 1e-9 * np.trace(full) * np.eye(len(full))
        cross = each.T @ (free * records[:, None])
        complete = self.n * (each.T @ (each * records[:, None]) - cross @ np.linalg.solve(full, cross.T))
        return np.asarray((complete + complete.T) / 2)

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
        metric = turned.T @ turned + scaled.T @ scaled + np.eye(self.size)
        chi = float(off @ off + away @ away)
        height = (chi + float(u @ u)) / 2
        logs = -np.log(np.diag(root)).sum() - np.log(sds).sum()
        return Quadratic(height, chi, gradient, metric, float(logs), moments.theta, moments.theta_slopes)

    def _away(self, moments: ExpectedSums, root: Floats, sds: Floats) -> tuple[Floats, Floats]:
        """Return how far what was released lies from what is expected, in standard deviations."""
        off = linalg.solve_triangular(root, self.score - moments.scores, lower=True, check_finite=False)
        return np.asarray(off), (self.matrices - moments.matrices) / sds
