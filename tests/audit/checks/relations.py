"""Relations: a claim about one record more or less is true, says so in its JSON, and turns into others as it may."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from audit.cases.relation import secret_cells, secret_looks
from sottovoce.audit.check_reading import typical_records
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import DirectPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.composition import compose
from sottovoce.privacy.errors import IncompatibleNotions
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE

__all__ = ["group_of_two", "moved_cells", "one_more", "read_back"]

_EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)
_HAIR = 1 + 1e-9
_MANY = 3000
_GRID = np.linspace(-30.0, 30.0, 6001)
_LOG_X, _LOG_REST = special.log_expit(_GRID), special.log_expit(-_GRID)


def _beta_deltas(p: tuple[float, float], q: tuple[float, float]) -> list[float]:
    """Return δ(ε) of two Beta laws, about: the mass beyond the places where the log-ratio passes ε on a fine grid."""
    rises, falls = p[0] - q[0], p[1] - q[1]
    ratio, found = rises * _LOG_X + falls * _LOG_REST - (special.betaln(*p) - special.betaln(*q)), []
    for epsilon in _EPSILONS:
        edges = np.flatnonzero(np.diff(ratio > epsilon))
        ends = np.array([0.0, *special.expit((_GRID[edges] + _GRID[edges + 1]) / 2), 1.0])
        hits, alarms = (np.diff(special.betainc(*law, ends)) for law in (p, q))
        found.append(float(np.maximum(hits - math.exp(epsilon) * alarms, 0.0).sum()))
    return found


def _one_apart(alpha: float, beta: float) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Return all pairs of posteriors of few records, and some of many, of which one has one record more."""
    for n in (0, 1, 2, 4, _MANY):
        for s in range(n + 1) if n < _MANY else (0, n):
            one = (alpha + s, beta + n - s)
            for more in ((one[0] + 1, one[1]), (one[0], one[1] + 1)):
                yield more, one
                yield one, more


@check("one record more costs a sample what is claimed")
def one_more() -> tuple[bool, str]:
    """Samples of shares: of all small data sets no pair is above the claim; with many other records it is reached."""
    problems, tried = [], 0
    for alpha, beta in ((6.0, 12.0), (0.7, 0.4), (2.0, 2.0)):
        claim = DirectPosterior(BetaBernoulli(alpha, beta), None).profile
        found = np.array([_beta_deltas(*pair) for pair in _one_apart(alpha, beta)])
        tried += len(found)
        for epsilon, best in zip(_EPSILONS, found.max(axis=0), strict=True):
            claimed = float(claim.delta(epsilon))
            if best > claimed * _HAIR + 1e-9:
                problems.append(f"Beta({alpha:g}, {beta:g}): δ({epsilon:g}) is {best:.6g}, {claimed:.6g} is claimed")
            elif best < 0.99 * claimed:
                problems.append(f"Beta({alpha:g}, {beta:g}): {best:.6g} is found of δ({epsilon:g}) = {claimed:.6g}")
        if problems:
            break
    least = BetaBernoulli(2.0, 7.0).profile(None)
    if any(DirichletCategorical([2.0, 3.0, 4.0]).profile(None).delta(e) < least.delta(e) for e in _EPSILONS):
        problems.append("three shares cost less than the least of them")
    return verdict(problems, f"{tried} pairs, none above its claim, the worst within 1 % of it")


@check("one record more moves noisy sums as far as is claimed")
def moved_cells() -> tuple[bool, str]:
    """Noisy cells and the looks of every family: no record's own contribution is longer than the claim allows."""
    problems, tried = [], 0
    for verb, column in (("counts", "ward"), ("proportion", "smoker"), ("mean", "stay"), ("rate", "visits")):
        cells = secret_cells(verb, column, "laplace", 2.0)
        noise = np.repeat([one.scale for one in cells.noises], cells.reading.sizes)
        for record in typical_records(cells.reading):
            tried += 1
            moved = float(np.sum(np.abs(cells.reading.read([[cell] for cell in record]).total) / noise))
            if moved > cells.profile.pure() * _HAIR:
                problems.append(f"{verb}: a record moves cells by {moved:.6g}, {cells.profile.pure():.6g} is claimed")
    for family in ("logistic", "probit", "linear", "poisson", "multinomial"):
        if problems:
            break
        looks = secret_looks(family)
        for look, scales in looks.path:
            sizes, paid = look.sizes.values(), looks.paid(look, scales)
            noise = np.repeat([one.scale for one in looks.noises(look, scales)], list(sizes))
            for record in typical_records(look):
                tried += 1
                cost = float(np.sum((look.read([[cell] for cell in record]).total / noise) ** 2)) / 2
                if cost > paid * _HAIR:
                    problems.append(f"{family}: a record moves a look by ρ = {cost:.6g} of {paid:.6g}")
        if sum(looks.paid(look, scales) for look, scales in looks.path) > looks.rho * _HAIR:
            problems.append(f"{family}: the looks cost more than is claimed")
    return verdict(problems, f"{tried} records, none longer than its claim")


@check("replacing is a group of two")
def group_of_two() -> tuple[bool, str]:
    """What a claim about one more says of one replaced covers noise moved by two; it is not two releases composed."""
    problems = []
    for mu in (0.1, 1.0, 3.0):
        claim = GaussianProfile(mu, relation=ADD_REMOVE).replacing()
        composed = (GaussianProfile(mu, relation=ADD_REMOVE) + PureProfile(1e-9, relation=ADD_REMOVE)).replacing()
        epsilons = np.array(_EPSILONS)
        near, far = (special.ndtr(side * mu - epsilons / (2 * mu)) for side in (1, -1))
        truths = near - np.exp(epsilons) * far
        for one in (claim, composed):
            claims = np.asarray(one.delta(epsilons))
            for k in np.flatnonzero(claims < truths * (1 - 1e-9) - 1e-15):
                problems.append(f"μ = {mu:g}: δ({epsilons[k]:g}) is {truths[k]:.6g}, {claims[k]:.6g} is claimed")
        if problems:
            break
    laplace = LaplaceProfile(2.0, relation=ADD_REMOVE).replacing()
    if laplace.pure() < 1.0 or laplace.delta(0.5) < 1 - math.exp((0.5 - 1.0) / 2):
        problems.append("Laplace noise of scale 2 moved by two is told from itself more easily than is claimed")
    try:
        GaussianProfile(1.0).replacing()
        problems.append("a claim about one record replaced was turned into another")
    except IncompatibleNotions:
        pass
    return verdict(problems, "twice the distance, at three μ and five ε; nothing the other way")


@check("a claim keeps its relation")
def read_back() -> tuple[bool, str]:
    """Through JSON, composition, filters and mechanisms; and two of them never mix in one budget."""
    problems = []
    for relation in (ADD_REMOVE, ADD_REMOVE.of_person(), REPLACE_ONE.of_person()):
        one = PureProfile(0.1, relation=relation)
        for profile in (one, one + GaussianProfile(0.1, relation=relation), one.about(relation) * 3):
            if Profile.from_json(profile.to_json()).relation != relation:
                problems.append(f"a profile about {relation} reads back as one about something else")
        promise = ApproxDP(1.0, 1e-6, relation=relation)
        texts = (Promise.from_json(promise.to_json()), PrivacyFilter.from_dict(PrivacyFilter(promise).to_dict()).budget)
        if any(read.relation != relation for read in texts):
            problems.append(f"a promise about {relation} reads back as one about something else")
        for mixed in (lambda o=one: compose([o, PureProfile(0.1)]), lambda o=one: PrivacyFilter(PureDP(1.0)).spend(o)):
            try:
                mixed()
                problems.append(f"a claim about {relation} was added to one about {REPLACE_ONE}")
            except IncompatibleNotions:
                pass
    for mechanism in (DirectPosterior(BetaBernoulli(1, 1), None), secret_cells("mean", "stay", "laplace", 2.0)):
        again = Mechanism.from_dict(mechanism.to_dict())
        if again.profile.relation != ADD_REMOVE:
            problems.append(f"a {mechanism.word} with a secret n reads back as one with a public n")
    return verdict(problems, "three relations through JSON, sums, budgets and mechanisms")
