"""What is released: wheel and sdist are the same to the bit wherever they are built."""

from __future__ import annotations

import filecmp
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def built(place: Path, mask: int) -> Path:
    """Build from a copy of what is committed, made by somebody who has rights of their own set."""
    copy, archive = place / "copy", place / "copy.tar"
    subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), "HEAD"], check=True)
    copy.mkdir()
    with tarfile.open(archive) as files:
        wanted = [file for file in files if file.name.split("/")[0] not in ("data", "docs", "papers", "tests")]
        files.extractall(copy, wanted, filter="data")
    for file in copy.rglob("*"):
        file.chmod(file.stat().st_mode & ~mask)
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1800000000"}
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(place / "dist")], cwd=copy, env=environment,
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return place / "dist"


def test_two_builds_are_the_same_to_the_bit(tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed (pip install hatchling)")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: a release is built of what is committed")
    (first, second) = (tmp_path / "a", tmp_path / "somewhere" / "else")
    for place in (first, second):
        place.mkdir(parents=True)
    first, second = built(first, 0o000), built(second, 0o044)
    names = sorted(file.name for file in first.iterdir())
    assert len(names) == 2
    assert filecmp.cmpfiles(first, second, names, shallow=False) == (names, [], [])
    with zipfile.ZipFile(first / next(name for name in names if name.endswith(".whl"))) as wheel:
        held = wheel.namelist()
    assert "sottovoce/__init__.py" in held
    assert {name.split("/")[0].split("-")[0] for name in held} == {"sottovoce"}


@pytest.mark.parametrize(("fits", "code"), [(True, 0), (False, 1)])
def test_extras_that_do_not_fit_fail_the_check_of_them(fits: bool, code: int, tmp_path: Path) -> None:
    """The check itself asks an index of packages for minutes, and is run weekly, with `.ci/beside`."""
    uv = tmp_path / "uv"
    uv.write_text(f"#!/bin/sh\ngrep -q pandas && exit 0\nexit {0 if fits else 1}\n")
    uv.chmod(0o755)
    search = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci/resolves"], check=False, env=os.environ | search, capture_output=True, text=True)
    lines = done.stdout.split(" beside ")
    assert (done.returncode, done.stdout.count(": resolves") == len(lines) - 1) == (code, fits)
    assert len(lines) > 4
