"""What was spent of each period, recomputed from the ledger's text alone: nothing of sottovoce is imported.

``python tests/support/period_audit.py patients.ledger`` says of every budget what each period has spent, beside its
limit, and fails where one has spent more.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from fractions import Fraction
from typing import Any


def added_up(bodies: list[dict[str, Any]]) -> tuple[dict[str, dict[str, Fraction]], dict[str, Fraction]]:
    """Return what was spent of each period of each data set, and its limit, from the events' bodies in order."""
    opened: dict[int, dict[str, Any]] = {}
    spent: dict[int, Fraction] = {}
    periods: dict[int, dict[str, Fraction]] = {}
    names: dict[int, list[str]] = {}
    reserved: dict[int, dict[str, Any]] = {}
    of_whole: dict[int, Fraction] = {}

    def move(budget: int, entry: int, cost: Fraction) -> None:
        spent[budget] += cost
        totals = periods.get(budget)
        if totals is not None:
            for name in reserved[entry].get("periods") or list(totals):
                totals[name] += cost

    for body in bodies:
        budget, kind = body["budget"], body["kind"]
        if kind == "open":
            opened[budget], spent[budget] = body, Fraction(0)
            if (known := names.get(body.get("whole"))) is not None:
                periods[budget] = dict.fromkeys(known, Fraction(0))
        elif kind == "periods":
            names[budget] = body["names"]
            for part in [number for number, one in opened.items() if budget in (number, one.get("whole"))]:
                before = periods.get(part)
                begin = spent[part] if before is None else before[body["names"][-1]]
                periods[part] = {name: (before or {}).get(name, begin) for name in body["names"]}
        elif kind == "reserve":
            reserved[body["entry"]] = body
            move(budget, body["entry"], Fraction(body["cost"]))
        elif kind == "charge":
            of_whole[body["entry"]] = Fraction(body["cost"])
            move(budget, body["entry"], of_whole[body["entry"]])
        elif kind == "void":
            move(budget, body["entry"], -Fraction(reserved[body["entry"]]["cost"]))
        elif kind == "refund":
            move(budget, body["entry"], -of_whole[body["entry"]])
    limits = {one["key"]: Fraction(one["limit"]) for one in opened.values()}
    return {opened[budget]["key"]: totals for budget, totals in periods.items()}, limits


def spent_by_text(store: Any) -> dict[str, dict[str, Fraction]]:
    """Return what was spent of each period, from an open store of either kind."""
    with store.transaction(write=False) as transaction:
        rows = transaction.run("SELECT body FROM sottovoce_events ORDER BY sequence").fetchall()
    return added_up([json.loads(body) for (body,) in rows])[0]


def main(path: str) -> int:
    """Print what each period has spent of its limit; return 1 where one has spent more."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as ledger:
        rows = ledger.execute("SELECT body FROM sottovoce_events ORDER BY sequence").fetchall()
    totals, limits = added_up([json.loads(body) for (body,) in rows])
    over = 0
    for dataset, periods in totals.items():
        for name, total in periods.items():
            over += total > limits[dataset]
            print(f"{dataset}  {name}  {float(total):.6g} of {float(limits[dataset]):.6g}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
