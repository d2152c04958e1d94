"""Linear algebra on one thread."""

import sys

import numpy as np
import pytest

from sottovoce.mechanisms.single_threaded import _pools, one_thread


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    _pools.cache_clear()
    yield
    _pools.cache_clear()


def threads():
    pytest.importorskip("threadpoolctl")
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_linear_algebra_has_one_thread_meanwhile_and_then_as_many_as_before():
    np.linalg.inv(np.eye(2))  # the library is loaded
    before = threads()
    with one_thread():
        assert threads() == {1}
    assert threads() == before


def test_the_last_of_several_gives_the_threads_back():
    np.linalg.inv(np.eye(2))
    before = threads()
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == before


def test_nothing_is_done_where_one_thread_was_asked_for(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert _pools() is None
    with one_thread():
        pass


def test_nothing_is_done_without_threadpoolctl(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert _pools() is None
