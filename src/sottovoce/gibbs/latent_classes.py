"""The true counts behind noisy tables that share a class column, where the number of records is known.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sottovoce.gibbs.latent_counts import LatentCounts
from sottovoce.gibbs.log_concave import draw_log_concave
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["ClassDraws", "LatentClasses", "draw_dirichlet"]

Integers = NDArray[np.int64]

_CHAINS, _BURN_IN = 32, 60


@dataclass(frozen=True, eq=False)
class ClassDraws:
    """Draws of a model with a class column: draws first.

    Attributes
    ----------
    classes
        Pr[class], (draws, classes).
    features
        Pr[category | class] of each table, (draws, classes, categories).
    sizes
        How many records each class has, (draws, classes).
    """

    classes: Floats
    features: tuple[Floats, ...]
    sizes: Floats


@dataclass(frozen=True, eq=False)
class LatentClasses(LatentCounts):
    r"""Noisy tables of (class, category) from n records, in one chain or many; and the draw of what lies behind them.

    The n records fall into classes with probabilities π, and the records of a class into the categories of each table
    with probabilities θ_f; the true tables therefore agree on the size of every class. One `sweep` draws, from
    their conditional laws,

    - π and every θ_f, which are Dirichlet;
    - for random pairs of categories how the pair's records split;
    - for random pairs of classes how many records are moved from one to the other, out of and into one
      random category of every table.

    The last two are log-concave laws on the integers, drawn exactly.

    Parameters
    ----------
    noisy
        One array (chains · classes, categories) a table, the classes of the first chain first.
    noises
        The noise on each table.
    classes
        How many classes there are.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> tables = (np.array([[31, -2], [4, 9]]),)
    >>> latent = LatentClasses.chains(tables, (IntegerNoise("laplace", 2.0),), n=45, count=8)
    >>> draws = latent.posterior(1.0, (1.0,), draws=100, rng=seeded_rng(1))
    >>> draws.classes.shape, draws.features[0].shape
    ((100, 2), (100, 2, 2))
    """

    classes: int = 1
    n: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 1 or len(self.noisy[0]) % self.classes:
            raise InvalidValue(f"the rows of a table must be a multiple of the {self.classes} classes")

    @classmethod
    def chains(cls, noisy: Sequence[ArrayLike], noises: Sequence[IntegerNoise], n: int, count: int = _CHAINS) -> Self:
        """Return `count` chains on the same noisy tables, one array (classes, categories) a table."""
        tables = [np.asarray(table, dtype=np.int64) for table in noisy]
        return cls(tuple(np.tile(table, (count, 1)) for table in tables), tuple(noises), len(tables[0]), n)

    def start(self) -> tuple[Integers, ...]:
        """Return counts to begin with: whole, none below zero, n in every table, classes of the same size in each."""
        guess = np.mean([np.maximum(table, 0).sum(axis=1) for table in self.noisy], axis=0).reshape(-1, self.classes)
        sizes = _whole(guess + 0.5, np.full(len(guess), self.n)).ravel()
        return tuple(_whole(np.maximum(table, 0) + 0.5, sizes) for table in self.noisy)

    def parameters(
        self, counts: Sequence[Integers], class_prior: float, priors: Sequence[float], rng: np.random.Generator
    ) -> tuple[Floats, tuple[Floats, ...]]:
        """Draw π (chains, classes) and every θ (chains · classes, categories) given the true counts."""
        sizes = counts[0].sum(axis=1).reshape(-1, self.classes)
        pi = draw_dirichlet(sizes + class_prior, rng)
        return pi, tuple(draw_dirichlet(table + a, rng) for table, a in zip(counts, priors, strict=True))

    def sweep(
        self, counts: Sequence[Integers], pi: Floats, thetas: Sequence[Floats], rng: np.random.Generator
    ) -> tuple[Integers, ...]:
        """Draw new true counts given the probabilities."""
        new = [table.copy() for table in counts]
        logs = [np.log(theta) for theta in thetas]
        for f, log_theta in enumerate(logs):
            self._split_pairs(f, new[f], log_theta, rng)
        if self.classes > 1:
            self._move_classes(new, np.log(pi), logs, rng)
        return tuple(new)

    def posterior(
        self, class_prior: float, priors: Sequence[float], draws: int, rng: np.random.Generator, burn_in: int = _BURN_IN
    ) -> ClassDraws:
        """Return draws of the probabilities from all chains after `burn_in` sweeps."""
        counts = self.start()
        chains = len(self.noisy[0]) // self.classes
        kept: list[tuple[Floats, tuple[Floats, ...]]] = []
        sizes: list[Integers] = []
        for sweep in range(burn_in + -(-draws // chains)):
            pi, thetas = self.parameters(counts, class_prior, priors, rng)
            if sweep >= burn_in:
                kept.append((pi, thetas))
                sizes.append(counts[0].sum(axis=1).reshape(-1, self.classes))
            counts = self.sweep(counts, pi, thetas, rng)
        classes = np.concatenate([pi for pi, _ in kept])[:draws]
        shapes = [(-1, self.classes, table.shape[1]) for table in self.noisy]
        features = [
            np.concatenate([thetas[f].reshape(shape) for _, thetas in kept])[:draws] for f, shape in enumerate(shapes)
        ]
        return ClassDraws(classes, tuple(features), np.concatenate(sizes)[:draws].astype(np.float64))

    def _move_classes(
        self, counts: list[Integers], log_pi: Floats, log_theta: Sequence[Floats], rng: np.random.Generator
    ) -> None:
        """Draw how many records of a random pair of classes are in the first, in place."""
        chains, pairs = len(log_pi), self.classes // 2
        order = rng.permuted(np.broadcast_to(np.arange(self.classes), (chains, self.classes)), axis=1)
        chain = np.repeat(np.arange(chains), pairs)
        ends = [order[:, :pairs].ravel(), order[:, pairs : 2 * pairs].ravel()]
        tilt = log_pi[chain, ends[0]] - log_pi[chain, ends[1]]
        rows = [chain * self.classes + end for end in ends]
        picked = [[rng.integers(0, t.shape[1], chain.size) for t in counts] for _ in rows]
        sizes = [counts[0][row].sum(axis=1) for row in rows]
        both = sizes[0] + sizes[1]
        rests = [
            [size - t[row, k] for t, k in zip(counts, ks, strict=True)]
            for size, row, ks in zip(sizes, rows, picked, strict=True)
        ]
        for f, theta in enumerate(log_theta):
            tilt = tilt + theta[rows[0], picked[0][f]] - theta[rows[1], picked[1][f]]
        seen = [[t[row, k] for t, k in zip(self.noisy, ks, strict=True)] for row, ks in zip(rows, picked, strict=True)]

        def log_weight(m: Integers, i: Integers) -> Floats:
            value = m * tilt[i]
            for side, size in enumerate((m, both[i] - m)):
                value = value + (len(counts) - 1) * special.gammaln(size + 1.0)
                for rest, noisy, noise in zip(rests[side], seen[side], self.noises, strict=True):
                    x = size - rest[i]
                    value = value + noise.log_weight(noisy[i] - x) - special.gammaln(x + 1.0)
            return np.asarray(value)

        low, high = np.max(rests[0], axis=0), both - np.max(rests[1], axis=0)
        drawn = draw_log_concave(log_weight, low, high, sizes[0], rng)
        for side, size in enumerate((drawn, both - drawn)):
            for table, k, rest in zip(counts, picked[side], rests[side], strict=True):
                table[rows[side], k] = size - rest


def draw_dirichlet(alpha: ArrayLike, rng: np.random.Generator) -> Floats:
    """Return one Dirichlet draw for each row; no probability is 0, whose logarithm would be infinite.

    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> draw_dirichlet([[1.0, 2.0], [3.0, 4.0]], seeded_rng(1)).sum(axis=1)
    array([1., 1.])
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    # Γ(a) = Γ(a + 1)·U^(1/a), kept as logarithms: plain draws of a small shape underflow.
    logs = np.log(rng.standard_gamma(alpha + 1)) - rng.standard_exponential(alpha.shape) / alpha
    theta = np.exp(logs - logs.max(axis=-1, keepdims=True))
    theta = np.maximum(theta / theta.sum(axis=-1, keepdims=True), 1e-300)
    return np.asarray(theta / theta.sum(axis=-1, keepdims=True))


def _whole(weights: Floats, totals: Integers) -> Integers:
    """Return whole numbers in the proportion of the weights that sum to the total of their row."""
    shares = weights / weights.sum(axis=1, keepdims=True) * totals[:, None]
    counts = np.floor(shares).astype(np.int64)
    spare = totals - counts.sum(axis=1)
    rank = np.argsort(np.argsort(counts - shares, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(counts + (rank < spare[:, None]))
