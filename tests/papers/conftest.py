"""Experiments run once: what a test ran of the papers, `python -m papers all --quick` need not run again."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from papers.runner import Record, Request, run_experiment

Run = Callable[[str], tuple[Record, list[Path]]]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run an experiment at its quick size, once, and return its record and its files, figures and tables.

    They are kept in the folder SOTTOVOCE_PAPERS where there is one.
    """
    folder = Path(os.environ.get("SOTTOVOCE_PAPERS") or tmp_path_factory.mktemp("papers"))

    @cache
    def run(name: str) -> tuple[Record, list[Path]]:
        heard: list[float] = []
        record = run_experiment(name, Request(folder, quick=True), heard.append)
        assert heard[-1] == pytest.approx(1.0)
        return record, [folder / file for file in record.files]

    return run
