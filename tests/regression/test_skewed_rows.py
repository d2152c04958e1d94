"""A column near an end of its public bounds is skewed, and on imagined rows the mean bends as on the records."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.facts.encodings import Encoding
from sottovoce.readings import HeldRecords
from sottovoce.regression import skewed_rows
from sottovoce.regression.glances import Glance
from sottovoce.regression.guesses import Guesses
from sottovoce.regression.imagined import Imagined
from sottovoce.regression.skewed_rows import skewed, skewness

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


@pytest.mark.parametrize("to", [0.1, 0.5])
@pytest.mark.parametrize("turned", [False, True])
def test_the_mean_bends_on_imagined_rows_as_on_records_with_a_skewed_column(
    to: float, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exponential column, from 0 up or from 20 down; the look is taken where its slope is 0.3."""
    formula = sv.regression.Formula("y ~ x", sv.Facts(y=sv.Count(12), x=sv.Number(0, 20)), "poisson")
    rng = np.random.default_rng(5)
    x = rng.exponential(size=N).clip(0, 20)
    side, x = (-1.0, 20 - x) if turned else (1.0, x)
    columns = (x, rng.poisson(0.5, N).astype(float))
    A, b = formula.units
    centre, theta = (
        np.linalg.solve(A, np.array([-0.8 - (20 * s if turned else 0), s]) - b) for s in (side * 0.3, side * to)
    )
    first = formula.look(N)
    look = formula.look_at(N, centre, np.array(first.matrix), first.norm, first.parts)
    total = look.steps(HeldRecords(columns).look(look)).astype(float)
    glance = Glance.of(look, N, total, dict.fromkeys(look.parts, 1e-9))
    z = formula.encoding.rows([x], N)[0] @ look.matrix.T
    v = look.weights((z * z).sum(axis=1))
    goal = np.linalg.solve(look.matrix.T, theta)
    start = look.predictors[0]
    sums = (v * (look.model.mean(z @ goal) - look.model.mean(z @ start))) @ z
    straight = (z.T * (v * look.model.slope(z @ start))) @ z
    bends = np.linalg.solve(straight, sums) - (goal - start)

    def missed() -> float:
        imagined = Imagined.of([glance], [Guesses.of([glance], several=False)[0].mean])
        told = imagined.way(goal[None])[0][0] - (goal - start)
        gap, whole = told - bends, bends
        return float(np.sqrt((gap @ straight @ gap) / (whole @ straight @ whole)))

    skew = missed()
    monkeypatch.setattr(skewed_rows, "_LEAST", np.inf)
    assert skew < 0.5 * missed()
