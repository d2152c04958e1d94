"""Known questions: what a caller asked before, in the very same bytes, is not read and checked again.

Reading a request takes longer than charging it. A body that was read, checked and answered once is remembered with the
question it holds, for the token that sent it; the same bytes from the same token go straight to the service. Everything
else goes the long way: another body, path, kind of content or token, and every header that is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sottovoce.faces.server.callers import Caller
from sottovoce.faces.server.http_errors import problem_of
from sottovoce.faces.server.orders import Asking
from sottovoce.faces.server.pacing import Bucket
from sottovoce.faces.server.service import Service
from sottovoce.privacy.errors import SottovoceError

__all__ = ["Questions", "RequestCache"]

_MOST, _LONGEST = 128, 4096
"""How many questions of a token are remembered, the latest ones, and how long a body may be."""
_READ = {b"authorization", b"content-type", b"idempotency-key", b"content-encoding"}
_KEY = re.compile(rb"[!-~]{1,200}")
Scope = MutableMapping[str, Any]


class Questions:
    """The questions that were answered, by token, path and body."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[str, bytes], tuple[Any, str, Asking]]] = {}

    def find(self, caller: Caller, scope: Scope) -> tuple[Any, str, Asking] | None:
        """Return the route, the data set and the question of a request that was answered before."""
        return self._found.get(caller.token, {}).get((scope["path"], scope["state"]["body"]))

    def keep(self, caller: Caller, scope: Scope, dataset: str, question: Asking) -> None:
        """Remember what the body of a request asks; the oldest of its token's makes room, never another token's."""
        body = scope["state"].get("body", b"")
        if 0 < len(body) <= _LONGEST:
            mine = self._found.setdefault(caller.token, {})
            mine[scope["path"], body] = scope.get("route"), dataset, question
            if len(mine) > _MOST:
                del mine[next(iter(mine))]


class RequestCache:
    """An ASGI middleware that answers what is known, and passes everything else on.

    Parameters
    ----------
    app
        The long way.
    service, questions, turns, failures
        As the application holds them.
    """

    def __init__(self, app: Any, *, service: Service, questions: Questions, turns: Bucket, failures: Bucket) -> None:
        self._app, self._service, self._questions, self._turns = app, service, questions, turns
        self._failures = failures

    async def __call__(
        self,
        scope: Scope,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer a request, or pass it on."""
        plain = _plain_headers(scope) if scope["type"] == "http" and scope["method"] == "POST" else None
        caller = found = None
        if plain is not None:
            try:
                caller = await self._service.admitted(plain[0])
                found = self._questions.find(caller, scope)
            except SottovoceError:  # which is said the long way
                found = None
        if plain is None or caller is None or found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], name, question = found
        scope["state"]["caller"] = caller
        try:
            self._turns.take(caller.token)
            text = await self._service.answer(caller, name, question, plain[1])
        except SottovoceError as error:
            address = scope["client"][0] if scope.get("client") else ""
            await problem_of(error, self._service.metrics, self._failures, address)(scope, receive, send)
            return
        body = text.encode()
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _plain_headers(scope: Scope) -> tuple[str, str | None] | None:
    """Return the token and the idempotency key of a request whose headers leave no doubt; else None."""
    said: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _READ:
            if name in said:
                return None
            said[name] = value
    token, key = said.get(b"authorization", b""), said.get(b"idempotency-key")
    if said.get(b"content-type") != b"application/json" or b"content-encoding" in said or scope["query_string"]:
        return None
    if not token.startswith(b"Bearer ") or not (key is None or _KEY.fullmatch(key)):
        return None
    return token[7:].decode("latin-1"), None if key is None else key.decode("ascii")
