"""The checks pass on the library as it is, and their own arithmetic agrees with closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from audit.checks import all_checks, known_checks, run_check
from audit.checks.calibration import DataTouched, Untouchable
from sottovoce.audit.checks.fits import chi_square, independence, kolmogorov
from sottovoce.audit.checks.quadrature import hockey_stick, nodes, renyi
from sottovoce.audit.checks.result import CHECKS, check
from sottovoce.mechanisms.conjugate import Beta, Dirichlet, Gamma, Normal, NormalVector, Truncated
from sottovoce.privacy.errors import InvalidValue

ONE_BY_ONE = ("every registered mechanism does what all must", "every registered reading does what all must")
"""Checks that go through the registries; `test_check_mechanism` does it kind by kind."""


@pytest.mark.parametrize("name", [name for name in known_checks() if name not in ONE_BY_ONE])
def test_the_check_passes_on_the_library_as_it_is(name):
    result = run_check(name)
    assert result.passed, result.evidence
    assert result.to_dict() == {"name": name, "passed": True, "evidence": result.evidence}


def test_checks_made_one_by_one_have_their_names():
    assert set(ONE_BY_ONE) < set(known_checks())


def test_named_checks_run_in_order_and_report_progress():
    seen = []
    results = all_checks(["every draw is charged", "a breach leaves what it says"], advance=seen.append)
    assert [r.name for r in results] == ["every draw is charged", "a breach leaves what it says"]
    assert seen == [0.5, 1.0]


def test_an_unknown_check_is_named():
    with pytest.raises(InvalidValue, match="no check is called 'luck'; known: samplers"):
        run_check("luck")


def test_a_check_that_raises_has_not_passed(monkeypatch):
    monkeypatch.setattr("sottovoce.audit.checks.result.CHECKS", dict(CHECKS))

    @check("one that breaks")  # registered in a copy only
    def broken():
        raise ZeroDivisionError("by nothing")

    result = broken()
    assert (result.passed, result.evidence) == (False, "ZeroDivisionError: by nothing")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Beta(3.0, 4.0), Beta(4.0, 3.0)),
        (Gamma(3.0, 2.0), Gamma(4.5, 2.0)),
        (Normal(0.0, 2.0), Normal(1.0, 2.0)),
        (Dirichlet([2.0, 3.0, 4.0]), Dirichlet([3.0, 2.0, 4.0])),
        (NormalVector([0.0, 0.0], 2.0), NormalVector([0.5, -1.0], 2.0)),
    ],
)
def test_quadrature_agrees_with_the_closed_form_of_each_family(first, second):
    grid = nodes(first, second)
    log_p, log_q = grid.log_density(first), grid.log_density(second)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-9)
    assert renyi(log_p, log_q, 2.0) == pytest.approx(first.renyi(second, 2.0), rel=1e-7)


def test_quadrature_of_a_hockey_stick_agrees_with_the_normal_one():
    p, q = Normal(1.0, 1.0), Normal(0.0, 1.0)
    grid = nodes(p, q)
    mu, epsilon = 1.0, 0.7
    exact = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert hockey_stick(grid.log_density(p), grid.log_density(q), [epsilon]) == pytest.approx([exact], rel=1e-3)


def test_quadrature_of_a_truncated_density_sums_to_one():
    law = Truncated(Beta(0.5, 3.0), 0.1, 0.9)
    assert np.exp(nodes(law, law).log_density(law)).sum() == pytest.approx(1, abs=1e-12)


def test_quadrature_refuses_what_it_does_not_know():
    with pytest.raises(InvalidValue, match="no quadrature is known for object"):
        nodes(object(), object())
    with pytest.raises(InvalidValue, match="three categories"):
        nodes(Dirichlet(np.ones(4)), Dirichlet(np.ones(4)))


def test_the_tests_of_fit_tell_a_law_from_its_neighbour():
    rng = np.random.Generator(np.random.Philox(1))
    draws = rng.geometric(0.5, 5000)
    k = np.arange(1, 60)
    assert chi_square(draws, k, 0.5**k) > 1e-3
    assert chi_square(draws, k, 0.45 * 0.55 ** (k - 1.0)) < 1e-9
    assert chi_square(draws + 1, k[:1], np.ones(1)) == 0  # what cannot happen, happened
    u = rng.random((4000, 2))
    assert independence(u[:, 0], u[:, 1]) > 1e-3
    assert independence(u[:, 0], u[:, 0]) < 1e-9
    assert kolmogorov(u[:, 0]) > 1e-3
    assert kolmogorov(u[:, 0] ** 1.2) < 1e-9


@pytest.mark.parametrize("touch", [len, list, bool, np.asarray, lambda x: x.shape, lambda x: x[0], lambda x: x == 1])
def test_untouchable_data_raises_on_any_access(touch):
    with pytest.raises(DataTouched):
        touch(Untouchable())
