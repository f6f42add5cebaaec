"""Values between their stored form and Python's objects."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from shardkit import _core, _numbers
from shardkit._numbers import NDArray, is_scalar
from shardkit._options import shown
from shardkit.masks import Masks
from shardkit.schema import is_text_list


def wants_writable(column: _core.Column) -> bool:
    """Tell whether values are arrays, which users may want to change."""
    return column.type == "ndarray"


def is_number(column: _core.Column) -> bool:
    """Tell whether values are scalars or arrays of one shape, which lie in a batch one after another."""
    array = (
        column.type == "ndarray" and column.dtype is not None and column.shape is not None and is_scalar(column.dtype)
    )
    return array or is_scalar(column.type)


def is_bytes(column: _core.Column) -> bool:
    """Tell whether the object of a stored value is its bytes."""
    return column.type not in ("utf8", "json", "rle", "ndarray") and not is_scalar(column.type)


def of_view(column: _core.Column, view: NDArray[np.uint8] | bytes | None) -> Any:
    """Return the Python object of a stored value that lies in the memory of others, in memory of its own."""
    if view is None:
        return None
    return decode(column, bytearray(view) if wants_writable(column) else bytes(view))


def decode(column: _core.Column, value: bytes | bytearray | None) -> Any:
    """Return the Python object of a stored value; an array lies in the memory of `value`."""
    if value is None:
        return None
    kind = column.type
    if kind in ("utf8", "json"):
        return of_text(kind, value)
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


def of_text(kind: str, value: bytes | bytearray) -> Any:
    """Return a text, or what is in a JSON document. Raises `DataLossError` for what is none, as containers may have."""
    try:
        return value.decode() if kind == "utf8" else json.loads(value)
    except (ValueError, RecursionError) as error:
        what = "text of UTF-8" if kind == "utf8" else "JSON document"
        raise damaged(f"the value is no {what}: {error}; as bytes it is there by sk.Raw and sk.Views") from None


def damaged(
    message: str, path: str | None = None, sample: int | None = None, column: str | None = None
) -> _core.DataLossError:
    """Return an error of a value, with its place as those of the library have it."""
    error = _core.DataLossError(message)
    place = {"path": path, "shard": None, "block": None, "sample": sample, "column": column}
    for name, value in place.items():
        setattr(error, name, value)
    return error


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
    if kind == "utf8":
        if not isinstance(value, str):
            raise ValueError(f"a str is wanted, not {type(value).__name__}")
        return value.encode()
    if kind == "json":
        if is_text_list(column):
            value = value.tolist() if isinstance(value, np.ndarray) else value
            if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
                raise ValueError(f"a list of str is wanted, not {shown(value)}")
        return _json(value)
    if kind == "rle":
        return Masks.of(value).to_stored()
    if is_scalar(kind):
        return _numbers.stored(value, kind, ()).tobytes()
    if kind == "ndarray":
        assert column.dtype is not None
        shape = None if column.shape is None else tuple(column.shape)
        array = _numbers.stored(value, column.dtype, shape)
        return array.tobytes() if shape is not None else _core.encode_array(column.dtype, array.shape, array.tobytes())
    stored = _bytes(value, kind)
    if kind in _IMAGES:
        found = _core.image_format(stored)
        if found == "unknown" or _IMAGES[kind] not in ("", found):
            given = f"{len(stored)} bytes that begin with {stored[:8]!r}" if found == "unknown" else found
            raise ValueError(f"a {_IMAGES[kind] or 'known image'} file is wanted, not {given}")
    return stored


# The types of images, and the format that all of their files have.
_IMAGES = {"jpeg": "JPEG", "png": "PNG", "image": ""}


def _bytes(value: Any, kind: str) -> bytes:
    """Return the bytes of a bytes-like object; what has other elements or dimensions is none."""
    if isinstance(value, bytes):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        view = None
    if view is not None and view.ndim == 1 and view.format in ("B", "b", "c"):
        return bytes(view)
    given = type(value).__name__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        given += f" {tuple(value.shape)} of {value.dtype}"
    message = f"bytes are wanted, not {given}"
    if kind in _IMAGES:
        message += ': give the file\'s, or make the column shardkit.Encode("jpeg"), which takes pixels'
    raise ValueError(message)


def _json(value: Any) -> bytes:
    """Return a JSON document of text, bytes, or what is none yet."""
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no JSON document: {error}") from None
    try:
        json.loads(value, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"no JSON document: {error}") from None
    return value.encode() if isinstance(value, str) else bytes(value)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")
