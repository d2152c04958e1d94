"""Sottovoce: Bayesian inference on sensitive data, with its privacy proven and counted.

The names here are what most people need; the rest is reached by room, such as ``sv.privacy.GaussianProfile``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce import _old_paths

if TYPE_CHECKING:
    from sottovoce.faces.estimators.linear import LinearRegression as LinearRegression
    from sottovoce.faces.estimators.linear import LinearSVC as LinearSVC
    from sottovoce.faces.estimators.linear import LogisticRegression as LogisticRegression
    from sottovoce.faces.estimators.linear import ProbitRegression as ProbitRegression
    from sottovoce.faces.estimators.naive_bayes import NaiveBayes as NaiveBayes
    from sottovoce.faces.estimators.poisson import PoissonRegression as PoissonRegression
    from sottovoce.faces.estimators.public_steps import PublicEncoder as PublicEncoder
    from sottovoce.faces.estimators.public_steps import PublicScaler as PublicScaler
    from sottovoce.faces.estimators.public_steps import private_pipeline as private_pipeline
    from sottovoce.inference.custom import fit_model as fit_model
    from sottovoce.inference.custom import numpyro
    from sottovoce.inference.latent import BayesianNetwork as BayesianNetwork
    from sottovoce.inference.latent import HiddenMarkovModel as HiddenMarkovModel
    from sottovoce.inference.synthesis.combined_analyses import combine as combine
    from sottovoce.mechanisms import ConcentratedPosterior as ConcentratedPosterior
    from sottovoce.mechanisms import DiffusedPosterior as DiffusedPosterior
    from sottovoce.mechanisms import DirectPosterior as DirectPosterior
    from sottovoce.mechanisms import Mechanism as Mechanism
    from sottovoce.mechanisms import NoisyStatistics as NoisyStatistics
    from sottovoce.mechanisms import Release as Release
    from sottovoce.mechanisms import StatisticalQuery as StatisticalQuery
    from sottovoce.mechanisms import TemperedPosterior as TemperedPosterior
    from sottovoce.mechanisms.conjugate import BetaBernoulli as BetaBernoulli
    from sottovoce.mechanisms.conjugate import DirichletCategorical as DirichletCategorical
    from sottovoce.mechanisms.conjugate import GammaExponential as GammaExponential
    from sottovoce.mechanisms.conjugate import GammaPoisson as GammaPoisson
    from sottovoce.mechanisms.conjugate import NormalMean as NormalMean
    from sottovoce.privacy import ADD_REMOVE as ADD_REMOVE
    from sottovoce.privacy import REPLACE_ONE as REPLACE_ONE
    from sottovoce.privacy import ApproxDP as ApproxDP
    from sottovoce.privacy import GaussianDP as GaussianDP
    from sottovoce.privacy import MaxAdvantage as MaxAdvantage
    from sottovoce.privacy import MaxSuccess as MaxSuccess
    from sottovoce.privacy import PureDP as PureDP
    from sottovoce.privacy import RenyiDP as RenyiDP
    from sottovoce.privacy import SottovoceError as SottovoceError
    from sottovoce.privacy import ZeroConcentratedDP as ZeroConcentratedDP
    from sottovoce.privacy import compose as compose
    from sottovoce.privacy import parse_promise as parse_promise
    from sottovoce.privacy import secure_rng as secure_rng
    from sottovoce.records.facts import Category as Category
    from sottovoce.records.facts import Cells as Cells
    from sottovoce.records.facts import Count as Count
    from sottovoce.records.facts import Day as Day
    from sottovoce.records.facts import Derived as Derived
    from sottovoce.records.facts import Facts as Facts
    from sottovoce.records.facts import Flag as Flag
    from sottovoce.records.facts import Number as Number
    from sottovoce.records.facts import Person as Person
    from sottovoce.records.tables import open_table as open_table
    from sottovoce.service.answers.card import card as card
    from sottovoce.service.answers.explanations import explain as explain
    from sottovoce.service.curator import Curator as Curator
    from sottovoce.service.ledger import Ledger as Ledger

    __version__: str

_WINGS = frozenset({"audit", "faces", "inference", "mechanisms", "privacy", "records", "service", "theory"})
"""Rooms are reached by the names of their wings, such as ``sv.inference.regression``."""

_old_paths.install()


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
