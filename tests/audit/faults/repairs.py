"""Faults of tables with a log, records out of reach, formulas without bound and late answers."""

from __future__ import annotations

import math

from audit.faults import Patch, fault
from sottovoce.records.facts import formula_parser as formulas
from sottovoce.records.tables import sources
from sottovoce.service.curator import Curator
from sottovoce.service.curator import readable_records as records

LAKES, CHARGED = "records that a table's log took away do not count", "nothing is charged for records out of reach"
MEASURED, LATE = "a formula is measured before it is expanded", "answers leave at few moments"


@fault("every Parquet file of a folder taken for records that are there", "tables", LAKES)
def _all_files(patch: Patch) -> None:
    patch.setattr(sources, "check_no_lake", lambda path, files: None)


@fault("charged before anyone asked whether the records are there", "curator", CHARGED)
def _unasked(patch: Patch) -> None:
    patch.setattr(Curator, "ensure_available", lambda self: None)
    patch.setattr("sottovoce.service.curator.data_source.DataSource.check_unchanged", lambda self, dataset: None)


@fault("a formula expanded before it is measured", "formulas", MEASURED)
def _expanded(patch: Patch) -> None:
    patch.setattr(formulas, "check_expansion", lambda tree: None)


@fault("a late answer leaves at the next tick of the grid", "curator", LATE)
def _next_multiple(patch: Patch) -> None:
    patch.setattr(records, "next_tick", lambda taken, step: max(1, math.ceil(taken / step)) * step)


@fault("a late answer leaves at once", "curator", LATE)
def _at_once(patch: Patch) -> None:
    patch.setattr(records, "next_tick", lambda taken, step: max(taken, step))
