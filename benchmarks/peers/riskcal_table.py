"""The golden table of `tests/privacy/test_riskcal.py`, made by riskcal in an environment of its own.

In a new environment: pip install riskcal==1.5.1, then python riskcal_table.py > tests/privacy/riskcal.json
"""

import functools
import json
from importlib.metadata import version

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from riskcal import analysis

ALPHAS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
STEP = 5e-4
"""Where its numbers for one Gaussian are nearest to its own closed form: finer grids cancel, coarser ones round."""

CASES = {
    "one gaussian": [("gaussian", 1.0, 1)],
    "a weak gaussian": [("gaussian", 0.1, 1)],
    "a strong gaussian": [("gaussian", 3.0, 1)],
    "one laplace": [("laplace", 1.0, 1)],
    "a weak laplace": [("laplace", 8.0, 1)],
    "ten gaussians": [("gaussian", 0.2, 10)],
    "five laplaces": [("laplace", 4.0, 5)],
    "a gaussian and a laplace": [("gaussian", 0.5, 1), ("laplace", 2.0, 1)],
    "a medley": [("gaussian", 0.3, 2), ("laplace", 5.0, 3), ("laplace", 9.0, 4)],
}
"""(kind, μ or scale, how many): noise on something that one record moves by 1."""


def law(kind, number):
    options = {"sensitivity": 1, "value_discretization_interval": STEP, "use_connect_dots": True}
    if kind == "gaussian":
        return pld.from_gaussian_mechanism(standard_deviation=1 / number, **options)
    return pld.from_laplace_mechanism(parameter=number, **options)


def main():
    rows = []
    for name, parts in CASES.items():
        laws = [law(kind, number).self_compose(count) for kind, number, count in parts]
        whole = functools.reduce(lambda first, second: first.compose(second), laws)
        if {kind for kind, *_ in parts} == {"gaussian"}:
            mu = sum(count * number**2 for _, number, count in parts) ** 0.5
            advantage, beta = analysis.get_advantage_from_gdp(mu), analysis.get_beta_from_gdp(mu, np.array(ALPHAS))
        else:
            advantage, beta = (
                analysis.get_advantage_from_pld(whole),
                analysis.get_beta_from_pld(whole, np.array(ALPHAS)),
            )
        rows.append({"name": name, "parts": parts, "advantage": float(advantage), "beta": np.asarray(beta).tolist()})
    print(json.dumps({"riskcal": version("riskcal"), "alphas": ALPHAS, "step": STEP, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
