"""The oldest versions that are tested are the oldest ones that are declared."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
