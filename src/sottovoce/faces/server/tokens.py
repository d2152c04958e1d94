"""Tokens: shown once, stored as hashes, scoped, and refused from the moment they are revoked.

A token is ``sv1_ID_SECRET``. The identity finds the row; the secret is 256 random bits, so that its SHA-256 is
as hard to turn back as it is to guess. Nothing is cached: what one process revokes, every other refuses at once.
A token that is met after its time is revoked, so that it stays refused where a clock is set back.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import hmac
import os
import re
import secrets
import sqlite3
from collections import namedtuple
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import sqlalchemy as sa

from sottovoce.faces.client.errors import NotAuthenticated
from sottovoce.faces.server.config import AnalystConfig, Config
from sottovoce.faces.server.oidc_config import SCOPES, SignInRole
from sottovoce.privacy.errors import InvalidValue, LedgerUnavailable
from sottovoce.service.ledger.schema import now
from sottovoce.service.ledger.store import read_url, told

LIFETIME = datetime.timedelta(days=90)
"""How long a token lives unless its creator says otherwise."""

SESSION = datetime.timedelta(hours=8)
"""How long a session of the page lives, whatever opened it."""

_FORM = re.compile(r"sv1_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_SIGN_IN = "sign-in "
"""How the place of a hash begins for who signed in with a provider: no secret has such a hash."""
_NOBODY = hashlib.sha256(b"").hexdigest()
_metadata = sa.MetaData()
_table = sa.Table(
    "sottovoce_tokens",
    _metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("datasets", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("expires", sa.Text),
    sa.Column("revoked", sa.Text),
)

_Row = namedtuple("_Row", "id hash analyst scopes datasets created expires revoked")
_ONE = f"SELECT {', '.join(_Row._fields)} FROM {_table.name} WHERE id = ?"

_ended = sa.Table(
    "sottovoce_ended_sessions",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("ends", sa.BigInteger, nullable=False),
)


@dataclass(frozen=True)
class Token:
    """A token without its secret.

    Attributes
    ----------
    datasets
        The data sets it reaches; empty for all that its analyst may use.
    expires, revoked
        Moments in UTC, or None.
    """

    id: str
    analyst: str
    scopes: frozenset[str]
    datasets: frozenset[str]
    created: str
    expires: str | None = None
    revoked: str | None = None
    person: str | None = None
    """Of who signed in with a provider, a name for them; of a token that was created, None."""

    @property
    def valid(self) -> bool:
        """Whether it may be used now."""
        return self.revoked is None and (self.expires is None or _now() < self.expires)

    def to_dict(self) -> dict[str, object]:
        """Return the token as plain values; its secret is nowhere."""
        return {
            "id": self.id,
            "analyst": self.analyst,
            "scopes": sorted(self.scopes),
            "datasets": sorted(self.datasets),
            "created": self.created,
            "expires": self.expires,
            "revoked": self.revoked,
            "person": self.person,
        }


class Tokens:
    """The tokens of a server, in a SQLite file of their own or in a PostgreSQL database.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with Tokens(pathlib.Path(tempfile.mkdtemp()) / "server.tokens") as tokens:
    ...     token, secret = tokens.create("ada", ["read", "ask"])
    ...     tokens.authenticate(secret) == token, tokens.revoke(token.id).valid
    (True, False)
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        address = read_url(url)
        if address.drivername == "sqlite":
            # Made readable for its owner alone, before anything is in it. An existing file must not be opened here:
            # closing it again would take away the locks of every other connection of this process.
            with contextlib.suppress(OSError):
                os.close(os.open(str(address.database), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._engine = sa.create_engine(address, pool_pre_ping=address.drivername != "sqlite")
        self.local = address.drivername == "sqlite"
        """Whether the tokens lie in a file here, and asking for one takes no wait."""
        self._idle: list[sqlite3.Connection] = []
        with self._connection() as connection:
            if address.drivername == "sqlite":
                connection.execute(sa.text("PRAGMA journal_mode=WAL"))
            else:  # of two workers that start at once, one creates
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(1399813236)"))
            _metadata.create_all(connection)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """Run a block as one transaction; the store's troubles come out as `LedgerUnavailable`."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            place = told(self._engine.url)
            kind = type(error.orig if isinstance(error, sa.exc.DBAPIError) else error).__name__
            raise LedgerUnavailable(f"the tokens at {place} cannot be used ({kind})") from None

    def create(
        self,
        analyst: str,
        scopes: Iterable[str],
        datasets: Iterable[str] = (),
        lifetime: datetime.timedelta | None = LIFETIME,
    ) -> tuple[Token, str]:
        """Return a new token and its text, shown here and never again; it expires unless `lifetime` is None."""
        scopes = frozenset(scopes)
        if not scopes or not scopes <= set(SCOPES):
            raise InvalidValue(f"scopes are some of {', '.join(SCOPES)}. Got {', '.join(sorted(scopes)) or 'none'}")
        if lifetime is not None and lifetime <= datetime.timedelta(0):
            raise InvalidValue(f"a token lives for some time. Got {lifetime}")
        secret = secrets.token_urlsafe(32)
        token = Token(
            id=secrets.token_hex(8),
            analyst=analyst,
            scopes=scopes,
            datasets=frozenset(datasets),
            created=_now(),
            expires=None if lifetime is None else _now(lifetime),
        )
        self._insert(token, _hash(secret))
        return token, f"sv1_{token.id}_{secret}"

    def sign_in(self, analyst: str, scopes: Iterable[str], person: str, lifetime: datetime.timedelta) -> Token:
        """Return a token for the session of who signed in with a provider; it has no secret, and so opens nothing else.

        Those that ended long ago are forgotten.
        """
        token = Token(
            secrets.token_hex(8), analyst, frozenset(scopes), frozenset(), _now(), _now(lifetime), person=person
        )
        with self._connection() as connection:
            signed_in = _table.c.hash.startswith(_SIGN_IN)
            connection.execute(_table.delete().where(signed_in, _table.c.expires < _now(-LIFETIME)))
        self._insert(token, _SIGN_IN + person)
        return token

    def end_sign_in(self, identity: str) -> None:
        """Revoke the token of a session, where it is one of who signed in with a provider."""
        token = self.find(identity)
        if token is not None and token.person is not None:
            self.revoke(identity)

    def _insert(self, token: Token, hashed: str) -> None:
        row = token.to_dict() | {name: " ".join(sorted(getattr(token, name))) for name in ("scopes", "datasets")}
        del row["person"]
        with self._connection() as connection:
            connection.execute(_table.insert().values(hash=hashed, **row))

    def authenticate(self, text: str) -> Token:
        """Return the token of this text if it may be used now, else raise `NotAuthenticated`."""
        match = _FORM.fullmatch(text)
        identity, secret = (match[1], match[2]) if match else ("", "")
        row = self._row(identity)
        # A token that is not there is compared all the same, so that time does not tell which identities exist.
        same = hmac.compare_digest(_hash(secret), _NOBODY if row is None else row.hash)
        if row is None or match is None or not same or not (token := self._met(row)).valid:
            raise NotAuthenticated("the token is missing, unknown, expired or revoked")
        return token

    def find(self, identity: str) -> Token | None:
        """Return a token by its identity, if there is one."""
        row = self._row(identity)
        return None if row is None else self._met(row)

    def _met(self, row: object) -> Token:
        token = _token(row)
        return token if token.valid or token.revoked is not None else self.revoke(token.id)

    def list(self) -> list[Token]:
        """Return every token, oldest first."""
        with self._connection() as connection:
            return [_token(row) for row in connection.execute(_table.select().order_by(_table.c.created))]

    def revoke(self, identity: str) -> Token:
        """Refuse a token from now on, everywhere."""
        with self._connection() as connection:
            unused = _table.c.revoked.is_(None)
            connection.execute(_table.update().where(_table.c.id == identity, unused).values(revoked=_now()))
        token = self.find(identity)
        if token is None:
            raise InvalidValue(f"there is no token {identity!r}; list them to find its identity")
        return token

    def end_session(self, name: str, ends: int, now: float) -> None:
        """Refuse a session of the page from now on, in every worker; forget those that ended by themselves long ago.

        Long ago: a clock that runs ahead and is set right again revives no session that somebody left.
        """
        with self._connection() as connection:
            connection.execute(_ended.delete().where(_ended.c.ends < now - LIFETIME.total_seconds()))
            if connection.execute(_ended.select().where(_ended.c.name == name)).one_or_none() is None:
                connection.execute(_ended.insert().values(name=name, ends=ends))

    def session_ended(self, name: str) -> bool:
        """Say whether someone logged out of a session."""
        with self._connection() as connection:
            return connection.execute(_ended.select().where(_ended.c.name == name)).one_or_none() is not None

    def close(self) -> None:
        """Let the connections go."""
        self._engine.dispose()
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _row(self, identity: str) -> Any:
        if self.local:  # asked with every request: straight from the driver, in a tenth of the time
            return self._local_row(identity)
        with self._connection() as connection:
            return connection.execute(_table.select().where(_table.c.id == identity)).one_or_none()

    def _local_row(self, identity: str) -> _Row | None:
        try:
            try:
                connection = self._idle.pop()
            except IndexError:  # none is idle, or another thread was quicker
                connection = self._connected()
            try:
                row = connection.execute(_ONE, (identity,)).fetchone()
            except BaseException:  # what failed is not used again, and nobody else would close it
                connection.close()
                raise
        except sqlite3.Error as error:
            place = told(self._engine.url)
            raise LedgerUnavailable(f"the tokens at {place} cannot be used ({type(error).__name__})") from None
        self._idle.append(connection)
        return None if row is None else _Row(*row)

    def _connected(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self._engine.url.database))}?mode=rw"
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)


@functools.lru_cache(maxsize=1024)
def _token(row: Any) -> Token:
    """Return the token that a row says, which is read anew each time."""
    return Token(
        id=row.id,
        analyst=row.analyst,
        scopes=frozenset(row.scopes.split()),
        datasets=frozenset(row.datasets.split()),
        created=row.created,
        expires=row.expires,
        revoked=row.revoked,
        person=row.hash.removeprefix(_SIGN_IN) if row.hash.startswith(_SIGN_IN) else None,
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _now(later: datetime.timedelta | None = None) -> str:
    """Return the time in UTC, or a later one."""
    if later is None:
        return now()
    return (datetime.datetime.now(datetime.UTC) + later).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Caller:
    """Who asks: an analyst, and how far their token reaches."""

    analyst: str
    token: str
    scopes: frozenset[str]
    datasets: frozenset[str]


def caller_of(token: Token | None, config: Config) -> Caller:
    """Return whose token this is, if it may be used now and its analyst is still in the configuration.

    An analyst reaches the data sets they have a budget on, an administrator all of them; a token may reach fewer.
    """
    analyst = None if token is None else config.analysts.get(token.analyst)
    if token is None or not token.valid or analyst is None:
        raise NotAuthenticated("the token is missing, unknown, expired or revoked")
    reach = _reach(analyst, token.scopes, config)
    return Caller(analyst.name, token.id, token.scopes, reach & (token.datasets or reach))


def caller_with(role: SignInRole, person: str, config: Config) -> Caller:
    """Return who comes with a token of a provider, which was checked and says this role."""
    analyst = config.analysts[role.analyst]
    return Caller(analyst.name, f"person:{person}", role.scopes, _reach(analyst, role.scopes, config))


def _reach(analyst: AnalystConfig, scopes: frozenset[str], config: Config) -> frozenset[str]:
    return frozenset(config.datasets if "admin" in scopes else analyst.budgets)
