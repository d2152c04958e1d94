"""Files beside an answer: refused before anything is charged where they could not be written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from sottovoce.privacy.errors import InvalidValue


def check_places(*files: Path | None, plot: Path | None = None, kept: Sequence[str | Path] = ()) -> None:
    """Refuse a file that cannot be written, or that would replace one of `kept`, or a plot in no format that is known.

    What cannot be kept need not be paid for.
    """
    for path in (path for path in (*files, plot) if path is not None):
        if not path.parent.is_dir():
            raise InvalidValue(f"there is no folder {path.parent} to write {path.name} to; nothing was spent")
        if kept and os.path.realpath(path) in _resolved(kept):
            raise InvalidValue(f"{path} holds the data, their facts or their ledger; nothing was spent")
        _try(path)
    if plot is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase  # noqa: PLC0415 - plots are an extra

    if plot.suffix.lstrip(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        raise InvalidValue(f"{plot.name} is no PNG, SVG or PDF; nothing was spent")


def _resolved(kept: Sequence[str | Path]) -> set[str]:
    from sottovoce.records.tables.folders import named_files  # noqa: PLC0415 - needs the data extra

    places = (str(place).removeprefix("sqlite:///") for place in kept)  # a ledger may be named by its address
    return {os.path.realpath(file) for place in places for file in named_files(place).files}


def _try(path: Path) -> None:
    """Refuse a file that cannot be opened for writing: only trying tells. It is left as it was."""
    try:
        there = path.exists()
        if there and not path.is_file() and not path.is_dir():
            return  # a pipe would take it for the end
        path.open("ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}; nothing was spent") from None


def save_figure(drawing: Any, path: Path, dpi: float | Literal["figure"] = "figure") -> None:
    """Write a figure into a file of the kind that its ending names."""
    try:
        drawing.savefig(path, dpi=dpi)
    except (OSError, ValueError) as error:
        raise InvalidValue(f"cannot write the figure to {path}: {error}") from None


@contextlib.contextmanager
def written(*files: tuple[Path | None, Callable[[Path], Any]]) -> Iterator[None]:
    """Write the files of an answer that is made, have it shown, and only then say of one that it could not be written.

    Whoever reads the first lines alone (``| head``) has the files too.
    """
    failed = []
    for path, write in files:
        try:
            if path is not None:
                write(path)
        except Exception as error:
            why = getattr(error, "strerror", None) or error
            failed.append(f"the answer is made and in the ledger, but {path} cannot be written: {why}")
    yield
    if failed:
        raise InvalidValue("; ".join(failed))
