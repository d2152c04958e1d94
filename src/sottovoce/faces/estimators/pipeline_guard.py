"""Data leakage in front of a private fit: what scikit-learn does to the records on their way to the estimator."""

from __future__ import annotations

import sys
from typing import Any

from sottovoce.privacy.errors import UnprovenPrivacy

_ROW_BY_ROW = frozenset(
    {
        *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "QuantileTransformer", "PowerTransformer"),
        *("KBinsDiscretizer", "PolynomialFeatures", "SplineTransformer", "SimpleImputer", "PCA"),
    }
)
"""Transformers of scikit-learn that, once fitted, read one row at a time; a test changes a record under each. Encoders
are none of them: they quote a category that they do not know."""

_PARTS = {
    "sklearn.pipeline.Pipeline": "steps",
    "sklearn.pipeline.FeatureUnion": "transformer_list",
    "sklearn.compose._column_transformer.ColumnTransformer": "transformers",
}
"""What learns only where one of its parts does, and the parameter that lists them."""

_OWN_STEP = "a step of your own that reads one row at a time and says so, learns_nothing = True"
_INSTEAD = {
    "FunctionTransformer": "use PublicFunction, which applies a function of NumPy to each cell",
    "TransformedTargetRegressor": "give response_bound=(low, high), which scales the response by public bounds",
    **dict.fromkeys(
        ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
        "use PrivateSearchCV, which searches for one promise in all",
    ),
}


def learns_nothing(step: Any, *, fitted: bool = False) -> bool:
    """Say whether a step of a scikit-learn pipeline changes each row by that row and public facts alone.

    True of what says so by an attribute ``learns_nothing = True`` (`PublicScaler`, `PublicEncoder`, `PublicFunction`,
    your own), of a `FrozenEstimator` around a transformer that reads one row at a time, and of what is made of such
    steps. All else may learn from the records, or mix them: a `FunctionTransformer` too, whose function sees all rows.

    >>> from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale
    >>> learns_nothing("passthrough"), learns_nothing(StandardScaler()), learns_nothing(FunctionTransformer(scale))
    (True, False, False)
    """
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return True
    if getattr(step, "learns_nothing", False) is True:
        return True
    kind = _kind(step)
    if kind == "sklearn.frozen._frozen.FrozenEstimator":
        return learns_nothing(step.estimator, fitted=True)
    if kind in _PARTS:
        parts = getattr(step, _PARTS[kind])
        # Columns chosen by a function are chosen by what stands in them: a type is read off the records.
        chosen = any(len(part) > 2 and callable(part[2]) for part in parts)
        steps = [*(part[1] for part in parts), getattr(step, "remainder", None)]
        return not chosen and all(learns_nothing(part, fitted=fitted) for part in steps)
    return fitted and kind.startswith("sklearn.") and type(step).__name__ in _ROW_BY_ROW


def what_to_write(step: object) -> str:
    """Return what to use in the place of a step that learns."""
    usual = "use PublicScaler or PublicEncoder with public bounds and categories"
    instead = _INSTEAD.get(type(step).__name__, usual)
    return f"{instead}, a step frozen after it was fitted to public data (FrozenEstimator), or {_OWN_STEP}"


def refuse_leakage(estimator: object) -> None:
    """Raise `UnprovenPrivacy` unless this estimator gets its records as they are, or through public steps.

    scikit-learn tells an estimator nothing of what it stands in; but that is among the callers. Of all meta-estimators
    a `Pipeline` alone leaves the records to its steps: the others split them by their labels, weigh, encode or scale
    them, or choose by unnoised scores.
    """
    frame: Any = sys._getframe(1)
    in_worker = False
    while frame is not None:
        owner = frame.f_locals.get("self")
        name = type(owner).__name__
        if name in {"_FuncWrapper", "BatchedCalls"}:
            in_worker = True
        elif name == "Parallel":
            in_worker = False
        if owner is not estimator and _is_estimator(owner):
            _refuse(owner)
        frame = frame.f_back
    if in_worker:
        raise UnprovenPrivacy(
            "this fit runs in a worker of joblib, from where it cannot be seen what was done to the records before: "
            "set n_jobs=1"
        )


def _refuse(owner: Any) -> None:
    """Raise where what fits the estimator learns from the records, or lets one of its steps do so."""
    if getattr(owner, "learns_nothing", False) is True:
        return
    if _kind(owner) == "sklearn.pipeline.Pipeline":
        for name, step in owner.steps[:-1]:
            if not learns_nothing(step):
                raise UnprovenPrivacy(
                    f"the step {name!r} ({type(step).__name__}) learns from the same records and pays nothing for it, "
                    f"so that the promise would not hold: {what_to_write(step)}"
                )
        return
    name = type(owner).__name__
    instead = _INSTEAD.get(name, "fit each model by itself")
    raise UnprovenPrivacy(
        f"{name} reads the same records around this fit and pays nothing for it, so that the promise would not hold: "
        f"{instead}; around records that are public, set learns_nothing = True on the {name}"
    )


def _kind(step: object) -> str:
    return f"{type(step).__module__}.{type(step).__qualname__}"


def _is_estimator(owner: object) -> bool:
    return hasattr(type(owner), "get_params") and hasattr(type(owner), "fit")
