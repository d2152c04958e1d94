"""Peak memory of a part of a run: what this process held at most, and the largest of the processes it started."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

__all__ = ["Peak", "own_peak"]

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def own_peak() -> int:
    """Return the most kB that this process has held; not by getrusage alone, which counts whoever started it too."""
    if _STATUS.exists():
        return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Peak:
    """The peak since it was made, where the system can be told to count anew (Linux); else since the process began."""

    def __init__(self) -> None:
        self._children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        with contextlib.suppress(OSError):
            _RESET.write_text("5")

    def __str__(self) -> str:
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        said = f"at most {own_peak() / 1024:,.0f} MB"
        return said if children <= self._children else f"{said}, {children / 1024:,.0f} MB in a process of its own"
