"""The administrator's page: tokens, what is spent of every part, and whether the ledger holds together."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sottovoce.faces.client.errors import NotAllowed
from sottovoce.faces.server.oidc_config import SCOPES
from sottovoce.faces.server.page.gate import Gate
from sottovoce.faces.server.page.rendering import Rendering
from sottovoce.faces.server.page.views import history_rows
from sottovoce.faces.server.service import Caller, Service
from sottovoce.faces.server.tokens import LIFETIME
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt

_LAST = 5
"""Entries of each data set that are shown; the data set's own page has them all."""
_LONGEST = 36_525
"""Days in a hundred years."""


class AdminPage:
    """The page; to see it takes the scope `admin`, to let people in and out `manage`."""

    def __init__(self, service: Service, gate: Gate, rendering: Rendering, head: Callable[..., dict[str, Any]]) -> None:
        self._service, self._gate, self._rendering, self._head = service, gate, rendering, head

    def routes(self) -> list[tuple[str, str, Callable[[Request], Coroutine[Any, Any, Response]]]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/admin", self.show),
            ("POST", "/admin/tokens", self.create),
            ("POST", "/admin/revoke", self.revoke),
            ("POST", "/admin/verify", self.verify),
        ]

    async def show(self, request: Request) -> Response:
        """Show it."""
        return await self._page(request, "admin", lambda caller, form: {})

    async def create(self, request: Request) -> Response:
        """Create a token, and show it this once."""
        return await self._page(request, "manage", self._created)

    async def revoke(self, request: Request) -> Response:
        """Revoke a token, or end a session."""
        return await self._page(request, "manage", self._revoked)

    async def verify(self, request: Request) -> Response:
        """Follow the ledger's chain from its first entry to its last."""
        return await self._page(request, "admin", self._verified)

    async def _page(
        self, request: Request, scope: str, work: Callable[[Caller, dict[str, str]], dict[str, Any]]
    ) -> Response:
        caller, session = await self._gate.caller(request)
        form = await self._gate.form(request, session) if request.method == "POST" else {}
        self._service.require(caller, "admin")
        self._service.require(caller, scope)
        if scope == "manage" and caller.datasets != frozenset(self._service.config.datasets):
            raise NotAllowed("your token does not reach every data set, and so lets nobody in or out")
        status, outcome = 200, dict[str, Any]()
        try:
            outcome = await self._service.run(work, caller, form)
        except InvalidValue as error:
            status, outcome = 422, {"problem": str(error)}
        shown = {"made": None, "said": None, "problem": None} | outcome
        shown |= await self._service.run(self._values, caller)
        return self._rendering.page("admin.html", status, **shown, **self._head(caller, session))

    def _created(self, caller: Caller, form: dict[str, str]) -> dict[str, object]:
        del caller
        analyst, days = form.get("analyst", ""), form.get("days", "").strip()
        if analyst not in self._service.config.analysts:
            raise InvalidValue("choose one of the analysts")
        if not (days.isascii() and days.isdecimal() and len(days) < 6 and 0 < int(days) < _LONGEST):
            raise InvalidValue(f"a token lives for 1 to {_LONGEST - 1:,} days")
        scopes = [scope for scope in SCOPES if f"scope:{scope}" in form]
        token, secret = self._service.tokens.create(analyst, scopes, (), datetime.timedelta(days=int(days)))
        return {"made": secret, "said": f"A token for {analyst}, {token.id}. It is shown this once."}

    def _revoked(self, caller: Caller, form: dict[str, str]) -> dict[str, object]:
        if form.get("token") == caller.token:
            raise InvalidValue("this is the token that you are here with; log out, or revoke it on the command line")
        token = self._service.tokens.revoke(form.get("token", ""))
        return {"said": f"Token {token.id} of {token.analyst} is refused from now on."}

    def _verified(self, caller: Caller, form: dict[str, str]) -> dict[str, object]:
        del caller, form
        try:
            head = self._service.ledger.verify()
        except LedgerCorrupt as error:
            return {"problem": f"The ledger does not hold together: {error}"}
        return {"said": f"The ledger holds together: {head.count:,} events, the last with the hash {head.hash[:16]}…"}

    def _values(self, caller: Caller) -> dict[str, object]:
        budgets = []
        for facts in self._service.datasets(caller):
            name = facts["name"]
            entries = self._service.history(caller, name)
            everyone = self._service.remaining(caller, name) | {"yours": None}
            rows = history_rows(entries[:_LAST], everyone, everyone=True)
            budgets.append({"facts": facts, "parts": self._service.spent_shares(name), "rows": rows})
        tokens = sorted(self._service.tokens.list(), key=lambda token: (not token.valid, token.created))
        return {
            "budgets": budgets,
            "tokens": tokens,
            "analysts": self._service.config.analysts,
            "scopes": SCOPES,
            "usual": SCOPES[:3],
            "days": LIFETIME.days,
            "manages": "manage" in caller.scopes,
            "own": caller.token,
        }
