"""The wire: requests to a server, tried again where that is safe, and refusals as errors of ours."""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from sottovoce.faces.client.errors import ServerUnreachable, TooManyRequests, error_of
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.numbers import shown

KEY = re.compile(r"[!-~]{1,200}")
"""What names a question, so that it is charged once however often it is sent."""
_LARGEST = 2**28
_AGAIN = frozenset({"entry-pending", "too-many-requests", "server-stopping", "ledger-unavailable"})
"""Refusals that time may mend; the same request, under its key, is charged once however often it is sent."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follow nobody elsewhere: the token is for one server."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse to go."""


class Wire:
    """One server, met with one token.

    Parameters
    ----------
    url
        Where the server is: ``https://register.example``. Without TLS only on this very machine.
    token
        What `sottovoce tokens create` showed.
    timeout
        Seconds to wait for each reply.
    tries
        How often to send a request before giving up on a server that does not answer.
    context
        For a certificate of one's own: what `ssl.create_default_context(cafile=...)` returns.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 60.0,
        tries: int = 5,
        context: ssl.SSLContext | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidValue(f"a server's address is like https://register.example. Got {url!r}")
        if parts.username or parts.password:
            raise InvalidValue("a server's address holds no password; give the token as token=...")
        if parts.scheme == "http" and not _loopback(parts.hostname):
            raise InvalidValue(f"{parts.hostname} is another machine: use https, or the token crosses the network bare")
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]{1,500}", token.strip()):
            raise InvalidValue("a token is the text that `sottovoce tokens create` showed")
        if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
            raise InvalidValue(f"tries must be a whole number, at least 1. Got {tries!r}")
        self.url, self._timeout = url.rstrip("/"), timeout
        self._token: str | None = token.strip()
        self._tries, self._sleep = tries, sleep
        handlers: list[Any] = [_Stay] if context is None else [_Stay, urllib.request.HTTPSHandler(context=context)]
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"Wire({self.url!r})"

    def close(self) -> None:
        """Forget the token: nothing is sent from now on."""
        self._token = None

    def get(self, *path: str, parameters: Sequence[tuple[str, str]] = ()) -> Any:
        """Return what the server says of a thing."""
        return self._patiently("GET", path, None, {}, parameters)

    def post(self, *path: str, body: Any, key: str) -> Any:
        """Send something under a key, so that sending it again does nothing twice."""
        if not isinstance(key, str) or not KEY.fullmatch(key):
            said = "idempotency_key is a text of 1 to 200 letters, digits and signs of ASCII, without blanks"
            raise InvalidValue(f"{said}. Got {shown(key)}")
        return self._patiently("POST", path, body, {"Idempotency-Key": key})

    def _patiently(
        self,
        method: str,
        path: tuple[str, ...],
        body: Any,
        headers: dict[str, str],
        parameters: Sequence[tuple[str, str]] = (),
    ) -> Any:
        for turn in range(self._tries):
            try:
                return self._once(method, path, body, headers, urlencode(parameters))
            except _Later as later:
                if turn + 1 == self._tries:
                    raise later.error from None
                self._sleep(later.after if later.after is not None else min(0.25 * 2**turn, 8.0))
        raise AssertionError  # never reached: the last turn returns or raises

    def _once(self, method: str, path: tuple[str, ...], body: Any, headers: dict[str, str], query: str) -> Any:
        if self._token is None:
            raise InvalidValue("this client was closed; open another")
        address = "/".join([self.url, "api", "v1", *(quote(part, safe="") for part in path)])
        address += f"?{query}" if query else ""
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = headers | {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers |= {} if content is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(address, content, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as reply:
                text = reply.read(_LARGEST)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise self._refused(refusal) from None
        except (OSError, http.client.HTTPException) as error:  # no connection, a broken one, or too slow
            why = getattr(error, "reason", None) or type(error).__name__
            if isinstance(why, ssl.SSLCertVerificationError):
                raise ServerUnreachable(f"the certificate of {self.url} is not trusted: {why.verify_message}") from None
            raise _Later(ServerUnreachable(f"{self.url} does not answer: {why}")) from None
        return self._read(text)

    def _read(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ServerUnreachable(f"what answers at {self.url} is no server of ours") from None

    def _refused(self, refusal: urllib.error.HTTPError) -> SottovoceError | _Later:
        try:
            said = json.loads(refusal.read(2**20))
            word, detail = str(said["type"]).removeprefix("urn:sottovoce:"), str(said["detail"])
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            error: SottovoceError = ServerUnreachable(f"{self.url} answers {refusal.code} {refusal.reason}")
            return _Later(error) if refusal.code in (429, 502, 503, 504) else error
        error, after = error_of(word, detail), _seconds(refusal.headers.get("Retry-After"))
        if isinstance(error, TooManyRequests) and after is not None:
            error.retry_after = after
        return _Later(error, after) if word in _AGAIN else error


class _Later(Exception):
    """What may go well another time."""

    def __init__(self, error: SottovoceError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.after = error, after


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return min(seconds, 60.0) if 0 <= seconds < math.inf else None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
