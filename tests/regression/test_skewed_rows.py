"""A column near an end of its public bounds is skewed, and on imagined rows the mean bends as on the records."""

from typing import Any

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.inference.regression import skewed_rows
from sottovoce.inference.regression.moment_draws import MomentSamples
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation, round_shape
from sottovoce.inference.regression.pseudo_row_moments import PseudoRowMoments
from sottovoce.inference.regression.skewed_rows import skewed, skewness
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import HeldRecords

N = 5_000


def test_a_column_is_as_skewed_as_its_bounds_ask_for() -> None:
    columns = (sv.Number(0, 20), sv.Number(-6, 6), sv.Flag())
    entries = ((), ((0, -1),), ((1, -1),), ((2, -1),), ((0, -1), (2, -1)))
    encoding = Encoding(("x", "w", "f"), columns, entries, (True, True, True))
    means = np.array([[1.0, -0.9, 0.0, 0.1, -0.1], [1.0, 0.9, 0.75, 0.1, 0.0], [1.0, -0.6, 0.9, 0.1, 0.0]])
    found = skewness(encoding, means, np.array([[0.0, 0.1, 1 / 6, 0.3, 0.2]] * 3))
    assert found[:, 0].tolist() == found[:, 3].tolist() == [0.0, 0.0, 0.0]
    assert found[0, 1] == pytest.approx(2.0, abs=0.01) and found[1, 1] == pytest.approx(-2.0, abs=0.01)
    assert found[2, 1] == found[0, 2] == 0.0 and not found[:, 4].any()
    assert found[1, 2] < 0 and found[2, 2] < found[1, 2]


@pytest.mark.parametrize("asked", [-2.0, -1.0, 0.5, 1.0, 2.0])
def test_noise_is_made_as_skewed_as_asked(asked: float) -> None:
    noise = np.random.default_rng(3).standard_normal((50_000, 2))
    plain, made = skewed(noise, np.array([[0.0, asked]]))[0].T
    assert np.array_equal(plain, noise[:, 0])
    assert made.mean() == pytest.approx(0.0, abs=1e-9) and made.std() == pytest.approx(1.0)
    assert (made**3).mean() == pytest.approx(asked, abs=0.15)


FORMULA = sv.regression.Formula("y ~ x", sv.Facts(y=sv.Count(12), x=sv.Number(0, 20)), "poisson")


def at(intercept: float, slope: float) -> Any:
    """Return coefficients of the rows."""
    A, b = FORMULA.units
    return np.linalg.solve(A, np.array([intercept, slope]) - b)


def missed(x: Any, centre: Any, theta: Any, room: float | None = None, **how: Any) -> float:
    """Return how far, beside it, what the mean bends on imagined rows is from what it does on the records.

    With `room` rows are round, and those longer than so many times their average are cut.
    """
    columns, first = (x, np.random.default_rng(5).poisson(0.5, N).astype(float)), FORMULA.look(N)

    def seen(matrix: Any, norm: float) -> NoisyScoreInformation:
        look = FORMULA.look_at(N, centre, matrix, norm, first.parts)
        total = look.steps(HeldRecords(columns).look(look)).astype(float)
        return NoisyScoreInformation.of(look, N, total, dict.fromkeys(look.parts, 1e-9))

    glance, rows = seen(np.array(first.matrix), first.norm), FORMULA.encoding.rows([x], N)[0]
    if room is not None:
        shape, weights = round_shape(glance), glance.look.model.slope(rows @ centre)
        glance = seen(shape, room * float(np.sqrt(np.average(((rows @ shape.T) ** 2).sum(axis=1), weights=weights))))
    look = glance.look
    z = rows @ look.matrix.T
    v = look.weights((z * z).sum(axis=1))
    goal, start = np.linalg.solve(look.matrix.T, theta), look.predictors[0]
    sums = (v * (look.model.mean(z @ goal) - look.model.mean(z @ start))) @ z
    straight = (z.T * (v * look.model.slope(z @ start))) @ z
    bends = np.linalg.solve(straight, sums) - (goal - start)
    imagined = PseudoRowMoments.of([glance], [MomentSamples.of([glance], several=False)[0].mean], **how)
    gap = imagined.way(goal[None])[0][0] - (goal - start) - bends
    return float(np.sqrt((gap @ straight @ gap) / (bends @ straight @ bends)))


@pytest.mark.parametrize("to", [0.1, 0.5])
@pytest.mark.parametrize("turned", [False, True])
def test_the_mean_bends_on_imagined_rows_as_on_records_with_a_skewed_column(
    to: float, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exponential column, from 0 up or from 20 down; the look is taken where its slope is 0.3."""
    x = np.random.default_rng(5).exponential(size=N).clip(0, 20)
    side, x = (-1.0, 20 - x) if turned else (1.0, x)
    ways = [at(-0.8 - (20 * s if turned else 0), s) for s in (side * 0.3, side * to)]
    skew = missed(x, *ways)
    monkeypatch.setattr(skewed_rows, "_LEAST", np.inf)
    assert skew < 0.5 * missed(x, *ways)


@pytest.mark.parametrize("off", [-0.06, 0.06])
@pytest.mark.parametrize("room", [0.6, 1.2])
def test_rows_far_out_bend_the_mean_at_the_last_look_no_more_than_it_weighs_them(off: float, room: float) -> None:
    """Steep counts beside a gamma column of shape 1/2: few records are far out, and have most of what is counted."""
    x = np.random.default_rng(5).gamma(0.5, 2.0, N).clip(0, 20)
    centre, theta = (at(-0.5 - s * x.mean(), s) for s in (0.4 + off, 0.4))
    assert missed(x, centre, theta, room, last=True) < 0.75 * missed(x, centre, theta, room)
