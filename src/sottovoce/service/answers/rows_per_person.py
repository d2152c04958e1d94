"""How many rows of a person to count: what k keeps, paid for, and what k costs in noise, free."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sottovoce.inference.cells.cell_noise import cell_profile
from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.mechanisms import NoisyStatistics, Release
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate import DirichletCategorical
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.noisy_histogram import NoisyHistogram
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent
from sottovoce.records.readings import PersonRows
from sottovoce.service.answers.budget_account import BudgetAccount
from sottovoce.service.ledger import Budget

_USUAL = (1, 2, 3, 5, 10, 20)
_DRAWS, _SEED = 4000, 20170913


@dataclass(frozen=True)
class RowsKept:
    """The share of all rows that are among the first k of their person, for some k, with intervals.

    Attributes
    ----------
    rows
        For each k its estimate, low and high.
    most
        A person with more rows than this was counted with this many.
    release, entry
        What was let out, and the number of its entry in the ledger.
    bounded
        Which part of the persons had that many rows or more, (low, high).
    """

    rows: tuple[dict[str, Any], ...]
    most: int
    release: Release
    entry: int
    bounded: tuple[float, float] = (0.0, 1.0)

    @property
    def notes(self) -> list[str]:
        """What one must know to read the rows, in words."""
        said = [f"a person with more than {self.most} rows counted with {self.most}"]
        low, high = self.bounded
        if low > 0:
            said.append(
                f"{percent(low)} to {percent(high)} of the persons have {self.most} rows or more, and how many more is "
                f"not counted: of all rows each k keeps a smaller share than is said here; ask with a larger most"
            )
        return said

    @property
    def table(self) -> Any:
        """The rows as a data frame."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(list(self.rows))

    def __str__(self) -> str:
        lines = [
            f"k = {r['k']}: {percent(r['estimate'])} ({percent(r['low'])} to {percent(r['high'])}) of the rows"
            for r in self.rows
        ]
        return "\n".join([*lines, *(f"({note})" for note in self.notes)])


def rows_noise(target: Promise, k: Sequence[int] | int = _USUAL) -> dict[int, float]:
    """Return how far noise moves a count where at most k rows a person count, as a standard deviation: public.

    The noise grows as k does, so that a larger k pays where it keeps more rows than the noise hides.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> {k: round(sd, 1) for k, sd in rows_noise(ApproxDP(0.5, 1e-6), (1, 3)).items()}
    {1: 5.7, 3: 17.0}
    """
    target = target.under(replace(target.relation, unit="record"))
    result = {}
    for item in (k,) if isinstance(k, int) else k:
        reading = PersonRows((False,), (("any",),), (-1,), rows=whole("k", item, 1))
        kinds = []
        for kind, factor in (("laplace", 2**0.5), ("gaussian", 1.0)):
            with contextlib.suppress(InvalidValue):
                kinds.append(factor * _scale(reading, kind, target))
        if not kinds:
            raise InvalidValue(f"no noise keeps {target} with {item} rows a person")
        result[item] = min(kinds)
    return result


def _scale(reading: PersonRows, kind: Any, target: Promise) -> float:
    """Return the least scale of a noise that keeps a promise."""

    def profile(inverse: float) -> Profile:
        return cell_profile(reading, kind, 1 / inverse).about(target.relation)

    return 1 / largest_keeping(profile, target, high=100.0, low=2.0**-29, name="1/scale")


def _persons(seen: NoisyHistogram, rng: np.random.Generator) -> Floats:
    """Return draws of how many persons have so many rows, the noise taken off, (draws, rows): some below zero."""
    shape, gaussian = (_DRAWS, seen.noisy.size), seen.kind == "gaussian"
    standard = rng.normal(size=shape) if gaussian else rng.laplace(size=shape) / math.sqrt(2)
    persons = seen.noisy - math.sqrt(IntegerNoise(seen.kind, seen.scale).variance) * standard
    return np.asarray(persons + (seen.n - persons.sum(axis=1, keepdims=True)) / seen.noisy.size)


def kept_rows(seen: NoisyHistogram, k: Sequence[int], rng: np.random.Generator) -> Floats:
    """Return draws of the share of rows that are among the first k of their person, (draws, k).

    Noise is taken off the number of persons with one row, two, and so on, and may leave it below zero: of many such
    numbers, most of them none, each held at zero on its own, the sum would have rows that nobody has. What is held is
    the sums, within what so many persons can have.
    """
    persons = _persons(seen, rng)
    sizes, first = np.arange(1, seen.noisy.size + 1)[:, None], np.asarray(k)
    among = np.clip(persons @ np.minimum(sizes, first), seen.n, seen.n * first)
    beyond = np.clip(persons @ np.maximum(sizes - first, 0), 0, seen.n * (seen.noisy.size - first))
    return np.asarray(np.maximum(among / np.maximum(among + beyond, 1), first / seen.noisy.size))


def kept_ends(seen: NoisyHistogram, k: Sequence[int], kept: Floats, level: float) -> Floats:
    """Return the intervals of what k keeps, (low, high) last, none of them without width.

    Where nearly every draw was held at what is possible at all, the interval reaches inward from there as far as noise
    lets the share be wrong: a noisy look is no certainty.
    """
    ends = central(kept, level)
    persons, first = _persons(seen, seeded_rng(_SEED)), np.asarray(k)
    sizes = np.arange(1, seen.noisy.size + 1)[:, None]
    loose = (persons @ np.minimum(sizes, first)) / np.maximum(persons @ sizes, seen.n)
    spread = np.diff(central(loose, level), axis=1)[:, 0]
    flat = ends[:, 0] == ends[:, 1]
    ends[flat, 0] = np.maximum(ends[flat, 0] - spread[flat], (first / seen.noisy.size)[flat])
    ends[flat, 1] = np.minimum(ends[flat, 1] + spread[flat], 1.0)
    return np.asarray(ends)


class RowsOfPersons(BudgetAccount):
    """What a curator says of how many rows persons have."""

    def rows_noise(self, k: Sequence[int] | int = _USUAL, spend: Any = 0.05) -> dict[int, float]:
        """Return how far noise would move a count of at most k rows a person: free, and from public numbers alone."""
        return rows_noise(self.share(spend), k)

    def rows_kept(
        self,
        k: Sequence[int] | int = _USUAL,
        *,
        most: int = 32,
        spend: Any = 0.02,
        level: float = 0.95,
        part: Budget | None = None,
        **options: Any,
    ) -> RowsKept:
        """Return the share of this table's rows that ``Person(rows=k)`` would keep, by noisy counts of persons.

        Parameters
        ----------
        k
            How many rows a person may count with; one number or several, all at one price.
        most
            A person with more rows counts with so many: public, and more than k.
        spend, part, level, options
            As for every verb.
        """
        level, asked = checked_level(level), tuple(whole("k", item, 1) for item in ((k,) if isinstance(k, int) else k))
        if self.person is None:
            raise InvalidValue("nobody is named here: how many rows a person has needs facts with a Person")
        self.refresh()
        if self.n is None:
            raise InvalidValue("how many rows persons have is counted where the number of persons is public")
        most = whole("most", most, 2)
        if most <= max(asked):
            raise InvalidValue(
                f"most must be more than every k, or no person's rows would lie beyond. Got most={most}, k={max(asked)}"
            )
        target = self.share(spend, part)
        system = DirichletCategorical(categories=tuple(range(1, most + 1)))
        record = target.under(replace(target.relation, unit="record"))
        mechanism = NoisyStatistics.calibrate(system, self.n, record)
        done = self.answered(mechanism, self.person, part=part, **options)
        seen = done.release.value.noise_aware
        kept = kept_rows(seen, asked, seeded_rng(_SEED))
        ends = kept_ends(seen, asked, kept, level)
        rows = tuple(
            {"k": item, "estimate": float(np.median(kept[:, i])), "low": float(ends[i, 0]), "high": float(ends[i, 1])}
            for i, item in enumerate(asked)
        )
        bounded = np.clip(central(_persons(seen, seeded_rng(_SEED))[:, -1:] / seen.n, level)[0], 0.0, 1.0)
        return RowsKept(rows, most, done.release, done.entry, (float(bounded[0]), float(bounded[1])))
