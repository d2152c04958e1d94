"""Curvatures of crossed factors against the same as whole matrices."""

import numpy as np
import pytest

from sottovoce.inference.cells.crossed_factors import Curvature, Roots, of_categories, of_cells, places


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (3, 3), (3, 1, 6, 2), (7,), (1, 1)])
def test_a_curvature_is_what_its_whole_matrix_is(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    weights, count = rng.uniform(0.1, 3.0, int(np.prod(shape))), sum(map(len, places(shape)))
    precision, right = rng.uniform(0.1, 1.0, count), rng.normal(size=count)
    design = np.broadcast_to(of_cells(np.eye(count), shape), (count, weights.size)).T
    whole = (design.T * weights) @ design + np.diag(precision)
    found = Curvature.of(weights, shape, precision)
    assert of_categories(weights, shape) == pytest.approx(design.T @ weights)
    assert found.solve(right) == pytest.approx(np.linalg.solve(whole, right))
    assert found.volume == pytest.approx(np.linalg.slogdet(whole)[1])
    root = np.column_stack([Roots.of([found]).times(row[None])[0] for row in np.eye(count)])
    assert root @ root.T == pytest.approx(np.linalg.inv(whole))
