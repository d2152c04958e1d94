"""Models on the command line: ``beta-bernoulli:alpha=6,beta=12`` and the names of mechanisms."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce.gibbs import CountTables, NoisyCounts
from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    Mechanism,
    NoisyStatistics,
    TemperedPosterior,
)
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import Promise
from sottovoce.systems import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
    System,
)

__all__ = ["MECHANISMS", "SYSTEMS", "build_mechanism", "parse_system", "read_spec", "system_from"]

SYSTEMS: dict[str, Callable[..., Any]] = {
    **{kind.word: kind for kind in (BetaBernoulli, DirichletCategorical, GammaPoisson, GammaExponential, NormalMean)},
    "count-tables": lambda **state: CountTables.from_dict(state),
}


def _noisy(noise: NoiseKind) -> Callable[[Any, int, Promise], Mechanism]:
    def calibrate(system: Any, n: int, target: Promise) -> Mechanism:
        if isinstance(system, CountTables):
            return NoisyCounts.calibrate(system, n, target, noise)
        return NoisyStatistics.calibrate(system, n, target, noise)

    return calibrate


def _direct(system: System, n: int, target: Promise) -> Mechanism:
    mechanism = DirectPosterior(system, n)
    if not mechanism.profile.satisfies(target):
        raise PromiseUnreachable(f"the plain posterior does not keep {target}; use diffused or concentrated")
    return mechanism


MECHANISMS: dict[str, Callable[[Any, int, Promise], Mechanism]] = {
    "direct": _direct,
    "diffused": DiffusedPosterior.calibrate,
    "concentrated": ConcentratedPosterior.calibrate,
    "tempered": TemperedPosterior.calibrate,
    "laplace": _noisy("laplace"),
    "gaussian": _noisy("gaussian"),
}


def parse_system(text: str) -> System:
    """Read a system from its command-line form; values of a list are separated by slashes.

    >>> parse_system("beta-bernoulli:alpha=6,beta=12")
    BetaBernoulli(alpha=6.0, beta=12.0, whole=True)
    """
    word, _, rest = text.strip().partition(":")
    numbers: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidValue(f"cannot read {part!r} in {text!r}; write name=value, lists as a/b/c")
        numbers[name.strip().replace("-", "_")] = _value(value.strip())
    return system_from({"kind": word, **numbers})


def system_from(state: Mapping[str, Any]) -> System:
    """Build a system from its word (`kind`) and its arguments."""
    arguments = dict(state)
    word = arguments.pop("kind", None)
    if word not in SYSTEMS:
        raise InvalidValue(f"no system is called {word!r}; known: {', '.join(SYSTEMS)}")
    for name in ("bounds", "categories"):
        if isinstance(arguments.get(name), list):
            arguments[name] = tuple(arguments[name])
    try:
        built: System = SYSTEMS[word](**arguments)
    except TypeError as error:
        reason = str(error).replace("__init__()", word)
        raise InvalidValue(f"cannot build the system: {reason}") from None
    return built


def _value(text: str) -> Any:
    if "/" in text:
        return [_value(part) for part in text.split("/")]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def build_mechanism(name: str, system: Any, n: int, target: Promise) -> Mechanism:
    """Calibrate the mechanism called `name`."""
    if name not in MECHANISMS:
        raise InvalidValue(f"no mechanism is called {name!r}; known: {', '.join(MECHANISMS)}")
    if isinstance(system, CountTables) and name not in ("laplace", "gaussian"):
        raise InvalidValue(f"count tables are released through laplace or gaussian noise. Got {name!r}")
    return MECHANISMS[name](system, n, target)


def read_spec(path: Path | None) -> dict[str, Any]:
    """Read a TOML file with a table ``[system]`` and any of the command's options."""
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from None
