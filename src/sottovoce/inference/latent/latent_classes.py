"""The true counts behind noisy tables that share a class column, where the number of records is known.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.gibbs_sampler import draw_dirichlet
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.progress import Bar, progress_bar
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers

_CHAINS, _THIN = 64, 5
_LEAST, _MOST = 200, 3200
"""Fewest and most sweeps before the first draw is kept."""
_CELLS = 2048
_AGREE = 1.1
"""R-hat that ends the burn-in."""
_NUMBERS = 1 << 23
"""How many numbers are kept to see whether the chains agree."""
_LISTED = 1 << 20
"""Records up to which the logarithms of their urns are kept in a list."""
_SPLITS, _MOVES = 2, 2
"""Rounds of moves between categories, and between classes, in one sweep."""


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
    convergence
        Whether the chains agree; None where no chain was needed.
    """

    classes: Floats
    features: tuple[Floats, ...]
    sizes: Floats
    convergence: Convergence | None


@dataclass(frozen=True, eq=False)
class LatentClasses:
    r"""Noisy tables of (class, category) from n records, in one chain or many; and the draw of what lies behind them.

    The n records fall into classes with probabilities π, and the records of a class into the categories of each table
    with probabilities θ_f, all with Dirichlet priors; the true tables therefore agree on the size of every class. π
    and θ are summed out, so that a chain of true counts moves as far as the noise leaves it free to. One `sweep`

    - moves records between random pairs of categories of a class,
    - moves records between random pairs of classes, out of and into one random category of every table, and
    - takes random records out of a class and puts as many into another, or back, as the prior would go on: all
      categories move at once, and only the noise (and the classes' prior) has a say,

    each kept by Metropolis' rule. `parameters` then draws π and θ from their conditional laws.

    Parameters
    ----------
    noisy
        One array (chains · classes, categories) a table, the classes of the first chain first.
    noises
        The noise on each table.
    classes, n
        How many classes and how many records there are.
    class_prior, priors
        What each entry of the classes' prior, and of each table's, is worth, in records.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> tables = (np.array([[31, -2], [4, 9]]),)
    >>> latent = LatentClasses.chains(tables, (IntegerNoise("laplace", 2.0),), n=45, class_prior=1.0, priors=(1.0,))
    >>> draws = latent.posterior(draws=100, rng=seeded_rng(1))
    >>> draws.classes.shape, draws.features[0].shape
    ((100, 2), (100, 2, 2))
    """

    noisy: tuple[Integers, ...]
    noises: tuple[IntegerNoise, ...]
    classes: int
    n: int
    class_prior: float
    priors: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "noisy", tuple(np.asarray(table, dtype=np.int64) for table in self.noisy))
        if not len(self.noisy) == len(self.noises) == len(self.priors):
            raise InvalidValue("give one noise and one prior a table")
        if self.classes < 1 or any(len(table) % self.classes for table in self.noisy):
            raise InvalidValue(f"the rows of a table must be a multiple of the {self.classes} classes")

    @classmethod
    def chains(
        cls,
        noisy: Sequence[ArrayLike],
        noises: Sequence[IntegerNoise],
        n: int,
        class_prior: float,
        priors: Sequence[float],
        count: int | None = None,
    ) -> Self:
        """Return `count` chains on the same noisy tables, one array (classes, categories) a table.

        Unless given, as many as make 2,048 cells in all: 64 at most, 16 at least.
        """
        tables = [np.asarray(table, dtype=np.int64) for table in noisy]
        if count is None:
            count = int(np.clip(_CELLS // sum(table.size for table in tables), 16, _CHAINS))
        repeated = tuple(np.tile(table, (count, 1)) for table in tables)
        return cls(repeated, tuple(noises), len(tables[0]), n, float(class_prior), tuple(priors))

    def start(self, rng: np.random.Generator | None = None) -> tuple[Integers, ...]:
        """Return counts to begin with: whole, none below zero, n in every table, classes of the same size in each.

        With `rng` every chain begins elsewhere, as far apart as the noise allows: chains that agree later on have
        then found the way by themselves.
        """
        tables: list[Any] = list(self.noisy)
        if rng is not None:
            spread = [np.sqrt(noise.variance) for noise in self.noises]
            tables = [t + s * rng.standard_normal(t.shape) for t, s in zip(tables, spread, strict=True)]
        guess = np.mean([np.maximum(table, 0).sum(axis=1) for table in tables], axis=0).reshape(-1, self.classes)
        sizes = _whole(guess + 0.5, np.full(len(guess), self.n)).ravel()
        return tuple(_whole(np.maximum(table, 0) + 0.5, sizes) for table in tables)

    def sweep(self, counts: Sequence[Integers], rng: np.random.Generator) -> tuple[Integers, ...]:
        """Return new true counts."""
        new = [table.copy() for table in counts]
        for f in range(len(new)):
            for _ in range(_SPLITS if new[f].shape[1] > 1 else 0):
                self._split_pairs(f, new[f], rng)
        for _ in range(_MOVES if self.classes > 1 else 0):
            self._move_classes(new, rng)
            self._exchange(new, rng)
        for f in range(len(new)):
            self._reshuffle(f, new[f], rng)
        return tuple(new)

    def parameters(self, counts: Sequence[Integers], rng: np.random.Generator) -> tuple[Floats, tuple[Floats, ...]]:
        """Draw π (chains, classes) and every θ (chains · classes, categories) given the true counts."""
        sizes = counts[0].sum(axis=1, dtype=np.float64).reshape(-1, self.classes)
        pi = draw_dirichlet(np.asarray(sizes + self.class_prior, dtype=np.float64), rng)
        return pi, tuple(
            draw_dirichlet(table.astype(np.float64) + a, rng) for table, a in zip(counts, self.priors, strict=True)
        )

    def posterior(self, draws: int, rng: np.random.Generator) -> ClassDraws:
        """Return draws of the probabilities from all chains, once these agree: 3,200 sweeps are tried at most."""
        with progress_bar("sampling", _LEAST) as bar:
            return self._posterior(draws, rng, bar)

    def _posterior(self, draws: int, rng: np.random.Generator, bar: Bar) -> ClassDraws:
        counts = self.start(rng)
        chains = len(self.noisy[0]) // self.classes
        remainder = -(-draws // chains) - 1
        seen: list[Floats] = []
        goal = _LEAST
        while True:
            more = max(goal // 20, 2 * _THIN)
            bar.reach(goal + remainder * more)
            while len(seen) * _THIN < goal:
                for _ in bar.along(range(_THIN)):
                    counts = self.sweep(counts, rng)
                seen.append(self._shares(counts))
            late = np.stack(seen[len(seen) // 3 :], axis=1)
            convergence = Convergence.of({"the tables": late})
            if convergence.r_hat <= _AGREE or goal >= _MOST or 2 * goal // _THIN * seen[0].size > _NUMBERS:
                break
            goal *= 2
        kept = [self.parameters(counts, rng)]
        sizes = [counts[0].sum(axis=1).reshape(-1, self.classes)]
        for _ in range(remainder):
            for _ in bar.along(range(more)):
                counts = self.sweep(counts, rng)
            kept.append(self.parameters(counts, rng))
            sizes.append(counts[0].sum(axis=1).reshape(-1, self.classes))
        classes = np.concatenate([pi for pi, _ in kept])[:draws]
        shapes = [(-1, self.classes, table.shape[1]) for table in self.noisy]
        features = [
            np.concatenate([thetas[f].reshape(shape) for _, thetas in kept])[:draws] for f, shape in enumerate(shapes)
        ]
        return ClassDraws(classes, tuple(features), np.concatenate(sizes)[:draws].astype(np.float64), convergence)

    def _shares(self, counts: Sequence[Integers]) -> Floats:
        """Return the shares of the classes, and of the categories in them, that R-hat looks at: (chains, shares)."""
        sizes = counts[0].sum(axis=1, dtype=np.float64)
        parts = [sizes.reshape(-1, self.classes) / max(self.n, 1)]
        for table, prior in zip(counts, self.priors, strict=True):
            theta = (table + prior) / (sizes[:, None] + prior * table.shape[1])
            parts.append(theta.reshape(len(parts[0]), -1))
        return np.concatenate(parts, axis=1)

    @cached_property
    def _urns(self) -> tuple[Callable[[Integers], Floats], ...]:
        """The log-weights of the counts in a cell, by table, and last of those in a class, before any noise."""
        return tuple(_listed(partial(_urn, prior), self.n) for prior in (*self.priors, self.class_prior))

    def _cell(self, f: int, counts: Integers, seen: Integers) -> Floats:
        """Return the log-weight of counts of table f given what was seen of them; -inf below zero."""
        return self._urns[f](counts) + self.noises[f].log_weight(seen - counts)

    @cached_property
    def _size(self) -> Callable[[Integers], Floats]:
        """The log-weight of the sizes of classes; -inf below zero."""

        def weight(m: Floats) -> Floats:
            body = special.gammaln(m + self.class_prior) + (len(self.noisy) - 1) * special.gammaln(m + 1)
            for table, prior in zip(self.noisy, self.priors, strict=True):
                body = body - special.gammaln(m + prior * table.shape[1])
            return np.asarray(body)

        return _listed(weight, self.n)

    def _split_pairs(self, f: int, counts: Integers, rng: np.random.Generator) -> None:
        """Move records between random pairs of categories, in place."""
        rows, size = counts.shape
        pairs = size // 2
        order = rng.permuted(np.broadcast_to(np.arange(size), (rows, size)), axis=1)
        both = np.arange(rows)[:, None], order[:, : 2 * pairs]
        step = _steps((rows, pairs), np.sqrt(self.noises[f].variance), rng)
        old, seen = counts[both], self.noisy[f][both]
        new = old + np.concatenate([step, -step], axis=1)
        gain = self._cell(f, new, seen) - self._cell(f, old, seen)
        kept = -rng.standard_exponential(step.shape) <= gain[:, :pairs] + gain[:, pairs:]
        counts[both] = np.where(np.concatenate([kept, kept], axis=1), new, old)

    def _move_classes(self, counts: list[Integers], rng: np.random.Generator) -> None:
        """Move records between random pairs of classes, in place: the same number in every table."""
        chains, pairs = len(counts[0]) // self.classes, self.classes // 2
        order = rng.permuted(np.broadcast_to(np.arange(self.classes), (chains, self.classes)), axis=1)
        chain = np.repeat(np.arange(chains), pairs) * self.classes
        ends = chain + order[:, :pairs].ravel(), chain + order[:, pairs : 2 * pairs].ravel()
        # Every table resists by itself, so that together they leave less room.
        room = 1 / np.sqrt(sum(1 / max(noise.variance, 0.01) for noise in self.noises))
        step = _steps(chain.shape, room, rng)
        sizes = [counts[0][end].sum(axis=1) for end in ends]
        gain = np.zeros(chain.shape)
        picked = []
        for end, size, move in zip(ends, sizes, (step, -step), strict=True):
            gain += self._size(size + move) - self._size(size)
            for f, table in enumerate(counts):
                k = rng.integers(0, table.shape[1], end.size)
                picked.append((f, end, k, move))
                old, seen = table[end, k], self.noisy[f][end, k]
                gain += self._cell(f, old + move, seen) - self._cell(f, old, seen)
        kept = -rng.standard_exponential(gain.shape) <= gain
        for f, end, k, move in picked:
            counts[f][end, k] += np.where(kept, move, 0)

    def _exchange(self, counts: list[Integers], rng: np.random.Generator) -> None:
        """Take random records out of one class and put as many into another, in place and in every table."""
        chains = len(counts[0]) // self.classes
        first = rng.integers(0, self.classes, chains)
        second = (first + rng.integers(1, self.classes, chains)) % self.classes
        base = np.arange(chains) * self.classes
        giver, taker = base + first, base + second
        held = [counts[0][row].sum(axis=1) for row in (giver, taker)]
        moved = self._how_many(chains, rng)
        able = moved <= held[0]
        moved = np.where(able, moved, 0)
        urn = self._urns[-1]
        gain = urn(held[0] - moved) - urn(held[0]) + urn(held[1] + moved) - urn(held[1])
        news = []
        for f, table in enumerate(counts):
            less = table[giver] - _taken(table[giver], moved, rng)
            more = table[taker] + _put(table[taker], self.priors[f], moved, rng)
            gain += self._noise_gain(f, giver, table[giver], less) + self._noise_gain(f, taker, table[taker], more)
            news.append((less, more))
        kept = ((-rng.standard_exponential(chains) <= gain) & able)[:, None]
        for table, (less, more) in zip(counts, news, strict=True):
            table[giver] = np.where(kept, less, table[giver])
            table[taker] = np.where(kept, more, table[taker])

    def _reshuffle(self, f: int, counts: Integers, rng: np.random.Generator) -> None:
        """Take random records out of every class and put them back, in place, in one table."""
        rows = np.arange(len(counts))
        moved = np.minimum(self._how_many(len(counts), rng), self.n)
        able = moved <= counts.sum(axis=1)
        moved = np.where(able, moved, 0)
        remainder = counts - _taken(counts, moved, rng)
        new = remainder + _put(remainder, self.priors[f], moved, rng)
        gain = self._noise_gain(f, rows, counts, new)
        kept = (-rng.standard_exponential(len(counts)) <= gain) & able
        counts[kept] = new[kept]

    def _how_many(self, size: int, rng: np.random.Generator) -> Integers:
        """Draw how many records to move: one at least, on every scale up to n."""
        return np.asarray(2.0 ** rng.uniform(0.0, np.log2(max(self.n, 1) + 1.0), size), dtype=np.int64)

    def _noise_gain(self, f: int, rows: Integers, old: Integers, new: Integers) -> Floats:
        seen, noise = self.noisy[f][rows], self.noises[f]
        return np.asarray((noise.log_weight(seen - new) - noise.log_weight(seen - old)).sum(axis=1))


def _urn(prior: float, k: Floats) -> Floats:
    """Return log Γ(k + prior)/k!."""
    return np.asarray(special.gammaln(k + prior) - special.gammaln(k + 1))


def _listed(weight: Callable[[Floats], Floats], n: int) -> Callable[[Integers], Floats]:
    """Return log-weights of whole numbers, -inf beyond 0 to n; of few numbers they are listed once and looked up."""
    if n > _LISTED:
        return lambda k: np.where((k >= 0) & (k <= n), weight(np.clip(k, 0, n).astype(np.float64)), -np.inf)
    listed = np.concatenate([[-np.inf], weight(np.arange(n + 1.0)), [-np.inf]])
    return lambda k: listed.take(k + 1, mode="clip")


def _taken(counts: Integers, moved: Integers, rng: np.random.Generator) -> Integers:
    """Draw which records of a row are taken out, so many without looking: a count a category."""
    out = np.zeros_like(counts)
    remaining, remainder = moved.copy(), counts.sum(axis=1)
    for k in range(counts.shape[1] - 1):
        remainder = remainder - counts[:, k]
        out[:, k] = rng.hypergeometric(counts[:, k], remainder, remaining)
        remaining = remaining - out[:, k]
    out[:, -1] = remaining
    return out


def _put(counts: Integers, prior: float, moved: Integers, rng: np.random.Generator) -> Integers:
    """Draw the categories of new records, each by the counts so far and the prior: a Pólya urn."""
    theta = draw_dirichlet(counts.astype(np.float64) + prior, rng)
    return np.asarray(rng.multinomial(moved, theta), dtype=np.int64)


def _steps(shape: tuple[int, ...], reach: float, rng: np.random.Generator) -> Integers:
    """Return how many records to try to move: symmetric about zero, on every scale up to the reach of the noise."""
    scale = max(float(reach), 1.0) * 2.0 ** rng.uniform(-3.0, 1.5, shape)
    return np.rint(rng.normal(0.0, scale)).astype(np.int64) + rng.integers(-1, 2, shape)


def _whole(weights: Floats, totals: Integers) -> Integers:
    """Return whole numbers in the proportion of the weights that sum to the total of their row."""
    shares = weights / weights.sum(axis=1, keepdims=True) * totals[:, None]
    counts = np.floor(shares).astype(np.int64)
    spare = totals - counts.sum(axis=1)
    rank = np.argsort(np.argsort(counts - shares, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(counts + (rank < spare[:, None]))
