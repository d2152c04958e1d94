"""What is in `deploy/` fits together, and its configurations are ones that the server reads."""

from __future__ import annotations

import hashlib
import json
import re
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


def rendered(name: str, values: dict[str, Any]) -> list[Any]:
    """Return what a template of the chart becomes: its words are few, and each is known here."""

    def word(found: re.Match[str]) -> str:
        first, *pipes = (step.strip() for step in found[1].split("|"))
        printed = re.fullmatch(r'printf "%s-(\w+)" \.Release\.Name', first)
        value = f"trial-{printed[1]}" if printed else "trial" if first == ".Release.Name" else None
        value = values[first.removeprefix(".Values.")] if value is None else value
        for pipe in pipes:
            value = {"quote": json.dumps, "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest()}[pipe](
                value
            )
        return value

    text = (DEPLOY / "helm" / "templates" / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(re.sub(r"[{]{2} (.*?) [}]{2}", word, text)))


def test_the_chart_says_what_the_manifests_say() -> None:
    (values,) = of("helm/values.yaml")
    assert values["config"] == (DEPLOY / "kubernetes" / "server.toml").read_text(encoding="utf-8")
    (config,) = rendered("config.yaml", values)
    assert config["data"]["server.toml"] == values["config"]
    deployment, claim, service = rendered("server.yaml", values)
    plain, *_ = of("kubernetes/server.yaml")
    pod, same = (each["spec"]["template"]["spec"] for each in (deployment, plain))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (network,) = rendered("network.yaml", values)
    chosen = [network["spec"]["podSelector"]["matchLabels"], deployment["spec"]["selector"]["matchLabels"]]
    assert chosen == [labels] * 2 and service["spec"]["selector"] == labels
    assert claim["metadata"]["name"] == "trial-state" and config["metadata"]["name"] == "trial-config"
    text = json.dumps(pod).replace("trial-", "sottovoce-").replace("sottovoce:0.1.0", "sottovoce")
    assert json.loads(text) == same


def test_the_image_runs_as_nobody_and_looks_after_itself() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER 10001" in lines and any("sottovoce.faces.client.health" in line for line in lines)
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    assert all((DEPLOY.parent / name).exists() for name in copied)
