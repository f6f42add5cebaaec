"""Rows for `shardkit.pack` from Parquet, Arrow, Hugging Face datasets and TFRecord, each by a package of its own."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardkit import _from_arrow, _parquet, _tfrecord
from shardkit._options import shown
from shardkit.schema import Column

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

# Examples of TFRecord whose features tell which are lists.
_FIRST_EXAMPLES = 256


class TypedRows(Iterator[dict[str, Any]]):
    """Rows whose columns are known before the first row is read.

    `shardkit.pack` takes these columns; ``columns={**rows.columns, "score": "f32?"}`` changes one.
    """

    def __init__(self, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
        self.columns = dict(columns)
        self._rows = rows

    def __next__(self) -> dict[str, Any]:
        return next(self._rows)


def _each(paths: Paths) -> Iterator[str]:
    if isinstance(paths, (str, os.PathLike)):
        yield os.fspath(paths)
    else:
        yield from (os.fspath(path) for path in paths)


def parquet(paths: Paths, columns: Sequence[str] | None = None, *, batch_size: int = 256) -> TypedRows:
    """Return the rows of Parquet files, read a few at a time. Needs pyarrow.

    The files' schemas give the columns their types. Lists of numbers are arrays, lists of texts ``"utf8[]"``, structs
    and other lists JSON. Binary columns are images if the first values are, and so are those that Hugging Face's
    ``Image`` made; the names of its ``ClassLabel`` are kept. A column is nullable if it has an absent value, of which
    the files' statistics tell.

    Parameters
    ----------
    paths : path or iterable of paths
        The files, in this order.
    columns : sequence of str
        Columns to read; all by default. Numbers are NumPy's scalars, lists of numbers its arrays.
    batch_size : int
        Rows in memory at once; of the file, a row group at most is in memory with them.

    Raises
    ------
    ValueError
        For a column of a type that has no counterpart, or of several types, naming file and column. The rows raise it
        for a value that has no counterpart, naming the row, too.
    """
    files = list(_each(paths))
    names = None if columns is None else list(columns)
    return TypedRows(_parquet.columns(files, names), _parquet_rows(files, names, batch_size))


def _parquet_rows(files: Sequence[str], names: Sequence[str] | None, batch_size: int) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path) as file:
            yield from _numbered(file.iter_batches(batch_size=batch_size, columns=names), path)


def arrow(source: Any, columns: Sequence[str] | None = None, *, batch_size: int = 256) -> TypedRows:
    """Return the rows of a table or a stream of Arrow. Needs pyarrow.

    `shardkit.pack` and `shardkit.add_columns` take such a source as it is. Columns get their types as in `parquet`;
    docs/recipes.md lists them. A column of a table of pyarrow is nullable if it has an absent value, that of anything
    else if its field is, as nearly all are: ``pyarrow.table(source)`` reads all of it before.

    Parameters
    ----------
    source : object with ``__arrow_c_stream__``
        A table, record batches or a reader of pyarrow, a frame of polars or pandas, a result of DuckDB. A stream is
        read once.
    columns : sequence of str
        Columns to take; all by default.
    batch_size : int
        Rows that are made objects of Python at once; a batch of the source, too, is in memory.

    Raises
    ------
    ValueError
        As for `parquet`.
    """
    place, batches, found = arrow_batches(source, columns, batch_size)
    return TypedRows(found, _numbered(batches, place))


def arrow_batches(
    source: Any, columns: Sequence[str] | None, batch_size: int
) -> tuple[str, Iterator[Any], dict[str, Column]]:
    """Return what errors call the source of `arrow`, its record batches, and the columns for them."""
    import pyarrow as pa

    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"source={shown(source)}: has no __arrow_c_stream__; give a table or a stream of Arrow")
    place = type(source).__name__
    whole = pa.table(source) if isinstance(source, (pa.Table, pa.RecordBatch)) else None
    reader = pa.RecordBatchReader.from_stream(source) if whole is None else whole.to_reader()
    schema = reader.schema
    names = list(schema.names if columns is None else columns)
    for name in names:
        if (count := schema.names.count(name)) != 1:
            found = f"there is no column {name!r}" if count == 0 else f"{count} columns are named {name!r}"
            raise ValueError(f"{place}: {found}: there are {', '.join(map(repr, schema.names))}")
    begin = list(itertools.islice(reader, 1))
    first = pa.Table.from_batches(begin, schema) if whole is None else whole
    batches = (
        batch.slice(row, batch_size)
        for batch in (each.select(names) for each in itertools.chain(begin, reader))
        for row in range(0, batch.num_rows, batch_size)
    )
    return place, batches, _from_arrow.columns(place, schema, names, first, whole)


def _numbered(batches: Iterable[Any], place: str, read_files: bool = False) -> Iterator[dict[str, Any]]:
    row = 0
    for batch in batches:
        yield from _from_arrow.rows(batch, place, row, read_files)
        row += batch.num_rows


def hugging_face(dataset: Any) -> TypedRows:
    """Return the rows of a dataset of Hugging Face's `datasets`, also a streamed one; images and audio stay encoded.

    The dataset's features give the columns their types, as in `parquet`. All columns of a streamed dataset are
    nullable.

    Parameters
    ----------
    dataset : datasets.Dataset or datasets.IterableDataset
        One split.
    """
    import pyarrow as pa

    for name, feature in (dataset.features or {}).items():
        if getattr(feature, "decode", False):  # an image, a sound, a video
            dataset = dataset.cast_column(name, dataclasses.replace(feature, decode=False))
    tables = dataset.with_format("arrow").iter(batch_size=256)
    begin = list(itertools.islice(tables, 1))
    if dataset.features is not None:
        schema = dataset.features.arrow_schema
    else:
        schema = begin[0].schema if begin else pa.schema([])
    nulls = dataset.data.table if hasattr(dataset, "data") else None
    found = _from_arrow.columns("dataset", schema, schema.names, pa.concat_tables(begin) if begin else None, nulls)
    batches = (batch for table in itertools.chain(begin, tables) for batch in table.to_batches(max_chunksize=256))
    return TypedRows(found, _numbered(batches, "dataset", read_files=True))


def tfrecord(paths: Paths, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the tf.Examples of TFRecord files, perhaps compressed with gzip. Needs crc32c.

    A feature that has one value in each of the first 256 examples is that value; of others all values are a list:
    numbers an array, bytes texts. Single bytes stay bytes: ``row["text"].decode()`` is a text.

    Parameters
    ----------
    paths : path or iterable of paths
        The files, in this order.
    columns : sequence of str
        Features to take; all by default.

    Raises
    ------
    DataLossError
        For a record that is damaged, naming file, record and byte.
    ValueError
        For a feature of several values that had one in the first examples, and for several bytes that are no texts.
    """
    rows = _examples(paths, columns)
    first = list(itertools.islice(rows, _FIRST_EXAMPLES))
    lists = {name for _, row in first for name, values in row.items() if values is not None and len(values) > 1}
    for place, row in itertools.chain(first, rows):
        yield {name: _feature(place, name, values, name in lists) for name, values in row.items()}


def _examples(paths: Paths, columns: Sequence[str] | None) -> Iterator[tuple[str, dict[str, _tfrecord.Values]]]:
    """Yield the place and the features of each example."""
    for path in _each(paths):
        for number, row in enumerate(_tfrecord.examples(path)):
            yield f"{path}: record {number}", row if columns is None else {name: row.get(name) for name in columns}


def _feature(place: str, name: str, values: _tfrecord.Values, is_list: bool) -> Any:
    if values is None:
        return None
    if not is_list:
        if len(values) > 1:
            raise ValueError(
                f"{place}: feature {name} has {len(values)} values, and one in the first {_FIRST_EXAMPLES} examples: "
                "leave it out by columns=[...]"
            )
        return values[0] if len(values) == 1 else None
    if isinstance(values, np.ndarray):
        return values
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError:
        raise ValueError(f"{place}: feature {name} has several values that are no texts: leave it out") from None
