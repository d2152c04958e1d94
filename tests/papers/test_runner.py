"""Experiments are cached, resumable, run side by side and fail alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from papers.parts import run_parts
from papers.registry import Experiment, Finding, Outcome, Setting
from papers.runner import Failure, Record, Request, run_experiment, run_experiments
from papers.version import code_version, modules_behind

from papers import registry, runner
from sottovoce.privacy.errors import InvalidData, InvalidValue


class _Counting:
    """An experiment of five parts that counts what it computes and can be stopped half-way."""

    def __init__(self) -> None:
        self.computed: list[int] = []
        self.stop_at: int | None = None
        self.__module__ = "papers.conversions"

    def part(self, k: int) -> int:
        if k == self.stop_at:
            raise KeyboardInterrupt
        self.computed.append(k)
        return k * k

    def __call__(self, setting: Setting) -> Outcome:
        squares = run_parts(setting, self.part, {f"part {k}/√": k for k in range(5)})
        path = setting.output / "squares.txt"
        path.write_text(json.dumps(squares))
        return Outcome((path,), (Finding("they grow", True, str(list(squares.values()))),))


@pytest.fixture
def counting(monkeypatch):
    made = _Counting()
    monkeypatch.setattr(runner, "find", lambda name: Experiment(name, "squares", "ours", made))
    return made


def test_a_stopped_run_goes_on_where_it_stood(counting, tmp_path):
    counting.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        run_experiment("squares", Request(tmp_path))
    counting.stop_at = None
    seen: list[float] = []
    record = run_experiment("squares", Request(tmp_path), seen.append)
    assert counting.computed == [0, 1, 2, 3, 4]
    assert (seen[0], seen[-1]) == (0.6, 1.0)
    assert record.findings[0].evidence == "[0, 1, 4, 9, 16]"


_SLOW = """
import sys, time
from pathlib import Path
from papers.parts import run_parts
from papers.registry import Setting

def slow(k):
    print(k, flush=True)
    time.sleep(0.0 if sys.argv[2] == "again" or k < 3 else 60.0)
    return k

run_parts(Setting(Path("unused"), cache=Path(sys.argv[1])), slow, {str(k): k for k in range(5)})
"""


def test_a_killed_process_leaves_its_finished_parts(tmp_path):
    first = subprocess.Popen([sys.executable, "-c", _SLOW, tmp_path, "slowly"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    started = [first.stdout.readline().strip() for _ in range(4)]
    first.kill()
    first.communicate()
    assert started == ["0", "1", "2", "3"]
    again = subprocess.run([sys.executable, "-c", _SLOW, tmp_path, "again"], capture_output=True, text=True, check=True)
    assert again.stdout.split() == ["3", "4"]


_ALL = """
import sys
import time
from pathlib import Path
from papers.runner import Request, run_experiments

if __name__ == "__main__":
    def report(name, fraction):
        print(name, flush=True)
    run_experiments(["held-out-priors", "kl-utility"], Request(Path(sys.argv[1]), jobs=2), report)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes under /proc, which Linux has")
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(_ALL)
    parent = subprocess.Popen(
        [sys.executable, script, tmp_path / "out"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(registry.__file__).parents[1])},
    )
    assert parent.stdout is not None
    parent.stdout.readline()  # a worker is at work
    workers = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    assert len(workers) >= 2
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while any(_runs(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


def _runs(process: str) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_finished_run_is_not_repeated(counting, tmp_path):
    first = run_experiment("squares", Request(tmp_path))
    second = run_experiment("squares", Request(tmp_path))
    assert len(counting.computed) == 5
    assert (first.cached, second.cached) == (False, True)
    assert (second.findings, second.files) == (first.findings, first.files)


@pytest.mark.parametrize("change", [{"seed": 1}, {"quick": True}, {"again": True}])
def test_another_setting_is_another_run(counting, tmp_path, change):
    run_experiment("squares", Request(tmp_path))
    assert not run_experiment("squares", Request(tmp_path, **change)).cached
    assert len(counting.computed) == 10


def test_other_code_is_another_run(counting, tmp_path, monkeypatch):
    run_experiment("squares", Request(tmp_path))
    monkeypatch.setattr(runner, "code_version", lambda module: "changed")
    assert not run_experiment("squares", Request(tmp_path)).cached


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("by another run")])
def test_a_record_counts_only_while_its_files_stand(counting, tmp_path, spoil):
    run_experiment("squares", Request(tmp_path))
    spoil(tmp_path / "squares.txt")
    assert not run_experiment("squares", Request(tmp_path)).cached
    assert len(counting.computed) == 5, "its parts are still good"
    assert json.loads((tmp_path / "squares.txt").read_text())["part 4/√"] == 16


def test_a_half_written_part_is_computed_again(counting, tmp_path):
    run_experiment("squares", Request(tmp_path))
    (tmp_path / "squares.txt").unlink()
    for part in tmp_path.glob(".cache/squares/*/*.json"):
        part.write_text('{"answer": ')
    run_experiment("squares", Request(tmp_path))
    assert len(counting.computed) == 10


def test_parts_run_in_processes_of_their_own(tmp_path):
    assert run_parts(Setting(tmp_path, jobs=2), abs, {"a": -1, "b": -2, "c": 3}) == {"a": 1, "b": 2, "c": 3}


def test_several_run_side_by_side_and_one_that_fails_fails_alone(tmp_path):
    heard: list[tuple[str, float]] = []
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/profile-categories").touch()  # where it would keep its record
    results = run_experiments(
        ["profile-couplet", "profile-categories"],
        Request(tmp_path, quick=True, jobs=2),
        lambda name, fraction: heard.append((name, fraction)),
    )
    assert isinstance(results["profile-couplet"], Record)
    assert ("profile-couplet", 1.0) in heard
    failure = results["profile-categories"]
    assert isinstance(failure, Failure)
    assert ".cache/profile-categories" in failure.error


def test_only_some_experiments_are_drawn_from_tables(tmp_path):
    with pytest.raises(InvalidValue, match="cannot be drawn from a table"):
        run_experiment("conversions", Request(tmp_path, table=tmp_path / "any.csv"))
    with pytest.raises(InvalidValue, match="no table"):
        run_experiment("logistic-regression", Request(tmp_path, table=tmp_path / "missing.csv"))
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidData, match="not a table of this experiment"):
        run_experiment("logistic-regression", Request(tmp_path, table=tmp_path / "other.csv"))


def test_the_version_follows_what_is_imported(tmp_path, monkeypatch):
    behind = modules_behind("papers.coverage")
    assert "sottovoce.privacy.promises" in behind
    assert not any(name.startswith(("sottovoce.faces.server", "sottovoce.service.ledger")) for name in behind)
    papers = Path(registry.__file__).parent
    shutil.copytree(papers, tmp_path / "papers")
    shutil.copytree(papers.parent / "src/sottovoce", tmp_path / "sottovoce")
    monkeypatch.setattr("papers.version._PLACES", {"sottovoce": tmp_path, "papers": tmp_path})
    before = code_version("papers.coverage")
    (tmp_path / "sottovoce/service/ledger/store.py").write_text("# changed")
    assert code_version("papers.coverage") == before
    (tmp_path / "sottovoce/privacy/promises.py").write_text("# changed")
    assert code_version("papers.coverage") != before


def test_every_experiment_says_what_it_does():
    for experiment in registry.all_experiments().values():
        assert len(experiment.about) > 30, experiment.name
