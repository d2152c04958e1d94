"""The numbers that were printed of public data, computed again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.replications import Replication, pima, rand


@pytest.mark.parametrize(("published", "response", "counts"), [(rand, "mdvis", True), (pima, "diabetes", False)])
def test_what_was_printed_is_what_the_data_say(
    published: Callable[[], Replication], response: str, counts: bool
) -> None:
    table = published()
    y = table.records[response]
    X = np.column_stack([np.ones(len(y)), *(table.records[name] for name in table.published)])
    theta = np.zeros(X.shape[1])
    theta[0] = np.log(y.mean()) if counts else 0.0
    for _ in range(30):
        mean = np.exp(X @ theta) if counts else 1 / (1 + np.exp(-(X @ theta)))
        information = X.T @ (X * (mean if counts else mean * (1 - mean))[:, None])
        theta += np.linalg.solve(information, X.T @ (y - mean))
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    digits = 6e-4 if counts else 6e-5
    for (estimate, error), mine, spread in zip(table.published.values(), theta[1:], errors[1:], strict=True):
        assert estimate == pytest.approx(mine, abs=6e-5)
        assert error == pytest.approx(spread, abs=digits)
