"""Models on the command line: ``beta-bernoulli:alpha=6,beta=12``, or a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.systems import System
from sottovoce.systems.naming import system_from

__all__ = ["parse_system", "read_spec"]


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
