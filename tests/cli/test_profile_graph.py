"""The profile-graph commands, run as a user runs them."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli.profile_graph import app

RUN = CliRunner()
STATE = {
    "profiles": {"ann": {"cpu": 0.6, "gpu": 0.4}, "bob": {"cpu": 0.3, "gpu": 0.7}},
    "edges": [["ann", "bob"]],
}


@pytest.fixture
def graph_json(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(STATE))
    return str(path)


@pytest.fixture
def graph_csv(tmp_path):
    path = tmp_path / "profiles.csv"
    path.write_text("profile,cpu,gpu\nann,0.6,0.4\nbob,0.3,0.7\n")
    return str(path)


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("user,resource,secret\n" + "ann,cpu,1\nbob,gpu,2\n" * 200)
    return str(path)


def test_plan_says_what_would_happen(graph_json):
    out = RUN.invoke(app, ["plan", graph_json, "--epsilon", "0.3"])
    assert out.exit_code == 0, out.output
    assert "ε = 0.3 for each record, across 1 edges of 2 profiles" in out.output
    assert "randomized response" in out.output


@pytest.mark.parametrize(
    "mechanism",
    ["smooth-categorical", "smooth-one-bit", "one-bit-cluster", "two-profile-one-bit", "randomized-response"],
)
def test_every_mechanism_answers_in_json(graph_csv, mechanism):
    out = RUN.invoke(app, ["plan", graph_csv, "--edges", "chain", "-e", "0.3", "-m", mechanism, "--json"])
    assert out.exit_code == 0, out.output
    state = json.loads(out.output)
    assert state["mechanism"] == mechanism
    assert state["largest_loss"] <= 0.3
    assert state["mean_error"] <= state["randomized_response"]["mean_error"] + 1e-8


def test_edges_from_a_file_and_matrices_to_files(graph_csv, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("first,second\nann,bob\n")
    for name in ("m.json", "m.csv"):
        out = RUN.invoke(app, ["plan", graph_csv, "--edges", str(edges), "-e", "1", "--matrices", str(tmp_path / name)])
        assert out.exit_code == 0, out.output
    assert json.loads((tmp_path / "m.json").read_text())["categories"] == ["cpu", "gpu"]
    assert (tmp_path / "m.csv").read_text().startswith("profile,category,cpu,gpu\n")


def test_release_writes_the_column_and_nothing_else(graph_json, records, tmp_path):
    output = tmp_path / "released.csv"
    command = [
        "release",
        graph_json,
        records,
        "-e",
        "0.3",
        "-c",
        "resource",
        "--profile-column",
        "user",
        "-o",
        str(output),
    ]
    out = RUN.invoke(app, [*command, "--json"])
    assert out.exit_code == 0, out.output
    assert json.loads(out.output)["records"] == 400
    lines = list(csv.reader(output.read_text().splitlines()))
    assert lines[0] == ["resource"] and len(lines) == 401
    first = [line[0] for line in lines[1:]]
    assert set(first) == {"cpu", "gpu"}
    assert first != ["cpu", "gpu"] * 200, "nothing was altered"
    assert "released       400 records" in RUN.invoke(app, command).output
    again = [line[0] for line in csv.reader(output.read_text().splitlines())][1:]
    assert again != first, "the same noise came out twice"


def test_release_of_one_profile(graph_json, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("resource\ncpu\ngpu\n")
    command = [
        "release",
        graph_json,
        str(path),
        "-e",
        "1",
        "-c",
        "resource",
        "--profile",
        "ann",
        "-o",
        str(tmp_path / "o.csv"),
    ]
    assert RUN.invoke(app, command).exit_code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"-c": "colour"}, "no column 'colour'"),
        ({"-e": "-1"}, "epsilon must be"),
        ({"-o": "/nowhere/at/all.csv"}, "No such file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(graph_json, records, tmp_path, change, message):
    options = {"-e": "0.3", "-c": "resource", "--profile-column": "user", "-o": str(tmp_path / "o.csv")} | change
    out = RUN.invoke(app, ["release", graph_json, records, *(w for pair in options.items() for w in pair)])
    assert out.exit_code == 2
    assert message in out.stderr and out.stderr.count("\n") == 1
    assert not (tmp_path / "o.csv").exists()


def test_no_record_is_refused(graph_json, records, tmp_path):
    """A refusal would tell what it holds."""
    options = ["-e", "0.3", "-c", "resource", "--profile-column", "secret", "-o", str(tmp_path / "o.csv")]
    assert RUN.invoke(app, ["release", graph_json, records, *options]).exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.json", "{", "is not JSON"),
        ("g.json", "[]", "JSON object"),
        ("g.json", '{"profiles": {"a": [1]}}', "has no edges"),
        ("g.json", '{"profiles": {"a": [0.4]}, "edges": []}', "must sum to 1"),
        ("g.csv", "", "is empty"),
        ("g.csv", "p,x\na,1\na,1\n", "names a profile twice"),
        ("g.csv", "p,x,y\na,1\n", "a line of 2 fields"),
        ("g.csv", "p,x\na,many\n", "no finite number"),
    ],
)
def test_bad_graph_files_are_named(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    edges = ["--edges", "chain"] if name.endswith("csv") else []
    out = RUN.invoke(app, ["plan", str(path), "-e", "1", *edges])
    assert out.exit_code == 2 and message in out.stderr and out.stderr.count("\n") == 1


def test_other_mistakes(graph_json, graph_csv, records, tmp_path):
    assert "No such file" in RUN.invoke(app, ["plan", str(tmp_path / "none.json"), "-e", "1"]).stderr
    three = tmp_path / "three.csv"
    three.write_text("a,b,c\nann,bob,x\n")
    assert "two columns" in RUN.invoke(app, ["plan", graph_csv, "-e", "1", "--edges", str(three)]).stderr
    both = ["release", graph_json, records, "-e", "1", "-c", "resource", "-o", str(tmp_path / "o.csv")]
    out = RUN.invoke(app, both)
    assert out.exit_code == 2 and "--profile-column" in out.stderr
    assert out.stderr.count("\n") == 1
    told = RUN.invoke(app, ["plan", graph_json, "-e", "nan", "--json"])
    assert told.exit_code == 2 and json.loads(told.stderr)["error"] == "InvalidValue"
