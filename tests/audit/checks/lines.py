"""Laws on a line, integrated: minibatches, near neighbours, Gibbs posteriors, chains and couplings against claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.regression import certified_distance as nearness
from sottovoce.inference.regression import gibbs_rules
from sottovoce.inference.regression.certificate import Chain
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import SmoothedHinge
from sottovoce.inference.regression.potential import Potential
from sottovoce.mechanisms.conjugate import BetaBernoulli, NormalMean
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.records.readings import Rows
from sottovoce.theory.amplification import densities
from sottovoce.theory.amplification.convex_sets import OwnSet
from sottovoce.theory.amplification.minibatch import MinibatchSGD
from sottovoce.theory.metric import approximate

__all__ = ["couplings", "gibbs", "minibatches", "near_chains", "near_records", "word_for_it"]

_EPSILONS = (0.0, 0.3, 1.0)
_W = np.linspace(-8.0, 8.0, 801)
_FINE = np.linspace(-8.0, 8.0, 16_001)


def _above(what: str, profile: Profile, p: Floats, q: Floats) -> list[str]:
    """Say where two laws on a grid lie farther apart than a profile claims."""
    found = []
    for epsilon in _EPSILONS:
        truth, claimed = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()), float(profile.delta(epsilon))
        if truth > claimed * (1 + 5e-5):  # what cells of the grid and of a release may add
            found.append(f"{what}: δ({epsilon:g}) is {truth:.4g} and {claimed:.4g} is claimed")
    return found


def _shares(logs: Floats) -> Floats:
    law = np.exp(logs - logs.max())
    return np.asarray(law / law.sum())


@check("minibatches cost their curve")
def minibatches() -> tuple[bool, str]:
    """Where one step leads on every part of four records, and the law over all parts, of the farthest neighbours."""
    design = Design(SmoothedHinge(), dimension=1, data_norm=1.0)  # at w = 0 every slope is as steep as can be
    problems, count = [], 0
    for batch in (1, 2):
        sgd = MinibatchSGD(design, 4, noise=0.6, batch=batch, steps=1)
        for rest in ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (1.0, -1.0, 0.3)):
            p, q = (_one_step(sgd, (*rest, x)) for x in (1.0, -1.0))
            problems += _above(f"{batch} of 4 records", sgd.profile, p, q)
            count += 1
    return verdict(problems, f"{count} pairs of neighbours, every part of them, none above its claim")


def _one_step(sgd: MinibatchSGD, records: tuple[float, ...]) -> Floats:
    """Return the law of the first iterate: the mean over all parts, each led to by the mechanism itself."""
    seen = Rows(sgd.n, np.array(records)[:, None], np.ones(sgd.n))
    spread = sgd.learning_rate * sgd.noise
    laws = []
    for part in itertools.combinations(range(sgd.n), sgd.batch):
        script = SimpleNamespace(choice=lambda *_, part=part, **__: np.array(part), standard_normal=np.zeros)
        laws.append(stats.norm.pdf(_FINE, float(sgd._value(seen, script, 1)[0, 0]), spread))  # type: ignore[arg-type]
    law = np.mean(laws, axis=0)
    return np.asarray(law / law.sum())


@check("near neighbours cost what is claimed")
def near_records() -> tuple[bool, str]:
    """Shares and a mean of which one record moves by a quarter, wherever the others lie: textbook divergences."""
    problems, pairs, move, n = [], 0, 0.25, 6
    for a, b in ((2.0, 3.0), (0.5, 20.0)):
        order = 1 + 0.5 * min(a, b) / move
        claim = float(approximate.profile_within(BetaBernoulli(a, b, whole=False), n, move).renyi(order))
        for rest in np.linspace(0.0, n - move, 25):
            p, q = (a + rest + move, b + n - rest - move), (a + rest, b + n - rest)
            for (p1, p2), (q1, q2) in ((p, q), (q, p)):
                mixed = special.betaln(order * p1 + (1 - order) * q1, order * p2 + (1 - order) * q2)
                truth = (mixed - order * special.betaln(p1, p2)) / (order - 1) + special.betaln(q1, q2)
                pairs += 1
                if truth > claim * (1 + 1e-9):
                    problems.append(f"Beta({a:g}, {b:g}): R is {truth:.6g} and {claim:.6g} is claimed")
    system = NormalMean(variance=2.0, prior_variance=3.0, bounds=(-5, 5))
    mu = move / 2.0 / math.sqrt(1 / 3.0 + n / 2.0)
    claimed = approximate.profile_within(system, n, move).gdp()
    if claimed is None or mu > claimed * (1 + 1e-12):
        problems.append(f"a mean: μ is {mu:.6g} and {claimed} is claimed")
    return verdict(problems, f"{pairs} pairs of shares and a mean, none above its claim")


@check("Gibbs posteriors cost what is claimed")
def gibbs() -> tuple[bool, str]:
    """An exact sample under the hinge, kink and all, and under squares: every pair of three records, by quadrature."""
    losses: dict[str, tuple[Callable[[Floats, float], Floats], float, float]] = {
        "hinge": (lambda w, x: np.maximum(0.0, 1 - x * w), 1.0, 0.0),
        "squares": (lambda w, x: (w - x) ** 2 / 2, 1.0, 1.0),  # the slopes of two records differ by 2
    }
    problems, pairs = [], 0
    for name, (loss, lipschitz, convexity) in losses.items():
        for beta, m in ((0.5, 1.0), (1.0, 3.0)):
            profile = gibbs_rules.gibbs_profile(beta, lipschitz, m, loss_convexity=convexity, n=3)
            for rest in itertools.combinations_with_replacement((-1.0, 0.3, 1.0), 2):
                p, q = (
                    _shares(-m * _FINE**2 / 2 - beta * np.sum([loss(_FINE, x) for x in (*rest, last)], axis=0))
                    for last in (1.0, -1.0)
                )
                problems += _above(name, profile, p, q)
                pairs += 1
    return verdict(problems, f"{pairs} pairs of posteriors, none above its claim")


@check("a chain is as near as it says")
def near_chains() -> tuple[bool, str]:
    """The law of a chain on a smoothed hinge, by its transition matrix, against the posterior of the hinge itself."""
    problems, widest, records = [], 0.0, np.ones(6)
    for width, step, steps in ((6.0, 0.05, 400), (0.05, 0.005, 1), (0.5, 0.05, 400), (0.5, 0.14, 400)):
        chain = Chain(0.5, 0.5 + 6 / width, 2.0, step=step, n_steps=steps)
        moved = _W - step * (0.5 * _W - np.clip((1 - _W) / width, 0, 1) * records.size)
        kernel = np.exp(-((_W[None, :] - moved[:, None]) ** 2) / (4 * step))
        kernel /= kernel.sum(axis=1, keepdims=True)
        at_once = math.gcd(steps, 4)
        jump = np.linalg.matrix_power(kernel, at_once)
        law = jump[_W.size // 2]
        for _ in range(steps // at_once - 1):
            law = law @ jump
        target = _shares(-records.size * np.maximum(0.0, 1 - _W) - _W**2 / 4)
        u = (np.arange(20_000) + 0.5) / 20_000
        truth = float(np.sqrt(np.mean(np.subtract(*(np.interp(u, np.cumsum(p), _W) for p in (law, target))) ** 2)))
        bound = nearness.chain_distance(chain, 1, float(records.size), gap=records.size * width / 2)
        widest = max(widest, truth / bound)
        if truth > bound + 0.02:  # a cell of the grid
            problems.append(f"a chain lies {truth:.3g} from its posterior, and {bound:.3g} is claimed")
            break
    return verdict(problems, f"four chains, at most {widest:.2f} of what is claimed")


@check("couplings of densities cover the divergence")
def couplings() -> tuple[bool, str]:
    """Two laws on [0, 1] through a kernel, by plain quadrature, against the proven bound."""
    y = np.linspace(0.0, 1.0, 2001)
    k = np.array([_shares(3 * x * y) for x in y])
    p, q = _shares(2 * y) @ k, _shares(-2 * y) @ k
    mu = densities.IntervalLaw(lambda y, _: 2 * y, 0.0, 1.0)
    nu = densities.IntervalLaw(lambda y, _: -2 * y, 0.0, 1.0)
    kernel = densities.DensityKernel(lambda y, x, _: 3 * x * y, lambda y, x: 3 * y + 0 * x, 0.0, 1.0)
    truth = math.log(np.sum(p**2 / q))
    bound = densities.coupled_renyi(2.0, mu, nu, kernel, theta=0.0)
    problems = [f"R of order 2 is {truth:.4g} and {bound:.4g} is claimed"] if truth > bound else []
    return verdict(problems, f"a divergence of {truth:.3g}, and {bound:.3g} is proven")


@check("no projection or constant is taken at its word")
def word_for_it() -> tuple[bool, str]:
    """Maps that are no projections and constants that are too good, each refused before any data."""

    def bowl(w: Any, x: Any, y: Any) -> Any:
        del y
        return jnp.sqrt(1 + jnp.sum((w - x) ** 2))

    wrong: dict[str, Callable[[], Any]] = {
        "a map that doubles": lambda: OwnSet(lambda w: 2 * w, dimension=2),
        "a retraction that is no projection": lambda: OwnSet(
            lambda w: w / jnp.maximum(jnp.max(jnp.abs(w)), 1.0), dimension=2
        ),
        "half of a Lipschitz constant": lambda: Design(Potential(bowl, 0.5, 1.0), 2, 1.0),
        "a tenth of the smoothness": lambda: Design(Potential(bowl, 1.0, 0.1), 2, 1.0),
        "strong convexity that is none": lambda: Design(Potential(bowl, 1.0, 1.0, 0.2), 2, 1.0),
    }
    problems = []
    for name, build in wrong.items():
        try:
            build()
            problems.append(f"{name} passes")
        except InvalidValue:
            pass
    return verdict(problems, f"{len(wrong)} wrong words, each refused")
