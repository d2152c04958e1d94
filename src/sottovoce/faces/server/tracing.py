"""Traces for OpenTelemetry: when a request was charged, its query ended and its answer was told; never of what.

They are sent where the environment names a collector (``OTEL_EXPORTER_OTLP_ENDPOINT``). Nothing in a span comes from a
record, a condition or an answer: the attributes are a fixed few, no exception's words are kept, and a query's span ends
at the tick at which its answer leaves, which whoever asked sees too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ATTRIBUTES = frozenset(
    {"http.request.method", "http.route", "http.response.status_code", "sottovoce.dataset", "sottovoce.verb"}
)
"""All that a span may say beside its name, its kind and its two moments."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_FAULT = 500


class Tracing:
    """Spans for a service, or nothing at all where nobody collects them.

    Parameters
    ----------
    provider
        A `TracerProvider` of OpenTelemetry; None for no traces.
    """

    def __init__(self, provider: Any = None) -> None:
        self._provider = provider
        self._tracer = None if provider is None else provider.get_tracer("sottovoce")

    @contextmanager
    def span(self, name: str, **attributes: str | None) -> Iterator[None]:
        """Time what is inside; names of attributes come without ``sottovoce.``."""
        if self._tracer is None:
            yield
            return
        said = {f"sottovoce.{word}": value for word, value in attributes.items() if value is not None}
        with self._tracer.start_as_current_span(
            name, attributes=_allowed(said), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException:
                _fail(span)
                raise

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Time a request, within the trace that its header ``traceparent`` names; it ends with what is put into it."""
        ended: dict[str, Any] = {}
        if self._tracer is None:
            yield ended
            return
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an extra
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        known = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        context = TraceContextTextMapPropagator().extract(known)
        with self._tracer.start_as_current_span(
            method, context, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield ended
            finally:
                span.update_name(f"{method} {ended.get('http.route', 'none')}")
                span.set_attributes(_allowed({"http.request.method": method} | ended))
                if ended.get("http.response.status_code", _FAULT) >= _FAULT:
                    _fail(span)

    def close(self) -> None:
        """Send what waits to be sent."""
        if self._provider is not None:
            self._provider.shutdown()


def tracing_from_environment() -> Tracing:
    """Return traces for the collector that the environment names by OpenTelemetry's variables; none without one."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    if off or not any(os.environ.get(name) for name in _ENDPOINTS):
        return Tracing()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    name = os.environ.get("OTEL_SERVICE_NAME", "sottovoce")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


def _allowed(attributes: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in attributes.items() if name in ATTRIBUTES}


def _fail(span: Any) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

    span.set_status(StatusCode.ERROR)
