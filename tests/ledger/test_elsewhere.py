"""An anchor elsewhere: what finds a backup that was restored with everything beside it."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Head, Ledger, Reservation


@pytest.fixture(params=["path", "sqlite", "postgres"])
def anchor(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "elsewhere").mkdir()
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return (
        str(tmp_path / "elsewhere" / "note") if request.param == "path" else f"sqlite:///{tmp_path}/elsewhere/x.ledger"
    )


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """A folder with a ledger in it, as a backup takes it: everything beside the ledger too."""
    (tmp_path / "office").mkdir()
    with Ledger(tmp_path / "office" / "p.ledger", create=True) as ledger:
        ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
    return tmp_path / "office"


def spend(place: Path, **options: str) -> int:
    with Ledger(place / "p.ledger", **options) as ledger:
        right = ledger.reserve(ledger.budget("patients"), GaussianProfile(0.1), {})
        assert isinstance(right, Reservation)
        ledger.commit(right, {"value": 1})
        return ledger.verify().count


def restore(backup: Path, office: Path) -> None:
    shutil.rmtree(office)
    shutil.copytree(backup, office)


def test_a_whole_backup_rolls_back_unseen_without_one_and_is_found_with_one(office: Path, anchor: str) -> None:
    backup = office.with_name("backup")
    shutil.copytree(office, backup)
    assert spend(office) == 4
    restore(backup, office)
    assert spend(office) == 4  # nothing here could tell: this is why there is an anchor elsewhere
    restore(backup, office)
    assert spend(office, anchor=anchor) == 4
    restore(backup, office)
    with pytest.raises(LedgerCorrupt, match="ends at event 2, and event 4 was once written"):
        Ledger(office / "p.ledger", anchor=anchor)


def test_what_is_put_back_while_it_is_open_is_not_told_from(office: Path) -> None:
    """SQLite's own way to restore a backup goes through the open file: whoever has it open finds what once was."""
    backup = office.with_name("backup")
    shutil.copytree(office, backup)
    with Ledger(office / "p.ledger") as ledger:
        budget = ledger.budget("patients")
        assert isinstance(ledger.reserve(budget, GaussianProfile(0.1), {}), Reservation)
        assert ledger.spent(budget) > 0
        both = (contextlib.closing(sqlite3.connect(folder / "p.ledger")) for folder in (backup, office))
        with next(both) as old, next(both) as new:
            old.backup(new)
        for asked in (ledger.spent, ledger.remaining, ledger.last_cost, lambda budget: ledger.find_entry(budget, 3)):
            with pytest.raises(LedgerCorrupt, match="had come to event 3 and now ends at 2"):
                asked(budget)


def test_a_ledger_that_is_gone_with_all_beside_it_is_not_started_anew(office: Path, anchor: str) -> None:
    spend(office, anchor=anchor)
    shutil.rmtree(office)
    office.mkdir()
    with pytest.raises(LedgerCorrupt, match="says that it had come to event 4: put it back"):
        Ledger(office / "p.ledger", create=True, anchor=anchor)


def test_another_history_of_the_same_length_is_found(office: Path, anchor: str) -> None:
    backup = office.with_name("backup")
    shutil.copytree(office, backup)
    spend(office, anchor=anchor)
    restore(backup, office)
    spend(office)
    with pytest.raises(LedgerCorrupt, match="event 4 is not the one that was noted"):
        Ledger(office / "p.ledger", anchor=anchor)


def test_it_may_be_left_out_and_taken_up_again(office: Path, anchor: str) -> None:
    assert spend(office, anchor=anchor) == 4
    assert spend(office) == 6
    assert spend(office, anchor=anchor) == 8


def test_a_postgres_ledger_has_anchors_too(postgres_url: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Ledger(postgres_url, create=True, anchor=note) as ledger:
        head = ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={}) and ledger.verify()
    assert str(head) in note.read_text()


@pytest.mark.parametrize("name", ["p.ledger", "p.ledger-anchor", "p.ledger-note"])
def test_what_goes_into_the_same_backup_is_no_anchor_elsewhere(office: Path, name: str) -> None:
    with pytest.raises(InvalidValue, match="goes into the same backup"):
        Ledger(office / "p.ledger", anchor=office / name)
    with pytest.raises(InvalidValue, match="no anchor of its own"):
        Ledger(office / "p.ledger", anchor=f"sqlite:///{office}/p.ledger")


def test_where_it_cannot_be_written_nothing_is_told(office: Path, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with Ledger(office / "p.ledger", anchor=folder / "note") as ledger:
        right = ledger.reserve(ledger.budget("patients"), GaussianProfile(0.1), {})
        assert isinstance(right, Reservation)
        shutil.rmtree(folder)
        with pytest.raises(LedgerUnavailable, match="counts as spent"):
            ledger.commit(right, {"value": 1})


class TestNotes:
    def test_what_was_noted_last_is_read(self, ledger: Ledger, budget: Budget) -> None:
        assert ledger.noted("far away").count == 0
        for count in (3, 5, 4, 5):  # an older one, or the same again, is known already
            ledger.note("far away", Head(count, f"{count:064x}"))
        ledger.note("nearer", Head(2, "2" * 64))
        assert ledger.noted("far away") == Head(5, f"{5:064x}")
        assert ledger.verify().count == 2 + 3

    def test_a_fork_is_refused(self, ledger: Ledger, budget: Budget) -> None:
        ledger.note("far away", Head(3, "3" * 64))
        with pytest.raises(LedgerCorrupt, match="event 3 of far away is not the one"):
            ledger.note("far away", Head(3, "4" * 64))

    def test_a_note_is_no_budget_and_no_key(self, ledger: Ledger, budget: Budget) -> None:
        ledger.note("k", Head(3, "3" * 64))
        assert ledger.find_budget("k") is None
        assert isinstance(ledger.reserve(budget, GaussianProfile(0.1), {}, key="k"), Reservation)
