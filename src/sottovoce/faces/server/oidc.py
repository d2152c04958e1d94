"""Sign-in with OpenID Connect: a provider's keys, which of its tokens hold, and whom they stand for.

People come by the authorization-code flow with PKCE (RFC 7636), programs with JWTs made for this server's audience. Of
either, the signature is checked with the provider's published keys and an allow-list of algorithms (RFC 8725).
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import urlencode

from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from sottovoce.faces.client.errors import NotAllowed, NotAuthenticated, ProviderUnavailable
from sottovoce.faces.server.oidc_config import Oidc, SignInRole, safe_address

_JWT = re.compile(r"[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*")
_LEEWAY = 30
"""Seconds by which clocks may differ."""
_KEEP = 600.0
"""Seconds for which keys are believed: one that the provider takes back opens nothing after them."""
_SOONEST = 10.0
"""Seconds between two looks for keys that were not known, however many tokens name them, and after one that failed."""
_PATIENCE = 10.0
_LARGEST = 2**20
_AWAY = "the provider of identities does not answer; try again in a moment"
_REFUSED = "the token is missing, unknown, expired or revoked"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow nobody elsewhere: keys are believed because of where they are."""

    def redirect_request(self, *_: object) -> None:
        """Refuse to go."""


class Provider:
    """The provider of a configuration.

    Parameters
    ----------
    config
        The section ``[oidc]``.
    clock
        What says the time, in seconds since 1970.
    """

    def __init__(self, config: Oidc, clock: Callable[[], float] = time.time) -> None:
        self.config, self._clock = config, clock
        self._turn = threading.Lock()
        self._known: Mapping[str, Any] = {}
        self._keys = KeySet([])
        self._read = self._failed = -float("inf")

    @staticmethod
    def is_jwt(text: str) -> bool:
        """Say whether a text has the form of a JWT, which no token of ours has."""
        return _JWT.fullmatch(text) is not None

    def bearer(self, text: str) -> tuple[SignInRole, str]:
        """Return the role of who sends a token for the API, and a name for them that says nothing else."""
        if self.config.audience is None:
            raise NotAuthenticated(_REFUSED)
        return self._person(self._claims(text, self.config.audience))

    def sign_in(self, code: str, verifier: str, nonce: str) -> tuple[SignInRole, str]:
        """Return the role of who came back from the provider with a code, and a name for them."""
        endpoint = self._endpoint("token_endpoint")
        try:
            with self._client() as client:
                given = client.fetch_token(endpoint, code=code, code_verifier=verifier, grant_type="authorization_code")
        except Exception as error:  # of whichever of two HTTP libraries Authlib uses, or of Authlib
            self._refused(type(error).__name__)
        text = given.get("id_token")
        if not isinstance(text, str):
            self._refused("no id_token")
        return self._person(self._claims(text, self.config.client_id, nonce, given.get("access_token")))

    def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Return where a browser is sent to sign in."""
        with self._client() as client:
            address, _ = client.create_authorization_url(
                self._endpoint("authorization_endpoint"), state=state, nonce=nonce, code_verifier=verifier
            )
        return str(address)

    def logout_url(self, back: str) -> str | None:
        """Return where a browser leaves the provider too, where it offers that (RP-initiated logout)."""
        if not isinstance(address := self._document().get("end_session_endpoint"), str) or not safe_address(address):
            return None
        join = "&" if "?" in address else "?"
        return address + join + urlencode({"client_id": self.config.client_id, "post_logout_redirect_uri": back})

    def _client(self) -> Any:
        return OAuth2Client(
            self.config.client_id,
            self.config.client_secret,
            scope="openid",
            redirect_uri=self.config.redirect_uri,
            code_challenge_method="S256",
            timeout=_PATIENCE,
        )

    def _person(self, claims: Mapping[str, object]) -> tuple[SignInRole, str]:
        values = set(_values(claims, self.config.claim))
        for role in self.config.roles:
            if role.value in values:
                subject = json.dumps([claims["iss"], claims["sub"]])
                return role, hashlib.sha256(subject.encode()).hexdigest()[:16]
        raise NotAllowed(
            f"the provider knows you, and none of your {self.config.claim} opens anything here; ask your administrator"
        )

    def _claims(self, text: str, audience: str, nonce: str | None = None, access: str | None = None) -> dict[str, Any]:
        """Return what a token claims, if all of it holds; else raise `NotAuthenticated`, which does not say why."""
        wanted: dict[str, Any] = {
            "iss": {"essential": True, "value": self.config.issuer},
            "aud": {"essential": True, "value": audience},
            "exp": {"essential": True},
            "sub": {"essential": True},
        }
        try:
            token = self._verified(text)
            now = int(self._clock())
            jwt.JWTClaimsRegistry(now, _LEEWAY, **wanted).validate(token.claims)
            if nonce is not None:
                said = {"nonce": nonce, "client_id": audience, "access_token": access}
                CodeIDToken(token.claims, token.header, params=said).validate(now, _LEEWAY)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise NotAuthenticated(_REFUSED) from error
        return token.claims

    def _verified(self, text: str) -> jwt.Token:
        """Return a token whose signature is the provider's: with keys looked up anew where none that is known fits."""
        named = jws.extract_compact(text.encode()).headers().get("kid")
        for soonest in (_KEEP, _SOONEST):
            self._refresh(soonest)
            for key in self._keys:
                if named is None or key.kid == named:
                    try:
                        return jwt.decode(text, key, algorithms=self.config.algorithms)
                    except (JoseError, ValueError):
                        continue
        raise ValueError("no key fits")

    def _endpoint(self, name: str) -> str:
        address = self._document().get(name)
        if not isinstance(address, str) or not safe_address(address):
            raise ProviderUnavailable(f"the provider of identities names no {name} over TLS; tell your administrator")
        return address

    def _document(self) -> Mapping[str, object]:
        self._refresh(_KEEP)
        return self._known

    def _refresh(self, age: float) -> None:
        """Read what the provider publishes where it was read longer ago than `age`."""
        if self._within(age, self._read):  # what is known waits for nobody who asks for more
            return
        with self._turn:
            if self._within(age, self._read):
                return
            if self._within(_SOONEST, self._failed):  # nor does everyone try in turn, each for as long as it takes
                raise ProviderUnavailable(_AWAY)
            try:
                self._publish()
            except ProviderUnavailable:
                self._failed = self._clock()
                raise
            self._read = self._clock()

    def _within(self, seconds: float, moment: float) -> bool:
        return 0 <= self._clock() - moment < seconds

    def _publish(self) -> None:
        known = self._get(f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration")
        if known.get("issuer") != self.config.issuer or not safe_address(str(known.get("jwks_uri"))):
            raise ProviderUnavailable("the provider of identities is another than the configured issuer")
        try:
            self._keys = KeySet.import_key_set(self._get(known["jwks_uri"]))  # type: ignore[arg-type]
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderUnavailable("the provider of identities publishes no keys that can be read") from None
        self._known = known

    @staticmethod
    def _get(address: str) -> dict[str, object]:
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(urllib.request.Request(address), timeout=_PATIENCE) as reply:
                value = json.loads(reply.read(_LARGEST))
        except (OSError, ValueError, RecursionError):  # no connection, a refusal, no JSON
            raise ProviderUnavailable(_AWAY) from None
        if not isinstance(value, dict):
            raise ProviderUnavailable("the provider of identities does not answer with what it should")
        return value

    @staticmethod
    def _refused(why: str) -> NoReturn:
        raise NotAuthenticated(f"The provider did not sign you in ({why}). Try once more.") from None


def _values(claims: Mapping[str, object], path: str) -> list[str]:
    """Return the texts of a claim, which may be one of another's, as in ``realm_access.roles``.

    >>> _values({"realm_access": {"roles": ["a", 1]}, "groups": "b"}, "realm_access.roles")
    ['a']
    """
    value: object = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
