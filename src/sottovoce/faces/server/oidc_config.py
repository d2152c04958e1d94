"""What the administrator decides about sign-in with OpenID Connect: the provider, and which claim stands for whom."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sottovoce.faces.server.sections import Section
from sottovoce.privacy.errors import InvalidValue

SCOPES = ("read", "plan", "ask", "admin", "manage")
"""read: data sets, what remains, own history, receipts · plan · ask · admin: everyone's history, what is spent, metrics
· manage: with admin, create and revoke tokens at the page, so that who scrapes metrics lets nobody in."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures that only the holder of a private key can make (RFC 7518, §3; RFC 8037): no shared secret, not none."""

_USUAL = ("RS256", "PS256", "ES256")
RETURN = "/signed-in"
"""Where the provider sends browsers back to, below the server's address."""


@dataclass(frozen=True)
class SignInRole:
    """What someone with this value of the claim is: an analyst of the configuration, with scopes."""

    value: str
    analyst: str
    scopes: frozenset[str]


@dataclass(frozen=True)
class Oidc:
    """A provider of identities, and what its word is worth here.

    Attributes
    ----------
    issuer
        The provider; its configuration is at ``/.well-known/openid-configuration`` below.
    client_id, client_secret
        What this server is called there. A public client has no secret; PKCE is used either way.
    redirect_uri
        This server's own address, ending in ``/signed-in``; None where only programs come with tokens.
    audience
        What tokens for the API must be meant for; None where the API takes no tokens of the provider's.
    claim
        The claim that says a person's roles, such as ``groups`` or ``realm_access.roles``.
    roles
        What each role stands for; of several that someone has the first counts.
    algorithms
        The signatures that are taken.
    """

    issuer: str
    client_id: str
    roles: tuple[SignInRole, ...]
    client_secret: str | None = field(default=None, repr=False)
    redirect_uri: str | None = None
    audience: str | None = None
    claim: str = "groups"
    algorithms: tuple[str, ...] = _USUAL
    title: str = "single sign-on"


def oidc_config(section: Section, analysts: Collection[str], prefix: str) -> Oidc:
    """Return what a section says, or raise `InvalidValue` naming the entry that is wrong."""
    result = Oidc(
        issuer=_https(section, "issuer"),
        client_id=section.text("client_id"),
        client_secret=_secret(section),
        redirect_uri=_https(section, "redirect_uri") if section.has("redirect_uri") else None,
        audience=section.text("audience") if section.has("audience") else None,
        claim=section.text("claim", "groups"),
        algorithms=section.texts("algorithms", among=dict.fromkeys(ALGORITHMS)) or _USUAL,
        roles=tuple(_role(name, table, analysts) for name, table in section.tables("roles").items()),
        title=section.text("title", "single sign-on"),
    )
    section.finish()
    if not result.roles:
        raise InvalidValue("[oidc] lets nobody in; add a table such as [oidc.roles.researchers] with its analyst")
    if result.redirect_uri is None and result.audience is None:
        raise InvalidValue("[oidc] needs redirect_uri, for people at the page, or audience, for programs at the API")
    if result.redirect_uri is not None and urlsplit(result.redirect_uri).path != prefix + RETURN:
        raise section.fail(
            "redirect_uri", f"this server's address with the path {prefix + RETURN}", result.redirect_uri
        )
    if result.audience == result.client_id:
        raise section.fail(
            "audience", "another than client_id: what signs people in must not open the API", result.audience
        )
    return result


def safe_address(text: str) -> bool:
    """Say whether an address is met over TLS, or on this very machine.

    >>> safe_address("https://sso.example/realm"), safe_address("http://sso.example"), safe_address("http://[::1]:1/x")
    (True, False, True)
    """
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:  # brackets that hold no address
        return False
    if parts.scheme != "http":
        return parts.scheme == "https" and bool(host)
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _https(section: Section, name: str) -> str:
    text = section.text(name)
    if not safe_address(text) or urlsplit(text).query or urlsplit(text).fragment:
        raise section.fail(name, "an address such as https://sso.example/realm", text)
    return text


def _secret(section: Section) -> str | None:
    if not section.has("client_secret_file"):
        return None
    path = section.path("client_secret_file")
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"client_secret_file in [{section.where}] cannot be read: {error}") from None
    if not text:
        raise InvalidValue(f"client_secret_file in [{section.where}] is empty: {path}")
    return text


def _role(value: str, section: Section, analysts: Collection[str]) -> SignInRole:
    analyst = section.text("analyst")
    if analyst not in analysts:
        raise section.fail("analyst", f"one of {', '.join(analysts) or 'the analysts, and there are none'}", analyst)
    scopes = section.texts("scopes", among=dict.fromkeys(SCOPES)) or SCOPES[:3]
    section.finish()
    return SignInRole(value, analyst, frozenset(scopes))
