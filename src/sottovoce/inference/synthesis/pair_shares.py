"""The joint law of every two columns of a field, whether a clique holds both or not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.privacy.numbers import Floats

__all__ = ["pair_shares"]


def pair_shares(tree: BucketTree, potentials: Floats) -> Iterator[tuple[int, int, Floats]]:
    """Yield two columns and their joint law, the first the smaller, under one draw's potentials (cells,).

    From the buckets that hold a column its joint law goes on from bucket to bucket, through what two have in common.

    >>> chain = BucketTree.of((2, 2, 2), ((0, 1), (1, 2)))
    >>> laws = {(a, b): law for a, b, law in pair_shares(chain, np.log([0.4, 0.1, 0.1, 0.4] * 2))}
    >>> laws[0, 2].round(2).tolist()
    [[0.34, 0.16], [0.16, 0.34]]
    """
    beliefs = [table[0] for table in tree.beliefs(potentials[None])[0]]
    near: list[list[int]] = [[] for _ in beliefs]
    for child, scope in enumerate(tree.scopes):
        if len(scope) > 1:
            parent = tree.order.index(scope[1])
            near[child].append(parent)
            near[parent].append(child)
    singles = {
        scope[0]: _margin(belief, scope, (scope[0],)) for scope, belief in zip(tree.scopes, beliefs, strict=True)
    }
    for first in range(len(tree.sizes)):
        laws: dict[int, Floats] = {}
        start = tree.order.index(first)
        reached, waiting = {start}, [(start, None)]
        joints: dict[int, Floats | None] = {start: None}
        while waiting:
            at, _ = waiting.pop()
            scope, joint = tree.scopes[at], joints[at]
            for v in scope:
                if v > first and v not in laws:
                    laws[v] = _margin(beliefs[at], scope, (first, v)) if joint is None else _beside(joint, scope, (v,))
            for other in near[at]:
                if other not in reached:
                    reached.add(other)
                    waiting.append((other, None))
                    joints[other] = _carried(beliefs, tree.scopes, at, other, joint, first)
        for second in range(first + 1, len(tree.sizes)):
            yield first, second, laws.get(second, np.outer(singles[first], singles[second]))


def _carried(
    beliefs: list[Floats], scopes: tuple[tuple[int, ...], ...], at: int, other: int, joint: Floats | None, first: int
) -> Floats | None:
    """Return the law of a column with the variables of the next bucket, none where that bucket holds it."""
    if first in scopes[other]:
        return None
    common = tuple(v for v in scopes[other] if v in scopes[at])
    scope_at = scopes[at]
    shared = _margin(beliefs[at], scope_at, (first, *common)) if joint is None else _beside(joint, scope_at, common)
    belief, scope = beliefs[other], scopes[other]
    total = _margin(belief, scope, common)
    given = np.divide(shared, total, out=np.zeros_like(shared), where=total > 0)
    shape = [size if v in common else 1 for v, size in zip(scope, belief.shape, strict=True)]
    return np.asarray(given.reshape(len(given), *shape) * belief)


def _margin(table: Floats, scope: tuple[int, ...], names: tuple[int, ...]) -> Floats:
    kept = [v for v in scope if v in names]
    result = table.sum(axis=tuple(k for k, v in enumerate(scope) if v not in names))
    return np.asarray(result.transpose([kept.index(v) for v in names]))


def _beside(joint: Floats, scope: tuple[int, ...], names: tuple[int, ...]) -> Floats:
    result = joint.sum(axis=tuple(1 + k for k, v in enumerate(scope) if v not in names))
    kept = [v for v in scope if v in names]
    return np.asarray(result.transpose(0, *(1 + kept.index(v) for v in names)))
