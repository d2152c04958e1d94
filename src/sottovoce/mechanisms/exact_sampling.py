"""Samples rounded exactly: the cell that leaves is the cell in which a sample of the real law lies.

A uniform number U is drawn bit by bit. The cell k with F(edge k) <= U < F(edge k+1) is found in ball arithmetic, with
as many bits of U and of precision as certainty takes. So Pr[cell k] **is** F(edge k+1) - F(edge k): what leaves is a
function of a real sample, and by data processing every claim about that sample, δ(ε) and pure ε alike, is a theorem
about the bits that leave. No event of small probability is set aside, and no tail is out of reach.

The time it takes depends on U and on the law. Let answers leave on a grid of time where that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import BallFunction, ball_function
from sottovoce.mechanisms.cell_table import CellTable
from sottovoce.mechanisms.conjugate.distributions.base import number
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, DirichletLaw, GammaLaw, Law, NormalLaw
from sottovoce.mechanisms.exact_rejection import Proposals, floored_dirichlet
from sottovoce.mechanisms.lazy_uniform import BitSource, LazyUniform, find_cell
from sottovoce.mechanisms.rounding_cells import EvenCells, FloatingCells, RoundingCells, SignedCells, UnitCells
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import is_secure

_MANY = 256
"""Draws of one law from which on it pays to make a table of it first."""


def cells_of(law: Law) -> RoundingCells:
    """Return the public cells of a law; of a Dirichlet, those of its sticks."""
    match law:
        case NormalLaw(spread=None):
            return SignedCells()
        case NormalLaw(spread=float() as spread):
            return EvenCells.beside(spread)
        case GammaLaw():
            return FloatingCells()
    return UnitCells()


def draw(law: Law, source: BitSource, cells: RoundingCells | None = None) -> Any:
    """Return one exactly rounded draw: the middle of its cell, as a double, or a vector of them.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import secure_rng
    >>> theta = draw(BetaLaw(Fraction(3), Fraction(1, 2)), secure_rng())
    >>> 0 < theta < 1
    True
    >>> sum(draw(DirichletLaw((Fraction(1), Fraction(5), Fraction(2))), secure_rng()).tolist()).__round__(9)
    1.0
    """
    cells = cells_of(law) if cells is None else cells
    return _drawn(law, source, cells, 1)[0]


def released(law: Law | Sequence[Law] | None, quick: Any, draws: int, rng: np.random.Generator) -> Any:
    """Return what a release lets out: exactly rounded draws, where the randomness is secure.

    Seeded experiments take `quick(size)`, NumPy's samples of the same law, put into the same cells: a release made so
    is marked as reproducible and never fit to publish. A law of no family that can be drawn exactly (a distribution
    of somebody else's) is sampled quickly in any case, and its cells have 24 bits.
    """
    if law is not None and is_secure(rng):
        return samples(law, draws, rng)
    values = np.asarray(quick(None if draws == 1 else draws), dtype=np.float64)
    first = law[0] if isinstance(law, Sequence) else law
    values = (SignedCells(24) if first is None else cells_of(first)).round(values)
    low, high = _ends(first)
    return number(np.clip(values, low, high))


def _ends(law: Law | None) -> tuple[float, float]:
    if isinstance(law, DirichletLaw):
        return (0.0, 1.0) if law.floor == 0 else (_clip(0.0, law), _clip(1.0, law))
    low, high = getattr(law, "low", None), getattr(law, "high", None)
    return -np.inf if low is None else _inner(low, up=True), np.inf if high is None else _inner(high, up=False)


def samples(law: Law | Sequence[Law], draws: int, source: BitSource) -> Any:
    """Return one draw, or an array of them, draws first; of several laws side by side, a vector each."""
    if isinstance(law, Sequence):
        return np.stack([np.asarray(samples(part, draws, source)) for part in law], axis=-1)
    if draws == 1:
        return draw(law, source)
    if draws >= _MANY and not (isinstance(law, DirichletLaw) and law.floor > 0 and len(law.alpha) > 2):
        return _many(law, draws, source)
    return np.array(_drawn(law, source, cells_of(law), draws))


def _drawn(law: Law, source: BitSource, cells: RoundingCells, draws: int) -> Any:
    """Return draws one by one, with what they share computed once."""
    if isinstance(law, DirichletLaw):
        return (_dirichlet if law.floor == 0 else _floored)(law, source, cells, draws)
    function, (low, high) = ball_function(law), _ends(law)
    result = (find_cell(function, cells, LazyUniform(source)) for _ in range(draws))
    return [min(max(cells.value(k), low), high) for k in result]


def _many(law: Law, draws: int, source: BitSource) -> Floats:
    """Return many draws of one law: the same cells of the same bits, most of them found in doubles."""
    cells = cells_of(law)
    if not isinstance(law, DirichletLaw):
        low, high = _ends(law)
        return np.clip(CellTable(law, cells, draws).draw(draws, source)[0], low, high)
    if len(law.alpha) == 2 and law.floor > 0:
        first = _many(BetaLaw(law.alpha[0], law.alpha[1], law.floor, 1 - law.floor), draws, source)
        return np.stack([first, np.clip(1 - first, *_ends(law))], axis=-1)
    out, remainder, remaining = [], np.ones(draws), sum(law.alpha, Fraction(0))
    for alpha in law.alpha[:-1]:
        remaining -= alpha
        share, other = CellTable(BetaLaw(alpha, remaining), cells, draws).draw(draws, source)
        out.append(remainder * share)
        remainder = remainder * other
    return np.stack([*out, remainder], axis=-1)


def _inner(end: Fraction, *, up: bool) -> float:
    """Return the double nearest to an end that lies on its inner side."""
    nearest = float(end)
    if up:
        return nearest if Fraction(nearest) >= end else float(np.nextafter(nearest, np.inf))
    return nearest if Fraction(nearest) <= end else float(np.nextafter(nearest, -np.inf))


def _dirichlet(law: DirichletLaw, source: BitSource, cells: RoundingCells, draws: int) -> list[Floats]:
    """Break sticks: θ₁ is Beta(α₁, α₂+…), then θ₂ of what is left, and so on. What is made of cells is free."""
    remaining = [sum(law.alpha[k:], Fraction(0)) for k in range(1, len(law.alpha))]
    functions = [
        ball_function(BetaLaw(alpha, remainder)) for alpha, remainder in zip(law.alpha, remaining, strict=False)
    ]
    return [_broken(functions, source, cells) for _ in range(draws)]


def _broken(functions: list[BallFunction], source: BitSource, cells: RoundingCells) -> Floats:
    out, remainder = [], 1.0
    for function in functions:
        share = cells.middle(find_cell(function, cells, LazyUniform(source)))
        out.append(remainder * float(share))
        remainder *= float(1 - share)
    return np.array([*out, remainder])


def _floored(law: DirichletLaw, source: BitSource, cells: RoundingCells, draws: int) -> list[Floats]:
    size, floor = len(law.alpha), law.floor
    if size < 2 or not 0 < floor * size < 1:
        raise InvalidValue(f"the floor of {size} probabilities must lie between 0 and 1/{size}. Got {float(floor):g}")
    if size == 2:
        ones = _drawn(BetaLaw(law.alpha[0], law.alpha[1], floor, 1 - floor), source, cells, draws)
        return [np.array([item, _clip(1 - item, law)]) for item in ones]
    proposals = Proposals(law)
    result = (floored_dirichlet(proposals, source, cells) for _ in range(draws))
    return [np.array([_clip(value, law) for value in values]) for values in result]


def _clip(value: float, law: DirichletLaw) -> float:
    most = 1 - (len(law.alpha) - 1) * law.floor
    return min(max(value, _inner(law.floor, up=True)), _inner(most, up=False))
