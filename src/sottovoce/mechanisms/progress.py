"""How far long work has come, on the terminal of whoever waits for it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Bar", "progress_bar"]

T = TypeVar("T")


@dataclass(frozen=True)
class Bar:
    """A bar that grows with the steps of some work; without a picture it is nothing."""

    picture: Any = None
    task: Any = None

    def advance(self, steps: int = 1) -> None:
        """Say that so many steps more are done."""
        if self.picture is not None:
            self.picture.advance(self.task, steps)

    def reach(self, total: int) -> None:
        """Say that the work takes so many steps in all: more than was thought, where chains do not agree yet."""
        if self.picture is not None:
            self.picture.update(self.task, total=total)

    def along(self, steps: Iterable[T]) -> Iterator[T]:
        """Yield what some steps give, and count them."""
        for step in steps:
            yield step
            self.advance()


@contextlib.contextmanager
def progress_bar(what: str, total: int, shown: bool | None = None) -> Iterator[Bar]:
    """Show how far work of `total` steps is; unless `shown` says otherwise, where a person sees it.

    That is on a terminal, and of the thread that the person started: not of one that serves several at once.

    >>> with progress_bar("sampling", 3, shown=False) as bar:
    ...     list(bar.along(range(3)))
    [0, 1, 2]
    """
    seen = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    if not (seen if shown is None else shown):
        yield Bar()
        return
    from rich.console import Console  # noqa: PLC0415 - only where somebody looks
    from rich.errors import LiveError  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with contextlib.ExitStack() as opened:
        bar = Bar()
        with contextlib.suppress(LiveError):  # something else is shown there already
            picture = opened.enter_context(Progress(console=Console(stderr=True), transient=True))
            bar = Bar(picture, picture.add_task(what, total=total))
        yield bar
