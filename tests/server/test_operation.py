"""Operation: what is logged, counted, limited; when answers leave; how the server ends."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sottovoce.faces.client.errors import AnswerLost
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.logs import JsonLines
from sottovoce.faces.server.pacing import TickGrid
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.request_guard import HEADERS
from sottovoce.faces.server.service import Service
from sottovoce.service.ledger import Ledger, State
from support.offices import BETA, SMOKERS, ask, bearer, served, token_for, under_way, write_office

QUESTION = ServerQuestion(system=BETA, target="renyi:8,0.05", column="smoker")


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Every line that any logger writes, as the server would write it."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.partition(".")[0] not in ("httpx", "httpcore"):  # the client's own
                lines.append(self.format(record))

    handler, root = Keep(), logging.getLogger()
    handler.setFormatter(JsonLines())
    root.addHandler(handler)
    before, level = root.level, logging.getLogger("sottovoce").level
    root.setLevel(logging.DEBUG)
    logging.getLogger("sottovoce").setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(before)
    logging.getLogger("sottovoce").setLevel(level)


def numbers_in(value: Any) -> Iterator[float]:
    match value:
        case dict():
            for one in value.values():
                yield from numbers_in(one)
        case list():
            for one in value:
                yield from numbers_in(one)
        case float():
            yield value


def test_logs_are_json_and_hold_no_answer_no_question_no_record(tmp_path: Path, log: list[str]) -> None:
    config = write_office(tmp_path)
    with served(config) as client:
        token = token_for(config)
        told = [ask(client, bearer(token), query="theta + 0", where="age > 33").json()]
        told += [ask(client, bearer(token), mechanism="gaussian", target="renyi:8,0.2").json()]
        ask(client, bearer(token), where="secret = 'Smith-7'")
        ask(client, bearer(token), column="<script>")
        client.get("/api/v1/datasets/patients/history?token=sesame", headers=bearer(token))
        client.get("/no/such/path-zyxw")  # no digits: names of requests have any that there are
    text = "\n".join(log)
    requests = [json.loads(line) for line in log if '"message": "request"' in line]
    assert [r["status"] for r in requests] == [200, 200, 404, 404, 200, 404]
    assert requests[0]["analyst"] == "ada"
    assert requests[0]["route"] == "/api/v1/datasets/{dataset}/ask"
    values = [repr(x) for answer in told for x in numbers_in(answer["release"]["value"])]
    values = [value for value in values if len(value) > 6]  # a short one, such as a level, is anywhere by chance
    assert len(values) > 50
    for private in (*values, "Smith", "theta", "age > 33", "<script>", "sesame", "zyxw", token, token[-43:]):
        assert private not in text, private


def test_a_failure_is_logged_by_kind_and_place_alone(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_office(tmp_path)
    with served(config) as client:
        headers = bearer(token_for(config))

        def fail(*_: object, **__: object) -> None:
            raise ValueError("record 7 is 'Smith-7'")

        monkeypatch.setattr("sottovoce.faces.server.datasets._Remembered.read", fail)
        lost = ask(client, headers)
        monkeypatch.setattr("sottovoce.faces.server.service.Service.datasets", fail)
        fault = client.get("/api/v1/datasets", headers=headers)
    assert (lost.status_code, lost.json()["type"]) == (500, "urn:sottovoce:answer-lost")
    assert (fault.status_code, fault.json()["type"]) == (500, "urn:sottovoce:fault")
    assert fault.headers["X-Frame-Options"] == "DENY"
    failures = [json.loads(line) for line in log if '"failure"' in line]
    assert "ValueError" in {f["error"] for f in failures}
    assert any("test_operation.py" in place for f in failures for place in f["where"])
    for text in ("\n".join(log), lost.text, fault.text):
        assert "Smith" not in text
    with Ledger(config.ledger) as ledger:
        (entry,) = ledger.entries("patients")
        assert entry.state is State.LOST
        assert float(ledger.spent(ledger.budget("patients"))) == entry.whole_cost


def test_health_and_metrics_count_without_values(client: httpx.Client, office: Config, ada: dict[str, str]) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    value = ask(client, ada, query="theta", mechanism="diffused").json()["release"]["value"]["answer"]
    text = client.get("/metrics", headers=bearer(token_for(office, "carol", "admin"))).text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'sottovoce_\w+(\{(\w+="[^"]*",?)*\})? [0-9.e+-]+', line) for line in lines)
    assert any(line.startswith("sottovoce_request_seconds_bucket{") for line in lines)
    assert any(line.startswith("sottovoce_answers_total{") for line in lines)
    assert any('spent_share{analyst="ada",dataset="patients"}' in line for line in lines)
    assert str(value) not in text


def test_a_ledger_that_does_not_answer_is_unhealthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sottovoce.privacy.errors import LedgerUnavailable

    config = write_office(tmp_path)
    with served(config) as client:
        headers = bearer(token_for(config))

        def gone(*_: object, **__: object) -> None:
            raise LedgerUnavailable(f"the ledger {config.ledger} cannot be used: disk I/O error")

        monkeypatch.setattr("sottovoce.service.ledger.Ledger.spent", gone)
        monkeypatch.setattr("sottovoce.service.ledger.Ledger.write_all", gone)
        assert client.get("/health").status_code == 503
        refused = ask(client, headers)
    assert refused.status_code == 503
    assert config.ledger not in refused.text


def test_every_response_carries_the_security_headers(client: httpx.Client, ada: dict[str, str]) -> None:
    for response in (
        client.get("/health"),
        client.get("/nowhere"),
        client.get("/api/v1/datasets"),
        client.get("/api/v1/datasets", headers=ada),
        client.put("/api/v1/datasets", headers=ada),
        client.post("/api/v1/datasets/patients/ask", headers=ada, content=b"x" * 70_000),
    ):
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert "server" not in response.headers
    assert "https://" not in HEADERS["Content-Security-Policy"]


class TestLimits:
    def test_a_large_body_is_refused_declared_or_not(self, client: httpx.Client, ada: dict[str, str]) -> None:
        path = "/api/v1/datasets/patients/ask"
        assert client.post(path, headers=ada, content=b"{" * 70_000).status_code == 413

        def pieces() -> Iterator[bytes]:
            for _ in range(100):
                yield b" " * 1000

        assert client.post(path, headers=ada, content=pieces()).status_code == 413

    def test_a_token_has_its_turns(self, tmp_path: Path) -> None:
        config = write_office(tmp_path, limits="requests_per_minute = 3\nanswer_grid = 0.005")
        with served(config) as client:
            ada, bob = (bearer(token_for(config, name)) for name in ("ada", "bob"))
            codes = [client.get("/api/v1/datasets", headers=ada).status_code for _ in range(5)]
            assert codes == [200, 200, 200, 429, 429]
            assert client.get("/api/v1/datasets", headers=bob).status_code == 200

    def test_an_address_has_its_turns(self, tmp_path: Path) -> None:
        config = write_office(tmp_path, limits="address_requests_per_minute = 4")
        with served(config) as client:
            codes = [client.get("/health").status_code for _ in range(6)]
            assert codes == [200] * 4 + [429] * 2


class TestTiming:
    """The same sleep and the same steps, whatever the data and however long the work took."""

    def sleeps(self, config: Config, monkeypatch: pytest.MonkeyPatch, work: float) -> list[tuple[str, float]]:
        """Return when each step of an answer happens, by a clock that only work and sleep move."""
        clock, moments = [1000.0], list[tuple[str, float]]()

        async def sleep(seconds: float) -> None:
            clock[0] += seconds
            moments.append(("tick", round(clock[0] - 1000.0, 9)))

        with Service(config) as service:
            service.grid = TickGrid(config.limits.answer_grid, lambda: clock[0], sleep)
            caller = service.authenticate(token_for(config))
            curator = service._datasets["patients"].curator
            make, recording = curator.make_all, curator.recording

            def slow(paid: Any) -> Any:
                clock[0] += work
                return make(paid)

            def noted(made: Any) -> Any:
                moments.append(("record", round(clock[0] - 1000.0, 9)))
                return recording(made)

            monkeypatch.setattr(curator, "make_all", slow)
            monkeypatch.setattr(curator, "recording", noted)
            asyncio.run(service.ask(caller, "patients", QUESTION))
        return moments

    def test_answers_are_recorded_and_leave_on_the_grid(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config = write_office(tmp_path, limits="answer_grid = 0.25")
        early = self.sleeps(config, monkeypatch, 0.001)
        assert early == [("tick", 0.25), ("record", 0.25)]
        assert self.sleeps(config, monkeypatch, 0.249) == early
        assert self.sleeps(config, monkeypatch, 0.26) == [("tick", 0.5), ("record", 0.5)]
        for work in (0.51, 0.76, 1.0):  # one of few moments, the later the fewer
            assert self.sleeps(config, monkeypatch, work) == [("tick", 1.0), ("record", 1.0)]

    def test_a_late_answer_is_counted_and_logged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        config = write_office(tmp_path, limits="answer_grid = 0.25")
        texts = []
        metrics_of = Service.close

        def close(service: Service) -> None:
            texts.append(service.metrics_text())
            metrics_of(service)

        monkeypatch.setattr(Service, "close", close)
        for work in (0.1, 0.7):
            self.sleeps(config, monkeypatch, work)
        assert 'sottovoce_answers_late_total{dataset="patients"}' not in texts[0]
        assert 'sottovoce_answers_late_total{dataset="patients"} 1.0' in texts[1]
        late = [record.facts for record in caplog.records if record.message == "late answer"]  # type: ignore[attr-defined]
        assert late == [{"dataset": "patients", "ticks": 4.0}]

    def test_a_lost_answer_leaves_on_the_grid_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ValueError

        monkeypatch.setattr("sottovoce.faces.server.datasets._Remembered.read", fail)
        config = write_office(tmp_path, limits="answer_grid = 0.25")
        with pytest.raises(AnswerLost):
            self.sleeps(config, monkeypatch, 0.1)

    def test_a_second_answer_reads_no_record(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from sottovoce.records.tables import Table

        reads: list[str] = []
        real = Table.read
        monkeypatch.setattr(Table, "read", lambda *a, **k: reads.append("read") or real(*a, **k))
        with Service(write_office(tmp_path)) as service:
            caller = service.authenticate(token_for(service.config))
            assert reads == []  # nothing is read before it is paid for
            for _ in range(3):
                asyncio.run(service.ask(caller, "patients", QUESTION))
        assert reads == ["read"]


def test_an_answer_under_way_is_finished_before_the_server_ends(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="answer_grid = 0.4")
    with served(config) as client:
        headers, asked = bearer(token_for(config)), f"{client.base_url}/api/v1/datasets/patients/ask"
        answer = under_way(config, lambda: httpx.post(asked, headers=headers, json=SMOKERS, verify=False))
    # The block ends by asking the server to stop, while the answer waits for its tick.
    assert answer().status_code == 200
    with Ledger(config.ledger) as ledger:
        assert [str(entry.state) for entry in ledger.entries()] == ["committed"]


def test_a_caller_who_hangs_up_does_not_stop_the_work(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="answer_grid = 0.3")
    with served(config) as client:
        body = json.dumps(SMOKERS).encode()
        head = (
            f"POST /api/v1/datasets/patients/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token_for(config)}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with Ledger(config.ledger) as ledger:
            with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as line:
                line.sendall(head.encode() + body)
                while not ledger.entries():
                    time.sleep(0.01)
            while ledger.pending():
                time.sleep(0.02)
            assert [str(entry.state) for entry in ledger.entries()] == ["committed"]


class TestBehindAProxy:
    """On an open address without TLS of its own, only what a trusted proxy says came over TLS is answered."""

    @pytest.fixture
    def ask_from(self, tmp_path: Path) -> Callable[..., int]:
        from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

        from sottovoce.faces.server.app import create_app

        config = write_office(
            tmp_path, server='host = "0.0.0.0"\ntrusted_proxies = ["10.0.0.2"]', limits="failures_per_minute = 3"
        )
        app, token = create_app(config), token_for(config)
        proxied = ProxyHeadersMiddleware(app, ",".join(config.trusted_proxies))

        def ask_from(peer: str, path: str = "/api/v1/datasets", token: str = token, **headers: str) -> int:
            async def send() -> int:
                transport = httpx.ASGITransport(proxied, client=(peer, 1))
                async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                    names = {name.replace("_", "-"): value for name, value in headers.items()}
                    return (await client.get(path, headers=bearer(token) | names)).status_code

            return asyncio.run(send())

        yield ask_from
        app.state.service.close()

    def test_whoever_comes_past_it_is_refused(self, ask_from: Callable[..., int]) -> None:
        https = {"X_Forwarded_Proto": "https", "X_Forwarded_For": "198.51.100.7"}
        assert ask_from("10.0.0.2", **https) == 200
        assert ask_from("10.0.0.2", **https | {"X_Forwarded_Proto": "http"}) == 403
        assert ask_from("10.0.0.2") == 403
        assert ask_from("198.51.100.7", **https) == 403  # a stranger's word is worth nothing
        assert ask_from("198.51.100.7", "/login") == 403
        assert ask_from("198.51.100.7", "/health") == 200

    def test_nobody_escapes_the_limit_on_failures_by_what_they_say(self, ask_from: Callable[..., int]) -> None:
        codes = []
        for i in range(6):
            said = {"X_Forwarded_Proto": "https", "X_Forwarded_For": f"192.0.2.{i}, 198.51.100.7"}
            codes.append(ask_from("10.0.0.2", token="sv1_x", **said))
        assert codes == [401] * 3 + [429] * 3
