"""Rows for `shardkit.pack` from data of other libraries, each read by a package of its own."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from shardkit import _from_arrow, _parquet, _tfrecord
from shardkit._made import Rows
from shardkit._options import refuse, shown
from shardkit.schema import Column

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
            yield from _numbered(file.iter_batches(batch_size=batch_size, columns=names), path)


def arrow(source: Any, columns: Sequence[str] | None = None, *, batch_size: int = 256) -> Rows:
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
    return Rows(_numbered(batches, place), columns=found, total=getattr(source, "num_rows", 0))


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
    begin = []
    for each in reader:
        begin.append(each)
        if each.num_rows:
            break
    first = pa.Table.from_batches(begin, schema) if whole is None else whole
    batches = (
        batch.slice(row, batch_size)
        for batch in (given.select(names) for given in itertools.chain(begin, reader))
        for row in range(0, batch.num_rows, batch_size)
    )
    return place, batches, _from_arrow.columns(place, schema, names, first, whole)


def _numbered(batches: Iterable[Any], place: str, paths: bool = False) -> Iterator[dict[str, Any]]:
    row = 0
    for batch in batches:
        yield from _from_arrow.rows(batch, place, row, paths)
        row += batch.num_rows


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
    total = getattr(dataset, "num_rows", None)  # of a stream, None
    if total is not None:
        chosen = dataset.format
        if chosen["type"] == "custom":
            raise ValueError(
                "the dataset has a transform, which is called when rows are read: give dataset.with_format(None), or "
                "dataset.map(...) to pack what a function makes"
            )
        if not chosen["output_all_columns"] and chosen["columns"] != dataset.column_names:
            dataset = dataset.select_columns(chosen["columns"])
    features = dataset.features
    schema = features.arrow_schema if features else None
    # Streams of functions and generators have no tables. Where datasets names this otherwise, all are read row by row.
    if total is not None or (features and getattr(getattr(dataset, "_ex_iterable", None), "iter_arrow", None)):
        dataset = dataset.with_format("arrow")
        if total is None:  # first each table becomes one of all columns, as those of streams put together differ
            dataset = dataset.map(batched=True, batch_size=_BATCH_ROWS, features=features)
        batches = (batch for table in dataset.iter(_BATCH_ROWS) for batch in table.combine_chunks().to_batches())
        rows: Iterable[dict[str, Any]] = _numbered(batches, place, paths=True)
    else:
        rows = _streamed_rows(dataset)
    looked_at = (None, None) if total is None else (dataset[:16], dataset.data)
    has_files = schema is not None and any(_from_arrow.is_file(kind) for kind in schema.types)
    return Rows(
        rows,
        _read_files if has_files else None,
        "reading files" if has_files else None,
        columns=None if schema is None else _from_arrow.columns(place, schema, schema.names, *looked_at),
        metadata={"hugging_face.features": json.dumps(features.to_dict())} if features else None,
        total=total or 0,
    )


def _streamed_rows(dataset: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of an IterableDataset that has no tables of Arrow."""
    dataset = dataset.with_format(None)
    features = dataset.features or {}
    # Of lists and dicts, which have no type of their own, nothing is decoded.
    kinds = {name: feature() for name, feature in features.items() if callable(feature)}
    arrays = {name: kind.shape for name, kind in kinds.items() if _from_arrow.is_tensor(kind)}
    for name, kind in kinds.items():
        if _from_arrow.is_file(kind):
            dataset = dataset.cast_column(name, dataclasses.replace(features[name], decode=False))
    # Dates, decimals and others become what they are in Arrow.
    schema = dataset.features.arrow_schema if features else ()
    cast = {one.name: one.type for one in schema if not _from_arrow.is_plain(one.type)}

    def held(number: int, name: str, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
            return _from_arrow.file_of("", 0, name, value, paths=True)
        if name in arrays and value is not None:
            sizes = [-1 if size is None else size for size in arrays[name]]
            return np.array(value, features[name].dtype).reshape(sizes)
        if name in cast and value is not None:
            import pyarrow as pa

            return _from_arrow.values("the dataset", number, name, pa.array([value], cast[name]))[0]
        return value

    special = {*arrays, *cast}
    for number, row in enumerate(dataset):
        if not special and dict not in map(type, row.values()):
            yield row
            continue
        made = {
            name: held(number, name, value) if name in special or type(value) is dict else value
            for name, value in row.items()
        }
        yield made if features else _read_files(made)  # without features nobody knows that there are files


def is_hugging_face(value: Any) -> bool:
    """Tell whether a value is a dataset of Hugging Face, or a dict of its splits, without importing its package."""
    kinds = {"Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict"}
    return any(each.__name__ in kinds and each.__module__.startswith("datasets.") for each in type(value).__mro__)


def _read_files(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _read(value.path) if isinstance(value, _from_arrow.Stored) else value for name, value in row.items()}


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
