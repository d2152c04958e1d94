"""Systems by name: ``beta-bernoulli`` with its arguments, as a file or a request spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce.privacy.json_values import mapping
from sottovoce.privacy.registry import Registry

SYSTEMS = Registry(
    "system",
    {
        "beta-bernoulli": "sottovoce.mechanisms.conjugate.beta_bernoulli:BetaBernoulli",
        "dirichlet-categorical": "sottovoce.mechanisms.conjugate.dirichlet_categorical:DirichletCategorical",
        "gamma-poisson": "sottovoce.mechanisms.conjugate.gamma_poisson:GammaPoisson",
        "gamma-exponential": "sottovoce.mechanisms.conjugate.gamma_exponential:GammaExponential",
        "normal-mean": "sottovoce.mechanisms.conjugate.normal_mean:NormalMean",
        "count tables": "sottovoce.inference.latent.count_tables:CountTables",
        "count-tables": "sottovoce.inference.latent.count_tables:CountTables",
        "hidden Markov model": "sottovoce.inference.latent.hidden_markov:HiddenMarkovModel",
        "Bayesian network": "sottovoce.inference.latent.network:BayesianNetwork",
        "Markov random field": "sottovoce.inference.latent.random_field:MarkovRandomField",
        "table marginals": "sottovoce.inference.synthesis.table_marginals:TableMarginals",
        "question": "sottovoce.inference.cells.questions:Question",
        "naive bayes": "sottovoce.inference.latent.naive_bayes:NaiveBayesModel",
        "regression": "sottovoce.inference.regression.design:Design",
        "formula": "sottovoce.inference.regression.formula:Formula",
        "hazard formula": "sottovoce.inference.regression.hazard_formula:HazardFormula",
        "ordinal formula": "sottovoce.inference.regression.ordinal_formula:OrdinalFormula",
        "bounded mean": "sottovoce.theory.amplification.diffusion:BoundedMean",
        "function of records": "sottovoce.mechanisms.function_statistic:FunctionOf",
        "outcomes": "sottovoce.mechanisms.exponential_choice:Outcomes",
    },
    "sottovoce.systems",
)
"""Every system by its word."""
FORMULAS = ("formula", "hazard formula", "ordinal formula")
"""The words of regressions by formula, which are asked by the verb regress."""


def column_systems() -> dict[str, Any]:
    """Return the systems that may read one column, by their words: ours, and those that strangers registered."""
    kinds = {word: SYSTEMS[word] for word in SYSTEMS.within("sottovoce.mechanisms.conjugate.")}
    return {word: kind for word, kind in kinds.items() if hasattr(kind, "usual")}


def system_from(state: Mapping[str, object]) -> Any:
    """Build a system from its word (`system`, or `kind`) and its arguments.

    >>> system_from({"kind": "beta-bernoulli", "alpha": 6, "beta": 12})
    BetaBernoulli(alpha=6.0, beta=12.0, whole=True)
    """
    known = mapping("system", state)
    return SYSTEMS[known.get("system", known.get("kind"))].from_dict(known)
