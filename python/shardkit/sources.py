"""Rows for `shardkit.pack` from Parquet, Hugging Face datasets and TFRecord. Each needs that project's own package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def _each(paths: Paths) -> Iterator[str]:
    if isinstance(paths, (str, os.PathLike)):
        yield os.fspath(paths)
    else:
        yield from (os.fspath(path) for path in paths)


def parquet(paths: Paths, columns: Sequence[str] | None = None, *, batch_size: int = 256) -> Iterator[dict[str, Any]]:
    """Yield the rows of Parquet files, a few at a time in memory. Needs pyarrow.

    Parameters
    ----------
    paths : path or iterable of paths
        The files, in this order.
    columns : sequence of str
        Columns to read; all by default. Numbers are NumPy's scalars, lists of numbers its arrays.
    batch_size : int
        Rows in memory at once.

    Raises
    ------
    ValueError
        For a column of a type that has no counterpart, naming file, row and column.
    """
    import pyarrow.parquet as pq

    for path in _each(paths):
        row = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=batch_size, columns=None if columns is None else list(columns)):
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
    if pa.types.is_dictionary(kind):
        return _arrow(path, row, name, array.dictionary_decode())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        if _is_number(pa, kind.value_type):
            return [None if not value.is_valid else value.values.to_numpy(zero_copy_only=False) for value in array]
        return array.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_boolean(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if _is_number(pa, kind):
        dtype = array.slice(0, 0).to_numpy(zero_copy_only=False).dtype.type  # to_pandas_dtype needs pandas
        return [None if value is None else dtype(value) for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        stored = array.cast(pa.int64()).to_pylist()
        import numpy as np

        return [None if value is None else np.datetime64(value, kind.unit) for value in stored]
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if texts or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_struct(kind):
        values = array.to_pylist()
        if pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}:
            return [None if value is None else value["bytes"] for value in values]  # an image of Hugging Face
        return values  # type: ignore[no-any-return]
    raise ValueError(
        f"{path}: column {name} (from row {row}) is of type {kind}, which has no counterpart: leave it out"
    )


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


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
    """Yield the tf.Examples of TFRecord files. Needs the package tfrecord.

    Parameters
    ----------
    paths : path or iterable of paths
        The files, in this order.
    columns : sequence of str
        Features to take; all by default. A feature of one number or bytes is that value, of several numbers an array.
    """
    from tfrecord.reader import tfrecord_loader

    for path in _each(paths):
        for row in tfrecord_loader(path, None, dict.fromkeys(columns) if columns is not None else None):
            yield {name: _feature(value) for name, value in row.items()}


def _feature(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    return value[0] if len(value) == 1 else value
