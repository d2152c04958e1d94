"""Faults of tables: what they publish, what makes them fail, what they take for the same data."""

from __future__ import annotations

from pathlib import Path

from audit.faults import Patch, fault
from sottovoce.curator.source import Source
from sottovoce.tables import delimited, sources
from sottovoce.tables.columns import field
from sottovoce.tables.origin import Origin

PUBLIC, FAILS, ONE = (
    "no record changes what is public of a table",
    "no record makes a question fail",
    "data have one budget, whatever they are called",
)


@fault("the names and types of a CSV file guessed from its records", "tables", PUBLIC)
def _sniffed(patch: Patch) -> None:
    def guess(connection, files, types):
        return sources.Found(connection.read_csv(files[0], header=True, sample_size=-1))

    patch.setattr(sources, "_csv", guess)


@fault("blank lines of a CSV file skipped", "tables", PUBLIC)
def _skipped(patch: Patch) -> None:
    honest = delimited._tidy
    patch.setattr(
        delimited, "_tidy", lambda lines: b"".join(x + b"\n" for x in honest(lines).split(b"\n") if x.strip())
    )


@fault("a quote that runs on into the next records", "tables", PUBLIC)
def _runs_on(patch: Patch) -> None:
    honest = delimited.separated

    def separated(lines, separator):
        pieces = lines.split(b'"')
        return honest(b'"'.join(x if i % 2 == 0 else x.replace(b"\n", b" ") for i, x in enumerate(pieces)), separator)

    patch.setattr(delimited, "separated", separated)


@fault("text of a Parquet file read by an engine that gives up", "tables", FAILS)
def _gives_up(patch: Patch) -> None:
    patch.setattr(sources, "_parquet", lambda connection, files: sources.Found(connection.read_parquet(files)))


@fault("an unsigned column compared as it is", "tables", FAILS)
def _unsigned(patch: Patch) -> None:
    patch.setattr("sottovoce.tables.conditions.whole", lambda engine, table, name: field(table, name))


@fault("data known by the name of the file", "curator", ONE)
def _base_name(patch: Patch) -> None:
    def named(path, files):
        return Origin(Path(path).name, tuple(files))

    patch.setattr(sources, "file_origin", named)


@fault("a second name for the same data", "curator", ONE)
def _second_name(patch: Patch) -> None:
    patch.setattr("sottovoce.curator.opening.same_data", lambda *_, named: None)


@fault("a key that answers for other data", "curator", ONE)
def _other_data(patch: Patch) -> None:
    patch.setattr(Source, "stamp", lambda self, budget: None)
