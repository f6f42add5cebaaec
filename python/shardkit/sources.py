"""Rows for `shardkit.pack` from data of other libraries, each read by a package of its own."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from shardkit import _parquet, _tfrecord
from shardkit._made import Rows
from shardkit._options import refuse

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

# Examples of TFRecord whose features tell which are lists.
_FIRST_EXAMPLES = 256
# What litData calls the serializers whose values are files.
_LITDATA_FILES = ("jpeg", "image", "video", "audio", "nifti", "mesh", "pdf", "tifffile", "file")
# Rows of Hugging Face's datasets that are read at once.
_BATCH_ROWS = 64


def _each(paths: Paths) -> Iterator[str]:
    if isinstance(paths, (str, os.PathLike)):
        yield os.fspath(paths)
    else:
        yield from (os.fspath(path) for path in paths)


def parquet(paths: Paths, columns: Sequence[str] | None = None, *, batch_size: int = 256) -> Rows:
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
    return Rows(_parquet_rows(files, names, batch_size), columns=_parquet.columns(files, names))


def _parquet_rows(files: Sequence[str], names: Sequence[str] | None, batch_size: int) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path) as file:
            yield from _rows_of_batches(file.iter_batches(batch_size=batch_size, columns=names), path)


def _rows_of_batches(batches: Iterable[Any], place: str, paths: bool = False) -> Iterator[dict[str, Any]]:
    row = 0
    for batch in batches:
        yield from batch_rows(batch, place, row, paths)
        row += batch.num_rows


def batch_rows(batch: Any, place: str, first_row: int = 0, paths: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a record batch of Arrow; see `parquet`. `place` is where errors say that it comes from.

    With `paths`, files of which only the path is there are `_Stored`.
    """
    values = [_arrow(place, first_row, name, batch.column(i), paths) for i, name in enumerate(batch.schema.names)]
    for each in zip(*values, strict=True):
        yield dict(zip(batch.schema.names, each, strict=True))


def _arrow(path: str, row: int, name: str, array: Any, paths: bool = False) -> list[Any]:
    """Return the values of a column of a batch that begins at `row`."""
    import pyarrow as pa

    kind = array.type
    _parquet.type_of(path, name, kind)  # has a counterpart
    if pa.types.is_dictionary(kind):
        return _arrow(path, row, name, array.dictionary_decode(), paths)
    if _parquet.is_list(kind) and _parquet.is_number(kind.value_type):
        return [_numbers_of(path, row + i, name, value) for i, value in enumerate(array)]
    if _parquet.is_number(kind):
        dtype = array.slice(0, 0).to_numpy(zero_copy_only=False).dtype.type  # to_pandas_dtype needs pandas
        return [None if value is None else dtype(value) for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        stored = array.cast(pa.int64()).to_pylist()
        return [None if value is None else np.datetime64(value, kind.unit) for value in stored]
    if _parquet.is_tensor(kind):
        return _arrays_of(array)
    values: list[Any] = (array.storage if _parquet.is_json(kind) else array).to_pylist()
    if _parquet.is_json(kind):
        return [None if value is None else json.loads(value) for value in values]
    if _parquet.is_file(kind):
        return [_file_of(path, row + i, name, value, paths) for i, value in enumerate(values)]
    return values


def _numbers_of(path: str, row: int, name: str, value: Any) -> Any:
    """Return a list of numbers as an array."""
    if not value.is_valid:
        return None
    if value.values.null_count:
        raise ValueError(f"{path}: row {row}, column {name}: a number of the list is absent: leave the column out")
    return value.values.to_numpy(zero_copy_only=False)


def _arrays_of(array: Any) -> list[Any]:
    """Return the values of a column of arrays that have a shape."""
    storage, shape = array.storage, array.type.shape
    values: list[Any] = []
    for i in range(len(storage)):
        inner = storage.slice(i, 1)
        if inner.null_count:
            values.append(None)
            continue
        while _parquet.is_list(inner.type):
            inner = inner.flatten()
        values.append(inner.to_numpy(zero_copy_only=False).reshape([-1 if size is None else size for size in shape]))
    return values


class _Stored(NamedTuple):
    """A file whose bytes are at a path."""

    path: str


def _file_of(path: str, row: int, name: str, value: Any, paths: bool) -> Any:
    """Return the bytes of a file of Hugging Face, or where they are."""
    if value is None or (value["bytes"] is None and value["path"] is None):
        return None
    if value["bytes"] is None and paths:
        return _Stored(value["path"])
    if value["bytes"] is None:
        raise ValueError(
            f"{path}: row {row}, column {name}: only the path of the file, {value['path']!r}, is there: "
            "sk.pack(datasets.load_dataset(...), ...) reads it, too"
        )
    return value["bytes"]


def hugging_face(dataset: Any) -> Rows:
    """Return the rows of a dataset of Hugging Face's `datasets`, read in batches of Arrow; `pack` takes it itself, too.

    Its features give the columns their types, as in `parquet`; arrays that have a shape keep it. Files, such as images
    and audio, are stored as they are, and never decoded, whatever the format (`with_format`). What is only a path is
    read. A column of a `Dataset` is nullable if its table has an absent value, each of an `IterableDataset` is. The
    metadata ``hugging_face.features`` of the dataset keeps the features, as JSON.

    Parameters
    ----------
    dataset : datasets.Dataset or datasets.IterableDataset
        One split, perhaps with `select`, `filter`, `map` and others applied.

    Raises
    ------
    ValueError
        For a column of a type that has no counterpart, and for a transform (`set_transform`), which would be left out.
    """
    place = f"the dataset's split {dataset.split}" if dataset.split else "the dataset"
    features = dataset.features
    if not hasattr(dataset, "num_rows"):
        rows: Iterable[dict[str, Any]] = _streamed_rows(dataset)
        columns = _parquet.columns_of_table(place, features.arrow_schema, None, None) if features else None
    else:
        chosen = dataset.format
        if chosen["type"] == "custom":
            raise ValueError(
                "the dataset has a transform, which is called when rows are read: give dataset.with_format(None), or "
                "dataset.map(...) to pack what a function makes"
            )
        if not chosen["output_all_columns"] and chosen["columns"] != dataset.column_names:
            dataset = dataset.select_columns(chosen["columns"])
            features = dataset.features
        dataset = dataset.with_format("arrow")
        batches = (batch for table in dataset.iter(_BATCH_ROWS) for batch in table.combine_chunks().to_batches())
        rows = _rows_of_batches(batches, place, paths=True)
        columns = _parquet.columns_of_table(place, features.arrow_schema, dataset[:16], dataset.data)
    return Rows(
        rows,
        _read_files,
        "reading files",
        columns=columns,
        metadata={"hugging_face.features": json.dumps(features.to_dict())} if features else None,
        total=getattr(dataset, "num_rows", 0),
    )


def _streamed_rows(dataset: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of an IterableDataset. Not in batches of Arrow, to which it gives no types."""
    dataset = dataset.with_format(None)
    features = dataset.features or {}
    # Of lists and dicts, which have no type of their own, nothing is decoded.
    kinds = {name: feature() for name, feature in features.items() if callable(feature)}
    arrays = {name: kind.shape for name, kind in kinds.items() if _parquet.is_tensor(kind)}
    for name, kind in kinds.items():
        if _parquet.is_file(kind):
            dataset = dataset.cast_column(name, dataclasses.replace(features[name], decode=False))

    def held(name: str, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
            return _file_of("", 0, name, value, paths=True)
        if name in arrays and value is not None:
            sizes = [-1 if size is None else size for size in arrays[name]]
            return np.array(value, features[name].dtype).reshape(sizes)
        return value

    for row in dataset:
        yield {name: held(name, value) for name, value in row.items()}


def is_hugging_face(value: Any) -> bool:
    """Tell whether a value is a dataset of Hugging Face, or a dict of its splits, without importing its package."""
    kinds = {"Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict"}
    return any(each.__name__ in kinds and each.__module__.startswith("datasets.") for each in type(value).__mro__)


def _read_files(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _read(value.path) if isinstance(value, _Stored) else value for name, value in row.items()}


def _read(path: str) -> bytes:
    if "://" not in path:
        with open(path, "rb") as file:
            return file.read()
    from datasets.utils.file_utils import xopen

    with xopen(path, "rb") as remote:
        return bytes(remote.read())


def litdata(path: str | os.PathLike[str], **options: Any) -> Rows:
    """Return the samples of chunks that litData's `optimize` has written, read by litData. Needs litdata.

    A sample that is a dict is a row. The members of a tuple or list, and a single value, are columns ``"0"``, ``"1"``
    and so on. Files, such as images, are the bytes that are stored; tensors are arrays. Pixels, which litData has of
    images of PIL, become files by ``columns={"image": shardkit.Encode("jpeg")}`` of `pack`. Pickled values are refused,
    because unpickling runs code from the file.

    Parameters
    ----------
    path : path
        The folder of the chunks, or a URL that litData takes.
    **options
        Of ``litdata.StreamingDataset``, such as ``item_loader``, ``cache_dir`` or ``storage_options``.
    """
    refuse((name for name in ("shuffle", "seed", "drop_last") if name in options), "is for training: leave it out")
    import litdata
    from litdata.streaming.serializers import BytesSerializer

    class Pickled(BytesSerializer):  # type: ignore[misc]
        def deserialize(self, data: bytes) -> Any:
            raise ValueError(
                "a value is pickled, and unpickling runs code from the file: read it by litdata, and pack rows"
            )

    stored = {name: BytesSerializer() for name in _LITDATA_FILES}
    serializers = {**stored, "pickle": Pickled(), **options.pop("serializers", {})}
    samples = litdata.StreamingDataset(os.fspath(path), serializers=serializers, **options)

    def row(i: int) -> dict[str, Any]:
        sample = samples[i]
        if not isinstance(sample, dict):
            sample = dict(enumerate(sample if isinstance(sample, (list, tuple)) else [sample]))
        # Bytes are perhaps views of a chunk, which litData closes.
        return {str(name): bytes(value) if isinstance(value, memoryview) else value for name, value in sample.items()}

    return Rows(range(len(samples)), row, "reading litData's sample", workers=0)


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
