"""The oldest versions that are tested are the oldest ones declared, and the oldest Python can have the pins."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
EXTRAS = ("data", "plots", "regression", "server")


def floors(lines: list[str], sign: str) -> dict[str, str]:
    found = [re.match(rf"([a-z0-9-]+)(?:\[.*?\])?{sign}([0-9.]+)", line.lower()) for line in lines]
    return {match[1]: re.sub(r"(\.0)+$", "", match[2]) for match in found if match}


def test_every_declared_floor_is_the_tested_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]] + project["dependencies"]
    declared = floors(asked, ">=")
    tested = floors((ROOT / "constraints-floor.txt").read_text().splitlines(), "==")
    assert declared == {name: version for name, version in tested.items() if name != "jaxlib"}


def test_every_pin_is_one_that_the_oldest_python_can_have() -> None:
    """A pin that wants Python 3.11.5 leaves Debian's own, 3.11.2, with nothing to install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = floors([f"python{project['requires-python']}"], ">=")["python"]
    pins = floors((ROOT / "constraints.txt").read_text().splitlines(), "==")
    asks = {
        name: one.metadata["Requires-Python"]
        for one in importlib.metadata.distributions()
        if (name := re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()) in pins and "Requires-Python" in one.metadata
    }
    assert len(asks) > len(pins) / 2
    assert {name: asked for name, asked in asks.items() if f"{oldest}.0" not in SpecifierSet(asked)} == {}
