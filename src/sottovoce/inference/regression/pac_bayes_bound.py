r"""A PAC-Bayes bound on the error of a Gibbs classifier: a diagnostic for whoever holds the records."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
from sottovoce.inference.regression.losses import positive
from sottovoce.privacy.errors import InvalidValue


@dataclass(frozen=True)
class PacBayes:
    """`bound` holds for the error on new records with the asked confidence over the drawing of the records."""

    empirical_error: float
    divergence: float
    bound: float


def pac_bayes(
    posterior: GaussianPosterior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    prior_precision: float,
    inverse_temperature: float | None = None,
    confidence: float = 0.95,
) -> PacBayes:
    r"""Return the bound on the error of a classifier drawn from `posterior` (Minami et al. 2016, C.6).

    .. math:: E_G R \le E_G R_n + \frac{\beta^2/(8n) + KL(G\,\|\,\pi) + \log(1/\alpha)}{\beta}

    with R the error probability, π = N(0, I/m) and β fixed in advance, √(8nd) where None. The error of a Gaussian G on
    one row is Φ(−y·x'mean/√(x'Cx)), so that nothing is simulated.

    **It reads the records.** It is for the curator's eyes; publishing it would be a release that nobody has paid for.
    """
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not np.all(np.abs(labels) == 1):
        raise InvalidValue("labels must be -1 and +1")
    if not 0 < confidence < 1:
        raise InvalidValue(f"confidence must lie in (0, 1). Got {confidence}")
    positive("prior_precision", prior_precision)
    n, d = rows.shape
    beta = math.sqrt(8 * n * d) if inverse_temperature is None else inverse_temperature
    positive("inverse_temperature", beta)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", rows, posterior.covariance, rows))
    margin = labels * (rows @ posterior.mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        wrong = np.where(spread > 0, special.ndtr(-margin / spread), margin <= 0)
    sign, log_volume = np.linalg.slogdet(posterior.covariance)
    if sign <= 0:
        raise InvalidValue("the posterior's covariance must be positive definite")
    trace = prior_precision * (np.trace(posterior.covariance) + posterior.mean @ posterior.mean)
    divergence = float(trace - d - d * math.log(prior_precision) - log_volume) / 2
    error = float(np.mean(wrong))
    slack = (beta**2 / (8 * n) + divergence - math.log(1 - confidence)) / beta
    return PacBayes(error, divergence, error + slack)
