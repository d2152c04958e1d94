"""Drive an installed wheel beside PyMC 6 and ArviZ 1: on a lazy frame, a Delta table, a bucket, Spark Connect.

``python beside.py`` with the interpreter of an environment that has them all, ``moto_server`` on the path, in an empty
folder. Where Java is missing, Spark is not asked, and that is said.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import arviz
import deltalake
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pymc
from pyarrow.fs import S3FileSystem

import sottovoce as sv
from sottovoce.inference.custom import Observed, compare_models

FACTS = sv.Facts(smoker=sv.Flag(), ward=sv.Category(["A", "B"]))
CONNECT = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in {
    "plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "connect.grpc.binding.port": sys.argv[1],
    "connect.grpc.binding.address": "127.0.0.1", "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1",
    "ui.enabled": "false", "sql.shuffle.partitions": "1", "log.level": "OFF",
}.items():
    builder = builder.config(f"spark.{name}", value)
builder.getOrCreate()
print("up", flush=True)
sys.stdin.read()
"""


def ten_lines(name: str, source: object) -> None:
    """Ask as the README does."""
    budget = sv.ApproxDP(1.0, 1e-6)
    with sv.Curator(source, facts=FACTS, ledger=f"{name}.ledger", budget=budget, dataset=name) as curator:
        answer = curator.proportion("smoker", by="ward", spend=0.2)
        print(name, curator.n, [round(row["estimate"], 2) for row in answer.rows], type(answer.to_arviz()).__name__)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextlib.contextmanager
def bucket() -> Iterator[S3FileSystem]:
    """Start a store with a bucket ``stays``, which the environment says the place of."""
    port = free_port()
    server = subprocess.Popen(
        ["moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ALLOW_HTTP": "true"}
    store = S3FileSystem(endpoint_override=f"http://127.0.0.1:{port}", allow_bucket_creation=True)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                store.create_dir("stays")
                break
            time.sleep(0.2)
        yield store
    finally:
        server.terminate()
        server.wait(30)


def connected(frame: pl.DataFrame) -> None:
    """Ask of a frame that another process holds, over Spark Connect."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - where there is Java alone

    port = free_port()
    start = [sys.executable, "-c", CONNECT, str(port)]
    with subprocess.Popen(
        start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        if server.stdout.readline().strip() != "up":
            raise SystemExit("Spark did not start")
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        ten_lines("connect", session.createDataFrame(frame.to_arrow()))
        session.stop()
        server.stdin.close()


def models() -> None:
    """Compare two models of one release, which takes what ArviZ gives and what it is given."""
    import numpyro.distributions as dist  # noqa: PLC0415 - it starts JAX

    seen = Observed([70, 134], n=200, noise="laplace", scale=4.0)
    fits = {
        f"Beta({a}, {b})": sv.fit_model(lambda p: [p, 1 - p], seen, prior={"p": dist.Beta(a, b)}, chains=2)
        for a, b in ((20, 20), (300, 100))
    }
    print(compare_models(fits).to_string())


def main() -> None:
    """Make the tables, and ask them."""
    place = Path(sv.__file__)
    if "site-packages" not in place.parts:
        raise SystemExit(f"this is not the wheel: {place}")
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"smoker": rng.random(4000) < 0.3, "ward": rng.choice(["A", "B"], 4000)})
    print("python", sys.version.split()[0], "arviz", arviz.__version__, "pymc", pymc.__version__, place)
    ten_lines("lazy", frame.lazy())
    deltalake.write_deltalake("stays", frame.to_arrow())
    deltalake.DeltaTable("stays").delete("ward = 'B' and smoker")
    ten_lines("delta", "stays")
    with bucket() as store:
        pq.write_table(frame.to_arrow(), "stays/stays.parquet", filesystem=store)
        ten_lines("bucket", "s3://stays/stays.parquet")
        deltalake.write_deltalake("s3://stays/lake", frame.to_arrow())
        deltalake.DeltaTable("s3://stays/lake").delete("ward = 'B' and smoker")
        ten_lines("bucket-delta", "delta:s3://stays/lake")
    models()
    if shutil.which("java") is None:
        print("Java is not here: Spark Connect was not asked")
    else:
        connected(frame)


if __name__ == "__main__":
    main()
