"""Models on the command line: ``beta-bernoulli:alpha=6,beta=12``, or a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.choices import build_mechanism, names_for
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.systems.naming import system_from

__all__ = ["parse_system", "parse_types", "read_spec", "releasing_mechanism"]


def releasing_mechanism(name: str | None, model: Any, n: int, target: Promise) -> Mechanism:
    """Calibrate the mechanism called `name`, or the usual one for the model."""
    known = names_for(model)
    if name is None:
        name = "diffused" if "diffused" in known else next(iter(known))
        kind, _ = known[name]
        if name == "laplace":  # the kind takes whichever noise is less
            mechanism: Mechanism = kind.calibrate(model, n, target)
            return mechanism
    return build_mechanism(name, model, n, target)


def parse_system(text: str) -> Any:
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


def parse_types(text: str | Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Read the types of a CSV file's columns from their command-line form, or take a file's table as it is.

    >>> parse_types("age=int64,weight=float64")
    {'age': 'int64', 'weight': 'float64'}
    """
    if not isinstance(text, str):
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and kind.strip() for name, _, kind in pairs):
        raise InvalidValue(f"cannot read the types {text!r}; write name=type,name=type")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


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
