"""Receipts: what was released and what it cost, signed, so that a third party can check it with one public key.

The signature is Ed25519 over the exact bytes of the text `signed`: nobody has to agree on how JSON is written.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sottovoce.faces.client.response_bodies import ReceiptBody
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.service.ledger import Budget, Entry
from sottovoce.service.ledger.hash_chain import canonical, canonical_object, digest

__all__ = ["Signer", "receipt_of", "verify_receipt", "verify_signed"]

VERSION = 1


class Signer:
    """The server's signing key: a PEM file readable by its owner alone, made where there is none."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            _create(path)
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise InvalidValue(f"cannot read the signing key {path}: {error.strerror}") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidValue(f"{path} holds no Ed25519 private key in PEM; remove it to have one made")
        self._key = key
        self.public_key = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.fingerprint = _fingerprint(key.public_key())

    def sign(self, statement: Mapping[str, object]) -> ReceiptBody:
        """Return a statement, some of whose values may be `Written`, with its signature and its key's fingerprint."""
        text = canonical_object(statement)
        signature = base64.b64encode(self._key.sign(text.encode())).decode()
        return {"signed": text, "signature": signature, "key": self.fingerprint}


def _create(path: Path) -> None:
    key = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    try:
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(key)
            out.flush()
            os.fsync(file)
        with contextlib.suppress(FileExistsError):  # another process was quicker: its key is the server's
            os.link(draft, path)
    except OSError as error:
        raise InvalidValue(f"cannot make the signing key {path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def receipt_of(entry: Entry, part: Budget, whole: Budget, *, issuer: str, analyst: str) -> dict[str, Any]:
    """Return what a receipt says of an entry: the question, its profile, its cost, the hash of its answer.

    A cost is in the units of the filter, which differ from budget to budget; a share of the budget says more.
    """
    of_whole = entry.cost if entry.whole_cost is None else entry.whole_cost
    return {
        "receipt": VERSION,
        "issuer": issuer,
        "dataset": whole.dataset,
        "n": entry.request.get("mechanism", {}).get("n", whole.n),
        "analyst": analyst,
        "entry": entry.id,
        "state": str(entry.state),
        "at": entry.at,
        "question": dict(entry.request),
        "profile": dict(entry.profile_state),
        "cost": {"yours": entry.cost, "whole": entry.whole_cost},
        "share": {"yours": part.share(entry.cost), "whole": whole.share(of_whole)},
        "budget": {"yours": part.promise.to_dict(), "whole": whole.promise.to_dict()},
        "value_hash": entry.value_hash,
    } | ({} if entry.periods is None else {"periods": list(entry.periods)})


def verify_receipt(
    receipt: Mapping[str, object], public_key: bytes, release: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Return what a receipt says if its signature is good, else raise `InvalidValue`.

    With `release`, the release it is said to be about must also have the hash that the receipt gives.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> signer = Signer(pathlib.Path(tempfile.mkdtemp()) / "key.pem")
    >>> receipt = signer.sign({"receipt": 1, "entry": 7})
    >>> verify_receipt(receipt, signer.public_key)["entry"]
    7
    """
    statement = verify_signed(receipt, public_key, "receipt")
    if statement.get("receipt") != VERSION:
        raise InvalidValue(f"this is signed, and no receipt of version {VERSION}")
    if release is not None and digest(canonical(release)) != statement.get("value_hash"):
        raise InvalidValue("the receipt is good, and it is about another release: the hash of this one differs")
    return statement


def verify_signed(document: Mapping[str, object], public_key: bytes, what: str) -> dict[str, object]:
    """Return the statement in what `Signer.sign` gave if its signature is good, else raise `InvalidValue`."""
    try:
        key = serialization.load_pem_public_key(public_key)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidValue(f"a {what} is checked with an Ed25519 public key in PEM")
    signed, signature = document.get("signed"), document.get("signature")
    if not isinstance(signed, str) or not isinstance(signature, str):
        raise InvalidValue(f"a {what} has a text `signed` and a text `signature`")
    try:
        raw = base64.b64decode(signature, validate=True)
        key.verify(raw, signed.encode())
        statement = json.loads(signed)
    except (InvalidSignature, ValueError):
        raise InvalidValue(
            f"the signature does not fit: the {what} was altered, or another key made it "
            f"(this key is {_fingerprint(key)}, the {what} names {document.get('key')!r})"
        ) from None
    if not isinstance(statement, dict):
        raise InvalidValue(f"this is signed, and no {what}")
    if base64.b64encode(raw).decode() != signature:  # its last letter has bits that nothing reads
        raise InvalidValue(f"a letter of the {what}'s signature was altered")
    if document.get("key") != _fingerprint(key):
        raise InvalidValue(f"the signature is good, and the {what} names another key: {shown(document.get('key'))}")
    return statement


def _fingerprint(key: Ed25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:32]
