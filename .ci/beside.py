"""Drive an installed wheel beside PyMC 6 and ArviZ 1: ten lines on a lazy frame, and on a Delta table with deletes.

``python beside.py`` with the interpreter of an environment that has them all, in an empty folder.
"""

from __future__ import annotations

import arviz
import deltalake
import numpy as np
import polars as pl
import pymc

import sottovoce as sv

FACTS = sv.Facts(smoker=sv.Flag(), ward=sv.Category(["A", "B"]))


def ten_lines(name: str, source: object) -> None:
    """Ask as the README does."""
    budget = sv.ApproxDP(1.0, 1e-6)
    with sv.Curator(source, facts=FACTS, ledger=f"{name}.ledger", budget=budget, dataset=name) as curator:
        answer = curator.proportion("smoker", by="ward", spend=0.2)
        print(name, curator.n, [round(row["estimate"], 2) for row in answer.rows], type(answer.to_arviz()).__name__)


def main() -> None:
    """Make both tables, and ask them."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"smoker": rng.random(4000) < 0.3, "ward": rng.choice(["A", "B"], 4000)})
    print("arviz", arviz.__version__, "pymc", pymc.__version__)
    ten_lines("lazy", frame.lazy())
    deltalake.write_deltalake("stays", frame.to_arrow())
    deltalake.DeltaTable("stays").delete("ward = 'B' and smoker")
    ten_lines("delta", "stays")


if __name__ == "__main__":
    main()
