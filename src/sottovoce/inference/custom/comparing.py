"""Several models of one release, side by side: evidence, predictive accuracy, weights to average them by."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sottovoce.inference.custom.fit import ModelFit
from sottovoce.privacy.errors import InvalidValue


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
            "elpd": float(table.loc[name, "elpd_loo" if "elpd_loo" in table else "elpd"]),
            "pareto_k": float(np.max(np.asarray(loos[name].pareto_k))),
            "stacking": float(table.loc[name, "weight"]),
            "check": all(fit.check(site).passed for site in fit.program.sites),
        }
        for name, fit in fits.items()
    ]
    return pd.DataFrame(rows).sort_values("log_evidence", ascending=False, ignore_index=True)
