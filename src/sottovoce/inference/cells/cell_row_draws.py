"""Draws of the rows of an answer from noisy cells, by verb: shares, means, sums, counts, ratios and quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.cells.bin_quantiles import are_heaped, in_bins, whole_values
from sottovoce.inference.cells.cell_noise import cell_noises
from sottovoce.inference.cells.latent_cells import cell_draws, most_records
from sottovoce.inference.cells.moments import mean_draws
from sottovoce.inference.cells.pooled_counts import pooled_counts
from sottovoce.inference.cells.pooling import pooled_means, pooled_shares
from sottovoce.inference.cells.question_checks import OF_RECORDS, WITH_SEASON
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.ratio_posterior import NoisyRatio, ratio_range
from sottovoce.inference.cells.record_sums import sum_draws, variances
from sottovoce.inference.cells.row_draws import RowDraws
from sottovoce.inference.cells.time_series import seasonal, walked
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings.group_moments import STEPS

_DRAWS = 4000
_FEWEST, _MOST = 1000, 4_000_000
"""A large answer has fewer draws, as long as all of them together are so many."""
SEED = 20170913
"""Draws are a function of the noisy cells alone: one release, one answer, wherever it is read."""
_MISSING, _OUTSIDE = (0.1, 1.0), (0.5, 0.5)
"""Beta priors of the share of records in no cell: most often few, where only missing values are; with a condition, any
share."""
_RATE_POWER = -0.25
"""Rates are rather small beside the largest count: their prior density is as rate to this power, halfway between a flat
prior (0) and Jeffreys' (-½)."""
_FEWEST_OF, _NEARLY = 0.01, 0.99
"""An empty group has next to no records; so many of all draws of ratios lie within half of where they may be pooled."""
_VARY = 1.0
"""Persons' shares of yes vary much beside the largest spread, for many have a row or two, which say yes or no."""


@dataclass(frozen=True, eq=False)
class CellRowDraws(RowDraws):
    """Noisy cells of a question, and joint draws of its rows that know of the noise."""

    question: Question
    n: int | None
    noise: NoiseKind
    scale: float
    cells: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", np.asarray(self.cells, dtype=np.int64))
        if self.cells.shape != (self.reading.size,):
            raise InvalidData(f"this question has {self.reading.size} cells. Got {self.cells.size}")

    @cached_property
    def reading(self) -> Any:
        """How the cells are laid out."""
        return self.question.reading.for_size(self.n)

    @cached_property
    def noises(self) -> tuple[IntegerNoise, ...]:
        """The noise on the counts and on each sum."""
        return cell_noises(self.reading, self.noise, self.scale)

    @cached_property
    def draws(self) -> Floats:
        """Joint draws of every row of the answer, (draws, rows)."""
        return self._drawn[0]

    @cached_property
    def _drawn(self) -> tuple[Floats, Floats]:
        draws, plain, added = self._draw(self._draws_taken, seeded_rng(SEED))
        # By chance of the draws, or where groups share strength, rows may be known as well as without noise, or better.
        return draws, np.minimum(plain, draws.std(axis=0) * plain / np.hypot(plain, np.maximum(added, 1e-300)))

    @property
    def _draws_taken(self) -> int:
        return max(_FEWEST, min(_DRAWS, _MOST // int(self.reading.cells)))

    @property
    def plain_sd(self) -> Floats:
        """About how uncertain each row would be without noise."""
        return self._drawn[1]

    def _draw(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Return draws of the rows, about how uncertain each would be without noise, and what noise does at least."""
        return getattr(self, f"_{self.question.verb}")(draws, rng)  # type: ignore[no-any-return]

    @property
    def _crossed(self) -> tuple[int, ...]:
        """How many categories each of the columns has whose groups are crossed."""
        return tuple(self.reading.shape[: len(self.question.by)])

    def _counts_of(self, alpha: Floats | float, draws: int, rng: np.random.Generator) -> Floats:
        """Return draws of the true counts of all cells, those of no cell last."""
        if not self.reading.counted:
            return np.broadcast_to([float(self.n or 0), 0.0], (draws, 2))
        # Where n is a secret, so is the share of records in no cell: it has a cell's prior.
        alphas = np.append(np.broadcast_to(alpha, self.reading.cells), self.question.prior / 4 if self.n is None else 1)
        outside = None if self.n is None else _MISSING if self.question.where is None else _OUTSIDE
        noisy, noise, room = self.noisy_counts()
        return self._unrounded(cell_draws(noisy, noise, room, alphas, draws, rng, outside), rng)

    def noisy_counts(self) -> tuple[Floats, IntegerNoise, int | None]:
        """Return noisy counts, the noise on them and what they add up to; shares of persons as if they were counts."""
        fine = self.reading.fine
        noisy = self.reading.split(self.cells)[0].astype(np.float64) / fine
        room = None if self.n is None else self.reading.places(self.n) // fine
        return noisy, IntegerNoise(self.noise, self.noises[0].scale / fine), room

    def _unrounded(self, counts: Floats, rng: np.random.Generator) -> Floats:
        """Return draws of sums of shares from draws of whole numbers: anywhere within half a person of them."""
        return counts if self.reading.fine == 1 else np.maximum(counts + rng.random(counts.shape) - 0.5, 0.0)

    def _counts(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        if self.question.pool:
            noisy, noise, room = self.noisy_counts()
            most = most_records(noisy[:-1], noise) if room is None else room
            result = self._unrounded(pooled_counts(noisy[:-1], noise, most, self.reading.shape, draws, rng), rng)
        else:
            result = self._counts_of(self.question.prior / 2, draws, rng)[:, :-1]
        result = np.rint(result) if self.reading.fine == 1 else result  # moved to their sum, counts need not be whole
        return result, np.zeros(result.shape[1]), np.ones(result.shape[1])

    def _proportion(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        if self.question.shares_of_yes:  # records are shares, no longer yes or no
            return self._mean(draws, rng)
        values = self.question.values
        alpha = self.question.prior / values
        counts = self._counts_of(alpha, draws, rng)[:, :-1].reshape(draws, -1, values)
        noisy, noise, _ = self.noisy_counts()
        if self.question.is_series:
            return self._shares_over_time(noisy, noise.variance, counts, draws, rng)
        if self.question.pool and counts.shape[1] > 1:
            shown = noisy[:-1].reshape(counts.shape[1:]), noise.variance
            shares = pooled_shares(counts, alpha, rng, self._crossed, shown)
        else:
            parts = rng.standard_gamma(counts + alpha) + 1e-300
            shares = parts / parts.sum(axis=2, keepdims=True)
        sizes = np.broadcast_to(counts.sum(axis=2, keepdims=True), counts.shape).mean(axis=0)
        means = shares.mean(axis=0)
        plain = np.sqrt(means * (1 - means) / (sizes + self.question.prior + 1))
        added = np.sqrt(noise.variance) / (sizes + self.question.prior)
        if not self.question.each_value:  # a flag: the share of yes
            return shares[:, :, 1], plain[:, 1], added[:, 1]
        return shares.reshape(draws, -1), plain.ravel(), added.ravel()

    def _shares_over_time(
        self, noisy: Floats, variance: float, counts: Floats, draws: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats, Floats]:
        """Return draws of the shares of yes: noisy ones, which err as often up as down, each near that before it."""
        sizes = np.maximum(counts.sum(axis=2).mean(axis=0), 0.5)
        pairs = noisy[:-1].reshape(counts.shape[1:])
        shares = (pairs[:, 1] + (sizes - pairs.sum(axis=1)) / 2) / sizes
        common = (float(np.sum(shares * sizes)) + 1) / (float(sizes.sum()) + 2)
        varied = np.clip(common, 1e-3, 1 - 1e-3) * (1 - np.clip(common, 1e-3, 1 - 1e-3))
        plain, added = np.sqrt(varied / sizes), np.sqrt(variance / 2) / sizes
        return self._over_time(shares, plain**2 + added**2, 0.0, 1.0, draws, rng), plain, added

    def _over_time(
        self, seen: Floats, variances: Floats, low: float, high: float, draws: int, rng: np.random.Generator
    ) -> Floats:
        """Return draws of every group, of which those of the first column follow one another."""
        times, seasons = self._crossed[0], self.question.seasons
        series = seen.reshape(times, -1), variances.reshape(times, -1)
        if self.question.pool == WITH_SEASON and seasons is not None:
            result = seasonal(*series, seasons, low, high, draws, rng)
        else:
            result = walked(*series, low, high, draws, rng)
        return result.reshape(draws, -1)

    def _mean(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        means, _, plain, added = self._means(draws, rng)
        return means, plain, added

    def _means(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        """Return draws of the mean of the first measure, of N, and how uncertain means are without noise and by it."""
        reading, scale = self.reading, self.reading.scales[0]
        sizes = self._counts_of(self.question.prior / 2, draws, rng)[:, : reading.cells]
        parts = self.reading.split(self.cells)[reading.counted :]
        noises = self.noises[reading.counted :]
        variances = (noises[0].variance / STEPS**2, noises[-1].variance / STEPS**2)
        prior = (_RATE_POWER if self.question.rare else 0.0, _VARY if self.question.shares_of_yes else 0.0)
        totals, squares = parts[0] / STEPS, parts[-1] / STEPS
        result = [
            mean_draws(sizes[:, i], totals[i], squares[i], variances, draws, rng, self.noise, *prior)
            for i in range(reading.cells)
        ]
        means, spreads, numbers = (np.stack(part, axis=1) for part in zip(*result, strict=True))
        most = np.maximum(numbers.mean(axis=0), 1.0)
        plain, added = spreads.mean(axis=0) / np.sqrt(most), np.sqrt(variances[0]) / most
        if self.question.pool and reading.cells > 1:
            count = np.maximum(numbers.mean(axis=0), 0.5)
            common = np.average((spreads**2).mean(axis=0), weights=count)
            shown = totals[: reading.cells] / count, common / count + variances[0] / count**2
            if self.question.is_series:
                means = self._over_time(*shown, -1.0, 1.0, draws, rng)
            else:
                means = pooled_means(means, rng, self._crossed, shown)
        return scale.middle + scale.half * means, numbers, scale.half * plain, scale.half * added

    def _sums(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Return draws of N, of Σt and of Σt² of every group: of the records themselves."""
        sizes = self._counts_of(self.question.prior / 2, draws, rng)[:, : self.reading.cells]
        return sum_draws(sizes, *self._noisy_sums, self.noise, rng)

    @property
    def _noisy_sums(self) -> tuple[tuple[Floats, Floats], tuple[float, float]]:
        """The noisy Σt and Σt² of every group, and the variances of the noise on each."""
        counted = self.reading.counted
        parts, noises = self.reading.split(self.cells)[counted:], self.noises[counted:]
        variances = noises[0].variance / STEPS**2, noises[-1].variance / STEPS**2
        return (parts[0] / STEPS, parts[-1] / STEPS), variances

    def _total(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        sizes, totals, _ = self._sums(draws, rng)
        scale = self.reading.scales[0]
        return scale.middle * sizes + scale.half * totals, np.zeros(sizes.shape[1]), np.ones(sizes.shape[1])

    def _sd(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        sizes, totals, squares = self._sums(draws, rng)
        spreads = self.reading.scales[0].half * np.sqrt(variances(sizes, totals, squares))
        return spreads, np.zeros(sizes.shape[1]), np.ones(sizes.shape[1])

    @property
    def _noisy_sizes(self) -> tuple[Floats, float]:
        """The noisy size of every group, and its variance: less where what all of them add up to is known."""
        if not self.reading.counted:
            return np.array([float(self.n or 0)]), 0.0
        noisy, noise, room = self.noisy_counts()
        if room is None or self.noise != "gaussian":
            return noisy[:-1], noise.variance
        return noisy[:-1] + (room - noisy.sum()) / noisy.size, noise.variance * (1 - 1 / noisy.size)

    def _rate(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        if self.reading.crossed:
            return self._ratio(draws, rng)
        means, numbers, plain, added = self._means(draws, rng)
        if self.question.exposure is None:
            return means, plain, added
        reading, scale = self.reading, self.reading.scales[1]
        numbers = np.maximum(numbers, 0.01)  # of no record a rate is unknown, not zero
        noisy = self.reading.split(self.cells)[reading.counted + 1] / STEPS
        deviation = np.sqrt(self.noises[reading.counted + 1].variance) / STEPS
        # Σt of the exposure: its noisy sum less noise, within what N records can have.
        low, high = special.ndtr((-numbers - noisy) / deviation), special.ndtr((numbers - noisy) / deviation)
        ranks = np.clip(low + (high - low) * rng.random(numbers.shape), 1e-16, 1 - 1e-16)
        exposed = np.clip(noisy + deviation * special.ndtri(ranks), -numbers, numbers)
        amount = np.maximum(numbers * scale.middle + scale.half * exposed, 1e-9 * scale.half)
        per = numbers.mean(axis=0) / amount.mean(axis=0)
        return numbers * means / amount, plain * per, added * per

    def _ratio(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        sizes = np.maximum(self._counts_of(self.question.prior / 2, draws, rng)[:, : self.reading.cells], _FEWEST_OF)
        result, plain, added = self._noisy_ratio.draws(sizes, rng)
        if self.question.pool and result.shape[1] > 1:
            # What is pooled lies between -1 and 1: nearly all draws do, as parts of what they are at most.
            unit = 2 * float(np.quantile(np.abs(result), _NEARLY))
            shown = np.median(result, axis=0) / unit, (plain**2 + added**2) / unit**2
            result = unit * pooled_means(np.clip(result / unit, -1, 1), rng, self._crossed, shown)
        low, high = self.public_range
        return np.clip(result, low, high), plain, added

    @cached_property
    def _noisy_ratio(self) -> NoisyRatio:
        parts, noises = self.reading.split(self.cells), self.noises
        first = int(self.reading.counted)
        sums, squares = (np.stack(part) / STEPS for part in (parts[first : first + 2], parts[first + 2 :]))
        sizes = self._counts_of(self.question.prior / 2, self._draws_taken, seeded_rng(SEED))[:, : self.reading.cells]
        return NoisyRatio(
            sizes.mean(axis=0),
            sizes.var(axis=0),
            sums,
            noises[first].variance / STEPS**2,
            squares,
            noises[-1].variance / STEPS**2,
            self.reading.scales,
            self.noise,
        )

    def _quantiles(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        (result, _, _), density, sizes = self._quantiles_in_bins(draws, rng)
        edges, at = np.asarray(self.reading.edges), np.asarray(self.question.at)
        most, density = np.maximum(sizes.mean(axis=0), 1.0)[:, None], np.maximum(density, 1e-12)
        plain = np.minimum(np.sqrt(at * (1 - at) / most) / density, edges[-1] - edges[0])
        added = np.sqrt(self.noises[0].variance) / most / density
        return result, plain.ravel(), added.ravel()

    def _quantiles_in_bins(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Return draws of quantiles, with the least and the most that each can be, their density and groups' sizes.

        A bin that stands out may hold all of its records anywhere in it, and so may every bin of a column of round
        numbers: a quantile there may be all of the bin.
        """
        edges = np.asarray(self.reading.edges)
        bins, at, full = edges.size - 1, np.asarray(self.question.at), self.question.whole
        counts = self._binned(draws, rng).reshape(draws, -1, bins)
        sizes = counts.sum(axis=2)
        counts += self.question.prior / 2 / bins
        parts = rng.standard_gamma(counts)
        parts += 1e-300
        heights = np.zeros((*parts.shape[:2], bins + 1))
        np.cumsum(parts, axis=2, out=heights[:, :, 1:])
        heights /= heights[:, :, -1:].copy()
        result = np.empty((3, draws, heights.shape[1], at.size))
        density = np.empty((heights.shape[1], at.size))
        noisy = self.reading.split(self.cells)[0][:-1].astype(np.float64).reshape(-1, bins)
        heaped = are_heaped(noisy, float(self.noises[0].variance))
        for place, p in enumerate(at):
            index, inside, step, alone = in_bins(heights, p, rng)
            alone = alone | heaped
            width = np.diff(edges)[index]
            heap = full or self.question.partly_whole  # of persons' averages nobody knows how many are whole
            kept = rng.random(inside.shape) < 0.5 if heap and not full else None
            for way, where in enumerate((inside, np.where(alone, 0.0, inside), np.where(alone, 1.0, inside))):
                value = edges[index] + where * width
                if heap:
                    round_ = whole_values(edges, index, where)
                    value = round_ if kept is None else np.where(kept, round_, value)
                result[way, :, :, place] = value
            density[:, place] = np.median(step / width, axis=0)
        return result.reshape(3, draws, -1), density, sizes

    def _binned(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return draws of the counts of bins, none below zero, whose sums from either end are biased to neither side.

        Many small bins, each cut at zero on its own, would together add a crowd to every tail. So noise is taken off
        freely, the bins are moved to their sum where it is known, and it is the cumulative curve that is made to rise:
        halfway between the least rising curve above it and the greatest below it.
        """
        noise, bins = self.noises[0], len(self.reading.edges) - 1
        noisy = self.reading.split(self.cells)[0].astype(np.float64)
        deviation = np.sqrt(noise.variance)
        # In place from here on: every array of this size that is made anew costs as much as what is done with it.
        gaussian, shape = noise.kind == "gaussian", (draws, noisy.size)
        free = rng.normal(size=shape) if gaussian else rng.laplace(size=shape)
        free /= 1.0 if gaussian else np.sqrt(2)
        free *= -deviation
        free += noisy
        if self.n is not None:
            free += (self.n - free.sum(axis=1, keepdims=True)) / noisy.size
        curves = np.cumsum(free[:, :-1].reshape(draws, -1, bins), axis=2)
        total = np.clip(curves[:, :, -1:], 0.0, np.inf if self.n is None else self.n)
        rising = np.maximum.accumulate(curves, axis=2)
        rising += np.minimum.accumulate(curves[:, :, ::-1], axis=2)[:, :, ::-1]
        rising /= 2
        np.clip(rising, 0.0, total, out=rising)
        rising[:, :, -1:] = total
        return np.diff(rising, axis=2, prepend=0.0)

    @property
    def public_range(self) -> tuple[float, float]:
        """The public ends of what every row may be."""
        if self.question.verb == "proportion":
            return 0.0, 1.0
        if self.question.verb == "quantiles":
            low, high = float(self.reading.edges[0]), float(self.reading.edges[-1])
            return (math.ceil(low), math.floor(high)) if self.question.whole else (low, high)
        if self.question.verb == "counts":
            return 0.0, np.inf if self.n is None else float(self.reading.places(self.n) // self.reading.fine)
        scale = self.reading.scales[0]
        low, high = scale.middle - scale.half, scale.middle + scale.half
        if self.question.verb in OF_RECORDS:
            return (0.0, scale.half) if self.question.verb == "sd" else self._totals_between(low, high)
        return (low, high) if self.question.exposure is None else ratio_range(self.reading.scales)

    def _totals_between(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the most that values within bounds can add up to."""
        most = np.inf if self.n is None else float(self.n)
        if not self.reading.counted:
            return low * most, high * most
        return (low * most if low < 0 else 0.0), (high * most if high > 0 else 0.0)
