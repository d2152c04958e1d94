"""The benchmarks' page: an area measured again replaces itself, and a missing peer says why."""

import ast
from pathlib import Path

import pytest
from benchmarks.__main__ import NAMES
from benchmarks.peers import environment

from benchmarks import page, timing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", NAMES)
def test_every_area_can_be_run_and_told_of(name):
    tree = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    assert main.args.args[0].arg == "quick"
    assert len(main.args.defaults) == len(main.args.args)
    assert ast.get_docstring(tree)


def test_tables_are_kept_for_whoever_collects(capsys):
    with timing.collected() as tables:
        timing.show("Speed", ["", "ratio"], [["ours", "0.5"]], "Half.")
    timing.show("Later", ["", "ratio"], [["ours", "2"]])
    assert tables == [timing.Shown("Speed", ("", "ratio"), (("ours", "0.5"),), "Half.")]
    assert "Later" in capsys.readouterr().out


def area(name, ratio):
    table = timing.Shown("Speed", ("", "ratio"), (("a | b", ratio),), "")
    return page.Area(name, "About it.", (table,), "this machine")


def test_an_area_replaces_its_own_section_and_no_other(tmp_path):
    path = tmp_path / "benchmarks.md"
    for name, ratio in (("zebra", "1.00"), ("privacy", "2.00"), ("zebra", "3.00")):
        page.write(area(name, ratio), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Benchmarks")
    assert "1.00" not in text
    assert text.index("## Profiles and composition") < text.index("2.00") < text.index("## Zebra") < text.index("3.00")
    assert "| a \\| b | 3.00 |" in text


def test_what_a_person_wrote_in_a_section_stays(tmp_path):
    path = tmp_path / "benchmarks.md"
    page.write(area("privacy", "1.00"), path)
    words = "<!-- by hand -->\n**Met** on two machines.\n<!-- end -->\n"
    path.write_text(
        path.read_text(encoding="utf-8").replace("*this machine", f"{words}\n*this machine"), encoding="utf-8"
    )
    for ratio in ("2.00", "3.00"):
        page.write(area("privacy", ratio), path)
    text = path.read_text(encoding="utf-8")
    assert text.count(words) == 1 and "2.00" not in text
    assert text.index("3.00") < text.index(words) < text.index("*this machine")


def test_versions_are_those_of_what_the_area_imports():
    told = page.versions(page)
    assert told.startswith("Python ")
    assert "numpy" in told
    assert "rich" not in told
    assert "rich" in page.versions(timing)


def test_peers_are_pinned_and_have_a_script():
    for name, pins in environment.PINS.items():
        assert all("==" in pin for pin in pins)
        assert Path(environment.__file__).with_name(f"{name}_peer.py").exists()


def test_without_a_network_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(environment.PeerUnavailable, match="autodp could not be installed; is there a network"):
        environment.ask("autodp", {"delta": 1e-6})
    assert not (tmp_path / ".venv-peers/autodp/pins").exists()
