"""Processes of their own that are there at once: forked from one that has imported the rooms and done nothing else.

For tests whose subject is another process, or its death, and not its imports: those take seconds each.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from unittest import mock

import sottovoce

__all__ = ["Born", "Grandchild", "born", "prepare", "told_by"]

_SOURCE = str(Path(sottovoce.__file__).parents[1])
_ROOMS = ["ibis.backends.duckdb", "opendp.measurements", "pandas", "pyarrow.dataset", "sottovoce.faces.server.running"]
_NURSERY = multiprocessing.get_context("forkserver")
_NURSERY.set_forkserver_preload(_ROOMS)


class Born:
    """A process, with the face of `subprocess.Popen`."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.kill, self.terminate, self.pid = process.kill, process.terminate, process.pid

    def poll(self) -> int | None:
        """Return how it ended; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float = 120) -> int:
        """Wait for its end, and return how it ended."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, "it is still running"
        return self._process.exitcode


class Grandchild(ForkServerProcess):
    """A process of one that was born, from the same nursery: it takes over what a spawned one would, and no more."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._environment, self._out = dict(os.environ), _told_to[-1]

    def run(self) -> None:
        """Live as a spawned process does: it has its parent's environment and file of words, and what it was given."""
        os.environ.clear()
        os.environ.update(self._environment)
        _tell(self._out)
        super().run()


def born(script: str, *arguments: object, out: Path, parent: bool = False) -> Born:
    """Run a program in a new process, whose words of either kind go to a file; say so if it has children of its own."""
    words = [str(one) for one in arguments]
    process = _NURSERY.Process(target=_live, args=(script, words, str(out)), daemon=not parent)
    prepare()
    process.start()
    return Born(process)


def prepare() -> None:
    """Have the nursery import its rooms, beside whatever its first child is not needed for."""
    with mock.patch.dict(os.environ, PYTHONPATH=_SOURCE):  # pytest's patch would be imported by every child
        forkserver.ensure_running()


def told_by(script: str, *arguments: object) -> str:
    """Run a program to its good end, and return what it said."""
    with tempfile.NamedTemporaryFile() as file:
        ended = born(script, *arguments, out=Path(file.name)).wait()
        said = file.read().decode()
    assert ended == 0, said
    return said


_told_to: list[str] = []
"""The file that the words of this process go to, if it was born."""


def _tell(out: str) -> None:
    _told_to.append(out)
    words = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(words, 1)
    os.dup2(words, 2)


def _live(script: str, arguments: list[str], out: str) -> None:
    _tell(out)
    forkserver._forkserver.ensure_running = lambda: None  # the nursery is no child of this process, which may use it
    sys.argv = ["-c", *arguments]
    exec(compile(script, "<a program of the nursery>", "exec"), {"__name__": "__main__"})
