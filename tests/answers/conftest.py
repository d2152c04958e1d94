"""What tests of answers share."""

import pytest


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer with a third of the draws: of the same law, so that intervals hold as much, by ends that vary more."""
    monkeypatch.setattr("sottovoce.inference.cells.cell_row_draws._DRAWS", 1200)
