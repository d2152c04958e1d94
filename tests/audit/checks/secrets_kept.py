"""A secret number of records: whatever a curator shows of two tables of different lengths is the same."""

from __future__ import annotations

import io
import json
import logging
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa

from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import DirectPosterior, NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Facts, Flag, Number
from sottovoce.service.answers.card import card
from sottovoce.service.answers.explanations import explain
from sottovoce.service.curator import Curator
from sottovoce.service.curator import readable_records as records

__all__ = ["secret_n"]

_FACTS = Facts(smoker=Flag(), ward=Category(("A", "B")), stay=Number(0, 10))
_LENGTHS = (0, 41, 5003)


def _table(n: int) -> Any:
    columns = {"smoker": [k % 3 == 0 for k in range(n)], "ward": ["AB"[k % 2] for k in range(n)]}
    columns["stay"] = [float(k % 11) for k in range(n)]
    kinds = pa.schema([("smoker", pa.bool_()), ("ward", pa.string()), ("stay", pa.float64())])
    return pa.table(columns, schema=kinds)


class _Heard(logging.Handler):
    """All that anyone logs but when answers leave."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == records.__name__:  # when an answer left: whoever asked saw that
            return
        self.lines.append(f"{record.name}: {record.getMessage()}")


def _said(ask: Callable[[], Any]) -> str:
    try:
        return str(ask())
    except SottovoceError as error:
        return f"{type(error).__name__}: {error}"


def _shown(n: int) -> dict[str, str]:
    """Return what a curator lets anyone see of a table, but for what it releases and when."""
    heard, out, root = _Heard(), io.StringIO(), logging.getLogger()
    level = root.level
    found: dict[str, str] = {}
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    try:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(out), redirect_stderr(out):
            place = Path(folder) / "l"
            options: dict[str, Any] = {"facts": _FACTS, "dataset": "p", "who": "ada", "time_grid": 1e-3}
            with Curator(_table(n), place, ApproxDP(1.0, 1e-6), n="private", **options) as curator:
                found |= _asked(curator)
            with Curator(_table(n), place, **options) as curator:
                found["opened again"] = repr(curator)
            found["another budget"] = _said(lambda: Curator(_table(n), place, ApproxDP(2.0, 1e-6), **options))
    finally:
        root.removeHandler(heard)
        root.setLevel(level)
    return found | {"log": "\n".join(heard.lines), "printed": out.getvalue()}


def _asked(curator: Curator) -> dict[str, str]:
    """Return what one can read of a curator before, between and after some releases."""
    share, n = curator.share(0.05), curator.budget.n
    sample = DirectPosterior(BetaBernoulli(90, 90), None)
    found = {
        "repr": repr(curator),
        "html": curator._repr_html_(),
        "budget": json.dumps(curator.budget.facts()),
        "a plan": json.dumps(curator.mechanism_for(curator.question("quantiles", "stay", at=0.5)).to_dict()),
        "a plan of a mean": json.dumps(curator.mechanism_for(curator.question("mean", "stay")).to_dict()),
        "an accuracy": _said(lambda: curator.share_for("mean of stay", 1.0)),
        "a mechanism for an n": _said(lambda: curator.release(DirectPosterior(BetaBernoulli(90, 90), 41), "smoker")),
        "noisy statistics": _said(lambda: NoisyStatistics.calibrate(BetaBernoulli(1, 1), n, share)),
        "an odd question": _said(lambda: curator.mean("ward")),
        "an odd column": _said(lambda: curator.release(sample, "nobody")),
        "too much": _said(lambda: curator.proportion("smoker", spend=ApproxDP(9.0, 1e-6))),
    }
    answers = (curator.proportion("smoker", by="ward"), curator.mean("stay"), curator.quantiles("stay"))
    found["answers"] = ", ".join(f"{len(one.rows)} rows at {one.cost}" for one in answers)
    curator.release(sample, "smoker")
    found["entries"] = json.dumps([{"request": dict(e.request), "cost": e.cost} for e in curator.history()])
    content = card(curator, made="now").content
    hidden = {"head", "releases", "opened"}
    found["card"] = json.dumps({name: value for name, value in content.items() if name not in hidden}, default=str)
    return found | {"explanation": str(explain(curator)), "left": curator.left()}


@check("a secret number of records shows nowhere")
def secret_n() -> tuple[bool, str]:
    """Tables of 0, 41 and 5,003 records look alike: descriptions, plans, errors, logs, entries, cards.

    What is released differs by its noise, and is left out.
    """
    problems, first = [], _shown(_LENGTHS[0])
    for n in _LENGTHS[1:]:
        other = _shown(n)
        problems += [f"{name}: {other[name][:160]}" for name in first if first[name] != other[name]]
        if problems:
            break
    return verdict(problems, f"{len(first)} texts, the same whatever the number of records")
