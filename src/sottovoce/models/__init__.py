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
    from sottovoce.models import numpyro
    from sottovoce.models.cell_masses import masses
    from sottovoce.models.checking import PredictiveCheck
    from sottovoce.models.comparing import compare_models
    from sottovoce.models.evidence import BayesFactor, Evidence
    from sottovoce.models.fit import ModelFit
    from sottovoce.models.fitting import fit_model

__all__ = [
    "BayesFactor",
    "Evidence",
    "ModelFit",
    "Observed",
    "PredictiveCheck",
    "compare_models",
    "fit_model",
    "masses",
    "numpyro",
    "observed",
]

_PLACES = {
    "checking": ("PredictiveCheck",),
    "comparing": ("compare_models",),
    "evidence": ("BayesFactor", "Evidence"),
    "fit": ("ModelFit",),
    "fitting": ("fit_model",),
    "cell_masses": ("masses",),
}
_LAZY = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _LAZY and name != "numpyro":
        raise AttributeError(f"module 'sottovoce.models' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"sottovoce.models.{_LAZY.get(name, name)}")
        return getattr(module, name) if name in _LAZY else module
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("jax", "jaxlib", "numpyro", "arviz"):
            raise
        raise InvalidValue(
            f"models of your own need {package}, which is not installed: pip install 'sottovoce[models]'"
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
