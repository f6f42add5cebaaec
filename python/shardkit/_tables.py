"""Between blocks of a dataset and Arrow's tables, and datasets that many processes write part by part."""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardkit import _core, jobs, reports
from shardkit._numbers import NUMPY_NAMES, is_scalar
from shardkit._options import located
from shardkit.block import Block
from shardkit.dataset import Dataset
from shardkit.rows import pack_rows
from shardkit.schema import Column, Schema, describe, is_text_list

# Makes Arrow's array of the arrays of a column: one array [samples, …], or a list with None where there is none.
Tensors = Callable[[Any], Any]


def arrow_type(column: Column) -> Any:
    """Return the type of Arrow that holds the column's values, arrays as nested lists.

    Raises
    ------
    ValueError
        For complex numbers, which Arrow lacks.
    """
    import pyarrow as pa

    if is_text_list(column):
        return pa.list_(pa.string())
    if column.type in ("utf8", "json"):
        return pa.string()
    if column.type == "rle":
        return pa.list_(pa.struct([("size", pa.list_(pa.int64())), ("counts", pa.string())]))
    if is_scalar(column.type):
        return _scalar_type(column, column.type)
    if column.type == "ndarray" and column.dtype is not None and is_scalar(column.dtype):
        kind = _scalar_type(column, column.dtype)
        for _ in range(1 if column.shape is None else len(column.shape)):
            kind = pa.list_(kind)
        return kind
    return pa.binary()


def _scalar_type(column: Column, name: str) -> Any:
    import pyarrow as pa

    if name in ("bf16", "f8e4m3", "f8e5m2"):
        return pa.float32()
    dtype = np.dtype(NUMPY_NAMES[name])
    if dtype.kind == "c":
        raise ValueError(f"column {column.name}: Arrow has no type for {describe(column)}: leave it out by columns=[…]")
    return pa.from_numpy_dtype(dtype)


def table(block: Block, schema: Schema, tensors: Tensors | None = None) -> Any:
    """Return the samples of a block as Arrow's table, in memory of its own."""
    import pyarrow as pa

    return pa.table({column.name: _column(block, column, tensors) for column in schema})


def _column(block: Block, column: Column, tensors: Tensors | None) -> Any:
    import pyarrow as pa

    kind = arrow_type(column)
    stored = block[column.name]
    absent = None if not column.nullable else ~block.present(column.name)
    if column.type == "rle":
        return pa.array([None if masks is None else masks.coco() for masks in stored], kind)
    if column.type != "ndarray":
        if isinstance(stored, np.ndarray):
            stored = stored.astype("f4") if kind == pa.float32() else np.array(stored)
            return pa.array(stored, kind, mask=absent)
        if column.type == "json" and not is_text_list(column):  # documents as they are stored
            views = map(stored.view, range(len(stored)))
            return pa.array([None if view is None else bytes(view).decode() for view in views], kind)
        return pa.array(list(stored), kind)
    if tensors is not None and isinstance(stored, np.ndarray) and (absent is None or not absent.any()):
        return tensors(np.array(stored))
    values = list(stored) if absent is None else [None if gone else v for gone, v in zip(absent, stored, strict=True)]
    if tensors is not None:
        return tensors([None if v is None else np.array(v) for v in values])
    return pa.array([None if v is None else v.tolist() for v in values], kind)


def ranges(samples: int, count: int) -> list[tuple[int, int]]:
    """Divide the samples into at most `count` runs of about the same length: (first, end)."""
    cuts = sorted({samples * i // max(count, 1) for i in range(count + 1)} | {0, samples})
    return list(itertools.pairwise(cuts))


def tables(dataset: Dataset, first: int, end: int, tensors: Tensors | None = None) -> Iterator[Any]:
    """Yield the samples from `first` to before `end` as Arrow's tables, one for each block."""
    schema = dataset.schema
    for block in dataset.scan(first_sample=first, end_sample=end):
        whole = table(block, schema, tensors)
        begin = max(first - block.first_sample, 0)
        yield whole.slice(begin, min(end - block.first_sample, len(block)) - begin)


class Parts:
    """A dataset that many processes write part by part, and one makes of the parts. Pickled with its options."""

    def __init__(self, output: str | os.PathLike[str], key: str, options: Mapping[str, Any]) -> None:
        self.output = located(output)
        self.folder = f"{self.output.rstrip('/')}.parts-{uuid.uuid4().hex[:12]}"
        self.key = key
        self.options = dict(options)

    def write(self, number: int, rows: Iterable[Mapping[str, Any]]) -> str | None:
        """Write the rows of a part; return its name, which sorts by its number, or None when there are no rows.

        May be called again for the same number, and at once: each call writes a part of its own.
        """
        name = f"{number:08d}-{uuid.uuid4().hex[:12]}"
        given = iter(self._with_keys(number, rows))
        first = next(given, None)
        if first is None:
            return None

        def all_rows() -> Iterator[Mapping[str, Any]]:
            yield first
            yield from given

        pack_rows(all_rows(), f"{self.folder}/{name}", key=self.key, **self.options)
        return name

    def _with_keys(self, number: int, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Give rows without a key one that no row of another part has."""
        for position, row in enumerate(rows):
            yield row if row.get(self.key) is not None else {**row, self.key: f"{number:08d}-{position:08d}"}

    def join(self, names: Sequence[str | None]) -> reports.Published:
        """Make the dataset of these parts, in the order of their numbers, and remove everything else."""
        made = sorted(name for name in names if name is not None)
        if not made:
            raise ValueError(f"{self.output}: there are no rows to write")
        published = jobs.merge([f"{self.folder}/{name}" for name in made], self.output, keep_repeated_keys=True)
        self.remove()
        return published

    def remove(self) -> None:
        """Remove all parts, also those of tasks that were killed."""
        with contextlib.suppress(FileNotFoundError):
            _core.remove_tree(self.folder)
