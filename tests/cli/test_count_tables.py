import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.inference.latent import NoisyTables
from sottovoce.mechanisms import Release

from .test_cli import run

SPEC = """
target = "pure:0.5"
mechanism = "laplace"
ledger = "{ledger}"
budget = "pure:1"

[system]
kind = "count-tables"
tables = [["region", "kind"], ["region", "hurt"]]

[[system.fields]]
name = "region"
categories = ["N", "S"]

[[system.fields]]
name = "kind"
categories = ["a", "b", "rest"]
other = "rest"

[[system.fields]]
name = "hurt"
categories = [0, 1]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "events.toml"
    path.write_text(SPEC.format(ledger=tmp_path / "events.ledger"))
    return path


def test_tables_of_events_are_released_from_the_command_line(tmp_path: Path, spec: Path) -> None:
    data = tmp_path / "events.parquet"
    columns = {"region": ["N", "S"] * 100, "kind": ["a", "b", "c", "a"] * 50, "hurt": [0, 0, 0, 1] * 50}
    pq.write_table(pa.table(columns), data)
    out = tmp_path / "release.json"
    shown = run("release", data, "--spec", spec, "--output", out)
    assert shown.returncode == 0, shown.stderr
    assert "region × kind" in shown.stdout
    value = Release.from_json(out.read_text()).value
    assert isinstance(value, NoisyTables)
    assert abs(value.table("kind")[1, 2] - 0) < 200
    answer = json.loads(run("release", data, "--spec", spec, "--json").stdout)
    assert answer["remaining"]["epsilon"] == pytest.approx(0.0, abs=1e-9)
    assert run("release", data, "--spec", spec, "--json").returncode != 0  # the budget is spent


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('tables = [["region", "kind"], ["region", "hurt"]]', "tables = 3"),
        ('["region", "kind"]', '["region", "nothing"]'),
        ('mechanism = "laplace"', 'mechanism = "diffused"'),
        ("categories = [0, 1]", 'categories = "abc"'),
    ],
)
def test_a_broken_description_is_refused_in_words(tmp_path: Path, spec: Path, old: str, new: str) -> None:
    data = tmp_path / "events.parquet"
    pq.write_table(pa.table({"region": ["N"], "kind": ["a"], "hurt": [0]}), data)
    assert old in spec.read_text()
    spec.write_text(spec.read_text().replace(old, new))
    ended = run("release", data, "--spec", spec, "--json")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") <= 2
    assert "Traceback" not in ended.stderr


def test_without_a_mechanism_the_lesser_noise_is_taken(tmp_path: Path, spec: Path) -> None:
    data = tmp_path / "events.parquet"
    pq.write_table(pa.table({"region": ["N"] * 200, "kind": ["a"] * 200, "hurt": [0] * 200}), data)
    spec.write_text(spec.read_text().replace('mechanism = "laplace"\n', ""))
    answer = json.loads(run("release", data, "--spec", spec, "--json").stdout)
    assert answer["mechanism"]["noise"] == "laplace"
