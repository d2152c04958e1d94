"""The gate of the page: who comes with which session, and whether a form is one of ours."""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sottovoce.faces.client.errors import NotAllowed, NotAuthenticated, TooManyRequests
from sottovoce.faces.server.pacing import Bucket
from sottovoce.faces.server.page.forms import read_form
from sottovoce.faces.server.page.sessions import Session, Sessions
from sottovoce.faces.server.service import Caller, Service


class LoggedOut(NotAuthenticated):
    """No session, or its token is no longer valid."""


class ForeignForm(NotAllowed):
    """A form that no page of this session made."""


class Gate:
    """Sessions kept in cookies that scripts cannot read and other sites cannot send."""

    def __init__(self, service: Service, turns: Bucket, failures: Bucket) -> None:
        self._service, self._turns, self._failures = service, turns, failures
        self._sessions = Sessions.of_key_file(service.config.signing_key)

    async def caller(self, request: Request) -> tuple[Caller, Session]:
        """Return who asks and their session, the token checked anew; or raise `LoggedOut`."""
        session = self._sessions.read(request.cookies.get(cookie_name(request, "session")))
        if session is None:
            raise LoggedOut("log in first")
        try:
            caller: Caller = await self._service.run(self._admitted, session)
        except NotAuthenticated:
            raise LoggedOut("the token of this session is no longer valid") from None
        request.state.caller = caller
        self._turns.take(caller.token)
        return caller, session

    def _admitted(self, session: Session) -> Caller:
        if self._service.tokens.session_ended(session.name):
            raise NotAuthenticated("this session was logged out")
        return self._service.caller(session.token)

    async def form(self, request: Request, session: Session) -> dict[str, str]:
        """Return the fields of a form made for this session, or raise `ForeignForm`."""
        form = read_form(await request.body())
        if not self._sessions.fits(session, form.pop("seal", "")):
            raise ForeignForm("this form was not made by your session; open the page again and retry")
        return form

    def seal(self, session: Session) -> str:
        """Return the seal for the forms of a session."""
        return self._sessions.seal(session)

    def greet(self) -> tuple[str, str]:
        """Return a name for a visitor, and the seal of the login form made for them."""
        visitor = secrets.token_hex(16)
        return visitor, self._sessions.visitor_seal(visitor)

    def remember(self, response: Response, request: Request, visitor: str) -> None:
        """Give a visitor their name."""
        set_cookie(response, request, "visitor", visitor, 3600)

    async def log_in(self, request: Request) -> str:
        """Return the identity of the token in a login form, or raise why not."""
        form = read_form(await request.body())
        visitor = request.cookies.get(cookie_name(request, "visitor"), "")
        if not self._sessions.visitor_fits(visitor, form.get("seal", "")):
            raise ForeignForm("The login page had grown old. Try once more.")
        try:
            caller: Caller = await self._service.run(self._service.authenticate, form.get("token", "").strip())
        except NotAuthenticated:
            self._service.metrics.count("failed_logins")
            with contextlib.suppress(TooManyRequests):  # refused from the next request on
                self.failed(request)
            raise NotAuthenticated("This token is unknown, expired or revoked.") from None
        return caller.token

    def failed(self, request: Request) -> None:
        """Note that somebody was not let in; raise `TooManyRequests` where they try too often."""
        self._failures.take(request.client.host if request.client else "")

    def tag(self, purpose: str, name: str) -> str:
        """Return what only this server makes of a name, for a purpose."""
        return self._sessions.tag(f"sign-in {purpose}", name)

    def admit(self, response: Response, request: Request, token: str) -> None:
        """Open a session."""
        set_cookie(response, request, "session", self._sessions.open(token), Sessions.lifetime)
        set_cookie(response, request, "visitor", "", 0)

    async def dismiss(self, response: Response, request: Request, session: Session) -> None:
        """End a session: on the server, so that no copy of its cookie is worth anything, and in this browser."""
        await self._service.run(self._service.tokens.end_session, session.name, session.ends, time.time())
        await self._service.run(self._service.tokens.end_sign_in, session.token)
        set_cookie(response, request, "session", "", 0)


def cookie_name(request: Request, word: str) -> str:
    """Return what a cookie is called."""
    # The prefix makes browsers refuse the cookie from anyone but this very host over TLS.
    return f"__Host-sottovoce-{word}" if request.url.scheme == "https" else f"sottovoce-{word}"


def set_cookie(response: Response, request: Request, word: str, value: str, age: int, *, foreign: bool = False) -> None:
    """Set a cookie; one that is sent when another site leads here only where it is `foreign`."""
    safe: dict[str, Any] = {"httponly": True, "secure": request.url.scheme == "https"}
    safe["samesite"] = "lax" if foreign else "strict"
    response.set_cookie(cookie_name(request, word), value, max_age=age, path="/", **safe)
