"""Models of your own: any NumPyro model, fitted to noisy cells, compared and changed for ever at no further cost.

Needs the `models` extra (JAX, NumPyro, ArviZ). Nothing here changes JAX's global settings: double precision is switched
on inside a fit only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce.models.observation import Observed, observed
from sottovoce.privacy.errors import InvalidValue

if TYPE_CHECKING:
    from sottovoce.models.cell_masses import masses
    from sottovoce.models.checking import PredictiveCheck
    from sottovoce.models.comparing import compare_models
    from sottovoce.models.distributions import NoisyCounts, NoisyLook, NoisySum
    from sottovoce.models.evidence import BayesFactor, Evidence
    from sottovoce.models.fit import ModelFit
    from sottovoce.models.fitting import fit_model

__all__ = [
    "BayesFactor",
    "Evidence",
    "ModelFit",
    "NoisyCounts",
    "NoisyLook",
    "NoisySum",
    "Observed",
    "PredictiveCheck",
    "compare_models",
    "fit_model",
    "masses",
    "observed",
]

_PLACES = {
    "checking": ("PredictiveCheck",),
    "comparing": ("compare_models",),
    "distributions": ("NoisyCounts", "NoisyLook", "NoisySum"),
    "evidence": ("BayesFactor", "Evidence"),
    "fit": ("ModelFit",),
    "fitting": ("fit_model",),
    "cell_masses": ("masses",),
}
_LAZY = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sottovoce.models' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"sottovoce.models.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("jax", "jaxlib", "numpyro", "arviz"):
            raise
        raise InvalidValue(
            f"models of your own need {package}, which is not installed: pip install 'sottovoce[models]'"
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
