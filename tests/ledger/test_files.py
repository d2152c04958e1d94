"""The ledger's files: whose they are, and what happens when they are moved, removed or swapped under an open ledger."""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable, SottovoceError
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger, Reservation, files, opening
from sottovoce.service.ledger.anchor import Anchor

BUDGET = RenyiDP(2, 1.0)


def reserve(ledger: Ledger, mu: float = 0.1) -> Reservation:
    right = ledger.reserve(ledger.budget("patients"), GaussianProfile(mu), {"mechanism": "noise"})
    assert isinstance(right, Reservation)
    return right


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger(tmp_path / "patients.ledger", create=True) as ledger:
        ledger.open_budget("patients", BUDGET, n=100, schema={})
    return tmp_path / "patients.ledger"


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def test_every_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: None) -> None:
    for place in ("here", "elsewhere"):
        (tmp_path / place).mkdir()
    with Ledger(tmp_path / "here" / "x.ledger", create=True, anchor=tmp_path / "elsewhere" / "x.note") as ledger:
        ledger.open_budget("patients", BUDGET, n=100, schema={})
        reserve(ledger)
        found = modes(tmp_path / "here") | modes(tmp_path / "elsewhere")
    assert set(found) == {"x.ledger", "x.ledger-wal", "x.ledger-shm", "x.ledger-anchor", "x.note"}
    assert set(found.values()) == {0o600}


def test_a_ledger_that_others_may_read_is_pointed_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.chmod(0o644)
    with Ledger(path):
        assert "is open to other users" in caplog.text
    assert stat.S_IMODE(path.stat().st_mode) == 0o644  # whoever shared it may have meant to


def removed(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.ledger"))


def copied_over(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def made_anew(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-anchor"):
        path.with_name(path.name + suffix).unlink()
    with Ledger(path, create=True) as fresh:
        fresh.open_budget("patients", BUDGET, n=100, schema={})


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def without_its_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def with_another_log(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    shutil.copy(log, path.with_name("copy"))
    path.with_name("copy").rename(log)


def without_its_locks(path: Path) -> None:
    path.with_name(f"{path.name}-shm").unlink()


SWAPS = [removed, moved, copied_over, made_anew, a_pipe, without_its_log, with_another_log, without_its_locks]


@pytest.mark.parametrize("swap", SWAPS)
def test_nothing_is_charged_or_told_once_the_file_is_another(path: Path, swap: Callable[[Path], None]) -> None:
    with Ledger(path) as ledger:
        first, second = reserve(ledger), reserve(ledger)
        ledger.commit(first, {"value": 1})
        swap(path)
        for act in (
            lambda: reserve(ledger),
            lambda: ledger.commit(second, {"value": 2}),
            lambda: ledger.void(second, "never mind"),
            lambda: ledger.open_budget("others", BUDGET, n=1, schema={}),
            ledger.verify,
            lambda: ledger.budget("patients"),
        ):
            with pytest.raises(LedgerCorrupt, match=r"was (removed|replaced).* while it was open"):
                act()


def test_a_file_put_back_is_not_trusted_before_it_is_opened_anew(path: Path) -> None:
    with Ledger(path) as ledger:
        moved(path)
        with pytest.raises(LedgerCorrupt, match="was removed"):
            reserve(ledger)
        path.with_name("moved.ledger").rename(path)
        with pytest.raises(LedgerCorrupt, match="was removed"):
            reserve(ledger)
    with Ledger(path) as ledger:
        reserve(ledger)


def test_a_file_that_is_back_at_the_second_look_is_refused_for_the_first(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path) as ledger:
        budget, honest, looked = ledger.budget("patients"), os.stat, list[str]()

        def gone_once(name: str) -> os.stat_result:
            looked.append(name)
            if looked == [str(path)]:
                raise FileNotFoundError(2, "No such file or directory")
            return honest(name)

        monkeypatch.setattr(files, "os", SimpleNamespace(stat=gone_once, getpid=os.getpid))
        with pytest.raises(LedgerUnavailable, match="its files were changed a moment ago"):
            ledger.reserve(budget, GaussianProfile(0.1), {})
        monkeypatch.undo()
        assert ledger.spent(budget) == 0
        reserve(ledger)


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_log_that_is_cut_off_is_found_before_anything_is_written_behind_the_cut(path: Path, left: float) -> None:
    log = path.with_name(path.name + "-wal")
    with Ledger(path) as ledger:
        reserve(ledger)
        reserve(ledger)  # which knows the total, and asks nothing
        os.truncate(log, shorter := int(log.stat().st_size * left))
        for act in (lambda: reserve(ledger), lambda: ledger.spent(ledger._known[2]), ledger.verify):
            with pytest.raises(LedgerCorrupt, match=r"-wal of the ledger .* was cut off while it was open"):
                act()
        assert log.stat().st_size == shorter
    with pytest.raises(LedgerCorrupt):
        Ledger(path)


def test_a_log_that_was_copied_into_the_file_may_be_cut(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    with Ledger(path) as ledger:
        reserve(ledger)
        with contextlib.closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert log.stat().st_size == 0
        reserve(ledger)
        count = ledger.verify().count
    with Ledger(path) as ledger:
        assert ledger.verify().count == count


@pytest.mark.parametrize("lost", [0, 1])
def test_a_log_that_someone_still_reads_need_only_be_long_enough(path: Path, lost: int) -> None:
    """What was written after a reader began cannot be copied before it ends; that alone is no damage."""
    log = path.with_name(path.name + "-wal")
    with Ledger(path) as ledger, Ledger(path) as another, contextlib.closing(sqlite3.connect(path)) as other:
        for _ in range(3):
            reserve(ledger)
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        reserve(another)
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM sqlite_schema").fetchall()
        reserve(another)
        os.truncate(log, shorter := log.stat().st_size - lost)
        if lost:
            with pytest.raises(LedgerUnavailable, match="were changed a moment ago"):
                reserve(ledger)
            assert log.stat().st_size == shorter
        else:
            reserve(ledger)
            ledger.verify()


def test_what_keeps_anyone_from_looking_at_a_shorter_log_says_nothing_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path) as ledger:
        reserve(ledger)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with monkeypatch.context() as patch:  # as where too many files are open
            patch.setattr(ledger._store._files, "_connect", lambda: sqlite3.connect(path / "nowhere"))
            with pytest.raises(LedgerUnavailable, match="unable to open"):
                reserve(ledger)
        reserve(ledger)
        ledger.verify()


def test_whoever_copies_the_log_meanwhile_is_let_by(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one may copy it, and waits until nobody writes, while the one who writes waits to look at it."""
    copied: list[tuple[int, int, int]] = []

    def copy() -> None:
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as copier:
            while (row := copier.execute("PRAGMA wal_checkpoint(FULL)").fetchone())[1] < 0:
                pass  # the look below came first
            copied.append(row)

    with Ledger(path) as ledger, contextlib.closing(sqlite3.connect(path)) as other:
        for _ in range(3):
            right = reserve(ledger)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        honest, thread = ledger._store._connect, threading.Thread(target=copy)

        def meanwhile() -> sqlite3.Connection:
            if not thread.ident:
                thread.start()
                while not copied and not other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0]:
                    pass
            return honest()

        monkeypatch.setattr(ledger._store._files, "_connect", meanwhile)
        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: thread.join(60))
        monkeypatch.setattr(files, "time", clock)
        ledger.commit(right, {"value": 1})
        assert copied[0][0] == 0
        ledger.verify()


def test_a_swap_in_the_middle_of_a_transaction_is_found_too(path: Path) -> None:
    with Ledger(path) as ledger:
        right = reserve(ledger)
        with pytest.raises(LedgerCorrupt, match="was replaced"), ledger._writing() as transaction:
            transaction.lock_head()
            copied_over(path)
        with pytest.raises(LedgerCorrupt, match="was replaced"):
            ledger.commit(right, {"value": 1})


def test_answers_told_never_outnumber_those_covered(tmp_path: Path) -> None:
    """Ten answers are covered; the file is replaced by an empty copy of itself after the fifth."""
    import pyarrow as pa

    place = tmp_path / "patients.ledger"
    mech = DiffusedPosterior.calibrate(BetaBernoulli(6, 12), n=100, target=RenyiDP(2, 0.01))
    told = 0
    with Curator(pa.table({"s": [True, False] * 50}), place, RenyiDP(2, 0.1), dataset="p") as curator:
        shutil.copy(place, tmp_path / "old")
        for turn in range(30):
            if turn == 5:
                (tmp_path / "old").rename(place)
            try:
                curator.release(mech, "s")
                told += 1
            except SottovoceError:
                pass
    assert told == 5
    with Ledger(place) as ledger:  # the log is still there, so the old copy catches up with all of them
        assert [str(entry.state) for entry in ledger.entries()] == ["committed"] * 5


def test_a_symbolic_link_leads_to_one_ledger_with_one_anchor(path: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "p.ledger"
    link.symlink_to(path)
    with Ledger(path) as ledger, Ledger(link) as linked:
        reserve(ledger)
        reserve(linked)
        assert len(ledger.entries()) == len(linked.entries()) == 2
    assert [file.name for file in link.parent.iterdir()] == ["p.ledger"]  # log and anchor lie beside the file itself


def test_links_that_lead_round_in_a_circle_lead_to_no_ledger(tmp_path: Path) -> None:
    """They had been a RuntimeError of Python's own."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.symlink_to(there)
    there.symlink_to(here)
    for create in (False, True):
        for place in (here, here / "below.ledger", f"sqlite:///{here}"):
            with pytest.raises(LedgerUnavailable, match="its links go round in a circle"):
                Ledger(place, create=create)
    with pytest.raises(LedgerUnavailable, match="its links go round in a circle"):
        Ledger(tmp_path / "sound.ledger", create=True, anchor=here)


def test_a_swapped_link_is_found(path: Path, tmp_path: Path) -> None:
    with Ledger(tmp_path / "other.ledger", create=True) as other:
        other.open_budget("patients", BUDGET, n=100, schema={})
    link = tmp_path / "link.ledger"
    link.symlink_to(path)
    with Ledger(link) as ledger:
        reserve(ledger)
        link.unlink()
        link.symlink_to(tmp_path / "other.ledger")
        with pytest.raises(LedgerCorrupt, match="was replaced by another file"):
            reserve(ledger)
    with Ledger(tmp_path / "other.ledger") as other:
        assert other.entries() == []


def test_a_swapped_folder_is_found(path: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with Ledger(tmp_path / name / "p.ledger", create=True) as one:
            one.open_budget("patients", BUDGET, n=100, schema={})
    with Ledger(tmp_path / "a" / "p.ledger") as ledger:
        (tmp_path / "a").rename(tmp_path / "c")
        (tmp_path / "b").rename(tmp_path / "a")
        with pytest.raises(LedgerCorrupt, match="was replaced"):
            reserve(ledger)


def test_a_hard_link_is_refused_and_may_be_removed(path: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.ledger"
    with Ledger(path) as ledger:
        second.hardlink_to(path)
        with pytest.raises(LedgerUnavailable, match=r"has 2 names \(hard links\)"):
            reserve(ledger)
        with pytest.raises(LedgerUnavailable, match="has 2 names"):
            Ledger(second)
        second.unlink()
        reserve(ledger)


def test_a_creator_killed_before_its_last_step_leaves_a_sound_ledger(path: Path, tmp_path: Path) -> None:
    draft = tmp_path / f"patients.ledger-{'0' * 16}"
    draft.hardlink_to(path)
    with Ledger(path) as ledger:
        reserve(ledger)
    assert not draft.exists()


def test_a_ledger_given_by_a_relative_path_stays_where_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with Ledger(path.name) as ledger:
        monkeypatch.chdir("/")
        reserve(ledger)
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize("place", ["/dev/null", "/dev/zero"])
def test_a_device_is_no_ledger(place: str) -> None:
    with pytest.raises(LedgerUnavailable, match="no plain file"):
        Ledger(place, create=True)


def within(seconds: float, act: Callable[[], object]) -> list[object]:
    """Return what an act returned or raised; fail where it hangs."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(act())
        except SottovoceError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return outcome


def test_a_pipe_as_anchor_is_refused_and_never_waited_for(path: Path, tmp_path: Path) -> None:
    beside, apart = path.with_name("patients.ledger-anchor"), tmp_path / "pipe"
    os.mkfifo(apart)
    (error,) = within(30, lambda: Ledger(path, anchor=apart))
    assert isinstance(error, LedgerUnavailable) and "no plain file" in str(error)
    beside.unlink()
    os.mkfifo(beside)
    (error,) = within(30, lambda: Ledger(path))
    assert isinstance(error, LedgerUnavailable) and "no plain file" in str(error)


@pytest.mark.parametrize("place", ["/dev/null", "/dev/zero", "/dev/tty"])
def test_a_device_as_anchor_is_refused(path: Path, place: str) -> None:
    (error,) = within(30, lambda: Ledger(path, anchor=place))
    assert isinstance(error, LedgerUnavailable)


def test_a_pipe_put_in_an_open_anchors_place_does_not_hang(path: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Ledger(path, anchor=note) as ledger:
        note.unlink()
        os.mkfifo(note)
        (error,) = within(30, lambda: reserve(ledger))
        assert isinstance(error, LedgerUnavailable) and "counts as spent" in str(error)
    with Ledger(path) as ledger:
        assert len(ledger.pending()) == 1


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Windows as far as a ledger meets it: opens no folder, syncs only what it may write, and lacks some calls.

    Returns the inodes of the files that were synced.
    """
    really_open, really_sync, synced = os.open, os.fsync, list[int]()

    def opened(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, mode)

    def sync(file: int) -> None:
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor")
        synced.append(os.fstat(file).st_ino)
        really_sync(file)

    monkeypatch.setattr(opening, "_WINDOWS", True)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "fsync", sync)
    for call in ("pread", "pwrite", "geteuid"):
        monkeypatch.delattr(os, call)
    return synced


def test_a_ledger_lives_on_windows(windows: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Created whole, its name synced with it; notes are kept, by several threads too, and a shorter ledger is found."""
    path, note = tmp_path / "w.ledger", tmp_path / "w.note"
    with Ledger(path, create=True, anchor=note) as ledger:
        ledger.open_budget("patients", BUDGET, n=100, schema={})
        shutil.copy(path, tmp_path / "early")
        shutil.copy(f"{path}-wal", tmp_path / "early-wal")
        threads = [threading.Thread(target=reserve, args=(ledger, 0.01)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(note.read_bytes()) == 100
        assert Anchor(note).read().count == 2 + 8  # created, opened, and what was reserved
    path.chmod(0o666)
    with Ledger(path, anchor=note) as ledger:
        ledger.verify()
    assert "chmod" not in caplog.text
    assert windows == [path.stat().st_ino] * 2  # whole under another name, then under its own
    shutil.copy(tmp_path / "early", path)
    shutil.copy(tmp_path / "early-wal", f"{path}-wal")
    with pytest.raises(LedgerCorrupt, match="lost"):
        Ledger(path, anchor=note)
