"""Power cuts and bad disks: a damaged file is never taken for a ledger with more budget left."""

import random
import shutil
from pathlib import Path

import pytest

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger, Reservation

PLACES = 200


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of 32 events, closed, so that all of it is in one file."""
    path = tmp_path_factory.mktemp("sound") / "patients.ledger"
    with Ledger(path, create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={"smoker": "boolean"})
        for i in range(15):
            right = ledger.reserve(budget, GaussianProfile(0.1), {"mechanism": "noise", "i": i}, key=f"k{i}")
            assert isinstance(right, Reservation)
            ledger.commit(right, {"value": [i / 7] * (1 + 20 * (i % 5))})
    assert not path.with_name("patients.ledger-wal").exists()
    return path


def contents(path: Path) -> str:
    """Return everything that a ledger says, or raise if it notices the damage."""
    with Ledger(path) as ledger:
        head = ledger.verify()
        budgets, entries = ledger.budgets(), ledger.entries()
        return repr((head, budgets, [(entry, entry.release) for entry in entries], ledger.spent(budgets[0])))


def damaged(sound: Path, folder: Path, data: bytes, *, anchor: bool = False) -> Path:
    path = folder / sound.name
    path.write_bytes(data)
    for suffix in ("-wal", "-shm", "-anchor"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    if anchor:
        shutil.copy(f"{sound}-anchor", f"{path}-anchor")
    return path


def test_no_truncation_goes_unseen(sound: Path, tmp_path: Path) -> None:
    whole, rng = sound.read_bytes(), random.Random(5)
    places = {0, 1, 99, 100, len(whole) - 1} | {4096 * page for page in range(len(whole) // 4096)}
    places |= {rng.randrange(len(whole)) for _ in range(PLACES)}
    for place in places:
        # Without the anchor beside it: the file must give itself away.
        with pytest.raises(LedgerCorrupt) as caught:
            contents(damaged(sound, tmp_path, whole[:place]))
        assert "\n" not in str(caught.value)


def test_a_flipped_bit_is_found_or_changes_nothing(sound: Path, tmp_path: Path) -> None:
    whole, truth, rng = sound.read_bytes(), contents(sound), random.Random(6)
    found = 0
    for _ in range(PLACES):
        place, flipped = rng.randrange(len(whole)), bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        path = damaged(sound, tmp_path, bytes(flipped))
        try:
            said = contents(path)
        except LedgerCorrupt:
            found += 1
        else:
            assert said == truth, f"byte {place} changed what the ledger says, unseen"
    # The rest fell where SQLite keeps nothing: the gap between a page's cells, the header's spare bytes.
    assert found > PLACES // 3


def test_a_flip_in_anything_recorded_is_found(sound: Path, tmp_path: Path) -> None:
    whole = sound.read_bytes()
    marks = [b'"cost":', b'"limit":', b'"value_hash":', b'"guard":', b'"profile":', b'"spent":', b"CREATE TABLE"]
    for mark in marks:
        place = whole.index(mark) + len(mark) + 2
        flipped = bytearray(whole)
        flipped[place] ^= 1
        with pytest.raises(LedgerCorrupt):
            contents(damaged(sound, tmp_path, bytes(flipped)))


@pytest.mark.parametrize("name", [b"sottovoce_spent", b"sottovoce_events", b"CREATE", b"TEXT", b"hash"])
def test_a_name_that_is_no_text_any_more_is_found(sound: Path, tmp_path: Path, name: bytes) -> None:
    # SQLite quotes the name in its complaint, which Python then cannot read.
    spoilt = sound.read_bytes().replace(name, name[:2] + b"\xcb" + name[3:], 1)
    with pytest.raises(LedgerCorrupt):
        contents(damaged(sound, tmp_path, spoilt))


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_name_that_became_bytes_is_found(sound: Path, tmp_path: Path, column: int) -> None:
    """One bit in the record of a trigger says whether its type, its own name and its table's are text."""
    flipped = bytearray(sound.read_bytes())
    record = flipped.index(b"triggersottovoce_no_update")
    kind = record - 6 + column  # before the values: three kinds of one byte each, and those of two values more
    assert flipped[kind] == 13 + 2 * len(("trigger", "sottovoce_no_update", "sottovoce_events")[column])
    flipped[kind] ^= 1
    with pytest.raises(LedgerCorrupt):
        contents(damaged(sound, tmp_path, bytes(flipped)))


def test_another_file_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 1000)
    with pytest.raises(LedgerCorrupt, match="is damaged, or is no ledger"):
        Ledger(path, create=True)
    assert path.read_text().startswith("dear diary")


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """A ledger whose last transactions are still in its write-ahead log, as a killed process leaves it."""
    path, copy = tmp_path / "live.ledger", tmp_path / "copy.ledger"
    with Ledger(path, create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
        for _ in range(5):
            ledger.reserve(budget, GaussianProfile(0.1), {"mechanism": "noise"})
        for suffix in ("", "-wal", "-anchor"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    return copy


def test_what_is_in_the_log_counts(unfinished: Path) -> None:
    with Ledger(unfinished) as ledger:
        assert len(ledger.pending()) == 5


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.99])
def test_a_damaged_log_is_found_though_sqlite_drops_it_in_silence(unfinished: Path, part: float) -> None:
    log = unfinished.with_name("copy.ledger-wal")
    whole = log.read_bytes()
    place = 60 + int(part * (len(whole) - 100))
    log.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
    with pytest.raises(LedgerCorrupt, match=r"the last \d are lost|holds no ledger"):
        Ledger(unfinished)


def test_a_truncated_log_is_found(unfinished: Path) -> None:
    log = unfinished.with_name("copy.ledger-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    with pytest.raises(LedgerCorrupt, match=r"the last \d are lost"):
        Ledger(unfinished)


def test_a_ledger_that_is_gone_is_not_started_anew(sound: Path, tmp_path: Path) -> None:
    path = damaged(sound, tmp_path, b"", anchor=True)
    path.unlink()
    with pytest.raises(LedgerCorrupt, match=r"is gone, and patients\.ledger-anchor says that it had come to event 32"):
        Ledger(path, create=True)
    assert not path.exists()


def test_an_older_copy_in_a_ledgers_place_is_found(sound: Path, tmp_path: Path) -> None:
    path = damaged(sound, tmp_path, sound.read_bytes(), anchor=True)
    with Ledger(path) as ledger:
        ledger.reserve(ledger.budget("patients"), GaussianProfile(0.1), {"mechanism": "one more"})
    shutil.copy(sound, path)
    with pytest.raises(LedgerCorrupt, match="ends at event 32, and event 33 was once written"):
        Ledger(path)
