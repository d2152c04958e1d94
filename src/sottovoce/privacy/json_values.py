"""Plain values: what goes into JSON and comes back, and what people write in TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidValue

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, check_circular=False)
_MAKE: Any = getattr(json.encoder, "c_make_encoder", None)
_MADE = _MAKE and _MAKE(None, _ENCODER.default, json.encoder.encode_basestring_ascii, None, ":", ",", True, False, True)
"""What `_ENCODER` would make anew for each value, where Python has it; ledgers write little and often."""


def canonical(value: object) -> str:
    """Return the one JSON text of a plain value: sorted names, no spaces, ASCII, shortest exact floats.

    >>> canonical({"b": 0.1, "a": [1, None]})
    '{"a":[1,null],"b":0.1}'
    """
    return _ENCODER.encode(value) if _MADE is None else "".join(_MADE(value, 0))


def json_object(text: str, what: str, error: type[InvalidValue] = InvalidValue) -> dict[str, Any]:
    """Return the JSON object in `text`, or raise `error` saying that it is none.

    >>> json_object('{"a": 1}', "a release")
    {'a': 1}
    """
    try:
        state = json.loads(text)
    except (json.JSONDecodeError, TypeError, UnicodeDecodeError, RecursionError, ValueError) as reason:
        raise error(f"{what} is read from JSON, and this is none: {reason}") from None
    if not isinstance(state, dict):
        raise error(f"{what} is a JSON object. Got {text!r}")
    return state


def toml_file(path: Path) -> dict[str, Any]:
    """Return what a TOML file says, or raise `InvalidValue`; a mark that some editors begin a file with is no fault."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} is not UTF-8; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from None


def mapping(what: str, state: object) -> dict[str, Any]:
    """Return what `to_dict` gave as a dictionary of one's own, or raise `InvalidValue` saying that it is none.

    >>> mapping("profile", {"profile": "pure"})
    {'profile': 'pure'}
    """
    if not isinstance(state, Mapping):
        raise InvalidValue(f"a {what} is read from a mapping, as its to_dict gives. Got a {type(state).__name__}")
    return dict(state)


class restoring:  # noqa: N801 - read as a verb: with restoring("a release"): ...
    """Raise `InvalidValue` where plain values are not what `to_dict` gave; what was refused with a reason stays so.

    >>> with restoring("a release"):
    ...     {}["value"]
    Traceback (most recent call last):
    sottovoce.privacy.errors.InvalidValue: cannot read a release: 'value' is missing
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, InvalidValue):
            return
        if isinstance(error, KeyError):
            raise InvalidValue(f"cannot read {self.what}: {error} is missing") from None
        if isinstance(error, TypeError | ValueError | AttributeError | IndexError):
            raise InvalidValue(f"cannot read {self.what}: {error}") from None
