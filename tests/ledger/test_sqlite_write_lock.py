"""Turns between processes: taken at once when they are free, waited for a while, and never what decides."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.privacy.errors import LedgerUnavailable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger, Reservation, changes
from sottovoce.service.ledger import sqlite_write_lock as turns
from sottovoce.service.ledger.sqlite_write_lock import Turns

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    path = tmp_path / "note"
    path.write_text("x")
    return path


@contextlib.contextmanager
def taken(turns: Turns) -> Iterator[None]:
    turns.take()
    try:
        yield
    finally:
        turns.give_back()


def free(path: Path) -> bool:
    """Say whether another opening of the file can have its lock."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_turn_is_given_back_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "p.ledger"
    with Ledger(path, create=True) as ledger:
        store, beside = ledger._store, path.with_name("p.ledger-anchor")
        with store.transaction(write=True):
            assert not free(beside)
        assert free(beside)
        with store.transaction(write=False):
            assert free(beside)
        with pytest.raises(ZeroDivisionError), store.transaction(write=True):
            raise ZeroDivisionError
        assert free(beside)
        path.rename(tmp_path / "moved")
        with pytest.raises(LedgerUnavailable), store.transaction(write=True):
            pass
        assert free(beside)


def test_it_is_waited_for_a_while_and_no_longer(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_PATIENCE", 0.02)
    mine, other = Turns(beside), Turns(beside)
    with taken(mine):
        start = time.monotonic()
        with taken(other):
            assert time.monotonic() - start >= 0.02
    assert free(beside)


def test_without_a_file_or_such_locks_all_goes_on(
    tmp_path: Path, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    for one in (Turns(None), Turns(tmp_path / "none")):
        with taken(one):
            ran.append(1)
        one.close()

    def refuse(*_: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with taken(Turns(beside)):
        ran.append(1)
    assert len(ran) == 3


def test_whoever_holds_the_file_holds_up_no_ledger_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_PATIENCE", 0.02)
    with Ledger(tmp_path / "p.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
        with taken(Turns(tmp_path / "p.ledger-anchor")):
            assert isinstance(ledger.reserve(budget, GaussianProfile(0.125), {}), Reservation)
        assert ledger.verify().count == 3


def _tokens(queue: multiprocessing.queues.Queue[list[str]]) -> None:
    queue.put([next(changes._TOKENS) for _ in range(200)])


def test_no_two_processes_hold_the_same_tokens() -> None:
    """They are taken from the system for many at once, and a forked child must not have its parent's."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    next(changes._TOKENS)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_tokens, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    theirs = [token for _ in children for token in queue.get(timeout=30)]
    for child in children:
        child.join()
    mine = [next(changes._TOKENS) for _ in range(200)]
    assert len({*mine, *theirs}) == 600
    assert {len(token) for token in mine} == {32}
