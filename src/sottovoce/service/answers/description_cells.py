"""Cells of Table 1 as text: numbers with their intervals, n (%), mean (SD), median [IQR]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.service.answers.digits import formatted, sure


def difference_cells(row: Mapping[str, Any] | None) -> list[str]:
    """Return a difference with its interval, of shares in percent, and how sure its sign is, as cells."""
    if row is None:
        return ["", ""]
    if row["estimate"] is None:
        return ["not known", ""]
    scale, unit = (100, " %") if row["statistic"] == "share" else (1, "")
    middle, low, high = formatted({key: scale * row[key] for key in ("estimate", "low", "high")})
    return [f"{middle}{unit}; {low} to {high}{unit}", sure(row["probability"])]


def table_cell(first: str, rows: Sequence[Mapping[str, Any] | None]) -> str:
    """Return one cell of the table: the numbers, and the interval of the first, of n (%) of the share."""
    if any(row is None for row in rows):
        return ""
    known = [row for row in rows if row is not None]
    if any(row["estimate"] is None for row in known):
        return "not known"
    if first == "count":
        share = {key: 100 * known[1][key] for key in ("estimate", "low", "high")}
        middle, low, high = formatted(share)
        return f"{known[0]['estimate']:,.0f} ({middle}); {low} to {high} %"
    texts = [formatted(row, counts=first == "missing") for row in known]
    middle, low, high = texts[0]
    inside = {"mean": lambda: f" ({texts[1][0]})", "median": lambda: f" [{texts[1][0]}, {texts[2][0]}]"}
    return f"{middle}{inside[first]() if first in inside else ''}; {low} to {high}"
