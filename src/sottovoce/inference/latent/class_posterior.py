"""Draws of a naive Bayes model's parameters, and what they predict."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.draws import NamedDraws, lone_from, lone_state, tails
from sottovoce.inference.latent.fields import Bounded, Field, field_from
from sottovoce.mechanisms.intervals import reaching
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats

_AT_ONCE, _FEWEST = 1 << 17, 64
"""How many numbers a prediction holds at a time, so that they stay near the processor; and for how many records at
least."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassPosterior(NamedDraws):
    """What is known of a naive Bayes model. Use it as often as you like: everything here is post-processing.

    Attributes
    ----------
    label, fields
        The class, and the other columns.
    classes
        Pr[class], (draws, classes).
    features
        For each column Pr[category | class], (draws, classes, categories), or the mean and variance of t in [-1, 1],
        (draws, classes, 2).
    total
        The noisy statistics it was made from; None where the parameters themselves were sampled.
    convergence
        Whether the chains that made the draws agree; None where no chain was needed.
    lone
        Draws of Pr[class], and of each column's Pr[category | class], as if each alone were asked for.
    """

    label: Field
    fields: tuple[Field | Bounded, ...]
    classes: Floats
    features: tuple[Floats, ...]
    total: Floats | None = None
    convergence: Convergence | None = None
    lone: Mapping[str, Floats] | None = None

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def named(self) -> Mapping[str, Floats]:
        """The classes' probabilities; of each column those of its categories, or the mean and variance in its unit."""
        return {self.label.name: self.classes} | {
            field.name: draws if isinstance(field, Field) else _own_unit(field, draws)
            for field, draws in zip(self.fields, self.features, strict=True)
        }

    def along(self, name: str) -> tuple[Sequence[Hashable], ...]:
        """Return the classes, and of a column its categories, or what is told of its numbers."""
        shown = {f.name: f.categories if isinstance(f, Field) else ("mean", "variance") for f in self.fields}
        return (self.label.categories, shown[name]) if name in shown else (self.label.categories,)

    def coded(self, columns: Sequence[object]) -> list[Any]:
        """Return the columns as codes of their categories, or as t."""
        return [
            field.codes(column) if isinstance(field, Field) else field.centred(column)
            for field, column in zip(self.fields, columns, strict=True)
        ]

    def log_joint(self, coded: list[Any]) -> Floats:
        """Return log Pr[class, record | draw] for each record: (draws, records, classes)."""
        out = np.log(self.classes)[:, None, :]
        for field, column, draws in zip(self.fields, coded, self.features, strict=True):
            if isinstance(field, Field):
                out = out + np.log(draws)[:, :, column].transpose(0, 2, 1)
            else:
                mean, variance = draws[:, None, :, 0], draws[:, None, :, 1]
                gap = column[None, :, None] - mean
                # The density is that of x itself: t is measured in halves of the bounds' width.
                out = out - gap**2 / (2 * variance) - np.log(2 * np.pi * variance * field.half**2) / 2
        return np.asarray(out)

    def predictive(self, coded: list[object]) -> Floats:
        """Return log Pr[class, record], averaged over the draws: (records, classes)."""
        parts = [special.logsumexp(self.log_joint(block), axis=0) for block in self._blocks(coded)]
        return np.asarray(np.concatenate(parts) - np.log(len(self)))

    def quantiles(self, coded: list[object], levels: Any) -> Floats:
        """Return quantiles over the draws of Pr[class | record]: (levels, records, classes)."""
        parts = []
        for block in self._blocks(coded):
            joint = self.log_joint(block)
            shares = np.exp(joint - special.logsumexp(joint, axis=-1, keepdims=True))
            parts.append(np.quantile(shares, levels, axis=0, method="weibull"))  # as in `ends_of`
        return np.concatenate(parts, axis=1)

    @property
    def hardly_seen(self) -> tuple[Hashable, ...]:
        """The classes that may well be less than half as common as they are expected to be.

        What is told of their columns is mostly the prior, under which a typical record of theirs is less likely.
        """
        least = np.quantile(self.classes, tails(0.95)[0], axis=0)
        few = (least < self.classes.mean(axis=0) / 2) & (len(self) > 1)
        return tuple(self.label.categories[c] for c in np.flatnonzero(few))

    def summary(self, level: float = 0.95) -> str:
        """Return every entry with its mean and interval, a line each, and which classes are hardly known."""
        return "\n".join([super().summary(level), *self.notes])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of predictions must know of them."""
        if not self.hardly_seen:
            return ()
        named = ", ".join(map(str, self.hardly_seen))
        return (
            f"few records tell of {self.label.name} {named}: intervals of its chances hold less often than they say",
        )

    def ends(self, coded: list[object], level: float) -> Floats:
        """Return the ends (low, high), last, of Pr[class | record]: (records, classes, 2).

        They reach at least as far as with every share in it as if it alone were asked for.
        """
        levels = tails(level)
        result = np.moveaxis(self.quantiles(coded, levels), 0, -1)
        if not self.lone:
            return result
        lone_draws = [self.lone.get(field.name, draws) for field, draws in zip(self.fields, self.features, strict=True)]
        alone = replace(self, classes=self.lone.get(self.label.name, self.classes), features=tuple(lone_draws))
        return reaching(result, np.moveaxis(alone.quantiles(coded, levels), 0, -1))

    def _blocks(self, coded: list[Any]) -> list[list[Any]]:
        size = max(_AT_ONCE // self.classes.size, _FEWEST)
        count = len(coded[0])
        return [[column[i : i + size] for column in coded] for i in range(0, max(count, 1), size)]

    def to_dict(self) -> dict[str, object]:
        """Return the draws as plain values; `from_dict` reads them back."""
        return {
            "posterior": "class posterior",
            "label": self.label.to_dict(),
            "fields": [field.to_dict() for field in self.fields],
            "classes": self.classes.tolist(),
            "features": [draws.tolist() for draws in self.features],
            "total": None if self.total is None else self.total.tolist(),
        } | lone_state(self.lone)

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> ClassPosterior:
        """Read draws from `to_dict`'s form."""
        with restoring("a class posterior"):
            total = state.get("total")
            return ClassPosterior(
                field_from(state["label"]),
                tuple(map(field_from, state["fields"])),
                np.asarray(state["classes"], dtype=np.float64),
                tuple(np.asarray(draws, dtype=np.float64) for draws in state["features"]),
                None if total is None else np.asarray(total, dtype=np.float64),
                lone=lone_from(state),
            )


def _own_unit(field: Bounded, draws: Floats) -> Floats:
    return np.asarray(draws * [field.half, field.half**2] + [(field.low + field.high) / 2, 0.0])
