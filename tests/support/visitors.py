"""Visitors of the server's page who run no scripts, and smaller offices for them."""

from __future__ import annotations

import re

import httpx

from sottovoce.faces.server.config import Config, read_config

__all__ = ["Visitor", "with_mechanisms"]


def with_mechanisms(config: Config, *names: str) -> Config:
    """Return the office with fewer mechanisms for patients: less to forecast."""
    words = ", ".join(f'"{name}"' for name in names)
    text = config.path.read_text(encoding="utf-8")
    config.path.write_text(text.replace("[datasets.patients]", f"[datasets.patients]\nmechanisms = [{words}]"), "utf-8")
    return read_config(config.path)


class Visitor:
    """A visitor without scripts: forms as the pages give them."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        client.cookies.clear()

    def log_in(self, token: str) -> httpx.Response:
        seal = self.seal(self.client.get("/login"))
        return self.client.post("/login", data={"seal": seal, "token": token})

    @staticmethod
    def seal(page: httpx.Response) -> str:
        return re.search(r'name="seal" value="([0-9a-f]+)"', page.text)[1]

    def fields(self, path: str = "/data/patients/models") -> dict[str, str]:
        page = self.client.get(path)
        key = re.search(r'name="key" value="([^"]+)"', page.text)[1]
        answer = {"seal": self.seal(page), "key": key, "column": "smoker", "system": "beta-bernoulli", "alpha": "6"}
        return answer | {"beta": "12", "promise": "renyi", "strength": "0.05", "second": "8", "mechanism": "diffused"}
