"""The guard: what every request passes before any route sees it, and every response on its way out."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from starlette.responses import Response

from sottovoce.faces.client.errors import TooManyRequests
from sottovoce.faces.server.config import Limits
from sottovoce.faces.server.http_errors import problem
from sottovoce.faces.server.logs import log_failure, log_request
from sottovoce.faces.server.metrics import Metrics
from sottovoce.faces.server.pacing import Bucket
from sottovoce.faces.server.tracing import Tracing

__all__ = ["HEADERS", "RequestGuard"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_METHOD = re.compile(r"[A-Z]{1,10}")
_TRACE = (b"traceparent", b"tracestate")
_PATIENCE = 20.0
"""Seconds in which a request's body must have come."""


class RequestGuard:
    """An ASGI middleware: limits by address, a limit on the body, security headers, one log line a request.

    Every path of ours starts with `prefix`, whether or not a proxy in front takes it off.
    With `behind_proxy`, nothing is answered to those who do not come over TLS, but whether the server is well.
    """

    def __init__(
        self,
        app: Any,
        *,
        limits: Limits,
        metrics: Metrics,
        failures: Bucket,
        behind_proxy: bool = False,
        prefix: str = "",
        tracing: Tracing,
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._tracing = tracing
        self._behind_proxy, self._prefix = behind_proxy, prefix
        self._addresses, self._failures = Bucket(limits.address_requests_per_minute), failures
        self._identities = _identities()
        self._bare = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
        self._secure = [*self._bare, (b"strict-transport-security", b"max-age=31536000")]
        self._names = {name for name, _ in self._secure}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith(f"{self._prefix}/"):  # a proxy took it off
            scope["path"] = self._prefix + (scope["path"].removeprefix(self._prefix) or "/")
        scope["root_path"] = self._prefix
        start, identity, status = time.monotonic(), next(self._identities), 0
        scope.setdefault("state", {})["request"] = identity

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = list(message["headers"])
                present = {name.lower() for name, _ in given}
                ours = self._secure if scope["scheme"] == "https" else self._bare
                if not present.isdisjoint(self._names):
                    ours = [header for header in ours if header[0] not in present]
                message["headers"] = [*given, *ours, (b"x-request-id", identity.encode())]
            await send(message)

        with self._tracing.request(_method(scope), _trace_of(scope)) as ended:
            try:
                await self._served(scope, receive, sending, lambda: status)
            finally:
                self._note(scope, identity, status, time.monotonic() - start)
                ended |= {"http.route": _route(scope), "http.response.status_code": status}

    async def _served(self, scope: Scope, receive: Receive, sending: Send, status: Callable[[], int]) -> None:
        try:
            refusal = await self._admitted(scope, receive)
            if isinstance(refusal, Response):
                await refusal(scope, receive, sending)
            else:
                await self._app(scope, refusal, sending)
        except Exception as error:  # nothing of it reaches the caller, and only its kind and place the log
            log_failure(error)
            if not status():
                fault = problem(500, "fault", "something went wrong on our side; it was written to the log")
                await fault(scope, receive, sending)

    async def _admitted(self, scope: Scope, receive: Receive) -> Response | Receive:
        """Return the refusal of a request, or a way to receive its body, which has come whole and is small."""
        # Only a trusted proxy's word makes the scheme https; whoever comes past it speaks in the clear.
        if self._behind_proxy and scope["scheme"] != "https" and scope["path"] != f"{self._prefix}/health":
            said = "come through the proxy that ends TLS; it must say X-Forwarded-Proto: https"
            return problem(403, "in-the-clear", said, {"Connection": "close"})
        address = scope["client"][0] if scope.get("client") else ""
        try:
            self._addresses.take(address)
            self._failures.take(address, turns=0.0)
        except TooManyRequests as error:
            return problem(429, "too-many-requests", str(error), {"Retry-After": f"{error.retry_after:.0f}"})
        most, body = self._limits.body_bytes, b""
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        too_large = declared.isdigit() and int(declared[:20]) > most
        if not too_large:
            try:
                body = await _whole(receive, most)
            except TimeoutError:
                return problem(408, "too-slow", f"the request did not come whole within {_PATIENCE:g} s")
            too_large = len(body) > most
        if too_large:
            return problem(413, "too-large", f"a request may have {most} bytes", {"Connection": "close"})
        return _replay(body, receive)

    def _note(self, scope: Scope, identity: str, status: int, seconds: float) -> None:
        route, method = _route(scope), _method(scope)
        caller = scope.get("state", {}).get("caller")
        self._metrics.count("requests", route=route, method=method, status=str(status))
        self._metrics.observe(seconds, route=route, method=method)
        log_request(
            request=identity,
            method=method,
            route=route,
            status=status,
            ms=round(1000 * seconds),
            analyst=None if caller is None else caller.analyst,
            token=None if caller is None else caller.token,
            address=scope["client"][0] if scope.get("client") else None,
        )


def _route(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path", "none"))


def _method(scope: Scope) -> str:
    return scope["method"] if _METHOD.fullmatch(scope["method"]) else "other"


def _trace_of(scope: Scope) -> dict[str, str]:
    """Return the headers that name the trace of a request."""
    return {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _TRACE}


def _identities() -> Iterator[str]:
    """Return names for requests, from randomness taken for many at once."""
    while True:
        lot = secrets.token_hex(8 * 256)
        for start in range(0, len(lot), 16):
            yield lot[start : start + 16]


async def _whole(receive: Receive, most: int) -> bytes:
    """Return a request's body, or as much of it as is too much; raise `TimeoutError` where it does not come in time."""
    body, more = b"", True
    async with asyncio.timeout(_PATIENCE):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            body += message.get("body", b"")
            more = message.get("more_body", False) and len(body) <= most
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
