"""The fitted naive Bayes model: draws of its parameters, and what they predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sottovoce.latent.bounded import Bounded
from sottovoce.latent.fields import Field
from sottovoce.privacy.numbers import Floats

__all__ = ["ClassModel"]

_AT_ONCE = 1 << 22
"""How many numbers a prediction holds at a time."""


@dataclass(frozen=True, eq=False)
class ClassModel:
    """Draws of the parameters, draws first; one draw where the parameters are estimates.

    Attributes
    ----------
    fields
        The columns.
    classes
        Pr[class], (draws, classes).
    features
        For each column Pr[category | class], (draws, classes, categories), or the mean and variance of t,
        (draws, classes, 2).
    """

    fields: tuple[Field | Bounded, ...]
    classes: Floats
    features: tuple[Floats, ...]

    def coded(self, columns: list[Any]) -> list[Any]:
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

    def predictive(self, coded: list[Any]) -> Floats:
        """Return log Pr[class, record], averaged over the draws: (records, classes)."""
        parts = [special.logsumexp(self.log_joint(block), axis=0) for block in self._blocks(coded)]
        return np.asarray(np.concatenate(parts) - np.log(len(self.classes)))

    def quantiles(self, coded: list[Any], levels: Any) -> Floats:
        """Return quantiles over the draws of Pr[class | record]: (levels, records, classes)."""
        parts = []
        for block in self._blocks(coded):
            joint = self.log_joint(block)
            parts.append(np.quantile(np.exp(joint - special.logsumexp(joint, axis=-1, keepdims=True)), levels, axis=0))
        return np.concatenate(parts, axis=1)

    def _blocks(self, coded: list[Any]) -> list[list[Any]]:
        size = max(_AT_ONCE // self.classes.size, 1)
        count = len(coded[0])
        return [[column[i : i + size] for column in coded] for i in range(0, max(count, 1), size)]
