"""One question to a curator, as a user asks it: a table, its facts, a share of the budget; the rows of the answer."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import sottovoce as sv
from benchmarks.sharpness.oracle import rho_of
from sottovoce.records.facts import Facts

__all__ = ["RHO", "ask", "budget", "ends"]

Array = npt.NDArray[Any]
EPSILON, DELTA = 1.0, 1e-6
RHO = rho_of(EPSILON, DELTA)
"""What the whole budget is in ρ; a share of it is that part of ρ."""


def budget() -> Any:
    """Return the promise that all shares are of."""
    return sv.ApproxDP(EPSILON, DELTA)


def ask(
    columns: Mapping[str, Array], facts: Mapping[str, Any], question: Callable[[Any], Any], **options: Any
) -> tuple[pd.DataFrame, float]:
    """Return the table of the answer, and the processor time of asking; options are the curator's."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame, ledger = pd.DataFrame(dict(columns)), str(Path(folder) / "ledger")
        start = time.process_time()
        options |= {"facts": Facts(dict(facts)), "ledger": ledger, "budget": budget(), "dataset": "sharp"}
        with sv.Curator(frame, **options) as curator:
            answer = question(curator)
            table = answer.table
        return table, time.process_time() - start


def ends(table: pd.DataFrame) -> tuple[Array, Array, Array]:
    """Return low, high and estimate of all rows; the middle of the interval where no estimate is given."""
    low, high, estimate = (table[name].to_numpy(dtype=float) for name in ("low", "high", "estimate"))
    return low, high, np.where(np.isfinite(estimate), estimate, (low + high) / 2)
