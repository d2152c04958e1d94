"""Table 1: who is in the data, by group. Numbers as mean (SD) and median [IQR], categories as n (%), missing ones."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.groups import Groups
from sottovoce.inference.cells.intervals import central
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Category, Facts, Flag
from sottovoce.records.facts.excluded_groups import groups_kept
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.description_cells import difference_cells, table_cell
from sottovoce.service.answers.description_questions import QUARTILES, described_words
from sottovoce.service.answers.display import footing, shown
from sottovoce.service.answers.paper_table import in_great_tables, in_latex, in_markdown, latex_words, methods_paragraph
from sottovoce.service.answers.word_table import word_document

_SEED = 1925
_DRAWS = 4000
_FEWEST = 1000
"""So many draws of a number of missing values must lie above zero for them to tell its law."""
_PRIOR = 1.5
"""So many records the prior of shares counts for, as that of a question for a proportion."""
_ALL = "all"
_BESIDE = 2
"""Of so many groups the table has a column of differences; of more `differences` has them."""
_COMPARED = (
    "{:,} differences between groups were compared: of so many that are none, about {:.2g} intervals leave out zero"
)


@dataclass(frozen=True, eq=False)
class Description:
    """Table 1 of a data set: several answers, each with an entry of its own, shown as one table.

    Attributes
    ----------
    columns, by, facts
        What is described, by which groups, and what is public of it.
    answers
        The answers that it is made of.
    where
        Which records it is about.
    """

    columns: tuple[str, ...]
    by: tuple[str, ...]
    facts: Facts
    answers: tuple[Answer, ...]
    where: str | None = None

    @property
    def level(self) -> float:
        """How often each interval holds the truth."""
        return self.answers[0].level

    @property
    def entries(self) -> list[int | None]:
        """The entries in the ledger of the questions that it was made of."""
        return [answer.entry for answer in self.answers]

    @property
    def share(self) -> float | None:
        """The share of the budget that all of them cost; None where one is not known."""
        shares = [answer.share for answer in self.answers]
        return None if any(item is None for item in shares) else float(sum(item or 0.0 for item in shares))

    def describe(self) -> str:
        """Return what is described, in one line."""
        return described_words(self.columns, self.by, self.where)

    # The rows.

    @property
    def _groups(self) -> list[tuple[Any, ...]]:
        labels = Groups.named(self.by, self.facts).labels
        return [labels[place] for place in self._kept]

    @property
    def _kept(self) -> list[int]:
        return groups_kept(self.where, Groups.named(self.by, self.facts).axes)

    @property
    def _names(self) -> list[str]:
        return Groups.named(self.by, self.facts).names

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every number with its interval as plain values: the column, the statistic, the value, the groups' names."""
        rows: list[dict[str, object]] = []
        for name in self.columns:
            rows += self._of_values(name) if isinstance(self.facts[name], Flag | Category) else self._of_number(name)
        return rows

    @property
    def table(self) -> Any:
        """A data frame of the rows."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows).astype({"estimate": float})

    def to_polars(self) -> Any:
        """Return the rows of `table` as a polars frame."""
        import polars as pl  # noqa: PLC0415 - whoever asks for it has it

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def _answer(self, verb: str, name: str) -> Answer:
        return next(
            answer
            for answer in self.answers
            if answer.question.verb == verb and answer.question.columns_asked[-1] == name
        )

    def _row(
        self, name: str, statistic: str, value: object, group: tuple[object, ...], ends: Mapping[str, object]
    ) -> Any:
        said = {"column": name, "statistic": statistic, "value": value}
        numbers = {key: ends[key] for key in ("estimate", "low", "high")}
        return said | dict(zip(self._names, group, strict=True)) | numbers

    def _of_number(self, name: str) -> list[dict[str, object]]:
        means, quantiles = self._answer("mean", name), self._answer("quantiles", name)
        spreads, rows = means.sd(), []
        missing = self._missing(means)
        for place, group in enumerate(self._groups):
            rows.append(self._row(name, "mean", None, group, means.rows[place]))
            rows.append(self._row(name, "sd", None, group, spreads.rows[place]))
            for k, share in enumerate(QUARTILES):
                said = "median" if share == 0.5 else f"quantile {share:g}"
                rows.append(self._row(name, said, None, group, quantiles.rows[place * len(QUARTILES) + k]))
            if missing is not None:
                rows.append(self._row(name, "missing", None, group, missing[place]))
        return rows

    def _missing(self, means: Answer) -> list[dict[str, Any]] | None:
        """Return how many have no value of a number in each group: all of it less those whose values were added.

        Where a person's rows are averaged it is not told: they count in parts of groups, their averages in one.
        """
        posterior = means.posterior
        if means.question.averaged:
            return None
        if not isinstance(posterior, CellsPosterior) or not posterior.reading.counted or posterior.reading.fine != 1:
            return None
        noisy, noise, _ = posterior.noisy_counts()
        rng = seeded_rng(_SEED)
        if not self.by:
            if self.where is not None:
                return None
            return [_count_row(noisy[-1:] - _noises(noise, 1, rng), self.level)]
        sizes = self._sizes
        full, other, _ = sizes.noisy_counts()
        gaps = (full[:-1] - noisy[:-1])[self._kept]
        draws = gaps - _noises(noise, gaps.size, rng) + _noises(other, gaps.size, rng)
        return [_count_row(draws[:, [place]], self.level) for place in range(gaps.size)]

    @property
    def _sizes(self) -> CellsPosterior:
        posterior: Any = self._answer("counts", _last(self.by, self.facts)).posterior
        return posterior  # type: ignore[no-any-return]

    @cached_property
    def _shares(self) -> dict[str, tuple[list[Any], list[Floats], list[Floats]]]:
        """Of each column of values: the values, and for every group draws of their shares and of the counts."""
        result = {}
        for name in self.columns:
            if not isinstance(self.facts[name], Flag | Category):
                continue
            posterior: Any = self._answer("counts", name).posterior
            cells = posterior.question.cells
            shape = [axis.size - axis.missing for axis in cells.axes[:-1]]
            draws = posterior.draws.reshape(len(posterior.draws), *cells.shape)
            for place, size in enumerate(shape):  # without the cells of records whose group is missing
                draws = np.take(draws, range(size), axis=place + 1)
            draws = draws.reshape(len(draws), -1, cells.shape[-1])
            axis = cells.axes[-1]
            values = list(axis.labels[: axis.size - axis.missing])
            shares, counts, rng = [], [], seeded_rng(_SEED)
            for place in self._kept:
                counts.append(draws[:, place])
                parts = rng.standard_gamma(draws[:, place, : len(values)] + _PRIOR / len(values)) + 1e-300
                shares.append(parts / parts.sum(axis=1, keepdims=True))
            result[name] = values, shares, counts
        return result

    def _of_values(self, name: str) -> list[dict[str, object]]:
        values, every, counted = self._shares[name]
        rows = []
        for group, shares, counts in zip(self._groups, every, counted, strict=True):
            for k, value in enumerate(values):
                rows.append(self._row(name, "count", value, group, _ends(counts[:, [k]], self.level)))
                rows.append(self._row(name, "share", value, group, _ends(shares[:, [k]], self.level)))
            if counts.shape[1] > len(values):
                rows.append(self._row(name, "missing", None, group, _ends(counts[:, [-1]], self.level)))
        return rows

    # The groups beside each other.

    @cached_property
    def differences(self) -> list[dict[str, object]]:
        """How each group differs from the first, of means and of shares: the interval, and how sure its sign is.

        Rows are plain values: the column, the statistic, the value, the two groups in words, estimate, low, high and
        the probability of the sign. Nothing where there is one group. An estimate is None where noise hides a group.
        """
        first, *others = self._groups
        rows: list[dict[str, object]] = []
        for name in self.columns:
            values = self._values_of(name)
            for group in others:
                for value in values:
                    statistic = "mean" if value is None else "share"
                    numbers = self._apart(name, value, group, first)
                    said = {"column": name, "statistic": statistic, "value": value}
                    rows.append(said | {"group": _named(group), "beside": _named(first)} | numbers)
        return rows

    def _values_of(self, name: str) -> list[object]:
        column = self.facts[name]
        if isinstance(column, Flag):
            return [True]
        return list(column.categories) if isinstance(column, Category) else [None]

    def _apart(self, name: str, value: object, group: tuple[object, ...], other: tuple[object, ...]) -> dict[str, Any]:
        if value is None:
            apart = self._answer("mean", name).difference(group, other)
            draws, known = apart.draws, apart.told
            ends = {"estimate": apart.estimate if known else None, "low": apart.low, "high": apart.high}
        else:
            place = list(self._shares[name][0]).index(value)
            shares = [self._shares[name][1][self._groups.index(item)][:, place] for item in (group, other)]
            draws, known = shares[0] - shares[1], True
            ends = _ends(draws[:, None], self.level)
        above = float(np.mean(draws > 0) + np.mean(draws == 0) / 2) if known else None
        return ends | {"probability": None if above is None else max(above, 1 - above)}

    # As text.

    def paper_lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the table as a paper prints it: a column a group."""
        groups = self._groups
        by_key: dict[tuple[Any, ...], Mapping[str, object]] = {}
        for row in self.rows:
            by_key[row["column"], row["statistic"], row["value"], *(row[name] for name in self._names)] = row
        head = ["", *(_named(group) or _ALL for group in groups)]
        two = len(groups) == _BESIDE
        head += [f"{_named(groups[1])} less {_named(groups[0])}", "P(sign)"] if two else []
        apart = {(row["column"], row["statistic"], row["value"]): row for row in self.differences} if two else {}
        body = []
        for name in self.columns:
            for title, statistics, value in self._lines_of(name):
                cells = [[by_key.get((name, said, value, *group)) for said in statistics] for group in groups]
                if any(cell[0] is not None for cell in cells):
                    line = [title, *(table_cell(statistics[0], cell) for cell in cells)]
                    which = "share" if statistics[0] == "count" else statistics[0]
                    body.append(line + (difference_cells(apart.get((name, which, value))) if two else []))
        return head, body

    def _lines_of(self, name: str) -> list[tuple[str, tuple[str, ...], object]]:
        column = self.facts[name]
        missing = (f"{name}: missing, n", ("missing",), None)
        if isinstance(column, Flag):
            return [(f"{name}, n (%)", ("count", "share"), True), missing]
        if isinstance(column, Category):
            return [(f"{name}: {shown(v)}, n (%)", ("count", "share"), v) for v in column.categories] + [missing]
        quartiles = ("median", "quantile 0.25", "quantile 0.75")
        return [(f"{name}, mean (SD)", ("mean", "sd"), None), (f"{name}, median [IQR]", quartiles, None), missing]

    @property
    def notes(self) -> list[str]:
        """What one must know to read the table."""
        said = [
            f"behind each semicolon the {percent(self.level)} interval of the first number, of n (%) that of the share"
        ]
        said += ["percentages are of those with a value"]
        if self.by:
            said += [f"whoever has no {' or '.join(self._names)} is left out"]
        if (compared := len(self.differences)) > 1:
            said += [_COMPARED.format(compared, compared * (1 - self.level))]
        shared = ("protected is", "protected are", "charged to")  # of all answers alike
        every = [note for answer in self.answers[:1] for note in answer.notes if any(words in note for words in shared)]
        return [*said, *every]

    def footing(self) -> str:
        """Return what holds for every number, and what all of it cost."""
        numbers = [f"{entry}" for entry in self.entries if entry is not None]
        under = f", entries {', '.join(numbers)}" if numbers else ""
        return "; ".join([*self.notes, footing(self.level, self.share, None) + under])

    def summary(self) -> str:
        """Return the table as text."""
        head, body = self.paper_lines()
        wide = [max(len(line[k]) for line in [head, *body]) for k in range(len(head))]
        lines = [
            "  " + "  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip()
            for line in [head, *body]
        ]
        return "\n".join([self.describe(), *lines, *textwrap.wrap(self.footing(), 80)])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Description({self.describe()!r}: {len(self.answers)} questions)"

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        return in_markdown(self.describe(), *self.paper_lines(), self.notes)

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        r"""Return the table in LaTeX, with the rules of ``booktabs``; a caption is in LaTeX's own signs."""
        title = latex_words(self.describe()) if caption is None else caption
        return in_latex(title, *self.paper_lines(), self.notes, 1, label)

    def as_gt(self) -> Any:
        """Return the table as a `great_tables.GT`, to be styled and saved as HTML, PNG or LaTeX."""
        return in_great_tables(self.describe(), *self.paper_lines(), self.notes, 1)

    def to_docx(self, path: str | Path) -> None:
        """Write the table into a Word document."""
        Path(path).write_bytes(word_document(self.describe(), *self.paper_lines(), self.notes, 1))

    def methods(self) -> str:
        """Return a paragraph for the methods section of a paper, true to all that was run, and what to cite."""
        return methods_paragraph(self.describe(), [answer.release for answer in self.answers], self.level)

    def _repr_html_(self) -> str:
        head, body = self.paper_lines()
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body)
        return (
            f"<table><caption><strong>{escape(self.describe())}</strong></caption><thead><tr>{top}</tr></thead>"
            f"<tbody>{lines}</tbody></table><p><small>{escape(self.footing())}</small></p>"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the description as plain values, its rows and the answers it was made of among them."""
        state = {"question": self.describe(), "level": self.level, "share": self.share, "entries": self.entries}
        state["differences"] = self.differences
        return state | {"table": self.rows, "answers": [answer.to_dict() for answer in self.answers]}


def _last(by: tuple[str, ...], facts: Facts) -> str:
    return Groups.named(by, facts).names[-1]


def _noises(noise: Any, size: int, rng: np.random.Generator) -> Floats:
    deviation = float(np.sqrt(noise.variance))
    if noise.kind == "gaussian":
        return rng.normal(0, deviation, (_DRAWS, size))
    return rng.laplace(0, deviation / np.sqrt(2), (_DRAWS, size))


def _count_row(draws: Floats, level: float) -> dict[str, object]:
    """Return the row of a number that is not below zero, each as likely as another beforehand.

    Where noise left next to no draw there, the tail of a normal law of the same mean and variance stands for them: that
    noise went far below zero does not make it sure that there is none.
    """
    above = draws[draws[:, 0] >= -0.5]
    middle, spread = float(draws.mean()), float(draws.std())
    if len(above) < _FEWEST and spread > 0:
        ranks = (np.arange(len(draws)) + 0.5) / len(draws)
        above = stats.truncnorm.ppf(ranks, (-0.5 - middle) / spread, np.inf, middle, spread)[:, None]
    return _ends(np.maximum(np.rint(above if len(above) else draws), 0.0), level)


def _ends(draws: Floats, level: float) -> dict[str, Any]:
    low, high = central(draws, level)[0].tolist()
    return {"estimate": float(np.median(draws)), "low": low, "high": high}


def _named(group: tuple[object, ...]) -> str:
    return " / ".join(map(shown, group))
