"""What the counts behind an answer count: a partition of the cells of a clique, at last those of no group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.conditions import columns_of_condition, edges_of_condition, holds_in
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.table_columns import CUT, TableColumns
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Facts
from sottovoce.records.facts.cells import Axis

__all__ = ["CountedCells"]

_COUNTED = ("proportion", "mean", "total", "sd", "rate", "counts")
"""Verbs whose answers rest on counts of groups."""


@dataclass(frozen=True, eq=False)
class CountedCells:
    """The counts behind a question: of every combination of some axes, where a condition holds.

    Attributes
    ----------
    axes
        How its columns are cut, the last running fastest.
    where
        Which records it is about.

    Examples
    --------
    >>> from sottovoce.records.facts import Category, Flag, Number
    >>> facts = Facts(smoker=Flag(), ward=Category(["A", "B"]), age=Number(0, 110))
    >>> counted = CountedCells.of(Question("proportion", ("smoker",), facts, by=("ward",), where="age >= 65"))
    >>> counted.clique, counted.size, counted.edges(facts)
    (('ward', 'smoker', 'age'), 4, {'age': [65.0]})
    """

    axes: tuple[Axis, ...]
    where: str | None

    @classmethod
    def of(cls, question: Question) -> CountedCells:
        """Return what a question counts, or raise `InvalidValue` where that is no table of rows."""
        if question.facts.person is not None:
            raise InvalidValue("its records are persons, not rows")
        if question.verb not in _COUNTED:
            raise InvalidValue(f"{question.verb} counts otherwise than by cells")
        if question.cells is not None:
            axes = question.cells.axes
        elif question.verb in ("proportion", "counts"):
            axes = question.valued.axes
        else:  # records with a missing number are in no group
            asked = [*question.columns_asked, *([question.exposure] if question.exposure else [])]
            lone = tuple(
                Axis(name, True, (-np.inf, np.inf), ("any",), 0 if question.facts[name].missing is not None else -1)  # type: ignore[attr-defined]
                for name in asked
            )
            axes = (*question.groups.axes, *lone)
        named = [*(axis.name for axis in axes), *columns_of_condition(question.where)]
        for name in named:
            if not isinstance(question.facts[name], CUT) or name not in question.facts:
                raise InvalidValue(f"{name!r} is a {question.facts[name].word}")
        return cls(axes, question.where)

    @property
    def clique(self) -> tuple[str, ...]:
        """The columns that it takes to say in which cell a record is."""
        return tuple(dict.fromkeys([*(axis.name for axis in self.axes), *columns_of_condition(self.where)]))

    @property
    def size(self) -> int:
        """How many cells there are, without that of the records in none."""
        return int(np.prod([axis.size for axis in self.axes]))

    def edges(self, facts: Facts) -> dict[str, Sequence[float]]:
        """Return where columns of numbers must be cut to tell its cells apart."""
        result: dict[str, Sequence[float]] = dict(edges_of_condition(self.where, facts))
        for axis in self.axes:
            if axis.numeric and len(axis.marks) > 2:
                result[axis.name] = [*result.get(axis.name, ()), *map(float, axis.marks[1:-1])]
        return result

    def place(self, columns: TableColumns) -> NDArray[np.int64]:
        """Return for each cell of the clique, the last column fastest, the cell it lies in; none is last."""
        shape = columns.shape(self.clique)
        inside, cell = np.ones(shape, dtype=bool), np.zeros(shape, dtype=np.int64)
        for axis in self.axes:
            places = columns.parts[axis.name].places(axis)
            spread = [-1 if name == axis.name else 1 for name in self.clique]
            inside = inside & (places >= 0).reshape(spread)
            cell = cell * axis.size + np.maximum(places, 0).reshape(spread)
        if self.where is not None:
            inside = inside & holds_in(self.where, columns, self.clique).reshape(shape)
        return np.where(inside, cell, self.size).ravel()

    def seen(self, posterior: CellsPosterior) -> tuple[Any, float]:
        """Return the noisy counts of an answer, those of no cell last, and the variance of their noise."""
        if not posterior.reading.counted:
            raise InvalidValue("it counts no records")
        fine = posterior.reading.fine
        return posterior.reading.split(posterior.cells)[0] / fine, posterior.noises[0].variance / fine**2

    def marginal(self, counts: Any, variance: Any, columns: TableColumns, source: str) -> NoisyMarginal:
        """Return noisy counts as a marginal, with the variance of each or of all."""
        place = self.place(columns)
        present = np.unique(place)  # a cell that no record can be in tells nothing but its own noise
        place = np.searchsorted(present, place)
        counts = np.asarray(counts, dtype=np.float64)
        variances = np.broadcast_to(np.asarray(variance, dtype=np.float64), counts.shape)
        return NoisyMarginal(self.clique, place, counts[present], variances[present], source)
