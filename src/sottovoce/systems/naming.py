"""Systems by name: ``beta-bernoulli`` with its arguments, as a file or a request spells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.systems.beta_bernoulli import BetaBernoulli
from sottovoce.systems.dirichlet_categorical import DirichletCategorical
from sottovoce.systems.gamma_exponential import GammaExponential
from sottovoce.systems.gamma_poisson import GammaPoisson
from sottovoce.systems.normal_mean import NormalMean
from sottovoce.systems.system import System

__all__ = ["SYSTEMS", "system_from"]

SYSTEMS: dict[str, Callable[..., System]] = {
    kind.word: kind for kind in (BetaBernoulli, DirichletCategorical, GammaPoisson, GammaExponential, NormalMean)
}


def system_from(state: Mapping[str, Any]) -> System:
    """Build a system from its word (`kind`) and its arguments.

    >>> system_from({"kind": "beta-bernoulli", "alpha": 6, "beta": 12})
    BetaBernoulli(alpha=6.0, beta=12.0, whole=True)
    """
    arguments = dict(state)
    word = arguments.pop("kind", None)
    if word not in SYSTEMS:
        raise InvalidValue(f"no system is called {word!r}; known: {', '.join(SYSTEMS)}")
    for name in ("bounds", "categories"):
        if isinstance(arguments.get(name), list):
            arguments[name] = tuple(arguments[name])
    try:
        return SYSTEMS[word](**arguments)
    except TypeError as error:
        reason = str(error).replace("__init__()", word)
        raise InvalidValue(f"cannot build the system: {reason}") from None
