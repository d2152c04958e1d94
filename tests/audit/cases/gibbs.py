"""Audited cases: count tables with noise, on which every latent model rests, and tempered networks and chains."""

from __future__ import annotations

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.inference.latent import (
    BayesianNetwork,
    ChainGrid,
    Field,
    HiddenMarkovModel,
    MarkovRandomField,
    TemperedHiddenMarkov,
    TemperedNetwork,
)
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.records.readings import Statistics

__all__: list[str] = []

_N = 6


def _network() -> BayesianNetwork:
    return BayesianNetwork((Field("a", (0, 1)), Field("b", (0, 1))), {"b": ["a"]})


def _pair(network: BayesianNetwork) -> tuple[Statistics, Statistics]:
    """Return two data sets whose first record differs in every table; the others sit where they hide it least."""
    ends = ((0, 0), (1, 1))
    tables = [{"a": [a] + [1] * (_N - 1), "b": [b] + [0] * (_N - 1)} for a, b in ends]
    first, second = (network.statistics(table) for table in tables)
    return first, second


def _noisy_counts(name: str, target: Promise, noise: NoiseKind) -> Subject:
    network = _network()
    return subject_of(network.noisy_counts(_N, target, noise), _pair(network), name=name)


@case("noisy counts, laplace, two tables", tight=True, slow=True)
def laplace_counts() -> Subject:
    """Return the tables of a small network with discrete Laplace noise."""
    return _noisy_counts("noisy counts, laplace, two tables", PureDP(1.0), "laplace")


@case("noisy counts, gaussian, two tables", tight=True, slow=True)
def gaussian_counts() -> Subject:
    """Return the tables of a small network with discrete Gaussian noise."""
    return _noisy_counts("noisy counts, gaussian, two tables", ApproxDP(1.0, 1e-3), "gaussian")


@case("noisy cliques of a random field", tight=True, slow=True)
def noisy_cliques() -> Subject:
    """Return the cliques of a small random field, which share a variable, with discrete Laplace noise."""
    field = MarkovRandomField(tuple(Field(name, (0, 1)) for name in "abc"), [("a", "b"), ("b", "c")])
    ends = ((0, 0, 0), (1, 1, 1))
    first, second = (
        field.statistics({name: [x] + [0] * (_N - 1) for name, x in zip("abc", end, strict=True)}) for end in ends
    )
    mechanism = field.noisy_counts(_N, PureDP(1.0), "laplace")
    return subject_of(mechanism, (first, second), name="noisy cliques of a random field")


@case("tempered network", slow=True)
def tempered_network() -> Subject:
    """Return the tempered tables of a small network."""
    network = _network()
    return subject_of(TemperedNetwork.calibrate(network, _N, PureDP(1.0)), _pair(network), name="tempered network")


@case("tempered hidden Markov chain", slow=True)
def tempered_chain() -> Subject:
    """Return two tempered sweeps over a single record, which has no others to hide among."""
    grid = ChainGrid(Field("region", (0,)), (Field("month", (0, 1)),))
    model = HiddenMarkovModel(grid, (Field("kind", (0, 1)),), states=2)
    mechanism = TemperedHiddenMarkov.calibrate(model, 1, PureDP(4.0), sweeps=2)
    first, second = (model.statistics({"region": [0], "month": [0], "kind": [kind]}) for kind in (0, 1))
    return subject_of(mechanism, (first, second), name="tempered hidden Markov chain")
