"""The posterior of a regression given all of its looks, by nested Laplace approximations (Rue, Martino & Chopin 2009).

All latents are normal about their joint mode but for those that may lie anywhere: how far a column spreads where noise
hides it, and how far the formula misses. Each of them is laid on a grid, all others at their mode given that, and its
values weigh as the Laplace approximation of their evidence has it; of several, combinations are drawn.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats

from sottovoce.inference.regression.joint_likelihood import Quadratic
from sottovoce.inference.regression.latent_grid import LatentGrid
from sottovoce.inference.regression.learned_rows import LearnedRows
from sottovoce.inference.regression.misfit_covariance import misfit_covariance
from sottovoce.inference.regression.mode_search import ROUGHLY, ModeSearch, factored
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.inference.regression.without_noise import covariance_without_noise
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.families import PoissonFamily

__all__ = ["JointPosterior", "NestedLaplace"]

_HIDDEN = 0.2
"""A column's spread is laid on a grid where its logarithm is not known within this: slopes go as its inverse, and what
a normal law of it misses is of the order of its square."""
_OPEN = 0.3
"""A latent of the law of residuals or counts is laid on a grid where the looks leave more than this of its prior
deviation: levels are no straight functions of what is cut."""
_UNKNOWN = 0.5
"""And where its logarithm is not known within this, a factor of e either way, noise is said to hide the column."""
_NARROW, _WIDE = 3.6, 3.0
"""The grid of a spread goes from so many standard deviations of its prior below its median to so many above."""
_FIRST, _FARTHER, _MOST_PLACES = 0.7, 1.5, 9
"""How far the next places of a grid are from the mode, in its standard deviations; how many times as far the next are
from those; and how many there are on a side at most, the mode with it."""
_BESIDE = np.linspace(-3.6, 3.6, 7)
"""Places of the grid of a residuals' or counts' latent, in standard deviations about its mode: the normal law has next
to nothing beyond."""
_SKEWS, _LEANING = np.linspace(-3.5, 3.5, 9), 2.0
"""Places of the grid of how far residuals lean, in prior standard deviations, and where it is also begun."""
_ODD = 3.0
"""So many standard deviations χ² may lie above its mean; beyond, the law is not that of the records."""
_FALSE = 3.0
"""Where χ² is so many times its mean, a mode is false: at true ones it was .5 to 1 times that, at false ones 4 to 8."""
_REACHED = 0.1
"""Where more than this part of counts reaches their public bound, levels hang on the law of what would lie beyond."""
_BEHIND, _FARTHEST = 2.5, 4.5
"""The grid of a partial correlation goes from so many standard deviations nearer to zero to so far, where 1 − r is
about 1e-5 of two columns."""
_MOST_AXES = 12
"""No more latents are laid on grids, for each takes some steps."""
_MOST_LONG = 4
"""And of rows of more than `LONG` entries no more than this, on grids of half as many places."""
_MISFITS = np.linspace(-2.0, 2.0, 5)
_NOTHING = -6.0
"""The log of a weight that is as good as none."""
_BESIDE_MODE = 0.5
"""A place from which a step would gain no more than this in log density has its mode where that step leads to."""
_MOST_VARIED = 50.0
"""The largest dispersion of counts that `PoissonFamily` knows."""


@dataclass(frozen=True, eq=False)
class JointPosterior:
    """A mixture of normal laws of θ, in the coordinates of the encoded rows.

    Attributes
    ----------
    weights, means, covariances
        The mixture.
    plain
        The covariance that would be left without noise, at the mode.
    hidden
        Which entries of a row noise hides: how far a number of theirs spreads, or how many records have their levels,
        is not known.
    unlearned
        Which part of its prior variance each entry of θ has left, in units of the linear predictor.
    misfit
        The posterior mean of τ.
    full
        Which part of counts lies at or beyond their public bound (`PoissonFamily.full`); None of other responses.
    explained
        Whether what was released lies as near to what is expected as it should.
    latent
        The mode of all latents.
    dispersion
        Of counts the mean and deviation of a normal u, and a shape s: log(1 + α) = −log Φ(−u)/s, α their dispersion.
    rows
        What is told of the records.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    plain: Floats
    hidden: NDArray[np.bool_]
    unlearned: Floats
    misfit: float
    full: float | None
    explained: bool
    latent: Floats
    dispersion: tuple[float, float, float] | None = None
    rows: LearnedRows | None = None

    @property
    def mean(self) -> Floats:
        """The mean of θ."""
        return np.asarray(self.weights @ self.means)


class NestedLaplace(ModeSearch):
    """The mode, and grids around it."""

    def posterior(self) -> JointPosterior:
        """Return the mixture."""
        model = self.model
        u = self._start()
        model.aim(u)
        self.psi = misfit_covariance(model, u)
        usual = self.tau(0.0)
        u, _ = self.mode(u, usual, steps=self.care.climbs, near=ROUGHLY)
        model.aim(u)
        self.psi = misfit_covariance(model, u)
        u, near = self._leaning(*self.mode(u, usual, steps=self.care.climbs))
        full = self._full(u)
        tau, axes, explained = usual, [], self._explained(near, full)
        if self.misses:
            misfits = self._misfits(u)
            tau = self.tau(float(misfits.weights @ misfits.values))
            u, near = self.mode(u, tau)
            axes.append(self._misfits(u))
        hidden = self._hidden(u, near)
        axes += [self._axis(u, place, grid, tau) for place, grid in hidden]
        axes += self._open(u, near, tau) + self._groups(u, near, tau)
        weights, means, covariances, unlearned = self._mixture(u, near, tau, axes)
        misfit = tau if not self.misses else float(axes[0].weights @ [self.tau(value) for value in axes[0].values])
        hidden_entries = self._hidden_entries(u, near, axes)
        mixture = weights, means, covariances, self._plain(u, axes)
        varied = self._dispersion(u, near, axes)
        medians = {axis.place: axis.median for axis in axes if axis.place is not None}
        rows = None if model.formula.family == "ordinal" else LearnedRows.of(model, u, medians)  # its plans simulate
        return JointPosterior(*mixture, hidden_entries, unlearned, misfit, full, explained, u, varied, rows)

    def _dispersion(self, u: Floats, near: Quadratic, axes: Sequence[LatentGrid]) -> tuple[float, float, float] | None:
        """Return what is known of how much counts vary, by the grid of it where there is one."""
        place, shape = self.model.shape.start, float(self.priors.count_dispersion_shape)
        if not self.model.counts:
            return None
        grid = next((axis for axis in axes if axis.place == place), None)
        if grid is None:
            return float(u[place]), math.sqrt(np.linalg.inv(near.metric)[place, place]), shape
        mean = float(grid.weights @ grid.values)
        return mean, math.sqrt(float(grid.weights @ (grid.values - mean) ** 2)), shape

    def _leaning(self, u: Floats, near: Quadratic) -> tuple[Floats, Quadratic]:
        """Return the best of the mode that was found and of those where residuals lean far to one side."""
        for side in (_LEANING, -_LEANING) if self.model.linear else ():
            at = u.copy()
            at[self.model.shape.stop - 1] = side
            at, other = self.mode(at, self.tau(0.0), self.held, steps=self.care.climbs // 3)
            if self.evidence(other, self.held) > self.evidence(near, self.held):
                u, near = at, self.near(at, self.tau(0.0), ()) if self.held else other
        return u, near

    def _explained(self, near: Quadratic, full: float | None) -> bool:
        """Say whether Pearson's χ² of what was released is no larger than it should be where a law of residuals or
        counts is supposed, and not many times that elsewhere, and whether few counts reach their bound.
        """
        model = self.model
        count = len(model.score) + len(model.matrices)
        if (full or 0.0) > _REACHED:
            return False
        if not (model.linear or model.counts):
            return near.chi < _FALSE * count
        return near.chi < count + _ODD * math.sqrt(2 * count)

    def _hidden_entries(self, u: Floats, near: Quadratic, axes: Sequence[LatentGrid]) -> NDArray[np.bool_]:
        """Return which entries have a number whose spread, or levels whose share, is not known."""
        law, entries = self.model.law, self.model.formula.encoding.entries
        spreads = dict(zip(law.spreads, law.numbers, strict=True))
        columns = {spreads[a.place] for a in axes if a.place in spreads and self._log_sd(a) > _UNKNOWN}
        hidden = np.array([any(place in columns for place, _ in entry) for entry in entries])
        shares, tilts = law.shares(u)
        covariance = np.linalg.inv(near.metric)[law.tilted, law.tilted]
        for k, entry in enumerate(entries):
            members = np.ones(len(shares), dtype=bool)
            for at, place in enumerate(law.discrete):
                levels = [1 if level < 0 else level for column, level in entry if column == place]
                for level in levels:
                    members &= law.combinations[:, at] == level
            if not members.all():
                slope = shares[members] @ tilts[members] / shares[members].sum()
                hidden[k] |= bool(slope @ covariance @ slope > _UNKNOWN**2)
        return hidden

    def _log_sd(self, axis: LatentGrid) -> float:
        """Return how well the logarithm of a spread is known."""
        logs = np.log(self.model.law.spread(axis.values)[0])
        return math.sqrt(max(float(axis.weights @ (logs - axis.weights @ logs) ** 2), 0.0))

    def _misfits(self, u: Floats) -> LatentGrid:
        """Return the grid of how far the formula misses, with θ one step from the mode; the rows' law hardly moves."""
        logs, places, moments = [], [], self.model.moments(u)
        for value in _MISFITS:
            near = self.model.gauss_newton(u, self.psi, self.tau(value), moments)
            step, gain = self.step(near, self.law)
            logs.append(self.evidence(near, ()) + gain - value**2 / 2)
            places.append(u + step)
        return LatentGrid.of(None, _MISFITS, np.array(logs), np.array(places))

    def _hidden(self, u: Floats, near: Quadratic) -> list[tuple[int, Floats]]:
        """Return the places of what the looks leave open, each with its grid: spreads of numbers, and what of a
        number others do not explain; the least known first.
        """
        law, sds = self.model.law, np.sqrt(np.diag(np.linalg.inv(near.metric)))
        doubt: list[tuple[float, int, Floats]] = []
        for place in law.spreads:
            grid = self._beside(u[place], sds[place], -_NARROW, _WIDE)
            doubt.append((sds[place] * float(law.spread(u[place])[1]), place, grid))
        for place, b in law.partials():
            side = 1.0 if u[place] > 0 else -1.0
            grid = side * self._beside(abs(u[place]), sds[place], abs(u[place]) - _BEHIND * sds[place], _FARTHEST)
            doubt.append((sds[place] * abs(float(law.unexplained(u[place], b)[1])), place, grid[:: int(side)]))
        doubt.sort(key=lambda item: -item[0])
        most, every = (_MOST_LONG, 2) if self.long else (_MOST_AXES, 1)
        return [(place, grid[::every]) for size, place, grid in doubt[:most] if size > _HIDDEN]

    def _beside(self, mode: float, sd: float, low: float, high: float) -> Floats:
        """Return the mode and places on both sides of it, the next ones within its standard deviation, each farther
        from the next than that is from the one before.
        """
        first, times = (_FIRST, _FARTHER) if self.care.drawn else (_FIRST * _FARTHER, _FARTHER**2)
        lengths = first * sd * (times ** np.arange(1, _MOST_PLACES) - 1) / (times - 1)
        sides = [lengths[lengths < end] for end in (mode - low, high - mode)]
        return np.array([*(mode - sides[0][::-1]), mode, *(mode + sides[1])])

    def _open(self, u: Floats, near: Quadratic, tau: float) -> list[LatentGrid]:
        """Return the grids of what looks leave open of the law of residuals or counts, all else a step from where the
        normal law about the mode has it given that.
        """
        model, covariance, result = self.model, self.covariance(near), []
        for place in range(model.shape.start, model.shape.stop):
            sd = math.sqrt(covariance[place, place])
            if sd < _OPEN:
                continue
            if model.linear and place == model.shape.stop - 1:  # that they lean, one way or the other, may be two modes
                result.append(self._axis(u, place, _SKEWS, tau, self.held))
                continue
            visited, fixed = [], (place, *self.held)
            for value in np.unique(np.clip(u[place] + sd * _BESIDE, -_FARTHEST, _FARTHEST)):
                at = u + covariance[:, place] * ((value - u[place]) / sd**2)
                with contextlib.suppress(linalg.LinAlgError):  # nothing is so far out
                    here = self.near(at, tau, fixed)
                    step, gain = self.step(here, fixed)
                    visited.append((value, self.evidence(here, fixed) + gain, at + step))
            result.append(LatentGrid.of(place, *(np.array(part) for part in zip(*visited, strict=True))))
        return result

    def _groups(self, u: Floats, near: Quadratic, tau: float) -> list[LatentGrid]:
        """Return the grids of how far the effects of each group spread: given it effects are normal."""
        covariance, spreads, result = self.covariance(near), self.model.group_spreads, []
        for place in range(spreads.start, spreads.stop):
            grid = self._beside(u[place], math.sqrt(covariance[place, place]), -_FARTHEST, _FARTHEST)
            result.append(self._axis(u, place, grid, tau, self.held))
        return result

    def _axis(self, u: Floats, place: int, grid: Floats, tau: float, held: Sequence[int] = ()) -> LatentGrid:
        """Return the weights of a grid, walked outwards from the mode as long as its values weigh anything.

        A step of Gauss–Newton leads from each value to the mode given the next; more do where that is far.
        """
        first, fixed = int(np.argmin(np.abs(grid - u[place]))), (place, *held)
        visited: dict[int, tuple[float, Floats]] = {}
        start = self.near(u, tau, fixed)
        for order in (range(first, len(grid)), range(first - 1, -1, -1)):
            at, near = u, start
            for k in order:
                if grid[k] != at[place]:
                    at = at + self.step(near, fixed, moved=grid[k] - at[place])[0]
                    near = self.near(at, tau, fixed)
                step, gain = self.step(near, fixed)
                if gain > _BESIDE_MODE:
                    at, near = self.mode(at, tau, fixed, start=near)
                    step, gain = self.step(near, fixed)
                visited[k] = self.evidence(near, fixed) + min(gain, _BESIDE_MODE), at + step
                if visited[k][0] < max(log for log, _ in visited.values()) + _NOTHING:
                    break
        kept = sorted(visited)
        logs, places = zip(*(visited[k] for k in kept), strict=True)
        apart = np.log(np.abs(np.gradient(grid[kept]))) if len(kept) > 1 else 0.0
        return LatentGrid.of(place, grid[kept], np.array(logs) + apart, np.array(places))

    def _mixture(
        self, u: Floats, near: Quadratic, tau: float, axes: Sequence[LatentGrid]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return weights, means and covariances of θ over the combinations of what lies on grids; and what part of
        the prior variance is left of each entry.
        """
        eta = self.model.eta
        if not axes:
            covariance, spread = self._spread_of(near, ())
            return np.ones(1), near.theta[None], covariance[None], spread
        fixed = [axis.place for axis in axes if axis.place is not None]
        if len(axes) == 1:
            weights = axes[0].weights
            picked: NDArray[np.intp] = np.arange(len(weights))[:, None]
        else:
            even = stats.qmc.Sobol(len(axes), seed=3).random(self.combinations)
            picked = np.stack([axis.at(column) for axis, column in zip(axes, even.T, strict=True)], axis=1)
            picked, counts = np.unique(picked, axis=0, return_counts=True)
            weights = counts / self.combinations
        means, covariances, etas, spreads = [], [], [], []
        kept = weights > 1e-5
        for row in picked[kept]:
            at, here_tau = u.copy(), tau
            for axis, k in zip(axes, row, strict=True):
                at += axis.places[k] - u
                here_tau = self.tau(axis.values[k]) if axis.place is None else here_tau
            for axis, k in zip(axes, row, strict=True):
                if axis.place is not None:
                    at[axis.place] = axis.values[k]
            here = self.model.gauss_newton(at, self.psi, here_tau)
            step, _ = self.step(here, self.law)
            means.append(here.theta + here.theta_slopes @ step)
            etas.append((at + step)[eta])
            covariance, spread = self._spread_of(here, fixed)
            covariances.append(covariance)
            spreads.append(spread)
        weights = weights[kept] / weights[kept].sum()
        off = np.array(etas) - weights @ np.array(etas)
        unlearned = weights @ (np.array(spreads) + off**2)
        return weights, np.array(means), np.array(covariances), unlearned

    def _spread_of(self, near: Quadratic, fixed: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the covariance of θ, some latents held; and the variance of η, in which θ is whitened."""
        free = np.setdiff1d(np.arange(self.model.size), fixed)
        root, _ = factored(near.metric[np.ix_(free, free)])
        eta = np.isin(free, np.arange(self.model.size)[self.model.eta])
        turned, alone = (
            linalg.solve_triangular(root, part, lower=True, check_finite=False)
            for part in (near.theta_slopes[:, free].T, np.eye(len(free))[:, eta])
        )
        return np.asarray(turned.T @ turned), np.asarray((alone**2).sum(axis=0))

    def _plain(self, u: Floats, axes: Sequence[LatentGrid]) -> Floats:
        """Return the covariance of θ that as many records without noise would leave, averaged over how far the effects
        of groups spread: as little is known of that without noise where groups are few.
        """
        at_mode, spreads = covariance_without_noise(self.model, u), self.model.group_spreads
        result = at_mode
        for axis in axes:
            if axis.place is not None and spreads.start <= axis.place < spreads.stop:
                each = [covariance_without_noise(self.model, place) for place in axis.places]
                result = result + np.tensordot(axis.weights, np.array(each), axes=1) - at_mode
        return np.asarray(result)

    def _full(self, u: Floats) -> float | None:
        """Return which part of counts is as large as their public bound, or would be larger."""
        model = self.model
        if not model.counts:
            return None
        law, pseudo = model.count_law(u), model.law.rows(u, model.normals, model.odds, slopes=False)
        family = PoissonFamily(model.formula.response, law.high, min(law.dispersion, _MOST_VARIED))
        return float(pseudo.weights @ family.full(pseudo.rows @ model.place(u)[0]))

    def _start(self) -> Floats:
        """Return latents near what the looks show."""
        model, look = self.model, self.model.looks[0].released
        for observed in model.looks:
            if observed.has_information and observed.has_score:
                look = observed.released
        glance = NoisyScoreInformation.of(look.look, None if model.secret else int(model.n), look.total, look.scales)
        second = glance.back @ glance.averaged(glance.known) @ glance.back.T
        u = np.zeros(model.size)
        full = (model.formula.encoding.wholes or [[]])[0]
        total = float(second[np.ix_(full, full)].sum())
        if total > 0:
            mean = second[full].sum(axis=0) / total
            u[: model.law.size] = model.law.start(mean, second / total - np.outer(mean, mean))
        if model.linear:
            sd = np.sqrt(max(glance.dispersion, 1e-12)) if glance.meat is not None else self.priors.dispersion_median
            at_sd = (np.log(sd) - np.log(self.priors.dispersion_median)) / self.priors.dispersion_log_sd
            u[model.shape.start] = float(np.clip(at_sd, -4, 4))
        pseudo = model.law.rows(u, model.normals, model.odds)
        _, root = model.coefficients.theta(u, pseudo)
        theta = (look.look.predictors @ look.look.matrix).ravel() - model.coefficients.mean
        u[model.eta] = np.clip(np.linalg.solve(root, theta.reshape(-1, model.d).T).T.ravel(), -3, 3)
        return u
