"""Checkpoints: what a ledger had come to when it was last verified, sealed with a secret of its owner.

A ledger of a million events takes the better part of a minute to verify, and need not be read whole each time it is
opened. Whoever has verified many events leaves a checkpoint: the head, and the state of every budget and pending entry.
The next to open the ledger goes on from there. Checkpoints and the secret that seals them lie in the owner's own folder
and not beside the ledger: nobody who can only write to the ledger can make one. A checkpoint that is damaged, forged or
of another ledger is not used, and everything is verified.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.service.ledger.hash_chain import EMPTY, Head, canonical, digest

WORTHWHILE = 10_000
"""How many events must have been verified for a checkpoint to be worth its while: fewer take less than a second."""

STATE = frozenset({"head", "version", "layout", "events", "spent"})
"""What a state says; see `Replay.state`."""
_VERSION = 2
_SECRET = 32
_log = logging.getLogger(__name__)


def folder() -> Path:
    """Return the owner's folder: ``$XDG_STATE_HOME/sottovoce``, or ``~/.local/state/sottovoce``."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state") / "sottovoce"


class Checkpoints:
    """The checkpoint of one ledger, if it has one. Nothing here ever fails: without it, everything is verified.

    Parameters
    ----------
    address
        Which ledger: the real path of a file, or the URL of a database without its password.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def read(self) -> Mapping[str, Any] | None:
        """Return the sealed state, as `Replay.state` gave it; None where there is none that can be trusted."""
        try:
            path = self._path()
            text, secret = path.read_text(encoding="ascii"), _secret(path.parent, make=False)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, ValueError) as error:
            _log.warning("the checkpoint of %s is not used, and all is verified: %s", self._address, error)
            return None
        seal, _, body = text.partition("\n")
        if not hmac.compare_digest(seal, _seal(secret, body)):
            _log.warning("%s is damaged or was not sealed here; it is not used, and all is verified", path)
            return None
        content = json.loads(body)
        if content["checkpoint"] != _VERSION or content["ledger"] != self._address:
            _log.warning("%s is of another ledger or version; it is not used, and all is verified", path)
            return None
        state: Mapping[str, object] = content["state"]
        if not state.keys() >= STATE:
            _log.warning("%s holds no state of a ledger; it is not used, and all is verified", path)
            return None
        return state

    def write(self, state: Mapping[str, object]) -> None:
        """Seal a state that was verified, and keep it; where that cannot be done, all is verified next time."""
        body = canonical({"checkpoint": _VERSION, "ledger": self._address, "state": state})
        try:
            path = self._path()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, f"{_seal(_secret(path.parent, make=True), body)}\n{body}".encode("ascii"))
        except (OSError, RuntimeError, ValueError) as error:
            _log.info("no checkpoint of %s was left: %s", self._address, error)

    def __str__(self) -> str:
        return str(self._path())

    def _path(self) -> Path:
        return folder() / f"{digest(self._address)[:32]}.checkpoint"


def head_of(state: Mapping[str, Any] | None) -> Head:
    """Return the head that a state had come to; the empty one where there is none."""
    return EMPTY if state is None else Head(*state["head"])


def _seal(secret: bytes, body: str) -> str:
    return hmac.new(secret, body.encode(), "sha256").hexdigest()


def _secret(place: Path, *, make: bool) -> bytes:
    """Return the owner's secret; with `make`, make one where there is none."""
    path = place / "checkpoints.key"
    if make and not path.exists():
        draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
        _write(draft, secrets.token_bytes(_SECRET))
        try:
            with contextlib.suppress(FileExistsError):  # another process was quicker: its secret is the owner's
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    with path.open("rb") as file:
        result, owner = os.fstat(file.fileno()), getattr(os, "geteuid", None)
        # Windows has no such bits: there the owner's own folder is closed to others by its access list.
        if owner is not None and (result.st_mode & 0o077 or result.st_uid != owner()):
            raise ValueError(f"{path} is not its owner's alone; chmod 600 makes it so")
        secret = file.read(_SECRET + 1)
    if len(secret) != _SECRET:
        raise ValueError(f"{path} holds no secret of {_SECRET} bytes; remove it to have one made")
    return secret


def _write(path: Path, content: bytes) -> None:
    """Put a file of its owner's alone in place, whole or not at all."""
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    try:
        # As bytes, and for no child process, where that must be said: each of the two on one kind of system.
        flags = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(file)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
