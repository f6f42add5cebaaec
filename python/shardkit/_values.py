"""Values between their stored form and Python's objects."""

from __future__ import annotations

import functools
import importlib.util
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit import _core
from shardkit.masks import Masks

# The scalar types of the format, and NumPy's codes for them.
NUMPY_NAMES: dict[str, str] = {
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
    "u8": "u1",
    "u16": "u2",
    "u32": "u4",
    "u64": "u8",
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "bool": "?",
    "complex64": "c8",
    "complex128": "c16",
    "timestamp_s": "M8[s]",
    "timestamp_ms": "M8[ms]",
    "timestamp_us": "M8[us]",
    "timestamp_ns": "M8[ns]",
}
# Those that NumPy lacks: the name in ml_dtypes, and integers of the same bits.
_EXTENSION_NAMES = {"bf16": ("bfloat16", "u2"), "f8e4m3": ("float8_e4m3fn", "u1"), "f8e5m2": ("float8_e5m2", "u1")}


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a scalar type of the format.

    bf16, f8e4m3 and f8e5m2 are those of ml_dtypes where it is installed, else unsigned integers of the same bits.
    """
    if name in _EXTENSION_NAMES:
        extension, bits = _EXTENSION_NAMES[name]
        if importlib.util.find_spec("ml_dtypes") is None:
            return np.dtype(bits)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, extension))
    return np.dtype("<" + NUMPY_NAMES[name])


def view_as(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return the array of integers seen as the scalar type of this name; no copy."""
    return array.view(numpy_dtype(name))


def is_scalar(name: str) -> bool:
    """Tell whether the type's values are numbers."""
    return name in NUMPY_NAMES or name in _EXTENSION_NAMES


def wants_writable(column: _core.Column) -> bool:
    """Tell whether values are arrays, which users may want to change."""
    return column.type == "ndarray"


def is_bytes(column: _core.Column) -> bool:
    """Tell whether the object of a stored value is its bytes."""
    return column.type not in ("utf8", "rle", "ndarray") and not is_scalar(column.type)


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
        return np.frombuffer(value, numpy_dtype(kind))[0]
    if kind == "ndarray" and column.dtype is not None and is_scalar(column.dtype):
        shape: tuple[int, ...]
        if column.shape is not None:
            shape, begin = tuple(column.shape), 0
        else:
            assert isinstance(value, bytearray)
            sizes, begin = _core.array_shape(column, value)
            shape = tuple(sizes)
        return np.frombuffer(value, numpy_dtype(column.dtype), math.prod(shape), begin).reshape(shape)
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
        return _exact(column, value, kind, ()).tobytes()
    if kind == "ndarray":
        assert column.dtype is not None
        shape = None if column.shape is None else tuple(column.shape)
        array = _exact(column, value, column.dtype, shape)
        return array.tobytes() if shape is not None else _core.encode_array(column.dtype, array.shape, array.tobytes())
    if isinstance(value, bytes):
        return value
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise ValueError(f"bytes are wanted, not {type(value).__name__}") from None


def _exact(column: _core.Column, value: Any, name: str, shape: tuple[int, ...] | None) -> npt.NDArray[Any]:
    """Return the value as an array of this type; only conversions that keep every value are made."""
    dtype = numpy_dtype(name)
    array = np.asarray(value)
    if array.dtype != dtype:
        converted = array.astype(dtype)
        same = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind in "fc")
        # Numbers with a fraction are rounded to the column's; nothing else may change.
        rounds = array.dtype.kind in "fc" and dtype.kind in "fcV"
        if not same and not rounds:
            hint = " (its bits; install ml_dtypes to write numbers)" if name in _EXTENSION_NAMES else ""
            raise ValueError(f"a value of {array.dtype} is not exact as {dtype}{hint}")
        array = converted
    if shape is not None and array.shape != shape:
        raise ValueError(f"the shape {array.shape} is not the column's, {shape}")
    return np.ascontiguousarray(array) if array.ndim > 0 else array
