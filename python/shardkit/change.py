"""Changing the columns of complete datasets."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardkit import _core, _from_arrow, _numbers, _parquet, _values, reports, sources
from shardkit._options import checked, path_text, shown
from shardkit._progress import Progress, shown_progress
from shardkit._rows import FIRST_ROWS, infer, is_table
from shardkit.images import as_column
from shardkit.schema import Column, column

# Rows that go to the library at once.
_BATCH = 8192

# Values of some rows: an array with a row for each, or a list with None for absent values.
_Values = Any
_Batch = Mapping[str, _Values]


@checked
def add_columns(
    dataset: str | os.PathLike[str],
    source: Any,
    *,
    key: str | None = None,
    columns: str | Sequence[str] | Mapping[str, str | Column] | None = None,
    types: Mapping[str, str] | None = None,
    threads: int = 1,
    progress: Progress = None,
) -> reports.AddedColumns:
    """Add columns to a dataset, without touching its shards.

    The values lie in shards of their own. The change is one step, the dataset's next generation: a reader that has it
    open goes on with what was opened, and after an error or Ctrl-C it is as it was.

    Parameters
    ----------
    dataset : path
        The dataset, or its URL.
    source : path, mapping, table or rows
        The values: a file (NDJSON, NPY) or a dataset of any container, by its path or URL; a Parquet file on a disk,
        where pyarrow is installed; a mapping from column to NumPy array or list; a table or a stream of Arrow, as
        `sources.arrow` takes it; or dicts from column to value, of which only a few are in memory.
    key : str
        The column of the source with the keys. Samples whose key it lacks have no value then. Without a key, row i is
        of sample i, and there have to be as many as samples.
    columns : str, sequence of str, or mapping
        Names of the columns to take; all by default. Of values from Python also a mapping from name to type, as for
        `Writer`; the types are otherwise those of arrays and tables, and of rows inferred from the first 256.
    types : mapping of str to str
        Types of columns of NDJSON by name; integers are otherwise ``"i64"``, numbers with a fraction ``"f64"``, arrays
        and objects ``"json"``.
    threads : int
        Threads that compress.
    progress : bool or callable
        As for `pack`.

    Raises
    ------
    ValueError
        When two rows have one key, when rows without keys are more or fewer than the samples, for values that do not
        fit, and for the dataset's key column.
    """
    columns = [columns] if isinstance(columns, str) else columns
    with shown_progress(progress, "columns", "samples") as show:
        if isinstance(source, (str, os.PathLike)):
            path = path_text(source)
            if not path.endswith(".parquet"):
                if isinstance(columns, Mapping):
                    raise ValueError("columns of a file are names; types={...} are for NDJSON")
                return _core.add_columns_file(
                    path_text(dataset), path, key or "", list(columns or []), types or {}, threads, show
                )
        elif not (hasattr(source, "__iter__") or is_table(source)) or isinstance(source, bytes):
            raise TypeError(f"source={shown(source)}: give a file, arrays by column, or rows")
        if types is not None:
            raise ValueError("types are for files of NDJSON; give columns={...} for values from Python")
        taken = None if columns is None else [*columns, *([key] if key is not None and key not in columns else [])]
        batches, count, known = _batches(source, taken)
        first = next(batches, None)
        if first is None:
            raise ValueError("there are no rows")
        made = _columns(first, key, columns, known)
        rest = itertools.chain([first], batches)
        return _core.add_columns_rows(path_text(dataset), made, _encoder(made, rest), count, threads, show)


@checked
def drop_columns(dataset: str | os.PathLike[str], columns: str | Sequence[str]) -> int:
    """Leave columns out of a dataset; their values stay where they are, for earlier generations.

    Returns
    -------
    int
        The generation that the dataset has now.
    """
    return _core.drop_columns(path_text(dataset), [columns] if isinstance(columns, str) else list(columns))


@checked
def rename_columns(dataset: str | os.PathLike[str], names: Mapping[str, str]) -> int:
    """Give columns other names, from old to new; all at once, so that two can exchange theirs.

    Returns
    -------
    int
        The generation that the dataset has now.
    """
    return _core.rename_columns(path_text(dataset), list(names.items()))


@checked
def set_columns(
    dataset: str | os.PathLike[str], column: str, metadata: Mapping[str, str | Sequence[str] | None]
) -> int:
    """Say what the values of a column mean.

    Parameters
    ----------
    dataset : path
        The dataset.
    column : str
        Name of the column.
    metadata : mapping
        ``class_names`` (a list: value i means the i-th), ``unit``, ``description``, or any other name; None removes it.

    Returns
    -------
    int
        The generation that the dataset has now.
    """
    changes = {}
    for name, value in metadata.items():
        if not (value is None or isinstance(value, (str, Sequence))):
            raise TypeError(f"metadata {name}: a text or a list of texts is wanted, not {type(value).__name__}")
        text = value or ""
        changes[name] = text if isinstance(text, str) else json.dumps(list(text), ensure_ascii=False)
    return _core.set_columns(path_text(dataset), column, changes)


def _batches(
    source: Any, taken: Sequence[str] | None
) -> tuple[Iterator[_Batch], int | None, Mapping[str, Column] | None]:
    """Return the source in pieces; how many rows it has, and its columns, if that is known; of Arrow those `taken`."""
    if isinstance(source, (str, os.PathLike)):
        import pyarrow.parquet as pq

        path = path_text(source)
        with pq.ParquetFile(path) as file:
            _check_names(file.schema_arrow.names, taken)
            rows = file.metadata.num_rows
        return _parquet_batches(path, taken), rows, _parquet.columns([path], taken)
    if isinstance(source, Mapping):
        lengths = {len(values) for values in source.values()}
        if len(lengths) != 1:
            raise ValueError(f"columns of {len(lengths)} different lengths" if lengths else "there are no columns")
        return _sliced(source, lengths.pop()), len(next(iter(source.values()))), None
    if is_table(source):
        place, batches, columns = sources.arrow_batches(source, taken, _BATCH)
        return _arrow(batches, place), getattr(source, "num_rows", None), columns
    return _collected(source), len(source) if hasattr(source, "__len__") else None, None


def _sliced(values: Mapping[str, Any], count: int) -> Iterator[_Batch]:
    for begin in range(0, count, _BATCH):
        yield {name: each[begin : begin + _BATCH] for name, each in values.items()}


def _check_names(names: Sequence[str], taken: Sequence[str] | None) -> None:
    for name in taken or ():
        if name not in names:
            raise ValueError(f"there is no column {name!r}: there are {', '.join(map(repr, names))}")


def _parquet_batches(path: str, taken: Sequence[str] | None) -> Iterator[_Batch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        yield from _arrow(file.iter_batches(batch_size=_BATCH, columns=taken), path)


def _arrow(batches: Iterable[Any], place: str) -> Iterator[_Batch]:
    row = 0
    for batch in batches:
        names = batch.schema.names
        yield {name: _from_arrow.values(place, row, name, batch.column(i)) for i, name in enumerate(names)}
        row += batch.num_rows


def _collected(rows: Iterable[Any]) -> Iterator[_Batch]:
    """Yield rows as columns; the first batch has those that the columns are inferred from."""
    given = iter(rows)
    size = FIRST_ROWS
    names: dict[str, None] | None = None
    number = 0
    while some := list(itertools.islice(given, size)):
        for row in some:
            if not isinstance(row, Mapping):
                raise ValueError(f"row {number}: a dict from column to value is wanted, not {type(row).__name__}")
            if names is not None and (unknown := row.keys() - names.keys()):
                raise ValueError(
                    f"row {number}: column {sorted(unknown)[0]!r} is not one of the first {FIRST_ROWS} rows"
                )
            number += 1
        if names is None:
            names = dict.fromkeys(name for row in some for name in row)
        yield {name: [row.get(name) for row in some] for name in names}
        size = _BATCH


def _columns(
    first: _Batch,
    key: str | None,
    wanted: Sequence[str] | Mapping[str, str | Column] | None,
    known: Mapping[str, Column] | None,
) -> list[Column]:
    """Return the columns that hold the values, the key with them."""
    names = [name for name in (first if wanted is None else wanted) if name != key]
    _check_names(list(first), [*names, *([] if key is None else [key])])
    made = []
    for name in names:
        if isinstance(wanted, Mapping):
            kind = wanted[name]
            made.append(as_column(name, kind))
        elif known is not None:
            made.append(known[name])
        else:
            made.append(_inferred(name, first[name]))
    if key is not None:
        made.append(Column(key, "utf8", is_key=True, codec="zstd"))
    return made


def _inferred(name: str, values: _Values) -> Column:
    """Return the column for the first values. Others may be absent, unless they are those of an array."""
    kind = _numbers.name_of(values.dtype) if isinstance(values, np.ndarray) else None
    if kind is not None:
        shape = f"[{', '.join(map(str, values.shape[1:]))}]" if values.ndim > 1 else ""
        return column(name, kind + shape)
    found = infer(name, values)
    return Column(
        name,
        found.type,
        nullable=True,
        dtype=found.dtype,
        shape=found.shape,
        codec=found.codec,
        metadata=found.metadata,
    )


def _encoder(
    columns: Sequence[Column], batches: Iterator[_Batch]
) -> Callable[[], tuple[int, list[bytes | list[bytes | None]]] | None]:
    """Return what gives the library one batch after another."""
    row = 0

    def following() -> tuple[int, list[bytes | list[bytes | None]]] | None:
        nonlocal row
        batch = next(batches, None)
        if batch is None:
            return None
        encoded = [_encoded(each, batch[each.name], row) for each in columns]
        count = len(next(iter(batch.values())))
        row += count
        return count, encoded

    return following


def _encoded(each: Column, values: _Values, row: int) -> bytes | list[bytes | None]:
    if isinstance(values, np.ndarray) and not _numbers.lacks_values(values) and not each.is_key:
        name = _numbers.name_of(values.dtype)
        scalar = each.type == name and values.ndim == 1
        array = each.type == "ndarray" and each.dtype == name and each.shape is not None
        if scalar or (array and values.shape[1:] == tuple(each.shape or ())):
            return values.tobytes()
    encoded = []
    for number, value in enumerate(values, row):
        try:
            if each.is_key:
                if not (value is None or isinstance(value, (str, int, np.integer))) or isinstance(value, bool):
                    raise TypeError(f"keys are texts or integers, not {type(value).__name__}")
                encoded.append(None if value is None else str(value).encode())
            else:
                encoded.append(_values.encode(each, value))
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"row {number}, column {each.name}: {error}") from None
    return encoded
