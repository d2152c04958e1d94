"""Metrics: what Prometheus reads. Counts of requests and answers; nothing in them comes from a record."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable

__all__ = ["Metrics"]

_HELP = {
    "requests": "Requests by route, method and status.",
    "answers": "Answers given, by data set.",
    "answers_late": "Answers that missed the first tick of the grid, by data set.",
    "answers_lost": "Answers charged and lost, by data set.",
    "failed_logins": "Requests without a valid token.",
}


class Metrics:
    """Counters of one worker, which is named in a label; sum over it.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("answers", dataset="patients")
    >>> print(metrics.text([]).splitlines()[1])
    # TYPE sottovoce_answers_total counter
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._turn = threading.Lock()

    def count(self, name: str, **labels: str) -> None:
        """Count one event."""
        with self._turn:
            self._counts[name, tuple(labels.items())] += 1

    def text(self, gauges: Iterable[tuple[str, str, dict[str, str], float]]) -> str:
        """Return the counters and the given gauges (name, help, labels, value) in Prometheus' text format."""
        lines: list[str] = []
        with self._turn:
            counts = sorted(self._counts.items())  # labels as they were given: each name has its own, in one order
        for name, said in _HELP.items():
            found = [(labels, value) for (counted, labels), value in counts if counted == name]
            if found:
                lines += [f"# HELP sottovoce_{name}_total {said}", f"# TYPE sottovoce_{name}_total counter"]
            lines += [
                _line(f"sottovoce_{name}_total", dict(labels) | {"worker": str(os.getpid())}, value)
                for labels, value in found
            ]
        seen: set[str] = set()
        for name, said, shown, number in gauges:
            if name not in seen:
                lines += [f"# HELP sottovoce_{name} {said}", f"# TYPE sottovoce_{name} gauge"]
                seen.add(name)
            lines.append(_line(f"sottovoce_{name}", shown, number))
        return "\n".join(lines) + "\n"


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
    return f"{name}{{{inside}}} {value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
