"""Values between their stored form and Python's objects."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit import _core, _numbers
from shardkit._numbers import is_scalar
from shardkit.masks import Masks


def wants_writable(column: _core.Column) -> bool:
    """Tell whether values are arrays, which users may want to change."""
    return column.type == "ndarray"


def is_bytes(column: _core.Column) -> bool:
    """Tell whether the object of a stored value is its bytes."""
    return column.type not in ("utf8", "rle", "ndarray") and not is_scalar(column.type)


def of_view(column: _core.Column, view: npt.NDArray[np.uint8] | bytes | None) -> Any:
    """Return the Python object of a stored value that lies in the memory of others, in memory of its own."""
    if view is None:
        return None
    return decode(column, bytearray(view) if wants_writable(column) else bytes(view))


def decode(column: _core.Column, value: bytes | bytearray | None) -> Any:
    """Return the Python object of a stored value; an array lies in the memory of `value`."""
    if value is None:
        return None
    kind = column.type
    if kind == "utf8":
        return value.decode()
    if kind == "rle":
        return Masks.from_stored(bytes(value))
    if is_scalar(kind):
        return _numbers.numbers(np.frombuffer(value, _numbers.stored_dtype(kind)), kind)[0]
    if kind == "ndarray" and column.dtype is not None and is_scalar(column.dtype):
        shape: tuple[int, ...]
        if column.shape is not None:
            shape, begin = tuple(column.shape), 0
        else:
            assert isinstance(value, bytearray)
            sizes, begin = _core.array_shape(column, value)
            shape = tuple(sizes)
        stored = np.frombuffer(value, _numbers.stored_dtype(column.dtype), math.prod(shape), begin)
        return _numbers.numbers(stored.reshape(shape), column.dtype)
    return bytes(value)


def encode(column: _core.Column, value: Any) -> bytes | None:
    """Return the stored form of a Python object.

    Raises
    ------
    ValueError
        When the object is not one of the column's type, dtype or shape.
    """
    if value is None:
        return None
    kind = column.type
    if kind == "utf8" or (kind == "json" and isinstance(value, str)):
        if not isinstance(value, str):
            raise ValueError(f"a str is wanted, not {type(value).__name__}")
        return value.encode()
    if kind == "rle":
        return Masks.of(value).to_stored()
    if is_scalar(kind):
        return _numbers.stored(value, kind, ()).tobytes()
    if kind == "ndarray":
        assert column.dtype is not None
        shape = None if column.shape is None else tuple(column.shape)
        array = _numbers.stored(value, column.dtype, shape)
        return array.tobytes() if shape is not None else _core.encode_array(column.dtype, array.shape, array.tobytes())
    if isinstance(value, bytes):
        return value
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise ValueError(f"bytes are wanted, not {type(value).__name__}") from None
