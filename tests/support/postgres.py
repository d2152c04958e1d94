"""A private PostgreSQL server on loopback, for tests that must meet a real one.

Needs the server's binaries (Debian: ``apt-get install postgresql``) and psycopg; without them the tests
that ask for `postgres_server` or `postgres_url` skip and say why.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.ports import free_port

__all__ = [
    "PostgresServer",
    "postgres_binaries",
    "postgres_server",
    "postgres_url",
    "running_server",
    "why_no_server",
]

USER = "sottovoce"
_HASTY = {"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": 0}
# Small tables, often made and soon gone: nobody need tidy up behind them or think how to read them.
_HASTY |= {"autovacuum": "off", "jit": "off", "shared_buffers": "16MB"}


@dataclass(frozen=True)
class PostgresServer:
    """Where a running server listens, and how to ask it for an empty database."""

    port: int
    password: str
    host: str = "127.0.0.1"
    stop: Callable[[], None] = field(default=lambda: None, compare=False)
    start: Callable[[], None] = field(default=lambda: None, compare=False)

    def url(self, database: str = "postgres", scheme: str = "postgresql+psycopg") -> str:
        """Return the address of a database; `scheme="postgresql"` for clients that are not SQLAlchemy."""
        return f"{scheme}://{USER}:{self.password}@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        """Create an empty database and return its name."""
        import psycopg

        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url(scheme="postgresql"), autocommit=True) as connection:
            # Files are copied in half of the time of writing their pages to the log; older servers know no other way.
            how = "STRATEGY file_copy" if connection.info.server_version >= 150_000 else ""
            connection.execute(f'CREATE DATABASE "{name}" {how}')
        return name


def postgres_binaries() -> Path | None:
    """Return the folder of `initdb` and `postgres`, the newest where there are several."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(versions, key=lambda path: float(path.parent.name), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def why_no_server() -> str | None:
    """Return why no server can be started here; None where one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed (pip install 'sottovoce[postgres]')"
    if postgres_binaries() is None:
        return "no PostgreSQL server binaries found (apt-get install postgresql)"
    if os.geteuid() == 0 and _unprivileged() is None:
        return "PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody' to run it as"
    return None


def _unprivileged() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


@contextlib.contextmanager
def running_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """Run a server in a folder of its own until the block ends.

    `durable=False` leaves out the server's fsync, and more: tests kill clients, never the server or the power.
    """
    binaries = postgres_binaries()
    if binaries is None:
        raise RuntimeError("no PostgreSQL server binaries found (apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="sottovoce-postgres-"))
    account = _unprivileged() if os.geteuid() == 0 else None
    # The server refuses to run as root, so a test run by root gives it another user's rights.
    rights = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    password = secrets.token_hex(16)
    (folder / "password").write_text(_scram(password))
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
        os.chown(folder / "password", account.pw_uid, account.pw_gid)
    data = folder / "data"
    command = [binaries / "initdb", "-D", data, "-U", USER, f"--pwfile={folder / 'password'}"]
    command += ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
    process: subprocess.Popen[bytes] | None = None
    try:
        subprocess.run(command, check=True, cwd=folder, capture_output=True, **rights)
        port = free_port()
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": folder}
        settings |= {"max_connections": 100}
        settings |= {} if durable else _HASTY
        command = [binaries / "postgres", "-D", data]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

        def start() -> None:
            nonlocal process
            with (folder / "log").open("ab") as log:
                process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **rights)
            _wait_until_up(server, process, folder / "log")

        def stop() -> None:
            assert process is not None
            process.send_signal(signal.SIGINT)  # whoever is connected is sent away, and all is kept
            process.wait(timeout=30)

        server = PostgresServer(port, password, stop=stop, start=start)
        start()
        yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGQUIT)  # at once: nothing of this server is kept
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _scram(password: str) -> str:
    """Return what the server keeps of a password (RFC 5803), hashed once.

    The usual 4,096 times are for passwords that can be guessed, and took most of the time of every connection.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client, server = (hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key"))
    kept = (base64.b64encode(part).decode() for part in (salt, hashlib.sha256(client).digest(), server))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*kept)


def _wait_until_up(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(server.url(scheme="postgresql"), connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server for the whole test run."""
    if reason := why_no_server():
        pytest.skip(reason)
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Return the address of an empty database, one a test."""
    return postgres_server.url(postgres_server.create_database())
