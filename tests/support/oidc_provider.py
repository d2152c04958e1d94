"""A provider of identities on this machine: the endpoints of OpenID Connect, with keys of its own that can rotate."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

__all__ = ["AUDIENCE", "CLIENT", "SECRET", "LocalProvider"]

CLIENT, SECRET, AUDIENCE = "sottovoce", "not a secret of anybody", "sottovoce-api"


class LocalProvider:
    """Signs in whoever comes as `person`; `tamper` may change what an ID token claims before it is signed."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "ada@county", "realm_access": {"roles": ["researchers"]}}
        self.tamper: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.rotate()
        outer = self

        class Door(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                outer.get(self)

            def do_POST(self) -> None:
                outer.post(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/realm"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def rotate(self) -> None:
        """Sign with another key from now on, and publish that alone."""
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})

    def claims(self, audience: str = AUDIENCE, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.issuer, "aud": audience, "iat": now, "exp": now + 300} | self.person | changes

    def token(self, algorithm: str = "RS256", key: Any = None, kid: str | None = "", **changes: Any) -> str:
        header = {"alg": algorithm} | ({} if kid is None else {"kid": kid or self.key.kid})
        return jwt.encode(header, self.claims(**changes), key or self.key, algorithms=[algorithm])

    def get(self, door: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(door.path)
        self.asked.append(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/realm/.well-known/openid-configuration":
            words = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            words["end_session_endpoint"] = "leave"
            self._say(door, {"issuer": self.issuer} | {k: f"{self.issuer}/{v}" for k, v in words.items()})
        elif parts.path == "/realm/keys":
            self._say(door, KeySet([self.key]).as_dict(private=False))
        else:
            assert parts.path == "/realm/authorize" and query["response_type"] == "code" and "openid" in query["scope"]
            assert query["code_challenge_method"] == "S256" and query["client_id"] == CLIENT
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            back = urlencode({"code": code, "state": query["state"]})
            door.send_response(302)
            door.send_header("Location", f"{query['redirect_uri']}?{back}")
            door.end_headers()

    def post(self, door: BaseHTTPRequestHandler) -> None:
        body = door.rfile.read(int(door.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        kept = self.codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        ok = kept is not None and door.headers["Authorization"] == f"Basic {basic}"
        ok = ok and create_s256_code_challenge(form["code_verifier"]) == kept["code_challenge"]  # type: ignore[index]
        if not ok or kept is None or form["redirect_uri"] != kept["redirect_uri"]:
            self._say(door, {"error": "invalid_grant"}, 400)
            return
        claims = self.tamper(self.claims(CLIENT, nonce=kept["nonce"]))
        text = jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)
        self._say(door, {"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": text})

    @staticmethod
    def _say(door: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        door.send_response(status)
        door.send_header("Content-Type", "application/json")
        door.send_header("Content-Length", str(len(body)))
        door.end_headers()
        door.wfile.write(body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
