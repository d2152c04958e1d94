"""How JAX is asked to compile what runs for seconds: soon. By default it may take longer to compile than to run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_PLAIN = {"xla_cpu_use_fusion_emitters": False}
"""On the processor: compiled in half of the time or two thirds, and no slower to run but for long products."""
_ROUGH = {**_PLAIN, "xla_backend_optimization_level": 0}
"""In a third of the time, and several times as slow to run."""
_SHORT = 1 << 22
"""A run of no more products than this is over in milliseconds, compiled in whichever way."""


@cache
def compiler_options(*, seldom: bool = False) -> dict[str, object]:
    """Return ``compiler_options`` for `jax.jit` or for ``compile``; none where this version of JAX does not know them.

    Parameters
    ----------
    seldom
        What is compiled runs a few hundred times at the most, and may do so slowly.
    """
    import jax  # noqa: PLC0415 - an extra

    wanted: dict[str, Any] = _ROUGH if seldom else _PLAIN
    try:
        jax.jit(lambda x: x + 1, compiler_options=wanted)(0)
    except Exception:  # an option's name is no part of JAX's promises, and neither is the error for one that is gone
        return {}
    return wanted


def compiled(function: Callable[..., Any], work: int, static: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function to be compiled by JAX: soon where a run is short, at leisure where it is long.

    Parameters
    ----------
    function
        What is compiled.
    work
        About how many products a run takes, by public sizes alone.
    static
        The places of arguments that are part of the program.
    """
    return _compiled(function, static, work <= _SHORT)


@cache
def _compiled(function: Callable[..., Any], static: int | tuple[int, ...], soon: bool) -> Callable[..., Any]:
    import jax  # noqa: PLC0415 - an extra

    return jax.jit(function, static_argnums=static, compiler_options=compiler_options() if soon else {})
