"""Words and plain numbers of the command line, taken as they stand: Typer's own way takes a while to load Pydantic.

Whatever is not plain, and so whatever is wrong, goes Typer's own way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

__all__ = ["take_plainly"]

_LONG = 15
"""The most characters of a plain number."""


def take_plainly(command: Any) -> Any:
    """Have a command and those below it take words and plain numbers as they stand."""
    command.get_params = partial(_parameters, command.get_params)
    for below in getattr(command, "commands", {}).values():
        take_plainly(below)
    return command


def _parameters(usual: Any, context: Any) -> Any:
    """Return the parameters of a command, its help among them, each told once to take them so."""
    found = usual(context)
    for parameter in found:
        kind = _kind(parameter)
        if kind is not None and not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_taken, parameter, kind, parameter.process_value)
    return found


def _kind(parameter: Any) -> Any:
    """Return what a parameter is, if it is nothing but that, with no range and no parser of its own."""
    told = getattr(parameter, "type_descriptor", None)
    about = getattr(told, "parameter_info", None)
    bare = all(getattr(about, name, "") is None for name in ("parser", "min", "max"))
    return getattr(told, "annotation", None) if bare else None


def _taken(parameter: Any, kind: Any, usual: Any, context: Any, value: Any) -> Any:
    if value is None and not parameter.required:
        found = () if parameter.multiple or parameter.nargs == -1 else None
    elif type(value) is kind and kind in (str, int, float):  # a word, or a number by default
        found = value
    elif kind in (int, float) and _is_plain(value, kind):
        found = kind(value)
    else:
        return usual(context, value)
    return found if parameter.callback is None else parameter.callback(context, parameter, found)


def _is_plain(value: Any, kind: Any) -> bool:
    """Say whether a number is written with a few digits, and a point where its kind has one."""
    if not isinstance(value, str) or not value.isascii() or len(value) > _LONG:
        return False
    return (value if kind is int else value.replace(".", "", 1)).isdigit()
