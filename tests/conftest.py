"""Fixtures and rules for every room."""

import hashlib
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

# One thread a process: workers of a run share the cores, and threads that spin while they wait for a core take it from
# the others. Before NumPy is imported; child processes take it over.
os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")
# What was compiled once is kept: JAX's programs from run to run, a folder a worker so that none reads what another is
# writing; and bytecode, which the commands that tests start would otherwise make anew each time.
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(
    Path.home() / ".cache" / "sottovoce-tests" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

import hypothesis
import numpy as np
import pytest
from randomgen import ChaCha

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import what they share: `support.postgres`

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy import randomness
from support.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

# What is tried is the same in every run, and a busy machine is no failure; SOTTOVOCE_REAL_NOISE=1 tries new things.
hypothesis.settings.register_profile(
    "fixed",
    derandomize=not os.environ.get("SOTTOVOCE_REAL_NOISE"),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fixed")

# Rooms whose subject is the operating system's entropy or OpenDP's noise: nothing is fixed there.
_REAL = ("tests/audit/", "tests/mechanisms/", "tests/privacy/", "src/sottovoce/audit/")


# Rooms whose tests share fits and compiled programs, file by file.
_TOGETHER = ("tests/amplification/", "tests/latent/", "tests/models/", "tests/papers/", "tests/regression/")


def _group(nodeid: str) -> str:
    """Return what a test goes to a worker with: all that starts Spark, its file where that shares much, or its cases.

    By name: with pytest 9.2 the marks of xdist 3.8 go unheard.
    """
    if "[spark" in nodeid:
        return "spark"
    return nodeid.partition("::" if nodeid.startswith(_TOGETHER) else "[")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Make once what tests share: with ``--dist loadgroup`` groups go to one worker, those of most tests first."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Grouped(config, log)


class _Keys:
    """The keys of one test, in order: the same cipher as in a release, and the same noise in every run of the suite."""

    def __init__(self) -> None:
        self.name, self.used = "", 0

    @property
    def real(self) -> bool:
        return os.environ.get("PYTEST_CURRENT_TEST", "").startswith(_REAL)

    def next(self) -> int:
        name = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
        self.name, self.used = name, self.used + 1 if name == self.name else 0
        return int.from_bytes(hashlib.sha256(f"{name} {self.used}".encode()).digest(), "little")


_KEYS = _Keys()


@pytest.fixture(autouse=True, scope="session")
def _fixed_keys() -> Iterator[None]:
    """Fix what is drawn, so that a test fails always or never; SOTTOVOCE_REAL_NOISE=1 leaves it to chance."""
    if os.environ.get("SOTTOVOCE_REAL_NOISE"):
        yield
        return
    fresh, add = randomness._fresh_bits, IntegerNoise._add_secure

    def bits() -> Any:
        return fresh() if _KEYS.real else ChaCha(key=_KEYS.next(), rounds=20)

    def add_fixed(noise: IntegerNoise, counts: Any) -> Any:
        if _KEYS.real:
            return add(noise, counts)
        return noise.add(counts, np.random.Generator(ChaCha(key=_KEYS.next(), rounds=20)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "_fresh_bits", bits)
        patch.setattr(IntegerNoise, "_add_secure", add_fixed)
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """Where every part must be there (SOTTOVOCE_CI=1), a skipped test is a failed one."""
    del item, call
    report = (yield).get_result()
    if os.environ.get("SOTTOVOCE_CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
