"""Options that several commands take, said once: in a command's signature a dataclass stands for all of its fields."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of a dataclass are taken one by one, as Typer takes any other option.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Place:
    ...     folder: str
    ...     name: str = "table"
    >>> @grouped
    ... def show(place: Place, width: int = 80) -> None:
    ...     print(place, width)
    >>> inspect.signature(show).parameters["name"].default
    'table'
    >>> show(folder="here", name="there", width=10)
    Place(folder='here', name='there') 10
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        for item, hint, default in (
            _members(groups[name]) if name in groups else [(name, hints[name], parameter.default)]
        ):
            parameters.append(inspect.Parameter(item, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _members(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return the name, the type and the default of each field of a group."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = (
        (field, inspect.Parameter.empty if field.default is MISSING else field.default) for field in fields(kind)
    )
    return [(field.name, hints[field.name], default) for field, default in defaults]
