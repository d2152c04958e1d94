"""Looks: what a record gives, by plain formulas; how far one replaced record moves it, by brute force."""

import math
from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial import ConvexHull
from scipy.spatial.distance import cdist, pdist

from sottovoce.audit.check_reading import check_reading
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Count, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import Look, PersonLook
from sottovoce.records.readings.families import FAMILIES, family_of, normal_cdf
from sottovoce.records.readings.look import fine_bits

RESPONSES = {
    "logistic": Flag(),
    "probit": Category(["no", "yes"]),
    "linear": Number(-3, 5),
    "poisson": Count(9),
    "multinomial": Category(["a", "b", "c"]),
}
SQUARE = Encoding(("a", "b"), (Number(-1, 1), Number(-1, 1)), (((0, -1),), ((1, -1),)))


def look(family: str, centre: tuple[float, float] = (0.7, -1.1), norm: float = 1.0, **rest: object) -> Look:
    times = 2 if family == "multinomial" else 1
    shape = ((1.0, 0.0), (0.0, 1.0))
    return Look(SQUARE, RESPONSES[family], family, centre * times, shape, norm, **rest)  # type: ignore[arg-type]


STRETCHED = ("probit", "poisson")
"""Families whose rows up to twice as long as the norm pull as far as any."""


def weight(family: str, length: float, norm: float) -> float:
    if length <= norm:
        return 1.0
    if family in STRETCHED:
        return norm / length if length <= 2 * norm else 2 * norm**2 / length**2
    return norm**2 / length**2


def plain(
    family: str, x: np.ndarray, theta: np.ndarray, y: object, extra: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the residual and the slope of one record, by the textbook."""
    t = np.atleast_1d(theta @ x)
    if family == "logistic":
        p = special.expit(t)
        return float(bool(y)) - p, np.array([[p[0] * (1 - p[0])]])
    if family == "probit":
        return float(y == "yes") - stats.norm.cdf(t), np.array([[stats.norm.pdf(t[0])]])
    if family == "linear":
        return float(y) / 5 - t, np.eye(1)  # type: ignore[arg-type] # from zero: these rows have no constant
    if family == "poisson":
        k, cap = np.arange(4000), 3

        def mean(at: float) -> float:
            return float(np.minimum(k, cap) @ _counts(math.exp(at), extra, k))

        slope = (mean(t[0] + 1e-5) - mean(t[0] - 1e-5)) / 2e-5
        return np.array([min(float(y), cap) - mean(t[0])]), np.array([[slope]])  # type: ignore[arg-type]
    p = np.exp([0.0, *t]) / np.exp([0.0, *t]).sum()
    return np.array([float(y == "b"), float(y == "c")]) - p[1:], np.diag(p[1:]) - np.outer(p[1:], p[1:])


def _counts(mean: float, extra: float, k: np.ndarray) -> np.ndarray:
    """Return a negative binomial law, by its textbook form; a Poisson one where rates do not vary."""
    return stats.nbinom.pmf(k, 1 / extra, 1 / (1 + extra * mean)) if extra else stats.poisson.pmf(k, mean)


@pytest.mark.parametrize(("family", "extra"), [*((family, 0.0) for family in FAMILIES), ("poisson", 0.7)])
def test_a_look_is_the_weighed_score_the_information_and_its_variation(family: str, extra: float) -> None:
    norm = 0.4
    reading = look(family, norm=norm, bits=20, extra=extra)
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (40, 2))
    values = {"linear": [-3.0, 0.5, 5.0], "poisson": [0, 2, 9]}.get(family) or [
        *({"logistic": (False, True), "probit": ("no", "yes")}.get(family, ("a", "b", "c")))
    ]
    y = [values[k % len(values)] for k in range(40)]
    K = reading.model.outputs
    score, information, meat = np.zeros(2 * K), np.zeros((2 * K,) * 2), np.zeros((2 * K,) * 2)
    for x, label in zip(X, y, strict=True):
        v = weight(family, float(np.linalg.norm(x)), norm)
        r, slope = plain(family, x, np.array(reading.centre).reshape(K, 2), label, extra)
        w = np.kron(r, v * x)
        score, meat = score + w, meat + np.outer(w, w)
        information = information + np.kron(slope, v * np.outer(x, x))
    found = reading.split(reading.read([X[:, 0].tolist(), X[:, 1].tolist(), y]).total)
    pull, lean = reading.factors
    assert np.allclose(found["score"] / pull, score, atol=1e-4)
    assert np.allclose(found["information"] / lean**2, information, atol=1e-4)
    assert np.allclose(found["meat"] / pull**2, meat, atol=1e-4)


def test_the_normal_law_is_known_to_twelve_digits() -> None:
    t = np.linspace(-12, 12, 20_001)
    assert np.abs(normal_cdf(t) - special.ndtr(t)).max() < 1e-12


@pytest.mark.parametrize("extra", [0.0, 1e-3, 0.4, 1.0, 5.0])
@pytest.mark.parametrize("cap", [1, 2, 5, 40])
def test_counts_cut_at_any_place_have_the_mean_and_slope_that_are_said(cap: int, extra: float) -> None:
    family = family_of("poisson", Count(500), cap, extra)
    k = np.arange(20_000)
    for mean in (1e-6, 0.3, 2.0, 11.0):
        mass = _counts(mean, extra, k)
        t = np.array([math.log(mean)])
        cut = np.minimum(k, cap)
        assert family.mean(t)[0] == pytest.approx(cut @ mass, abs=1e-8)
        assert family.variance(t)[0] == pytest.approx(cut**2 @ mass - (cut @ mass) ** 2, abs=1e-6)
        # The derivative of a mixed Poisson law's: the mean times how many of one more are below the cap.
        below = stats.nbinom.cdf(cap - 1, 1 / extra + 1, 1 / (1 + extra * mean)) if extra else mass[:cap].sum()
        assert family.slope(t)[0] == pytest.approx(mean * below, abs=1e-8)
    grid = np.linspace(-30, 30, 20_001)
    assert family.slope(grid).max() <= family.steepest
    # The last digits of a logarithm: beside a step of the grid, whose slack is a hundredth of one, they are nothing.
    assert family.mean(grid).min() >= -1e-10 and family.mean(grid).max() <= cap * (1 + 1e-12)


@pytest.mark.parametrize("extra", [0.0, 0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("cap", [1, 2, 3, 12, 120])
def test_longer_rows_weigh_less_than_the_bound_of_counts_can_grow(cap: int, extra: float) -> None:
    family = family_of("poisson", Count(500), cap, extra)
    reach = np.geomspace(1e-3, 60, 250)
    bounds = np.array([family.bound(far) / far for far in reach])
    assert np.all(np.diff(bounds) < 0)


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("reach", [0.0, 0.4, 1.7, 5.0, 19.0])
def test_two_contributions_lie_no_farther_apart_than_the_diameter_and_nearly_so_far(family: str, reach: float) -> None:
    """In a plane through the estimate: farthest apart are two that stand on either side of it."""
    model, rng = family_of(family, Flag()), np.random.default_rng(2)
    x = rng.standard_normal((1000, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x = np.concatenate([x, x * rng.uniform(0, 4, (1000, 1))])
    v = np.array([weight(family, length, 1.0) for length in np.linalg.norm(x, axis=1)])
    mean = model.mean(reach * x[:, 0])
    points = np.concatenate([x * (v * (1 - mean))[:, None], -x * (v * mean)[:, None]])
    found = pdist(points[ConvexHull(points).vertices]).max()
    claimed = model.apart(reach, model.stretch * reach)
    assert 0.97 * claimed <= found <= claimed * (1 + 1e-12)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_the_diameter_is_that_of_all_ends_in_all_directions(family: str) -> None:
    """Whose farthest ends are looked for one by one, not from direction to direction."""
    model = family_of(family, Flag())
    for reach in (0.0, *np.geomspace(1e-3, 60.0, 14).tolist()):
        far, angles, ways = model.stretch * reach, np.linspace(0, np.pi, 1441), np.linspace(0, np.pi, 91)[:, None]
        along = np.cos(angles) * np.where(np.cos(angles) > 0, reach, far)
        s = np.minimum(1.0, model.peak / np.maximum(along, 1e-9))
        length = s * (1 - model.mean(s * along))
        width = (length * np.cos(angles - ways)).max(axis=1) - (length * np.cos(angles + ways)).min(axis=1)
        between = (1 + far * model.steepest) * np.pi / 1440
        whole = (width.max() + between) / np.cos(np.pi / 180)
        assert model.apart(reach, far) == pytest.approx(min(whole, 2 * model.bound(far)), rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_all_parts_together_move_farthest_where_one_of_all_cosines_says(classes: int) -> None:
    """Of 4097, with noise of many proportions."""
    rng, response = np.random.default_rng(classes), Category([str(k) for k in range(classes)])
    g = np.linspace(0.0, 1.0, 4097)
    for _ in range(100):
        parts = rng.permutation(["score", "information", "meat"])[: rng.integers(1, 4)].tolist()
        centre = rng.exponential(1.0) * rng.standard_normal(2 * (classes - 1))
        family = "linear" if classes == 2 else "multinomial"
        known = Number(-1, 1) if family == "linear" else response
        reading = Look(SQUARE, known, family, tuple(centre), ((1.0, 0.0), (0.0, 1.0)), 1.0, 12, tuple(parts))
        scales = {p: 2.0 ** (12 if p == "score" else 24) * float(np.exp(2 * rng.standard_normal())) for p in parts}
        S, H, M = (
            (2.0 ** (12 if p == "score" else 24) / scales.get(p, np.inf)) ** 2 for p in ("score", "information", "meat")
        )
        curve = 1 - g * g
        apart = {2: np.maximum(curve, 0.5), 3: (1 + curve) / 2}.get(classes, np.ones_like(g))
        whole = np.minimum(2 + 2 * g, reading.diameter**2) * S + 2 * M * curve + 2 * H * apart
        slack = {p: length - 2.0 ** (12 if p == "score" else 24) for p, length in reading.lengths.items()}
        rounding = math.sqrt(sum((2 * slack[p] / scales[p]) ** 2 for p in reading.parts))
        between = (2 * S + 4 * M + 4 * H) / 4096
        assert reading.joint(scales) == pytest.approx(math.sqrt(whole.max() + between) + rounding, rel=1e-13)


CUBE = Encoding(("a", "b", "c"), (Number(-9, 9),) * 3, (((0, -1),), ((1, -1),), ((2, -1),)))


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("reach", [0.0, 0.2, 1.0, 2.5, 9.0, 40.0])
def test_what_pulls_so_far_holds_no_other_information_than_is_said(family: str, reach: float) -> None:
    """Of rows of all lengths and residuals of all sizes that the reach allows, and of many cells nearly all of it."""
    edges = np.linspace(0.0, 1.0, 25)
    model = family_of(family, Flag())
    k = model.stretch
    least, most = model.information_ranges(k * reach, edges)
    length = np.concatenate([np.linspace(0.0, k, 1201), np.geomspace(k, 1e4, 800)])
    t = np.clip(length[:, None] * reach, 0, 30) * np.linspace(-1, 1, 801)
    weights = np.array([weight(family, item, 1.0) for item in length])[:, None]
    mean, slope = model.mean_and_slope(t)
    score = (weights * length[:, None] * mean / model.bound(k * reach)).ravel()
    information = (weights * length[:, None] ** 2 * slope / (k * model.steepest)).ravel()
    assert 1 - 1e-9 < score.max() < 1 + 1e-9
    cell = np.clip((score * 24).astype(int), 0, 23)
    assert np.all(information <= most[cell] * (1 + 1e-9) + 1e-11)
    assert np.all(information >= least[cell] * (1 - 1e-9) - 1e-11)
    found = np.array([information[cell == place].max() for place in range(24)])
    assert np.all(found >= 0.9 * most - 0.02)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_a_look_of_two_values_moves_as_far_as_is_claimed_and_hardly_less(family: str) -> None:
    """Replaced records of three columns: rows of all lengths and directions, both responses, noise of all proportions.

    At zero the information of a logistic look costs nothing where its noise is √2 times the score's; elsewhere less.
    """
    polar, around = np.meshgrid(np.linspace(0, np.pi, 25), np.linspace(0, 2 * np.pi, 8, endpoint=False))
    ways = np.stack([np.cos(polar), np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around)], -1).reshape(-1, 3)
    rows = np.concatenate([length * ways for length in (0.3, 0.7, 1.0, 1.4, 2.0, 2.5)])
    X, y = np.repeat(rows, 2, axis=0), np.tile([0.0, 1.0], len(rows))
    above, unit = np.triu_indices(3, 1), tuple(map(tuple, np.eye(3).tolist()))
    for size in (0.0, 0.5, 1.5, 3.0, 8.0):
        reading = Look(CUBE, RESPONSES[family], family, (size, 0.0, 0.0), unit, 1.0, 18)
        w, (u,) = reading.contributions(X, y)
        squares = [np.einsum("ni,nj->nij", part, part) for part in (u, w)]
        flat = [np.concatenate([m[:, range(3), range(3)], math.sqrt(2) * m[:, *above]], axis=1) for m in squares]
        one, nearest = 2.0**reading.bits, 0.0
        for score, information, meat in ((4.0, 8.0, 1e9), (5.06, 11.8, 50.0), (4.0, 2.0, 1e9), (4.0, 100.0, 8.0)):
            scales = {"score": one * score**0.5, "information": one**2 * information**0.5, "meat": one**2 * meat**0.5}
            parts = [w / scales["score"], flat[0] / scales["information"], flat[1] / scales["meat"]]
            moved = float(pdist(np.concatenate(parts, axis=1)).max())
            claimed = reading.joint(scales)
            assert moved <= claimed
            nearest = max(nearest, moved / claimed)
            if size == 0.0 and family == "logistic" and meat == 1e9 and information >= 2 * score:
                assert claimed == pytest.approx(2 / score**0.5, rel=1e-3)
        assert nearest > 0.93


@pytest.mark.parametrize("family", RESPONSES)
def test_averages_of_rows_move_no_farther_than_is_claimed_of_persons_and_without_meat_as_far_as_rows(
    family: str,
) -> None:
    """Persons of one to three rows with labels of their own, many of them with rows that point against each other."""
    rng = np.random.default_rng(6)
    labels = {"linear": [-1.0, 1.0], "poisson": [0.0, 3.0], "multinomial": [0.0, 1.0, 2.0]}.get(family, [0.0, 1.0])
    angles = np.linspace(0, 2 * np.pi, 49)[:-1]
    rows = np.concatenate([r * np.stack([np.cos(angles), np.sin(angles)], 1) for r in (0.35, 0.7, 1.4)])
    X, y = np.repeat(rows, len(labels), axis=0), np.tile(labels, len(rows))
    for size in (0.0, 2.0):
        one = look(family, (size, -0.5 * size), norm=0.35 if family in STRETCHED else 0.7, bits=18)
        reading = PersonLook(*(getattr(one, field.name) for field in fields(one)))
        w, roots = reading.contributions(X, y)
        information = sum(np.einsum("ni,nj->nij", u, u) for u in roots)
        picked = rng.integers(len(w), size=(600, 3))
        count = rng.integers(1, 4, size=600)
        weights = (np.arange(3) < count[:, None]) / count[:, None]
        scores = np.concatenate([w, np.einsum("pr,pri->pi", weights, w[picked])])
        informations = np.concatenate([information, np.einsum("pr,prij->pij", weights, information[picked])])
        meats = np.einsum("ni,nj->nij", scores, scores)
        for parts in (("score", "information"), ("score", "information", "meat")):
            own, item = replace(reading, parts=parts), 2.0**reading.bits
            for shares in ((0.8, 0.2, 0.1), (0.45, 0.3, 0.25), (0.1, 0.8, 0.1)):
                scales = {p: item ** (1 if p == "score" else 2) / a**0.5 for p, a in zip(parts, shares, strict=False)}
                seen = {"score": scores, "information": informations, "meat": meats}
                moved = pdist(np.concatenate([seen[p].reshape(len(scores), -1) / scales[p] for p in parts], 1)).max()
                assert moved <= own.joint(scales)
                if len(parts) == 2:
                    assert own.joint(scales) <= replace(one, parts=parts).joint(scales) * (1 + 1e-4)


def test_information_of_several_classes_is_no_longer_than_a_half() -> None:
    p = np.random.default_rng(3).dirichlet(np.full(4, 0.3), 50_000)
    square = (p**2).sum(axis=1)
    assert np.sqrt(square - 2 * (p**3).sum(axis=1) + square**2).max() <= 0.5


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_residuals_of_classes_are_no_longer_than_their_bound_and_nearly_so_long(classes: int) -> None:
    """By linear predictors found at random and by climbing, on rows of length one and longer, which weigh less."""
    model = family_of("multinomial", Category([str(k) for k in range(classes)]))
    rng, nearest = np.random.default_rng(classes), []
    for size in (0.0, 0.3, 1.0, 3.0, 12.0):
        predictors = size * rng.standard_normal((classes - 1, 2))
        bound = model.bound(model.reach(predictors, 1.0))
        angles = np.linspace(0, 2 * np.pi, 2001)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        longest = 0.0
        for length in (0.25, 0.5, 1.0, 1.3, 4.0):
            t = np.column_stack([np.zeros(len(circle)), length * circle @ predictors.T])
            p = special.softmax(t, axis=1)
            for y in range(classes):
                residual = np.linalg.norm(np.eye(classes)[y, 1:] - p[:, 1:], axis=1)
                longest = max(longest, float(residual.max()) * min(length, 1 / length))
        assert longest <= bound
        nearest.append(longest / bound)
    assert nearest[0] == pytest.approx(1.0, abs=1e-9)
    assert min(nearest) > 0.8


@pytest.mark.parametrize("classes", [3, 5, 30, 400])
def test_longer_rows_weigh_less_than_the_bound_of_classes_can_grow(classes: int) -> None:
    model = family_of("multinomial", Category([str(k) for k in range(classes)]))
    rng = np.random.default_rng(classes)
    for size in (0.01, 0.3, 1.0, 3.0, 10.0):
        for way in (rng.standard_normal((classes - 1, 3)), np.eye(classes - 1)[:, :1], np.ones((classes - 1, 1))):
            reach = model.reach(size * way, 1.0)
            bounds = np.array([model.bound(reach * s) / s for s in np.geomspace(1, 100, 25 if classes < 100 else 9)])
            assert np.all(np.diff(bounds) <= 1e-9)


def test_residuals_are_cut_where_the_look_says_and_pull_no_farther() -> None:
    reading = look("linear", (0.5, 0.2), bits=18, cap=0.25)
    y = [5.0, -3.0, 0.25]  # 1, -0.6 and 0.05 of the bound that is farthest from zero
    found = reading.split(reading.read([[0.4] * 3, [0.0] * 3, y]).total)
    pull, lean = reading.factors
    assert reading.bound == 0.25
    assert found["score"][0] / pull == pytest.approx(0.4 * (0.25 - 0.25 + (0.05 - 0.2)), abs=1e-4)
    assert found["information"][0, 0] / lean**2 == pytest.approx(0.16, abs=1e-4)


def test_of_residuals_cut_twice_what_lies_between_the_cuts_pulls() -> None:
    reading = look("linear", (0.5, 0.2), bits=18, cap=0.6, beyond=0.25, parts=("score",))
    y = np.array([5.0, -3.0, 0.25, 2.6, -1.5])  # less 0.2: 0.8, -0.8, -0.15, 0.32 and -0.5
    pulls = (0.6 - 0.25, 0.25 - 0.6, 0.0, 0.32 - 0.25, 0.25 - 0.5)
    for value, pulled in zip(y, pulls, strict=True):
        found = reading.read([[0.4], [0.0], [value]]).total[0] / reading.factors[0]
        assert found == pytest.approx(0.4 * pulled, abs=1e-5)
    assert reading.bound == pytest.approx(0.35)
    whole, cut = (replace(reading, beyond=0.0, cap=cap).model.residual(y / 5, np.full(5, 0.2)) for cap in (0.6, 0.25))
    assert reading.model.residual(y / 5, np.full(5, 0.2)) == pytest.approx(whole - cut)


@pytest.mark.parametrize("wrong", [{"beyond": 0.5}, {"beyond": 0.5, "cap": 0.5}, {"beyond": -0.1, "cap": 1.0}])
def test_what_lies_beyond_no_cap_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue):
        look("linear", **wrong)
    with pytest.raises(InvalidValue, match="linear"):
        look("logistic", beyond=0.1, cap=0.5)


@pytest.mark.parametrize("kind", [Look, PersonLook])
@pytest.mark.parametrize("cut", [(1.9, 1e-6), (1.0, 0.999999), (0.5, 0.1), (2.0, 1.7)])
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_no_record_has_more_between_two_cuts_than_noise_is_made_for(
    kind: type[Look], cut: tuple[float, float], size: float
) -> None:
    """All pairs of rows within and beyond the norm, with responses at both ends and wherever the cuts are met."""
    cap, beyond = cut
    one = look("linear", (size, -0.5 * size), norm=0.7, cap=cap, beyond=beyond, parts=("score",))
    reading = kind(*(getattr(one, field.name) for field in fields(one)))
    angles = np.linspace(0, 2 * np.pi, 25)
    rows = np.concatenate([r * np.stack([np.cos(angles), np.sin(angles)], 1) for r in (0.0, 0.3, 0.7, 1.0)])
    y = np.linspace(-1, 1, 21)
    w, _ = reading.contributions(np.repeat(rows, len(y), axis=0), np.tile(y, len(rows)))
    assert np.linalg.norm(w, axis=1).max() <= reading.lengths["score"]
    assert pdist(np.unique(w, axis=0)).max(initial=0.0) <= reading.moves["score"]


@pytest.mark.parametrize(("family", "extra"), [*((family, 0.0) for family in FAMILIES), ("poisson", 1.5)])
def test_one_replaced_record_moves_everything_together_no_farther_than_the_joint_bound(
    family: str, extra: float
) -> None:
    """Random and extreme records, long ones among them, at several centres; with noise of several proportions."""
    rng = np.random.default_rng(4)
    tight = 0.0
    for size in (0.0, 1.0, 3.0):
        norm = 0.35 if family in STRETCHED else 0.7
        reading = look(family, (size, -0.5 * size), norm=norm, bits=12, extra=extra)
        angles = np.linspace(0, 2 * np.pi, 73)
        rows = np.concatenate([r * np.stack([np.cos(angles), np.sin(angles)], 1) for r in (0.35, 0.5, 0.7, 0.99)])
        labels = (
            np.array([0.0, 1.0, 2.0])
            if family == "multinomial"
            else np.array([-1.0, 1.0] if family == "linear" else [0.0, 1.0])
        )
        labels = np.array([0.0, 3.0]) if family == "poisson" else labels
        X, y = np.repeat(rows, len(labels), axis=0), np.tile(labels, len(rows))
        w, roots = reading.contributions(X, y)
        triangle = np.triu_indices(reading.dimension, 1)

        def flat(m: np.ndarray) -> np.ndarray:
            diagonal = np.diagonal(m, axis1=1, axis2=2)
            return np.concatenate([diagonal, math.sqrt(2) * m[:, triangle[0], triangle[1]]], axis=1)

        information = flat(sum(np.einsum("ni,nj->nij", u, u) for u in roots))
        meat = flat(np.einsum("ni,nj->nij", w, w))
        for share in (0.05, 0.5, 0.9):
            one = 2.0**reading.bits
            scales = {"score": one, "information": one**2 / share, "meat": one**2 / (1 - share) * 0.7}
            whole = np.concatenate([w / scales["score"], information / scales["information"], meat / scales["meat"]], 1)
            picked = rng.permutation(len(whole))[:400]
            gaps = cdist(whole[picked], whole).max()
            bound = reading.joint(scales)
            assert gaps <= bound
            tight = max(tight, gaps / bound)
    assert tight > 0.95


FAR = [(1e6, 1e9), (0.0, 1e-6), (-1e9, 1e-6), (-1e-300, 3e-300), (69.0, 70.0), (-1e308, 1e300)]


@pytest.mark.parametrize("bounds", FAR)
def test_a_response_measured_from_zero_stays_within_one(bounds: tuple[float, float]) -> None:
    reading = replace(look("linear"), response=Number(*bounds))
    wild = np.array([*bounds, -np.inf, np.inf, 0.0, 5e-324, -1e308, 1e308, np.mean(bounds)])
    found = reading.model.outcome(wild)
    assert np.all(np.abs(found) <= 1)
    assert np.allclose(found, np.clip(wild, *bounds) / max(map(abs, bounds)), atol=1e-15)
    assert np.abs(found[:2]).max() == 1


def test_readings_of_every_family_pass_the_house_checks() -> None:
    for family in ("linear", "multinomial"):
        problems = [result for result in check_reading(look(family, bits=8)) if not result.passed]
        assert not problems


@pytest.mark.parametrize("n", [0, 1, 2000, 50_000_000, 10**9])
def test_a_double_holds_the_sums_of_any_number_of_records(n: int) -> None:
    look("logistic", bits=fine_bits(n)).check_sums(n)


def test_the_norm_and_the_scale_of_columns_do_not_matter_to_totals_of_none() -> None:
    reading = look("logistic")
    assert reading.read([[], [], []]).total.tolist() == [0.0] * reading.size
    assert reading.read([[None, math.nan], ["x", 1.0], [True, None]]).total.tolist() == [0.0] * reading.size
    for wrong in (
        {"norm": 0.0},
        {"extra": -0.1},
        {"extra": math.inf},
        {"bits": 1},
        {"parts": ("scores",)},
        {"centre": (math.nan, 0.0)},
    ):
        with pytest.raises(InvalidValue):
            look("logistic", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        Look(SQUARE, Number(0, 1), "logistic", (0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), 1.0)


@pytest.mark.parametrize("kind", [Look, PersonLook])
@pytest.mark.parametrize("family", RESPONSES)
def test_a_look_of_another_norm_or_cut_knows_nothing_of_the_first(family: str, kind: type[Look]) -> None:
    """Noise is made by what a look keeps of itself: all of it must be what a look made anew like that has."""
    one = look(family, cap=5 if family == "poisson" else 0)
    first = kind(*(getattr(one, field.name) for field in fields(one)))
    kept = {name for part in kind.__mro__ for name, one in vars(part).items() if isinstance(one, cached_property)}
    assert {"bound", "diameter"} <= kept and all(hasattr(first, name) for name in kept)
    others = [(first.of_norm(norm), replace(first, norm=norm)) for norm in (0.3, 5.0)]
    if family in ("linear", "poisson"):
        extra = 0.5 if family == "poisson" else 0.0
        others += [(first.of_cap(cap, extra), replace(first, cap=cap, extra=extra)) for cap in (1, 3)]
    before = {name: getattr(first, name) for name in kept}
    for found, made in others:
        assert found == made != first
        assert found.model == made.model and found.model.steepest == made.model.steepest
        for name in [*sorted(kept - {"model", "layout"}), "factors", "pull", "sizes"]:
            np.testing.assert_equal(getattr(found, name), getattr(made, name), err_msg=name)
    assert all(getattr(first, name) is value for name, value in before.items())
    with pytest.raises(InvalidValue):
        first.of_cap(-1.0)
