"""Families from their normalizer alone: the proven search against brute force in plain floats."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from papers.families import InverseGaussianShape, NegativeBinomialProportion, VonMisesConcentration
from scipy import special

from sottovoce.audit import check_mechanism
from sottovoce.mechanisms import DiffusedPosterior, DirectPosterior, ExponentialChoice, Outcomes
from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS
from sottovoce.mechanisms.conjugate.verified_suprema import supremum, supremum_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Number
from sottovoce.records.readings import ClippedSum, FunctionSum
from sottovoce.theory.metric.approximate import profile_within
from sottovoce.theory.metric.families import family_metric_privacy

WAITS = InverseGaussianShape(chi=4.0, nu=6.0, mean=1.0, low=0.25, high=3.0)
COUNTS = NegativeBinomialProportion(chi=9.0, nu=2.0, size=2.5, high=3)
ANGLES = VonMisesConcentration(chi=1.0, nu=2.0)


def _gamma_normalizer(chi, nu):
    return special.gammaln(nu / 2) - nu / 2 * np.log(chi)


def _beta_normalizer(chi, nu):
    return special.betaln(chi, 2.5 * nu)


def _list_normalizer(chi, nu):
    kappa = np.arange(33) / 4
    return special.logsumexp(np.multiply.outer(chi, kappa) - nu * np.log(special.i0(kappa)), axis=-1)


def _brute(normalizer, family, low, high, n, order, w=1.0, v=1.0):
    """The largest divergence over many sums of the other records and many pairs of records, in floats."""
    nu = v * family.nu + w * n
    rest = v * family.chi + w * np.linspace((n - 1) * low, (n - 1) * high, 601)[:, None, None]
    ends = w * np.linspace(low, high, 9)
    p, q = rest + ends[None, :, None], rest + ends[None, None, :]
    mixed = order * p + (1 - order) * q
    with np.errstate(invalid="ignore"):
        found = (normalizer(mixed, nu) - order * normalizer(p, nu)) / (order - 1) + normalizer(q, nu)
    return float(np.nanmax(found))


CASES = [
    (WAITS, _gamma_normalizer, 0.0, WAITS.most),
    (COUNTS, _beta_normalizer, 0.0, 3.0),
    (ANGLES, _list_normalizer, -1.0, 1.0),
]


@pytest.mark.parametrize(("family", "normalizer", "low", "high"), CASES, ids=lambda c: getattr(c, "word", ""))
@pytest.mark.parametrize(("n", "order", "w", "v"), [(1, 1.5, 1.0, 1.0), (12, 1.2, 1.0, 1.0), (12, 3.0, 0.3, 2.0)])
def test_the_search_finds_what_brute_force_finds_and_never_less(family, normalizer, low, high, n, order, w, v):
    found = family.worst(n, order, w, v)
    truth = _brute(normalizer, family, low, high, n, order, w, v)
    assert found.bound >= truth * (1 - 1e-10)
    assert found.attained <= found.bound <= found.attained * (1 + 2e-4) + 1e-12
    assert found.bound <= truth * (1 + 3e-4)  # the grid of brute force holds the ends


def test_a_supremum_inside_is_found_too():
    """ν·log(1 + e^χ) is convex and curved most at 0: the worst sum of the others lies in the middle."""

    class Bowl(ExponentialFamily):
        word = "bowl"
        reading = ClippedSum(-1.0, 1.0)

        def normalizer(self, chi, nu):
            return (1 + chi.exp()).log() * nu

        def distribution(self, chi, nu):
            raise NotImplementedError

    bowl = Bowl(chi=0.0, nu=1.0)
    for order in (1.5, 2.0, 6.0):
        found = bowl.worst(9, order)
        chi = np.linspace(-8, 8, 4001)

        def c(x):
            return np.logaddexp(0, x) * 10

        brute = max(
            ((c(chi + order * a - (order - 1) * b) - order * c(chi + a)) / (order - 1) + c(chi + b)).max()
            for a, b in ((-1, 1), (1, -1))
        )
        assert abs(found.where) < 4
        assert brute * (1 - 1e-9) <= found.bound <= brute * (1 + 3e-4)


def test_the_pole_is_exact():
    assert WAITS.lambda_star(10) == pytest.approx(1 + 4.0 / WAITS.most, rel=1e-6)
    assert COUNTS.lambda_star(10) == 1 + 9 / 3
    assert COUNTS.lambda_star(10, 0.5, 2.0) == 1 + 18 / 1.5
    assert ANGLES.lambda_star(10) == math.inf
    assert COUNTS.worst(10, 4.0).bound == math.inf
    assert np.isinf(COUNTS.profile(10).renyi(4.1))


def test_the_curve_is_never_below_brute_force_between_its_orders():
    profile = COUNTS.profile(8)
    for order in np.linspace(1.05, 3.8, 12):
        truth = _brute(_beta_normalizer, COUNTS, 0.0, 3.0, 8, order)
        assert profile.renyi(order) >= truth * (1 - 1e-10)
    assert profile.renyi(2.0) <= 1.05 * _brute(_beta_normalizer, COUNTS, 0.0, 3.0, 8, 2.0)


def test_a_window_makes_a_family_with_bounds_purely_private():
    profile = ANGLES.profile(5)
    assert profile.pure() == 16.0  # S moves by 2, κ by 8
    assert profile.renyi(2.0) < 8 < profile.claims[1].renyi(2.0)
    assert ANGLES.window(0.25) == 4.0


@pytest.mark.parametrize("family", [WAITS, COUNTS], ids=lambda f: f.word)
def test_a_family_of_one_s_own_is_released_and_checked_like_ours(family, monkeypatch):
    monkeypatch.setitem(SYSTEMS._found, family.word, type(family))
    mech = DirectPosterior(family, 4)
    failed = [r for r in check_mechanism(mech, draws=1000, fresh=False) if not r.passed]
    assert failed == []


def test_calibration_keeps_the_promise_by_brute_force():
    class Quick(NegativeBinomialProportion):
        orders, approach = (1.5,), (0.1, 0.3)

    mech = DiffusedPosterior.calibrate(Quick(chi=9.0, nu=2.0, size=2.5, high=3), 10, RenyiDP(1.5, 0.1))
    truth = _brute(_beta_normalizer, COUNTS, 0.0, 3.0, 10, 1.5, mech.data_weight)
    assert 0.05 < truth <= 0.1
    assert COUNTS.profile(1).pure() == math.inf  # a promise of pure privacy is out of reach without public bounds


def test_public_and_known_records_move_into_the_prior():
    more = COUNTS.with_public([1, 2, 3])
    assert (more.chi, more.nu) == (15.0, 5.0)
    assert more.worst(5, 1.5).bound < COUNTS.worst(5, 1.5).attained
    assert COUNTS.with_known_records([3, 3], 0.5, 2.0).chi == 9.0 + 6 * 0.25


def test_angles_are_drawn_by_an_exponential_choice():
    """κ of a list: the score κ·cos x, the rest of the posterior as base weights, at half the window's weight."""
    kappa, n, w = [float(k) for k in ANGLES.values()], 30, 0.25
    base = np.exp([k * 1.0 - (2.0 + w * n) * math.log(special.i0(k)) for k in kappa])
    scores = FunctionSum(lambda x: [k * math.cos(x) for k in kappa], ANGLES.reading.columns, -8, 8, len(kappa))
    mech = ExponentialChoice(Outcomes(tuple(kappa), scores, tuple(base / base.max())), n, w * 32)
    angles = seeded_rng(2).vonmises(0.0, 3.0, n)
    logs = np.array(kappa) * (1.0 + w * np.cos(angles).sum()) - (2.0 + w * n) * np.log(special.i0(kappa))
    law = np.exp(logs - special.logsumexp(logs))
    np.testing.assert_allclose(mech.probabilities(mech.see(angles)), law, rtol=1e-4)
    assert mech.release(angles).value in kappa


@pytest.mark.parametrize("build", [lambda: NegativeBinomialProportion(chi=0.0, nu=1.0, size=1.0, high=3),
                                   lambda: NegativeBinomialProportion(chi=math.nan, nu=1.0, size=1.0, high=3),
                                   lambda: COUNTS.profile(3, 0.0), lambda: COUNTS.worst(3, 1.0)])  # fmt: skip
def test_what_is_no_family_is_refused(build):
    with pytest.raises(InvalidValue):
        build()


def test_a_blind_normalizer_claims_nothing():
    class Blind(NegativeBinomialProportion):
        def normalizer(self, chi, nu):
            return chi * math.nan

    with pytest.raises(InvalidValue, match="no bound"):
        Blind(chi=9.0, nu=2.0, size=2.5, high=3).profile(3)
    with pytest.raises(InvalidValue):
        DiffusedPosterior.calibrate(Blind(chi=9.0, nu=2.0, size=2.5, high=3), 3, ApproxDP(1.0, 1e-3))


def test_a_normalizer_that_is_none_is_refused():
    class Bent(NegativeBinomialProportion):
        def normalizer(self, chi, nu):
            return -super().normalizer(chi, nu)

    with pytest.raises(InvalidValue, match="not convex"):
        Bent(chi=9.0, nu=2.0, size=2.5, high=3).profile(6)


@pytest.mark.parametrize("entries", [2, 3])
def test_a_second_statistic_is_refused_and_not_left_out(entries):
    """Ten records of 2 and ten of 0 gave one posterior, whatever their squares were."""

    class Several(NegativeBinomialProportion):
        @property
        def reading(self):
            return FunctionSum(lambda x: [x**k for k in range(entries)], (Number(0, 3),), 0, 9, entries)

    with pytest.raises(InvalidValue, match=f"one statistic, and the reading of .* has {entries}"):
        Several(chi=9.0, nu=2.0, size=2.5, high=3)


def test_suprema_are_proven_from_both_sides():
    assert supremum_of(lambda x: (x * 5).sin(), Fraction(0), Fraction(2)) == pytest.approx(1.0, abs=1e-5)
    assert supremum_of(lambda x: (x * 5).sin(), Fraction(0), Fraction(2)) >= 1.0
    at = supremum(lambda a, b: (float(b), float(b)), Fraction(1), Fraction(1))
    assert at[:2] == (1.0, 1.0)


def test_the_lipschitz_constant_of_a_family():
    rate = family_metric_privacy(lambda theta: -theta, 0.5, 3.0)  # exponential records, rate in [0.5, 3]
    assert rate.lipschitz == pytest.approx(1.25, rel=1e-8)
    assert rate.lipschitz >= 1.25
    x, y = [0.0, 1.0, 2.0], [0.5, 1.0, 5.0]
    # Brute force: posteriors on a grid of rates, flat prior.
    theta = np.linspace(0.5, 3.0, 2001)

    def law(data):
        logs = len(data) * np.log(theta) - theta * sum(data)
        return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()

    worst = np.abs(np.log(law(x) / law(y))).max()
    assert worst <= rate.log_ratio_bound(x, y)
    squares = family_metric_privacy(lambda v: -1 / (2 * v), 1.0, 4.0, statistic=lambda x: x * x)
    assert squares.distance([1.0, 2.0], [3.0, 2.0]) == 8.0
    assert squares.lipschitz == pytest.approx((0.5 - 0.125) / 2, rel=1e-6)
    with pytest.raises(InvalidValue):
        family_metric_privacy(lambda p: (p / (1 - p)).log(), 0.0, 1.0)


@pytest.mark.parametrize(("family", "normalizer", "low", "high"), CASES)
def test_near_records_of_any_family_by_brute_force(family, normalizer, low, high, monkeypatch):
    """All records that lie within a third of the range of each other, wherever they lie."""
    monkeypatch.setattr(type(family), "orders", (1.3, 1.4))
    monkeypatch.setattr(type(family), "approach", (0.05, 0.1))
    family = replace(family)  # what it was asked before, by other orders, a family remembers
    n, order, third = 4, 1.2, (high - low) / 3
    nu = family.nu + n
    rest = family.chi + np.linspace(n * low, n * high - third, 4001)
    worst = 0.0
    for p, q in ((rest, rest + third), (rest + third, rest)):
        found = (normalizer(order * p + (1 - order) * q, nu) - order * normalizer(p, nu)) / (order - 1)
        worst = max(worst, float(np.max(found + normalizer(q, nu))))
    claim = profile_within(family, n, third)
    assert worst * (1 - 1e-9) <= claim.renyi(order) <= family.profile(n).renyi(order)
    assert profile_within(family, n, 2 * (high - low)).renyi(order) == pytest.approx(family.profile(n).renyi(order))
    if family.natural is not None:
        assert claim.pure() == pytest.approx(family.profile(n).pure() / 3)


def test_a_number_of_records_of_64_bits_does_not_wrap_round_in_a_sum():
    whole = ClippedSum(0, 2**40, integer=True)
    with pytest.raises(InvalidValue, match="does not fit into a double"):
        whole.check_sums(np.int64(2**30))
