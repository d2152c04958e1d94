"""Which mechanisms keep a promise, and what to expect of each: calibrated and forecast, no data read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.expected_error import Expected, cautions, expected
from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.mechanism import MECHANISMS, Mechanism
from sottovoce.privacy.errors import InvalidValue, NotInstalled, SottovoceError
from sottovoce.privacy.promises import Promise

DELTAS = (1e-3, 1e-6, 1e-9)
ORDERS = (1.0, 2.0, 4.0, 16.0)
CONJUGATE = ("direct", "diffused", "concentrated", "tempered", "laplace", "gaussian")
"""The names of the mechanisms that serve a conjugate system."""


def names_for(system: object) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """Return the mechanisms that serve a system: by short name the kind, and what its `calibrate` takes beside.

    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> tuple(names_for(BetaBernoulli(1, 1))) == CONJUGATE
    True
    """
    words = getattr(system, "mechanisms", None)
    if words is None:
        raise InvalidValue(f"no mechanism serves a {type(system).__name__}")
    kinds = _installed([*words, *(word for word in MECHANISMS.strangers if word not in words)])
    serving = [kind for kind in kinds if kind.word in words or kind.serves(system)]
    return {name: (kind, options) for kind in serving for name, options in kind.choices.items()}


def _installed(words: list[str]) -> list[type[Mechanism]]:
    """Return the kinds of the words whose packages are here; where none is, raise what is missing."""
    kinds, missing = [], []
    for word in words:
        try:
            kinds.append(MECHANISMS[word])
        except NotInstalled as error:
            missing.append(error)
    if missing and not kinds:
        raise missing[0]
    return kinds


def usual_name(system: object) -> str:
    """Return the mechanism to take where nobody names one: the system's own default, else the first that serves."""
    return getattr(system, "default_mechanism", None) or next(iter(names_for(system)))


def imagined_mean(system: Any) -> Any:
    """Return a mean of the records in the middle of what they can be, for a forecast; None where nothing forecasts."""
    if not any(_forecasts(kind) for kind, _ in names_for(system).values()):
        return None
    middle = system.reading.middle()
    return middle.tolist() if isinstance(middle, np.ndarray) else middle


def _forecasts(kind: type[Mechanism]) -> bool:
    return kind.forecasts and kind.forecast is not Mechanism.forecast


def forecast_of(mechanism: Mechanism, mean: object) -> Forecast | None:
    """Return what to expect of a mechanism if the records had this mean; None where it has no forecast."""
    return mechanism.forecast(mean) if mean is not None and _forecasts(type(mechanism)) else None


def width_of(mechanism: Mechanism, mean: object) -> float | None:
    """Return the width of the interval that `forecast_of` tells; None where there is no forecast."""
    return mechanism.expected_width(mean) if mean is not None and _forecasts(type(mechanism)) else None


def known_names() -> tuple[str, ...]:
    """Return every short name there is here; imports every mechanism whose packages are installed."""
    return tuple(dict.fromkeys((*CONJUGATE, *(name for kind in _installed([*MECHANISMS]) for name in kind.choices))))


def build_mechanism(name: str, system: object, n: int | None, target: Promise) -> Mechanism:
    """Calibrate the mechanism called `name`, for n records; None where their number is a secret."""
    known = names_for(system)
    if name not in known:
        raise InvalidValue(f"no mechanism for this is called {name!r}; known: {', '.join(known)}")
    kind, options = known[name]
    mechanism: Mechanism = kind.calibrate(system, kind.checked_n(n), target, **options)
    return mechanism


@dataclass(frozen=True)
class Choice:
    """One mechanism for the promise, with what to expect of it; or the reason why there is none."""

    name: str
    mechanism: Mechanism | None
    forecast: Forecast | None
    reason: str = ""
    expected: Expected | None = None
    cautions: tuple[str, ...] = ()

    def curves(self) -> tuple[list[float], list[float]]:
        """Return what it provably does: ε at δ = 0 and at `DELTAS`, and the Rényi divergence of `ORDERS`."""
        if self.mechanism is None:
            return [], []
        profile = self.mechanism.profile
        return profile.epsilon(np.array([0.0, *DELTAS])).tolist(), profile.renyi(np.array(ORDERS)).tolist()

    def to_dict(self) -> dict[str, object]:
        """Return the choice as plain values."""
        if self.mechanism is None:
            return {"name": self.name, "unreachable": self.reason}
        epsilons, divergences = self.curves()
        return {
            "name": self.name,
            "mechanism": self.mechanism.to_dict(),
            "basis": str(self.mechanism.profile.basis),
            "epsilon": {f"{d:g}": _finite(e) for d, e in zip((0.0, *DELTAS), epsilons, strict=True)},
            "renyi": {f"{o:g}": _finite(r) for o, r in zip(ORDERS, divergences, strict=True)},
            "forecast": None if self.forecast is None else self.forecast.to_dict(),
            "error": None if self.expected is None else self.expected.error,
            "cautions": list(self.cautions),
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def choices(system: Any, n: int, target: Promise, mean: Any, names: list[str]) -> list[Choice]:
    """Calibrate each named mechanism and forecast its use; least expected error first, unreachable ones last.

    Errors are those at means that the records may well have, most of them away from the prior's, and at `mean`: a
    mechanism that leans on the prior looks good only where the prior was right.
    """
    result = []
    means = [] if mean is None else [*system.reading.plausible(), mean]
    for name in names:
        try:
            mechanism = build_mechanism(name, system, n, target)
        except SottovoceError as error:
            if len(names) == 1:
                raise
            result.append(Choice(name, None, None, str(error)))
            continue
        forecast = forecast_of(mechanism, mean)
        shown = expected(mechanism, means) if means else None
        beware = cautions(target, n, shown, forecast)[len(cautions(target, n)) :]  # those of the mechanism alone
        if forecast is not None and (foretold := getattr(system, "foretold", "")):
            beware = (*beware, f"widths are of {foretold}")
        result.append(Choice(name, mechanism, forecast, expected=shown, cautions=beware))
    return sorted(result, key=_rank)


def _rank(choice: Choice) -> tuple[bool, float, bool, float]:
    """Rank by error, to three digits; then whole posteriors before single draws; then by divergence."""
    kl = np.inf if choice.forecast is None else choice.forecast.expected_kl
    error = np.inf if choice.expected is None else float(f"{choice.expected.error:.2e}")
    return choice.mechanism is None, error, choice.mechanism is not None and _drawn(choice.mechanism), kl


def _drawn(mechanism: Mechanism) -> bool:
    """Return whether a release holds samples, of which more would cost more or cannot be had."""
    try:
        return mechanism.cost(2) != mechanism.profile
    except InvalidValue:  # it holds those it was calibrated for
        return True
