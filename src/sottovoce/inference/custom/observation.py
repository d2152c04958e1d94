"""What a fit sees of a release: noisy counts of public cells, the noise on them, and n."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Integers
from sottovoce.records.facts.cells import Cells

_KINDS = ("counts", "proportion", "quantiles")
"""The verbs whose answers are noisy counts and nothing else."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Noisy counts of cells, each with the same discrete noise.

    Attributes
    ----------
    counts
        The noisy counts, the last cell running fastest.
    n
        How many records there are, in cells or not: public.
    noise, scale
        The kind of noise and its scale.
    outside
        The noisy count of records that are in no cell (missing, or not asked about); None where there can be none.
    cells
        How the columns are cut, where that is known.
    name
        What was asked, for titles.

    Examples
    --------
    >>> Observed([31, 44, 27], n=100, noise="laplace", scale=2.0).size
    3
    """

    counts: Integers
    n: int
    noise: NoiseKind
    scale: float
    outside: int | None = None
    cells: Cells | None = None
    name: str = field(default="cells")

    def __post_init__(self) -> None:
        try:
            counts = np.asarray(self.counts)
            full = counts.astype(np.int64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidValue("noisy counts are whole numbers, one a cell") from None
        if counts.ndim != 1 or counts.size < 2 or not np.array_equal(counts, full):
            raise InvalidValue(f"noisy counts are whole numbers, one a cell, two or more. Got {counts.shape}")
        object.__setattr__(self, "counts", full)
        if not isinstance(self.n, int | np.integer) or self.n < 0:
            raise InvalidValue(f"n must be a whole number of records. Got {self.n!r}")
        object.__setattr__(self, "n", int(self.n))
        self.law  # noqa: B018 - noise that cannot be is refused here
        if self.cells is not None and self.cells.size != counts.size:
            raise InvalidData(f"these cells are {self.cells.size}. Got {counts.size} counts")

    @property
    def size(self) -> int:
        """How many cells a model has to give probabilities of."""
        return int(self.counts.size)

    @property
    def law(self) -> IntegerNoise:
        """The noise on every count."""
        return IntegerNoise(self.noise, float(self.scale))

    @property
    def all(self) -> Integers:
        """The noisy counts of all records: the cells, and those in none where there can be some."""
        return self.counts if self.outside is None else np.append(self.counts, np.int64(self.outside))


def observed(answer: Any) -> Observed:
    """Return what a fit sees of an answer, its release, its posterior, or the JSON of any of them (a path, a mapping).

    Raises
    ------
    InvalidValue
        If it holds no table of counts: means, rates and posteriors of other kinds are no cells.
    """
    if isinstance(answer, Observed):
        return answer
    if isinstance(answer, str | Path):
        answer = _read(Path(answer))
    if isinstance(answer, Mapping):
        with restoring("an answer"):
            answer = Release.from_dict(answer["release"])
    release = getattr(answer, "release", answer)
    posterior = getattr(release, "value", release)
    question = getattr(posterior, "question", None)
    if question is None or question.verb not in _KINDS:
        got = f"an answer of {question.verb}" if question is not None else f"a {type(answer).__name__}"
        raise InvalidValue(
            f"a model is fitted to noisy counts of cells: curator.counts(sv.Cells(facts, ...), spend=...). Got {got}"
        )
    if posterior.n is None:
        raise InvalidValue("a model of counts must know how many records there are, and here that is a secret")
    if posterior.reading.measures:
        raise InvalidValue("these are averages of persons, no counts; ask for counts of the same columns")
    if question.rows > 1:
        raise InvalidValue(
            "a model takes one record a person, for rows of one person go together: Person() or Person(rows=1), not "
            f"Person(rows={question.rows})"
        )
    fine = posterior.reading.fine  # shares of persons, to whole persons
    counts = np.rint(posterior.reading.split(posterior.cells)[0] / fine).astype(np.int64)
    everyone = question.cells is not None and question.cells.everyone and question.where is None
    return Observed(
        counts[:-1],
        posterior.n,
        posterior.noise,
        posterior.noises[0].scale / fine,
        None if everyone else int(counts[-1]),
        question.cells,
        question.describe(),
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        why = f"there is no file {path}" if isinstance(error, FileNotFoundError) else f"{path}: {error.strerror}"
    except ValueError:
        why = f"{path} holds no JSON"
    raise InvalidValue(f"{why}; a model is fitted to an answer, or to a file of json.dumps(answer.to_dict())")
