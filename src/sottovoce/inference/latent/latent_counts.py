"""What lies behind noisy counts of many cells: their sizes and probabilities, with the true counts summed out.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.latent.array_backend import NUMPY, compiled, has_jax
from sottovoce.inference.latent.cell_likelihood import CellLikelihood
from sottovoce.inference.latent.latent_cell_moves import by_state, moved_probabilities, moved_sizes
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers

_SHAPES = tuple(2.0 ** (k / 2) for k in range(-4, 21))
_ROUNDS = 5
"""Rounds of moves of probabilities in a sweep."""
_RATES = 0.1, 0.001
"""Nearly any size is as likely as any other on the scale of logarithms: regions of one record and of a million."""
_MANY = 1 << 14
"""Noisy counts, of all runs, from which compiled moves are worth their compiling."""


@dataclass(frozen=True, eq=False)
class CellSizes:
    """How large the cells are, several runs side by side.

    Attributes
    ----------
    logs
        The logarithm of each cell's mean number of records, (run, cell).
    shape, rate
        The gamma law that sizes come from: a shape for all cells, (run,), and a rate for each group, (run, group).
    """

    logs: Floats
    shape: Floats
    rate: Floats


@dataclass(frozen=True, eq=False)
class LatentCounts:
    r"""Noisy tables of (cells, categories), and moves of what lies behind them.

    A cell of size λ has Poisson(λ θ_k) records in category k of a table, independently, θ being the probabilities of
    the cell's state; the noise has the law it was drawn from. So each noisy count has a likelihood of its own,
    tabulated once (`NoisedPoisson`), and **true counts are never drawn**: a sampler that alternates between them and
    the rest hardly moves where the noise is larger than the counts' own spread. The sizes of cells are gamma with an
    unknown shape, and an unknown rate in every group of cells. (A flat prior for each by itself would pull every θ
    towards the uniform one, and so would one rate for all where some groups are far smaller than others.)

    That a record is counted once in every table is left unused: given a cell's size, one table's total says
    nothing about another's. Counts without noise give the same posterior of θ; with noise it is a little wider.

    Parameters
    ----------
    noisy
        One array (cells, categories) a table, or (runs, cells, categories); the cells of all tables are the same.
    noises
        The noise on each table.
    shapes
        The shapes that the sizes' gamma law may have, equally likely.
    prior
        The shape and rate of the gamma prior on that law's rates.
    groups
        The group of each cell, 0, 1, ...; one for all where None.
    often
        Whether there will be so many moves that compiling them, where there are many counts, is worth its time.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> latent = LatentCounts((np.array([[31, -2], [4, 9]]),), (IntegerNoise("laplace", 2.0),))
    >>> sizes, rng = latent.start(runs=1), seeded_rng(1)
    >>> theta, states = np.log([[[0.9, 0.1], [0.5, 0.5]]]), np.array([[0, 1]])
    >>> for _ in range(10):
    ...     sizes = latent.move_sizes(sizes, theta, states, rng)
    >>> sizes.logs.shape
    (1, 2)
    """

    noisy: tuple[Integers, ...]
    noises: tuple[IntegerNoise, ...]
    shapes: tuple[float, ...] = _SHAPES
    prior: tuple[float, float] = _RATES
    groups: Integers | None = None
    often: bool = True

    def __post_init__(self) -> None:
        noisy = tuple(np.asarray(table, dtype=np.int64) for table in self.noisy)
        object.__setattr__(self, "noisy", noisy)
        object.__setattr__(self, "noises", tuple(self.noises))
        if not noisy or len(self.noises) != len(noisy):
            raise InvalidValue("latent counts take one array (cells, categories) and one noise a table")
        if any(t.ndim not in (2, 3) or t.shape[:-1] != noisy[0].shape[:-1] for t in noisy):
            raise InvalidValue("latent counts take arrays (cells, categories), the cells of all tables alike")
        if not self.shapes or min(self.shapes) <= 0 or min(self.prior) <= 0:
            raise InvalidValue("shapes and prior must be > 0")

    @cached_property
    def likelihood(self) -> CellLikelihood:
        """The likelihoods, all tables' categories side by side."""
        return CellLikelihood.of(self.noisy, self.noises)

    @cached_property
    def variances(self) -> Floats:
        """The variance of the noise on each column, all tables side by side."""
        return np.repeat([noise.variance for noise in self.noises], [table.shape[-1] for table in self.noisy])

    def start(self, runs: int) -> CellSizes:
        """Return sizes to begin with: what the noisy counts add up to, small ones lifted."""
        totals = np.mean([table.sum(axis=-1) for table in self.noisy], axis=0)
        usual = np.maximum(totals @ self._member.T / np.maximum(self._member.sum(axis=1), 1), 1.0)
        logs = np.log(np.maximum(totals, usual @ self._member / 4))
        shape = np.full(runs, self.shapes[len(self.shapes) // 4])
        rate = shape[:, None] / usual
        return CellSizes(np.broadcast_to(logs, (runs, totals.shape[-1])).copy(), shape, rate)

    def by_state(self, logs: Floats, log_theta: Floats) -> Floats:
        """Return the log-likelihood of every cell in every state, (run, cell, state); θ is (run, state, column)."""
        return np.asarray(self.run(by_state, logs, log_theta))

    def run(self, program: Callable[..., Any], first: Floats, *arrays: object) -> Any:
        """Run a program of the likelihood and of arrays, the first of which has one part a run of the sampler."""
        columns, cells = self.likelihood.first.shape[-2:]
        if self.often and has_jax() and len(first) * columns * cells >= _MANY:
            return compiled(program)(self.likelihood.placed, first, *arrays)
        return program(NUMPY, self.likelihood, first, *arrays)

    def move_probabilities(
        self,
        log_theta: Floats,
        states: Integers,
        sizes: CellSizes,
        alpha: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Return θ after some rounds of moves between random pairs of categories, each kept by Metropolis' rule.

        A move keeps the sum of its pair and steps in the share of the first or in that share's log-odds: the first
        finds its way among large probabilities, the second among tiny ones.

        Parameters
        ----------
        log_theta
            (run, state, column), all tables side by side.
        states
            The state of each cell, (run, cell).
        sizes
            The cells' sizes.
        alpha
            The Dirichlet prior's parameter of each column.
        """
        runs, count = log_theta.shape[:2]
        tries = self.probability_tries(alpha, runs, count, rng)
        return np.asarray(self.run(moved_probabilities, log_theta, states, sizes.logs, *tries))

    def probability_tries(self, alpha: Floats, runs: int, states: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw what `moved_probabilities` takes beside the states and what moves."""
        pairs = self._pairs(_ROUNDS, rng)
        shape = (_ROUNDS, runs, states, pairs[0].shape[1])
        more = (rng.standard_normal, rng.random, rng.standard_exponential)
        draws = rng.uniform(-0.5, 2.0, shape), *(draw(shape) for draw in more)
        return alpha, self.variances, self._fresh(alpha, (runs, states), rng), (*pairs, *draws)

    def _fresh(self, alpha: Floats, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
        """Draw θ from the prior, for states that no cell is in."""
        gammas = np.maximum(rng.standard_gamma(alpha, (*shape, len(alpha))), 1e-290)
        widths = [table.shape[-1] for table in self.noisy]
        totals = np.add.reduceat(gammas, np.cumsum([0, *widths[:-1]]), axis=-1)
        return np.asarray(np.log(gammas / np.repeat(totals, widths, axis=-1)))

    def _pairs(self, rounds: int, rng: np.random.Generator) -> tuple[Integers, Integers, Integers]:
        """Draw disjoint pairs of columns, each within one table, for every round: their first and second columns.

        And where each column finds itself among the first, the second, and all columns as they were.
        """
        table, left, right = self._halves
        order = np.argsort(table + rng.random((rounds, table.size)), axis=1)  # the columns of every table, shuffled
        first, second, count = order[:, left], order[:, right], left.size
        place = np.tile(2 * count + np.arange(table.size), (rounds, 1))
        each = np.arange(rounds)[:, None]
        place[each, first], place[each, second] = np.arange(count), count + np.arange(count)
        return first, second, place

    @cached_property
    def _halves(self) -> tuple[Integers, Integers, Integers]:
        """The table of each column; the places of the first half of each table's columns, and of as many others."""
        widths = [table.shape[-1] for table in self.noisy]
        firsts = np.cumsum([0, *widths])
        left = np.concatenate([first + np.arange(width // 2) for first, width in zip(firsts, widths, strict=False)])
        right = np.concatenate(
            [first + width // 2 + np.arange(width // 2) for first, width in zip(firsts, widths, strict=False)]
        )
        return np.repeat(np.arange(len(widths)), widths), left, right

    def move_sizes(
        self,
        sizes: CellSizes,
        log_theta: Floats,
        states: Integers,
        rng: np.random.Generator,
    ) -> CellSizes:
        """Return new sizes: each cell's by itself, then all by one factor with the rate of their law, then the law.

        Parameters
        ----------
        sizes
            The cells' sizes.
        log_theta
            (run, state, column), all tables side by side.
        states
            The state of each cell, (run, cell).
        """
        logs = self.run(moved_sizes, sizes.logs, log_theta, states, None, *self.size_tries(sizes, rng))
        return self.sizes_of(np.asarray(logs), rng)

    def size_tries(self, sizes: CellSizes, rng: np.random.Generator) -> tuple[Floats, ...]:
        """Draw what `moved_sizes` takes beside the states and what moves."""
        logs, runs = sizes.logs, len(sizes.logs)
        # Tries on many scales about what the law and the noisy counts of its usual cell leave open.
        news = self._news(sizes.shape[:, None] / sizes.rate)
        scale = np.exp2(rng.uniform(-1.5, 2.0, logs.shape)) / np.sqrt(news @ self._member + sizes.shape[:, None])
        tried = logs + scale * rng.standard_normal(logs.shape)
        chance = rng.standard_exponential(logs.shape)
        factor = 2.0 ** rng.uniform(-2.0, 1.5, runs) / np.sqrt(self._all_news + 1) * rng.standard_normal(runs)
        # What the law of sizes, and then its rate, say of the two moves, and how unlikely ones are let pass.
        law = sizes.shape[:, None] * (tried - logs) - sizes.rate @ self._member * (np.exp(tried) - np.exp(logs))
        rates = len(self._member) * self.prior[0], self.prior[1] * sizes.rate.sum(axis=1)
        rate = -rates[0] * factor - rates[1] * np.expm1(-factor)
        return tried, law + chance, factor, rate + rng.standard_exponential(runs)

    def sizes_of(self, logs: Floats, rng: np.random.Generator) -> CellSizes:
        """Return sizes with a law drawn that they may come from."""
        return CellSizes(logs, *self._draw_law(logs, rng))

    def _news(self, sizes: Floats) -> Floats:
        """Return about how much the noisy counts of cells of these sizes say about the logarithm of a size."""
        widths = np.repeat([table.shape[-1] for table in self.noisy], [table.shape[-1] for table in self.noisy])
        mean = sizes[..., None] / widths
        return np.asarray((mean**2 / (mean + self.variances)).sum(axis=-1))

    @cached_property
    def _all_news(self) -> float:
        """About how much all noisy counts say about the logarithm of a factor of all sizes."""
        totals = np.mean([table.sum(axis=-1) for table in self.noisy], axis=0)
        return float(self._news(np.maximum(totals, 1.0)).sum(axis=-1).mean())

    @cached_property
    def _member(self) -> Floats:
        """1 where a cell is in a group, (group, cell)."""
        cells = self.noisy[0].shape[-2]
        groups = np.zeros(cells, dtype=np.int64) if self.groups is None else self.groups
        return np.asarray(np.arange(groups.max(initial=0) + 1)[:, None] == groups, dtype=np.float64)

    def _draw_law(self, logs: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the shape (the rates summed out) and the rates of the sizes' law."""
        shapes, counts, constant = self._shapes
        total = self.prior[1] + np.exp(logs) @ self._member.T
        weight = shapes * logs.sum(axis=1, keepdims=True) - np.log(total) @ counts + constant
        below = np.exp(weight - weight.max(axis=1, keepdims=True)).cumsum(axis=1)
        pick = (below[:, :-1] < rng.random((len(logs), 1)) * below[:, -1:]).sum(axis=1)
        return shapes[pick], rng.standard_gamma(counts.T[pick]) / total

    @cached_property
    def _shapes(self) -> tuple[Floats, Floats, Floats]:
        """The shapes of the sizes' law, those that each rate then has, and what does not depend on the sizes."""
        shapes, cells = np.array(self.shapes), self._member.sum(axis=1)
        counts = self.prior[0] + cells[:, None] * shapes
        return shapes, counts, special.gammaln(counts).sum(axis=0) - cells.sum() * special.gammaln(shapes)
