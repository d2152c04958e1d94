"""The probability of every cell under a law of the values: by its distribution function, its terms or quadrature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from sottovoce.privacy.errors import InvalidValue

_MOST_TERMS = 1 << 16


def masses(law: Any, edges: Sequence[float] | Any, *, nodes: int = 24) -> Any:
    """Return the probability of each cell between edges, on the last axis; of a batch of laws, a row each.

    What lies below the first inner edge is in the first cell, what lies at or above the last one in the last: values
    beyond the public bounds count as at them. So probabilities sum to one whatever the law, and a last cell is open:
    a time that is censored there is one known to be at least so long.

    Parameters
    ----------
    law
        A NumPyro distribution, a distribution function (a callable of x), or anything with ``cdf`` or ``log_prob``.
        Laws without a distribution function are summed (whole numbers) or integrated by Gauss and Legendre's rule.
    edges
        Bounds of the cells, rising; those of a `Cells` column are ``cells.edges("age")``.
    nodes
        How many points a cell are integrated over, where that is needed.

    Examples
    --------
    >>> import jax, numpyro.distributions as dist
    >>> with jax.enable_x64(True):
    ...     [round(float(p), 4) for p in masses(dist.Exponential(1.0), [0, 1, 2, 3])]
    [0.6321, 0.2325, 0.1353]
    """
    inner = np.asarray(edges, dtype=np.float64)[1:-1]
    if np.asarray(edges).ndim != 1 or len(edges) < 2:
        raise InvalidValue("edges are the rising bounds of the cells, two or more")
    support = getattr(law, "support", None)
    if getattr(support, "is_discrete", False):
        return _summed(law, np.ceil(inner))
    cdf = law if callable(law) and not hasattr(law, "log_prob") else getattr(law, "cdf", None)
    if cdf is not None:
        try:
            return _differences(cdf, inner, getattr(law, "batch_shape", ()))
        except NotImplementedError:  # NumPyro's distributions that have none say so when asked
            pass
    if not hasattr(law, "log_prob"):
        raise InvalidValue(
            f"a law of the values has cdf or log_prob, or is a distribution function. Got a {type(law).__name__}"
        )
    return _integrated(law, np.asarray(edges, dtype=np.float64), nodes)


def _spread(values: object, batch: tuple[int, ...]) -> Any:
    """Return values that broadcast against a batch, on a new last axis of the outcome: moved there afterwards."""
    return jnp.asarray(values).reshape((-1,) + (1,) * len(batch))


def _differences(cdf: Any, inner: Any, batch: tuple[int, ...]) -> Any:
    if not inner.size:
        return jnp.ones((*batch, 1))
    heights = jnp.moveaxis(jnp.asarray(cdf(_spread(inner, batch))), 0, -1)
    zeros, ones = jnp.zeros_like(heights[..., :1]), jnp.ones_like(heights[..., :1])
    heights = jnp.concatenate([zeros, heights, ones], axis=-1)
    return jnp.maximum(jnp.diff(heights, axis=-1), 0.0)


def _summed(law: Any, starts: Any) -> Any:
    """Return sums of a law on the whole numbers from 0; the last cell is what is left."""
    top = int(starts[-1]) if starts.size else 0
    if top > _MOST_TERMS:
        raise InvalidValue(f"counts are summed one by one, at most {_MOST_TERMS} of them")
    batch = tuple(law.batch_shape)
    if top <= 0:
        return jnp.concatenate([jnp.zeros((*batch, starts.size)), jnp.ones((*batch, 1))], axis=-1)
    terms = jnp.moveaxis(jnp.exp(law.log_prob(_spread(jnp.arange(top), batch))), 0, -1)
    heights = jnp.concatenate([jnp.zeros((*terms.shape[:-1], 1)), jnp.cumsum(terms, axis=-1)], axis=-1)
    heights = heights[..., np.clip(starts.astype(int), 0, top)]
    first, last = jnp.zeros_like(heights[..., :1]), jnp.ones_like(heights[..., :1])
    return jnp.maximum(jnp.diff(jnp.concatenate([first, heights, last], axis=-1), axis=-1), 0.0)


def _integrated(law: Any, edges: Any, nodes: int) -> Any:
    """Integrate a density over the cells and, at either end, to infinity; share out what rounding left."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    unit, half = (points + 1) / 2, weights / 2
    width = np.diff(edges)
    width[~np.isfinite(width)] = np.max(width[np.isfinite(width)], initial=1.0)
    x = np.where(np.isfinite(edges[:-1]), edges[:-1], 0.0)[:, None] + width[:, None] * unit
    factor = width[:, None] * half
    wide, wide_weights = np.polynomial.legendre.leggauss(4 * nodes)
    wide, wide_weights = (wide + 1) / 2, wide_weights / 2
    tails = []
    for end, beside, size, sign in ((edges[0], edges[1], width[0], -1.0), (edges[-1], edges[-2], width[-1], 1.0)):
        start = end if np.isfinite(end) else beside  # a law often begins at the first edge: nothing is smooth across it
        tails.append((start + sign * size * wide / (1 - wide), size * wide_weights / (1 - wide) ** 2))
    batch = tuple(law.batch_shape)

    def over(at: Any, weight: Any) -> Any:
        points = _spread(at.ravel(), batch)
        support = getattr(law, "support", None)
        inside = jnp.ones(jnp.shape(points), dtype=bool) if support is None else support(points)
        within = jnp.where(inside, points, _middle(law, edges))
        flat = jnp.moveaxis(jnp.where(inside, jnp.exp(law.log_prob(within)), 0.0), 0, -1)
        inside = jnp.where(jnp.isfinite(flat), flat, 0.0).reshape(*flat.shape[:-1], *at.shape)
        return jnp.sum(inside * weight, axis=-1)

    bounded = np.isfinite(edges[:-1]) & np.isfinite(edges[1:])
    result = over(x, np.where(bounded[:, None], factor, 0.0))
    result = result.at[..., 0].add(over(*tails[0])).at[..., -1].add(over(*tails[1]))
    return result / jnp.sum(result, axis=-1, keepdims=True)


def _middle(law: Any, edges: Any) -> Any:
    """Return a value that stands in, at no weight, for values that the law does not allow."""
    finite = edges[np.isfinite(edges)]
    middle = (finite[0] + finite[-1]) / 2
    support = getattr(law, "support", None)
    return middle if support is None or np.all(support(middle)) else jnp.asarray(law.mean)
