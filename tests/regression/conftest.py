import numpy as np
import pytest

from sottovoce.privacy.randomness import seeded_rng


@pytest.fixture(scope="session")
def records():
    """600 logistic records in four columns, some rows longer than 1."""
    rng = seeded_rng(4)
    X = rng.standard_normal((600, 4)) / 2
    y = np.where(X @ [3.0, -2.0, 1.0, 0.0] + rng.logistic(size=600) > 0, 1.0, -1.0)
    return X, y
