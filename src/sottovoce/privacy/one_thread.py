"""Linear algebra on one thread: of small matrices threads spend nearly all of their time waiting for each other."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["one_thread"]


def one_thread() -> AbstractContextManager[Any]:
    """Return what holds linear algebra to one thread in a `with` block, if threadpoolctl is there to tell it."""
    pools = _pools()
    return nullcontext() if pools is None else pools.limit(limits=1, user_api="blas")


@cache  # looking through all libraries that are loaded takes longer than many a fit
def _pools() -> Any:
    """Return the pools of threads of the libraries that are loaded; None where they have one thread or no reader."""
    if os.environ.get("OMP_NUM_THREADS") == "1":
        return None
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - scikit-learn brings it, an extra
    except ImportError:
        return None
    return ThreadpoolController()
