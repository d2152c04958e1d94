"""Plans: what each mechanism would promise, cost and tell; made of public things, free of cost."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.faces.server.answers import plain
from sottovoce.faces.server.questions import calibrated
from sottovoce.faces.server.work_queue import apart, breathe
from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.mechanism_choice import DELTAS, ORDERS, forecast_of
from sottovoce.privacy.composition import ComposedProfile
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.renyi_conversion import renyi_epsilon, renyi_log_delta
from sottovoce.service.ledger import Budget
from sottovoce.service.ledger.charging import price
from sottovoce.service.ledger.hash_chain import canonical

__all__ = ["choice_of", "forecast_for", "priced", "summary_of"]

_POINTS = 41


def choice_of(
    name: str, system: object, n: int | None, target: Promise, mean: object
) -> tuple[dict[str, Any], Mechanism | None]:
    """Return what one mechanism does for the promise, and the mechanism; or why there is none."""
    breathe()
    try:
        mechanism = calibrated(name, system, n, target)
    except SottovoceError as error:
        return {"name": name, "unreachable": str(error)}, None
    shown = json.loads(_described(mechanism)) | {"forecast": json.loads(_forecast(mechanism, canonical(mean)))}
    return {"name": name} | shown, mechanism


def forecast_for(name: str, system: object, n: int | None, target: Promise, mean: object) -> dict[str, Any] | None:
    """Return what to expect of one mechanism for the promise; None where nothing can be said, or none keeps it."""
    breathe()
    try:
        mechanism = calibrated(name, system, n, target)
    except SottovoceError:
        return None
    shown: dict[str, object] | None = json.loads(_forecast(mechanism, canonical(mean)))
    return shown


# What follows is kept as JSON: a text that no caller can change.


@functools.lru_cache(maxsize=512)
def _described(mechanism: Mechanism) -> str:
    """Return the mechanism and its curves."""
    return str(apart(_describe, mechanism))


def _describe(mechanism: Mechanism) -> str:
    shown = summary(mechanism.profile)
    return json.dumps(
        {"mechanism": mechanism.to_dict()} | shown | {"curve": _curve(mechanism.profile, shown["epsilon"])}
    )


@functools.lru_cache(maxsize=512)
def _forecast(mechanism: Mechanism, mean: str) -> str:
    """Return the forecast for records with that mean. Where n is a secret, so is what there is to expect of it."""
    return str(apart(_make_forecast, mechanism, mean))


def _make_forecast(mechanism: Mechanism, mean: str) -> str:
    try:
        result = None if mechanism.n is None else forecast_of(mechanism, json.loads(mean))
    except SottovoceError:
        raise
    except (ArithmeticError, ValueError, RuntimeError, TypeError):
        raise InvalidValue(f"no forecast can be made for records with a mean of {mean}") from None
    return json.dumps(None if result is None else plain_all(result.to_dict()))


def summary(profile: Profile) -> dict[str, Any]:
    """Return a profile at the usual places: ε(δ), and the Rényi divergence; null where infinite."""
    epsilons = plain(np.append(profile.pure(), _epsilons(profile)))
    return {
        "basis": str(profile.basis),
        "epsilon": {f"{d:g}": epsilon for d, epsilon in zip((0.0, *DELTAS), epsilons, strict=True)},
        "renyi": {f"{o:g}": value for o, value in zip(ORDERS, plain(profile.renyi(ORDERS)), strict=True)},
    }


def _epsilons(profile: Profile) -> Floats:
    """Return ε at `DELTAS`. Of several releases together, by their Rényi curves: a bound too, and far quicker."""
    deltas = np.array(DELTAS)
    if not isinstance(profile, ComposedProfile):
        return profile.epsilon(deltas)
    return np.minimum(renyi_epsilon(profile.renyi, np.log(deltas), profile.pole), profile.pure())


@functools.lru_cache(maxsize=512)
def summary_of(profile: str) -> str:
    """Return `summary` of a profile in JSON, as JSON: the same mechanism is asked many times."""
    return json.dumps(summary(Profile.from_json(profile)))


def _curve(profile: Profile, known: Mapping[str, float | None]) -> dict[str, list[float]]:
    """Return δ(ε) up to the `known` ε of the smallest δ that has one."""
    top = next((e for d in sorted(DELTAS) if (e := known[f"{d:g}"])), 10.0)
    epsilons = np.linspace(0.0, top, _POINTS)
    if isinstance(profile, ComposedProfile):
        deltas = np.exp(renyi_log_delta(profile.renyi, epsilons, profile.pole))
    else:
        deltas = profile.delta(epsilons)
    return {"epsilon": epsilons.tolist(), "delta": plain(deltas)}


def plain_all(values: dict[str, object]) -> dict[str, object]:
    """Return a table of numbers for JSON."""
    return {name: plain(value) for name, value in values.items()}


def priced(profile: Profile, budget: Budget, spent: Fraction) -> dict[str, Any]:
    """Return what an answer costs a budget, and how many such answers are left; null where it never fits."""
    cost = price(budget, profile.shown_to(budget.relation))
    if not math.isfinite(cost):
        return {"cost": None, "answers": 0}
    remaining = max(Fraction(budget.limit) - spent, Fraction(0))
    return {"cost": cost, "answers": None if cost == 0 else int(remaining / Fraction(cost))}
