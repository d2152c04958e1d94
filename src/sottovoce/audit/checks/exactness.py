"""Exactly rounded samples: every coarse cell's exact probability under both neighbours, and how often it comes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.audit.cases_conjugate import small_cases
from sottovoce.audit.checks.fits import ALARM, chi_square
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms.ball_arithmetic import Ball, ball, ball_function, precision
from sottovoce.mechanisms.cell_table import CellTable
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, DirichletLaw, GammaLaw, NormalLaw
from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.mechanisms.exact_sampling import cells_of, draw, samples
from sottovoce.mechanisms.rounding_cells import EvenCells, FloatingCells, RoundingCells, UnitCells, exact
from sottovoce.privacy.randomness import secure_rng

_RECORDS = 6
_EPSILONS = (0.0, 0.2, 0.7, 1.5)
_BITS = 128
_DRAWS = 600


def _coarse(law: object) -> RoundingCells:
    """Return cells so wide that a few dozen hold nearly everything."""
    if isinstance(law, NormalLaw):
        return EvenCells.beside(float(law.variance) ** 0.5, bits=1)
    return FloatingCells(3, -6) if isinstance(law, GammaLaw) else UnitCells(3, -6)


def _edges(law: Any, cells: RoundingCells) -> list[Fraction]:
    low, high = (ball_function(law).guess(*pair) for pair in ((1e-9, 1.0), (1.0, 1e-9)))
    return [exact(cells.edge(k)) for k in range(cells.index(Fraction(low)), cells.index(Fraction(high)) + 2)]


def discrete_delta(first: Any, second: Any, edges: list[Fraction], epsilons: Sequence[float]) -> list[Ball]:
    """Return a ball around Σ (P - e^ε Q)₊ for each ε, over the cells that the edges cut out."""
    at = [[function(edge, _BITS) for edge in edges] for function in map(ball_function, (first, second))]
    with precision(_BITS):
        both = [[b - a for a, b in itertools.pairwise([ball(0), *column, ball(1)])] for column in at]
        lifts = [ball(Fraction(epsilon)).exp() for epsilon in epsilons]
        return [sum(((p - lift * q).nonnegative_part() for p, q in zip(*both, strict=True)), ball(0)) for lift in lifts]


def _pair(mechanism: Any, pair: tuple[object, object]) -> list[Any]:
    """Return the laws of one number by which neighbours differ: of categories, the share of the two touched ones."""
    laws = [mechanism.law(mechanism.see(seen)) for seen in pair]
    if isinstance(laws[0], list):
        return [law[0] for law in laws]
    if not isinstance(laws[0], DirichletLaw):
        return laws
    touched = [k for k, (p, q) in enumerate(zip(laws[0].alpha, laws[1].alpha, strict=True)) if p != q]
    return [BetaLaw(*(law.alpha[k] for k in touched)) for law in laws] if laws[0].floor == 0 else []


@check("exactly rounded laws keep their claim")
def claims_of_cells() -> tuple[bool, str]:
    """Sum every coarse cell's exact (P - e^ε Q)₊ over real neighbours, in balls; none may exceed δ(ε)."""
    problems, pairs = [], 0
    for case in small_cases(_RECORDS):
        claims = case.mechanism.profile.delta(np.array(_EPSILONS)).tolist()
        for pair in case.mechanism.system.worst_data(case.mechanism.n):
            laws = _pair(case.mechanism, pair)
            for first, other in itertools.permutations(laws, 2):
                pairs += 1
                edges = _edges(first, _coarse(first))
                result = discrete_delta(first, other, edges, _EPSILONS)
                for epsilon, claim, delta in zip(_EPSILONS, claims, result, strict=True):
                    if not delta.lower() <= ball(Fraction(claim)):
                        problems.append(f"{case.name}: δ({epsilon}) is {float(delta.mid()):.6g}, claimed {claim:.6g}")
    return verdict(problems, f"{pairs} ordered pairs of neighbours, cell by cell in balls, none above its claim")


@check("exactly rounded samples come as often as they should")
def frequencies() -> tuple[bool, str]:
    """Chi-square of secure draws, one family after the other, against the exact probabilities of coarse cells."""
    laws: list[Any] = [
        GammaLaw(Fraction(7, 3), Fraction(3, 2)),
        BetaLaw(Fraction(5, 2), Fraction(9, 7)),
        NormalLaw(Fraction(1, 3), Fraction(2)),
        BetaLaw(Fraction(5, 2), Fraction(9, 7), Fraction(1, 10), Fraction(9, 10)),
        GammaLaw(Fraction(7, 3), Fraction(3, 2), Fraction(1, 2), Fraction(3)),
    ]
    problems, worst, rng = [], 1.0, secure_rng()
    for law in laws:
        edges, function = _edges(law, _coarse(law)), ball_function(law)
        chances = np.diff([0.0, *(float(function(edge, _BITS).mid()) for edge in edges), 1.0])
        drawn = np.concatenate([samples(law, _DRAWS // 3, rng) for _ in range(3)])  # each drawn by itself, in balls
        cells = np.searchsorted([float(edge) for edge in edges], drawn, side="right")
        p = chi_square(cells, np.arange(chances.size), chances)
        worst = min(worst, p)
        if p < ALARM:
            problems.append(f"{type(law).__name__}: p = {p:.2g} that draws follow the exact cells")
            break
    return verdict(problems, f"{_DRAWS} draws of {len(laws)} laws, least p = {worst:.2g}")


@check("cells are the same for all records")
def fixed_cells() -> tuple[bool, str]:
    """Of floored probabilities all but the last are middles of cells, whichever category has the most records."""
    problems, rng, cells = [], secure_rng(), UnitCells()
    half = Fraction(1, 2)
    for powers in ((Fraction(5), half, half), (half, Fraction(5), half), (half, half, half)):
        law = DirichletLaw(powers, Fraction(1, 20))
        values = np.array([draw(law, rng)[:-1] for _ in range(12)])
        if not np.array_equal(values, cells.round(values)):
            problems.append(
                f"with powers {', '.join(map(str, powers))} a probability before the last lies off its cell"
            )
    return verdict(problems, "36 draws of three laws, the same cells in all")


@check("a table of a law gives the cells that balls give")
def tabled_cells() -> tuple[bool, str]:
    """Many draws at once must lie in the very cells of single draws by the same bits, next to edges above all."""
    laws: list[Any] = [BetaLaw(Fraction(7), Fraction(9)), GammaLaw(Fraction(7, 3), Fraction(3, 2))]
    problems, rng, words = [], np.random.default_rng(1), 0
    for law in laws:
        cells, function = cells_of(law), ball_function(law)
        near = [cells.index(Fraction(function.guess(u, 1 - u))) for u in rng.random(40).tolist()]
        with precision(_BITS):
            at = [int((function(exact(cells.edge(k)), _BITS) * 2**64).mid().floor().unique_fmpz()) for k in near]
        given = [(word + step).to_bytes(8, "big") for word in at for step in (-1, 1)]
        words += len(given)
        quick = CellTable(law, cells).draw(len(given), _Fixed(b"".join(given)))[0]
        slow = [draw(law, _Fixed(item)) for item in given]
        if wrong := int((quick != slow).sum()):
            problems.append(f"{type(law).__name__}: {wrong} of {len(given)} draws next to an edge lie in another cell")
    return verdict(problems, f"{words} draws next to edges of {len(laws)} laws, all in their cells")


class _Fixed:
    """These bytes, and zeros after them."""

    def __init__(self, given: bytes) -> None:
        self._left = given

    def bytes(self, length: int) -> bytes:
        """Return the next bytes."""
        head, self._left = self._left[:length], self._left[length:]
        return head.ljust(length, b"\0")


class _Crafted:
    """Bits that begin with 70 zeros, or ones."""

    def __init__(self, bit: str) -> None:
        self._bits = bit * 70 + ("1" if bit == "0" else "0")

    def bytes(self, length: int) -> bytes:
        """Return the next bits."""
        head, self._bits = self._bits[: 8 * length], self._bits[8 * length :]
        return int(head.ljust(8 * length, "0") or "0", 2).to_bytes(length, "big")


@check("far tails are within reach")
def far_tails() -> tuple[bool, str]:
    """A crafted uniform number of 2⁻⁷⁰ must lead to where that much probability is left, on either side."""
    problems = []
    laws: list[Any] = [
        BetaLaw(Fraction(7), Fraction(9)),
        GammaLaw(Fraction(5), Fraction(2)),
        NormalLaw(Fraction(0), Fraction(1), spread=1.0),
    ]
    for law, bit in itertools.product(laws, "01"):
        value, function = Fraction(draw(law, _Crafted(bit))), ball_function(law)
        below = function(value, 256)
        with precision(256):
            remaining = below if bit == "0" else 1 - below
            if not (remaining > ball((1, -74)) and remaining < ball((1, -67))):
                problems.append(f"{type(law).__name__}: 70 times {bit} leads to a probability of {remaining.str(3)}")
    far = float(np.linalg.norm(exact_normals(np.zeros(2), 1.0, _Source(zeros=620))))
    if not 29.2 < far < 29.4:  # √(2·622·log 2) = 29.36, less a corner of a cell
        problems.append(f"620 zeros of U lead noise {far:.4g} deviations out")
    return verdict(problems, f"{2 * len(laws)} tails reached at 2⁻⁷⁰, one of noise at 2⁻⁶²²")


class _Source:
    """Bits for noise: U begins with so many zeros, 62 at a time; bits that are drawn late are all `late`."""

    def __init__(self, zeros: int = 0, late: int = 0) -> None:
        self._zeros, self._late, self._calls = zeros // 62, late, 0

    def integers(self, low: int, high: int, size: object) -> Any:
        """Return the next whole numbers: the words of U and of the angle, then their leading zeros."""
        self._calls += 1
        empty = 1 < self._calls <= 1 + self._zeros
        return np.zeros(size, dtype=np.int64) if empty else np.full(size, (high - 1) // 3 * 2 + 1)

    def bytes(self, length: int) -> bytes:
        """Return bits that nothing but an edge asks for."""
        return bytes([255 * self._late] * length)


@check("noise near an edge waits for its bits")
def noise_edges() -> tuple[bool, str]:
    """Move a mean until its noisy value steps into the next cell: exactly where depends on bits beyond a double's."""
    thresholds = []
    for late in (0, 1):
        low, high = 0.0, 2.0**-16  # a whole cell apart
        first = float(exact_normals([low], 1.0, _Source(late=late))[0])
        while (middle := (low + high) / 2) not in (low, high):
            same = float(exact_normals([middle], 1.0, _Source(late=late))[0]) == first
            low, high = (middle, high) if same else (low, middle)
        thresholds.append(high)
    apart = abs(thresholds[0] - thresholds[1])
    problems = [] if 1e-18 < apart < 1e-13 else [f"the edge moves by {apart:.3g} with bits that are drawn late"]
    return verdict(problems, f"late bits move the edge by {apart:.1e} of the noise, as they must")
