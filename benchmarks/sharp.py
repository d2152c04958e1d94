"""How wide answers are beside an oracle that knows every nuisance: regressions, quantiles, means, now and before.

    python -m benchmarks sharp --only regressions --repeats 300 --seconds 3600 --write
    python -m benchmarks sharp --cells "fire durations" --repeats 400
    python -m benchmarks sharp --seconds 0 --write    # nothing is run: the page from what was measured

The k-th table of a cell is the same in every run, whatever code answers it, so "now" and "before" are of the same
tables. Fits are kept in ``build/sharp`` under a hash of the code, so a run that was stopped goes on where it was; what
they sum up to is in ``docs/figures/sharp-now.json`` and, of the code before, ``sharp-before.json`` (`--label`).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sottovoce
from benchmarks.page import machine
from benchmarks.sharpness.store import Cell, Store, run, save, screened, significant
from benchmarks.timing import console, show

KINDS = ("regressions", "quantiles", "means", "combinations")
ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
NEAR = 3.0
"""Where the oracle is within so many times of no privacy, noise is not what an interval is mostly of."""
MORE_FLAGGED = 10
"""Cells that look too low are answered this many times as often."""
_WIDE = 0.975
_MEDIAN, _FAR_MEDIAN, _UPPER = 1.25, 1.6, 2.5
"""What regressions are held to: the median of cells where the oracle is near to no privacy and where it is farther off,
and 95 % of the near ones."""
_TITLES = {"regressions": "Regressions", "quantiles": "Quantiles", "means": "Means", "combinations": "Combinations"}


def fingerprint() -> str:
    """Return a hash of the code that answers."""
    digest, folder = hashlib.sha256(), Path(sottovoce.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def cells(only: str | None, words: Sequence[str]) -> list[Cell]:
    """Return the cells of one kind or all whose names contain one of the words."""
    kinds = [only] if only else KINDS
    found = [cell for kind in kinds for cell in importlib.import_module(f"benchmarks.sharpness.{kind}").cells()]
    return [cell for cell in found if not words or any(word in cell.name for word in words)]


def read(label: str) -> dict[str, dict[str, Any]]:
    """Return what was measured under a label, by cell."""
    path = FIGURES / f"sharp-{label}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))["cells"]) if path.exists() else {}


def measure(asked: Sequence[Cell], label: str, repeats: int, seconds: float, work: Path | None) -> None:
    """Answer the cells, then those again whose coverage looks too low, and save what they sum up to."""
    code, started = fingerprint(), time.time()
    store = Store(work or ROOT / "build" / "sharp" / f"{label}-{code}.jsonl")
    run(store, asked, repeats, seconds, console.print)
    found = save(FIGURES / f"sharp-{label}.json", store, asked, f"{machine()}; {time.strftime('%Y-%m-%d')}", code)
    names = {cell.name for cell in asked}
    flagged = set(screened({name: one for name, one in found.items() if name in names}))
    left = seconds - (time.time() - started)
    if flagged and left > 0:
        console.print(f"again, {MORE_FLAGGED * repeats} times: {'; '.join(sorted(flagged))}")
        run(store, [one for one in asked if one.name in flagged], MORE_FLAGGED * repeats, left, console.print)
        save(FIGURES / f"sharp-{label}.json", store, asked, f"{machine()}; {time.strftime('%Y-%m-%d')}", code)


def main(quick: bool = False) -> None:
    """Answer every cell as often as time allows, and show what came of all."""
    command(["--seconds", "0"] if quick else [])


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument(
        "--cells", nargs="+", default=[], metavar="WORDS", help="cells whose names contain any of these"
    )
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=1200.0, help="then stop; the next run goes on")
    parser.add_argument("--label", default="now", help="where figures are kept: sharp-LABEL.json")
    parser.add_argument("--work", type=Path, help="the file of single fits that is gone on with")
    given = parser.parse_args(words)
    if given.seconds > 0:
        measure(cells(given.only, given.cells), given.label, given.repeats, given.seconds, given.work)
    for kind in [given.only] if given.only else KINDS:
        tell(kind, given.cells)


def tell(kind: str, words: Sequence[str] = ()) -> None:
    """Show what was measured of one kind: summed up, then cell by cell."""
    now, before = read("now"), read("before")
    for name in [name for name in before if not before[name]["fits"]]:  # not to be had then: any tail was
        before[name] = before.get(name.replace(", smooth", ", any tail"), before[name])
    names = [one.name for one in cells(kind, words) if one.name in now or one.name in before]
    if not names:
        console.print(f"{kind}: nothing measured yet")
        return
    groups: dict[str, list[str]] = {}
    for cell in cells(kind, words):
        if cell.name in names:
            family = f", {cell.name.split(',', maxsplit=1)[0]}" if cell.group == "grid" else ""
            groups.setdefault("all" if kind == "quantiles" else cell.group + family, []).append(cell.name)
    rows = []
    for group, members in groups.items():
        for near, which in ((True, f"oracle ≤ {NEAR:g} × no privacy"), (False, "oracle farther off")):
            its = [name for name in members if _near(now.get(name), before.get(name)) == near]
            both = [name for name in its if all(label.get(name, {}).get("fits") for label in (now, before))]
            its = both or its  # the same cells, where there are any
            for label, figures in (("now", now), ("before", before)):
                row = _row([figures[name] for name in its if figures.get(name, {}).get("fits")])
                if row:
                    rows.append([f"{group}, {which}: {label}", *row])
    head = ["", "cells", "median × oracle", "95 % of cells", "widest", "mean coverage", "above .975", "below .93"]
    show(f"{_TITLES[kind]}: summed up", head, rows, _note(now, names))
    head = ["cell", "fits", "held", "before", "width", "before", "oracle", "no privacy", "× oracle", "before", "widest"]
    if kind == "quantiles":
        head += ["rmse", "OpenDP"]
    show(f"{_TITLES[kind]}: cell by cell", head, [_cell(name, now.get(name), before.get(name), kind) for name in names])


def _near(now: dict[str, Any] | None, before: dict[str, Any] | None) -> bool:
    price = next((one["price"] for one in (now, before) if one and one.get("price") is not None), None)
    return price is None or price <= NEAR


def _row(figures: Sequence[dict[str, Any]]) -> list[str]:
    if not figures:
        return []
    ratios = np.array([one["ratio"] for one in figures if one["ratio"] is not None])
    worst = max((one["worst"] for one in figures if one["worst"] is not None), default=float("nan"))
    coverage = np.array([one["coverage"] for one in figures])
    spread = [_short(np.median(ratios)), _short(np.quantile(ratios, 0.95))] if ratios.size else ["–", "–"]
    low = len(screened({str(k): one for k, one in enumerate(figures)}))
    wide = f"{(coverage > _WIDE).mean():.0%}"
    return [str(len(figures)), *spread, _short(worst), f"{coverage.mean():.3f}", wide, str(low)]


def _note(now: dict[str, dict[str, Any]], names: Sequence[str]) -> str:
    its = {name: now[name] for name in names if name in now}
    low, sure = screened(its), significant(its)
    words = (
        "*× oracle* is the median over fits and targets of widths beside the oracle's, *widest* the largest; summed up "
        "over cells. *Below .93* counts cells whose coverage is lower by a one-sided binomial test at 1 % over all "
        "cells together, targets of one fit as if independent; such cells are answered again."
    )
    if low:
        said = "; ".join(f"{name} ({its[name]['coverage']:.3f} of {its[name]['fits']} fits)" for name in low)
        words += f" Now: {said}. Significant by an exact test of one target a fit: {'; '.join(sure) or 'none'}."
    if any(one["kind"] == "regressions" for one in its.values()):
        words += f" {_missed(its)}"
    failed = [f"{name} ({one['reason']})" for name, one in its.items() if one.get("failed")]
    return words + (f" Not answered: {'; '.join(failed)}." if failed else "")


def _missed(its: dict[str, dict[str, Any]]) -> str:
    """Say of how many fits all this is, and which cells miss what regressions are held to."""
    fits = [one["fits"] for one in its.values() if one.get("fits")]
    ratios = {name: one["ratio"] for name, one in its.items() if one.get("ratio") is not None}
    near = {name: ratio for name, ratio in ratios.items() if _near(its[name], None)}
    far = {name: ratio for name, ratio in ratios.items() if name not in near and ratio > _FAR_MEDIAN}
    narrow = sum(ratio <= _MEDIAN for ratio in near.values())
    over = sorted(((ratio, name) for name, ratio in near.items() if ratio > _UPPER), reverse=True)
    middle = sum(_MEDIAN < ratio <= _UPPER for ratio in near.values())
    words = (
        f"*Now* is of {min(fits)} to {max(fits)} fits a cell: a single cell's coverage, and how many lie above .975, "
        f"say little of so few. Held to a median of {_MEDIAN}, and {_UPPER} in 95 % of cells, where the oracle is near "
        f"to no privacy: {narrow} of {len(near)} cells lie within {_MEDIAN}, {middle} more within {_UPPER}, "
        f"{len(over)} do not"
    )
    words += f": {'; '.join(f'{name} ({_short(ratio)})' for ratio, name in over)}." if over else "."
    if far:
        listed = "; ".join(f"{name} ({_short(ratio)})" for name, ratio in far.items())
        words += f" Where the oracle is farther off, beyond {_FAR_MEDIAN}: {listed}."
    return words


def _cell(name: str, now: dict[str, Any] | None, before: dict[str, Any] | None, kind: str) -> list[str]:
    one, other = (figures if figures and figures.get("fits") else None for figures in (now, before))
    some = one or other
    if some is None:
        return [name, "0", *["–"] * (11 if kind == "quantiles" else 9)]
    row = [name, str(some["fits"]), _coverage(one), _coverage(other), _middle(one, "width"), _middle(other, "width")]
    row += [_middle(some, "oracle"), _middle(some, "plain")]
    row += [_figure(one, "ratio"), _figure(other, "ratio"), _figure(one, "worst")]
    if kind == "quantiles":
        row += [_middle(some, "rmse"), _middle(some, "rmse OpenDP")]
    return row


def _coverage(figures: dict[str, Any] | None) -> str:
    return f"{figures['coverage']:.3f}" if figures else "–"


def _middle(figures: dict[str, Any] | None, key: str) -> str:
    values = [one for one in (figures or {}).get(key, []) if one is not None]
    return _short(np.median(values)) if values else "–"


def _figure(figures: dict[str, Any] | None, key: str) -> str:
    return "–" if not figures or figures.get(key) is None else _short(figures[key])


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    command()
