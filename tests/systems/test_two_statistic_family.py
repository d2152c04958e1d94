"""Families of two statistics: the proven search against brute force in plain floats, and densities by quadrature."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from papers.families import BetaShapes, MeanAndVariance
from scipy import special

from sottovoce.mechanisms import DiffusedPosterior, DirectPosterior
from sottovoce.mechanisms.conjugate import TwoStatisticFamily
from sottovoce.mechanisms.conjugate.plane_search import _CornerAndEdge
from sottovoce.mechanisms.conjugate.verified_suprema import precision, rational, supremum_in_boxes
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Number

NORMAL = MeanAndVariance(chi=(0.0, 10.0), nu=6.0)
SHAPES = BetaShapes(chi=(-3.0, -3.0), nu=2.0)


def _normal(chi, nu):
    gap = chi[..., 1] - chi[..., 0] ** 2 / nu
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(gap > 0, -(nu + 3) / 2 * np.log(gap), np.inf)


def _shapes(chi, nu):
    a, b = (grid.ravel() for grid in np.meshgrid([0.5, 1.0, 1.5, 2.0], [0.5, 1.0, 1.5, 2.0]))
    return special.logsumexp(np.multiply.outer(chi[..., 0], a) + np.multiply.outer(chi[..., 1], b)
                             - nu * special.betaln(a, b), axis=-1)  # fmt: skip


def _in_polygon(corners, steps):
    """Points of a polygon: of the triangles between its first corner and its edges."""
    corners = np.array(corners, dtype=float)
    shares = [(i, j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    weights = np.array([(steps - i - j, i, j) for i, j in shares]) / steps
    return np.concatenate([weights @ corners[[0, k, k + 1]] for k in range(1, len(corners) - 1)])


def _divergences(normalizer, nu, order, p, q):
    with np.errstate(invalid="ignore"):
        found = (normalizer(order * p + (1 - order) * q, nu) - order * normalizer(p, nu)) / (order - 1)
        return found + normalizer(q, nu)


def _brute(normalizer, family, n, order, w=1.0, v=1.0, steps=6):
    """The largest divergence over sums of the others and pairs of records, anywhere in the polygon, in floats."""
    points = _in_polygon(family.corners, steps)
    rest = v * np.array(family.chi) + w * (n - 1) * points
    p, q = (rest[:, None, None] + w * points[part] for part in (np.s_[None, :, None], np.s_[None, None, :]))
    return float(_divergences(normalizer, v * family.nu + w * n, order, p, q).max())


@pytest.mark.parametrize(
    ("family", "normalizer", "n", "order", "w", "v"),
    [
        (NORMAL, _normal, 1, 1.5, 1.0, 1.0),
        (NORMAL, _normal, 12, 2.0, 0.3, 2.0),
        (MeanAndVariance(chi=(1.0, 40.0), nu=6.0), _normal, 50, 2.0, 1.0, 1.0),
        (SHAPES, _shapes, 1, 2.0, 1.0, 1.0),
    ],
)
def test_the_search_finds_what_brute_force_finds_and_never_less(family, normalizer, n, order, w, v):
    found = family.worst(n, order, w, v)
    truth = _brute(normalizer, family, n, order, w, v)
    assert found.bound >= truth * (1 - 1e-9)
    assert truth * 0.98 <= found.attained <= found.bound  # the corners of brute force are a grid's step inside
    assert found.bound <= truth * 1.08
    p, q = (np.array([float(x) for x in point]) for point in found.pair)
    again = float(_divergences(normalizer, v * family.nu + w * n, order, p, q))
    assert again == pytest.approx(found.attained, rel=1e-6)


def test_a_search_that_ends_early_claims_more_and_never_less():
    """Balls of a sum of exponentials are wide: what the search may open is not enough for five per cent."""
    found, truth = SHAPES.worst(3, 2.0, 0.3), _brute(_shapes, SHAPES, 3, 2.0, 0.3)
    assert truth * 0.98 <= found.attained <= truth * 1.01
    assert truth < found.bound < 10 * truth
    assert SHAPES.profile(3, 0.3).pure() == SHAPES.window(0.3)


def test_no_two_tables_of_records_tell_more_than_is_claimed():
    """Every table of five records of a list, and every replacement in it."""
    values = np.linspace(-1, 1, 7)
    claim = MeanAndVariance(chi=(0.0, 10.0), nu=6.0).worst(5, 2.0).bound
    worst = 0.0
    for rest in itertools.combinations_with_replacement(values, 4):
        sums = np.array([0.0 + sum(rest), 10.0 + sum(x * x for x in rest)])
        each = sums + np.stack([values, values**2], axis=-1)
        worst = max(worst, float(_divergences(_normal, 11.0, 2.0, each[:, None], each[None, :]).max()))
    assert 0.7 * claim < worst <= claim


def test_the_normalizer_is_that_of_the_densities_by_quadrature():
    """The divergence of two posteriors of mean and precision from their densities alone."""
    records = [[0.2, -0.4, 1.0], [0.2, -0.4, -1.0]]
    first, second = (NORMAL.posterior(NORMAL.reading.read(x)) for x in records)
    mean, log_precision = np.meshgrid(np.linspace(-6, 6, 1201), np.linspace(-9, 4, 1201))
    points = np.stack([mean, np.exp(log_precision)], axis=-1)
    p, q = (d.log_density(points) + log_precision for d in (first, second))
    step = 12 / 1200 * 13 / 1200
    assert np.exp(p).sum() * step == pytest.approx(1.0, rel=1e-4)
    divergence = math.log(np.exp(2 * p - q).sum() * step)
    sums = [np.array([sum(x), 10.0 + sum(v * v for v in x)]) for x in records]
    assert divergence == pytest.approx(float(_divergences(_normal, 9.0, 2.0, *sums)), rel=1e-3)
    assert divergence <= NORMAL.worst(3, 2.0).bound


def test_both_statistics_reach_the_posterior():
    """Ten of 1 and ten of -1 have the mean of twenty zeros, and another variance."""
    wide, narrow = (NORMAL.posterior(NORMAL.reading.read(x)) for x in ([1.0, -1.0] * 10, [0.0] * 20))
    assert wide.mean[0] == narrow.mean[0] == 0.0
    assert wide.mean[1] == pytest.approx(narrow.mean[1] / 3)  # (10 + 20)/2 beside 10/2


def test_a_record_outside_of_the_corners_counts_as_the_middle():
    class Narrow(MeanAndVariance):
        corners = ((-1, 1), (1, 1), (0.2, 0), (-0.5, 0))  # (0.5, 0.25) lies outside

    seen = Narrow(chi=(0.0, 10.0), nu=6.0).reading.read([0.5, 0.0, 1.0, "odd"])
    assert seen.total.tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"corners": ((-1, 1), (1, 1))}, "at least three"),
        ({"corners": ((-1, 1), (1, 1), (0, 0.5))}, "middle"),
        ({"normalizer": lambda self, x, y, nu: (y - x * x / nu).log()}, "not convex"),
        ({"normalizer": lambda self, x, y, nu: (y - x * x / nu) * math.nan}, "no bound"),
    ],
)
def test_what_is_no_family_is_refused(changes, reason):
    with pytest.raises(InvalidValue, match=reason):
        type("Odd", (MeanAndVariance,), changes)(chi=(0.0, 10.0), nu=6.0).profile(2)


@pytest.mark.parametrize(("chi", "reason"), [((0.0, -1.0), "outside"), ((1.0, 2.0, 3.0), "more are not searched")])
def test_priors_that_are_none_and_a_third_statistic_are_refused(chi, reason):
    with pytest.raises(InvalidValue, match=reason):
        MeanAndVariance(chi=chi, nu=6.0)


def test_records_that_can_leave_the_domain_have_no_finite_divergence():
    """Below the parabola the tangents leave room, and many records there have no prior left."""
    assert MeanAndVariance(chi=(0.0, 1.0), nu=1.0).worst(40, 1.1).bound == math.inf
    assert MeanAndVariance(chi=(0.0, 4.0), nu=6.0).worst(1, 5.0).attained == math.inf


def test_a_finite_list_is_purely_private_too():
    assert SHAPES.window(0.5) == pytest.approx(0.5 * 1.5 * 2 * 3.985, rel=1e-5)
    values = np.linspace(0.02, 0.98, 9)
    shapes = np.array(list(itertools.product([0.5, 1.0, 1.5, 2.0], repeat=2)))
    worst = 0.0
    for x, y in itertools.product(values, repeat=2):
        moved = 0.5 * shapes @ np.array([math.log(x / y), math.log((1 - x) / (1 - y))])
        worst = max(worst, float(np.ptp(moved)))
    assert worst <= SHAPES.window(0.5)


def test_it_is_released_and_calibrated_like_any_other():
    class Quick(MeanAndVariance):
        orders, near = (2.0,), 0.1

    mech = DiffusedPosterior.calibrate(Quick(chi=(0.0, 10.0), nu=6.0), 4, RenyiDP(2.0, 0.1))
    truth = _brute(_normal, NORMAL, 4, 2.0, mech.data_weight)
    assert 0.085 < truth <= 0.1
    assert mech.profile.basis.value == "bound"
    mean, precision = DirectPosterior(NORMAL, 4).release([0.1, 0.2, 0.9, -0.3]).value
    assert abs(mean) < 10 < 10 + precision
    more = NORMAL.with_public([0.5, 0.5])
    assert (more.chi, more.nu) == ((1.0, 10.5), 8.0)
    pair = NORMAL.worst_pairs(1)[0]
    draws = pair[0].sample(20_000, seeded_rng(1))
    assert draws.mean(axis=0) == pytest.approx(pair[0].mean, rel=0.05, abs=0.02)


@pytest.mark.parametrize(("family", "normalizer", "n"), [(NORMAL, _normal, 8), (SHAPES, _shapes, 2)])
def test_no_point_of_a_box_exceeds_its_bound(family, normalizer, n):
    """Boxes of many sizes, each side by itself and all together, against random points in them and their ends."""
    rng, order, nu = np.random.default_rng(3), 2.0, family.nu + n
    near = {size: [] for size in range(-12, 2)}
    with precision(128):
        search = family._search(n, (1.0, 1.0))
        edges = list(zip(search.record, (*search.record[1:], search.record[0]), strict=True))
        cases = [_CornerAndEdge(search, rational(2), e, c) for c in search.record for e in edges if c not in e]
        for _ in range(250):
            case, size = cases[rng.integers(len(cases))], int(rng.integers(-12, 2))
            shares = rng.dirichlet(np.ones(len(search.others)))
            others = np.array([[float(x.p) / float(x.q) for x in corner] for corner in search.others])
            middle = np.append(shares @ others, rng.uniform(0.2, 0.8))
            half = 2.0**size * rng.integers(0, 2, 3) * np.array([1, 1, 0.25])
            box = tuple(
                (rational(Fraction(m - h)), rational(Fraction(m + h))) for m, h in zip(middle, half, strict=True)
            )
            bound = case.over(box)[1]
            if not math.isfinite(bound):
                continue
            spots = middle + half * np.concatenate(
                [rng.uniform(-1, 1, (30, 3)), list(itertools.product((-1, 1), repeat=3))]
            )
            corner, *edge = (np.array([float(x.p) / float(x.q) for x in point]) for point in (case.corner, *case.edge))
            p = spots[:, :2] + edge[0] + spots[:, 2:] * (edge[1] - edge[0])
            truth = float(np.nanmax(_divergences(normalizer, nu, order, p, spots[:, :2] + corner)))
            assert truth <= bound * (1 + 1e-7) + 1e-9
            if half.any():
                near[size].append(truth / bound)
    assert max(map(max, filter(None, near.values()))) > 0.9999  # of small boxes nothing is given away


def test_suprema_in_boxes_are_proven_where_the_search_stops_early():
    def bowl(box, case):
        (a, b), (c, d) = box
        x, y, half = (a + b) / 2, (c + d) / 2, (b - a + d - c) / 2
        return float(1 - x * x - y * y), float(1 - x * x - y * y + 4 * half), 0 if b - a >= d - c else 1

    square = ((Fraction(-1), Fraction(3)), (Fraction(-2), Fraction(1)))
    attained, bound, _ = supremum_in_boxes([(square, None)], bowl, rtol=1e-6, most=10)
    assert attained <= 1 < bound


def test_a_family_is_one_of_the_room():
    assert issubclass(MeanAndVariance, TwoStatisticFamily)
    assert MeanAndVariance.columns == (Number(-1, 1),)
