"""Workers for long public work end with whoever waits, in the middle of a call into compiled code too."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.faces.client.errors import CallerLeft
from sottovoce.faces.server import planning_processes as apart
from sottovoce.faces.server.questions import target_of
from sottovoce.privacy.errors import InvalidPromise, InvalidValue

ENDLESS = (sum, itertools.repeat(1, 10**15))
"""One call into compiled code that looks at nothing until it is done, in some days."""


def wanted() -> bool:
    return True


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_work_is_done_in_one_other_process_that_is_used_again() -> None:
    first = apart.call(os.getpid, wanted=wanted)
    assert first != os.getpid()
    assert apart.call(os.getpid, wanted=wanted) == first
    with pytest.raises(InvalidPromise, match="cannot read the promise"):
        apart.call(target_of, "nonsense:1", wanted=wanted)
    assert apart.call(os.getpid, wanted=wanted) == first


def test_work_that_nobody_wants_any_more_is_ended_whatever_it_is_doing() -> None:
    process = apart.call(os.getpid, wanted=wanted)
    answers = iter([True, True, False])
    with pytest.raises(CallerLeft):
        apart.call(*ENDLESS, wanted=lambda: next(answers))
    assert gone(process)
    assert apart.call(max, 2, 3, wanted=wanted) == 3


def test_work_that_takes_too_long_or_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert apart.call(max, 2, 3, wanted=wanted) == 3
    with pytest.raises(InvalidValue, match="more memory"):
        apart.call(bytes, 2 * apart._MEMORY, wanted=wanted)
    with pytest.raises(InvalidValue, match="more memory"):  # as the system's own killer ends one
        apart.call(os._exit, 9, wanted=wanted)
    assert apart.call(max, 2, 3, wanted=wanted) == 3
    monkeypatch.setattr(apart, "SECONDS", 0.1)
    with pytest.raises(InvalidValue, match="longer to plan"):
        apart.call(*ENDLESS, wanted=wanted)


def test_a_worker_ends_with_the_server_that_started_it() -> None:
    script = (
        "import os, itertools; from sottovoce.faces.server import planning_processes as apart; "
        "print(apart.call(os.getpid, wanted=lambda: True), flush=True); "
        "apart.call(sum, itertools.repeat(1, 10**15), wanted=lambda: True)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdout is not None
        process = int(server.stdout.readline())
        assert not gone(process)
        server.send_signal(signal.SIGKILL)
    until(lambda: gone(process))
