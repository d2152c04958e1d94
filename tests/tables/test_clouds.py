"""Files in an object store, as a local server of S3 has them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

import sottovoce as sv
from sottovoce.privacy.errors import InvalidData, InvalidValue, SourceUnavailable
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import open_table
from support.ports import free_port

ROWS = pa.table({"age": [31.0, 62.0, None, 1e308], "ward": ["N", "S", "N", None], "smoker": [True, False, None, True]})
FACTS = sv.Facts(age=sv.Number(0, 100), ward=sv.Category(["N", "S"]), smoker=sv.Flag())


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """A bucket ``stays``, whose address and credentials the environment says."""
    if (server := shutil.which("moto_server")) is None:
        pytest.skip("no moto_server is here; in an environment of its own: pip install 'moto[s3,server]'")
    port = free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([server, "-H", "127.0.0.1", "-p", str(port)], **quiet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        system = S3FileSystem(endpoint_override=f"http://127.0.0.1:{port}", allow_bucket_creation=True)
        for _ in range(100):
            with contextlib.suppress(OSError):
                system.create_dir("stays")
                break
            time.sleep(0.2)
        try:
            write(system, "stays/probe", b"an upload in parts")
        except OSError:
            pytest.skip("the moto_server that is here completes no upload; one from 5.2.5 on does")
        else:
            yield system
        finally:
            process.terminate()
            process.wait(30)


def put(store: Any, path: str, rows: pa.Table) -> None:
    pq.write_table(rows, path, filesystem=store)


def write(store: Any, path: str, text: bytes) -> None:
    with store.open_output_stream(path) as file:
        file.write(text)


def test_parquet_is_read_as_on_disk(store: Any, tmp_path: Path) -> None:
    put(store, "stays/one.parquet", ROWS)
    pq.write_table(ROWS, tmp_path / "one.parquet")
    with open_table("s3://stays/one.parquet") as far, open_table(tmp_path / "one.parquet") as near:
        assert far.schema == near.schema
        for asked in ((ClippedSum(0, 100), "age"), (CategoryCounts(("S", "N")), "ward")):
            assert far.read(*asked) == near.read(*asked)
        assert far.count() == 4
        assert far.origin is not None
        assert (far.origin.identity, far.origin.fingerprint()) == ("s3://stays/one.parquet", {})


def test_folders_patterns_and_partitions(store: Any) -> None:
    for ward in ("N", "S"):
        put(store, f"stays/by/ward={ward}/part-0.parquet", ROWS.select(["age"]))
        put(store, f"stays/by/ward={ward}/_temporary/part-1.parquet", ROWS.select(["age"]))
    for place in ("s3://stays/by/", "s3://stays/by/*/part-*.parquet"):
        with open_table(place) as table:
            assert table.schema == {"age": "float64", "ward": "string"}
            assert table.read(CategoryCounts(("S", "N")), "ward").total.tolist() == [4.0, 4.0]


def test_csv_is_read_line_by_line(store: Any) -> None:
    write(store, "stays/one.csv", b'age,ward\n31,N\n"62",S\n,\nodd,"N"\n')
    with open_table("s3://stays/one.csv", types={"age": "int64"}) as table:
        assert (table.count(), table.read(ClippedSum(0, 100), "age").total.tolist()) == (4, [93.0])


def test_a_question_is_answered_and_stamped_by_the_address(store: Any, tmp_path: Path) -> None:
    put(store, "stays/asked.parquet", pa.concat_tables([ROWS] * 50))
    ledger = tmp_path / "stays.ledger"
    with sv.Curator("s3://stays/asked.parquet", ledger=ledger, facts=FACTS, budget=sv.ApproxDP(1.0, 1e-6)) as curator:
        assert "smoker" in curator.proportion("smoker", by="ward", spend=0.5).summary()
        before = curator.left()
        store.delete_file("stays/asked.parquet")
        with pytest.raises(SourceUnavailable, match="nothing was spent"):
            curator.mean("age", spend=0.1)
        assert curator.left() == before
    assert b"s3://stays/asked.parquet" in ledger.read_bytes()
    assert b"testing" not in ledger.read_bytes()


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("s3://me:secret@stays/one.parquet", InvalidValue, "environment"),
        ("s3://stays/one.parquet?versionId=3", InvalidValue, "question mark"),
        ("s3://stays/nothing/", InvalidData, "no"),
        ("s3://stays/lake/", InvalidData, "delta"),
        ("s3://nowhere/one.parquet", InvalidData, "no"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(store: Any, address: str, error: type, said: str) -> None:
    write(store, "stays/lake/_delta_log/0.json", b"{}")
    with pytest.raises(error, match=said) as refused:
        open_table(address)
    assert "secret" not in str(refused.value)


def test_a_file_by_its_address(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "o n.parquet")
    with open_table((tmp_path / "o n.parquet").as_uri()) as table:
        assert table.count() == 4


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3a://stays/one.parquet", "write s3://"),
        ("S3://stays/one.parquet", "write s3://"),
        ("gcs://stays/one.parquet", "write gs://"),
        ("http://me:secret@stays/one.parquet", "write https://"),
        ("s3://", "names no place"),
    ],
)
def test_a_scheme_that_is_nearly_ours_is_refused_with_ours(address: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said) as refused:
        open_table(address)
    assert "secret" not in str(refused.value)
