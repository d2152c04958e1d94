"""Files in object stores and on the web: ``s3://``, ``gs://`` and ``abfss://``, read by Arrow, and ``https://``.

Who may read them the environment says, as each store's own tools have it (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``,
``GOOGLE_APPLICATION_CREDENTIALS``, ...): an address that holds a name or a password is refused, for addresses are
written down in the ledger.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileSystem, FSSpecHandler, PyFileSystem, S3FileSystem

from sottovoce.privacy.errors import InvalidData, InvalidValue, NotInstalled, SourceUnavailable
from sottovoce.records.tables.availability import Link
from sottovoce.records.tables.folders import NamedFiles, is_hidden

__all__ = ["CloudFiles", "CloudLink", "is_cloud", "open_cloud"]

T = TypeVar("T")
_SCHEMES = ("s3", "gs", "abfss", "https")
_LIKE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "az": "abfss", "http": "https"}
"""Words of other tools, and of addresses that are not encrypted, for ours."""
_PATIENCE = 10.0
"""Seconds to wait for a connection to a store, as for one to PostgreSQL."""
_LOGS = {"/_delta_log/": "delta", ".metadata.json": "iceberg"}


def is_cloud(source: str) -> bool:
    """Say whether a source is an address of files.

    >>> is_cloud("s3://stays/2024/"), is_cloud("postgresql://host/db?table=stays")
    (True, False)
    """
    return source.partition("://")[0].lower() in (*_SCHEMES, *_LIKE) and "://" in source


@dataclass(frozen=True)
class CloudFiles:
    """Files of one address.

    Attributes
    ----------
    address
        Where they are: what tells the data from others. Nothing of the files' contents, size or time is in it.
    filesystem
        What lists and opens them.
    named
        Their paths, and the folder below which names of folders may say what their records hold.
    """

    address: str
    filesystem: Any
    named: NamedFiles

    def open(self, path: str) -> Any:
        """Open a file for reading, unpacked where its name ends in ``.gz``."""
        packed = "gzip" if path.lower().endswith(".gz") else None
        return io.BufferedReader(self.filesystem.open_input_stream(path, compression=packed))


@dataclass(frozen=True)
class CloudLink(Link):
    """Whether a store answers: asked before anything is charged, of the names of its files alone."""

    files: CloudFiles | None = None

    def ensure_available(self, name: str) -> bool:
        """Raise `SourceUnavailable` where a file is gone, or its store does not answer."""
        files = self.files
        assert files is not None
        there = _told(lambda: all(_is_file(files.filesystem, path) for path in files.named.files), name)
        if not there:
            raise SourceUnavailable(f"a file of {name} is gone; nothing was spent. Put it back and ask again")
        return False


def open_cloud(address: str, endings: tuple[str, ...]) -> CloudFiles:
    """Return the files that an address names: itself, those of a folder with one of the endings, or of a pattern."""
    scheme, _, place = address.partition("://")
    if (word := _LIKE.get(scheme.lower(), scheme.lower())) != scheme:
        raise InvalidValue(f"files are read at {', '.join(f'{each}://' for each in _SCHEMES)}: write {word}://...")
    parts = urlsplit(address)
    if not place.strip("/"):
        raise InvalidValue(f"{scheme}:// names no place; write {scheme}://PLACE/FILE")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidValue(
            f"an address of files is {parts.scheme}://PLACE/FILE alone, without names, passwords or what follows a "
            "question mark: it is written into the ledger. Say who you are in the environment"
        )
    system, root = _told(lambda: _system(address), address)
    root = root.rstrip("/")
    named = _told(lambda: _named(system, root, endings), address)
    if not named.files:
        raise InvalidData(f"there is no file to read at {address} (read are {', '.join(endings)})")
    return CloudFiles(address.rstrip("/"), system, named)


def _named(system: Any, root: str, endings: tuple[str, ...]) -> NamedFiles:
    if root.lower().endswith(endings) and "*" not in root:
        return NamedFiles((root,) if _is_file(system, root) else ())
    fixed = root.partition("*")[0].rpartition("/")[0] if "*" in root else root
    below = system.get_file_info(FileSelector(fixed, recursive=True))
    paths = [each.path for each in below if each.is_file and ("*" not in root or PurePosixPath(each.path).match(root))]
    for mark, kind in _LOGS.items():
        if any(mark in path for path in paths):
            raise InvalidData(
                f"a table of {kind} lies there, and its files hold deleted records too: open {kind}:ADDRESS"
            )
    kept = [p for p in paths if p.lower().endswith(endings) and not is_hidden(Path(p), Path(fixed))]
    return NamedFiles(tuple(sorted(kept)), Path(fixed))


def _is_file(system: Any, path: str) -> bool:
    return bool(system.get_file_info(path).is_file)


def _system(address: str) -> tuple[Any, str]:
    """Return what reads an address, and the place in it."""
    scheme, _, place = address.partition("://")
    if scheme == "s3":  # Arrow looks for who may read in the environment, and for where elsewhere
        given = os.environ.get
        endpoint = given("AWS_ENDPOINT_URL_S3") or given("AWS_ENDPOINT_URL")
        region = given("AWS_REGION") or given("AWS_DEFAULT_REGION")
        return S3FileSystem(endpoint_override=endpoint, region=region, connect_timeout=_PATIENCE), place
    if scheme != "https":
        system, place = FileSystem.from_uri(address)
        return system, place
    try:
        import fsspec  # noqa: PLC0415 - an extra

        return PyFileSystem(FSSpecHandler(fsspec.filesystem("https"))), address
    except ImportError:
        raise NotInstalled("https:// needs a package that is not installed: pip install 'sottovoce[clouds]'") from None


def _told(work: Callable[[], T], name: str) -> T:
    """Do what a store's library does; whatever it raises of itself is one line that quotes nothing."""
    with contextlib.suppress(FileNotFoundError):
        try:
            return work()
        except (InvalidData, FileNotFoundError, NotInstalled):
            raise
        except Exception as error:  # each store has its own
            kind = type(error).__name__
        raise SourceUnavailable(
            f"{name} does not answer ({kind}); nothing was spent. See that the address is right and that the "
            "environment says who may read it"
        )
    raise InvalidData(f"there is nothing at {name}")
