"""How many functions and files a call passes: what a reader who follows it has to read.

    python -m benchmarks paths

Counted are the functions of the package that run in any thread while the call is made, each once, with generators and
comprehensions as their function; caches are warm from a first call. These are counts, not times: any machine gives the
same.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import sottovoce as sv
from benchmarks.timing import show

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PACKAGE = str(Path(sv.__file__).parent)
ROWS = 3000
BUDGET = sv.ZeroConcentratedDP(50)


ENTERED: set[CodeType] | None = None
"""The code of the functions of the package that were entered, while a call is followed."""


def note(frame: FrameType, event: str, argument: object) -> None:
    """Note a function that is entered; set in every thread from its start, for threads outlive calls."""
    if ENTERED is not None and event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
        ENTERED.add(frame.f_code)


def passed(call: Callable[[int], Any]) -> tuple[int, int]:
    """Return how many functions and files a second call passes."""
    global ENTERED  # noqa: PLW0603 - a profile function has no other place to write to
    call(0)
    ENTERED = entered = set()
    call(1)
    ENTERED = None
    functions = {(code.co_filename, code.co_qualname) for code in entered if not code.co_name.startswith("<")}
    return len(functions), len({file for file, _ in functions})


def frame() -> Any:
    """Return a table made up for the calls."""
    import pandas as pd

    rng = np.random.default_rng(1)
    age = rng.integers(18, 95, ROWS)
    return pd.DataFrame(
        {
            "age": age,
            "sbp": np.clip(rng.normal(120, 15, ROWS), 60, 250),
            "ward": rng.choice(["A", "B", "C"], ROWS),
            "smoker": rng.random(ROWS) < 1 / (1 + np.exp((age - 50) / 20)),
        }
    )


def calls(folder: Path) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Yield each call by name; the number makes a second question another one."""
    facts = sv.Facts(
        age=sv.Number(18, 110), sbp=sv.Number(60, 250), ward=sv.Category(["A", "B", "C"]), smoker=sv.Flag()
    )
    with sv.Curator(frame(), facts=facts, ledger=folder / "paths.ledger", budget=BUDGET, dataset="d") as curator:
        yield "a mean by group", lambda k: curator.mean("sbp", by="ward", where=f"age >= {40 + k}", spend=0.01)
        yield "a regression", lambda k: curator.regress("smoker ~ age + C(ward)", where=f"age >= {30 + k}", spend=0.1)
    yield "an answer of the server", _served(folder)
    diffused = sv.BetaBernoulli(6, 12)
    records = np.arange(100) % 2
    yield (
        "a diffused posterior sample",
        lambda k: sv.DiffusedPosterior.calibrate(diffused, 100, sv.ApproxDP(1, 1e-3)).release(records),
    )


def _served(folder: Path) -> Callable[[int], Any]:
    from starlette.testclient import TestClient

    from sottovoce.faces.server.app import create_app
    from support.offices import token_for, write_office

    office = folder / "office"
    office.mkdir()
    config = write_office(office, whole="zcdp:50", each="zcdp:25")
    client = TestClient(create_app(config))
    client.__enter__()
    header = {"Authorization": f"Bearer {token_for(config, 'ada')}"}

    def ask(k: int) -> Any:
        body = {"verb": "proportion", "column": "smoker", "spend": 0.01, "where": f"age >= {30 + k}"}
        answer = client.post(
            "/api/v1/datasets/patients/answers", json=body, headers=header | {"Idempotency-Key": f"k{k}"}
        )
        assert answer.status_code < 300, answer.text
        return answer

    return ask


def main(quick: bool = False) -> None:
    """Count, and show."""
    threading.setprofile(note)
    sys.setprofile(note)
    with tempfile.TemporaryDirectory() as folder:
        rows = [[name, *map(str, passed(call))] for name, call in calls(Path(folder))]
    sys.setprofile(None)
    threading.setprofile(None)
    show("What a call passes", ["call", "functions", "files"], rows)


if __name__ == "__main__":
    main()
