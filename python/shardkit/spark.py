"""Datasets as DataFrames of Spark, and DataFrames as datasets, partition by partition.

All executors have to see the dataset by the same path: on a shared file system, or a URL.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from shardkit import _from_arrow, _tables, reports
from shardkit._options import OpenOptions, Unpack
from shardkit.dataset import open as open_dataset

Path = str | os.PathLike[str]


def write(frame: DataFrame, output: Path, *, key: str = "key", **options: Any) -> reports.Published:
    """Write a DataFrame as a new dataset: its partitions in their order, each in shards of its own.

    Each task writes beside the output, and in the end this process links the shards of all into one dataset. It gets
    nothing but their names. A task that Spark runs again, or twice at once, writes its part again; one is taken.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows. Binary columns are images or bytes, arrays of numbers arrays, structs and other arrays JSON.
    output : path
        The directory of the dataset, or its URL; must not hold one.
    key : str
        The column of the keys; rows without it get a key that no other row has.
    **options
        As for `shardkit.pack` of rows: give ``columns`` unless the first rows of every partition show them.

    Raises
    ------
    ValueError
        When there are no rows.
    """
    parts = _tables.Parts(output, key, options)

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        rows = (row for batch in batches for row in _from_arrow.rows(batch, f"partition {number}"))
        yield pa.RecordBatch.from_pydict({"name": pa.array([parts.write(number, rows)], pa.string())})

    try:
        return parts.join([row.name for row in frame.mapInArrow(task, "name string").collect()])
    except BaseException:
        parts.remove()
        raise


def read(
    session: SparkSession,
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    num_partitions: int | None = None,
    **options: Unpack[OpenOptions],
) -> DataFrame:
    """Return the samples of a dataset as a DataFrame.

    Images and other bytes are binary, JSON is text, arrays are nested arrays, complex numbers arrays of two, masks
    arrays of COCO's structs. Unsigned numbers are the next larger signed type.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session.
    path, columns, **options
        As for `shardkit.open`.
    num_partitions : int
        Runs of samples, one after another in the order of the dataset. By default one for each 64 MiB stored.

    Raises
    ------
    ValueError
        For arrays of several numbers of dimensions in a column that has no shape; leave it out by `columns`.
    """
    dataset = open_dataset(path, columns, **options)
    schema = pa.schema([(field.name, _known(field.type)) for field in dataset._arrow_schema()])
    runs = _tables.ranges(len(dataset), num_partitions or max(1, _stored(dataset) >> 26))

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for table in _tables.tables(dataset, *runs[number]):
                    yield from table.cast(schema).to_batches()

    numbers = session.range(0, len(runs), 1, max(len(runs), 1))
    return numbers.mapInArrow(task, from_arrow_schema(schema))


def _stored(dataset: Any) -> int:
    """Return about how many bytes the columns have, by the first samples."""
    first = next(_tables.tables(dataset, 0, min(len(dataset), 256)), None)
    return 0 if first is None else first.nbytes * len(dataset) // max(len(first), 1)


def _known(kind: Any) -> Any:
    """Return the type of Arrow that Spark knows and that holds the same values."""
    larger = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.float16(): pa.float32()}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_known(kind.value_type))
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if kind == pa.uint64():
        return pa.decimal128(20, 0)
    return larger.get(kind, kind)
