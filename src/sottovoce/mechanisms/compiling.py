"""How JAX is asked to compile what runs for seconds: soon. By default it may take longer to compile than to run."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["compiler_options"]

_PLAIN = {"xla_cpu_use_fusion_emitters": False}
"""On the processor: compiled in two thirds of the time, and no slower to run."""
_ROUGH = {**_PLAIN, "xla_backend_optimization_level": 0}
"""In a third of the time, and several times as slow to run."""


@cache
def compiler_options(*, seldom: bool = False) -> dict[str, Any]:
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
