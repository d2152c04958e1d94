"""The server as it is run: processes of its own, TLS, and an end that finishes what is under way."""

from __future__ import annotations

import datetime
import gc
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.faces.client.health import check, main
from sottovoce.faces.server.app import CONFIG_VARIABLE, worker_app
from sottovoce.service.ledger import Ledger
from support.crowd import RunningServer, running, until_listening
from support.nursery import born
from support.offices import SMOKERS, bearer, token_for, under_way, write_office
from support.ports import free_port

RUN = (
    "import sys; sys.stdin = None; "  # a process of the nursery has one that its own workers could not take over
    "import types, uvicorn._subprocess as begun; from support.nursery import Grandchild; "
    "begun.spawn = types.SimpleNamespace(Process=Grandchild); "  # its workers have imported the rooms
    "from sottovoce.faces.server.config import read_config; "
    "from sottovoce.faces.server.running import serve; serve(read_config(sys.argv[1]))"
)


def write_certificate(folder: Path) -> None:
    key, now = Ed25519PrivateKey.generate(), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(address, False).add_extension(x509.BasicConstraints(True, None), True)
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.sign(key, None).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)


def test_it_serves_over_tls_and_finishes_what_is_under_way(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    port = free_port()
    server = f'port = {port}\nworkers = 2\ntls = {{ certificate = "cert.pem", key = "key.pem" }}'
    config = write_office(tmp_path, server=server, limits="answer_grid = 0.5")
    headers, address = bearer(token_for(config)), f"https://127.0.0.1:{port}"
    log = tmp_path / "log"
    trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    process = born(RUN, config.path, out=log, parent=True)
    try:
        with httpx.Client(base_url=address, verify=trust, timeout=60) as client:
            deadline = time.monotonic() + 120
            while not log.exists() or log.read_bytes().count(b"startup complete") < 2:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            until_listening(RunningServer(process, port), log)
            health = client.get("/health")
            assert health.json() == {"status": "ok"}
            assert check(config.path) == ""
            assert health.headers["Strict-Transport-Security"].startswith("max-age=")
            asked = "/api/v1/datasets/patients/ask"
            answer = under_way(config, lambda: client.post(asked, headers=headers, json=SMOKERS))
            process.terminate()
            assert answer().status_code == 200
    finally:
        process.terminate()
        process.wait(timeout=60)
    with Ledger(config.ledger) as ledger:
        assert [str(entry.state) for entry in ledger.entries()] == ["committed"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"level", "message", "logger", "at"} <= set.intersection(*map(set, lines))
    assert sum(line["message"] == "request" for line in lines) == 3


def test_either_of_two_workers_tells_what_both_have_counted(tmp_path: Path) -> None:
    port = free_port()
    config = write_office(tmp_path, server=f"port = {port}\nworkers = 2")
    admin, log = bearer(token_for(config, "carol", "admin")), tmp_path / "log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "sottovoce", "serve", str(config.path)]
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 240
        while log.read_bytes().count(b"startup complete") < 2:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        address = f"http://127.0.0.1:{port}"
        for _ in range(20):  # a connection each, which goes to either worker
            httpx.get(f"{address}/health", timeout=60)
        texts = [httpx.get(f"{address}/metrics", headers=admin, timeout=60).text for _ in range(8)]
    finally:
        server.terminate()
        server.wait(timeout=120)
    requests = 'sottovoce_requests_total{method="GET",route="/health",status="200"} 20.0'
    assert all(requests in text for text in texts), texts[0]
    assert len([line for line in log.read_text().splitlines() if '"request"' in line]) >= 28


def test_a_worker_looks_through_nothing_for_litter_that_was_there_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else everyone waits for as long as that takes, every now and then."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(write_office(tmp_path).path))
    before, turn = gc.get_threshold(), sys.getswitchinterval()
    try:
        gc.set_threshold(700)  # which a process begins with, unlike this one
        app = worker_app()
        assert gc.get_freeze_count() > 10_000
        assert len(gc.get_objects()) < 10_000
        assert gc.get_threshold()[0] > 700
        app.state.service.close()
    finally:  # what is frozen stays so: most of it was before, and every later collection would go through it
        gc.set_threshold(*before)
        sys.setswitchinterval(turn)


@pytest.fixture
def heard() -> Iterator[None]:
    """A process that is told to ignore SIGHUP, as nohup does, has its children ignore it too: not here."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
def test_sighup_has_a_server_of_one_worker_read_its_configuration_anew_and_loses_nothing(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="answer_grid = 0.5")
    headers, text = bearer(token_for(config)), config.path.read_text(encoding="utf-8")
    log = config.path.with_suffix(".log")

    def hang_up(waits_for: bytes, times: int) -> None:
        os.kill(server.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + 120
        while log.read_bytes().count(waits_for) < times:
            assert server.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)

    with (
        running(config) as [server],
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60, headers=headers) as client,
    ):
        title = lambda: client.get("/api/v1/datasets/patients").json()["title"]  # noqa: E731
        assert title() == "Patients"
        config.path.write_text(text.replace('"Patients"', '"Visitors"'), encoding="utf-8")
        answer = under_way(config, lambda: client.post("/api/v1/datasets/patients/ask", json=SMOKERS))
        hang_up(b"startup complete", 2)
        assert answer().status_code == 200
        assert title() == "Visitors"
        config.path.write_text(text.replace("kind = ", "sort = "), encoding="utf-8")
        hang_up(b"goes on with the configuration it has", 1)
        assert title() == "Visitors"
    with Ledger(config.ledger) as ledger:
        assert [str(entry.state) for entry in ledger.entries()] == ["committed"]


def test_the_health_check_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "server.toml"
    assert "cannot read" in check(config)
    config.write_text(f'[server]\nhost = "::"\nport = {free_port()}', encoding="utf-8")
    with mock.patch.object(sys, "argv", ["health", str(config)]):
        assert main() == 1
    assert "http://[::1]:" in capsys.readouterr().err
