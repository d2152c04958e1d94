"""Odd values wherever a number belongs, over the whole public face: an error of ours or an answer, nothing else."""

import inspect
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.privacy import SottovoceError

ODD: list[Any] = [
    *(0, 1, -1, 2, 3, 0.5, -0.0, 1e-300, 5e-324, 1e-9, 1e9, 1e300, math.nan, math.inf, -math.inf, 2**63, 10**400),
    *(-(10**400), None, "", "1", "x", b"1", 1j, True, False, [], [1.0], [0.2, 0.3], [[1, 2], [3]], (), {}),
    *(np.array(2.0), np.array([1.0, math.nan]), np.array(["a"]), np.float32(0.25), np.int64(3), np.bool_(True)),
    *(np.complex128(1), np.longdouble(0.5), Decimal("0.5"), Decimal("NaN"), Decimal("1e999"), Fraction(1, 3), object()),
    *(len, np.datetime64("2020-01-01"), np.zeros((2, 0)), range(3), {"a": 1}),
]

BETA, POISSON = sv.BetaBernoulli(6, 12), sv.GammaPoisson(2.0, 1.0, high=5)
EXPONENTIAL, MEAN = sv.GammaExponential(2.0, 1.0, high=3.0), sv.NormalMean(4.0, 100.0, bounds=(-5.0, 5.0))
DIRICHLET = sv.DirichletCategorical([1.0, 2.0, 3.0])
FIELD, OTHER = sv.latent.Field("x", ("a", "b")), sv.latent.Field("y", (0, 1))
TABLES = sv.latent.CountTables((FIELD, OTHER), (("x", "y"),))
GRAPH = sv.local.ProfileGraph({"A": {"a": 0.5, "b": 0.5}, "B": {"a": 0.25, "b": 0.75}}, [("A", "B")])
BITS = sv.local.ProfileGraph({"A": {0: 0.5, 1: 0.5}, "B": {0: 0.25, 1: 0.75}}, [("A", "B")])
BOUNDED = sv.amplification.diffusion.BoundedMean(sv.readings.ClippedSum(0, 1))
PROMISE, PROFILE = sv.ApproxDP(1.0, 1e-6), sv.privacy.LikelihoodRatioProfile((sv.privacy.BetaPairs(6, 12, 0.3, 9),))

MAKE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ApproxDP": (sv.ApproxDP, {"epsilon": 1.0, "delta": 1e-6}),
    "PureDP": (sv.PureDP, {"epsilon": 1.0}),
    "RenyiDP": (sv.RenyiDP, {"order": 2.0, "epsilon": 1.0}),
    "ZeroConcentratedDP": (sv.ZeroConcentratedDP, {"rho": 0.1}),
    "GaussianDP": (sv.GaussianDP, {"mu": 0.1}),
    "MaxAdvantage": (sv.MaxAdvantage, {"advantage": 0.1}),
    "MaxSuccess": (sv.MaxSuccess, {"success": 0.05, "baseline": 0.01}),
    "explain": (sv.explain, {"what": sv.PureDP(1.0), "baseline": 0.01}),
    "parse_promise": (sv.parse_promise, {"text": "pure:1"}),
    "PureProfile": (sv.privacy.PureProfile, {"level": 1.0}),
    "BoundedRangeProfile": (sv.privacy.BoundedRangeProfile, {"width": 1.0}),
    "LaplaceProfile": (sv.privacy.LaplaceProfile, {"scale": 2.0, "sensitivity": 1.0}),
    "DiscreteLaplaceProfile": (sv.privacy.DiscreteLaplaceProfile, {"scale": 2.0, "sensitivity": 2}),
    "DiscreteGaussianProfile": (sv.privacy.DiscreteGaussianProfile, {"scale": 2.0, "sensitivity": 2, "cells": 1}),
    "GaussianProfile": (sv.privacy.GaussianProfile, {"mu": 0.7}),
    "ZeroConcentratedProfile": (sv.privacy.ZeroConcentratedProfile, {"rho": 0.1}),
    "RenyiProfile": (sv.privacy.RenyiProfile, {"orders": (2.0, 5.0), "epsilons": (0.1, 0.3)}),
    "BetaPairs": (sv.privacy.BetaPairs, {"a": 6.0, "b": 12.0, "step": 0.5, "others": 9}),
    "GammaShapePairs": (sv.privacy.GammaShapePairs, {"shape": 3.0, "step": 0.5}),
    "GammaRatePairs": (sv.privacy.GammaRatePairs, {"shape": 3.0, "low": 1.0, "high": 1.5}),
    "LikelihoodRatioProfile": (sv.privacy.LikelihoodRatioProfile, {"pairs": PROFILE.pairs}),
    "compose": (sv.compose, {"profiles": [sv.privacy.PureProfile(1.0), PROFILE], "counts": [2, 3]}),
    "ComposedProfile": (sv.privacy.ComposedProfile, {"parts": (sv.privacy.PureProfile(1.0),), "counts": (2,)}),
    "PrivacyFilter": (sv.privacy.PrivacyFilter, {"budget": PROMISE, "order": 20.0, "costs": [0.1]}),
    "seeded_rng": (sv.privacy.seeded_rng, {"seed": 3}),
    "BetaBernoulli": (sv.BetaBernoulli, {"alpha": 6.0, "beta": 12.0}),
    "GammaPoisson": (sv.GammaPoisson, {"shape": 2.0, "rate": 1.0, "high": 5}),
    "GammaExponential": (sv.GammaExponential, {"shape": 2.0, "rate": 1.0, "high": 3.0}),
    "NormalMean": (sv.NormalMean, {"variance": 4.0, "prior_variance": 9.0, "prior_mean": 0.0, "bounds": (0.0, 5.0)}),
    "NormalMean in a ball": (
        sv.NormalMean,
        {"variance": 4.0, "prior_variance": 9.0, "prior_mean": [0.0, 1.0], "radius": 2.0, "dimension": 2},
    ),
    "DirichletCategorical": (sv.DirichletCategorical, {"alpha": [1.0, 2.0, 3.0]}),
    "Beta": (sv.systems.Beta, {"alpha": 2.0, "beta": 3.0}),
    "Gamma": (sv.systems.Gamma, {"shape": 2.0, "rate": 3.0}),
    "Normal": (sv.systems.Normal, {"centre": 0.0, "spread": 1.0}),
    "Dirichlet": (sv.systems.Dirichlet, {"alpha": [1.0, 2.0]}),
    "DirectPosterior": (sv.DirectPosterior, {"system": BETA, "n": 20}),
    "DiffusedPosterior": (sv.DiffusedPosterior, {"system": BETA, "n": 20, "data_weight": 0.5}),
    "ConcentratedPosterior": (sv.ConcentratedPosterior, {"system": POISSON, "n": 20, "prior_weight": 3.0}),
    "IntegerNoise": (sv.mechanisms.IntegerNoise, {"kind": "laplace", "scale": 2.0}),
    "NoisyStatistics": (sv.NoisyStatistics, {"system": EXPONENTIAL, "n": 20, "noise": "laplace", "scale": 0.8}),
    "DiffusedPosterior.calibrate": (sv.DiffusedPosterior.calibrate, {"system": BETA, "n": 20, "target": PROMISE}),
    "NoisyStatistics.calibrate": (sv.NoisyStatistics.calibrate, {"system": BETA, "n": 20, "target": PROMISE}),
    "NormalVector": (sv.systems.NormalVector, {"centre": [0.0, 1.0], "spread": 1.0}),
    "Mixture": (sv.systems.Mixture, {"components": sv.systems.Beta([1.0, 2.0], [2.0, 3.0]), "weights": [0.5, 0.5]}),
    "DirichletMixture": (
        sv.systems.DirichletMixture,
        {"components": sv.systems.Dirichlet([[1.0, 2.0], [2.0, 1.0]]), "weights": [0.5, 0.5]},
    ),
    "Truncated": (sv.systems.Truncated, {"base": sv.systems.Beta(2.0, 3.0), "low": 0.1, "high": 0.9}),
    "Statistics": (sv.readings.Statistics, {"n": 3, "total": np.array([1.0])}),
    "BallSum": (sv.readings.BallSum, {"dimension": 2, "radius": 1.0}),
    "CategoryCounts": (sv.readings.CategoryCounts, {"categories": ("a", "b")}),
    "ClippedSum": (sv.readings.ClippedSum, {"low": 0.0, "high": 1.0, "integer": False}),
    "CrossCounts": (sv.readings.CrossCounts, {"columns": (("a", "b"), (0, 1)), "tables": ((0, 1),), "others": (0, 0)}),
    "TemperedPosterior": (
        sv.TemperedPosterior,
        {"system": BETA, "n": 20, "temperature": 3.0, "truncation": 0.1},
    ),
    "StatisticalQuery": (
        sv.StatisticalQuery,
        {"system": BETA, "n": 20, "predicate": bool, "data_weight": 0.5},
    ),
    "Forecast": (
        sv.mechanisms.Forecast,
        {"expected_kl": 0.1, "interval_width": 0.2, "exact_width": 0.1, "level": 0.95},
    ),
    "answers_left": (
        sv.metric.distinguishability.answers_left,
        {"purse": sv.privacy.PrivacyFilter(PROMISE), "profile": sv.privacy.GaussianProfile(0.1), "error": 0.1},
    ),
    "answers_withstood": (
        sv.metric.distinguishability.answers_withstood,
        {"profile": sv.privacy.GaussianProfile(0.1), "error": 0.1, "most": 1000},
    ),
    "best_guess": (sv.metric.distinguishability.best_guess, {"profile": sv.privacy.GaussianProfile(0.1)}),
    "guess_error": (sv.metric.distinguishability.guess_error, {"distance": 1.0, "total_variation": 0.5}),
    "MetricDP": (sv.metric.metric.MetricDP, {"lipschitz": 1.0}),
    "network_privacy": (sv.metric.networks.network_privacy, {"parents": [(), (0,)], "smallest": 0.1}),
    "relaxed_metric_privacy": (sv.metric.relaxed_claims.relaxed_metric_privacy, {"concentration": 1.0}),
    "TemperedPosterior.calibrate": (
        sv.TemperedPosterior.calibrate,
        {"system": BETA, "n": 20, "target": sv.PureDP(1.0), "truncation": 0.1},
    ),
    "OrnsteinUhlenbeck": (
        sv.amplification.OrnsteinUhlenbeck,
        {"system": BOUNDED, "n": 5, "time": 1.0, "rate": 0.5, "diffusion": 1.0},
    ),
    "Bounded": (sv.latent.Bounded, {"name": "x", "low": 0.0, "high": 1.0}),
    "Field": (sv.latent.Field, {"name": "x", "categories": ("a", "b")}),
    "ChainGrid": (sv.latent.ChainGrid, {"chains": FIELD, "steps": (OTHER,)}),
    "CountTables": (sv.latent.CountTables, {"fields": (FIELD, OTHER), "tables": (("x", "y"),)}),
    "HiddenMarkovModel": (
        sv.HiddenMarkovModel,
        {"grid": sv.latent.ChainGrid(FIELD, (OTHER,)), "fields": (sv.latent.Field("z", (0, 1)),), "states": 2}
        | {"emission_prior": 1.0, "transition_prior": 1.0},
    ),
    "BayesianNetwork": (sv.BayesianNetwork, {"fields": (FIELD, OTHER), "parents": {"y": ("x",)}, "prior": 1.0}),
    "MarkovRandomField": (
        sv.latent.MarkovRandomField,
        {"fields": (FIELD, OTHER), "cliques": (("x", "y"),), "spread": 1.0},
    ),
    "NoisyCounts": (sv.NoisyStatistics, {"system": TABLES, "n": 20, "noise": "laplace", "scale": [2.0]}),
    "RandomizedResponse.calibrate": (sv.local.RandomizedResponse.calibrate, {"graph": GRAPH, "epsilon": 1.0}),
    "OneBitCluster.calibrate": (sv.local.OneBitCluster.calibrate, {"graph": BITS, "epsilon": 1.0}),
    "SmoothOneBit.calibrate": (sv.local.SmoothOneBit.calibrate, {"graph": BITS, "epsilon": 1.0}),
    "TwoProfileOneBit.calibrate": (sv.local.TwoProfileOneBit.calibrate, {"graph": BITS, "epsilon": 1.0}),
    "SmoothCategorical.calibrate": (sv.local.SmoothCategorical.calibrate, {"graph": GRAPH, "epsilon": 1.0}),
    "Number": (sv.Number, {"low": 0.0, "high": 1.0}),
    "Count": (sv.Count, {"high": 5}),
    "Category": (sv.Category, {"categories": ("a", "b")}),
    "Day": (sv.Day, {"first": "2024-01-01", "last": "2024-12-31"}),
    "Flag": (sv.Flag, {}),
    "Derived": (sv.Derived, {"of": "log(cost)"}),
    "Facts": (sv.Facts, {}),
    "ProfileGraph": (sv.local.ProfileGraph, {"profiles": {"A": {"a": 0.5, "b": 0.5}}, "edges": (), "categories": None}),
}

NOT_CALLED = {
    *("Basis", "Pairs", "Profile", "Promise", "Mechanism", "System", "Reading", "Conjugate", "Distribution"),
    *("ScalarDistribution", "NoiseAwareSystem", "TemperableSystem", "SecureGenerator", "secure_rng", "is_secure"),
    *("NoisyPosterior", "Release", "amplify", "LocalMechanism", "Curator", "Ledger", "open_table"),
    *("LinearRegression", "LinearSVC", "LogisticRegression", "PoissonRegression", "ProbitRegression", "NaiveBayes"),
    *("PublicEncoder", "PublicScaler", "private_pipeline", "Person", "Cells", "card", "fit_model", "combine"),
    *("SGDLogisticRegression", "NoisyProjectedSGD", "TemperedHiddenMarkov", "TemperedNetwork"),
    *("ADD_REMOVE", "REPLACE_ONE"),
}
"""Words, protocols, results, and what takes its numbers only with data in hand."""


def test_every_public_name_is_fuzzed_or_excused() -> None:
    called = {name.split(".")[0].split(" ")[0] for name in MAKE}
    errors = {n for n in sv.__all__ if isinstance(getattr(sv, n), type) and issubclass(getattr(sv, n), Exception)}
    assert set(sv.__all__) - called - NOT_CALLED - errors == set()


def ours(call: Callable[[], Any]) -> Any:
    """Return the answer of a call, or None after an error of ours; any other error is a fault."""
    try:
        return call()
    except SottovoceError:
        return None


def numeric(good: dict[str, Any]) -> list[str]:
    """The arguments where a number belongs, or several, or one of our own values."""
    return [
        k
        for k, v in good.items()
        if isinstance(v, int | float | list | np.ndarray | sv.privacy.Promise | sv.privacy.Profile)
    ]


@pytest.mark.parametrize("name", MAKE)
def test_odd_arguments(name: str) -> None:
    make, good = MAKE[name]
    rng = random.Random(name)
    if name != "relaxed_metric_privacy":  # which always refuses
        make(**good)
    odd = [{argument: value} for argument in numeric(good) for value in ODD]
    odd += [{argument: rng.choice(ODD) for argument in numeric(good)} for _ in range(20)]
    faults = []
    for change in odd:
        try:
            ours(lambda: make(**good | change))
        except Exception as fault:
            faults.append((change, fault))
    assert not faults


METHODS = {
    *("delta", "epsilon", "log_delta", "excess", "satisfies", "cost", "can_spend", "fits", "spend", "refusal"),
    *("sample", "log_density", "cdf", "sf", "ppf", "isf", "interval", "release", "statistics", "profile"),
    *("from_dict", "from_json"),
}
"""What a user calls; the rest speaks to other parts of the library."""


def methods(thing: Any) -> Iterator[tuple[Callable[..., Any], int]]:
    """Yield the methods with how many arguments they need."""
    wanted = METHODS | ({"renyi"} if isinstance(thing, sv.privacy.Profile) else set())
    for name in [] if type(thing).__name__.endswith("Pairs") else sorted(wanted):
        method = getattr(thing, name, None)
        if callable(method):
            needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
            yield method, max(len(needed), 1)


@pytest.mark.parametrize("name", [n for n in MAKE if getattr(sv, n, None) and isinstance(getattr(sv, n), type)])
def test_odd_values_in_methods(name: str) -> None:
    make, good = MAKE[name]
    rng, thing = random.Random(name), make(**good)
    for method, needed in methods(thing):
        for value in ODD:
            answer = ours(lambda: method(value, *rng.choices(ODD, k=needed - 1)))
            assert not (isinstance(thing, sv.privacy.Profile) and isinstance(answer, float) and math.isnan(answer))
    if isinstance(thing, sv.privacy.Profile):
        for value in ODD:
            ours(lambda: thing + value)
            ours(lambda: thing * value)
