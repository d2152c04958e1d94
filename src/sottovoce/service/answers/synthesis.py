"""Synthetic tables of what was released, and what is known of a question from it: free post-processing."""

from __future__ import annotations

import html
import json
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sottovoce.inference.cells.groups import shown
from sottovoce.inference.synthesis.table_posterior import TablePosterior
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.synthesis_report import report_page

__all__ = ["RARE", "KnownAnswer", "Synthesis"]

_NOTHING_ELSE = (
    "Use combine() for every analysis: one table taken for data is far too sure of itself.",
    "Relations of columns that are not listed as kept are taken to be none, given what is kept: do not read them off.",
    "No row is a person's: do not look anybody up, and do not link the tables to others.",
    "Extremes and the order of rows tell nothing; intervals of cells hardly above the noise hold a little too seldom.",
)

RARE = "these cells are known through others: intervals of those that are hardly above the noise are too narrow"


@dataclass(frozen=True, eq=False)
class KnownAnswer:
    """What is known of a question from what was released already.

    Attributes
    ----------
    question
        What was asked, in words.
    rows
        Each with the values that name it, and estimate, low and high.
    level
        Of the intervals.
    label_names
        The columns that name a row.
    entries
        The entries of the ledger that it rests on.
    notes
        What one must know to read them.
    """

    question: str
    rows: tuple[Mapping[str, Any], ...]
    level: float
    label_names: tuple[str, ...]
    entries: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Any:
        """The rows as a data frame."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows)

    def summary(self) -> str:
        """Return the question and its rows as text."""
        lines = [self.question]
        for row in self.rows:
            name = " / ".join(shown(row[label]) for label in self.label_names)
            lines.append(f"  {name + ': ' if name else ''}{_ends(row)}")
        entries = ", ".join(map(str, self.entries))
        return "\n".join(
            [*lines, *self.notes, f"{percent(self.level)} intervals, from entries {entries}; nothing was spent"]
        )

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain values."""
        rows = [dict(row) for row in self.rows]
        said = {"question": self.question, "level": self.level, "rows": rows, "entries": list(self.entries)}
        return said | {"notes": list(self.notes)}

    def __repr__(self) -> str:
        return self.summary()


def _ends(row: Mapping[str, object]) -> str:
    return f"{row['estimate']:.4g} ({row['low']:.4g} to {row['high']:.4g})"


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Synthetic tables drawn from the posterior of a table, given what was released of it.

    Attributes
    ----------
    posterior
        The field of all that was released.
    columns
        The columns of the tables.
    sets, size
        How many tables there are, and their rows.
    dataset, entries
        Of which data, and which entries of the ledger the tables rest on.
    refused
        Releases that are no part of the picture, and why.
    entry, share
        Where the tables were paid for: the entry, and its share of the budget.
    promise
        What all releases of the data keep together.
    """

    posterior: TablePosterior
    columns: tuple[str, ...]
    sets: int
    size: int
    dataset: str
    entries: tuple[int, ...]
    refused: tuple[tuple[str, str], ...] = ()
    entry: int | None = None
    share: float = 0.0
    promise: Promise | None = None
    notes: tuple[str, ...] = field(default=_NOTHING_ELSE)

    @property
    def n(self) -> int:
        """How many records the table has."""
        return self.posterior.n

    @cached_property
    def tables(self) -> list[Any]:
        """The tables, as data frames; what each is is noted in its ``attrs``. The same whenever they are drawn."""
        drawn = list(self.posterior.tables(self.sets, self.size, self.columns))
        for number, table in enumerate(drawn):
            table.attrs["synthetic"] = self.receipt(number)
        return drawn

    def receipt(self, number: int | None = None) -> dict[str, Any]:
        """Return what says that a table is synthetic, and of what it was made."""
        said = {"synthetic": True, "dataset": self.dataset, "entries": list(self.entries), "sets": self.sets}
        said |= {"rows": self.size, "releases": self.posterior.digest, "entry": self.entry, "share": self.share}
        return said if number is None else said | {"set": number + 1}

    def check_relation(self, names: Sequence[str]) -> None:
        """Raise `InvalidValue` unless every two of some columns were related by a release."""
        self.posterior.check_relation(names)

    def kept_together(self, names: Sequence[str]) -> bool:
        """Say whether some columns were released all together, and not by twos alone."""
        return len(names) < 3 or self.posterior.kept(names)

    def hidden_parts(self, name: str) -> tuple[int, int]:
        """Return how many parts of a column noise hides, and how many there are."""
        known = self.posterior.columns
        return self.posterior.hidden_parts(name), known.sizes[name] - known.parts[name].missing

    @cached_property
    def kept(self) -> list[dict[str, Any]]:
        """Every two columns of the tables: whether their relation is kept, and the error of their shares."""
        return [row for row in self.posterior.errors() if {row["first"], row["second"]} <= set(self.columns)]

    def to_parquet(self, folder: str | pathlib.Path) -> list[pathlib.Path]:
        """Write the tables into a folder, each with its receipt in the file, and return where they are."""
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415

        paths = self._paths(folder, "parquet")
        for number, (path, table) in enumerate(zip(paths, self.tables, strict=True)):
            arrow = pa.Table.from_pandas(table, preserve_index=False)
            said = {b"sottovoce": json.dumps(self.receipt(number)).encode()}
            parquet.write_table(arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), **said}), path)
        return paths

    def to_csv(self, folder: str | pathlib.Path) -> list[pathlib.Path]:
        """Write the tables into a folder, their receipts beside them, and return where they are."""
        paths = self._paths(folder, "csv")
        for path, table in zip(paths, self.tables, strict=True):
            table.to_csv(path, index=False)
        receipts = [self.receipt(number) for number in range(self.sets)]
        (pathlib.Path(folder) / "synthetic.json").write_text(json.dumps(receipts, indent=1), encoding="utf-8")
        return paths

    def _paths(self, folder: str | pathlib.Path, ending: str) -> list[pathlib.Path]:
        place = pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        digits = len(str(self.sets))
        return [place / f"synthetic-{number + 1:0{digits}}.{ending}" for number in range(self.sets)]

    def report(self) -> str:
        """Return what was kept, how well, and what the tables are not for, as text."""
        lines = [f"{self.sets} synthetic tables of {self.size:,} rows from {self.dataset}"]
        lines.append(f"made of entries {', '.join(map(str, self.entries)) or 'none'}; {self.cost_words()}")
        lines.append("relations kept: " + ("; ".join(" × ".join(c) for c in self.posterior.relations) or "none"))
        rows = sorted((row for row in self.kept if row["kept"]), key=lambda row: -row["error"])
        lines += ["error of the shares of two columns together, as the noise and sampling leave it:"] * bool(rows)
        lines += [f"  {row['first']} × {row['second']}: {percent(row['error'])}" for row in rows]
        if lost := [f"{row['first']} × {row['second']}" for row in self.kept if not row["kept"]]:
            lines.append(f"not kept: {', '.join(lost)}")
        lines += [f"not used: {source}, for {why}" for source, why in self.refused]
        return "\n".join([*lines, *self.notes])

    def cost_words(self) -> str:
        """Return what learning relations cost, in words."""
        return f"{percent(self.share)} of the budget, entry {self.entry}" if self.entry else "nothing was spent"

    def shares(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return each column with the shares of its parts, as estimates and intervals of a level."""
        return [{"name": name, "rows": self.posterior.column_rows(name, level)} for name in self.columns]

    def to_html(self, path: str | pathlib.Path | None = None) -> str:
        """Return the report as one page of HTML, written to a file where one is named."""
        page = report_page(self)
        if path is not None:
            pathlib.Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report())}</pre>"

    def summary(self) -> str:
        """Return the report."""
        return self.report()

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values; the tables are made anew from what was released."""
        kept = [list(clique) for clique in self.posterior.relations]
        refused = [list(item) for item in self.refused]
        said = {"kept": kept, "pairs": self._pairs(), "refused": refused, "notes": list(self.notes)}
        return self.receipt() | {"columns": list(self.columns)} | said

    def _pairs(self) -> list[dict[str, Any]]:
        return [row | {"error": row["error"] if row["kept"] else None} for row in self.kept]

    def __repr__(self) -> str:
        return f"Synthesis({self.sets} tables of {self.size:,} rows from {self.dataset!r})"
