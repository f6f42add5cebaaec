"""Packing rows: dicts from Python, one for each sample."""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from shardkit import _numbers, _values, reports
from shardkit.images import Encode, as_column, encoded
from shardkit.masks import Masks
from shardkit.schema import Column, column, describe
from shardkit.sources import TypedRows
from shardkit.writer import Writer

Row = Mapping[str, Any]

# Rows that the columns are inferred from, and whose values tell this input from others.
FIRST_ROWS = 256
# What an empty list is.
_NOTHING = "[]"


def is_rows(inputs: Any) -> bool:
    """Tell whether the inputs of `pack` are rows instead of paths."""
    if isinstance(inputs, (str, bytes)) or hasattr(inputs, "__fspath__"):
        return False
    if isinstance(inputs, Sequence) and not hasattr(inputs, "keys"):
        return len(inputs) == 0 or isinstance(inputs[0], Mapping)
    return hasattr(inputs, "__iter__") or (hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__"))


def is_table(inputs: Any) -> bool:
    """Tell whether the inputs of `pack` are a table or a stream of Arrow; the rows of a dataset keep their types."""
    return hasattr(inputs, "__arrow_c_stream__") and not isinstance(inputs, Sequence)


def infer(name: str, values: Iterable[Any]) -> Column:
    """Return the column that holds the values; None is an absent one.

    Raises
    ------
    ValueError
        When the values have no type in common.
    """
    kinds: list[tuple[str, Any]] = []
    nullable = False
    for number, value in enumerate(values):
        if value is None:
            nullable = True
        else:
            try:
                kinds.append(_kind(value))
            except ValueError as error:
                raise ValueError(f"row {number}, column {name}: {error}") from None
    if not kinds:
        raise ValueError(f"column {name}: no row among the first has a value; give its type as columns={{...}}")
    names = {kind for kind, _ in kinds}
    shapes = {shape for _, shape in kinds if shape is not None}
    if names <= {"jpeg", "png", "bytes"} and len(names) > 1:
        names = {"bytes"} if "bytes" in names else {"image"}
    # A list of nothing is one of texts where others are.
    names -= {_NOTHING} if len(names) > 1 and names <= {_NOTHING, "utf8[]", "json"} else set()
    names = {"json" if name == _NOTHING else name for name in names}
    if names == {"utf8[]", "json"}:
        names = {"json"}
    if names == {"i64", "f64"}:
        names = {"f64"}
    if len(names) > 1:
        raise ValueError(f"column {name}: values of {' and '.join(sorted(names))}; give its type as columns={{...}}")
    kind = names.pop()
    if kind.endswith("[]") and len(shapes) == 1:
        kind = f"{kind[:-2]}[{', '.join(map(str, shapes.pop()))}]"
    return column(name, kind + ("?" if nullable else ""))


def _with_masks(columns: dict[str, Column], rows: Sequence[Row]) -> dict[str, Column]:
    """Return the columns; bools [masks, height, width] beside an image are masks, which take a fraction as runs."""
    if not any(each.type in ("jpeg", "png", "image") for each in columns.values()):
        return columns
    made = dict(columns)
    for name, each in columns.items():
        arrays = [
            np.asarray(_numbers.plain(row[name])) for row in rows if row.get(name) is not None and each.dtype == "bool"
        ]
        if arrays and all(array.ndim == 3 for array in arrays):
            made[name] = column(name, "rle?" if each.nullable else "rle")
    return made


def _kind(value: Any) -> tuple[str, Any]:
    """Return the type of a value, and the shape of an array."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        begin = bytes(value[:8])
        return ("jpeg" if begin[:3] == b"\xff\xd8\xff" else "png" if begin == b"\x89PNG\r\n\x1a\n" else "bytes"), None
    if isinstance(value, str):
        return "utf8", None
    if isinstance(value, Masks):
        return "rle", None
    if isinstance(value, bool):
        return "bool", None
    if isinstance(value, int):
        return "i64", None
    if isinstance(value, float):
        return "f64", None
    if isinstance(value, complex):
        return "complex128", None
    name = _numbers.name_of(getattr(value, "dtype", None))
    value = _numbers.plain(value)
    if isinstance(value, (np.ndarray, np.generic)) or _is_numeric_list(value):
        array = np.asarray(value)
        name = name or _numbers.name_of(array.dtype)
        if name is not None:
            return (name, None) if array.ndim == 0 else (f"{name}[]", array.shape)
    if isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
        return ("utf8[]" if value else _NOTHING), None
    if isinstance(value, (dict, list, tuple)):
        return "json", None
    hint = '; pixels become files by columns={name: shardkit.Encode("jpeg")}' if hasattr(value, "getbands") else ""
    raise ValueError(f"a value of {type(value).__name__} has no type in a dataset{hint}")


def _is_numeric_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(each, (int, float)) for each in value)


def _row(rows: Any, i: int) -> Row:
    try:
        return rows[i]  # type: ignore[no-any-return]
    except Exception as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"in row {i}")
        raise


def _fetched(rows: Any, threads: int) -> Iterator[Row]:
    """Yield the rows in order; those of a map-style dataset come from `threads` threads."""
    if hasattr(rows, "__getitem__") and hasattr(rows, "__len__"):
        if threads <= 1:
            yield from (_row(rows, i) for i in range(len(rows)))
            return
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[Row]] = deque()
            try:
                for i in range(len(rows)):
                    waiting.append(pool.submit(_row, rows, i))
                    if len(waiting) >= 4 * threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
        return
    yield from rows


def pack_rows(
    rows: Any,
    output: str,
    *,
    columns: Mapping[str, str | Column | Encode] | None = None,
    key: str = "key",
    skip_errors: bool = False,
    keep_on_cancel: bool = False,
    allow_empty: bool = False,
    progress: Any = None,
    **options: Any,
) -> reports.Packed:
    """Pack rows; see `pack`."""
    source = _fetched(rows, int(options.get("threads", 1)))
    first = list(itertools.islice(source, FIRST_ROWS))
    if not first and not allow_empty:
        raise ValueError("there are no rows; allow_empty=True packs a dataset without samples")
    for number, row in enumerate(first):
        if not isinstance(row, Mapping):
            raise ValueError(f"row {number}: a dict from column to value is wanted, not {type(row).__name__}")
    if columns is None and isinstance(rows, TypedRows):
        columns = {name: kind for name, kind in rows.columns.items() if name != key}
    elif columns is None:
        names = dict.fromkeys(name for row in first for name in row if name != key)
        inferred = {name: infer(name, (row.get(name) for row in first)) for name in names}
        columns = _with_masks(inferred, first)
    made = {name: as_column(name, kind) for name, kind in columns.items()}
    options.setdefault("job", _fingerprint(first, made, key, columns))
    total = operator.length_hint(rows)  # 0 of a DataLoader whose dataset has no length
    skipped: list[reports.Skipped] = []
    packed = 0
    writer = Writer(output, columns, key=key, **options)
    try:
        begin = writer.resume_position
        for number, row in enumerate(itertools.chain(first, source)):
            if number < begin:
                continue
            try:
                values = {name: value for name, value in row.items() if name in made}
                if unknown := row.keys() - made.keys() - {key}:
                    raise ValueError(f"there is no column {sorted(unknown)[0]!r}; give all as columns={{...}}")
                named = row.get(key)
                writer.append(f"{number:012d}" if named is None else str(named), values, number + 1)
                packed += 1
            except ValueError as error:
                if not skip_errors:
                    raise ValueError(f"row {number}: {error}") from None
                skipped.append(reports.Skipped(number, str(row.get(key, number)), str(error)))
                writer.skip(number, str(row.get(key, number)), str(error))
            if progress is not None and packed % 256 == 0:
                progress(packed, total)
        writer.close()
    except BaseException:
        if keep_on_cancel:
            writer.suspend()
        else:
            writer.abort()
        raise
    if progress is not None:
        progress(packed, total)
    result = writer.result
    assert result is not None
    existing = result.existing
    return reports.Packed(
        result.shards, result.samples, result.blocks, result.bytes, skipped, existing, packed - existing
    )


def _fingerprint(first: Sequence[Row], columns: Mapping[str, Column], key: str, given: Mapping[str, Any]) -> str:
    """Return what tells this input from another when a run is resumed: its columns and first rows."""
    digest = hashlib.sha256()
    for name, each in columns.items():
        digest.update(f"{name}\0{describe(each)}\0".encode())
    for row in first:
        for name in (key, *columns):
            try:
                value = row.get(name)
                if name != key:
                    value = _values.encode(columns[name], encoded(given[name], value))
            except ValueError:
                value = None
            digest.update(repr(value).encode())
    return f"rows {digest.hexdigest()}"
