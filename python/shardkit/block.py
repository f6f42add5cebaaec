"""A block of consecutive samples, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shardkit import _core, _numbers, _values
from shardkit._numbers import Array, NDArray
from shardkit.schema import Column, Schema

Kept = NDArray[np.int64] | None  # the block's samples that are wanted; None: all


def _of_kept(values: Array, kept: Kept) -> Array:
    return values if kept is None else values[kept]


class Values(Sequence[Any]):
    """The values of one column of a block that differ in size. Keeps the block's memory."""

    def __init__(self, block: _core.Block, position: int, column: Column, kept: Kept = None) -> None:
        self._block = block
        self._position = position
        self._column = column
        self._kept = kept

    def __len__(self) -> int:
        return self._block.sample_count if self._kept is None else len(self._kept)

    def _place(self, index: Any) -> int:
        i = range(len(self))[_numbers.ordinal(index)]
        return i if self._kept is None else int(self._kept[i])

    def __getitem__(self, index: Any) -> Any:
        """Return the value of a sample, as `Dataset` does, or a list for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        writable = _values.wants_writable(self._column)
        return _values.decode(self._column, self._block.stored_value(self._position, self._place(index), writable))

    def __iter__(self) -> Iterator[Any]:
        if self._kept is not None:
            yield from (self[i] for i in range(len(self)))
            return
        column = self._column
        writable = _values.wants_writable(column)
        # What is stored is what users get of most columns of bytes: then nothing is called for a value.
        as_stored = _values.is_bytes(column)
        first = 0
        while first < len(self):
            run = self._block.stored_values(self._position, first, writable)
            first += len(run)
            yield from run if as_stored else (_values.decode(column, value) for value in run)

    def view(self, index: int) -> NDArray[np.uint8] | None:
        """Return the stored bytes of a value where they lie, read-only; None when absent."""
        return self._block.value_bytes(self._position, self._place(index))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each value as stored; 0 where it is absent."""
        return _of_kept(self._block.sizes(self._position), self._kept)

    def to_list(self) -> list[Any]:
        """Return all values."""
        return list(self)


class Block:
    """Consecutive samples of a dataset, column by column. Made by `Dataset.scan`."""

    def __init__(self, block: _core.Block, schema: Schema, kept: Kept = None, first: int | None = None) -> None:
        self._block = block
        self._schema = schema
        self._kept = kept
        self._first = block.first_sample if first is None else first

    @property
    def first_sample(self) -> int:
        """The ordinal of its first sample in the dataset."""
        return self._first

    @property
    def shard(self) -> int:
        """The number of its shard."""
        return self._block.shard

    def __len__(self) -> int:
        return self._block.sample_count if self._kept is None else len(self._kept)

    def __getitem__(self, name: str) -> Array | Values:
        """Return a column: an array [samples, …] over the block's memory, read-only; `Values` where sizes differ.

        Absent values of a column of numbers are zeros; `present` tells them.
        """
        position = self._schema.names.index(name) if name in self._schema.names else -1
        if position < 0:
            raise KeyError(name)
        array = self._block.fixed_values(position)
        column = self._schema[position]
        return (
            Values(self._block, position, column, self._kept)
            if array is None
            else _numbers.numbers(_of_kept(array, self._kept), column.dtype or column.type)
        )

    def value(self, name: str, index: int) -> Any:
        """Return one value in memory of its own, as `Dataset` does."""
        return Values(self._block, self._schema.names.index(name), self._schema[name], self._kept)[index]

    def present(self, name: str) -> NDArray[np.bool_]:
        """Return for each sample whether it has the value."""
        return _of_kept(self._block.present(self._schema.names.index(name)), self._kept)

    def __repr__(self) -> str:
        return f"<block of {len(self)} samples from {self.first_sample}>"
