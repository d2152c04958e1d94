"""What is in `deploy/` fits together, and its configurations are ones that the server reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.faces.server.config import read_config

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install pyyaml)")

DEPLOY = Path(__file__).parent.parent / "deploy"


def of(name: str) -> Any:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["server.toml", "kubernetes/server.toml"])
def test_the_server_reads_the_configurations(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEDGER_URL", "postgresql+psycopg://sottovoce:secret@ledger/sottovoce")
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).touch()
        text = text.replace(f"/srv/tls/{file}", str(tmp_path / file))
    (tmp_path / "server.toml").write_text(text, encoding="utf-8")
    config = read_config(tmp_path / "server.toml")
    assert (config.host, config.port) == ("0.0.0.0", 8400)
    assert config.datasets["patients"].grows
    assert bool(config.tls) != bool(config.trusted_proxies)  # one of them ends TLS


def test_the_compose_file_mounts_what_is_there() -> None:
    (compose,) = of("compose.yaml")
    server, proxy = compose["services"]["server"], compose["services"]["proxy"]
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert source == "./data" or (DEPLOY / source).exists(), source
            else:
                assert source in compose["volumes"]
        assert set(service["networks"]) <= set(compose["networks"])
    assert "ports" not in server  # questions come through the proxy alone
    assert server["read_only"] and server["cap_drop"] == ["ALL"]
    assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).exists()
    at = proxy["networks"]["inner"]["ipv4_address"]
    assert f'trusted_proxies = ["{at}"]' in (DEPLOY / "server.toml").read_text(encoding="utf-8")
    (metrics,) = of("prometheus.yml")
    assert metrics["scrape_configs"][0]["static_configs"][0]["targets"] == ["server:8400"]
    assert "server:8400" in (DEPLOY / "Caddyfile").read_text(encoding="utf-8")


def test_the_manifests_name_what_is_there() -> None:
    (base,) = of("kubernetes/kustomization.yaml")
    for file in [*base["resources"], *base["configMapGenerator"][0]["files"]]:
        assert (DEPLOY / "kubernetes" / file).exists(), file
    deployment, *others = of("kubernetes/server.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    claims = {item["metadata"]["name"] for item in others if item["kind"] == "PersistentVolumeClaim"}
    assert "sottovoce-state" in claims


def test_the_image_runs_as_nobody_and_looks_after_itself() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER 10001" in lines and any("sottovoce.faces.client.health" in line for line in lines)
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    assert all((DEPLOY.parent / name).exists() for name in copied)
