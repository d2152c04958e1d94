"""Backups: of one moment while others write, and never restored to before an anchor."""

from __future__ import annotations

import gzip
import json
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger, Reservation
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.backup import back_up, restore


def _spend(path: Path, times: int = 1, anchor: Path | None = None) -> None:
    with Ledger(path, create=True, anchor=anchor) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, 100.0), n=100, schema={})
        for _ in range(times):
            right = ledger.reserve(budget, GaussianProfile(0.125), {"mechanism": "noise"})
            assert isinstance(right, Reservation)
            ledger.commit(right, {"value": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    _spend(tmp_path / "p.ledger", 3)
    return tmp_path / "p.ledger"


def _lose(path: Path, *, anchor: bool = False) -> None:
    for ending in ("", "-wal", "-shm", *(["-anchor"] if anchor else [])):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def test_a_backup_is_whole_and_bears_its_anchor(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "monday.ledger"
    copy.parent.mkdir()
    head = back_up(path, copy)
    assert Anchor.beside(copy).read() == head
    assert copy.stat().st_mode & 0o077 == 0
    with Ledger(path) as ledger, Ledger(copy) as other:
        assert ledger.verify() == other.verify() == head
    with pytest.raises(InvalidValue, match="already"):
        back_up(path, copy)


def test_a_backup_is_of_one_moment_while_others_write(path: Path, tmp_path: Path) -> None:
    writer = threading.Thread(target=_spend, args=(path, 60))
    writer.start()
    heads = [back_up(path, tmp_path / f"copy{number}") for number in range(5)]
    writer.join()
    assert [head.count for head in heads] == sorted(head.count for head in heads)
    with Ledger(path) as ledger:
        for head in heads:
            ledger.verify(anchor=head)  # each was a moment of it


def test_what_is_no_older_than_the_anchor_is_restored(path: Path, tmp_path: Path) -> None:
    head = back_up(path, tmp_path / "copy")
    with pytest.raises(InvalidValue, match="knows more than any copy"):
        restore(tmp_path / "copy", path)
    _lose(path)
    assert restore(tmp_path / "copy", path) == head
    _spend(path)


def test_an_older_one_is_refused_and_leaves_the_place_as_it_was(path: Path, tmp_path: Path) -> None:
    back_up(path, tmp_path / "copy")
    _spend(path)
    _lose(path)
    noted = Anchor.beside(path).read()
    with pytest.raises(LedgerCorrupt, match="had come to event 10, and the copy ends at 8"):
        restore(tmp_path / "copy", path)
    assert not path.exists() and Anchor.beside(path).read() == noted


def test_an_anchor_elsewhere_refuses_it_too(tmp_path: Path) -> None:
    path, away = tmp_path / "p.ledger", tmp_path / "away" / "note"
    away.parent.mkdir()
    _spend(path, 2, away)
    back_up(path, tmp_path / "copy", anchor=away)
    _spend(path, 1, away)
    _lose(path, anchor=True)
    with pytest.raises(LedgerCorrupt, match="counts as spent"):
        restore(tmp_path / "copy", path, anchor=away)
    assert not path.exists() and not path.with_name("p.ledger-anchor").exists()


def test_another_ledger_is_no_backup_of_this_one(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ledger"
    _spend(other, 9)
    back_up(other, tmp_path / "copy")
    _lose(path)
    with pytest.raises(LedgerCorrupt):
        restore(tmp_path / "copy", path)
    assert not path.exists()


def test_where_no_anchor_is_left_that_is_said(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    back_up(path, tmp_path / "copy")
    _lose(path, anchor=True)
    restore(tmp_path / "copy", path)
    assert "after event 8 is forgotten" in caplog.text


@pytest.mark.parametrize("kind", ["file", "ledger"])
def test_where_the_anchor_that_is_named_says_nothing_that_is_said(
    path: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A slip in its path makes a new anchor, which would hold whatever came back."""
    back_up(path, tmp_path / "copy")
    _spend(path)
    _lose(path, anchor=True)
    (away := tmp_path / "away").mkdir()
    anchor = str(away / "slip") if kind == "file" else f"sqlite:///{away}/slip.ledger"
    restore(tmp_path / "copy", path, anchor=anchor)
    assert "after event 8 is forgotten" in caplog.text
    caplog.clear()
    _lose(path, anchor=True)
    restore(tmp_path / "copy", path, anchor=anchor)  # which knows by now
    assert not caplog.text


def test_a_damaged_copy_is_not_restored(path: Path, tmp_path: Path) -> None:
    back_up(path, tmp_path / "copy")
    content = bytearray((tmp_path / "copy").read_bytes())
    place = content.index(b'"mechanism":"noise"') + 14
    content[place] ^= 1
    (tmp_path / "copy").write_bytes(content)
    _lose(path)
    with pytest.raises(LedgerCorrupt):
        restore(tmp_path / "copy", path)


def test_the_command_line_backs_up_and_restores(path: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(application("ledger"), ["ledger", *arguments], catch_exceptions=False).stdout

    told = json.loads(run("backup", str(path), str(tmp_path / "copy"), "--json"))
    assert told["events"] == 8
    _lose(path)
    assert f"{told['events']}:{told['head']}" in run("restore", str(tmp_path / "copy"), str(path)).replace("\n", "")


GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "ledgers").glob("*.ledger.gz"))
"""A ledger of every format that there was, written by the code of its time; what is newest in each is its name."""


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name.partition(".")[0])
def test_ledgers_of_every_earlier_format_go_on(golden: Path, tmp_path: Path) -> None:
    """Opened, verified, spent from, left unread and taken up, grown, backed up and restored."""
    path = tmp_path / "old.ledger"
    path.touch(mode=0o600)
    path.write_bytes(gzip.decompress(golden.read_bytes()))
    with Ledger(path) as ledger:
        before, pending = ledger.entries(), len(ledger.pending())
        assert sorted(map(str, (entry.state for entry in before)))[:3] == ["committed"] * 3
        assert {"void", "lost"} <= {str(entry.state) for entry in before}
        budget = next(item for item in ledger.budgets() if item.whole is None)
        spent = ledger.spent(budget)
        assert spent == sum(
            Fraction(entry.cost if entry.budget == budget.id else entry.whole_cost or 0)
            for entry in before
            if entry.counts
        )
        ledger.grow(budget, n=budget.n, schema={"new": "int64"})
        asked = ledger.charge(budget, GaussianProfile(2**-10), {})
        right = ledger.reserve(budget, GaussianProfile(2**-10), {}, key="again and again")
        assert isinstance(right, Reservation)
        ledger.leave_unread(right.entry, note="the database is down")
        assert len(ledger.pending()) == pending + 1 and ledger.pending()[-1].unread
        assert ledger.spent(budget) == spent + Fraction(asked.cost)
        taken = ledger.reserve(budget, GaussianProfile(2**-10), {}, key="again and again")
        assert isinstance(taken, Reservation) and taken.entry == right.entry
        ledger.commit(taken, {"value": 2})
        assert ledger.entries()[: len(before)] == before
        assert ledger.spent(budget) == spent + Fraction(asked.cost)
    head = back_up(path, tmp_path / "copy")
    _lose(path)
    assert restore(tmp_path / "copy", path) == head
