"""Mechanisms to which the number of records is a secret: what one record more costs, by brute force and by mpmath."""

import itertools
import math

import flint
import mpmath as mp
import numpy as np
import pytest
from flint import arb

from audit.cases import find_case
from audit.cases.relation import secret_cells, secret_looks
from sottovoce.audit import Verdict, audit
from sottovoce.audit.check_mechanism import check_mechanism
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    Mechanism,
    NoisyStatistics,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.mechanisms.mechanism_choice import build_mechanism
from sottovoce.privacy import (
    ADD_REMOVE,
    ApproxDP,
    Basis,
    GammaShapePairs,
    GaussianDP,
    IncompatibleNotions,
    InvalidValue,
    PureDP,
    RenyiDP,
)
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number
from support.concluding import concluded_once

__all__ = ["concluded_once"]


def beta_delta(epsilon: float, p: tuple[arb, arb], q: tuple[arb, arb]) -> float:
    """Return δ(ε) of two Beta laws of which one parameter differs: the ratio is a power of θ or of 1 - θ, by Arb."""
    if p[1] != q[1]:  # turned round
        return beta_delta(epsilon, p[::-1], q[::-1])
    w, total = p[0] - q[0], p[1]
    log_beta = [law[0].lgamma() + total.lgamma() - (law[0] + total).lgamma() for law in (p, q)]
    log_edge = (arb(epsilon) + log_beta[0] - log_beta[1]) / w  # log-ratio = w·log θ + constant
    edge = log_edge.exp() if log_edge < 0 else arb(1)
    hits, alarms = (edge.beta_lower(law[0], total, regularized=True) if edge < 1 else arb(1) for law in (p, q))
    if w > 0:
        hits, alarms = 1 - hits, 1 - alarms
    return max(float((hits - arb(epsilon).exp() * alarms).mid()), 0.0)


def beta_renyi(order: float, p: tuple[arb, arb], q: tuple[arb, arb]) -> float:
    mixed = [arb(order) * a + (1 - arb(order)) * b for a, b in zip(p, q, strict=True)]
    if not all(part > 0 for part in mixed):
        return math.inf
    log = [law[0].lgamma() + law[1].lgamma() - (law[0] + law[1]).lgamma() for law in (mixed, p, q)]
    return float(((log[0] - order * log[1]) / (arb(order) - 1) + log[2]).mid())


@pytest.fixture
def _precise():
    before, flint.ctx.prec = flint.ctx.prec, 300
    yield
    flint.ctx.prec = before


@pytest.mark.usefixtures("_precise")
@pytest.mark.parametrize(
    ("alpha", "beta", "w"), [(6.0, 12.0, 1.0), (0.3, 0.5, 1.0), (2.0, 2.0, 0.4), (1e-6, 3.0, 1.0), (1e9, 0.5, 1.0)]
)
def test_the_theorem_by_brute_force_over_s_and_n(alpha: float, beta: float, w: float) -> None:
    claim = BetaBernoulli(alpha, beta).profile(None, w)
    assert claim.relation == ADD_REMOVE
    reached = 0.0
    large = max(alpha, beta) > 1e6
    far = 10**6 if w == 1 else 200  # other steps take Arb long
    deltas = {epsilon: claim.delta(epsilon) for epsilon in ((0.3,) if large else (0.0, 0.3, 1.0, 3.0))}
    curve = {order: claim.renyi(order) for order in (1.1, 2.0, 5.0)}
    for n in (0, 3) if large else (0, 1, 2, 5, far):
        for s in range(n + 1) if n < 10 else (0, 1, n - 1, n):
            one = (arb(alpha) + arb(w) * s, arb(beta) + arb(w) * (n - s))
            for more in ((one[0] + arb(w), one[1]), (one[0], one[1] + arb(w))):
                for pair in ((more, one), (one, more)):
                    for epsilon, most in deltas.items():
                        truth = beta_delta(epsilon, *pair)
                        assert truth <= most * (1 + 1e-12) + 1e-300
                        reached = max(reached, truth) if epsilon == 0.3 else reached
                    for order, most in curve.items():
                        assert beta_renyi(order, *pair) <= most * (1 + 1e-12)
    assert reached >= deltas[0.3] * (1 - (1e-3 if w == 1 else 0.05))  # in the limit of many other records


def test_the_claim_is_free_of_n_and_of_the_number_of_categories() -> None:
    one = BetaBernoulli(3.0, 8.0).profile(None, 0.5, 2.0)
    many = DirichletCategorical([8.0, 3.0, 4.0, 90.0]).profile(None, 0.5, 2.0)
    assert one.pairs == many.pairs == (GammaShapePairs(6.0, 0.5),)
    assert one.basis is Basis.EXACT


@pytest.mark.usefixtures("_precise")
def test_a_touched_category_is_one_share_of_all() -> None:
    """A Dirichlet with one record more in category i is told from the other by θ_i alone: for all small data sets."""
    alpha, claim = np.array([1.5, 2.5, 1.0]), DirichletCategorical([1.5, 2.5, 1.0]).profile(None)
    for counts in itertools.product(range(3), repeat=3):
        posterior = alpha + counts
        for i in range(3):
            own, rest = arb(posterior[i]), arb(posterior.sum() - posterior[i])
            for pair in (((own + 1, rest), (own, rest)), ((own, rest), (own + 1, rest))):
                assert beta_delta(0.5, *pair) <= claim.delta(0.5) * (1 + 1e-12)


def test_the_curve_is_that_of_a_gamma_shape_by_mpmath() -> None:
    """Gamma(a + w) against Gamma(a): the log-ratio is w·log x less a constant."""
    a, w = 0.7, 1.0
    claim = BetaBernoulli(a, 5.0).profile(None)
    with mp.workdps(40):
        step = mp.loggamma(a + w) - mp.loggamma(a)
        for epsilon in (0.0, 0.5, 2.0, 6.0):
            up = mp.exp((epsilon + step) / w)
            more = mp.gammainc(a + w, up, regularized=True) - mp.exp(epsilon) * mp.gammainc(a, up, regularized=True)
            down = mp.exp((step - epsilon) / w)
            less = mp.gammainc(a, 0, down, regularized=True) - mp.exp(epsilon) * mp.gammainc(
                a + w, 0, down, regularized=True
            )
            truth = float(max(more, less))
            assert truth <= claim.delta(epsilon) <= truth * (1 + 1e-9)


@pytest.mark.parametrize("kind", [DiffusedPosterior, ConcentratedPosterior])
@pytest.mark.parametrize("system", [BetaBernoulli(6, 12), DirichletCategorical([6.0, 7.0, 8.0])])
@pytest.mark.parametrize("promise", [ApproxDP(1.0, 1e-6), RenyiDP(2.0, 0.3)])
def test_samples_of_shares_are_calibrated_without_n(kind, system, promise) -> None:
    target = promise.under(ADD_REMOVE)
    made = kind.calibrate(system, None, target)
    assert made.profile.satisfies(target)
    assert made.n is None
    assert Mechanism.from_dict(made.to_dict()).to_dict() == made.to_dict()
    categories = [0, 1] if isinstance(system, BetaBernoulli) else [0, 1, 2]
    for n in (0, 1, 7):
        made.release((categories * n)[:n], seeded_rng(1))


def test_what_is_not_proven_is_refused_with_the_reason() -> None:
    systems = [GammaPoisson(1.0, 1.0, 5), GammaExponential(2.0, 1.0, 5.0), NormalMean(1.0, 1.0, bounds=(0, 1))]
    for system in systems:
        with pytest.raises(InvalidValue, match="moves two of its parameters"):
            DirectPosterior(system, None)
    with pytest.raises(InvalidValue, match="fractions of records"):
        DirectPosterior(BetaBernoulli(1, 1, whole=False), None)
    for name in ("laplace", "gaussian", "tempered"):
        with pytest.raises(InvalidValue, match="must know how many records"):
            build_mechanism(name, BetaBernoulli(1, 1), None, PureDP(1.0).under(ADD_REMOVE))
    for kind, arguments in ((NoisyStatistics, ("laplace", 1.0)), (TemperedPosterior, (1.0, 0.1))):
        with pytest.raises(InvalidValue, match="must know how many records"):
            kind(BetaBernoulli(1, 1), None, *arguments)
    with pytest.raises(InvalidValue, match="secret"):
        DirectPosterior(BetaBernoulli(6, 12), None).forecast(0.5)


def test_a_promise_and_an_n_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(IncompatibleNotions, match="n=None"):
        DiffusedPosterior.calibrate(BetaBernoulli(6, 12), 100, PureDP(1.0).under(ADD_REMOVE))
    with pytest.raises(IncompatibleNotions, match="add-remove"):
        DiffusedPosterior.calibrate(BetaBernoulli(6, 12), None, ApproxDP(1.0, 1e-6))


def test_counts_pay_for_one_cell_not_two() -> None:
    facts = Facts(ward=Category(("A", "B", "C")))
    question = Question("counts", ("ward",), facts)
    public = NoisyCells.calibrate(question, 100, PureDP(0.5))
    secret = NoisyCells.calibrate(question, None, PureDP(0.5).under(ADD_REMOVE))
    assert public.scale == pytest.approx(4.0)
    assert secret.scale == pytest.approx(2.0)
    assert secret.profile.basis is Basis.EXACT
    gaussian = NoisyCells.calibrate(question, None, GaussianDP(0.3).under(ADD_REMOVE), noise="gaussian")
    assert gaussian.scale >= 1 / 0.3


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("verb", "column"), [("mean", "stay"), ("counts", "ward"), ("proportion", "smoker")])
def test_no_record_moves_cells_beyond_the_claim(noise, verb, column) -> None:
    """By every record of a fine grid, the sums weighed by the noise that is drawn, against the claim."""
    facts = Facts(smoker=Flag(), ward=Category(("A", "B", "C")), stay=Number(0, 10))
    made = NoisyCells(Question(verb, (column,), facts, by=() if column == "ward" else ("ward",)), None, noise, 2.5)
    values = {"stay": np.linspace(-5, 15, 41).tolist(), "smoker": [True, False, None], "ward": ["A", "C", "?"]}
    scales = np.repeat([one.scale for one in made.noises], made.reading.sizes)
    for record in itertools.product(*(values[name] for name in made.system.columns)):
        moved = made.reading.read([[cell] for cell in record]).total / scales
        if noise == "laplace":
            assert np.abs(moved).sum() <= made.profile.pure() * (1 + 1e-12)
        else:
            assert math.sqrt((moved**2).sum()) <= made.profile.gdp() * (1 + 1e-12)


@pytest.mark.parametrize("family", ["logistic", "probit", "linear", "poisson", "multinomial"])
def test_a_look_is_claimed_by_one_record_s_own_length(family: str) -> None:
    """With odd and ordinary records alike; and where a difference of two would be longer, it is not what is counted."""
    looks = secret_looks(family)
    assert sum(looks.paid(look, scales) for look, scales in looks.path) == pytest.approx(looks.rho)
    for look, scales in looks.path:
        noise = np.repeat([one.scale for one in looks.noises(look, scales)], list(look.sizes.values()))
        options = [[*column, 1e300, -1e300, float("nan")] for column in look.typical()]
        records = ([[cell] for cell in record] for record in itertools.product(*options))
        worst = max(float(np.sum((look.read(record).total / noise) ** 2)) / 2 for record in records)
        assert worst <= looks.paid(look, scales) * (1 + 1e-9)
        assert worst >= 0.15 * looks.paid(look, scales)  # in reach of typical records; loosest for three classes
    assert looks.profile.relation == ADD_REMOVE


@pytest.mark.usefixtures("concluded_once")
@pytest.mark.parametrize(
    "mechanism",
    [
        DirectPosterior(BetaBernoulli(6, 12), None),
        DiffusedPosterior(DirichletCategorical([3.0, 4.0, 5.0]), None, 0.5),
        secret_cells("mean", "stay", "laplace", 2.0),
        secret_cells("counts", "ward", "gaussian", 2.0),
        secret_looks(),
    ],
    ids=lambda m: m.describe(),
)
def test_every_check_of_a_mechanism_holds_where_n_is_a_secret(mechanism: Mechanism) -> None:
    problems = [f"{r.name}: {r.evidence}" for r in check_mechanism(mechanism, draws=1000, fresh=False) if not r.passed]
    assert problems == []


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("direct posterior of a share, n private", 1_000_000),
        ("direct posterior of three shares, n private", 600_000),
        ("counts with Laplace noise, n private", 60_000),
    ],
)
def test_the_audit_comes_within_a_tenth_of_an_exact_claim(name: str, draws: int) -> None:
    report = audit(find_case(name).build(), draws=draws, seed=5)
    assert report.verdict is Verdict.HOLDS
    assert report.tightness is not None
    assert 0.9 <= report.tightness <= 1
