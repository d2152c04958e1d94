"""Several models of one release, side by side: evidence, predictive accuracy, weights to average them by."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from sottovoce.models.fit import ModelFit
from sottovoce.models.likelihood import log_normaliser
from sottovoce.models.observation import Observed
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["cell_log_likelihood", "compare_models"]


def compare_models(fits: Mapping[str, ModelFit]) -> Any:
    """Return a data frame of models of the same release, the best first.

    Columns: ``log_evidence`` and its ``error``, the posterior probability of each ``model`` (all equally likely
    before), the expected log predictive density of a cell left out (``elpd``, by PSIS) and the weights by which
    predictions are best averaged (``stacking``; Yao et al. 2018), and whether the predictive check passed (``check``).
    Any number of models, free of cost.
    """
    if len(fits) < 2:
        raise InvalidValue("compare two models or more")
    first = next(iter(fits.values())).program.sites
    for fit in fits.values():
        same = fit.program.sites.keys() == first.keys() and all(
            np.array_equal(seen.all, first[name].all)
            and (seen.n, seen.noise, seen.scale) == (first[name].n, first[name].noise, first[name].scale)
            for name, seen in fit.program.sites.items()
        )
        if not same:
            raise InvalidValue("models are compared by what they say of the same release")
    import arviz  # noqa: PLC0415 - an extra
    import pandas as pd  # noqa: PLC0415

    _loo: Any = arviz.loo

    logs = np.array([fit.evidence.log for fit in fits.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ warns of Pareto tails; `pareto_k` says the same
        loos = {name: _loo(fit.to_arviz(), pointwise=True, var_name="noisy counts") for name, fit in fits.items()}
        table = arviz.compare(loos, method="stacking")
    rows = [
        {
            "model": name,
            "log_evidence": fit.evidence.log,
            "error": fit.evidence.error,
            "probability": float(np.exp(fit.evidence.log - logsumexp(logs))),
            "elpd": float(table.loc[name, "elpd_loo"]),
            "pareto_k": float(np.max(np.asarray(loos[name].pareto_k))),
            "stacking": float(table.loc[name, "weight"]),
            "check": all(fit.check(site).passed for site in fit.program.sites),
        }
        for name, fit in fits.items()
    ]
    return pd.DataFrame(rows).sort_values("log_evidence", ascending=False, ignore_index=True)


def cell_log_likelihood(shares: Floats, seen: Observed) -> Floats:
    """Return log p(ñ_k | π) of every noisy count alone, (draws, counts): a binomial count and its noise, summed."""
    pi, noise, n = np.clip(np.atleast_2d(shares), 1e-30, 1 - 1e-12), seen.law, seen.n
    found = np.empty(pi.shape)
    for k, noisy in enumerate(seen.all.astype(np.float64)):
        p = pi[:, k, None]
        mean, variance = n * p, n * p * (1 - p)
        if noise.kind == "laplace":
            slope = math.exp(min(1 / noise.scale, 30.0))
            centre = np.clip(noisy, mean / slope, mean * slope)
        else:
            centre = (mean * noise.variance + noisy * variance) / (noise.variance + variance)
        half = min(7.5 * math.sqrt(float(variance.max())) + 12, n)
        step = max(1.0, math.floor(half / 250))
        values = np.clip(np.rint(centre), 0, n) + step * np.arange(-math.ceil(half / step), math.ceil(half / step) + 1)
        inside = (values >= 0) & (values <= n)
        held = np.clip(values, 0, n)
        logs = gammaln(n + 1) - gammaln(held + 1) - gammaln(n - held + 1) + xlogy(held, p) + xlog1py(n - held, -p)
        logs = logs + noise.log_weight(noisy - held) - log_normaliser(noise) + math.log(step)
        found[:, k] = logsumexp(np.where(inside, logs, -np.inf), axis=1)
    return found
