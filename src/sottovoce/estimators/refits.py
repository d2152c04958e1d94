"""Estimators whose every fit is a release: what must be said, or refused, before a fit reads a record."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from sottovoce.privacy.errors import UnprovenPrivacy

__all__ = ["EveryFitSpends", "learns_nothing", "warn_of_refit"]

_DEEPEST = 60
"""How many callers up a pipeline is looked for."""


class EveryFitSpends(UserWarning):
    """An estimator is being fitted once more: every fit spends the promise, a search's and a cross-validation's too."""


def warn_of_refit(estimator: Any) -> None:
    """Warn if the estimator is a clone or was fitted before, and refuse records that another step has learned from.

    For the first line of a `fit`.
    """
    _refuse_learned_steps(estimator)
    if getattr(estimator, "_is_clone", False):
        text = "a clone is being fitted: every fit of a search or a cross-validation is a release of its own"
    elif getattr(estimator, "profile_", None) is not None:
        text = "this estimator is being fitted again: its first fit was a release, and this one is another"
    else:
        return
    warnings.warn(f"{text} and spends the promise once more", EveryFitSpends, stacklevel=3)


def learns_nothing(step: Any) -> bool:
    """Say whether a step of a scikit-learn pipeline reads nothing off the records that it is fitted to.

    True of steps that need no fit (`FunctionTransformer`, `Normalizer`), of frozen ones, of those that say so by an
    attribute ``learns_nothing = True`` (`PublicScaler`, `PublicEncoder`, your own), and of what is made of such steps.

    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> learns_nothing(Normalizer()), learns_nothing(StandardScaler())
    (True, False)
    """
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return True
    if getattr(step, "learns_nothing", False) is True or type(step).__name__ == "FrozenEstimator":
        return True
    parts = (
        getattr(step, "steps", None) or getattr(step, "transformer_list", None) or getattr(step, "transformers", None)
    )
    if parts:
        rest = getattr(step, "remainder", None)
        return all(learns_nothing(part[1]) for part in parts) and learns_nothing(rest)
    tags = getattr(step, "__sklearn_tags__", None)
    return tags is not None and not tags().requires_fit


def _refuse_learned_steps(estimator: Any) -> None:
    """Raise `UnprovenPrivacy` where a pipeline fits this estimator after a step that learns from the records.

    scikit-learn tells an estimator nothing of the pipeline it stands in; but the pipeline is among the callers.
    """
    pipelines = sys.modules.get("sklearn.pipeline")
    if pipelines is None:
        return
    frame: Any = sys._getframe(2)
    fitting = [estimator]
    while frame is not None and len(fitting) < _DEEPEST:
        owner = frame.f_locals.get("self")
        if isinstance(owner, pipelines.Pipeline):
            for name, step in owner.steps:
                if step is owner.steps[-1][1] or any(step is other for other in fitting):
                    break
                if not learns_nothing(step):
                    raise UnprovenPrivacy(
                        f"the step {name!r} learns from the same records and pays nothing for it, so that the promise "
                        "would not hold: use PublicScaler or PublicEncoder with public bounds and categories, a step "
                        "frozen after it was fitted to public data (FrozenEstimator), or one of your own that reads "
                        "nothing off the records and says so, learns_nothing = True"
                    )
        if owner is not None and owner is not fitting[-1]:
            fitting.append(owner)
        frame = frame.f_back
