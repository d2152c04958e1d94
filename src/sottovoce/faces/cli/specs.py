"""Models on the command line: ``beta-bernoulli:alpha=6,beta=12``, or a TOML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS, system_from
from sottovoce.mechanisms.mechanism_choice import build_mechanism, names_for, usual_name
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import toml_file
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts, read_facts


def releasing_mechanism(
    name: str | None, model: Any, n: int | None, target: Promise, price: Callable[[Profile], float] | None = None
) -> Mechanism:
    """Calibrate the mechanism called `name`, or the usual one: the least noise at its price, or the first that serves.

    `price` says what the budget charges for a profile.
    """
    named = name is not None
    if name is None:  # where n is a secret, a sample: a whole posterior of a system must know it
        name = (None if n is None else getattr(model, "whole_posterior", None)) or usual_name(model)
    if name == "laplace" and not named:  # the kind takes whichever noise is less
        kind, _ = names_for(model)[name]
        mechanism: Mechanism = kind.calibrate(model, n, target, price=price)
        return mechanism
    return build_mechanism(name, model, n, target)


def model_for(
    text: str | None, state: Mapping[str, Any] | None, facts: Facts | None, column: str | list[str] | None
) -> Any:
    """Return the system of a command: its text, or the table of a file; bounds and categories by the facts, if any.

    >>> from sottovoce.records.facts import Number
    >>> model_for("normal-mean", None, Facts(age=Number(0, 80)), "age").bounds
    (0.0, 80.0)
    """
    given = dict(parse_settings(text)) if text is not None else dict(state or {})
    kind = SYSTEMS[given.get("kind", given.get("system"))]
    settings = {name for name in given if name not in ("kind", "system")}
    known = getattr(kind, "settings", settings)
    item = column[0] if isinstance(column, list) and len(column) == 1 else column
    if facts is None or not hasattr(kind, "from_facts") or not settings <= set(known) or isinstance(item, list):
        return system_from(given)
    return kind.from_facts(given, facts, item)


def facts_of(path: Any) -> Facts | None:
    """Return the facts in a file, if one is named."""
    return None if path is None else read_facts(path)


def parse_settings(text: str) -> dict[str, Any]:
    """Return a system's kind and arguments from their command-line form."""
    word, _, remainder = text.strip().partition(":")
    numbers: dict[str, Any] = {}
    for part in filter(None, remainder.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidValue(f"cannot read {part!r} in {text!r}; write name=value, lists as a/b/c")
        numbers[name.strip().replace("-", "_")] = _value(value.strip())
    return {"kind": word, **numbers}


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
    return {} if path is None else toml_file(path)
