"""Sottovoce: Bayesian inference on sensitive data, with its privacy proven and counted."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from sottovoce import mechanisms as _mechanisms
from sottovoce import privacy as _privacy
from sottovoce import systems as _systems
from sottovoce.mechanisms import *  # noqa: F403
from sottovoce.privacy import *  # noqa: F403
from sottovoce.systems import *  # noqa: F403

if TYPE_CHECKING:
    from sottovoce.amplification import NoisyProjectedSGD, OrnsteinUhlenbeck, SGDLogisticRegression, amplify
    from sottovoce.curator import Curator
    from sottovoce.latent import (
        BayesianNetwork,
        Bounded,
        ChainGrid,
        CountTables,
        Field,
        HiddenMarkovModel,
        NaiveBayes,
        NoisyCounts,
        TemperedHiddenMarkov,
        TemperedNetwork,
    )
    from sottovoce.regression import (
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegression,
        ProbitRegression,
        PublicEncoder,
        PublicScaler,
        private_pipeline,
    )
    from sottovoce.ledger import Ledger
    from sottovoce.metric.distinguishability import answers_left, answers_withstood, best_guess, guess_error
    from sottovoce.metric.metric import MetricDP
    from sottovoce.metric.networks import network_privacy
    from sottovoce.metric.relaxed_claims import relaxed_metric_privacy
    from sottovoce.local import (
        LocalMechanism,
        OneBitCluster,
        ProfileGraph,
        RandomizedResponse,
        SmoothCategorical,
        SmoothOneBit,
        TwoProfileOneBit,
    )
    from sottovoce.tables import open_table

try:
    __version__ = version("sottovoce")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

_ROOMS = {
    "sottovoce.amplification": ["NoisyProjectedSGD", "OrnsteinUhlenbeck", "SGDLogisticRegression", "amplify"],
    "sottovoce.curator": ["Curator"],
    "sottovoce.latent": [
        *("BayesianNetwork", "Bounded", "ChainGrid", "CountTables", "Field", "HiddenMarkovModel", "NaiveBayes"),
        *("NoisyCounts", "TemperedHiddenMarkov", "TemperedNetwork"),
    ],
    "sottovoce.regression": [
        *("LinearRegression", "LinearSVC", "LogisticRegression", "PoissonRegression", "ProbitRegression"),
        *("PublicEncoder", "PublicScaler", "private_pipeline"),
    ],
    "sottovoce.ledger": ["Ledger"],
    "sottovoce.metric.distinguishability": ["answers_left", "answers_withstood", "best_guess", "guess_error"],
    "sottovoce.metric.metric": ["MetricDP"],
    "sottovoce.metric.networks": ["network_privacy"],
    "sottovoce.metric.relaxed_claims": ["relaxed_metric_privacy"],
    "sottovoce.tables": ["open_table"],
    "sottovoce.local": [
        *("LocalMechanism", "OneBitCluster", "ProfileGraph", "RandomizedResponse"),
        *("SmoothCategorical", "SmoothOneBit", "TwoProfileOneBit"),
    ],
}
"""Rooms that need more than the core, or are seldom used, with their names here: imported when first used."""

_LAZY = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [*_privacy.__all__, *_systems.__all__, *_mechanisms.__all__, *_LAZY]


_OPEN = frozenset({"amplification", "audit", "gibbs", "glm", "ledger", "profiles", "tables"})
"""Rooms that are reached by their own names: ``sv.regression.pac_bayes``."""


def __getattr__(name: str) -> Any:
    if name in _OPEN:
        return importlib.import_module(f"sottovoce.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'sottovoce' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
