"""Every registered case builds, is drawn from and survives; those whose claim is exact are nearly reached."""

from __future__ import annotations

import pytest

from sottovoce.audit import Verdict, audit
from sottovoce.audit.cases import Case, all_cases, case, find_case
from sottovoce.audit.survey import survey
from sottovoce.privacy.errors import InvalidValue

CASES = all_cases()


@pytest.mark.parametrize("name", CASES)
def test_every_case_survives(name: str) -> None:
    found = CASES[name]
    report = audit(found.build(), draws=1000 if found.slow else 20_000, seed=5)
    assert report.verdict is not Verdict.VIOLATED
    assert report.name == name
    if found.tight and not found.slow:
        assert report.tightness is not None
        assert report.tightness > 0.5


@pytest.mark.parametrize("name", ["Langevin, worst quadratic, 12 steps", "Langevin, worst quadratic, 60 steps"])
def test_langevin_on_the_worst_quadratic_leaks_what_its_certificate_says(name: str) -> None:
    """The certificate is tight: at a tenth of the draws of the published table the attack is near already."""
    report = audit(CASES[name].build(), draws=100_000, seed=0)
    assert report.verdict is Verdict.HOLDS
    assert 0.95 * report.mu.claimed < report.mu.lower <= report.mu.claimed
    assert report.tightness is not None
    assert 0.8 < report.tightness <= 1


def test_every_mechanism_and_system_has_a_case() -> None:
    for kind in ("direct", "diffused", "concentrated", "tempered", "laplace", "gaussian"):
        for system in ("beta-bernoulli", "dirichlet-categorical", "gamma-poisson", "gamma-exponential", "normal-mean"):
            assert f"{kind}, {system}" in CASES
    others = ("statistical query", "Langevin", "SGD", "Ornstein", "local:", "quadratic", "noisy counts", "network")
    for word in others:
        assert any(word in name for name in CASES)


def test_a_survey_keeps_the_order_and_gives_slow_cases_a_tenth() -> None:
    names = ["noisy quadratic statistics", "local: smooth one bit", "direct, beta-bernoulli"]
    fractions: list[float] = []
    found = survey(names, draws=10_000, progress=fractions.append)
    assert [c.name for c, _ in found] == names
    assert [r.draws for _, r in found] == [1000, 10_000, 10_000]
    assert fractions[-1] == 1.0
    together = survey(names[1:], draws=10_000, jobs=2)
    assert [r.epsilon for _, r in together] == [r.epsilon for _, r in found[1:]]


def test_a_case_of_ones_own_is_found_by_its_name() -> None:
    @case("a case of the tests")
    def build():  # type: ignore[no-untyped-def]
        return CASES["direct, beta-bernoulli"].build()

    assert find_case("a case of the tests") == Case("a case of the tests", build)
    with pytest.raises(InvalidValue, match="known: "):
        find_case("a case of nobody")
