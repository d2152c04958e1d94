"""One look for every figure: quiet axes, direct colours, saved as PNG and SVG."""

from __future__ import annotations

import csv
import datetime
import functools
import importlib
import io
import math
import sys
import textwrap
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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


def figure(
    columns: int = 1, rows: int = 1, *, width: float = 4.6, height: float = 3.4, ax: Any = None
) -> tuple[Any, Any]:
    """Return a new figure and its axes in the house style; or axes that there are, and their figure.

    A new figure shows itself in a notebook. Where pyplot is in use it is pyplot's current figure, so that
    ``plt.savefig``, ``plt.show`` and ``plt.close`` mean it; elsewhere, as in a server, nothing keeps it.
    """
    if ax is not None:
        return ax.figure, ax
    import matplotlib as mpl  # noqa: PLC0415 - an extra
    from cycler import cycler  # noqa: PLC0415

    with mpl.rc_context({**_RC, "axes.prop_cycle": cycler(color=list(COLOURS))}):
        size, pyplot = (width * columns, height * rows), _pyplot()
        if pyplot is None:
            drawing = _shown_figure()(figsize=size, layout="constrained")
        else:
            drawing = pyplot.figure(FigureClass=_shown_figure(), figsize=size, layout="constrained")
        axes = drawing.subplots(rows, columns)
    return drawing, axes


def _pyplot() -> Any:
    """Return pyplot where the program has loaded it; it is for the main thread only."""
    main = threading.current_thread() is threading.main_thread()
    return sys.modules.get("matplotlib.pyplot") if main else None


def dates(first: datetime.date) -> float:
    """Return where a date lies on an axis of dates: Matplotlib counts days from 1970 on."""
    return float((first - datetime.date(1970, 1, 1)).days)


@functools.cache
def _shown_figure() -> Any:
    """Return the kind of figure that a notebook shows, whether or not pyplot is there."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png")
            return written.getvalue()

        def _ipython_display_(self) -> None:
            shown = importlib.import_module("IPython.display")  # who calls this has it
            shown.display(shown.Image(self._repr_png_()))
            if (pyplot := _pyplot()) is not None:
                pyplot.close(self)  # or the notebook would show it again below the cell

    return ShownFigure


def titled(drawing: Any, text: str, ax: Any = None) -> None:
    """Write a title above a figure, in as many lines as its width asks for; above axes where these are given."""
    if ax is not None:
        wide = ax.get_window_extent().width / drawing.dpi
        ax.set_title("\n".join(map(words, textwrap.wrap(text, max(int(10 * wide), 20)))), loc="left", fontsize=10)
        return
    lines = textwrap.wrap(text, int(10 * drawing.get_figwidth()))
    drawing.suptitle("\n".join(map(words, lines)), x=0.01, ha="left", fontsize=11, fontweight="bold")


def plain_powers(axis: Any) -> None:
    """Write the numbers of a logarithmic axis as people do: 0.1, 1, 10, and some between where it is short."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter  # noqa: PLC0415

    low, high = sorted(axis.get_view_interval())
    powers = LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,))
    axis.set_major_locator(MaxNLocator(6) if high < 3 * low else powers)
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def words(text: object) -> str:
    r"""Return what is drawn as these very words: a dollar begins no formula.

    >>> words("$5 to $10")
    '\\$5 to \\$10'
    """
    return str(text).replace("$", r"\$")


def save(drawing: Any, path: Path, kinds: Sequence[str] = ("png", "svg"), *, dpi: int = 130) -> tuple[Path, ...]:
    """Write the figure as each kind of file, so many dots an inch, and return their paths."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.transforms import Bbox  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    files = tuple(path.with_suffix(f".{kind}") for kind in kinds)
    dated: Any = {".png": "Software", ".svg": "Date"}
    with mpl.rc_context(_RC):
        for axes in drawing.axes:
            _powers_in_text(axes.xaxis)
            _powers_in_text(axes.yaxis)
            # Titles stay above their axes, which have no marks there: they are else sought a place in every pass.
            axes.set_title(axes.get_title(loc="right"), loc="right", y=1.0)
        # Laid out once, not once a file: that is much of the work.
        engine = drawing.get_layout_engine()
        engine.execute(drawing)
        drawing.set_layout_engine(None)
        # All else was laid out within the figure; a legend of many words may be wider.
        area = Bbox.union([drawing.bbox, *(legend.get_window_extent() for legend in drawing.legends)])
        area = area.transformed(drawing.dpi_scale_trans.inverted()).padded(mpl.rcParams["savefig.pad_inches"])
        for file in files:
            drawing.savefig(file, dpi=dpi, bbox_inches=area, metadata={dated[file.suffix]: None})
        drawing.set_layout_engine(engine)
    return files


def _powers_in_text(axis: Any) -> None:
    """Write powers of ten as text, and mark a long axis there only: formulas and the marks between take longest."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log" and axis.isDefault_majfmt and high > 10 * low:
        axis.set_major_formatter(lambda value, _: "10" + f"{math.log10(value):.0f}".translate(_RAISED))
        if high > 1e3 * low:
            axis.set_minor_locator(NullLocator())


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table beside its figure and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path
