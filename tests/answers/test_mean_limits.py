"""Limits of means that assume no tail: quantiles against integrals, the least variance by brute force, and coverage."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.mean_limits import mean_limits, upper_quantile
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Number
from sottovoce.records.readings.group_moments import STEPS


@pytest.mark.parametrize("spread", [0.01, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("tail", [0.2, 0.025, 1e-4])
def test_quantiles_of_laplace_noise_and_chance_are_those_of_their_convolution(spread: float, tail: float) -> None:
    scale = 2.0
    found = float(upper_quantile(tail, np.array([spread**2]), 2 * scale**2, "laplace")[0])
    held = integrate.quad(
        lambda x: stats.laplace.pdf(x, scale=scale) * special.ndtr((x - found) / spread),
        -60 * scale,
        60 * scale,
        points=[0.0, found - 8 * spread, found, found + 8 * spread],
        limit=400,
    )[0]
    assert held == pytest.approx(tail, rel=1e-5)


@pytest.mark.parametrize("noise", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("mean", [-0.9, -0.6])
def test_squares_reject_no_mean_that_any_variance_could_explain(noise: float, mean: float) -> None:
    """At the limit, no h = Nσ² leaves what was seen likelier than the level says; beyond it, none does so either."""
    number, level = 1000.0, 0.95
    square = number * mean**2
    sizes = np.array([number]), np.zeros(1)
    limit = mean_limits(sizes, (np.array([-0.1]), np.array([square])), (4e6, noise**2), level, "gaussian")[0, 0]
    for h in np.geomspace(1e-3, 1e3, 200):
        reach = math.sqrt(noise**2 + 4 * limit**2 * h)
        assert special.ndtr((square - number * limit**2 - h) / reach) <= 0.025 * (1 + 1e-6)
    slack = optimize.minimize_scalar(
        lambda h: h - 1.959964 * math.sqrt(noise**2 + 4 * limit**2 * h), bounds=(0, 1e3), method="bounded"
    ).fun
    assert number * limit**2 - square == pytest.approx(-min(slack, -1.959964 * noise), rel=1e-3)


def posteriors(values: np.ndarray, n: int, share: float, tables: int, seed: int) -> list[CellsPosterior]:
    """Posteriors of the mean of n records within 0 and 1, drawn with replacement from some values."""
    purse, rng = PrivacyFilter(ApproxDP(1.0, 1e-6)), seeded_rng(seed)
    asked = Question("mean", ("x",), Facts(x=Number(0, 1, missing=0.0)))
    made = NoisyCells.calibrate(asked, n, purse.share(share), noise="gaussian")
    deviations = [math.sqrt(noise.variance) for noise in made.noises]
    found = []
    for _ in range(tables):
        t = 2 * rng.choice(values, n) - 1
        sums = STEPS * np.array([t.sum(), (t * t).sum()]) + deviations * rng.standard_normal(2)
        found.append(CellsPosterior(asked, n, "gaussian", made.scale, np.rint(sums).astype(np.int64)))
    return found


def test_a_mean_close_to_a_bound_is_held_where_the_posterior_alone_misses_it() -> None:
    """All records at 0.004 of the way: the truth lies on the limit, and one side alone can miss it."""
    values, n = np.full(10, 0.004), 4000
    told = posteriors(values, n, 0.1, 500, 3)
    before = [replace(one, question=replace(one.question, tails="")) for one in told]
    held, alone = (np.mean([p.interval(0.95)[0, 0] <= 0.004 for p in some]) for some in (told, before))
    assert held >= 0.93
    assert held > alone
    widths = [np.mean([np.diff(p.interval(0.95)[0]) for p in some]) for some in (told, before)]
    assert widths[1] <= widths[0] <= 1.1 * widths[1]


def test_where_sums_tell_more_than_squares_nothing_is_drawn_out() -> None:
    for one in posteriors(np.linspace(0.2, 0.8, 100), 4000, 0.1, 5, 4):
        alone = replace(one, question=replace(one.question, tails=""))
        assert np.array_equal(one.interval(0.95), alone.interval(0.95))


def test_tails_are_named_and_kept() -> None:
    facts = Facts(x=Number(0, 1))
    asked = Question("mean", ("x",), facts)
    assert asked.tails == "any" and asked.to_dict()["tails"] == "any"
    state = asked.to_dict()
    del state["tails"]
    assert Question.from_dict(state).tails == ""
    assert Question.from_dict(state).to_dict() == state
    with pytest.raises(InvalidValue, match="tails= is one of any"):
        Question("mean", ("x",), facts, tails="none")
