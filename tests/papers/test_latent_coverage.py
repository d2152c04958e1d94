"""A small piece of the coverage of latent models."""

import numpy as np
from papers.latent_coverage import cover_classes, cover_hidden_markov


def test_class_shares_and_probabilities_are_covered():
    found = cover_classes(n=300, epsilon=0.1, repeats=10, seed=2)
    assert min(found.values()) > 0.85


def test_a_hidden_markov_chain_holds_its_truth():
    found = cover_hidden_markov(epsilon=1.0, repeats=1, seed=5)
    assert np.isfinite(list(found.values())).all()
    assert found["a cell's emission"] >= 0.5
