"""Fixtures and rules for every room."""

import contextlib
import functools
import gc
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

# One thread a process: workers of a run share the cores, and threads that spin while they wait for a core take it from
# the others. Before NumPy is imported; child processes take it over.
os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")
os.environ["NPROC"] = os.environ.get("NPROC", "1")  # JAX's
# What was compiled once is kept: JAX's programs from run to run, in one folder for all workers (JAX warns of one
# that is half written, and compiles it anew); and bytecode, for the commands that tests start.
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(
    Path.home() / ".cache" / "sottovoce-tests"
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import what they share: `support.postgres`

# What only a process that runs tests needs is imported where it is needed: the first of a run with workers runs none.
from support.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

sys.dont_write_bytecode = False  # as above, for this process
gc.disable()  # until all is imported

# What is tried is the same in every run, and a busy machine is no failure; SOTTOVOCE_REAL_NOISE=1 tries new things.
hypothesis.settings.register_profile(
    "fixed",
    derandomize=not os.environ.get("SOTTOVOCE_REAL_NOISE"),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fixed")
if not os.environ.get("SOTTOVOCE_REAL_NOISE"):
    # Numbers in our sources would be tried too, those of whatever is imported by then: never quite the same, and every
    # worker would read five hundred files for them.
    with contextlib.suppress(ImportError):  # an older Hypothesis does not look for them
        from hypothesis.internal.conjecture import providers

        providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def closed_figures() -> Generator[None]:
    """Let pyplot keep no figure of a test: it warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# Rooms whose subject is the operating system's entropy or OpenDP's noise: nothing is fixed there.
_REAL = ("tests/audit/", "tests/mechanisms/", "tests/privacy/", "src/sottovoce/audit/")


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


def _fix_keys(patch: pytest.MonkeyPatch) -> None:
    """Fix what is drawn, so that a test fails always or never; SOTTOVOCE_REAL_NOISE=1 leaves it to chance."""
    if os.environ.get("SOTTOVOCE_REAL_NOISE"):
        return
    import numpy as np
    from randomgen import ChaCha

    from sottovoce.mechanisms.integer_noise import IntegerNoise
    from sottovoce.privacy import randomness

    fresh, add = randomness._fresh_bits, IntegerNoise._add_secure

    def bits() -> Any:
        return fresh() if _KEYS.real else ChaCha(key=_KEYS.next(), rounds=20)

    def add_fixed(noise: IntegerNoise, counts: Any) -> Any:
        if _KEYS.real:
            return add(noise, counts)
        return noise.add(counts, np.random.Generator(ChaCha(key=_KEYS.next(), rounds=20)))

    patch.setattr(randomness, "_fresh_bits", bits)
    patch.setattr(IntegerNoise, "_add_secure", add_fixed)


def _share_duckdb(patch: pytest.MonkeyPatch) -> None:
    """Let tables share a DuckDB, but where its settings, its memory, its threads or its end are the subject."""
    import duckdb

    from support.one_duckdb import OneDuckDB

    def apart() -> bool:
        return os.environ.get("PYTEST_CURRENT_TEST", "").startswith(_ENGINES)

    patch.setattr(duckdb, "connect", OneDuckDB(duckdb.connect, apart))


def _make_commands_once(patch: pytest.MonkeyPatch) -> None:
    """Let Typer's runner make a command of an application once, as the command line does, not for every call."""
    import typer.testing

    from sottovoce.faces.cli.plain_words import take_plainly

    patch.setattr(typer.testing, "_get_command", functools.cache(lambda app: take_plainly(typer.main.get_command(app))))


def _compile_in_one_part(patch: pytest.MonkeyPatch) -> None:
    """Let JAX make one object of a program, not one for each of many threads: a worker has one thread."""
    from sottovoce.mechanisms import jax_compilation as compiling

    for options in (compiling._PLAIN, compiling._ROUGH):
        patch.setitem(options, "xla_cpu_parallel_codegen_split_count", 1)


_MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Write what tests write into memory, where there is enough and TMPDIR does not say otherwise.

    No test cuts the power, and a disk that others write to holds no test up: hundreds of ledgers wait for it. Workers,
    and what they start, take the folder over from the first process of a run, which leaves nothing behind.
    """
    config.pluginmanager.register(_Examples())  # a hook of this file would not be asked about the package
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < 4 * 2**30:
        return
    folder = Path(tempfile.mkdtemp(prefix="sottovoce-tests-", dir=_MEMORY))
    folder.chmod(0o755)  # a server of PostgreSQL runs as another user
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=-200)  # after multiprocessing's in it (-100)


_BORN = (
    "tests/audit/test_cases.py",
    "tests/audit/test_engine.py",
    "tests/cli/test_faces.py",
    "tests/ledger/test_stampede.py",
    "tests/ledger/test_store.py",
    "tests/server/test_crowd.py",
    "tests/server/test_work_queue.py",
    "tests/server/test_running.py",
    "tests/server/test_tokens.py",
    "tests/test_curator.py",
    "tests/test_one_door.py",
)
"""Files whose processes come from a nursery, which imports all rooms before the first: one worker has one."""
_TABLES = "tests/tables/"
"""What asks Spark, the heaviest: one worker starts it, while it asks other engines."""
_ENGINES = (
    "src/sottovoce/records/tables/",
    *(f"{_TABLES}test_{name}.py" for name in ("kept_queries", "sources", "spilling")),
)
"""What needs a DuckDB for each table."""
_LONG = (
    "tests/papers/test_mechanism_experiments.py",
    "tests/papers/test_paper_figures.py",
    "tests/models/test_fit_model.py",
    "tests/audit/test_against_the_sentence.py",
    "tests/test_docs.py",
    "tests/server/test_page.py",
    "nursery",
    _TABLES,
)
"""Files and groups of files that take long, the longest last: begun first, so that no worker waits for another at the
end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send the tests of a file to one worker, which makes once what they share; so with Spark and with a nursery.

    Not by xdist's own groups: it writes them where pytest 9 no longer reads them, and every worker started Spark.
    """
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(_TABLES):
                return _TABLES
            return "nursery" if nodeid.partition("::")[0] in _BORN else super()._split_scope(nodeid)

        def schedule(self) -> None:
            fresh = self.collection is None
            super().schedule()
            for file in _LONG if fresh else ():
                if file in self.workqueue:
                    self.workqueue.move_to_end(file, last=False)

    return Files(config, log) if config.getvalue("dist") == "loadfile" else None


class _Examples:
    """Looks for examples where there are any: the tests have none, nor has half of the package."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, Any, None]:
        outcome = yield
        if file_path.is_relative_to(Path(__file__).parent) or b">>>" not in file_path.read_bytes():
            outcome.force_result([one for one in outcome.get_result() if type(one) is pytest.Module])


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    """Let every other worker walk the folders backwards: what one has compiled, the other then finds compiled.

    Side by side through the same files, each would compile all of them.
    """
    report = (yield).get_result()
    if isinstance(collector, pytest.Directory) and int(_worker(collector.config).removeprefix("gw") or 0) % 2:
        report.result.reverse()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let all workers have their tests in one order, whichever way they walked and in what order cases registered."""
    if _worker(config):
        met: dict[str, int] = {}  # the tests of a file are met in the order of its lines

        def place(item: pytest.Item) -> tuple[str, int, str]:
            test = item.nodeid.partition("[")[0]
            return test.partition("::")[0], met.setdefault(test, len(met)), item.nodeid

        items.sort(key=place)


def _worker(config: pytest.Config) -> str:
    return str(getattr(config, "workerinput", {}).get("workerid", ""))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let every test find what is fixed and shared; not by fixtures, each of which every test would ask for.

    The garbage collector passes over the tests and their imports, which stay to the end, millions of objects: to look
    for what little of them is garbage takes longer than many a file of tests. Of the rest it looks more seldom than
    by default: programs that are traced and tables that are asked make thousands of objects, nearly all of which stay.
    """
    patch = pytest.MonkeyPatch()
    session.config.add_cleanup(patch.undo)
    for put in (_fix_keys, _share_duckdb, _make_commands_once, _compile_in_one_part):
        put(patch)
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Let what pytest looked through at the end not be looked through again, by it, by JAX or by the interpreter."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker report once of a test, not five times: of its set-up and its end only where they did not pass.

    Where durations, a file of results or more words are asked for, all is reported.
    """
    options = item.config.option
    if not _worker(item.config) or options.durations is not None or options.xmlpath or options.verbose > 0:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give every test the digits it would have alone: with those of an earlier one, integrals took twentyfold.

    The worker that has the nursery starts it with the first of its files, of which not the first test needs it.
    """
    import mpmath

    mpmath.mp.dps = 15
    if _worker(item.config) and item.nodeid.partition("::")[0] in _BORN:
        from support.nursery import prepare

        prepare()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """Where every part must be there (SOTTOVOCE_CI=1), a skipped test is a failed one."""
    del item, call
    report = (yield).get_result()
    if os.environ.get("SOTTOVOCE_CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
