"""Draws of what lies behind noisy tables that share a class column: exact where the tables allow it, chains elsewhere.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.inference.latent.conditional_sums import Parts
from sottovoce.inference.latent.gibbs_sampler import draw_dirichlet
from sottovoce.inference.latent.latent_classes import ClassDraws, LatentClasses
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats, Integers

_NATS = 60.0
"""How far below its largest a weight counts, before the prior's own range is added."""
_CLOSE = 31
"""True counts this close to a noisy one always have a weight."""
_MOST = 1 << 22
"""Weights of all cells together that are worked out before chains are the quicker way."""


def draw_classes(
    tables: Sequence[ArrayLike],
    noises: Sequence[IntegerNoise],
    n: int,
    class_prior: float,
    priors: Sequence[float],
    draws: int,
    rng: np.random.Generator,
) -> ClassDraws:
    r"""Return draws of π and every θ given noisy tables of (class, category) from n records; see `LatentClasses`.

    Given the sizes :math:`m_c` of the classes all rows of all tables are independent, and a row is a list of counts
    that add up to :math:`m_c`, each with a weight of its own (prior times noise). So the weights of :math:`m_c` are
    convolutions, the sizes are numbers that add up to n, and everything is drawn from its law, draw by draw, with no
    chain (`Parts`). Where the noise reaches over too many numbers the chains of `LatentClasses` are run instead.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> tables, noise = [np.array([[31, -2], [4, 9]])], IntegerNoise("laplace", 2.0)
    >>> found = draw_classes(tables, [noise], n=45, class_prior=1.0, priors=[1.0], draws=100, rng=seeded_rng(1))
    >>> found.classes.shape, found.features[0].shape, found.sizes.sum(axis=1).max()
    ((100, 2), (100, 2, 2), np.float64(45.0))
    """
    seen = [np.asarray(table, dtype=np.int64) for table in tables]
    result = _ExactClassDraws(tuple(seen), tuple(noises), n, class_prior, tuple(priors)).draw(draws, rng)
    if result is None:
        return LatentClasses.chains(seen, noises, n, class_prior, priors).posterior(draws, rng)
    sizes, rows = result
    classes = draw_dirichlet(np.asarray(sizes + class_prior, dtype=np.float64), rng)
    features = tuple(
        draw_dirichlet(row.astype(np.float64) + prior, rng) for row, prior in zip(rows, priors, strict=True)
    )
    return ClassDraws(classes, features, sizes.astype(np.float64), None)


@dataclass(frozen=True)
class _ExactClassDraws:
    """The noisy tables, (classes, categories) each, and the draw of the true ones."""

    seen: tuple[Integers, ...]
    noises: tuple[IntegerNoise, ...]
    n: int
    class_prior: float
    priors: tuple[float, ...]

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Integers, list[Integers]] | None:
        """Return sizes (draws, classes) and counts (draws, classes, categories) a table; None where it takes long.

        The weights of a size are believed where no table's row finds it too unlikely; a row that does is tilted
        towards it, and the sizes are drawn again.
        """
        at = self._guess()
        rows: dict[tuple[int, int], Parts] = {}
        for width in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
            if self._work(width) > _MOST:
                return None
            for f, c in np.ndindex(len(self.seen), at.shape[1]):
                if (f, c) not in rows or not rows[f, c].trusts(at[:, c]):
                    rows[f, c] = Parts.near(self._row(f, c, width), int(np.rint(at[:, c].mean())), self.n)
            sizes = self._sizes(rows)
            if sizes is None:
                continue
            at = sizes.draw(np.full(draws, self.n), rng)
            if all(row.trusts(at[:, c]) for (_, c), row in rows.items()):
                drawn = {(f, c): row.draw(at[:, c], rng) for (f, c), row in rows.items()}
                return at, [np.stack([drawn[f, c] for c in range(at.shape[1])], axis=1) for f in range(len(self.seen))]
        return None

    def _guess(self) -> Integers:
        """Return about how large the classes are: (1, classes)."""
        totals = np.mean([np.maximum(table, 0).sum(axis=1) for table in self.seen], axis=0) + 0.5
        return np.asarray(np.rint(totals / totals.sum() * self.n), dtype=np.int64)[None]

    def _reach(self, f: int, width: float) -> int:
        """Return how far from a noisy count of table f true ones have a weight."""
        a, noise = self.priors[f], self.noises[f]
        nats = _NATS + abs(special.gammaln(self.n + a) - special.gammaln(self.n + 1) - special.gammaln(a))
        reach = noise.scale * (nats if noise.kind == "laplace" else np.sqrt(2 * nats))
        return int(np.ceil(min(width * max(reach, _CLOSE), self.n + 1)))

    def _work(self, width: float) -> int:
        """Return how many weights all cells have at most."""
        return sum(t.size * min(2 * self._reach(f, width), self.n + 1) for f, t in enumerate(self.seen))

    def _row(self, f: int, c: int, width: float) -> list[tuple[int, Floats]]:
        """Return the weights of each count of a row, prior times noise, about what was seen."""
        reach, a = self._reach(f, width), self.priors[f]
        numbers = []
        for seen in self.seen[f][c]:
            centre = int(np.clip(seen, 0, self.n))
            low, high = max(centre - reach, 0), min(centre + reach, self.n)
            x = np.arange(low, high, dtype=np.float64)
            # Γ(x + a) / x! from its first value on.
            prior = np.concatenate([[special.gammaln(low + a) - special.gammaln(low + 1)], np.log((x + a) / (x + 1))])
            noise = self.noises[f].log_weight(seen - np.arange(low, high + 1))
            numbers.append((low, np.cumsum(prior) + noise))
        return numbers

    def _sizes(self, rows: dict[tuple[int, int], Parts]) -> Parts | None:
        """Return the sizes of the classes, which add up to n; None where the rows leave none."""
        numbers = []
        for c in range(len(self.seen[0])):
            mine = [rows[f, c] for f in range(len(self.seen))]
            m = np.arange(max(row.first for row in mine), min(row.last for row in mine) + 1)
            logs = special.gammaln(m + self.class_prior) + (len(mine) - 1) * special.gammaln(m + 1)
            for row, table, prior in zip(mine, self.seen, self.priors, strict=True):
                logs = logs + row.log_weight(m) - special.gammaln(m + prior * table.shape[1])
            if not np.isfinite(logs).any():
                return None
            numbers.append((int(m[0]), logs))
        sizes = Parts.near(numbers, self.n, self.n)
        return sizes if sizes.trusts(np.array([self.n])) else None
