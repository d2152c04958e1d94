"""The public side of a regression: its loss, its bounds, and how columns become rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sottovoce.inference.regression.losses import Constants, Logistic, Loss, Poisson, Probit, Squared, positive
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.records.facts import Facts
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.readings import ClippedRows, Moments, Rows
from sottovoce.records.readings.cells import column_of, table_of
from sottovoce.records.readings.design_rows import span, width_of

_LARGEST = 1e100


@dataclass(frozen=True)
class Design:
    """What is known of a regression before any record is seen: the system of every regression mechanism.

    Attributes
    ----------
    loss
        The loss of the linear predictor.
    dimension
        The entries of a row, the intercept's among them.
    data_norm
        c: every row is scaled down to this Euclidean norm. The whole row counts, the intercept's entry too.
    radius
        R: parameters stay in the ball ‖w‖ ≤ R. Infinite where the loss needs none.
    intercept
        The last entry of every row; 0 for none.
    features, label, missing
        How columns become rows and labels, as in `ClippedRows`. Without them rows are numbers, labels the loss's own.
    names
        The columns, features first and the label last, where they have names.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic, Probit
    >>> design = Design(Logistic(), dimension=5, data_norm=1.0)
    >>> design.sensitivity(data_weight=0.5), Design.from_dict(design.to_dict()) == design
    (1.0, True)
    >>> Design(Probit(), dimension=5, data_norm=1.0)
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: the slope of Probit has no bound: give a finite radius for ‖w‖
    """

    word: ClassVar[str] = "regression"
    parameter: ClassVar[str] = "w"
    mechanisms: ClassVar[tuple[str, ...]] = (
        "filtered regression",
        "refined regression",
        "localised regression",
        "diffused regression",
        "concentrated regression",
        "noisy moments",
        "tempered regression",
        "noisy projected SGD",
    )
    loss: Loss
    dimension: int
    data_norm: float
    radius: float = math.inf
    intercept: float = 0.0
    features: tuple[Column, ...] = ()
    label: Column | None = None
    missing: Any = 0.0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole("dimension", self.dimension, 1)
        if not isinstance(self.loss, Loss):
            raise InvalidValue(f"loss must be a Loss. Got {self.loss!r}")
        positive("data_norm", self.data_norm, high=_LARGEST)
        positive("radius", self.radius, high=math.inf)
        self.loss.check(self.dimension, self.data_norm)
        reading = self.reading  # which checks the rest
        object.__setattr__(self, "missing", reading.missing)
        if not math.isfinite(self.constants.lipschitz * self.constants.curvature):
            raise InvalidValue(f"the slope of {self.loss.name} has no bound: give a finite radius for ‖w‖")
        if not self.intercept and any(self._shifts()):
            raise InvalidValue(
                "a column whose bounds are not −b and b is measured from their middle, which needs an intercept"
            )
        if self.names and len(self.names) != reading.inputs + 1:
            raise InvalidValue(f"names are those of {reading.inputs} feature(s) and the label. Got {len(self.names)}")

    @cached_property
    def reading(self) -> ClippedRows:
        """What chains and SGD see of the records: rows and labels, clipped."""
        return ClippedRows(**self._map())

    @cached_property
    def moments(self) -> Moments:
        """The sums that noisy moments see instead."""
        return Moments(**self._map())

    def _map(self) -> dict[str, Any]:
        return {
            "dimension": self.dimension,
            "data_norm": self.data_norm,
            "labels": self.loss.labels,
            "binary": self.loss.binary,
            "intercept": self.intercept,
            "features": tuple(self.features),
            "label": self.label,
            "missing": self.missing,
        }

    @property
    def columns(self) -> list[str] | None:
        """The columns to read, the label last, where they have names."""
        return list(self.names) or None

    @property
    def terms(self) -> list[str]:
        """What each entry of the parameters is called."""
        names = self.names[:-1] or [f"x{k}" for k in range(self.reading.inputs)]
        facts: Any = self.features or (None,) * len(names)
        terms = []
        for name, fact in zip(names, facts, strict=True):
            of_category = isinstance(fact, Category)
            terms += [f"{name}[{value}]" for value in fact.categories[1:]] if of_category else [str(name)]
        return terms + ["intercept"] * bool(self.intercept)

    def _shifts(self) -> list[float]:
        """Return by how much each number, and the label, is moved before it is scaled."""
        numbers = [fact for fact in self.features if isinstance(fact, Number | Count)]
        shifts = [low + high for low, high, _ in map(span, numbers)]
        if isinstance(self.label, Number | Count):
            (low, high, _), (first, end) = span(self.label), self.loss.labels
            shifts.append(low - first * (high - low) / (end - first))
        return shifts

    def units(self) -> tuple[Floats, Floats]:
        """Return the matrix A and the shift b with which w becomes coefficients in the columns' own units, Aw + b.

        All of it is public, so that a release read this way is still the same release.
        """
        A, b = np.eye(self.dimension), np.zeros(self.dimension)
        last = self.dimension - 1
        if self.intercept:
            A[last, last] = self.intercept
        place = 0
        for fact in self.features:
            if isinstance(fact, Number | Count):
                low, high, _ = span(fact)
                A[place, place] = 2 / (high - low)
                if self.intercept:  # a feature measured from the middle of its bounds
                    A[last, place] = -(low + high) / (high - low)
            place += len(fact.categories) - 1 if isinstance(fact, Category) else 1
        if self.label is not None and not isinstance(self.label, Category | Flag):
            (low, high, _), (first, end) = span(self.label), self.loss.labels
            stretch = (high - low) / (end - first)
            A = A * stretch
            if self.intercept:
                b[last] = low - first * stretch
        return A, b

    @property
    def constants(self) -> Constants:
        """The constants of the loss on |w·x| ≤ R·c."""
        return self.loss.constants(self.radius * self.data_norm)

    def sensitivity(self, data_weight: float) -> float:
        """Return s = 2ρBc: how far one replaced record moves the gradient of ρΣℓ."""
        return 2 * data_weight * self.constants.lipschitz * self.data_norm

    def smoothness(self, n: int, data_weight: float, convexity: float) -> float:
        """Return M = m + ρ·n·c²·sup ℓ'', a bound over all data sets of n records."""
        return convexity + data_weight * n * self.data_norm**2 * self.constants.curvature

    def statistics(self, records: Any) -> Rows:
        """Return the rows and labels of records in memory, (X, y)."""
        return self.reading.read(records)

    def rows(self, X: Any) -> Any:
        """Return rows of `dimension` entries as numbers; a cell that holds none is NaN or infinite."""
        rows = table_of(X, self.dimension)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise InvalidData(f"rows must have {self.dimension} entries. Got shape {rows.shape}")
        return rows

    def clip(self, rows: Any, dtype: Any = np.float64) -> Floats:
        """Return rows in double precision, scaled down to `data_norm` where they are longer.

        A total map of each row by itself: a cell that holds no finite number counts as 0. They may then be cast to
        `dtype`: a row is clipped where no number of it can overflow, and far enough inside the bound that the cast
        does not lead out of it.
        """
        return self.reading.clip(rows, dtype)

    def responses(self, y: Any) -> Floats:
        """Return the loss's own labels in their range, a total map of each label by itself."""
        labels, (low, high) = column_of(y), self.loss.labels
        if self.loss.binary:
            return np.where(labels == high, high, low)
        if isinstance(self.label, Category):  # places of classes
            labels = np.rint(np.where(np.isfinite(labels), labels, 0.0))
        return np.clip(np.where(np.isfinite(labels), labels, self.reading.neutral), low, high)

    def to_dict(self) -> dict[str, Any]:
        """Return the design as plain values; `from_dict` reads it back."""
        return {
            "system": self.word,
            "loss": self.loss.to_dict(),
            "dimension": int(self.dimension),
            "data_norm": float(self.data_norm),
            "radius": float(self.radius) if math.isfinite(self.radius) else None,
            "intercept": float(self.intercept),
            "features": [column.to_dict() for column in self.features],
            "label": None if self.label is None else self.label.to_dict(),
            "missing": list(self.missing) if isinstance(self.missing, tuple) else self.missing,
            "names": list(self.names),
        }

    @classmethod
    def from_facts(cls, settings: Mapping[str, Any], facts: Facts, column: str | None = None) -> Design:
        """Return the regression of a question: ``features`` and ``label`` by their columns, and the ``family``.

        Numbers are scaled by their bounds, and `data_norm` is what no such row exceeds.

        >>> from sottovoce.records.facts import Flag
        >>> facts = Facts(smoker=Flag(), age=Number(0, 110))
        >>> Design.from_facts({"features": ["age"], "label": "smoker", "family": "logistic"}, facts).terms
        ['age', 'intercept']
        """
        del column
        given = {
            name: value for name, value in settings.items() if name not in ("kind", "system") and value is not None
        }
        if unknown := set(given) - {"features", "label", "family"}:
            raise InvalidValue(f"a regression takes features, label and family. Got {', '.join(sorted(unknown))}")
        features: Any = given.get("features")
        label, family = given.get("label"), given.get("family", "logistic")
        listed = isinstance(features, list) and bool(features) and all(isinstance(name, str) for name in features)
        if not listed or not isinstance(label, str):
            raise InvalidValue("a regression needs features, a list of columns, and a label, a column")
        if not isinstance(family, str) or family not in _FAMILIES:
            raise InvalidValue(f"family must be one of {', '.join(_FAMILIES)}. Got {family!r}")
        columns = tuple(facts[name] for name in features)
        loss, fact = _FAMILIES[family](facts[label])
        norm = math.sqrt(len(columns) / (1 - _INTERCEPT**2))
        bounded = math.isfinite(loss.constants(math.inf).lipschitz)
        return cls(
            loss,
            sum(map(width_of, columns)) + 1,
            norm,
            math.inf if bounded else 3 / norm,
            intercept=_INTERCEPT * norm,
            features=columns,
            label=fact,
            names=(*features, label),
        )

    @property
    def default_mechanism(self) -> str:
        """The mechanism to take where nobody names one: the squared loss has sufficient statistics."""
        return "noisy-moments" if isinstance(self.loss, Squared) else "refined"

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Design:
        """Read a design from `to_dict`'s form."""
        given = {name: value for name, value in state.items() if name not in ("system", "kind")}
        with restoring("a regression"):
            given["loss"] = Loss.from_dict(given["loss"])
            given["radius"] = math.inf if given.get("radius") is None else given["radius"]
            given["features"] = tuple(map(Column.from_dict, given.get("features", ())))
            given["label"] = None if given.get("label") is None else Column.from_dict(given["label"])
            given["names"] = tuple(given.get("names", ()))
            return cls(**given)


def _two_classes(loss: Loss, fact: Column) -> tuple[Loss, Column]:
    if isinstance(fact, Flag):
        return loss, Category((False, True), fact.missing)
    if not isinstance(fact, Category) or len(fact.categories) != 2:
        raise InvalidValue(f"this family's label is a flag, or a category of two values. Got a {fact.word}")
    return loss, fact


def _linear(fact: Column) -> tuple[Loss, Column]:
    if not isinstance(fact, Number | Count):
        raise InvalidValue(f"a linear regression's label is a number or a count. Got a {fact.word}")
    low, high, _ = span(fact)
    return Squared(1.0), Number(low, high, fact.missing)


def _poisson(fact: Column) -> tuple[Loss, Column]:
    if not isinstance(fact, Count):
        raise InvalidValue(f"a Poisson regression's label is a count. Got a {fact.word}")
    return Poisson(float(fact.high)), Number(0.0, float(fact.high), 0.0 if fact.missing is None else fact.missing)


_INTERCEPT = 0.3
"""The intercept's entry beside the norm of a row."""
_FAMILIES: dict[str, Callable[[Column], tuple[Loss, Column]]] = {
    "logistic": lambda fact: _two_classes(Logistic(), fact),
    "probit": lambda fact: _two_classes(Probit(), fact),
    "linear": _linear,
    "poisson": _poisson,
}
"""For each family its loss and how a label is read, by the facts of the label."""


def check_design(design: Any) -> None:
    """Raise `InvalidValue` unless this is a design."""
    if not isinstance(design, Design):
        raise InvalidValue(f"design must be a Design. Got {type(design).__name__}")
