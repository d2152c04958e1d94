"""Many draws of one law: a table changes the time of a draw and nothing else."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from sottovoce.mechanisms.ball_arithmetic import BallFunction, ball_function, precision
from sottovoce.mechanisms.cell_table import CellTable
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, DirichletLaw, GammaLaw, NormalLaw
from sottovoce.mechanisms.exact_sampling import _ends, cells_of, draw, samples
from sottovoce.mechanisms.lazy_uniform import LazyUniform, find_cell
from sottovoce.mechanisms.rounding_cells import EvenCells, FloatingCells, SignedCells, UnitCells, exact
from sottovoce.privacy.randomness import secure_rng

pytest.importorskip("flint")

LAWS = [
    BetaLaw(Fraction(7), Fraction(9)),
    BetaLaw(Fraction(1, 2), Fraction(1, 2)),
    BetaLaw(Fraction(1, 10**6), Fraction(1)),
    BetaLaw(Fraction(10**9), Fraction(3)),
    BetaLaw(Fraction(1, 100), Fraction(101, 100)),
    BetaLaw(Fraction(101, 100), Fraction(1, 100)),
    BetaLaw(Fraction(5 * 10**3), Fraction(10**4)),
    BetaLaw(Fraction(60), Fraction(3), Fraction(1, 10), Fraction(9, 10)),
    GammaLaw(Fraction(1, 3), Fraction(3)),
    GammaLaw(Fraction(5), Fraction(3), Fraction(20)),
    GammaLaw(Fraction(10**5), Fraction(1)),
    NormalLaw(Fraction(1, 3), Fraction(2), spread=1.4),
    NormalLaw(Fraction(10**9), Fraction(1), spread=1.0),
    NormalLaw(Fraction(0), Fraction(1), Fraction(9), None),
]


@cache
def table(law) -> CellTable:
    return CellTable(law, cells_of(law))


class Bits:
    """A source that hands out these bytes, and then the same ones for everybody who asks for more."""

    def __init__(self, first: bytes) -> None:
        self._left = first

    def bytes(self, length: int) -> bytes:
        head, self._left = self._left[:length], self._left[length:]
        return head.ljust(length, b"\x9d")


def _near_edges(law, cells, rng) -> list[int]:
    """Return words of 64 bits at which U is next to F of an edge: the hardest there are."""
    function, words = ball_function(law), [0, 1, 2**63, 2**64 - 1]
    for u in rng.random(12).tolist():
        k = cells.index(Fraction(float(np.clip(function.guess(u, 1 - u), -1e300, 1e300))))
        found = function(exact(cells.edge(k)), 128)
        with precision(160):
            word = int((found * 2**64).mid().floor().unique_fmpz())
        words += [min(max(word + step, 0), 2**64 - 1) for step in (-1, 0, 1)]
    return words


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_table_gives_the_very_cell_that_balls_give_for_the_same_bits(law) -> None:
    rng, cells = np.random.default_rng(3), cells_of(law)
    words = [int.from_bytes(rng.bytes(8), "big") for _ in range(8)] + _near_edges(law, cells, rng)
    given = [word.to_bytes(8, "big") for word in words]
    quick, complements = table(law).draw(len(words), Bits(b"".join(given)))
    function = ball_function(law)
    function._lower, function._upper = cache(function._lower), cache(function._upper)  # three words beside every edge
    slow = np.array([cells.value(find_cell(function, cells, LazyUniform(Bits(one)))) for one in given])
    assert np.array_equal(quick, slow)
    assert draw(law, Bits(given[0])) == np.clip(slow[0], *_ends(law))
    assert np.allclose(quick + complements, 1, rtol=1e-12, atol=1e-12 * np.max(np.abs(quick)))


def test_no_piece_reaches_beyond_the_ends_of_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a narrow law a quantile, as a double, may lie beyond an end, where F has a kink: nothing rests on a guess."""
    law = BetaLaw(Fraction(7), Fraction(9), Fraction(1, 3), Fraction(2, 3))
    cells, function, words = cells_of(law), ball_function(law), []
    for place in np.linspace(0.334, 0.666, 65).tolist():
        found = function(exact(cells.edge(cells.index(Fraction(place)))), 128)
        with precision(160):
            word = int((found * 2**64).mid().floor().unique_fmpz())
        words += [word + sign * 2**bits for bits in range(20, 35, 5) for sign in (-1, 1)]
    slow = np.array([cells.value(find_cell(function, cells, LazyUniform(Bits(b""), word))) for word in words])
    monkeypatch.setattr(BallFunction, "guess", lambda _, u, v: 1 / 3 - v * 1e-6 if u < v else 2 / 3 + u * 1e-6)
    x, sure = CellTable(law, cells)._found(np.array(words, dtype=np.uint64))
    assert sure.mean() > 0.5
    assert np.array_equal(cells.round(x[sure]), slow[sure])


@pytest.mark.parametrize(
    ("law", "least"),
    [
        (BetaLaw(Fraction(40), Fraction(62)), 0.999),
        (BetaLaw(Fraction(1, 100), Fraction(101, 100)), 0.7),
        (GammaLaw(Fraction(10**12), Fraction(1)), 0.99),
    ],
    ids=repr,
)
def test_most_draws_need_no_balls(law, least: float) -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
    assert table(law)._found(words)[1].mean() > least


@pytest.mark.parametrize("powers", [(Fraction(1, 100), Fraction(101, 100)), (Fraction(101, 100), Fraction(1, 100))])
def test_a_share_next_to_either_end_is_looked_for_where_it_is(powers) -> None:
    """A guess that loses the digits of what is left of one is 2⁵⁰ cells off, and each draw a search among them."""
    law, looks, rng = BetaLaw(*powers), [], np.random.default_rng(4)
    function = ball_function(law)
    lower = function._lower
    function._lower = lambda x, bits: (looks.append(x), lower(x, bits))[1]
    for _ in range(50):
        find_cell(function, cells_of(law), LazyUniform(Bits(rng.bytes(8))))
    assert len(looks) < 4 * 50


def test_a_wrong_piece_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail: with a density that is off, cells differ."""
    from sottovoce.mechanisms import cell_table

    law, cells, rng = BetaLaw(Fraction(7), Fraction(9)), UnitCells(), np.random.default_rng(5)
    right = cell_table._density
    monkeypatch.setattr(cell_table, "_density", lambda law, at, c: right(BetaLaw(law.alpha + 1, law.beta), at, c))
    given = [rng.bytes(8) for _ in range(60)]
    quick, _ = CellTable(law, cells).draw(60, Bits(b"".join(given)))
    assert not np.array_equal(quick, [draw(law, Bits(one)) for one in given])


@pytest.mark.parametrize("cells", [EvenCells(-7), FloatingCells(5, -9), UnitCells(4, -9), SignedCells(6, -9)], ids=repr)
def test_edges_around_many_numbers_are_those_of_their_cells(cells) -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.random(300), rng.random(100) * 2.0**-8, 1 - rng.random(100) * 2.0**-8, [0.5, 0.25]])
    lows, highs = cells.around(values)
    for x, low, high in zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True):
        k = cells.index(Fraction(x))
        k += {Fraction(low) < exact(cells.edge(k)): -1, Fraction(low) > exact(cells.edge(k)): 1}.get(True, 0)
        assert (exact(cells.edge(k)), exact(cells.edge(k + 1))) == (Fraction(low), Fraction(high))
        assert low <= x <= high
        assert cells.round(np.array([x]))[0] == cells.value(k)


def test_many_shares_add_up_to_one_and_follow_their_law() -> None:
    alpha = (Fraction(3), Fraction(5), Fraction(1, 2))
    theta = samples(DirichletLaw(alpha), 5000, secure_rng())
    assert theta.shape == (5000, 3)
    assert np.allclose(theta.sum(axis=1), 1)
    expected = np.array([float(a) for a in alpha]) / 8.5
    assert np.all(np.abs(theta.mean(axis=0) - expected) < 6 * np.sqrt(expected * (1 - expected) / 9.5 / 5000))
    floored = samples(DirichletLaw((Fraction(3), Fraction(5)), Fraction(1, 4)), 5000, secure_rng())
    assert floored.min() >= 0.25
    assert np.allclose(floored.sum(axis=1), 1)


def test_what_is_left_of_one_near_one_is_that_of_the_very_cell():
    cells = UnitCells()
    x = np.array([0.9999995592483861, 1 - 2.0**-30 / 3, 0.76, 0.51, 0.3, 1e-9])
    exact = [float(1 - cells.middle(cells.index(Fraction(one)))) for one in x.tolist()]
    assert cells.complement(x).tolist() == exact
    assert (1 - cells.round(x)).tolist() != exact
