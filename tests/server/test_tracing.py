"""Traces: what was done and when, to the tick; nothing of what was asked, read or answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the telemetry extra (pip install 'sottovoce[telemetry]')")
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sottovoce.faces.server import service as rooms
from sottovoce.faces.server.config import read_config
from sottovoce.faces.server.tracing import ATTRIBUTES, Tracing, tracing_from_environment
from support.offices import ask, bearer, served, token_for, write_office

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
QUESTION = {
    "verb": "mean", "column": "age", "by": ["ward"], "where": "visits >= 3 and ward in ('N', 'S')", "spend": "3%",
    "purpose": "Smith-7 and the yearly report",
}  # fmt: skip


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(rooms, "tracing_from_environment", lambda: Tracing(provider))
    return exporter


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_spans_of_a_question_say_their_few_words_and_nothing_else(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    config = write_office(tmp_path, limits="answer_grid = 0.05")
    with served(config) as client:
        headers = bearer(token_for(config)) | {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "baggage": "who=ada"}
        answer = client.post("/api/v1/datasets/patients/answers", headers=headers, json=QUESTION)
        assert answer.status_code == 200
        assert ask(client, headers).status_code == 200
        client.post("/api/v1/datasets/patients/answers", headers=headers, json=QUESTION | {"column": "Smith-3"})
        client.get("/api/v1/datasets/Smith-4", headers=headers)
        client.get("/Smith-5?where=age", headers={"Authorization": "Bearer Smith-6"})
    given = spans.get_finished_spans()
    named = by_name(spans)
    route = "POST /api/v1/datasets/{dataset}/answers"
    assert {"charge", "query", "inference", route, "GET none", "GET /api/v1/datasets/{dataset}"} <= set(named)
    assert {span.name.split(" ")[0] for span in given} == {"charge", "query", "inference", "POST", "GET"}
    for span in given:
        assert set(span.attributes or {}) <= ATTRIBUTES and not span.events and not span.links
        assert span.status.description is None
    kept = [json.loads(span.to_json()) for span in given]
    assert {name for span in kept for name in span} == {
        "name", "context", "kind", "parent_id", "start_time", "end_time", "status", "attributes", "events", "links",
        "resource",
    }  # fmt: skip
    random = ("context", "parent_id", "start_time", "end_time")  # numbers in which any word may be spelt
    text = json.dumps([{name: span[name] for name in span if name not in random} for span in kept])
    for word in ("age", "visits", "Smith", "yearly", "ada", "N'", "3%", "mean age", "renyi", "sv1_"):
        assert word not in text.replace("telemetry.sdk.language", ""), word
    for row in answer.json()["release"]["value"].values():
        assert json.dumps(row) not in text
    first = next(span for span in given if span.name == "charge")
    assert first.attributes == {"sottovoce.dataset": "patients", "sottovoce.verb": "mean"}
    asked = next(span for span in given if span.name == route)
    assert asked.attributes == {
        "http.request.method": "POST", "http.route": "/api/v1/datasets/{dataset}/answers",
        "http.response.status_code": 200,
    }  # fmt: skip
    assert first.parent is not None and asked.context is not None and first.parent.span_id == asked.context.span_id
    assert f"{asked.context.trace_id:032x}" == TRACE


def test_a_query_ends_at_a_tick_whatever_it_took(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    step = 0.2
    config = write_office(tmp_path, limits=f"answer_grid = {step}")
    with served(config) as client:
        headers = bearer(token_for(config))
        for column in ("age", "visits", "wait"):
            client.post(
                "/api/v1/datasets/patients/answers",
                headers=headers,
                json={"verb": "mean", "column": column, "spend": "1%"},
            )
        text = client.get("/metrics", headers=bearer(token_for(config, "ada", "admin"))).text
    whole = {span.context.span_id: span for span in spans.get_finished_spans() if span.context is not None}
    queries = [span for span in whole.values() if span.name == "query"]
    assert len(queries) == 3
    for span in queries:
        assert span.parent is not None
        request = whole[span.parent.span_id]
        assert (span.end_time or 0) - (request.start_time or 0) >= step * 1e9
    assert 'sottovoce_source_query_seconds_count{dataset="patients"} 3.0' in text
    assert 'sottovoce_source_up{dataset="patients"} 1.0' in text
    assert 'sottovoce_source_rows{dataset="patients"} 400.0' in text


def test_a_secret_number_of_rows_is_not_in_the_metrics(tmp_path: Path) -> None:
    config = write_office(tmp_path)
    secret = config.path.read_text("utf-8").replace("conditions = false", 'conditions = false\nn = "private"')
    config.path.write_text(secret, "utf-8")
    config = read_config(config.path)
    with served(config) as client:
        text = client.get("/metrics", headers=bearer(token_for(config, "ada", "admin"))).text
    assert 'sottovoce_source_up{dataset="staff"} 1.0' in text and 'sottovoce_source_rows{dataset="staff"}' not in text


def test_a_request_that_fails_says_that_and_not_why(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    def fails() -> None:
        with Tracing(provider).span("query", dataset="patients", where="Smith-1"):
            raise ValueError("Smith-2")

    with pytest.raises(ValueError, match="Smith-2"):
        fails()
    span = by_name(spans)["query"]
    assert not span.status.is_ok and "Smith" not in span.to_json()


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_sent_where_the_environment_says(
    environment: dict[str, str], on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tracing: Any = tracing_from_environment()
    assert (tracing._provider is not None) is on
    if on:
        assert tracing._provider.resource.attributes["service.name"] == "sottovoce"
    tracing.close()
