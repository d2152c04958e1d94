"""The bundled data are the ones their README describes, and their bounds hold what they say."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from papers import data
from sottovoce.privacy.errors import InvalidData
from sottovoce.records.tables import bundled

README = data.data_path("README.md")


def listed() -> list[tuple[str, str]]:
    rows = re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", README.read_text(), re.MULTILINE)
    assert len(rows) == 14
    return rows


@pytest.mark.parametrize(("name", "digest"), listed())
def test_every_file_has_the_hash_in_the_readme(name: str, digest: str) -> None:
    path = bundled.COLLISIONS if name == bundled.COLLISIONS.name else data.data_path(name)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_no_file_is_left_out_of_the_readme() -> None:
    files = {str(p.relative_to(README.parent)) for p in README.parent.rglob("*") if p.is_file()}
    assert files == {name for name, _ in listed()} - {bundled.COLLISIONS.name} | {"README.md"}


def test_adult_has_the_published_margins() -> None:
    train, test = data.adult(), data.adult("test")
    assert train.schema == test.schema
    assert (train.num_rows, test.num_rows) == (32561, 16281)
    assert [train["income"].to_pylist().count(label) for label in ("<=50K", ">50K")] == [24720, 7841]
    assert [test["income"].to_pylist().count(label) for label in ("<=50K", ">50K")] == [12435, 3846]
    missing = ("workclass", "occupation", "native_country")
    assert [train[name].null_count for name in missing] == [1836, 1843, 583]
    assert [test[name].null_count for name in missing] == [963, 966, 274]


def test_adult_numbers_lie_in_the_unit_cube() -> None:
    X, y = data.adult_numbers("test")
    assert X.shape == (16281, 5)
    assert X.min() >= 0
    assert X.max() <= 1
    assert set(np.unique(y)) == {0.0, 1.0}


def test_collisions_have_the_published_margins() -> None:
    table = bundled.hk_collisions()
    assert [table["year"].to_pylist().count(y) for y in range(2014, 2020)] == [
        15790, 16170, 16099, 15725, 15935, 16102,
    ]  # fmt: skip
    assert set(table["district"].to_pylist()) == set(bundled.HK_DISTRICTS)
    assert [table["severity"].to_pylist().count(s) for s in bundled.HK_SEVERITIES] == [82178, 12980, 663]


def test_the_folder_can_be_chosen_and_must_hold_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOTTOVOCE_DATA", str(README.parent))
    assert data.pt_fires().num_rows == 200419
    monkeypatch.setenv("SOTTOVOCE_DATA", str(tmp_path))
    with pytest.raises(InvalidData, match="SOTTOVOCE_DATA"):
        data.adult()
