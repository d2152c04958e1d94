"""Names of a room that are imported when first asked for: a command loads what it uses."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from sottovoce.privacy.errors import NotInstalled

_EXTRAS = {
    **dict.fromkeys(("ibis", "duckdb", "pyarrow", "pandas"), "data"),
    **dict.fromkeys(
        ("fastapi", "starlette", "uvicorn", "jinja2", "python_multipart", "cryptography", "prometheus_client"), "server"
    ),
    **dict.fromkeys(("jax", "jaxlib", "sklearn", "formulaic"), "regression"),
    **dict.fromkeys(("matplotlib", "arviz"), "plots"),
    **dict.fromkeys(("authlib", "joserfc"), "oidc"),
    "opentelemetry": "telemetry",
    "mcp": "agents",
    **dict.fromkeys(("deltalake", "pyiceberg"), "lakes"),
    "numpyro": "models",
    "psycopg": "postgres",
    "pyspark": "spark",
}
"""The extra that brings a package which the core does without."""


def needing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return `NotInstalled`, which names the extra that brings what is missing; the same error where none does.

    >>> print(needing(ModuleNotFoundError("No module named 'jax'", name="jax")))
    this needs jax, which is not installed: pip install 'sottovoce[regression]'
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS or isinstance(error, NotInstalled):
        return error
    said = f"this needs {package}, which is not installed: pip install 'sottovoce[{_EXTRAS[package]}]'"
    return NotInstalled(said, name=error.name)


@functools.cache
def homes_of(room: str) -> Mapping[str, str]:
    """Return where each name of a room lives, as the imports under its ``if TYPE_CHECKING:`` say.

    They are there for whoever checks types, who also sees to it that they are right; a second list would be one more
    to forget. A name imported ``as`` itself is one that the room gives to others (PEP 484).

    >>> homes_of("sottovoce.records.readings")["ClippedSum"]
    'sottovoce.records.readings.clipped_sum'
    """
    return {name.name: home for home, name in _checked_imports(room)}


def _checked_imports(room: str) -> Iterator[tuple[str, ast.alias]]:
    loader: Any = sys.modules[room].__spec__.loader  # type: ignore[union-attr]
    checked = [
        line for node in ast.parse(loader.get_source(room)).body if isinstance(node, ast.If) for line in node.body
    ]
    return ((str(line.module), name) for line in checked if isinstance(line, ast.ImportFrom) for name in line.names)


def lazily(room: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room: each name is imported from where `homes_of` says, when first used.

    ``__all__`` is what the room gives to others.

    >>> lazily("sottovoce.records.readings")("ClippedSum").__module__
    'sottovoce.records.readings.clipped_sum'
    """

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(item.name for _, item in _checked_imports(room) if item.asname)
        if name.startswith("__") or name not in homes_of(room):
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        try:
            result = getattr(import_module(homes_of(room)[name]), name)
        except ModuleNotFoundError as error:
            raise needing(error) from None
        setattr(sys.modules[room], name, result)
        return result

    return find
