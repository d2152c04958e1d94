"""Words that cut a time, such as ``days=30,90,365``, of survival and of hazards."""

from __future__ import annotations

from typing import Any

from sottovoce.privacy.errors import InvalidValue


def cut_words(columns: tuple[str, ...], cut: list[str]) -> Any:
    """Return the times that cut a time, from words like ``days=30,90,365`` or ``days=24``."""
    name, _, said = cut[0].rpartition("=")
    try:
        times = [float(item) for item in said.split(",")]
    except ValueError:
        times = []
    if len(cut) > 1 or (name,) != columns or not times:
        raise InvalidValue(f"a time is cut in itself, such as {columns[0]}=30,90,365. Got {' '.join(cut)!r}")
    return int(times[0]) if "," not in said and times[0].is_integer() else tuple(times)


def hazard_cuts(formula: str, cut: list[str] | None) -> Any:
    """Return the times between which hazards are constant; None where nothing was said.

    >>> hazard_cuts("days ~ age", ["30,90"]), hazard_cuts("days ~ age", ["days=4"]), hazard_cuts("days ~ age", None)
    ((30.0, 90.0), 4, None)
    """
    if not cut:
        return None
    name = formula.partition("~")[0].strip().strip("`")
    return cut_words((name,), [item if "=" in item else f"{name}={item}" for item in cut])
