"""Plans: what each mechanism would promise, cost and tell; made of public things, free of cost."""

from __future__ import annotations

import functools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.ledger import Budget
from sottovoce.ledger.chain import canonical
from sottovoce.ledger.charging import price
from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.choices import DELTAS, ORDERS, forecast_of
from sottovoce.privacy.composition import ComposedProfile
from sottovoce.privacy.convert import renyi_epsilon, renyi_log_delta
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.server.answers import plain
from sottovoce.server.lines import breathe
from sottovoce.server.questions import calibrated

__all__ = ["choice_of", "priced", "summary_of"]

_POINTS = 41


def choice_of(
    name: str, system: Any, n: int | None, target: Promise, mean: Any
) -> tuple[dict[str, Any], Mechanism | None]:
    """Return what one mechanism does for the promise, and the mechanism; or why there is none."""
    breathe()
    try:
        mechanism = calibrated(name, system, n, target)
    except SottovoceError as error:
        return {"name": name, "unreachable": str(error)}, None
    return {"name": name} | json.loads(_described(mechanism, canonical(mean))), mechanism


@functools.lru_cache(maxsize=512)
def _described(mechanism: Mechanism, mean: str) -> str:
    """Return the mechanism, its curves and its forecast as JSON: a text that no caller can change."""
    try:
        # Where n is a secret, so is what there is to expect of it.
        found = None if mechanism.n is None else forecast_of(mechanism, json.loads(mean))
    except SottovoceError:
        raise
    except (ArithmeticError, ValueError, RuntimeError, TypeError):
        raise InvalidValue(f"no forecast can be made for records with a mean of {mean}") from None
    forecast = None if found is None else plain_all(found.to_dict())
    described = summary(mechanism.profile) | {"curve": _curve(mechanism.profile)}
    return json.dumps({"mechanism": mechanism.to_dict()} | described | {"forecast": forecast})


def summary(profile: Profile) -> dict[str, Any]:
    """Return a profile at the usual places: ε(δ), and the Rényi divergence; null where infinite."""
    return {
        "basis": str(profile.basis),
        "epsilon": {f"{d:g}": plain(_epsilon(profile, d)) for d in (0.0, *DELTAS)},
        "renyi": {f"{o:g}": plain(float(profile.renyi(o))) for o in ORDERS},
    }


def _epsilon(profile: Profile, delta: float) -> float:
    """Return ε(δ). Of several releases together, by their Rényi curves: a bound too, and a thousand times quicker."""
    if delta == 0:
        return profile.pure()
    if not isinstance(profile, ComposedProfile):
        return float(profile.epsilon(delta))
    return min(float(renyi_epsilon(profile.renyi, np.log(np.array(delta)), profile.pole)), profile.pure())


@functools.lru_cache(maxsize=512)
def summary_of(profile: str) -> str:
    """Return `summary` of a profile in JSON, as JSON: the same mechanism is asked many times."""
    return json.dumps(summary(Profile.from_json(profile)))


def _curve(profile: Profile) -> dict[str, list[float]]:
    top = next((e for d in (1e-9, 1e-6, 1e-3) if math.isfinite(e := _epsilon(profile, d)) and e > 0), 10.0)
    epsilons = np.linspace(0.0, top, _POINTS)
    if isinstance(profile, ComposedProfile):
        deltas = np.exp(renyi_log_delta(profile.renyi, epsilons, profile.pole))
    else:
        deltas = profile.delta(epsilons)
    return {"epsilon": epsilons.tolist(), "delta": plain(deltas)}


def plain_all(values: dict[str, Any]) -> dict[str, Any]:
    """Return a table of numbers for JSON."""
    return {name: plain(value) for name, value in values.items()}


def priced(profile: Profile, budget: Budget, spent: Fraction) -> dict[str, Any]:
    """Return what an answer costs a budget, and how many such answers are left; null where it never fits."""
    cost = price(budget, profile.shown_to(budget.relation))
    if not math.isfinite(cost):
        return {"cost": None, "answers": 0}
    left = max(Fraction(budget.limit) - spent, Fraction(0))
    return {"cost": cost, "answers": None if cost == 0 else int(left / Fraction(cost))}
