"""Array programs written once: run in NumPy, or compiled by JAX where it is installed and there is much to do.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from sottovoce.mechanisms.jax_compilation import compiler_options


class ArrayBackend(NamedTuple):
    """What a program is written with.

    Attributes
    ----------
    xp
        NumPy, or JAX's namespace of the same names.
    scan
        ``scan(step, carry, many, reverse=False)``, as `jax.lax.scan`: the last carry, and what all steps gave.
    """

    xp: Any
    scan: Callable[..., Any]


def _scan(step: Callable[..., Any], carry: Any, many: Any, reverse: bool = False) -> tuple[object, object]:
    rows = list(zip(*many, strict=True)) if isinstance(many, tuple) else list(many)
    result = []
    for row in reversed(rows) if reverse else rows:
        carry, out = step(carry, row)
        result.append(out)
    if reverse:
        result.reverse()
    if result and isinstance(result[0], tuple):
        return carry, tuple(np.stack(parts) for parts in zip(*result, strict=True))
    return carry, None if not result or result[0] is None else np.stack(result)


NUMPY = ArrayBackend(np, _scan)


@cache
def has_jax() -> bool:
    """Return whether programs can be compiled."""
    return find_spec("jax") is not None


@cache
def compiled(program: Callable[..., Any]) -> Callable[..., Any]:
    """Return a program as one compiled function of its arrays, in double precision on the processor.

    The same steps, several times as fast: what takes time in NumPy is to ask for each, and to go through memory.

    Examples
    --------
    >>> def squares(engine, x):
    ...     return engine.scan(lambda total, y: (total + y * y, total), 0.0, x)
    >>> squares(NUMPY, np.array([1.0, 2.0, 3.0]))
    (np.float64(14.0), array([0., 1., 5.]))
    """
    import jax  # noqa: PLC0415 - an extra

    engine, soon = ArrayBackend(jax.numpy, jax.lax.scan), compiler_options()
    steps = jax.jit(lambda *arrays: program(engine, *arrays), compiler_options=soon)

    def call(*arrays: object) -> Any:
        with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
            return jax.tree.map(np.asarray, steps(*arrays))

    return call
