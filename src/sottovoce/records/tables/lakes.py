"""Tables of Delta Lake and Iceberg, read as one of their versions by their own libraries.

Their folders hold records that were deleted or replaced too; which of them are there, the log of the table says.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from sottovoce.privacy.errors import InvalidData, InvalidValue, SottovoceError, SourceUnavailable
from sottovoce.privacy.lazy_imports import needing
from sottovoce.records.tables.folders import lake_of
from sottovoce.records.tables.frames import plain_texts

__all__ = ["LakeTable", "lake_address", "open_lake"]

T = TypeVar("T")
_KINDS = ("delta", "iceberg")
_NUMBER = re.compile(r"v?(\d+)")


@dataclass(frozen=True)
class LakeTable:
    """One version of a table.

    Attributes
    ----------
    kind, place, version
        ``"delta"`` or ``"iceberg"``, where it lies, and which version or snapshot was opened.
    data
        Its records: a data set of its files, or a table in memory.
    latest
        Returns the version that there is now; where a version was asked for, that one.
    """

    kind: str
    place: str
    version: int
    data: Any
    latest: Callable[[], int]

    @property
    def identity(self) -> str:
        """What tells the table from others, whatever its version."""
        return f"{self.kind}:{self.place}"


def lake_address(source: str) -> str | None:
    """Return the address of a lake's table, ``delta:PLACE?version=3``, if that is what a source is, or a folder of one.

    >>> lake_address("delta:s3://bucket/stays?version=3"), lake_address("stays.parquet")
    ('delta:s3://bucket/stays?version=3', None)
    """
    if source.partition(":")[0] in _KINDS:
        return source
    kind = None
    with contextlib.suppress(OSError, ValueError):  # a text that is no path names no folder
        kind = lake_of(Path(source)) if "://" not in source and Path(source).is_dir() else None
    return f"{kind}:{source}" if kind in _KINDS else None


def open_lake(address: str) -> LakeTable:
    """Open the newest version of a table, or the one that its address names."""
    kind, _, remainder = address.partition(":")
    place, _, asked = remainder.partition("?")
    name, _, number = asked.partition("=")
    if asked and (name not in ("version", "snapshot") or not number.isdecimal()):
        raise InvalidValue(f"a version is a number: {kind}:{place}?version=3. Got {asked!r}")
    where = place if "://" in place else os.path.realpath(unquote(place))
    read = _delta if kind == "delta" else _iceberg
    try:
        return _told_in_a_line(lambda: read(where, int(number) if asked else None), kind, where)
    except ModuleNotFoundError as error:
        raise needing(error) from None


def _told_in_a_line(work: Callable[[], T], kind: str, place: str) -> T:
    """Do what a library of lakes does; whatever it raises of itself is one line."""
    try:
        return work()
    except (SottovoceError, ModuleNotFoundError):
        raise
    except Exception as error:
        named = {"delta": "Delta Lake", "iceberg": "Iceberg"}[kind]
        raise SourceUnavailable(
            f"{Path(place).name or place} cannot be read as {named} ({type(error).__name__}); nothing was spent"
        ) from None


def _delta(place: str, wanted: int | None) -> LakeTable:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415 - an extra
    from deltalake.exceptions import DeltaError, DeltaProtocolError  # noqa: PLC0415

    def opened(version: int | None) -> Any:
        if version is None:
            return _told_in_a_line(lambda: DeltaTable(place), "delta", place)
        try:
            return DeltaTable(place, version=version)
        except DeltaError:
            raise SourceUnavailable(
                f"{Path(place).name} has no version {version}, or it was vacuumed; nothing was spent"
            ) from None

    table = opened(wanted)
    if "deletionVectors" in (table.protocol().reader_features or ()) and pa.table(table.deletion_vectors()).num_rows:
        raise InvalidData(
            f"{Path(place).name} marks records as deleted in vectors, which are not read here: write them out first "
            "(REORG TABLE ... APPLY (PURGE))"
        )
    try:
        data: object = table.to_pyarrow_dataset()
    except DeltaProtocolError:  # features that its data sets do not know, and its queries do
        data = plain_texts(pa.table(QueryBuilder().register("records", table).execute("SELECT * FROM records")))
    version = int(table.version())
    return LakeTable(
        "delta", place, version, data, lambda: version if wanted is not None else int(opened(None).version())
    )


def _iceberg(place: str, wanted: int | None) -> LakeTable:
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - an extra

    def newest() -> Any:
        if "://" in place:
            return StaticTable.from_metadata(place)
        files = [*Path(place, "metadata").glob("*.metadata.json")]
        if not files:
            raise SourceUnavailable(f"{Path(place).name} has no metadata of Iceberg; nothing was spent")
        return StaticTable.from_metadata(str(max(files, key=lambda file: (_numbered(file.name), file.name))))

    def snapshot(table: Any) -> int:
        current = table.current_snapshot()
        if current is None:
            raise InvalidData(f"{Path(place).name} has no records yet")
        return int(current.snapshot_id)

    table = newest()
    if wanted is not None and table.snapshot_by_id(wanted) is None:
        raise SourceUnavailable(f"{Path(place).name} has no snapshot {wanted}, or it expired; nothing was spent")
    version = snapshot(table) if wanted is None else wanted

    def now() -> int:
        return _told_in_a_line(lambda: snapshot(newest()), "iceberg", place)

    data = plain_texts(table.scan(snapshot_id=version).to_arrow())
    return LakeTable("iceberg", place, version, data, lambda: version if wanted is not None else now())


def _numbered(name: str) -> int:
    """Return the number that a file of metadata begins with."""
    result = _NUMBER.match(name)
    return int(result[1]) if result else -1
