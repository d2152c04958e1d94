"""What makes the joint likelihood of looks fast changes no answer: single precision, half of what is symmetric."""

from typing import Any

import numpy as np
import pytest

from sottovoce.inference.regression import AdaptiveLooks, Formula, joint_likelihood, row_sums
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.residual_law import ResidualLaw
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Count, Facts, Flag, Number

RESPONSES: dict[str, Any] = {"logistic": Flag(), "linear": Number(-8, 8), "poisson": Count(30)}


def told(family: str, d: int, n: int = 20_000, rho: float = 0.02) -> Coefficients:
    rng = np.random.default_rng(2)
    table: dict[str, Any] = {f"x{k}": rng.normal(0, 0.4, n).clip(-1, 1) for k in range(d)}
    t = 0.5 * sum((-1) ** k * table[f"x{k}"] for k in range(d))
    drawn = {"logistic": rng.random(n) < 1 / (1 + np.exp(-t)), "linear": t + rng.normal(size=n)}
    table["y"] = drawn[family] if family in drawn else rng.poisson(np.exp(t)).clip(0, 30)
    facts = Facts(y=RESPONSES[family], **{f"x{k}": Number(-1, 1) for k in range(d)})
    formula = Formula("y ~ " + " + ".join(f"x{k}" for k in range(d)), facts)
    found = AdaptiveLooks(formula, n, rho).release(table, seeded_rng(4)).value
    assert isinstance(found, Coefficients) and found.rows is not None  # concluded from all looks
    return found


def apart(one: Coefficients, other: Coefficients) -> float:
    """Return how far ends of intervals lie apart at most, in widths."""
    width = np.diff(one.interval(), axis=1)
    return float(np.max(np.abs(one.interval() - other.interval()) / width))


@pytest.mark.parametrize("family", ["logistic", "linear", "poisson"])
def test_derivatives_in_single_precision_change_no_interval(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = told(family, 4)
    monkeypatch.setattr(row_sums, "_sums", lambda values, columns: values.T @ columns.T)
    assert apart(quick, told(family, 4)) < 1e-3


def test_residuals_of_several_looks_vary_together_as_sums_in_double_precision_have_it() -> None:
    law = ResidualLaw.of(np.array([0.3, 0.5, 0.8]), JointPriors())
    rng, cuts = np.random.default_rng(0), [(0.0, 0.0), (0.6, 0.0), (1.0, 0.6)]
    offs = [rng.normal(0, 0.2, 50) for _ in cuts]
    drawn = rng.choice(len(law.weights), 200_000, p=law.weights)
    noise = law.means[drawn] + law.sds[drawn] * rng.standard_normal(len(drawn))

    def pulled(cut: tuple[float, float], off: float) -> np.ndarray:
        inner = np.clip(off + noise, -cut[0], cut[0]) if cut[0] else off + noise
        return inner - np.clip(inner, -cut[1], cut[1]) if cut[1] else inner

    found = law.covariances(cuts, offs)
    for row in range(3):
        expected = np.cov([pulled(cut, off[row]) for cut, off in zip(cuts, offs, strict=True)])
        np.testing.assert_allclose(found[:, :, row], expected, rtol=0.1)


def test_a_gram_matrix_is_whole() -> None:
    values = np.random.default_rng(1).normal(size=(7, 4))
    np.testing.assert_allclose(joint_likelihood._gram(values), values.T @ values, rtol=1e-12)
