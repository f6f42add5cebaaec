"""Spark in local mode, for tests/nightly: requirements-spark.txt says what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

pyspark = pytest.importorskip("pyspark")

from pyspark.sql import SparkSession  # noqa: E402

import shardkit.spark  # noqa: E402

COLUMNS = {
    "number": "u32",
    "text": "utf8?",
    "image": "jpeg",
    "vector": "f32[2, 3]",
    "ragged": "i64[]",
    "when": "timestamp_ms",
    "info": "json",
}


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local[3,4]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "key": f"row {i:05d}",
            "number": np.uint32(i),
            "text": f"text {i}" if i % 5 else None,
            "image": b"\xff\xd8\xff" + i.to_bytes(4, "little") + b"\0\0",
            "vector": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
            "ragged": np.arange(i % 4 + 1, dtype=np.int64),
            "when": np.datetime64(1_700_000_000_000 + i, "ms"),
            "info": {"i": i},
        }
        for i in range(count)
    ]


def test_there_and_back(tmp_path: Path, session: Any) -> None:
    sk.pack(rows(500), tmp_path / "in", columns=COLUMNS, max_block_samples=64)
    frame = shardkit.spark.read(session, tmp_path / "in", num_partitions=7)
    assert frame.rdd.getNumPartitions() == 7
    assert frame.count() == 500
    first = frame.first()
    assert (first.number, first.text, first.vector, first.info) == (0, None, [[0, 1, 2], [3, 4, 5]], '{"i": 0}')
    report = shardkit.spark.write(frame, tmp_path / "out", columns={**COLUMNS, "when": "timestamp_us"})
    assert report.samples == 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    before, after = sk.open(os.fspath(tmp_path / "in")), sk.open(os.fspath(tmp_path / "out"))
    for one, two in zip(before, after, strict=True):
        assert one.keys() == two.keys()
        for name, value in one.items():
            np.testing.assert_array_equal(value, two[name])


def test_rows_without_keys_and_empty_partitions(tmp_path: Path, session: Any) -> None:
    frame = session.range(0, 100, 1, 40).where("id % 10 < 5")
    shardkit.spark.write(frame.repartition(60), tmp_path / "out")
    found = sk.open(os.fspath(tmp_path / "out"))
    assert sorted(sample["id"] for sample in found) == [i for i in range(100) if i % 10 < 5]
    assert sk.validate(tmp_path / "out").repeated_keys == 0
    with pytest.raises(ValueError, match="no rows"):
        shardkit.spark.write(session.range(0), tmp_path / "none")


def test_tasks_that_fail_run_again_and_leave_nothing(tmp_path: Path, session: Any) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()

    def fail_once(batches: Any) -> Any:
        from pyspark import TaskContext

        for batch in batches:
            for number in batch.column(0).to_pylist():
                mark = marks / str(number)
                if number % 7 == 0 and not mark.exists():
                    mark.touch()
                    os._exit(1)  # as a process that was killed
            assert TaskContext.get() is not None
            yield batch

    frame = session.range(0, 40, 1, 8).mapInArrow(fail_once, "id long")
    assert shardkit.spark.write(frame, tmp_path / "out").samples == 40
    assert len(list(marks.iterdir())) == 6
    assert sk.validate(tmp_path / "out")

    def fail(batches: Any) -> Any:
        yield from batches
        raise RuntimeError("no more")

    with pytest.raises(Exception, match="no more"):
        shardkit.spark.write(session.range(0, 40, 1, 8).mapInArrow(fail, "id long"), tmp_path / "bad")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["marks", "out"]
