"""Checkpoints: a long ledger opens from one, and no damage to ledger or checkpoint makes it say more than is true."""

import json
import logging
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sottovoce.faces.cli import main
from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Entry, Head, Ledger, Reservation, State, checkpoint, transaction
from sottovoce.service.ledger.hash_chain import EMPTY, canonical, digest
from sottovoce.service.ledger.replay import Replay
from support.chain import next_event

from .test_replay import PROFILE, Story, commit, reserve, shared_story, story
from .test_verification import EVENTS, Intruder

QUIET = GaussianProfile(0.05)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the owner's own, and checkpoints already after ten events."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("sottovoce.service.ledger.reading.WORTHWHILE", 10)
    return tmp_path / "state" / "sottovoce"


def the_checkpoint(home: Path) -> Path:
    (path,) = home.glob("*.checkpoint")
    return path


def ask(ledger: Ledger, budget: Budget, count: int, **options: Any) -> None:
    for i in range(count):
        right = ledger.reserve(budget, QUIET, {"mechanism": f"noise {i}"}, who="ada", **options)
        assert isinstance(right, Reservation)
        ledger.commit(right, {"value": i})


@pytest.fixture
def long(url: str, ledger: Ledger, budget: Budget) -> Budget:
    """A ledger of 24 events with a checkpoint at the last, then four more."""
    ask(ledger, budget, 11)
    with Ledger(url) as other:
        assert other.opened == (EMPTY, other.verify())
    ask(ledger, budget, 2)
    return budget


@pytest.mark.usefixtures("long")
class TestALedgerWithACheckpoint:
    def test_opens_from_it_and_says_the_same(self, ledger: Ledger, long: Budget, url: str, home: Path) -> None:
        with Ledger(url) as quick:
            assert [head.count for head in quick.opened] == [24, 28]
            assert quick.budgets() == ledger.budgets() == [long]
            assert quick.spent(long) == ledger.spent(long) == 13 * Fraction(0.05**2)
            assert quick.opened[1] == quick.verify()
            ask(quick, quick.budget("patients"), 1)
        the_checkpoint(home).unlink()
        with Ledger(url) as slow:
            assert [head.count for head in slow.opened] == [0, 30]

    def test_is_not_read_whole(self, intruder_of: Callable[[], Intruder], url: str) -> None:
        """What opening skips, `verify` finds: that is what makes the opening quick."""
        intruder_of().run(f"UPDATE {EVENTS} SET body = replace(body, 'ada', 'eve') WHERE sequence = 5")
        with Ledger(url) as quick:
            assert quick.opened[0].count == 24
            with pytest.raises(LedgerCorrupt, match="event 5 was altered"):
                quick.verify()
            with pytest.raises(LedgerCorrupt, match="event 5 was altered"):
                quick.entries()

    @pytest.mark.parametrize("gone", ["sequence = 1", "sequence = 7", "sequence BETWEEN 3 AND 20"])
    def test_verify_finds_events_removed_before_it(
        self, intruder_of: Callable[[], Intruder], url: str, gone: str
    ) -> None:
        intruder_of().run(f"DELETE FROM {EVENTS} WHERE {gone}")
        with Ledger(url) as quick, pytest.raises(LedgerCorrupt, match=r"event \d+ is missing"):
            quick.verify()

    @pytest.mark.parametrize(
        ("statement", "said"),
        [
            (f"UPDATE {EVENTS} SET body = replace(body, 'ada', 'eve') WHERE sequence = 27", "event 27 was altered"),
            (f"DELETE FROM {EVENTS} WHERE sequence = 26", "event 26 is missing"),
            (f"DELETE FROM {EVENTS} WHERE sequence = 28", "event 28 is|events 28 to 28 are missing"),
            (f"DELETE FROM {EVENTS} WHERE sequence >= 20", "events 20 to 28 are missing"),
            (f"UPDATE {EVENTS} SET body = replace(body, '1.0', '9.0') WHERE sequence = 2", "event 2 was altered"),
            (f"UPDATE {EVENTS} SET hash = '{'0' * 64}' WHERE sequence = 24", "event 24 was altered"),
            (f"UPDATE {EVENTS} SET spent = '0' WHERE sequence = 27", "event 27 was altered"),
            ("UPDATE sottovoce_head SET count = 27", "the head says"),
        ],
    )
    def test_what_a_release_leans_on_is_checked_on_opening(
        self, intruder_of: Callable[[], Intruder], url: str, statement: str, said: str
    ) -> None:
        intruder_of().run(statement)
        with pytest.raises(LedgerCorrupt, match=said):
            Ledger(url)

    @pytest.mark.parametrize("place", [0, -7, 9])
    def test_a_second_budget_forged_before_it_is_not_charged(
        self, ledger: Ledger, long: Budget, intruder_of: Callable[[], Intruder], url: str, place: int
    ) -> None:
        """Sealed by its own hash, and found by the name of the data before the true one, which was opened later."""
        late = ledger.open_budget("late", RenyiDP(2, 1.0), n=9, schema={})
        ask(ledger, late, 10)
        assert ledger.leave_checkpoint().count > late.id > long.id
        with intruder_of().engine.connect() as connection:
            rows = {row.sequence: row for row in connection.execute(sa.text(f"SELECT * FROM {EVENTS}"))}
        content = json.loads(rows[late.id].body)
        for name in ("sequence", "kind", "budget", "entry", "key", "spent"):
            del content[name]
        before = Head(place - 1, rows[place - 1].hash if place > 1 else "")
        forged = next_event(before, "open", content, budget=place, key="late", spent="0")
        intruder_of().run(f"DELETE FROM {EVENTS} WHERE sequence = {place}")
        names = ", ".join(f":{name}" for name in forged._fields)
        intruder_of().run(f"INSERT INTO {EVENTS} VALUES ({names})", **forged._asdict())

        def open_and_ask() -> None:
            with Ledger(url) as quick:
                quick.reserve(quick.budget("late"), QUIET, {"mechanism": "noise"})

        with pytest.raises(LedgerCorrupt, match=f"event {place} opens a budget of 'late', and was forged|event 1 is"):
            open_and_ask()

    def test_the_last_note_of_another_ledger_is_compared(
        self, ledger: Ledger, intruder_of: Callable[[], Intruder], url: str
    ) -> None:
        ledger.note("other", Head(7, digest("seven")))
        ledger.note("other", Head(8, digest("eight")))
        ledger.note("third", Head(1, digest("one")))
        ledger.leave_checkpoint()
        with Ledger(url) as quick:
            assert quick.opened[0].count == 31
            assert quick.noted("other").count == 8
        forged = f"UPDATE {EVENTS} SET body = replace(body, :true, :false) WHERE sequence = 30"
        intruder_of().run(forged, true='"count":8', false='"count":7')
        with pytest.raises(LedgerCorrupt, match="event 30 was altered"):
            Ledger(url)

    def test_a_total_that_was_moved_out_of_sight_is_found(self, intruder_of: Callable[[], Intruder], url: str) -> None:
        """The last event of a budget that nobody asked since lies before the checkpoint: its total is compared."""
        with Ledger(url) as ledger:
            idle = ledger.open_budget("idle", RenyiDP(2, 1.0), n=9, schema={})
            ask(ledger, idle, 1)
            ask(ledger, ledger.budget("patients"), 5)
            ledger.verify()
        intruder_of().run(f"UPDATE {EVENTS} SET spent = '0' WHERE sequence = 30")
        with pytest.raises(LedgerCorrupt, match="event 30 was altered"):
            Ledger(url)

    def test_an_earlier_answer_is_checked_before_it_is_told_again(
        self, intruder_of: Callable[[], Intruder], url: str
    ) -> None:
        with Ledger(url) as ledger:
            ask(ledger, ledger.budget("patients"), 1, key="monday")
            ask(ledger, ledger.budget("patients"), 5)
            ledger.verify()
        intruder_of().run(f"UPDATE {EVENTS} SET value = 'forged' WHERE sequence = 30")
        with Ledger(url) as ledger:
            assert ledger.opened[0].count == 40
            with pytest.raises(LedgerCorrupt, match="event 30 was altered: its value"):
                ledger.reserve(ledger.budget("patients"), QUIET, {"mechanism": "noise 0"}, key="monday")

    def test_an_answer_forged_with_a_hash_of_its_own_is_not_told_again(
        self, intruder_of: Callable[[], Intruder], url: str
    ) -> None:
        """Sound by itself: only that nothing after it follows from it gives the forgery away."""
        asked = QUIET, {"mechanism": "noise 0"}
        with Ledger(url) as ledger:
            ask(ledger, ledger.budget("patients"), 1, key="monday")
            ask(ledger, ledger.budget("patients"), 5)
            ledger.verify()
        with Ledger(url) as ledger:
            honest = ledger.reserve(ledger.budget("patients"), *asked, key="monday")
            assert isinstance(honest, Entry) and ledger.find_entry(ledger.budget("patients"), honest.id) == honest
        forger = intruder_of()
        (before, _), (_, body) = forger.run(
            f"SELECT hash, body FROM {EVENTS} WHERE sequence IN (29, 30) ORDER BY sequence"
        )
        value = canonical({"value": 99})
        forged = canonical(json.loads(body) | {"value_hash": digest(value)})
        forger.run(
            f"UPDATE {EVENTS} SET body = :body, value = :value, hash = :hash WHERE sequence = 30",
            body=forged,
            value=value,
            hash=digest(f"{before}\n{forged}"),
        )
        with Ledger(url) as ledger:
            budget = ledger.budget("patients")
            assert ledger.opened[0].count == 40
            for _ in range(2):
                with pytest.raises(LedgerCorrupt, match="event 31 was altered"):
                    ledger.reserve(budget, *asked, key="monday")
                with pytest.raises(LedgerCorrupt, match="event 31 was altered"):
                    ledger.find_entry(budget, 29)
            assert ledger.find_entry(budget, 33) is not None  # what came after is what it was

    def test_a_history_rewritten_whole_is_refused(self, intruder_of: Callable[[], Intruder], url: str) -> None:
        """Without an anchor of any kind: the checkpoint lies where the intruder cannot write."""
        intruder_of().run(f"UPDATE {EVENTS} SET body = replace(body, 'ada', 'eve') WHERE sequence = 5")
        intruder_of().reseal()
        _remove_anchor(url)
        with pytest.raises(LedgerCorrupt, match="event 24 is not the one that was noted"):
            Ledger(url)

    def test_a_ledger_that_went_back_behind_it_is_refused(self, intruder_of: Callable[[], Intruder], url: str) -> None:
        intruder_of().run(f"DELETE FROM {EVENTS} WHERE sequence > 20")
        intruder_of().reseal()
        _remove_anchor(url)
        with pytest.raises(LedgerCorrupt, match="ends at event 20, and event 24 was once written"):
            Ledger(url)

    @pytest.mark.parametrize(
        "damage",
        [
            lambda text: b"",
            lambda text: text[:-1],
            lambda text: text + b" ",
            lambda text: text.replace(b'"2":"', b'"2":"-'),
            lambda text: b"0" * 64 + text[64:],
            lambda text: text.partition(b"\n")[2],
            lambda text: b"\xff" + text,
            lambda text: b"\n{}",
        ],
    )
    def test_a_damaged_or_forged_checkpoint_is_not_used(
        self, url: str, home: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
    ) -> None:
        path = the_checkpoint(home)
        sound = path.read_bytes()
        assert damage(sound) != sound
        path.write_bytes(damage(sound))
        with caplog.at_level(logging.WARNING), Ledger(url) as ledger:
            assert [head.count for head in ledger.opened] == [0, 28]
        assert "not used" in caplog.text
        with Ledger(url) as ledger:  # all was verified, and so a new one was left
            assert [head.count for head in ledger.opened] == [28, 28]

    @pytest.mark.parametrize("state", [{}, {"head": [0, ""]}])
    def test_one_that_holds_no_state_is_not_used(
        self, url: str, home: Path, caplog: pytest.LogCaptureFixture, state: dict[str, Any]
    ) -> None:
        """However well it is sealed. It had been a KeyError."""
        sealed = json.loads(the_checkpoint(home).read_text(encoding="ascii").partition("\n")[2])
        checkpoint.Checkpoints(sealed["ledger"]).write(state)
        with caplog.at_level(logging.WARNING), Ledger(url) as ledger:
            assert [head.count for head in ledger.opened] == [0, 28]
        assert "holds no state of a ledger; it is not used, and all is verified" in caplog.text

    @pytest.mark.parametrize("secret", [b"another secret of 32 bytes......", b"", b"short", None])
    def test_one_that_another_secret_sealed_is_not_used(self, url: str, home: Path, secret: bytes | None) -> None:
        path = home / "checkpoints.key"
        path.unlink() if secret is None else path.write_bytes(secret)
        with Ledger(url) as ledger:
            assert ledger.opened[0] == EMPTY

    def test_a_secret_that_others_can_read_seals_nothing(self, url: str, home: Path) -> None:
        (home / "checkpoints.key").chmod(0o640)
        for _ in range(2):
            with Ledger(url) as ledger:
                assert ledger.opened[0] == EMPTY

    def test_one_of_another_ledger_is_not_used(self, tmp_path: Path, url: str, home: Path) -> None:
        mine = the_checkpoint(home)
        with Ledger(tmp_path / "other.ledger", create=True) as other:
            ask(other, other.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={}), 11)
            other.verify()
        (theirs,) = set(home.glob("*.checkpoint")) - {mine}
        mine.write_bytes(theirs.read_bytes())
        with Ledger(url) as ledger:
            assert ledger.opened[0] == EMPTY

    def test_an_older_one_serves_as_well(self, url: str, home: Path) -> None:
        path = the_checkpoint(home)
        old = path.read_bytes()
        with Ledger(url) as ledger:
            ask(ledger, ledger.budget("patients"), 6)
            ledger.verify()
        assert path.read_bytes() != old
        path.write_bytes(old)
        with Ledger(url) as ledger:
            assert [head.count for head in ledger.opened] == [24, 40]
        with Ledger(url) as ledger:  # 16 events were verified, enough for a new one
            assert [head.count for head in ledger.opened] == [40, 40]

    def test_an_anchor_from_before_it_is_still_compared(self, ledger: Ledger, tmp_path: Path, url: str) -> None:
        note = tmp_path / "elsewhere" / "note"
        note.parent.mkdir()
        with Ledger(url, anchor=note) as noted:
            assert noted.opened[0].count == 24
        line = note.read_text().strip().split(" ")[0]
        forged = Head(7, digest("another history"))
        note.write_text(f"{forged} {digest(str(forged))[:8]}\n".rjust(100))
        with pytest.raises(LedgerCorrupt, match="event 7 is not the one that was noted outside"):
            Ledger(url, anchor=note)
        assert line == str(ledger.verify())

    def test_files_are_their_owners_alone(self, home: Path) -> None:
        assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o600}
        assert home.stat().st_mode & 0o777 == 0o700
        assert len((home / "checkpoints.key").read_bytes()) == 32


@pytest.fixture
def intruder_of(url: str, request: pytest.FixtureRequest) -> Callable[[], Intruder]:
    someone = Intruder(url)
    request.addfinalizer(someone.engine.dispose)
    return lambda: someone


def _remove_anchor(url: str) -> None:
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///") + "-anchor").unlink()


def test_a_short_ledger_is_verified_whole(ledger: Ledger, budget: Budget, url: str, home: Path) -> None:
    ask(ledger, budget, 3)
    for _ in range(2):
        with Ledger(url) as other:
            assert [head.count for head in other.opened] == [0, 8]
    assert not home.exists()


def test_where_there_is_no_home_everything_is_verified(
    ledger: Ledger, budget: Budget, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    ask(ledger, budget, 6)
    for _ in range(2):
        with Ledger(url) as other:
            assert [head.count for head in other.opened] == [0, 14]


def test_where_users_have_no_numbers_checkpoints_work_as_well(
    ledger: Ledger, budget: Budget, url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: neither owners nor bits for others, and files are opened as text unless said otherwise."""
    for name in ("geteuid", "O_CLOEXEC"):
        monkeypatch.delattr(checkpoint.os, name)
    ask(ledger, budget, 6)
    assert ledger.verify().count == 14
    (home / "checkpoints.key").chmod(0o666)
    with Ledger(url) as quick:
        assert [head.count for head in quick.opened] == [14, 14]


def test_what_a_dead_process_left_pending_is_known_from_a_checkpoint(
    ledger: Ledger, budget: Budget, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    part = ledger.open_budget("ada", RenyiDP(2, 0.5), n=100, schema={}, whole=budget)
    lost, given_up = (ledger.reserve(part, QUIET, {"mechanism": "noise"}, who="ada", key=name) for name in "ab")
    assert isinstance(lost, Reservation)
    assert isinstance(given_up, Reservation)
    ask(ledger, budget, 5)
    ledger.verify()
    ledger.void(given_up, "changed my mind")
    with caplog.at_level(logging.WARNING), Ledger(url) as other:
        assert [head.count for head in other.opened] == [17, 19]
        assert f"entry {lost.entry} of ada, reserved by ada" in caplog.text
        assert f"entry {given_up.entry} " not in caplog.text
        assert other.spent(part) == Fraction(0.05**2)
        assert other.spent(budget) == 6 * Fraction(0.05**2)
        other.recover(lost.entry, note="crashed")
        ask(other, other.budget("ada"), 1, key="b")
    with Ledger(url) as other:
        assert other.opened[0].count == 17
        assert [entry.state for entry in other.entries("ada")] == [State.LOST, State.VOID, State.COMMITTED]


def forge(url: str, kind: str, content: dict[str, Any], **columns: Any) -> None:
    """Append an event that is well sealed and breaks a rule."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        count, last = connection.execute(sa.text("SELECT count, hash FROM sottovoce_head")).one()
        event = next_event(Head(count, last), kind, content, **columns)
        values = ", ".join(f":{name}" for name in event._fields)
        connection.execute(sa.text(f"INSERT INTO {EVENTS} VALUES ({values})"), event._asdict())
        connection.execute(
            sa.text("UPDATE sottovoce_head SET count = :n, hash = :h"), {"n": event.sequence, "h": event.hash}
        )
    engine.dispose()


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_key_used_twice_is_found_without_remembering_every_key(
    ledger: Ledger, budget: Budget, url: str, checkpointed: bool
) -> None:
    ask(ledger, budget, 1, key="k")
    ask(ledger, budget, 5)
    if checkpointed:
        ledger.verify()
    total = ledger.spent(budget) + Fraction(0.05**2)
    content = {"request": {}, "profile": PROFILE, "cost": 0.05**2, "guard": digest("token"), "who": "eve", "at": "t"}
    forge(url, "reserve", content, budget=budget.id, entry=15, key="k", spent=str(total))
    with pytest.raises(LedgerCorrupt, match=r"event 15 \(reserve\) breaks the rules: its key was used already"):
        Ledger(url)


def test_a_key_given_back_may_be_used_again(ledger: Ledger, budget: Budget, url: str) -> None:
    for _ in range(3):
        right = ledger.reserve(budget, QUIET, {"mechanism": "noise"}, key="k")
        assert isinstance(right, Reservation)
        ledger.void(right, "not now")
    ask(ledger, budget, 1, key="k")
    ask(ledger, budget, 3)
    with Ledger(url) as other:
        assert other.verify().count == 16


@pytest.mark.parametrize("events", [story(), shared_story()], ids=["whole", "part"])
def test_a_replay_goes_on_from_anywhere_as_if_never_stopped(events: Story) -> None:
    """From each event on: the state goes through JSON, and the rest leads to what the whole leads to."""
    sealed, head = [], EMPTY
    for kind, content, columns in events:
        sealed.append(next_event(head, kind, content, **columns))
        head = Head(sealed[-1].sequence, sealed[-1].hash)
    whole = Replay()
    for event in sealed:
        whole.feed(event)
    for stop in range(1, len(sealed) + 1):
        first = Replay(forget=True)
        for event in sealed[:stop]:
            first.feed(event)
        if first.owed is not None:
            continue  # within a transaction: no ledger ever ends there
        later = Replay.resumed(json.loads(json.dumps(first.state())))
        for event in sealed[stop:]:
            later.feed(event)
        assert (later.head, later.spent, later.budgets) == (whole.head, whole.spent, whole.budgets)
        assert (later.version, later.layout) == (whole.version, whole.layout)
        assert later.entries == {n: entry for n, entry in whole.entries.items() if entry.state is State.PENDING}
        assert later.state() == Replay.resumed(later.state()).state()


@pytest.mark.parametrize(
    ("late", "said"),
    [
        (commit(3), "it lacks 3"),
        (commit(7), "it lacks 7"),
        (reserve(9, 0.25, "5/4"), "overspent"),
        (("void", {"token": "token", "note": "no", "at": "t"}, {"budget": 2, "entry": 5, "spent": "0"}), "it lacks 5"),
    ],
)
def test_rules_hold_across_a_checkpoint(late: tuple[str, dict[str, Any], dict[str, Any]], said: str) -> None:
    told, head = Replay(forget=True), EMPTY
    for kind, content, columns in story():
        event = next_event(head, kind, content, **columns)
        head = Head(event.sequence, event.hash)
        told.feed(event)
    with pytest.raises(LedgerCorrupt, match=said):
        Replay.resumed(told.state()).feed(next_event(head, late[0], late[1], **late[2]))


def test_memory_does_not_grow_with_the_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_NEXT", transaction._NEXT.replace("LIMIT 2000", "LIMIT 200"))
    peaks = []
    for count in (300, 900):
        with Ledger(tmp_path / f"{count}.ledger", create=True) as ledger:
            budget = ledger.open_budget("patients", RenyiDP(2, 1e6), n=100, schema={})
            _write_many(ledger, budget, count)
            tracemalloc.start()
            assert ledger.verify().count == 2 + 2 * count
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]  # three times as long, each of several batches


def _write_many(ledger: Ledger, budget: Budget, count: int) -> None:
    """Write so many entries in one transaction, with a key each: by the rules, and in a second."""
    value, total = '{"value":1}', Fraction(0)
    content = {"request": {}, "profile": PROFILE, "cost": 0.25, "guard": "g", "who": "ada", "at": "t"}
    with ledger._writing() as transaction:
        transaction.lock_head()
        for i in range(count):
            total, number = total + Fraction(0.25), transaction.head.count + 1
            columns = {"budget": budget.id, "entry": number}
            transaction.append("reserve", content, key=f"k{i}", spent=str(total), **columns)
            ended = {"value_hash": digest(value), "kept": True, "at": "t"}
            transaction.append("commit", ended, value=value, **columns)


def test_the_command_says_what_was_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "patients.ledger"
    with Ledger(path, create=True) as ledger:
        ask(ledger, ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={}), 6)

    def verify(*options: str) -> str:
        monkeypatch.setattr("sys.argv", ["sottovoce", "ledger", "verify", str(path), *options])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (None, 0)
        return " ".join(capsys.readouterr().out.split())

    assert "sound: 14 events, all of them verified" in verify()
    assert "sound: 14 events, all of them verified" in verify()  # and not from the checkpoint that it has now
    assert "sound since its checkpoint: 0 of 14 events verified; the 14 before it" in verify("--since-checkpoint")
    found = json.loads(verify("--since-checkpoint", "--json"))
    assert (found["ok"], found["verified"], found["checkpoint"]) == (True, 0, 14)
    assert json.loads(verify("--json"))["verified"] == 14


def test_the_folder_is_the_owners(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert checkpoint.folder() == tmp_path / "state" / "sottovoce"
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", unset)
        assert checkpoint.folder() == Path.home() / ".local" / "state" / "sottovoce"
