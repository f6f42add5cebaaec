"""Packing rows: dicts from Python, one for each sample."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from shardkit import _numbers, _values, reports
from shardkit._made import Made, Rows
from shardkit._options import WorkerKind, checked
from shardkit._workers import worker_count
from shardkit.functions import FunctionError
from shardkit.images import Encode, as_column, encoded
from shardkit.masks import Masks
from shardkit.schema import Column, column, describe
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


@checked
def rows(
    function: Callable[..., Any],
    inputs: Iterable[Any],
    *,
    workers: Annotated[int | str, 'a number, or "auto"'] = "auto",
    worker_kind: WorkerKind = "thread",
) -> Rows:
    """Return the rows that a function makes of inputs, for `pack`: in the order of the inputs, by many workers.

    Parameters
    ----------
    function : callable
        Called with each input. It returns a dict from column to value, or None for no row; or it is a generator, and
        yields any number of dicts. What it has yielded is taken while it goes on, so that memory holds some of it.
    inputs : iterable
        What the function is called with, such as paths. It is iterated as far as workers need.
    workers : int or "auto"
        Threads or processes that call the function; "auto": one for each processor. 0: the thread that packs.
    worker_kind : str
        ``"thread"``, for functions that read, or that release the lock of Python; ``"process"`` for others. Processes
        need a function that a module defines, and inputs and rows that can be pickled.

    Returns
    -------
    Rows
        What `pack` takes, and an iterable of dicts. Rows without a key get the number of their input, and of those
        that are yielded also their own number, ``000000000007-000002``. An error of the function is a `FunctionError`
        that names the input; with ``skip_errors=True`` the input, or what is left of it, is skipped and listed. With
        ``resume=True`` the function is called again for the first 256 rows, which must be those of the interrupted run,
        and then for what is not stored.

    Examples
    --------
    >>> import tempfile, shardkit as sk
    >>> def squares(number):
    ...     return {"number": number, "square": number**2}
    >>> sk.pack(sk.rows(squares, range(5), workers=2), tempfile.mkdtemp() + "/dataset").samples
    5
    """
    count = worker_count(workers)
    if worker_kind == "process" and count == 0:
        raise ValueError('worker_kind="process" needs workers, and with 0 the function is called where rows are packed')
    return Rows(inputs, function, optional=True, workers=count, worker_kind=worker_kind)


def _rows_of(inputs: Any) -> Rows:
    """Return the rows of inputs that `is_rows`."""
    if isinstance(inputs, Rows):
        return inputs
    if hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__"):
        return Rows(range(len(inputs)), inputs.__getitem__, f"{type(inputs).__name__}[]")
    return Rows(inputs)


def _checked_row(row: Any, place: str = "") -> Row:
    if not isinstance(row, (dict, Mapping)):
        raise ValueError(f"{place}a dict from column to value is wanted, not {type(row).__name__}")
    return row


def _values_of(row: Any, columns: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the values of a row by column."""
    if unknown := _checked_row(row).keys() - columns.keys() - {key}:
        raise ValueError(f"there is no column {sorted(unknown)[0]!r}; give all as columns={{...}}")
    return {name: value for name, value in row.items() if name in columns}


def pack_rows(
    inputs: Any,
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
    rows = _rows_of(inputs)
    with contextlib.closing(rows.making(int(options.get("threads", 1)))) as making:
        begun = list(itertools.islice(making, FIRST_ROWS))
        first: list[Row] = []
        for made in begun:
            if made.failure is None:
                first.append(_checked_row(made.row, f"{made.place}: "))
            elif not skip_errors:
                raise rows.told(made)
        if not first and not allow_empty:
            raise ValueError("there are no rows; allow_empty=True packs a dataset without samples")
        if columns is None and rows.columns is not None:
            columns = {name: kind for name, kind in rows.columns.items() if name != key}
        elif columns is None:
            names = dict.fromkeys(name for row in first for name in row if name != key)
            inferred = {name: infer(name, (row.get(name) for row in first)) for name in names}
            columns = _with_masks(inferred, first)
        kinds = {name: as_column(name, kind) for name, kind in columns.items()}
        options.setdefault("job", _fingerprint(first, kinds, key, columns))
        if rows.metadata:
            options["metadata"] = {**rows.metadata, **(options.get("metadata") or {})}
        packed, shown = 0, time.monotonic()
        writer = Writer(output, columns, key=key, **options)
        try:
            begin = writer.resume_position
            making.begin = Made.input_of(begin)
            for made in itertools.chain(begun, making):
                if made.position < begin:
                    continue
                name = made.shown
                try:
                    if made.failure is not None:
                        raise rows.told(made)
                    values = _values_of(made.row, kinds, key)
                    named = made.row.get(key)
                    name = made.key if named is None else str(named)
                    writer.append(name, values, made.next_position)
                    packed += 1
                except (ValueError, FunctionError) as error:
                    if not skip_errors and made.failure is None:
                        raise ValueError(f"{made.place}: {error}") from None
                    if not skip_errors:
                        raise
                    writer.skip(made.position, name or made.key, str(error))
                if progress is not None and time.monotonic() > shown + 0.1:
                    shown = time.monotonic()
                    progress(made.number + 1, rows.total)
            writer.close()
        except BaseException:
            if keep_on_cancel:
                writer.suspend()
            else:
                writer.abort()
            raise
    if progress is not None:
        progress(rows.total or packed, rows.total)
    result = writer.result
    assert result is not None
    skipped = [reports.Skipped(Made.input_of(each.position), each.key, each.reason) for each in result.skipped]
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
