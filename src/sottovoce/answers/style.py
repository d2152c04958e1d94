"""One look for every figure: quiet axes, direct colours, saved as PNG and SVG."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["COLOURS", "figure", "save", "words", "write_csv"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

COLOURS = ("#1f5f8b", "#d1603d", "#3f8f5b", "#8a5aa8", "#c29a1b", "#5b6770", "#b0416a", "#2a9d9a")

_RC: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "font.size": 10,
    "lines.linewidth": 1.8,
    "figure.dpi": 110,
    "svg.hashsalt": "sottovoce",
}


def figure(columns: int = 1, rows: int = 1, *, width: float = 4.6, height: float = 3.4) -> tuple[Any, Any]:
    """Return a new figure and its axes in the house style."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra
    from cycler import cycler  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({**_RC, "axes.prop_cycle": cycler(color=list(COLOURS))}):
        drawing = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = drawing.subplots(rows, columns)
    return drawing, axes


def words(text: object) -> str:
    r"""Return what is drawn as these very words: a dollar begins no formula.

    >>> words("$5 to $10")
    '\\$5 to \\$10'
    """
    return str(text).replace("$", r"\$")


def save(drawing: Any, path: Path) -> tuple[Path, Path]:
    """Write the figure as PNG and SVG and return both paths."""
    import matplotlib as mpl  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    png, svg = path.with_suffix(".png"), path.with_suffix(".svg")
    with mpl.rc_context(_RC):
        for axes in drawing.axes:
            _powers_alone(axes.xaxis)
            _powers_alone(axes.yaxis)
        # Laid out once, not once a file: that is most of the work.
        engine = drawing.get_layout_engine()
        engine.execute(drawing)
        area = drawing.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])
        drawing.set_layout_engine(None)
        drawing.savefig(png, dpi=130, bbox_inches=area, metadata={"Software": None})
        drawing.savefig(svg, bbox_inches=area, metadata={"Date": None})
        drawing.set_layout_engine(engine)
    return png, svg


def _powers_alone(axis: Any) -> None:
    """Mark a long logarithmic axis at the powers of ten only, in text: formulas and the marks between take longest."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log" and axis.isDefault_majfmt and high > 1e3 * low:
        axis.set_major_formatter(lambda value, _: "10" + f"{math.log10(value):.0f}".translate(_RAISED))
        axis.set_minor_locator(NullLocator())


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table beside its figure and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path
