"""Intervals hold the truth where rows of a person go together: a small part of `benchmarks.person_coverage`."""

import pytest
from benchmarks.person_coverage import cover


@pytest.mark.parametrize(
    ("asked", "epsilon", "within", "tables"),
    [
        ("proportion", 1.0, 0.9, 25),
        ("mean", 0.3, 0.3, 25),
        ("counts", 1.0, 0.3, 12),
        ("counts of rows", 0.3, 0.9, 12),
        ("linear", 1.0, 0.9, 15),
    ],
)
def test_intervals_of_persons_cover(asked, epsilon, within, tables):
    """Of 25 intervals and more: rows taken for persons would cover about half as often at a correlation of 0.9."""
    found = [cover(asked, 1000, epsilon, within, seed) for seed in range(tables)]
    held, intervals = (sum(column) for column in zip(*found, strict=True))
    assert held / intervals >= 0.85
