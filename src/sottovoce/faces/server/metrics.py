"""Metrics for Prometheus: requests, answers, latencies and budgets, of all workers together.

Nothing in them comes from a record: answers leave at public moments, so how long requests take tells as little.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus-client looks, when it is imported, for the folder in which several workers count together."""

_COUNTERS = {
    "requests": ("Requests by route, method and status.", ("route", "method", "status")),
    "answers": ("Answers given, by data set.", ("dataset",)),
    "answers_late": ("Answers that missed the first tick of the grid, by data set.", ("dataset",)),
    "answers_lost": ("Answers charged and lost, by data set.", ("dataset",)),
    "failed_logins": ("Requests without a valid token.", ()),
}

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counters and latencies of a service.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("answers", dataset="patients")
    >>> print(next(line for line in metrics.text([]).splitlines() if "patients" in line))
    sottovoce_answers_total{dataset="patients"} 1.0
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"sottovoce_{name}", said, labels, registry=self._registry)
            for name, (said, labels) in _COUNTERS.items()
        }
        self._seconds = Histogram(
            "sottovoce_request_seconds", "Seconds that requests took.", ("route", "method"), registry=self._registry
        )
        self._query_seconds = Histogram(
            "sottovoce_source_query_seconds",
            "Seconds until the tick at which what was read and noised was told, by data set.",
            ("dataset",),
            registry=self._registry,
        )

    def count(self, name: str, **labels: str) -> None:
        """Count one event."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc()

    def observe(self, seconds: float, *, route: str, method: str) -> None:
        """Note how long a request took."""
        self._seconds.labels(route=route, method=method).observe(seconds)

    def observe_query(self, seconds: float, dataset: str) -> None:
        """Note how long after its question a query was told of, which is a tick of the grid."""
        self._query_seconds.labels(dataset=dataset).observe(seconds)

    def text(self, gauges: Iterable[tuple[str, str, dict[str, str], float]]) -> str:
        """Return all metrics and the given gauges (name, help, labels, value) in Prometheus' text format."""
        registry = self._registry
        if folder := os.environ.get(FOLDER_VARIABLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        state = CollectorRegistry()
        state.register(_Gauges(gauges))
        return (generate_latest(registry) + generate_latest(state)).decode()


class _Gauges:
    """Gauges as a collector hands them on."""

    def __init__(self, gauges: Iterable[tuple[str, str, dict[str, str], float]]) -> None:
        self._families: dict[str, GaugeMetricFamily] = {}
        for name, said, labels, value in gauges:
            family = self._families.setdefault(name, GaugeMetricFamily(f"sottovoce_{name}", said, labels=tuple(labels)))
            family.add_metric(tuple(labels.values()), value)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each family of gauges."""
        yield from self._families.values()
