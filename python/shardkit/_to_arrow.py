"""Columns of datasets as arrays of Arrow, without a step of Python for each value, but for lists of texts and masks.

Numbers and texts lie where the block has them. Arrays that have shapes of their own are copied, and so are values whose
bytes do not follow one another.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from shardkit import _core, _numbers, _values
from shardkit.block import Block, Values
from shardkit.schema import Column, is_text_list

# Smaller batches are joined, which costs less than what others do for each.
_LEAST_BYTES = 1 << 20
_MOST_JOINED = 256
# In so many blocks an array is looked for that tells how deep others are.
_BLOCKS_LOOKED_AT = 16

# Makes Arrow's array of the arrays of a column: one array [samples, …], or a list with None where there is none.
Tensors = Callable[[Any], Any]


def is_small(column: Column) -> bool:
    """Tell whether a table has the column unless others are named: neither files, bytes nor masks."""
    return column.type != "rle" and not _values.is_bytes(column)


def arrow_type(column: Column, dimensions: int = 1) -> Any:
    """Return the type of Arrow that holds the column's values.

    Arrays are nested lists, of fixed size where the column has a shape and no value is absent: pyarrow and others do
    not write Parquet of absent ones. Without a shape they are as deep as `dimensions` says.
    """
    import pyarrow as pa

    if is_text_list(column):
        return pa.list_(pa.string())
    if column.type in ("utf8", "json"):
        return pa.string()
    if column.type == "rle":
        return pa.list_(pa.struct([("size", pa.list_(pa.int64())), ("counts", pa.string())]))
    name = column.type if column.type != "ndarray" else column.dtype or ""
    if not _numbers.is_scalar(name):
        return pa.large_binary()
    kind = _number_type(_part(name), column.metadata.get("timezone"))
    has_own_shapes = column.type == "ndarray" and column.shape is None
    shape = [*(column.shape or ()), *([2] if _part(name) != name else [])]
    for size in reversed(shape):
        kind = pa.list_(kind, -1 if column.nullable and not has_own_shapes else size)
    for _ in range(dimensions if has_own_shapes else 0):
        kind = pa.list_(kind)
    return kind


def _part(name: str) -> str:
    """Return the type of the two parts of a complex number; other types as they are."""
    return {"complex64": "f32", "complex128": "f64"}.get(name, name)


def _number_type(name: str, timezone: str | None) -> Any:
    import pyarrow as pa

    if name not in _numbers.NUMPY_NAMES:
        return pa.float32()
    kind = pa.from_numpy_dtype(_numbers.NUMPY_NAMES[name])
    return pa.timestamp(kind.unit, timezone) if pa.types.is_timestamp(kind) and timezone else kind


def schema(columns: Sequence[Column], scan: Callable[[Sequence[str]], Iterator[Block]]) -> Any:
    """Return Arrow's schema of the columns, with their metadata; class names also as Hugging Face notes them.

    Arrays that have shapes of their own are nested as deep as the first is, which is read by `scan` of their columns.
    """
    import pyarrow as pa

    dimensions = _dimensions([c.name for c in columns if c.type == "ndarray" and c.shape is None], scan)
    fields = []
    for column in columns:
        # That of a list of texts is of how it is stored, and a time zone is in the type.
        metadata = {name: text for name, text in column.metadata.items() if name not in ("items", "timezone")}
        fields.append(pa.field(column.name, arrow_type(column, dimensions.get(column.name, 1)), metadata=metadata))
    labels = {
        column.name: {"names": column.class_names, "_type": "ClassLabel"}
        for column in columns
        if column.type == "i64" and column.class_names
    }
    noted = {"huggingface": json.dumps({"info": {"features": labels}})} if labels else None
    return pa.schema(fields, noted)


def _dimensions(names: Sequence[str], scan: Callable[[Sequence[str]], Iterator[Block]]) -> dict[str, int]:
    """Return how many dimensions the first array of each column has; one is where the first blocks have none."""
    found: dict[str, int] = {}
    left = list(names)
    for block in itertools.islice(scan(left), _BLOCKS_LOOKED_AT) if left else ():
        for name in left:
            values = block[name]
            assert isinstance(values, Values)
            view = next((view for view in map(values.view, range(len(values))) if view is not None), None)
            if view is not None:
                found[name] = max(int(view[0]), 1)
        left = [name for name in left if name not in found]
        if not left:
            break
    return found


def batch(block: Block, columns: Sequence[Column], kinds: Any, tensors: Tensors | None = None) -> Any:
    """Return the samples of a block as a record batch of Arrow; `kinds` is the `schema` of its columns.

    With `tensors`, arrays are what that makes of them.
    """
    import pyarrow as pa

    made = []
    for column in columns:
        if column.type == "ndarray" and tensors is not None:
            made.append(tensors(_arrays(block, column)))
        else:
            position = block._schema.names.index(column.name)
            whole = _array(block._block, column, position, kinds.field(column.name).type)
            made.append(whole if block._kept is None else whole.take(pa.array(block._kept)))
    block._block.check_mapped()  # what was copied of a file that was cut is no value
    if tensors is not None:
        return pa.RecordBatch.from_arrays(made, [column.name for column in columns])
    return pa.RecordBatch.from_arrays(made, schema=kinds)


def batches(blocks: Iterator[Block], columns: Sequence[Column], kinds: Any) -> Iterator[Any]:
    """Yield blocks as record batches; small ones are joined."""
    small: list[Any] = []
    total = 0
    for made in (batch(block, columns, kinds) for block in blocks):
        large = made.nbytes >= _LEAST_BYTES
        if not large:
            small.append(made)
            total += made.nbytes
        if large or total >= _LEAST_BYTES or len(small) == _MOST_JOINED:
            yield from _joined(small)
            small, total = [], 0
        if large:
            yield made
    yield from _joined(small)


def _joined(parts: Sequence[Any]) -> Sequence[Any]:
    import pyarrow as pa

    return parts if len(parts) < 2 else pa.Table.from_batches(parts).combine_chunks().to_batches()


def _arrays(block: Block, column: Column) -> Any:
    """Return copies of the arrays of a block: one array, or a list where shapes differ or some are absent."""
    stored = block[column.name]
    absent = ~block.present(column.name) if column.nullable else np.zeros(len(block), bool)
    if isinstance(stored, np.ndarray) and not absent.any():
        return np.array(stored)
    return [None if gone else np.array(value) for gone, value in zip(absent, stored, strict=True)]


def _array(block: _core.Block, column: Column, position: int, kind: Any) -> Any:
    """Return a column of a whole block."""
    import pyarrow as pa

    count = block.sample_count
    present = valid = None
    if column.nullable:
        present = block.present(position)
        if not present.any():
            return pa.nulls(count, kind)
        valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    fixed = block.fixed_values(position)
    name = column.type if column.type != "ndarray" else column.dtype or ""
    if fixed is not None and pa.types.is_list(kind):
        if _part(name) != name:
            fixed, name = fixed.view(_numbers.stored_dtype(_part(name))).reshape(*fixed.shape, 2), _part(name)
        shapes = np.zeros((count, fixed.ndim - 1), np.int64)
        shapes[present] = fixed.shape[1:]
        return _nested(shapes, fixed if valid is None else fixed[present], name, kind, valid)
    if fixed is not None:
        return _numbers_of(fixed, name, kind, count, valid)
    if column.type == "rle":
        masks = Values(block, position, column)
        return pa.array([None if each is None else each.coco() for each in masks], kind)
    if column.type == "ndarray" and _numbers.is_scalar(name):
        return _nested(*block.joined_arrays(position, _depth(kind)), name, kind, valid)
    begins, data = block.joined_values(position)
    if is_text_list(column):
        return _text_lists(column.name, begins.tolist(), data.tobytes(), block, position, kind)
    if pa.types.is_string(kind):
        begins = _narrow(begins, column.name)
    made = pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(begins), pa.py_buffer(data)])
    if pa.types.is_string(kind):
        try:
            made.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _damaged(column.name, block, f"a value is no text of UTF-8: {error}") from None
    return made


def _depth(kind: Any) -> int:
    import pyarrow as pa

    depth = 0
    while pa.types.is_list(kind):
        depth, kind = depth + 1, kind.value_type
    return depth


def _numbers_of(stored: Any, name: str, kind: Any, count: int, valid: Any) -> Any:
    """Return numbers, or arrays of one shape, over the memory of `stored` where Arrow has them as NumPy does."""
    import pyarrow as pa

    kinds = [kind]
    while pa.types.is_fixed_size_list(kinds[-1]):
        kinds.append(kinds[-1].value_type)
    lengths = [count]
    for each in kinds[:-1]:
        lengths.append(lengths[-1] * each.list_size)
    flat = np.ascontiguousarray(stored).reshape(-1)
    if name == "bool":
        flat = np.packbits(flat, bitorder="little")
    elif name not in _numbers.NUMPY_NAMES:
        flat = np.asarray(_numbers.numbers(flat, name), np.float32)
    data = pa.py_buffer(flat.view(np.uint8))
    made = pa.Array.from_buffers(kinds[-1], lengths[-1], [valid if len(kinds) == 1 else None, data])
    for i in reversed(range(len(kinds) - 1)):
        made = pa.Array.from_buffers(kinds[i], lengths[i], [valid if i == 0 else None], children=[made])
    return made


def _nested(shapes: Any, elements: Any, name: str, kind: Any, valid: Any) -> Any:
    """Return arrays that have shapes of their own as nested lists."""
    import pyarrow as pa

    kinds = [kind]
    for _ in range(shapes.shape[1] - 1):
        kinds.append(kinds[-1].value_type)
    made = _numbers_of(elements, name, kinds[-1].value_type, elements.size, None)
    for i in reversed(range(len(kinds))):
        sizes = np.repeat(shapes[:, i], np.prod(shapes[:, :i], axis=1))
        begins = _narrow(np.concatenate([[0], np.cumsum(sizes)]), "of arrays")
        buffers = [valid if i == 0 else None, pa.py_buffer(begins)]
        made = pa.Array.from_buffers(kinds[i], len(sizes), buffers, children=[made])
    return made


def _narrow(begins: Any, name: str) -> Any:
    """Return places as Arrow's lists and texts have them."""
    if begins[-1] >= 1 << 31:
        raise ValueError(
            f"column {name}: a block has {begins[-1]} bytes or elements, and a batch of Arrow fewer than 2^31: "
            "shardctl reshard --block-size 64MiB makes smaller blocks"
        )
    return begins.astype(np.int32)


def _text_lists(name: str, begins: list[int], data: bytes, block: _core.Block, position: int, kind: Any) -> Any:
    """Return lists of texts, whose documents of JSON are parsed all at once."""
    import pyarrow as pa

    documents = (data[begin:end] or b"null" for begin, end in itertools.pairwise(begins))
    try:
        lists = json.loads(b"[" + b",".join(documents) + b"]")
        if len(lists) == len(begins) - 1:
            return pa.array(lists, kind)
        raise ValueError("there are more values than samples")
    except (ValueError, RecursionError, pa.ArrowException) as error:
        raise _damaged(name, block, f"a value is no list of texts: {error}") from None


def _damaged(name: str, block: _core.Block, problem: str) -> _core.DataLossError:
    first = block.first_sample
    message = f'column "{name}", samples {first} to {first + block.sample_count - 1}: {problem}'
    return _values.damaged(message, None, None, name)
