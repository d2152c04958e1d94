"""Sessions of the page: a sealed cookie that names a token, and seals for the forms of that session.

The cookie holds no secret of the analyst: the token's identity, a random name and an end, sealed with a key made of
the server's signing key, so that every worker can check it and nobody else can make one. The token itself is looked up
at every request: revoking it ends its sessions. Who logs out ends their own: its name is kept until its time is over.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.faces.server.tokens import SESSION

_FORM = re.compile(r"([0-9a-f]{16})\.([0-9a-f]{32})\.(\d{1,12})\.([0-9a-f]{64})")


@dataclass(frozen=True)
class Session:
    """A session: the identity of the token it was opened with, a random name, and when it ends."""

    token: str
    name: str
    ends: int


class Sessions:
    """Opens, reads and seals sessions.

    Examples
    --------
    >>> sessions = Sessions(b"a key of the server")
    >>> cookie = sessions.open("0123456789abcdef")
    >>> session = sessions.read(cookie)
    >>> session.token, sessions.fits(session, sessions.seal(session)), sessions.read(cookie + "0")
    ('0123456789abcdef', True, None)
    """

    lifetime = int(SESSION.total_seconds())

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = hashlib.blake2b(secret, key=b"sottovoce page sessions", digest_size=32).digest()
        self._clock = clock

    @classmethod
    def of_key_file(cls, path: Path) -> Sessions:
        """Return the sessions of a server with this signing key."""
        return cls(path.read_bytes())

    def open(self, token: str) -> str:
        """Return the cookie of a new session."""
        body = f"{token}.{secrets.token_hex(16)}.{int(self._clock()) + self.lifetime}"
        return f"{body}.{self.tag('session', body)}"

    def read(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie; None where it was not made here, or has ended."""
        match = _FORM.fullmatch(cookie or "")
        if match is None:
            return None
        token, name, ends, tag = match.groups()
        if not hmac.compare_digest(tag, self.tag("session", f"{token}.{name}.{ends}")):
            return None
        session = Session(token, name, int(ends))
        return session if session.ends > self._clock() else None

    def seal(self, session: Session) -> str:
        """Return the seal that every form of a session carries."""
        return self.tag("form", f"{session.token}.{session.name}.{session.ends}")

    def fits(self, session: Session, seal: str) -> bool:
        """Say whether a form came from a page of this session."""
        return hmac.compare_digest(seal.encode(), self.seal(session).encode())

    def visitor_seal(self, visitor: str) -> str:
        """Return the seal of the login form, for a visitor who has no session yet."""
        return self.tag("visitor", visitor)

    def visitor_fits(self, visitor: str, seal: str) -> bool:
        """Say whether a login form came from a page given to this visitor."""
        return bool(visitor) and hmac.compare_digest(seal.encode(), self.visitor_seal(visitor).encode())

    def tag(self, purpose: str, body: str) -> str:
        """Return what only a holder of the key makes of a text, for a purpose."""
        return hmac.new(self._key, f"{purpose}:{body}".encode(), hashlib.sha256).hexdigest()
