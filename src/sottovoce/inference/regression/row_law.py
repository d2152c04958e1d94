"""The law of a regression's rows: pseudo-rows as a function of latent parameters, with derivatives.

Numbers are clip(m + s·(g(e; κ) + shift), −1, 1) in units of their public bounds: e normal with correlations R, g a
standardised shifted log-normal (κ → 0: the normal itself), and a shift by flags and levels. Flags and levels have a
log-linear law: a weight for each of their combinations. All parameters are standard normal before anything is seen.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.row_start import start_correlations
from sottovoce.inference.regression.standard_laws import beta_quantile, log_normal, log_phi, log_student
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.encodings import Encoding, levels_of

MOST_COMBINATIONS = 64
"""Combinations of flags and levels that are enumerated."""
NODES, STRAIGHT_NODES = 12, 7
"""Gauss–Hermite nodes along the linear predictor, exact for polynomials of degree 23; and where the mean is straight in
it, so that only weights and cuts bend, of degree 13."""
_MANY_NUMBERS, _FEWER_NODES = 24, 8
"""Of so many numbers and more no more nodes than this, exact for polynomials of degree 15."""
_FEWEST_ROWS = 256
_NARROWEST = 1e-6
"""A spread is no smaller than this, so that its inverse is a double of moderate size."""
_CURVE_NODES, _CURVE_PLACES = 15, 24
"""Of a number that is a curve alone, so many places and spreads are tried to start from, each by so many nodes."""
_TAIL_FREEDOM = 5
"""Rows with t₅ tails stand for what a misfit does to long rows."""


@dataclass(frozen=True, eq=False)
class PseudoRows:
    """Encoded rows with weights that add up to one, and what moves them.

    Attributes
    ----------
    rows, weights
        X, (R, d), and w.
    entered
        For each k the k-th entry of X that every number is in, and the derivative of that by it: (numbers,) and
        (numbers, R). Of a number that is in fewer it is the first, with no derivative.
    drawn, sizes
        The derivative of each number by the parameters that move it, (parameters, R): first all of the first number's.
        And how many each number has.
    tilts
        The derivative of log w by the parameters of flags and levels, (R, parameters).
    """

    rows: Floats
    weights: Floats
    entered: list[tuple[NDArray[np.intp], Floats]]
    drawn: Floats
    sizes: NDArray[np.intp]
    tilts: Floats

    def held(self) -> PseudoRows:
        """Return rows that nothing moves."""
        nothing = np.zeros((0, len(self.rows)))
        return replace(self, entered=[], drawn=nothing, sizes=self.sizes[:0], tilts=nothing.T)

    def along(self, theta: Floats) -> Floats:
        """Return the derivative of x·θ by each number, (numbers, R), for one θ or one a row, (d, R)."""
        result = np.zeros((len(self.sizes), len(self.rows)))
        for entries, slopes in self.entered:
            result += slopes * (theta[entries, None] if theta.ndim == 1 else theta[entries])
        return result

    def moved(self, slopes: Floats) -> Floats:
        """Return the derivative by each parameter of what changes by `slopes` with each number: both (…, R)."""
        return np.asarray(self.drawn * np.repeat(slopes, self.sizes, axis=0))

    def owned(self, entries: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return of each parameter what its number has."""
        return np.repeat(entries, self.sizes)


class RowLaw:
    """The law of the rows of an encoding, and its parameters: first those of each number, then of flags and levels."""

    def __init__(self, encoding: Encoding, priors: JointPriors | None = None, nodes: int = NODES) -> None:
        self.encoding, self.priors, self.nodes = encoding, priors or JointPriors(), nodes
        levels = [levels_of(column) for column in encoding.columns]
        self.numbers = [place for place, known in enumerate(levels) if known is None]
        self.discrete = {place: len(known) for place, known in enumerate(levels) if known is not None}
        cells = math.prod(self.discrete.values())
        self.combinations = np.array(
            list(itertools.product(*(range(count) for count in self.discrete.values()))), dtype=np.intp
        ).reshape(cells, len(self.discrete))
        main, pairs = [], []
        for at, count in enumerate(self.discrete.values()):
            main += [(self.combinations[:, at] == level) for level in range(count)]
        for first, second in itertools.combinations(range(len(self.discrete)), 2):
            counts = list(self.discrete.values())
            for a, b in itertools.product(range(1, counts[first]), range(1, counts[second])):
                pairs.append((self.combinations[:, first] == a) & (self.combinations[:, second] == b))
        # Levels but the first shift numbers.
        shifting = [
            self.combinations[:, at] == level
            for at, count in enumerate(self.discrete.values())
            for level in range(1, count)
        ]
        self._main = np.array(main, dtype=float).reshape(-1, cells).T
        self._pair = np.array(pairs, dtype=float).reshape(-1, cells).T
        self._shifting = np.array(shifting, dtype=float).reshape(-1, cells).T
        p, levels_shifting = len(self.numbers), self._shifting.shape[1]
        sizes = [3 + j + levels_shifting for j in range(p)]
        ends = np.cumsum([0, *sizes])
        self.blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self._sizes = np.array(sizes, dtype=np.intp)
        self.tilted = slice(int(ends[-1]), int(ends[-1]) + self._main.shape[1] + self._pair.shape[1])
        self.size = self.tilted.stop
        self.spreads = [block.start + 1 for block in self.blocks]
        """The places of the numbers' spreads among the parameters."""
        # LKJ(η) as partial correlations of a C-vine: that of j and i given all before i is Beta(b, b) on (−1, 1).
        eta = self.priors.correlation_shape
        self._vine = [np.array([eta + (p - 2 - i) / 2 for i in range(j)]) for j in range(p)]
        self._partial = np.array([place for place, _ in self.partials()], dtype=np.intp)
        self._shapes = np.array([b for _, b in self.partials()])

    def partials(self) -> list[tuple[int, float]]:
        """Return the places of all partial correlations, each with the b of its law."""
        pairs = zip(self.blocks, self._vine, strict=True)
        return [(block.start + 3 + i, float(b)) for block, vine in pairs for i, b in enumerate(vine)]

    @staticmethod
    def unexplained(u: Floats, b: float) -> tuple[Floats, Floats]:
        """Return √(1 − r²) of a partial correlation, and the derivative of its logarithm."""
        r, alone, slope = beta_quantile(np.asarray(u, dtype=np.float64), np.asarray(b))
        return np.sqrt(alone), -r * slope / alone

    # From parameters to the law.

    def spread(self, u: Floats | float) -> tuple[Floats, Floats]:
        """Return the standard deviation of a number and the derivative of its logarithm."""
        priors = self.priors
        p = special.ndtr(np.asarray(u, dtype=np.float64))
        t = special.stdtrit(priors.spread_freedom, p)
        log = math.log(priors.spread_median) + priors.spread_scale * t
        slope = priors.spread_scale * np.exp(log_phi(np.asarray(u)) - log_student(t, priors.spread_freedom))
        # Smoothly no larger than half the range.
        s = np.exp(-np.logaddexp(0.0, -4 * log) / 4)
        return np.maximum(s, _NARROWEST), slope * special.expit(-4 * log)

    def at_spread(self, s: Floats) -> Floats:
        """Return the parameter at which a number spreads so far."""
        s = np.clip(s, 1e-4, 0.98)
        log = -np.log(np.expm1(-4 * np.log(s))) / 4
        t = (log - math.log(self.priors.spread_median)) / self.priors.spread_scale
        return np.asarray(special.ndtri(np.clip(special.stdtr(self.priors.spread_freedom, t), 1e-5, 1 - 1e-5)))

    def shares(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the share of each combination of flags and levels, and the derivative of its logarithm."""
        part = u[self.tilted]
        if not part.size:
            return np.ones(1), np.zeros((1, 0))
        count = self._main.shape[1]
        # Logarithms of independent exponential variables: normalised, they are Dirichlet(1, …, 1).
        upper = -special.log_ndtr(-part[:count])
        logs, slopes = np.log(upper), np.exp(log_phi(part[:count]) - special.log_ndtr(-part[:count])) / upper
        sd = self.priors.association_sd
        design = np.hstack([self._main * slopes, self._pair * sd])
        eta = self._main @ logs + self._pair @ (sd * part[count:])
        w = special.softmax(eta)
        return w, design - w @ design

    @cached_property
    def _sorts(self) -> NDArray[np.intp]:
        return np.arange(len(self.combinations))

    def rows(self, u: Floats, normals: Floats, odds: Floats, *, slopes: bool = True) -> PseudoRows:
        """Return pseudo-rows made of normal points (R₀, numbers) with weights, once for each combination."""
        cells, count = len(self.combinations), len(normals)
        share, tilt = self.shares(u)
        at = np.repeat(self._sorts, count)
        w = np.outer(share, odds).ravel()
        e_all = np.tile(normals, (cells, 1))
        shifting = self._shifting[at]
        values: dict[int, Floats] = {}
        drawn = np.empty((self.tilted.start if slopes else 0, cells * count))
        spreads, partials = (
            np.array(self.spread(u[self.spreads])),
            np.array(beta_quantile(u[self._partial], self._shapes)),
        )
        for j, place in enumerate(self.numbers):
            block, first = self.blocks[j], j * (j - 1) // 2
            partial = partials[:, first : first + j]
            moved = drawn[block] if slopes else None
            values[place] = self._number(u[block], spreads[:, j], partial, e_all[:, : j + 1], shifting, moved)
        for k, place in enumerate(self.discrete):
            values[place] = self.combinations[at, k].astype(float)
        rows, entered = self._encoded(values, cells * count, slopes=slopes)
        return PseudoRows(rows, w, entered, drawn, self._sizes, tilt[at])

    def _number(
        self, part: Floats, spread: Floats, partial: Floats, e: Floats, shifting: Floats, moved: Floats | None
    ) -> Floats:
        """Return the values of a number, and write their derivatives by its parameters where they are asked for."""
        j = e.shape[1] - 1
        um, _, uk = part[:3]
        shifts = part[3 + j :] * self.priors.shift_sd
        m, (s, dlog) = 2 * special.ndtr(um) - 1, spread
        # Row j of the Cholesky factor of R by partial correlations.
        c, alone, dc = partial
        remaining = np.sqrt(np.concatenate([[1.0], np.cumprod(alone)]))
        row = np.append(c, 1.0) * remaining
        mixed = e @ row
        k = self.priors.skew_sd * uk
        g, dg, dk = log_normal(mixed, k)
        shift = shifting @ shifts
        raw = m + s * (g + shift)
        if moved is None:
            return np.asarray(np.clip(raw, -1.0, 1.0))
        moved[0] = 2 * np.exp(log_phi(um))
        moved[1] = s * dlog * (g + shift)
        moved[2] = s * dk * self.priors.skew_sd
        if j:  # a partial correlation moves its own place of the row, and shortens those after it
            drow = np.triu(np.ones((j, j + 1)), 1) * -np.outer(c * dc / alone, row)
            drow[np.arange(j), np.arange(j)] = remaining[:j] * dc
            moved[3 : 3 + j] = (drow @ e.T) * (s * dg)
        moved[3 + j :] = s * self.priors.shift_sd * shifting.T
        moved *= np.abs(raw) < 1
        return np.asarray(np.clip(raw, -1.0, 1.0))

    @cached_property
    def _entered(self) -> NDArray[np.intp]:
        """The entries that each number is in, (most, numbers): −1 where there are no more."""
        each = [
            [
                i
                for i, entry in enumerate(self.encoding.entries)
                if any(at == place and level < 0 for at, level in entry)
            ]
            for place in self.numbers
        ]
        most = max(map(len, each), default=0)
        return (
            np.array([entries + [-1] * (most - len(entries)) for entries in each], dtype=np.intp)
            .reshape(len(each), most)
            .T
        )

    def _encoded(
        self, values: dict[int, Floats], count: int, *, slopes: bool
    ) -> tuple[Floats, list[tuple[NDArray[np.intp], Floats]]]:
        """Return the encoded rows, and their derivative by each number."""
        entries = self.encoding.entries
        rows = np.ones((count, len(entries)))
        derived = np.zeros((*self._entered.shape, count if slopes else 0))
        for i, entry in enumerate(entries):
            factors = [self._factor(values[place], place, level) for place, level in entry]
            for factor in factors:
                rows[:, i] *= factor
            for f, (place, level) in enumerate(entry if slopes else ()):
                if level < 0 and place in self.numbers:
                    others = np.ones(count)
                    for g, factor in enumerate(factors):
                        others = others if g == f else others * factor
                    number = self.numbers.index(place)
                    at = int(np.flatnonzero(self._entered[:, number] == i)[0])
                    derived[at, number] += others * self._slope(values[place], place, level)
        return rows, [(np.maximum(places, 0), part) for places, part in zip(self._entered, derived, strict=True)]

    def _factor(self, value: Floats, place: int, level: int) -> Floats:
        if level >= 0 or place not in self.numbers:
            return value if level < 0 else (value == level) * 1.0
        slope, shift = self._scaled(place)
        value = shift + slope * value
        if level < -1:
            return self.encoding.spline(place).values(self.encoding.unit(place, value), -2 - level)
        return value

    def _scaled(self, place: int) -> tuple[float, float]:
        """Return what a number in units of its bounds, ∓1, is multiplied by and moved by as its entry has it."""
        scale = self.encoding.scale(place)
        low, high = ((end - scale.middle) / scale.half for end in (scale.low, scale.high))
        return (high - low) / 2, (high + low) / 2

    def _slope(self, value: Floats, place: int, level: int) -> Floats | float:
        """Return the derivative of a factor by its scaled number."""
        slope, shift = self._scaled(place)
        if level == -1:
            return slope
        scale = self.encoding.scale(place)
        part = self.encoding.unit(place, shift + slope * value)
        return self.encoding.spline(place).slopes(part, -2 - level) * slope * scale.half / (scale.high - scale.low)

    # Points.

    def points(self, direction: Floats | None) -> tuple[Floats, Floats, Floats]:
        """Return normal points, their weights, and by what each is stretched where rows have long tails.

        Gauss–Hermite nodes lie along the linear predictor, whose direction is given; beside it, at each node, random
        frames of points and their opposites: sums of f(t)·zz' are exact for normal rows, whatever f is.
        """
        q = len(self.numbers)
        if not q:
            return np.zeros((1, 0)), np.ones(1), np.ones(1)
        rng = np.random.default_rng(5)
        a = np.zeros(q) if direction is None else np.asarray(direction, dtype=np.float64)
        a = a / np.linalg.norm(a) if np.linalg.norm(a) > 0 else np.eye(q)[0]
        fewest = max(_FEWEST_ROWS // len(self.combinations), 2 * self.nodes)
        nodes = self.nodes if q > 1 else max(NODES, min(fewest, 64))
        nodes = min(nodes, _FEWER_NODES) if q >= _MANY_NUMBERS else nodes
        t, w = np.polynomial.hermite_e.hermegauss(nodes)
        w = w / w.sum()
        kept = w > 1e-9 if q == 1 else np.ones(nodes, dtype=bool)
        t, w = t[kept], w[kept] / w[kept].sum()
        if q == 1:
            e, odds = t[:, None] * a, w
        else:
            beside = np.linalg.svd(a[None])[2][1:]
            frames = max(1, math.ceil(fewest / (2 * nodes * (q - 1))))
            lengths = stats.chi.ppf((np.arange(frames) + 0.5) / frames, q - 1)
            lengths *= math.sqrt((q - 1) / np.mean(lengths**2))
            parts = []
            for node in t:
                for length in lengths:
                    turn, _ = np.linalg.qr(rng.standard_normal((q - 1, q - 1)))
                    across = length * turn @ beside
                    parts += [node * a + across, node * a - across]
            e, odds = np.concatenate(parts), np.repeat(w / (2 * (q - 1) * frames), 2 * (q - 1) * frames)
        stretch = np.sqrt((_TAIL_FREEDOM - 2) / rng.chisquare(_TAIL_FREEDOM, len(e)))
        return e, odds, stretch / math.sqrt(float(odds @ stretch**2))

    def direction(self, u: Floats, theta: Floats) -> Floats:
        """Return the direction of the linear predictor among the normal points."""
        q = len(self.numbers)
        if not q:
            return np.zeros(0)
        near = np.vstack([np.eye(q), -np.eye(q)])
        pseudo = self.rows(u, near, np.full(2 * q, 0.5 / q))
        t = (pseudo.weights * (pseudo.rows @ theta)).reshape(-1, 2, q).sum(axis=0)
        return np.asarray(t[0] - t[1])

    def start(self, mean: Floats, covariance: Floats) -> Floats:
        """Return parameters near the means and covariances of the entries of a row, as far as they tell."""
        u, entries = np.zeros(self.size), list(self.encoding.entries)
        alone = {place: entries.index(((place, -1),)) for place in self.numbers if ((place, -1),) in entries}
        for j, place in enumerate(self.numbers):
            if place not in alone:
                if (curved := self._start_of_curve(place, mean, covariance)) is not None:
                    u[self.blocks[j].start : self.blocks[j].start + 2] = curved
                continue
            block, i, (slope, shift) = self.blocks[j], alone[place], self._scaled(place)
            m = float(np.clip((mean[i] - shift) / slope, -0.95, 0.95))
            s = math.sqrt(float(np.clip(covariance[i, i] / slope**2, 1e-4, 0.9)))
            u[block.start] = special.ndtri((m + 1) / 2)
            u[block.start + 1] = float(self.at_spread(np.array(s)))
        start_correlations(u, self.blocks, self._vine, [alone.get(place) for place in self.numbers], covariance)
        for k, (place, count) in enumerate(self.discrete.items()):
            first = self.tilted.start + sum(list(self.discrete.values())[:k])
            share = np.full(count, 1 / count)
            for level in range(1, count):
                entry = ((place, level),) if ((place, level),) in entries else ((place, -1),)
                if entry in entries:
                    share[level] = float(np.clip(mean[entries.index(entry)], 0.005, 0.995))
            share[0] = max(1 - share[1:].sum(), 0.005)
            share = share / share.sum()
            # Exponential variables of mean one have these shares.
            u[first : first + count] = special.ndtri(np.clip(-np.expm1(-share * count * 0.7), 1e-6, 1 - 1e-6))
        return u

    def _start_of_curve(self, place: int, mean: Floats, covariance: Floats) -> Floats | None:
        """Return the parameters of a number that is in a row as a curve alone: of even places and spreads those whose
        functions have means and mean squares nearest to what is seen. None where products alone have it.
        """
        curves = [
            (k, entry[0][1]) for k, entry in enumerate(self.encoding.entries) if len(entry) == 1 if entry[0][0] == place
        ]
        if not curves:
            return None
        t, w = np.polynomial.hermite_e.hermegauss(_CURVE_NODES)
        u = special.ndtri(np.linspace(0.0, 1.0, _CURVE_PLACES + 2)[1:-1])
        places, spreads = (part.ravel() for part in np.meshgrid(u, u, indexing="ij"))
        at = np.clip((2 * special.ndtr(places) - 1)[:, None] + self.spread(spreads)[0][:, None] * t, -1.0, 1.0)
        away = np.zeros(len(places))
        for k, level in curves:
            values = np.asarray(self._factor(at.ravel(), place, level)).reshape(at.shape)
            first, second = values @ w / w.sum(), values**2 @ w / w.sum()
            away += (first - mean[k]) ** 2 + (second - covariance[k, k] - mean[k] ** 2) ** 2
        best = int(np.argmin(away))
        return np.array([places[best], spreads[best]])
