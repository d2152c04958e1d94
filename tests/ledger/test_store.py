"""What goes wrong outside the ledger: one clear line, and the ledger whole."""

import gc
import os
import pwd
import sqlite3
import textwrap
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Ledger
from sottovoce.service.ledger.store import read_url
from sottovoce.service.ledger.transaction import Transaction
from support.nursery import told_by

SPEND = """
import os, resource, sys
import sqlalchemy as sa
from sottovoce.service.ledger import Ledger
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.gaussian import GaussianProfile
room, user = map(int, sys.argv[3:])
if room:  # no file may grow past this, as when the disk is full
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
if user:  # become one whom file permissions bind, once all is imported
    sa.create_engine("sqlite://")
    os.setgroups([]), os.setgid(user), os.setuid(user)
try:
    with Ledger(sys.argv[1]) as ledger:
        for i in range(int(sys.argv[2])):
            right = ledger.reserve(ledger.budget("patients"), GaussianProfile(0.01), {"padding": "x" * 1000})
            ledger.commit(right, {"value": i})
            print(right.entry, flush=True)
except SottovoceError as error:
    print(type(error).__name__, error)
"""


def spend_elsewhere(path: Path, times: int, *, room: int = 0, user: int = 0) -> list[str]:
    """Spend in another process; return what it printed."""
    return told_by(SPEND, path, times, room, user).splitlines()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger(tmp_path / "patients.ledger", create=True) as ledger:
        ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
    return tmp_path / "patients.ledger"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://host/x", "lives in sqlite or postgresql"),
        ("sqlite://", "must outlive its process"),
        ("sqlite:///:memory:", "must outlive its process"),
        ("postgresql://host:port/x", "cannot read the ledger's address"),
    ],
)
def test_an_address_that_is_none(url: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Ledger(url)


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    odd = tmp_path / "100% of #patients?.ledger"
    with Ledger(odd, create=True) as ledger:
        ledger.verify()
    assert odd.exists()
    assert read_url(odd).database == str(odd)


def test_an_absent_ledger_is_not_created_unasked(tmp_path: Path, postgres_url: str) -> None:
    for url in (str(tmp_path / "absent.ledger"), postgres_url):
        with pytest.raises(LedgerUnavailable, match="there is no ledger at"):
            Ledger(url)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_cannot_be_made_where_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="No such file or directory"):
        Ledger(tmp_path / "nowhere" / "x.ledger", create=True)


def test_another_database_is_not_taken_for_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (x)")
    connection.close()
    with pytest.raises(LedgerCorrupt, match="holds no ledger"):
        Ledger(path, create=True)


def test_many_may_create_one_ledger_at_once(url: str) -> None:
    heads, gate = [], threading.Barrier(6)

    def create() -> None:
        gate.wait()
        with Ledger(url, create=True) as ledger:
            ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
            heads.append(ledger.verify())

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heads) == 6
    assert len(set(heads)) == 1


def test_no_draft_is_left_behind(path: Path) -> None:
    assert {file.name for file in path.parent.iterdir()} == {"patients.ledger", "patients.ledger-anchor"}


def test_a_ledger_that_there_is_no_room_for_leaves_nothing_behind(tmp_path: Path) -> None:
    code = """
    import resource, sys
    from sottovoce.service.ledger import Ledger
    from sottovoce.privacy.errors import LedgerUnavailable
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))  # as when the disk is full
    try:
        Ledger(sys.argv[1], create=True)
    except LedgerUnavailable as error:
        print(error)
    """
    told = told_by(textwrap.dedent(code), tmp_path / "patients.ledger")
    assert f"{tmp_path / 'patients.ledger'} cannot be used" in told and "see that its disk has room" in told
    assert [*tmp_path.iterdir()] == []


def test_threads_share_one_ledger(ledger: Ledger, budget: Budget) -> None:
    def spend() -> None:
        for _ in range(4):
            ledger.commit(ledger.reserve(budget, GaussianProfile(0.125), {}), {})  # type: ignore[arg-type]

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent(budget) == 16 * Fraction(1, 64)
    ledger.verify()


def test_a_forked_child_uses_connections_of_its_own(ledger: Ledger, budget: Budget) -> None:
    ledger.reserve(budget, GaussianProfile(0.125), {"by": "parent"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python >= 3.12 on forking beside threads
        child = os.fork()
    if child == 0:
        try:
            ledger.reserve(budget, GaussianProfile(0.125), {"by": "child"})
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.reserve(budget, GaussianProfile(0.125), {"by": "parent again"})
    assert [entry.request["by"] for entry in ledger.entries()] == ["parent", "child", "parent again"]


def test_a_ledger_that_nobody_closed_is_closed_with_the_last_who_held_it(path: Path) -> None:
    held = Ledger(path)
    (idle,) = held._store._idle  # Python itself warns of what is open since 3.13 alone
    del held
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        idle.raw.execute("SELECT 1")


def test_a_locked_sqlite_ledger_says_so(path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    with Ledger(path, timeout=0.1) as ledger:
        budget = ledger.budget("patients")
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="database is locked"):
            ledger.reserve(budget, GaussianProfile(0.1), {})
        assert ledger.spent(budget) == 0  # reading goes on
        holder.execute("ROLLBACK")
        ledger.reserve(budget, GaussianProfile(0.5), {})
        assert ledger.spent(budget) == Fraction(1, 4)
    holder.close()


def test_an_interrupt_between_rows_leaves_no_lock(path: Path) -> None:
    def interrupted(transaction: Transaction) -> None:
        transaction.lock_head()
        transaction.append("note", {"count": 1, "hash": "", "at": ""}, key="elsewhere")
        transaction.row("SELECT sequence FROM sottovoce_events")  # one of two: the rest was never asked for
        raise KeyboardInterrupt

    with Ledger(path) as ledger, Ledger(path, timeout=0.1) as other:
        with pytest.raises(KeyboardInterrupt) as held:  # as a notebook holds the last error
            ledger.write(interrupted)
        other.reserve(other.budget("patients"), GaussianProfile(0.1), {})
        ledger.reserve(ledger.budget("patients"), GaussianProfile(0.1), {})
        assert held.type is KeyboardInterrupt and not ledger.noted("elsewhere").count


def test_a_locked_postgres_ledger_says_so(postgres_url: str) -> None:
    with Ledger(postgres_url, create=True, timeout=0.2) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
        engine = sa.create_engine(postgres_url, poolclass=sa.pool.NullPool)
        with engine.connect() as holder:
            holder.execute(sa.text("SELECT 1 FROM sottovoce_head FOR UPDATE"))
            with pytest.raises(LedgerUnavailable, match="lock timeout"):
                ledger.reserve(budget, GaussianProfile(0.1), {})
        ledger.reserve(budget, GaussianProfile(0.5), {})
        assert ledger.spent(budget) == Fraction(1, 4)


@pytest.mark.parametrize(
    "url", ["ada:hunter2@127.0.0.1:1/x", "ada@127.0.0.1:1/x?password=hunter2", "ada@127.0.0.1:1/x?sslpassword=hunter2"]
)
def test_a_server_that_is_not_there_says_so_without_the_password(url: str) -> None:
    with pytest.raises(LedgerUnavailable, match="cannot be used") as caught:
        Ledger(f"postgresql://{url}", timeout=1)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["autocommit", "row_factory", "prepare_threshold"])
def test_an_address_does_not_say_how_the_driver_behaves(option: str) -> None:
    with pytest.raises(LedgerUnavailable, match=f'invalid connection option "{option}"'):
        Ledger(f"postgresql://ada@127.0.0.1:1/x?{option}=1", timeout=1)


def test_a_connection_cut_in_the_middle_spends_nothing_and_heals(postgres_url: str) -> None:
    with Ledger(postgres_url, create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
        engine = sa.create_engine(postgres_url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as admin:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            admin.execute(sa.text(f"{others} AND datname = current_database() AND pid <> pg_backend_pid()"))
        with pytest.raises(LedgerUnavailable, match="cannot be used"):
            ledger.reserve(budget, GaussianProfile(0.5), {})
        assert ledger.spent(budget) == 0
        ledger.reserve(budget, GaussianProfile(0.5), {})
        assert ledger.spent(budget) == Fraction(1, 4)


def test_a_read_only_disk(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "patients.ledger"
    with Ledger(path, create=True) as ledger:
        ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
        head = ledger.verify()
    for parent in (tmp_path, *tmp_path.parents[:4]):  # down from pytest's own folder, whatever the worker adds
        if parent.stat().st_uid == os.geteuid() and "pytest" in str(parent):
            parent.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    warned, said = spend_elsewhere(path, 1, user=pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else 0)
    assert "is open to other users of this machine" in warned
    assert said.startswith("LedgerUnavailable the ledger")
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    with Ledger(path) as ledger:
        assert ledger.verify() == head


def test_a_full_disk(path: Path) -> None:
    *answered, said = spend_elsewhere(path, 2000, room=400_000)
    assert len(answered) > 10
    assert said.startswith("LedgerUnavailable the ledger")
    with Ledger(path) as ledger:
        ledger.verify()
        committed = [str(entry.id) for entry in ledger.entries() if entry.release is not None]
        assert committed[: len(answered)] == answered
        assert len(committed) <= len(answered) + 1
        ledger.reserve(ledger.budget("patients"), GaussianProfile(0.01), {})  # and goes on when there is room
