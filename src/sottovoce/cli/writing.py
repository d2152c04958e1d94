"""Files beside an answer: refused before anything is charged where they could not be written, and written last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidValue

__all__ = ["check_places", "written"]


def check_places(*files: Path | None, plot: Path | None = None) -> None:
    """Refuse a file in no folder, or a plot in no format that is known: what cannot be kept need not be paid for."""
    for path in (*files, plot):
        if path is not None and not path.parent.is_dir():
            raise InvalidValue(f"there is no folder {path.parent} to write {path.name} to; nothing was spent")
    if plot is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase  # noqa: PLC0415 - plots are an extra

    if plot.suffix.lstrip(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        raise InvalidValue(f"{plot.name} is no PNG, SVG or PDF; nothing was spent")


def written(write: Callable[[], Any], path: Path) -> None:
    """Write a file of an answer that is made and shown already; if that fails, say that it is."""
    try:
        write()
    except OSError as error:
        raise InvalidValue(
            f"the answer is made and in the ledger, but {path} cannot be written: {error.strerror}"
        ) from None
