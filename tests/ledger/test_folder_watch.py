"""A ledger whose folder has not changed is not looked at file by file after each write; whatever changes is found."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger, Reservation
from sottovoce.service.ledger import folder_watch as folder
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.files import Files, Opened
from sottovoce.service.ledger.folder_watch import Folder


def reserve(ledger: Ledger) -> Reservation:
    right = ledger.reserve(ledger.budget("patients"), GaussianProfile(0.1), {})
    assert isinstance(right, Reservation)
    return right


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Each look at the files, and whether it was at the logs too."""
    honest, looks = Files._check, list[bool]()

    def look(files: Files, opened: Opened, *, logs: bool) -> None:
        looks.append(logs)
        honest(files, opened, logs=logs)

    monkeypatch.setattr(Files, "_check", look)
    return looks


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked: list[bool]) -> Iterator[Ledger]:
    """A ledger whose folder is trusted, as it is some seconds after its files were made."""
    monkeypatch.setattr(folder, "_SETTLED", 10**7)
    with Ledger(tmp_path / "p.ledger", create=True) as ledger:
        ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
        time.sleep(0.05)
        for _ in range(2):
            reserve(ledger)
        (connection,) = ledger._store._idle
        assert connection.opened is not None and connection.opened.stamp is not None
        looked.clear()
        ledger.commit(reserve(ledger), {"value": 1})
        assert looked == [True, False, False]  # the first to read the budget; none once it was durable
        yield ledger


def removed(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved"))


def copied_over(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("swap", [removed, moved, copied_over])
def test_a_swap_in_the_middle_of_a_transaction_is_found(
    ledger: Ledger, tmp_path: Path, swap: Callable[[Path], None], ending: str
) -> None:
    right = reserve(ledger)
    with pytest.raises(LedgerCorrupt, match=r"was (removed|replaced)"), ledger._writing() as transaction:
        transaction.lock_head()
        swap(tmp_path / f"p.ledger{ending}")
    with pytest.raises((LedgerCorrupt, LedgerUnavailable), match=r"was (removed|replaced)|unable to open"):
        ledger.commit(right, {"value": 1})


def test_a_swapped_folder_is_found_in_the_middle_too(tmp_path: Path, ledger: Ledger) -> None:
    within = tmp_path.with_name(f"{tmp_path.name}-moved")
    with pytest.raises(LedgerCorrupt, match="was replaced"), ledger._writing() as transaction:
        transaction.lock_head()
        tmp_path.rename(within)
        shutil.copytree(within, tmp_path)


def test_a_second_name_in_another_folder_is_found_before_anything_is_charged(
    ledger: Ledger, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    budget = ledger.budget("patients")
    before = ledger.spent(budget)
    second = tmp_path_factory.mktemp("elsewhere") / "p.ledger"
    second.hardlink_to(tmp_path / "p.ledger")
    with pytest.raises(LedgerUnavailable, match="has 2 names"):
        ledger.reserve(budget, GaussianProfile(0.1), {})
    second.unlink()
    assert ledger.spent(budget) == before


def test_a_log_that_loses_its_last_transaction_is_found(ledger: Ledger, tmp_path: Path) -> None:
    log = tmp_path / "p.ledger-wal"
    budget = ledger.budget("patients")
    before = log.stat().st_size
    ledger.reserve(budget, GaussianProfile(0.1), {})
    os.truncate(log, before)
    with pytest.raises(LedgerCorrupt, match="was cut off"):
        ledger.reserve(budget, GaussianProfile(0.1), {})


def test_a_note_is_never_left_in_a_file_that_was_moved_away(ledger: Ledger, tmp_path: Path) -> None:
    note = tmp_path / "p.ledger-anchor"
    for swap in (removed, moved, copied_over):
        swap(note)
        reserve(ledger)
        assert Anchor(note).read() == ledger._kept.seen


def test_a_folder_that_changed_a_moment_ago_is_not_trusted(tmp_path: Path) -> None:
    found = Folder(tmp_path)
    (tmp_path / "new").touch()
    stamp = found.look()
    assert found.settled(stamp) is None
    assert found.settled((*stamp[:2], stamp[2] - 3 * 10**9)) is not None
    assert found.settled((*stamp[:2], stamp[2] + 10**12)) is None  # by a clock that was set back


def test_a_ledger_that_is_reached_by_a_link_is_looked_at_file_by_file(tmp_path: Path) -> None:
    assert Folder.around(tmp_path / "link", tmp_path / "p.ledger") is None
