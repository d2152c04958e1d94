"""Counts drawn down a junction tree, beside records drawn one by one and closed forms."""

import numpy as np
import pytest

from sottovoce.inference.latent import junction_tree
from sottovoce.inference.latent.junction_tree import BucketTree


def test_counts_have_the_mean_and_covariance_of_records():
    tree = BucketTree.of((2, 3, 2, 2), ((0, 1), (1, 2), (0, 2), (2, 3)))
    rng = np.random.default_rng(4)
    potentials = rng.normal(size=sum(int(np.prod(s)) for s in tree.shapes))
    counts = tree.sample_counts(potentials, 50, 40_000, rng)
    mean, covariance = (part[0] for part in tree.moments(potentials[None]))
    assert np.abs(counts.mean(axis=0) - 50 * mean).max() < 0.1
    assert np.abs(np.cov(counts.T) - 50 * covariance).max() < 0.4


def test_tables_of_one_draw_agree_and_are_whole():
    tree = BucketTree.of((2, 3, 2), ((0, 1), (1, 2)))
    counts = tree.sample_counts(np.linspace(-1, 1, 12), 10**9, 7, np.random.default_rng(1))
    first, second = tree.split(counts)
    assert np.array_equal(first.sum(axis=1), second.sum(axis=2))
    assert np.array_equal(counts, np.rint(counts))
    assert np.all(counts.reshape(7, 2, 6).sum(axis=2) == 10**9)


def test_beliefs_are_the_marginals_by_enumeration():
    tree = BucketTree.of((2, 3, 2), ((0, 1), (1, 2), (0, 2)))
    potentials = np.random.default_rng(2).normal(size=(1, 16))
    logs = np.zeros((2, 3, 2))
    for table, clique in zip(tree.split(potentials), tree.cliques, strict=True):
        shape = [size if v in clique else 1 for v, size in enumerate((2, 3, 2))]
        logs += table[0].reshape(shape)
    law = np.exp(logs) / np.exp(logs).sum()
    for belief, scope in zip(tree.beliefs(potentials)[0], tree.scopes, strict=True):
        wanted = law.sum(axis=tuple(v for v in range(3) if v not in scope))
        assert np.allclose(belief[0], wanted.transpose([sorted(scope).index(v) for v in scope]))


def test_counts_drawn_in_blocks_are_of_all_records(monkeypatch):
    monkeypatch.setattr(junction_tree, "_AT_ONCE", 8)
    tree = junction_tree.BucketTree.of((2, 2), ((0, 1),))
    counts = tree.sample_counts(np.log([0.4, 0.1, 0.2, 0.3]), 10_000, 25, np.random.default_rng(1))
    assert counts.shape == (25, 4)
    assert np.all(counts.sum(axis=1) == 10_000)
    assert counts.mean(axis=0) == pytest.approx([4000, 1000, 2000, 3000], rel=0.02)
    assert len(np.unique(counts[:, 0])) > 20
