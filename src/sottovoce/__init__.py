"""Sottovoce: Bayesian inference on sensitive data, with its privacy proven and counted.

The names here are what most people need; the rest is reached by room, such as ``sv.privacy.GaussianProfile``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce import _old_paths

if TYPE_CHECKING:
    from sottovoce.faces.estimators.linear import (
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        ProbitRegression,
    )
    from sottovoce.faces.estimators.naive_bayes import NaiveBayes
    from sottovoce.faces.estimators.poisson import PoissonRegression
    from sottovoce.faces.estimators.public_steps import PublicEncoder, PublicScaler, private_pipeline
    from sottovoce.inference.custom import fit_model, numpyro
    from sottovoce.inference.latent import BayesianNetwork, HiddenMarkovModel
    from sottovoce.mechanisms import (
        ConcentratedPosterior,
        DiffusedPosterior,
        DirectPosterior,
        Mechanism,
        NoisyStatistics,
        Release,
        StatisticalQuery,
        TemperedPosterior,
    )
    from sottovoce.mechanisms.conjugate import (
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        NormalMean,
    )
    from sottovoce.privacy import (
        ADD_REMOVE,
        REPLACE_ONE,
        ApproxDP,
        GaussianDP,
        MaxAdvantage,
        MaxSuccess,
        PureDP,
        RenyiDP,
        SottovoceError,
        ZeroConcentratedDP,
        compose,
        parse_promise,
        secure_rng,
    )
    from sottovoce.records.facts import Category, Cells, Count, Day, Facts, Flag, Number, Person
    from sottovoce.records.tables import open_table
    from sottovoce.service.answers.card import card
    from sottovoce.service.answers.explanations import explain
    from sottovoce.service.curator import Curator
    from sottovoce.service.ledger import Ledger

    __version__: str

_WINGS = frozenset({"audit", "faces", "inference", "mechanisms", "privacy", "records", "service", "theory"})
"""Rooms are reached by the names of their wings, such as ``sv.inference.regression``."""

_old_paths.install()

__all__ = [
    "ADD_REMOVE",
    "REPLACE_ONE",
    "ApproxDP",
    "BayesianNetwork",
    "BetaBernoulli",
    "Category",
    "Cells",
    "ConcentratedPosterior",
    "Count",
    "Curator",
    "Day",
    "DiffusedPosterior",
    "DirectPosterior",
    "DirichletCategorical",
    "Facts",
    "Flag",
    "GammaExponential",
    "GammaPoisson",
    "GaussianDP",
    "HiddenMarkovModel",
    "Ledger",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MaxAdvantage",
    "MaxSuccess",
    "Mechanism",
    "NaiveBayes",
    "NoisyStatistics",
    "NormalMean",
    "Number",
    "Person",
    "PoissonRegression",
    "ProbitRegression",
    "PublicEncoder",
    "PublicScaler",
    "PureDP",
    "Release",
    "RenyiDP",
    "SottovoceError",
    "StatisticalQuery",
    "TemperedPosterior",
    "ZeroConcentratedDP",
    "card",
    "compose",
    "explain",
    "fit_model",
    "open_table",
    "parse_promise",
    "private_pipeline",
    "secure_rng",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _WINGS or name in _old_paths.ROOMS:
        return importlib.import_module(f"sottovoce.{name}")
    from sottovoce.privacy.lazy_imports import lazily  # noqa: PLC0415 - brings NumPy, as all names here do

    return lazily(__name__)(name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - reads mail headers, of all things

    try:
        return version("sottovoce")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+unknown"


def __dir__() -> list[str]:
    from sottovoce.privacy.lazy_imports import homes_of  # noqa: PLC0415

    return sorted({*homes_of(__name__), *_WINGS})
