"""Models of your own: any NumPyro model, fitted to noisy cells, compared and changed for ever at no further cost.

Needs the `models` extra (JAX, NumPyro, ArviZ). Nothing here changes JAX's global settings: double precision is switched
on inside a fit only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce.inference.custom.observation import Observed, observed
from sottovoce.privacy.errors import NotInstalled
from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.inference.custom import numpyro
    from sottovoce.inference.custom.cell_masses import masses
    from sottovoce.inference.custom.checking import PredictiveCheck
    from sottovoce.inference.custom.comparing import compare_models
    from sottovoce.inference.custom.evidence import BayesFactor, Evidence
    from sottovoce.inference.custom.fit import ModelFit
    from sottovoce.inference.custom.fitting import fit_model

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


def __getattr__(name: str) -> Any:
    try:
        if name in __all__:
            importlib.import_module("numpyro")  # first: where it is missing, nobody waits for JAX
        return importlib.import_module(f"{__name__}.numpyro") if name == "numpyro" else lazily(__name__)(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("jax", "jaxlib", "numpyro", "arviz"):
            raise
        said = f"models of your own need {package}, which is not installed: pip install 'sottovoce[models]'"
        raise NotInstalled(said, name=error.name) from None


def __dir__() -> list[str]:
    return sorted(__all__)
