"""Faults of tables: what they publish, what makes them fail, what they take for the same data."""

from __future__ import annotations

from pathlib import Path

from audit.faults import Patch, fault
from sottovoce.records.tables import Table, delimited, sources
from sottovoce.records.tables.columns import field
from sottovoce.records.tables.delimited import cells
from sottovoce.records.tables.folders import NamedFiles
from sottovoce.records.tables.quotes import SEPARATOR
from sottovoce.records.tables.table_identity import Origin
from sottovoce.service.curator import Curator
from sottovoce.service.curator.data_source import DataSource

PUBLIC, FAILS, ONE, WORK, LIVE, REACH = (
    "no record changes what is public of a table",
    "no record makes a question fail",
    "data have one budget, whatever they are called",
    "no line of a CSV file takes more work than another",
    "a folder holds the records that are live",
    "records out of reach cost nothing",
)


@fault("the names and types of a CSV file guessed from its records", "tables", PUBLIC)
def _sniffed(patch: Patch) -> None:
    def guess(connection, files, types, person):
        return sources.Found(connection.read_csv(files[0], header=True, sample_size=-1))

    patch.setattr(sources, "csv_records", guess)


@fault("blank lines of a CSV file skipped", "tables", PUBLIC)
def _skipped(patch: Patch) -> None:
    honest = delimited._tidy
    patch.setattr(
        delimited,
        "_tidy",
        lambda lines, longest: b"".join(x + b"\n" for x in honest(lines, longest).split(b"\n") if x.strip()),
    )


@fault("a quote that runs on into the next records", "tables", PUBLIC)
def _runs_on(patch: Patch) -> None:
    honest = delimited.separated

    def separated(lines, separator):
        pieces = lines.split(b'"')
        return honest(b'"'.join(x if i % 2 == 0 else x.replace(b"\n", b" ") for i, x in enumerate(pieces)), separator)

    patch.setattr(delimited, "separated", separated)


@fault("lines of odd quotes read cell by cell", "tables", WORK)
def _cell_by_cell(patch: Patch) -> None:
    def separated(lines, separator):
        return b"".join(SEPARATOR.join(cells(line, separator)) + b"\n" for line in lines.split(b"\n")[:-1])

    honest = delimited.separated
    patch.setattr(delimited, "separated", lambda lines, by: (separated if b'"' in lines else honest)(lines, by))


@fault("a line read to its end, however long", "tables", WORK)
def _endless(patch: Patch) -> None:
    patch.setattr("sottovoce.records.tables.text_files.longest_line", lambda names: 2**30)


@fault("files read that their table's log has struck off", "tables", LIVE)
def _struck_off(patch: Patch) -> None:
    patch.setattr(sources, "check_no_lake", lambda path, files: None)


@fault("hidden files read", "tables", LIVE)
def _hidden(patch: Patch) -> None:
    patch.setattr("sottovoce.records.tables.folders.is_hidden", lambda path, root: False)


@fault("what partitions hold left out", "tables", LIVE)
def _left_out(patch: Patch) -> None:
    patch.setattr(NamedFiles, "keys", ())


@fault("a question charged before its records are asked for", "curator", REACH)
def _charged_first(patch: Patch) -> None:
    patch.setattr(Curator, "ensure_available", lambda self: None)


@fault("a table that grew charged, and then refused", "curator", REACH)
def _grew(patch: Patch) -> None:
    patch.setattr(Table, "grows", False)


@fault("text of a Parquet file read by an engine that gives up", "tables", FAILS)
def _gives_up(patch: Patch) -> None:
    patch.setattr(
        sources, "parquet_records", lambda connection, paths: sources.Found(connection.read_parquet(list(paths.files)))
    )


@fault("an unsigned column compared as it is", "tables", FAILS)
def _unsigned(patch: Patch) -> None:
    patch.setattr("sottovoce.records.tables.conditions.whole", lambda engine, table, name: field(table, name))


@fault("data known by the name of the file", "curator", ONE)
def _base_name(patch: Patch) -> None:
    def named(path, files):
        return Origin(Path(path).name, tuple(files))

    patch.setattr(sources, "file_origin", named)


@fault("a second name for the same data", "curator", ONE)
def _second_name(patch: Patch) -> None:
    patch.setattr("sottovoce.service.curator.budget_opening.same_data", lambda *_, named: None)


@fault("a key that answers for other data", "curator", ONE)
def _other_data(patch: Patch) -> None:
    patch.setattr(DataSource, "stamp", lambda self, budget: None)
