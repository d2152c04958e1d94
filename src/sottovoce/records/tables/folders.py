"""The files of a table: those that a path names, what folders say of their records, and what is no plain folder."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidData

_HIDDEN = ("_", ".")
"""What names of files begin with that hold no records, such as logs and work under way: as Arrow and Spark have it."""
_ENDINGS = (".parquet", ".pq")
_LOGS = {"_delta_log": "delta", ".hoodie": "hudi"}
_CALLED = {"delta": "a Delta Lake table", "hudi": "a Hudi table", "iceberg": "an Iceberg table"}
_SNAPSHOTS = ("*.metadata.json*", "version-hint.text", "snap-*.avro")
"""What Iceberg writes into a folder ``metadata``: tables, a hint and snapshots."""


@dataclass(frozen=True)
class NamedFiles:
    """Files that a path names.

    Attributes
    ----------
    files
        Each once: a record read twice would move sums twice.
    root
        The folder below which the names of folders may say what their records hold; None of a file named by itself.
    """

    files: tuple[str, ...]
    root: Path | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of Hive partitions, such as ``ward`` of ``ward=A/part-0.parquet``; raise where files differ."""
        if self.root is None:
            return ()
        kinds = {tuple(_key(part) for part in _folders(file, self.root) if _key(part)) for file in self.files}
        if len(kinds) > 1:
            raise InvalidData("some files lie in folders such as ward=A, and others do not, or in another order")
        return next(iter(kinds), ())


def named_files(path: str) -> NamedFiles:
    """Return the files that a path names: itself, the Parquet files of a folder, or what fits a pattern.

    A name that exists is no pattern, whatever signs it holds.
    """
    place = Path(path)
    if place.is_dir():
        return NamedFiles(_each_once(str(p) for p in place.rglob("*") if _holds(p, place)), place)
    if place.exists() or not glob.has_magic(path):
        return NamedFiles((path,))
    fixed = next(parent for parent in place.parents if not glob.has_magic(str(parent)))
    result = glob.glob(path, recursive=True)  # noqa: PTH207 - Path.glob takes no pattern from the root
    spelled = any(part.startswith(_HIDDEN) for part in place.relative_to(fixed).parts)
    return NamedFiles(
        _each_once(file for file in result if Path(file).is_file() and (spelled or not is_hidden(Path(file), fixed))),
        fixed,
    )


def check_no_lake(path: str, files: Sequence[str]) -> None:
    """Raise where files belong to a table of another kind, whose log says which of their records are there.

    Records that were deleted or written again lie in its files too: they would count, and copies of one record would
    move an answer more often than once.
    """
    places = {Path(path).absolute(), *(Path(file).absolute() for file in files)}
    for folder in {folder for place in places for folder in (place, *place.parents)}:
        if (kind := lake_of(folder)) is not None:
            elsewhere = "" if kind == "hudi" else f"; or open {kind}:{folder}, which its own library reads"
            raise InvalidData(
                f"{folder.name} is {_CALLED[kind]}, whose files hold deleted and older records too; write what it "
                f"holds now to a folder of its own, and open that{elsewhere}"
            )


def lake_of(folder: Path) -> str | None:
    """Return which kind of lake a folder is a table of: delta, iceberg or hudi; None of a plain folder."""
    for log, kind in _LOGS.items():
        if (folder / log).is_dir():
            return kind
    notes = folder / "metadata"
    return "iceberg" if any(next(notes.glob(name), None) for name in _SNAPSHOTS) else None


def file_place(path: str) -> tuple[int, int] | None:
    """Return what stays the same of a file by whatever name it is reached; None where there is none."""
    try:
        result = Path(path).stat()
    except (OSError, ValueError):
        return None
    return result.st_dev, result.st_ino


def _each_once(paths: Iterable[str]) -> tuple[str, ...]:
    """Return files in order, one of several names by the first of them."""
    first: dict[Any, str] = {}
    for path in sorted(paths):
        first.setdefault(file_place(path) or path, path)
    return tuple(first.values())


def _holds(path: Path, root: Path) -> bool:
    return path.name.lower().endswith(_ENDINGS) and path.is_file() and not is_hidden(path, root)


def is_hidden(path: Path, root: Path) -> bool:
    """Say whether a file, or a folder that it lies in, is one that holds no records."""
    return any(part.startswith(_HIDDEN) for part in path.relative_to(root).parts)


def _folders(file: str, root: Path) -> tuple[str, ...]:
    return Path(file).relative_to(root).parts[:-1]


def _key(folder: str) -> str:
    """Return the column that a folder's name gives a value to; nothing of a plain folder."""
    name, equals, _ = folder.partition("=")
    return name if equals else ""
