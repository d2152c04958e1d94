"""The real tables that answers are measured on, as columns."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from papers.data import data_path

__all__ = ["abalone", "collisions", "fires", "insurance"]

Array = npt.NDArray[Any]


def _columns(
    path: Path, head: tuple[str, ...] | None = None, wanted: tuple[str, ...] | None = None
) -> dict[str, Array]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        lines = [line for line in csv.reader(file) if line]
    names, lines = (head, lines) if head else (tuple(lines[0]), lines[1:])
    found = {}
    for name, cells in zip(names, zip(*lines, strict=True), strict=True):
        if wanted is not None and name not in wanted:
            continue
        try:
            found[name] = np.array([float(cell) if cell else np.nan for cell in cells])
        except ValueError:
            found[name] = np.array(cells)
    return found


@cache
def abalone() -> dict[str, Array]:
    """Return UCI Abalone."""
    names = ("sex", "length", "diameter", "height", "whole", "shucked", "viscera", "shell", "rings")
    return _columns(data_path("abalone.data"), names)


@cache
def insurance() -> dict[str, Array]:
    """Return the RAND Health Insurance Experiment."""
    return _columns(data_path("small/randhie.csv.gz"))


@cache
def fires() -> dict[str, Array]:
    """Return durations (of those that are known) and burnt areas of Portuguese forest fires."""
    return _columns(data_path("pt_forest_fires_1994_2000.csv.gz"), wanted=("duration_min", "forest_ha", "year"))


@cache
def collisions() -> dict[str, Array]:
    """Return the Hong Kong road collisions that come with the package."""
    return _columns(Path(str(resources.files("sottovoce") / "data" / "hk_road_collisions_2014_2019.csv.gz")))
