"""What all released counts of a table tell together: any marginal that they keep, and tables drawn from it; free."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.inference.synthesis.linear_evidence import LinearEvidence, non_negative_interval, share_interval
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.searched_columns import WithinCells
from sottovoce.inference.synthesis.table_columns import TableColumns, Within
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Reach", "Released", "TablePosterior", "within_reach"]

_MOST_PARTS = 64
"""The most parts that answers may cut a column of numbers into, one with another."""
_MOST_CELLS = 2**16
"""The most cells of a clique."""
_WIDEST = 2**20
"""The most cells that summing out all columns may take."""
_DRAWS = 200
"""Draws that intervals are made of."""
_SPANNED = 2048
"""Of cliques up to so many cells it is worked out what their coarser counts determine."""
_EXACT = 1e-6
_HIDES = 1.96
"""Noise hides a count that is no more than so many standard deviations of it: an interval of 95 % holds zero."""

Released = tuple[str, CountedCells, Any, Any]
"""Where noisy counts come from, what they count, the counts, that of no cell last, and the variance of each or all."""


@dataclass(frozen=True)
class Reach:
    """Which releases are parts of one picture: marginals, and why others are none."""

    columns: TableColumns
    marginals: tuple[NoisyMarginal, ...]
    refused: tuple[tuple[str, str], ...]


def within_reach(columns: TableColumns, releases: Sequence[Released]) -> Reach:
    """Return the marginals of releases, as many as one field can be made of.

    They are taken in order; one that would cut a column too finely, or make the field too wide, is left out and named.
    """
    refused: list[tuple[str, str]] = []
    kept: list[Released] = []
    for source, counted, counts, variance in releases:
        finer = columns.with_edges(counted.edges(columns.facts))
        cliques = [*(cells.clique for _, cells, _, _ in kept), counted.clique]
        wide = [name for name, parts in finer.parts.items() if len(parts.edges) >= _MOST_PARTS]
        if wide:
            refused.append((source, f"{wide[0]!r} would be cut into more than {_MOST_PARTS} parts"))
        elif math.prod(finer.shape(counted.clique)) > _MOST_CELLS:
            refused.append((source, f"its columns have more than {_MOST_CELLS:,} cells together"))
        elif FieldFit.widest(finer.sizes, cliques) > _WIDEST:
            refused.append((source, "with it the relations of all columns together take too many cells"))
        else:
            columns = finer
            kept.append((source, counted, counts, variance))
    marginals = []
    for source, counted, counts, variance in kept:
        try:
            marginals.append(counted.marginal(counts, variance, columns, source))
        except InvalidValue as error:
            refused.append((source, str(error)))
    return Reach(columns, tuple(marginals), tuple(refused))


@dataclass(frozen=True, eq=False)
class TablePosterior:
    """The noise-aware posterior of one table, given noisy marginals of it.

    Attributes
    ----------
    columns
        The columns, cut.
    n
        How many records there are.
    marginals
        What was released.
    within
        How values lie within the parts of columns of numbers, where searches for quantiles told.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Flag
    >>> columns = TableColumns(Facts(smoker=Flag(missing=False), ill=Flag(missing=False)), {})
    >>> both = NoisyMarginal.of_table(("smoker", "ill"), [[610, 95], [182, 113]], 16.0)
    >>> known = TablePosterior(columns, 1000, (both,))
    >>> rows = known.rows(Question("proportion", ("ill",), columns.facts, by=("smoker",)), 0.95)
    >>> [(row["smoker"], round(row["estimate"], 2)) for row in rows]
    [(False, 0.13), (True, 0.38)]
    """

    columns: TableColumns
    n: int
    marginals: tuple[NoisyMarginal, ...]
    within: Mapping[str, WithinCells] = field(default_factory=dict)

    @cached_property
    def fit(self) -> FieldFit:
        """The field that is fitted to them."""
        return FieldFit(self.columns.sizes, self.n, self.marginals)

    @cached_property
    def digest(self) -> str:
        """A hash of all that it rests on: draws are a function of what was released, wherever they are made."""
        known = [self.columns.to_dict(), self.n, *([self._within_dict()] if self.within else [])]
        seen = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
        for item in self.marginals:
            seen.update(json.dumps(item.clique).encode())
            for part in (item.place, item.counts, item.variance):
                seen.update(np.ascontiguousarray(part).tobytes())
        return seen.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the columns and what was released, as plain values; `from_dict` reads them back."""
        marginals = [item.to_dict() for item in self.marginals]
        known = {"columns": self.columns.to_dict(), "n": self.n, "marginals": marginals}
        return known | {"within": self._within_dict()}

    def _within_dict(self) -> dict[str, Any]:
        return {name: item.to_dict() for name, item in self.within.items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read a posterior from `to_dict`'s form."""
        state = mapping("a posterior of a table", state)
        with restoring("a posterior of a table"):
            marginals = tuple(map(NoisyMarginal.from_dict, state["marginals"]))
            within = {name: WithinCells.from_dict(item) for name, item in state["within"].items()}
            return cls(TableColumns.from_dict(state["columns"]), int(state["n"]), marginals, within)

    def _seed(self, purpose: str) -> int:
        return int(hashlib.sha256(f"{self.digest} {purpose}".encode()).hexdigest()[:16], 16)

    def _rng(self, purpose: str) -> np.random.Generator:
        return seeded_rng(self._seed(purpose))

    @cached_property
    def _shares(self) -> Floats:
        """Draws of the shares of all cliques' cells, (draws, cells)."""
        drawn = self.fit.draws(_DRAWS, self._rng("intervals"))
        return np.concatenate([self.fit.tree.marginals(potentials[None])[0] for potentials in drawn])

    # What is kept.

    def kept(self, names: Sequence[str]) -> bool:
        """Say whether releases determine the counts of these columns, all together; those of missing values apart.

        Of numbers that nothing cuts, as those that only a mean was told of, nothing is kept.
        """
        key = tuple(sorted(names))
        if any(not (parts.values or parts.edges) for parts in map(self.columns.parts.__getitem__, key)):
            return False
        if key not in self._kept:
            place = np.arange(math.prod(self.columns.shape(key)))
            homes = [home for home in self._cliques if set(key) <= set(home)]
            self._kept[key] = any(self._determined(home, key, place) for home in homes)
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[tuple[str, ...], bool]:
        return {}

    @property
    def _cliques(self) -> list[tuple[str, ...]]:
        """The cliques that were measured, small ones first."""
        return sorted({item.clique for item in self.marginals}, key=lambda clique: (len(clique), clique))

    @property
    def relations(self) -> list[tuple[str, ...]]:
        """The largest sets of columns that were related by a release."""
        cliques = sorted({item.clique for item in self.marginals}, key=lambda c: (-len(c), c))
        return [c for i, c in enumerate(cliques) if not any(set(c) <= set(other) for other in cliques[:i])]

    def check_relation(self, names: Sequence[str]) -> None:
        """Raise `InvalidValue` unless every two of some columns were related by a release."""
        for name in names:
            if name not in self.columns.parts:
                raise InvalidValue(f"there is no column {name!r} here; there are {', '.join(self.columns.parts)}")
        pairs = itertools.combinations(names, 2) if len(names) > 1 else [tuple(names)]
        for pair in pairs:
            if not self.kept(pair):
                what = f"{' with '.join(pair)}" if len(pair) > 1 else f"{pair[0]!r}"
                raise InvalidValue(
                    f"nothing that was released tells of {what}; kept are {self._kept_words()}. Ask for "
                    f"counts of {' and '.join(pair)} first, or synthesize with spend=..."
                )

    def hidden_parts(self, name: str) -> int:
        """Return how many parts of a column hold no more records than noise alone may show; those missing aside."""
        size = self.columns.sizes[name] - self.columns.parts[name].missing
        known = [item.of_parts(name, self.columns.shape(item.clique)) for item in self.marginals if name in item.clique]
        if not known:
            return 0
        counts, variances = (np.stack([pair[k] for pair in known])[:, :size] for k in (0, 1))
        best = variances.argmin(axis=0), np.arange(size)
        finite = np.isfinite(variances[best])
        return int(np.sum(finite & (counts[best] <= _HIDES * np.sqrt(variances[best]))))

    def _kept_words(self) -> str:
        return "; ".join(" × ".join(clique) for clique in self.relations) or "none"

    # What is known of a question.

    def rows(self, question: Question, level: float) -> list[dict[str, Any]]:
        """Return what is known of shares or counts, a row each, with intervals; refuse what no release keeps.

        Estimates are the field's, and so add up. Intervals are those of the counts by themselves, where these tell it,
        else of draws of the field; each has the estimate in it.
        """
        counted, home = self._asked(question)
        means = self.n * self._cells(self.fit.means, counted, home)
        (estimate,) = _of(question, means)
        direct = self._direct(counted)
        draws = self.n * self._cells(self._shares, counted, home) if direct is None else direct
        ends = non_negative_interval if question.verb == "counts" else share_interval
        low, high = ends(_of(question, draws), level)
        return [
            dict(zip(question.label_names, label, strict=True))
            | {"estimate": float(value), "low": float(min(a, value)), "high": float(max(b, value))}
            for label, value, a, b in zip(question.labels, estimate, low, high, strict=True)
        ]

    def by_itself(self, question: Question) -> bool:
        """Say whether counts tell a question by themselves: then intervals of rare cells hold as often as others."""
        return self._direct(self._asked(question)[0]) is not None

    def _asked(self, question: Question) -> tuple[CountedCells, tuple[str, ...]]:
        if question.verb not in ("proportion", "counts"):
            raise InvalidValue(f"what was released is known as shares and counts, and this asks for a {question.verb}")
        counted = CountedCells.of(question)
        return counted, self._home(counted)

    @cached_property
    def _evidence(self) -> LinearEvidence:
        return LinearEvidence(self.fit, self._seed("evidence"))

    def _direct(self, counted: CountedCells) -> Floats | None:
        """Return draws of the counts of a question's cells, that of none last, by noisy counts alone."""
        return self._evidence.draws(counted.clique, counted.place(self.columns), counted.size + 1)

    def _cells(self, shares: Floats, counted: CountedCells, home: tuple[str, ...]) -> Floats:
        """Return the shares of the cells of a question, that of none last, given those of all cliques' cells."""
        place = counted.place(self.columns)
        table = self._table(shares, home, counted.clique)
        return np.stack([table[:, place == cell].sum(axis=1) for cell in range(counted.size + 1)], axis=1)

    def _table(self, shares: Floats, home: tuple[str, ...], names: Sequence[str]) -> Floats:
        """Return the shares of the cells of some columns of a clique, (draws, cells)."""
        table = self.fit.tree.split(shares)[self.fit.cliques.index(home)]
        table = table.sum(axis=tuple(1 + k for k, name in enumerate(home) if name not in names))
        kept = [name for name in home if name in names]
        return np.asarray(table.transpose(0, *(1 + kept.index(name) for name in names)).reshape(len(table), -1))

    def _home(self, counted: CountedCells) -> tuple[str, ...]:
        """Return the clique that keeps a question, or say what is not kept."""
        for name in counted.clique:
            if name not in self.columns.parts:
                raise InvalidValue(f"nothing is known of {name!r} here")
        homes = [home for home in self._cliques if set(counted.clique) <= set(home)]
        asked = " × ".join(counted.clique)
        if not homes:
            raise InvalidValue(f"nothing that was released keeps {asked}; kept are {self._kept_words()}")
        missing = {n: set(e) - set(self.columns.edges.get(n, ())) for n, e in counted.edges(self.columns.facts).items()}
        for name, edges in missing.items():
            if edges:
                raise InvalidValue(f"nothing that was released cuts {name!r} at {min(edges):g}")
        place = counted.place(self.columns)
        if not any(self._determined(home, counted.clique, place) for home in homes):
            raise InvalidValue(f"what was released keeps {asked} in part only, and not the cells that this asks for")
        return homes[0]

    def _determined(self, home: tuple[str, ...], clique: Sequence[str], place: NDArray[np.int64]) -> bool:
        """Say whether released counts of a clique determine a question's cells: these are sums of those.

        Cells of missing values are left aside: how many records have any is counted with every release.
        """
        inside = [item for item in self.marginals if set(item.clique) <= set(home)]
        if any(item.whole and set(clique) <= set(item.clique) for item in inside):
            return True
        shape = self.columns.shape(home)
        if math.prod(shape) > _SPANNED:
            return False
        codes = np.indices(shape)

        def spread(names: Sequence[str], places: NDArray[np.int64]) -> NDArray[np.int64]:
            cell = np.ravel_multi_index([codes[home.index(name)].ravel() for name in names], self.columns.shape(names))
            return np.asarray(places[cell])[there]

        there = np.ones(shape, dtype=bool)
        for k, name in enumerate(home):
            if self.columns.parts[name].missing:
                there &= codes[k] < shape[k] - 1
        there = there.ravel()
        blocks = [np.ones((1, int(there.sum())))]
        for item in inside:
            cells = spread(item.clique, item.place)
            blocks.append((cells == np.arange(item.counts.size)[:, None]).astype(float))
        wanted = spread(clique, place)
        asked = (wanted == np.arange(place.max() + 1)[:, None]).astype(float)
        known = np.concatenate(blocks)
        _, singular, rows = np.linalg.svd(known, full_matrices=False)
        rows = rows[singular > _EXACT * singular[0]]
        return bool(np.abs(asked - asked @ rows.T @ rows).max() < _EXACT**0.5)

    # Tables.

    def tables(self, sets: int, size: int, names: Sequence[str]) -> Iterator[Any]:
        """Yield synthetic tables as data frames, each drawn under its own draw of the field."""
        import pandas as pd  # noqa: PLC0415 - an extra

        rng = self._rng(f"{sets} tables of {size}")
        for draw, potentials in enumerate(self.fit.draws(sets, rng)):
            codes = self.fit.tree.sample(potentials, size, rng)
            columns = {
                name: self.columns.parts[name].drawn(codes[i], rng, self._within(name, draw))
                for i, name in enumerate(self.fit.names)
            }
            yield pd.DataFrame({name: _typed(columns[name], self.columns.parts[name]) for name in names})

    def _within(self, name: str, draw: int) -> Within | None:
        known = self.within.get(name)
        return None if known is None else functools.partial(known.values, draw)

    def column_rows(self, name: str, level: float) -> list[dict[str, Any]]:
        """Return the shares of a column's parts, a row each: part, estimate, low and high."""
        parts, clique = self.columns.parts[name], (name,)
        home = next(home for home in (*self._cliques, *self.fit.cliques) if name in home)
        estimate = self._table(self.fit.means, home, clique)[0]
        counts = self._evidence.draws(clique, np.arange(parts.size), parts.size)
        draws = self._table(self._shares, home, clique) if counts is None else counts / self.n
        low, high = share_interval(draws, level)
        return [
            {"part": part, "estimate": float(e), "low": float(min(a, e)), "high": float(max(b, e))}
            for part, e, a, b in zip(parts.labels, estimate, low, high, strict=True)
        ]

    def errors(self) -> list[dict[str, Any]]:
        """Return for every two columns whether they are kept, and the error of their table as the draws tell it.

        It is the expected sum of what the shares of all cells are off by, halved: between 0 and 1.
        """
        result: list[dict[str, Any]] = []
        for pair in itertools.combinations(self.fit.names, 2):
            homes = [home for home in self._cliques if set(pair) <= set(home)]
            error, kept = math.nan, self.kept(pair)
            if kept:
                cells = math.prod(self.columns.shape(pair))
                counts = self._evidence.draws(pair, np.arange(cells), cells)
                shares = self._table(self._shares, homes[0], pair) if counts is None else counts / self.n
                error = float(np.abs(shares - shares.mean(axis=0)).sum(axis=1).mean() / 2)
            result.append({"first": pair[0], "second": pair[1], "kept": kept, "error": error})
        return result


def _of(question: Question, counts: Floats) -> Floats:
    """Return what a question asks for, given draws of the counts of its cells, that of none last."""
    values = counts[:, :-1]
    if question.verb == "proportion":
        groups = values.reshape(len(counts), question.groups.size, -1)
        total = groups.sum(axis=2, keepdims=True)
        # Where a group may well be empty its shares may be any: those of its draws are spread over all of 0 to 1.
        spread = np.linspace(0, 1, len(counts))[:, None, None] if len(counts) > 1 else np.zeros((1, 1, 1))
        groups = np.clip(np.where(total > 0, groups / np.where(total > 0, total, 1.0), spread), -1, 2)
        values = groups.reshape(len(counts), -1) if question.each_value else groups[:, :, -1]
    return np.asarray(values[:, question.places])


def _typed(values: Any, parts: Any) -> Any:
    """Return values of the type that their column has in a frame: whole numbers and flags with missing ones."""
    import pandas as pd  # noqa: PLC0415 - an extra

    if parts.counts:
        return pd.array(values, dtype="Int64")
    return pd.array(values, dtype="boolean") if parts.values == (False, True) else values
