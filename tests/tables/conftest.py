"""One messy table on every engine: nulls, NaN, infinities, ties, quotes, numbers of every size."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.records.facts import Facts
from sottovoce.records.readings import CategoryCounts
from sottovoce.records.tables import Table, open_table

ODD = [None, float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 1e-200, 0.1, 3.0, 10.0]
CATEGORIES = ["north", "south", "o'hara", "ünï", "north ", "North", "", None, 'say "hi"']


def messy_table(n: int = 1000) -> pa.Table:
    rng = np.random.default_rng(7)

    def doubles(scale: float) -> pa.Array:
        values: list[float | None] = list(rng.normal(scale=scale, size=n))
        values[: len(ODD) * 3] = ODD * 3
        return pa.array([values[i] for i in rng.permutation(n)], pa.float64())

    def nullable(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.array(values.tolist(), kind, mask=rng.random(n) < 0.05) if n else pa.array([], kind)

    wide = np.array([2**53 + 1, -(2**53) - 1, 2**62, -(2**62), 0, 7])
    return pa.table(
        {
            "x": doubles(5.0),
            "u": doubles(1.0),
            "v": doubles(0.3),
            "w": doubles(2.0),
            "k": nullable(rng.poisson(4, n), pa.int32()),
            "wide": nullable(rng.choice(wide, n), pa.int64()),
            "f": nullable(rng.normal(size=n).astype(np.float32), pa.float32()),
            "flag": nullable(rng.random(n) < 0.3, pa.bool_()),
            "c": pa.array(rng.choice(np.array(CATEGORIES, dtype=object), n).tolist(), pa.string()),
            "education-num": nullable(rng.integers(1, 17, n), pa.int64()),
        }
    )


@pytest.fixture(scope="session")
def messy() -> pa.Table:
    return messy_table()


@pytest.fixture(scope="session")
def messy_parquet(messy: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("messy") / "messy.parquet"
    pq.write_table(messy, path, row_group_size=250)
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask Spark last: it starts while the other engines answer."""
    items.sort(key=_of_spark)


def _of_spark(item: pytest.Item) -> bool:
    return "spark" in item.name.lower()


@pytest.fixture(scope="session", autouse=True)
def starting(request: pytest.FixtureRequest, messy: pa.Table) -> Iterator[Future[Any] | None]:
    """Spark, which takes as long to start as many tests to run, on its way from the first test of this room on."""
    wanted = any(map(_of_spark, request.session.items)) and importlib.util.find_spec("pyspark") is not None
    if not wanted or (shutil.which("java") is None and "JAVA_HOME" not in os.environ):
        yield None
        return
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.leafNodeDefaultParallelism": "2",  # several tasks, though the table is small
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.maxPlanStringLength": "100",  # nobody looks at plans, and some are long
        # Each query is run once over few rows: planned once and evaluated as it stands, it has answered before Java for
        # it would be written and compiled. What an expression means is the same.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # The tasks evaluate all of it, as of a table that is no short list.
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        # Capitals as Java has them: the other way goes through all of Unicode first. In no word of ours do they differ.
        "spark.sql.icu.caseMappings.enabled": "false",
        # Half the time of a short life: one quick compiler, for what runs often, classes that came with Spark are taken
        # as they are, and there is room for all of them and for most of what is made.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=3 -XX:+UseSerialGC "
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -Xms1g -Xmn700m -XX:MetaspaceSize=300m "
        "-XX:-UsePerfData",
    }
    builder = SparkSession.builder.master("local[1]").appName("sottovoce-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with ThreadPoolExecutor(1) as aside:
        session = aside.submit(_awake, builder, messy)
        yield session
        session.result().stop()


def _awake(builder: Any, messy: pa.Table) -> Any:
    """A session that has answered: Spark loads most of itself for its first question."""
    session = builder.getOrCreate()
    # Rows would leave a socket open, which the garbage collector closes in anyone's test.
    session.createDataFrame(messy).where("x > 0 or c = 'north'").count()
    return session


@pytest.fixture(scope="session")
def spark_session(starting: Future[Any] | None) -> Any:
    if starting is None:
        pytest.skip("Spark needs pyspark (pip install 'sottovoce[spark]') and Java (openjdk-17-jre-headless)")
    session = starting.result()
    gc.collect()
    gc.freeze()  # what other tests left in memory is not gone through again after each of Spark's
    return session


def copy_to_postgres(table: pa.Table, url: str, name: str) -> None:
    import psycopg

    kinds = {"double": "double precision", "float": "real", "int32": "integer", "int64": "bigint"}
    kinds |= {"bool": "boolean", "string": "text"}
    columns = ", ".join(f'"{f.name}" {kinds[str(f.type)]}' for f in table.schema)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))


@pytest.fixture(scope="session")
def messy_postgres(postgres_server: Any, messy: pa.Table) -> str:
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    copy_to_postgres(messy, url, "messy")
    return f"{url}?table=messy"


SPARK = pytest.param(
    "spark",
    marks=[
        # py4j leaves it to the garbage collector to close the sockets that results come through.
        pytest.mark.filterwarnings("ignore::ResourceWarning"),
        pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    ],
)


@pytest.fixture(scope="session")
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Table]]:
    """The messy table on an engine, opened once and only read from."""
    with contextlib.ExitStack() as tables:
        yield functools.cache(lambda engine: tables.enter_context(open_table(ENGINES[engine](request))))


@pytest.fixture(params=["duckdb", "postgres", SPARK])
def engine_table(request: pytest.FixtureRequest, opened: Callable[[str], Table]) -> Iterator[Table]:
    """The messy table on each engine."""
    yield opened(request.param)
    if request.param == "spark":
        gc.collect()  # while the marks above still hold


def on_engines(names: str, cases: Sequence[tuple[object, ...]], spark: Sequence[int]) -> pytest.MarkDecorator:
    """Every case on every engine; on Spark, which plans each query for long, those alone that tell it something new."""
    places = {"duckdb": range(len(cases)), "postgres": range(len(cases)), "spark": spark}
    return pytest.mark.parametrize(
        f"engine_table, {names}",
        [
            pytest.param(engine, *cases[place], marks=SPARK.marks if engine == "spark" else ())
            for engine, chosen in places.items()
            for place in chosen
        ],
        indirect=["engine_table"],
    )


def holding(table: Table, conditions: Iterable[str], facts: Facts | None = None) -> dict[str, float]:
    """Return of how many records each condition holds: in one query, for some engines plan each for long."""
    asked = list(conditions)
    # Every record once a condition, which is asked of those.
    places = ibis.range(1, len(asked) + 1).unnest().name("asked").as_table()
    where = " or ".join(f"asked = {place} and ({text})" for place, text in enumerate(asked, 1))
    each = Table("each", table._records.cross_join(places), table._connection, untyped=table.untyped).know(facts)
    seen = each.read(CategoryCounts(range(len(asked) + 1)), "asked", where=where)
    assert seen.n == table.count() * len(asked)
    return dict(zip(asked, seen.total[1:], strict=True))


def _spark(request: pytest.FixtureRequest) -> Any:
    """The table as it is: to open a file for every query takes longer than most queries. Other tests read files."""
    return request.getfixturevalue("spark_session").createDataFrame(request.getfixturevalue("messy"))


ENGINES: dict[str, Callable[[pytest.FixtureRequest], Any]] = {
    "duckdb": lambda request: request.getfixturevalue("messy_parquet"),
    "postgres": lambda request: request.getfixturevalue("messy_postgres"),
    "spark": _spark,
}
