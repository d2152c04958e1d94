"""Posterior predictions: the expected response, averaged over samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.inference.regression.losses import ComplementaryLogLog, Huber, Logistic, Loss, Poisson, Probit, Squared
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

_MEANS: dict[type[Loss], Callable[[Floats], Floats]] = {
    Logistic: special.expit,
    Probit: special.ndtr,
    ComplementaryLogLog: lambda t: -np.expm1(-np.exp(t)),
    Poisson: np.exp,
    Squared: np.asarray,
    Huber: np.asarray,
}


def posterior_predictive(loss: Loss, samples: ArrayLike, X: ArrayLike) -> Floats:
    """Return the mean over the samples of P(label +1), the expected count or the expected response of each row.

    It reads released samples only, so that it costs nothing.

    >>> posterior_predictive(Logistic(), [[0.0, 0.0], [2.0, 0.0]], [[1.0, 5.0]]).round(3).tolist()
    [0.69]
    """
    mean = _MEANS.get(type(loss))
    if mean is None:
        raise InvalidValue(f"{loss.name} is no likelihood, so that it predicts no mean; use the sign of w·x")
    return np.asarray(mean(np.asarray(X) @ np.atleast_2d(samples).T).mean(axis=1))
