"""The same question asked by many at once reads the records once; another question does not wait for it."""

import contextlib
import threading
from typing import Any

import pytest

from sottovoce.faces.server.datasets import _Remembered
from sottovoce.records.facts import Number
from sottovoce.records.readings import CategoryCounts, FunctionSum, Statistics


class Slow:
    """A table that counts how often it is read, and fails where it is told to."""

    origin = None

    def __init__(self) -> None:
        self.schema: dict[str, str] = {}
        self.reads: list[str] = []
        self.go = threading.Event()
        self.broken = False

    def count(self) -> int:
        return 3

    def read(self, reading: Any, column: Any = None, **asked: Any) -> Statistics:
        assert asked == {"where": None, "missing": None, "persons": None}
        self.reads.append(column)
        assert self.go.wait(30)
        if self.broken:
            raise OSError("gone")
        return Statistics(3, [float(len(column))])


def test_many_at_once_wait_for_one_read() -> None:
    table = Slow()
    remembered, got = _Remembered(table), []
    threads = [threading.Thread(target=lambda: got.append(remembered.read("sum", "age"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    table.go.set()
    for thread in threads:
        thread.join(30)
    assert table.reads == ["age"]
    assert len(got) == 8
    assert len({id(one) for one in got}) == 1
    assert remembered.read("sum", "ward") is not got[0]
    assert table.reads == ["age", "ward"]
    assert remembered._under_way == {}


def test_of_records_that_are_corrected_nothing_is_remembered() -> None:
    table = Slow()
    remembered = _Remembered(table, lambda _: table)
    table.go.set()
    assert remembered.read("sum", "age") is remembered.read("sum", "age")
    remembered.is_live = True
    opened = contextlib.ExitStack()
    for live in (remembered, remembered.reopened(opened)):
        assert live.read("sum", "age") is not live.read("sum", "age")


def test_a_read_that_failed_is_tried_again() -> None:
    table = Slow()
    remembered = _Remembered(table)
    table.go.set()
    table.broken = True
    with pytest.raises(OSError, match="gone"):
        remembered.read("sum", "age")
    table.broken = False
    assert remembered.read("sum", "age").n == 3
    assert table.reads == ["age", "age"]
    assert remembered._under_way == {}


class Alike:
    """Functions of one's own that show themselves alike, and are not."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.factor * x

    def __repr__(self) -> str:
        return "Alike"


def test_readings_that_python_takes_for_equal_are_two_questions() -> None:
    pairs = [
        (CategoryCounts((1, 2)), CategoryCounts((True, 2))),
        (CategoryCounts((1, 2)), CategoryCounts((1.0, 2))),
        (FunctionSum(Alike(1.0), Number(0, 1), 0, 1), FunctionSum(Alike(2.0), Number(0, 1), 0, 1)),
    ]
    for one, other in pairs:
        table = Slow()
        table.go.set()
        remembered = _Remembered(table)
        assert one == other
        assert remembered.read(one, "age") is not remembered.read(other, "age")
        assert remembered.read(one, "age") is remembered.read(one, "age")
        assert len(table.reads) == 2
