"""Sign-in with the provider of an organization, as pages: there, back with a code, and out of both."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sottovoce.faces.client.errors import NotAllowed, NotAuthenticated, ProviderUnavailable, TooManyRequests
from sottovoce.faces.server.page.gate import Gate, cookie_name, set_cookie
from sottovoce.faces.server.page.rendering import Rendering
from sottovoce.faces.server.service import Service

_MINUTES = 600
"""Seconds that somebody has to sign in with the provider."""
_MOST = 4096
Handler = Callable[[Request], Awaitable[Response]]


class SignIn:
    """The way to the provider and back.

    Nothing is kept while somebody is there: a cookie holds a random name and an end, and state, nonce and PKCE's
    verifier are that with the server's key, each for its purpose. The cookie is `Lax`, for the provider sends the
    browser back from another site; that of the session, which follows, is `Strict`.
    """

    def __init__(self, service: Service, gate: Gate, rendering: Rendering) -> None:
        self._service, self._gate, self._rendering = service, gate, rendering

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [("GET", "/sign-in", self.leave), ("GET", "/signed-in", self.back)]

    async def leave(self, request: Request) -> Response:
        """Send a browser to the provider."""
        name = f"{secrets.token_hex(16)}.{int(time.time()) + _MINUTES}"
        state, nonce, verifier = self._secrets(name)
        address = await self._service.at_provider(self._service.provider.authorization_url, state, nonce, verifier)
        response = RedirectResponse(address, 303)
        set_cookie(response, request, "sign-in", name, _MINUTES, foreign=True)
        return response

    async def back(self, request: Request) -> Response:
        """Open a session for who comes back with a code."""
        name = request.cookies.get(cookie_name(request, "sign-in"), "")
        state, nonce, verifier = self._secrets(name)
        given, code = (request.query_params.get(word, "") for word in ("state", "code"))
        try:
            _begun_here(secrets.compare_digest(given.encode(), state.encode()) and _in_time(name), code)
            token = await self._service.at_provider(self._service.sign_in, code, verifier, nonce)
        except (NotAuthenticated, NotAllowed) as error:
            self._service.metrics.count("failed_logins")
            with contextlib.suppress(TooManyRequests):
                self._gate.failed(request)
            response = self._rendering.message(401, "Not signed in", str(error))
        else:
            # A page of ours leads on: a redirect from another site would come without the session's cookie.
            response = self._rendering.page("signed_in.html")
            self._gate.admit(response, request, token)
        set_cookie(response, request, "sign-in", "", 0, foreign=True)
        return response

    async def way_out(self) -> str | None:
        """Return where a browser leaves the provider too."""
        back = (self._service.provider.config.redirect_uri or "").removesuffix("signed-in") + "login"
        try:
            return await self._service.at_provider(self._service.provider.logout_url, back)  # type: ignore[no-any-return]
        except ProviderUnavailable:
            return None

    def _secrets(self, name: str) -> tuple[str, str, str]:
        state, nonce, verifier = (self._gate.tag(purpose, name) for purpose in ("state", "nonce", "verifier"))
        return state, nonce, verifier


def _begun_here(here: bool, code: str) -> None:
    if not here:
        raise NotAuthenticated("The sign-in was not begun in this browser, or too long ago. Try once more.")
    if not 0 < len(code) <= _MOST:
        raise NotAuthenticated("The provider did not sign you in. Try once more.")


def _in_time(name: str) -> bool:
    ends = name.partition(".")[2]
    return ends.isdecimal() and ends.isascii() and len(ends) < 13 and time.time() < int(ends)
