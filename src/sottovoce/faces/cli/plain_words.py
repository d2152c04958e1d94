"""Words, paths and plain numbers of a command, taken as they stand: Typer's own way takes a while to load Pydantic.

Whatever is not plain, and so whatever is wrong, goes Typer's own way.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

_LONG = 15
"""The most characters of a plain number."""
_BARE = {"parser": None, "min": None, "max": None, "path_type": None, "resolve_path": False, "allow_dash": False}
_BARE |= {"exists": False, "file_okay": True, "dir_okay": True, "readable": True, "writable": False}
"""What is said of a parameter of which nothing is asked but its kind."""


def take_plainly(command: Any) -> Any:
    """Have a command and those below it take words, paths and plain numbers as they stand."""
    command.get_params = partial(_parameters, command.get_params)
    for below in getattr(command, "commands", {}).values():
        take_plainly(below)
    return command


def _parameters(usual: Any, context: Any) -> Any:
    """Return the parameters of a command, its help among them, each told once to take them so."""
    result = usual(context)
    for parameter in result:
        kind = _kind(parameter)
        if kind is not None and not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_taken, parameter, kind, parameter.process_value)
    return result


def _kind(parameter: Any) -> Any:
    """Return what a parameter is, if nothing else is asked of it, such as a range."""
    shown = getattr(parameter, "type_descriptor", None)
    about = getattr(shown, "parameter_info", None)
    bare = all(getattr(about, name, ...) is usual for name, usual in _BARE.items())
    return getattr(shown, "annotation", None) if bare else None


def _taken(parameter: Any, kind: Any, usual: Any, context: Any, value: Any) -> Any:
    if value is None and not parameter.required:
        result = () if parameter.multiple or parameter.nargs == -1 else None
    elif type(value) is kind and kind in (str, int, float):  # a word, or a number by default
        result = value
    elif (kind in (int, float) and _is_plain(value, kind)) or (kind is Path and _is_open(value)):
        result = kind(value)
    else:
        return usual(context, value)
    return result if parameter.callback is None else parameter.callback(context, parameter, result)


def _is_plain(value: Any, kind: Any) -> bool:
    """Say whether a number is written with a few digits, and a point where its kind has one."""
    if not isinstance(value, str) or not value.isascii() or len(value) > _LONG:
        return False
    return (value if kind is int else value.replace(".", "", 1)).isdigit()


def _is_open(value: Any) -> bool:
    """Say whether a path leads to what can be read, or to nothing yet."""
    try:
        return isinstance(value, str) and (os.access(value, os.R_OK) or not os.access(value, os.F_OK))
    except ValueError:  # no path at all: a zero in it, or half a letter
        return False
