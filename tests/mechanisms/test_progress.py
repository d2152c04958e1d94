"""Bars of long work: on a terminal and nowhere else, and without a say in what comes out."""

from __future__ import annotations

import io
import sys
import threading

import numpy as np
import pytest

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel
from sottovoce.mechanisms.progress import progress_bar
from sottovoce.privacy.randomness import seeded_rng


class Terminal(io.StringIO):
    """A place to write that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return what takes the place of the terminal, from within a test: pytest has its own between fixtures and test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    return found


def test_a_bar_is_shown_where_somebody_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with progress_bar("sampling", 5) as bar:
        assert list(bar.along(range(5))) == [0, 1, 2, 3, 4]
        assert bar.picture.tasks[0].completed == 5
        bar.reach(10)
        assert bar.picture.tasks[0].total == 10
    assert "sampling" in terminal.getvalue()


def test_a_bar_within_a_bar_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of(monkeypatch)
    with progress_bar("outer", 2) as outer, progress_bar("inner", 2) as inner:
        assert list(inner.along(outer.along(range(2)))) == [0, 1]


def test_a_server_thread_and_a_pipe_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)

    def work() -> None:
        with progress_bar("sampling", 1) as bar:
            bar.advance()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert terminal.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    work()
    assert pipe.getvalue() == ""


def test_a_fit_shows_how_far_it_is_and_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    grid = ChainGrid(Field("region", ("N", "S")), (Field("month", (1, 2, 3)),))
    model = HiddenMarkovModel(grid, (Field("kind", ("calm", "storm")),), states=2)
    counts = [np.arange(12.0).reshape(2, 3, 2)]
    quiet, shown = (
        model.fit(counts, sweeps=20, rng=seeded_rng(1), progress=progress).transition for progress in (False, None)
    )
    assert np.array_equal(quiet, shown) and "sampling" in terminal.getvalue()
