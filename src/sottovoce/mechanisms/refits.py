"""Estimators whose every fit is a release: clones say so before they spend."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["EveryFitSpends", "warn_of_refit"]


class EveryFitSpends(UserWarning):
    """A clone is being fitted: searches and cross-validations spend the promise once a fit."""


def warn_of_refit(estimator: Any) -> None:
    """Warn if the estimator is a clone about to be fitted; for the first line of its `fit`."""
    if getattr(estimator, "_is_clone", False):
        warnings.warn(
            "a clone is being fitted: every fit of a search or a cross-validation is a release of its own "
            "and spends the promise once more",
            EveryFitSpends,
            stacklevel=3,
        )
