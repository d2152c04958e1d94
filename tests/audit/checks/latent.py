"""Latent models: what count tables and tempered tables claim, against laws multiplied out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.audit.checks.noise import hockey_sticks, law
from sottovoce.audit.checks.quadrature import renyi
from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.latent.count_tables import CountTables
from sottovoce.inference.latent.fields import ChainGrid, Field
from sottovoce.inference.latent.hidden_markov import HiddenMarkovModel
from sottovoce.inference.latent.network import BayesianNetwork
from sottovoce.inference.latent.random_field import MarkovRandomField
from sottovoce.inference.latent.tempered_hidden_markov import TemperedHiddenMarkov
from sottovoce.inference.latent.tempered_tables import TemperedNetwork
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent

__all__ = ["count_tables", "random_fields", "tempered_states", "tempered_tables"]

_KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")
_EPSILONS = (0.0, 0.5, 2.0, 5.0)
_FIELDS = (Field("a", (0, 1)), Field("b", (0, 1, 2)))


def _records(rest: tuple[int, int], last: tuple[int, int]) -> Any:
    return {"a": [rest[0], last[0]], "b": [rest[1], last[1]]}


@check("count tables claim no less than they cost")
def count_tables() -> tuple[bool, str]:
    """The joint law of all noisy cells of two tables, over real neighbours, stays below the claim."""
    tables = CountTables(_FIELDS, (("a",), ("b",)))
    shifts, problems = set(), []
    for x, y in itertools.permutations(itertools.product((0, 1), (0, 1, 2)), 2):
        before, after = (tables.arrays(tables.statistics(_records((0, 0), z))) for z in (x, y))
        moved = np.concatenate([np.ravel(b) - np.ravel(a) for a, b in zip(before, after, strict=True)])
        shifts.add(tuple(np.sort(moved[moved != 0]).astype(int).tolist()))
    laplace, gaussian = (NoisyStatistics(tables, 2, kind, 0.7).profile for kind in _KINDS)
    found = np.max([hockey_sticks(law("laplace", 0.7, 8)[1], np.array(s), _EPSILONS) for s in shifts], axis=0)
    for epsilon, value, claim in zip(_EPSILONS, found, laplace.delta(np.array(_EPSILONS)), strict=True):
        if value > claim * (1 + 1e-3) + 1e-5:
            problems.append(f"Laplace noise on two tables: δ({epsilon:g}) is {value:.6g} and {claim:.6g} is claimed")
    # Cells are independent, and the Rényi divergence of one that moves by one adds up.
    with np.errstate(divide="ignore"):
        log_p = np.log(np.pad(law("gaussian", 0.7, 12)[1], (1, 1)))
    value = max(map(len, shifts)) * renyi(log_p[1:-1], log_p[:-2], 2.0)
    if value > gaussian.renyi(2.0) * (1 + 1e-6):
        problems.append(f"Gaussian noise on two tables: R(2) is {value:.6g}, {gaussian.renyi(2.0):.6g} is claimed")
    return verdict(problems, f"{max(map(len, shifts))} cells of two tables move, and none above its claim")


@check("cliques that share variables are charged each")
def random_fields() -> tuple[bool, str]:
    """Over every two records the losses of all cells that move, of cliques in a ring, stay below the claim."""
    fields = tuple(Field(name, (0, 1)) for name in "abc")
    ring = MarkovRandomField(fields, [("a", "b"), ("b", "c"), ("a", "c")])
    records = [dict(zip("abc", ([v] for v in x), strict=True)) for x in itertools.product((0, 1), repeat=3)]
    totals = [ring.statistics(record).total for record in records]
    moved = max(np.abs(p - q).sum() for p, q in itertools.permutations(totals, 2))
    laplace, gaussian = (NoisyStatistics(ring, 1, kind, 0.7).profile for kind in _KINDS)
    with np.errstate(divide="ignore"):
        log_p = np.log(np.pad(law("gaussian", 0.7, 12)[1], (1, 1)))
    found = {
        "ε": (moved / 0.7, laplace.pure()),
        "R(2)": (moved * renyi(log_p[1:-1], log_p[:-2], 2.0), gaussian.renyi(2)),
    }
    problems = [
        f"{name} of three cliques is {value:.6g} and {claim:.6g} is claimed"
        for name, (value, claim) in found.items()
        if value > claim * (1 + 1e-6)
    ]
    return verdict(problems, f"{moved:.0f} cells of three cliques move, and none above its claim")


@check("tempered tables stay in their window")
def tempered_tables() -> tuple[bool, str]:
    """The privacy loss of a tempered network, at draws that reach its corners, lies in the claimed window."""
    network = BayesianNetwork(_FIELDS, {"b": ["a"]})
    mechanism, rng = TemperedNetwork(network, 2, 3.0, 0.2), seeded_rng(5)
    problems, widest = [], 0.0
    corners = {f.size: TruncatedDirichlet(np.full(f.size, 0.3), 0.2 / f.size).sample(400, rng) for f in _FIELDS}
    for x, y in itertools.permutations(itertools.product((0, 1), (0, 1, 2)), 2):
        counts = [network.counts(mechanism.see(_records((1, 1), z))) for z in (x, y)]
        # Tables and rows are independent, so that their windows add up.
        width = 0.0
        for p, q in zip(*counts, strict=True):
            rows_p, rows_q = (np.reshape(t, (-1, t.shape[-1])) for t in (p, q))
            for a, b in zip(rows_p, rows_q, strict=True):
                floor = mechanism.floor / a.size
                alphas = [(c + network.prior_of(a.size) - 1) / mechanism.temperature + 1 for c in (a, b)]
                logs = [TruncatedDirichlet(alpha, floor).log_density(corners[a.size]) for alpha in alphas]
                loss = logs[0] - logs[1]
                width += float(np.ptp(loss))
        widest = max(widest, width)
        if not width <= mechanism.profile.pure() * (1 + 1e-9):
            problems.append(f"a window of {width:.6g} and {mechanism.profile.pure():.6g} is claimed")
    taken = percent(widest / mechanism.profile.pure(), whole=True)
    return verdict(problems, f"the widest window takes {taken} of its claim")


@check("tempered states stay in their window")
def tempered_states() -> tuple[bool, str]:
    """One record replaced by any other moves the weights of all paths of states within their window, in whole steps."""
    grid = ChainGrid(Field("place", ("here",)), (Field("time", (1, 2)),))
    model = HiddenMarkovModel(grid, _FIELDS, states=2)
    temperature, floor = 3.0, 0.2
    mechanism = TemperedHiddenMarkov(model, 1, temperature, 1, floor)
    corners, ranges = [], []
    for field in _FIELDS:
        least = floor / field.size
        theta = np.full((2, field.size), least)
        theta[0, 0] = theta[1, 1] = 1 - (field.size - 1) * least
        corners.append(theta)
        ranges.append(math.log((1 - (field.size - 1) * least) / least))
    sums = []
    for where, one, other in itertools.product((0, 1), (0, 1), (0, 1, 2)):
        tables = [np.zeros((1, 2, field.size)) for field in _FIELDS]
        tables[0][0, where, one] = tables[1][0, where, other] = 1.0
        made = mechanism.misfits(tables, corners, 1 / temperature)
        steps = made.steps[0].tolist()
        sums.append(
            [sum(row[z] for row, z in zip(steps, path, strict=True)) for path in itertools.product((0, 1), (0, 1))]
        )
    moves = [[p - q for p, q in zip(a, b, strict=True)] for a, b in itertools.permutations(sums, 2)]
    widest = max(max(move) - min(move) for move in moves)
    # An ulp of each logarithm is all that may be added to the exact window: less than a step.
    window = 2 * Fraction(math.fsum(ranges)) / Fraction(temperature) * (1 << made.bits)
    problems = (
        [] if widest <= math.ceil(window) else [f"a window of {widest} steps and {float(window):.1f} are claimed"]
    )
    return verdict(problems, f"the widest window takes {percent(widest / float(window))} of its claim, in whole steps")
