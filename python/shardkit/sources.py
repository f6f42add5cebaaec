"""Rows for `shardkit.pack` from Parquet, Hugging Face datasets and TFRecord, each read by a package of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardkit import _parquet, _tfrecord
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
        row = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=batch_size, columns=names):
                yield from batch_rows(batch, path, row)
                row += batch.num_rows


def batch_rows(batch: Any, place: str, first_row: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the rows of a record batch of Arrow; see `parquet`. `place` is where errors say that it comes from."""
    values = [_arrow(place, first_row, name, batch.column(i)) for i, name in enumerate(batch.schema.names)]
    for each in zip(*values, strict=True):
        yield dict(zip(batch.schema.names, each, strict=True))


def _arrow(path: str, row: int, name: str, array: Any) -> list[Any]:
    """Return the values of a column of a batch that begins at `row`."""
    import pyarrow as pa

    kind = array.type
    _parquet.type_of(path, name, kind)  # has a counterpart
    if pa.types.is_dictionary(kind):
        return _arrow(path, row, name, array.dictionary_decode())
    if _parquet.is_list(kind) and _parquet.is_number(kind.value_type):
        return [_numbers_of(path, row + i, name, value) for i, value in enumerate(array)]
    if _parquet.is_number(kind):
        dtype = array.slice(0, 0).to_numpy(zero_copy_only=False).dtype.type  # to_pandas_dtype needs pandas
        return [None if value is None else dtype(value) for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        stored = array.cast(pa.int64()).to_pylist()
        return [None if value is None else np.datetime64(value, kind.unit) for value in stored]
    values: list[Any] = array.to_pylist()
    if _parquet.is_file(kind):
        return [_file_of(path, row + i, name, value) for i, value in enumerate(values)]
    return values


def _numbers_of(path: str, row: int, name: str, value: Any) -> Any:
    """Return a list of numbers as an array."""
    if not value.is_valid:
        return None
    if value.values.null_count:
        raise ValueError(f"{path}: row {row}, column {name}: a number of the list is absent: leave the column out")
    return value.values.to_numpy(zero_copy_only=False)


def _file_of(path: str, row: int, name: str, value: Any) -> Any:
    """Return the bytes of a file of Hugging Face."""
    if value is None or (value["bytes"] is None and value["path"] is None):
        return None
    if value["bytes"] is None:
        raise ValueError(
            f"{path}: row {row}, column {name}: only the path of the file, {value['path']!r}, is there: "
            "shardkit.sources.hugging_face reads it, too"
        )
    return value["bytes"]


def hugging_face(dataset: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a dataset of Hugging Face's `datasets`, also a streamed one; images and audio stay encoded.

    Parameters
    ----------
    dataset : datasets.Dataset or datasets.IterableDataset
        One split.
    """
    import datasets

    for name, feature in (dataset.features or {}).items():
        if isinstance(feature, (datasets.Image, datasets.Audio)):
            dataset = dataset.cast_column(name, type(feature)(decode=False))
    for number, row in enumerate(dataset):
        made = {}
        for name, value in row.items():
            if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
                if value["bytes"] is None and value["path"] is None:
                    raise ValueError(f"row {number}: column {name} has neither bytes nor a path")
                value = value["bytes"] if value["bytes"] is not None else _file(value["path"])
            made[name] = value
        yield made


def _file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


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
