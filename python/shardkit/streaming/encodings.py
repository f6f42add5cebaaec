"""Values of MDS: what each encoding makes of an object, and of its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from shardkit.images import image_list

if TYPE_CHECKING:
    from PIL import Image

_ARRAY_TYPES = {
    **{8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32"},
    **{64: "uint64", 65: "int64", 66: "float64"},
}
_ARRAY_CODES = {name: code for code, name in _ARRAY_TYPES.items()}
_NUMBERS = tuple(_ARRAY_TYPES.values())


@dataclass(frozen=True)
class Coder:
    """An encoding; `size` is that of every value in bytes, if it is the same."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    size: int | None = None


def _is(value: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind):
        # The exception of mosaicml-streaming, which programs may catch.
        raise AttributeError(f"data should be of type {kind}, but instead, found as {type(value)}")
    return value


def _number(dtype: type[np.generic], value: Any) -> bytes:
    number = np.asarray(value).astype(dtype)
    if number.ndim != 0:
        raise ValueError(f"a number is wanted, not an array of shape {number.shape}")
    if number.dtype.kind in "iu" and number != value:
        raise ValueError(f"{value!r} is no {number.dtype.name}")
    return number.tobytes()


def _first(dtype: type[np.generic], data: bytes) -> Any:
    return np.frombuffer(data, dtype)[0]


def _document(value: Any) -> bytes:
    return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value).encode()


def _pixels(value: Image.Image) -> bytes:
    from PIL import Image

    _is(value, Image.Image)
    mode = str(value.mode).encode()
    return np.array([*value.size, len(mode)], np.uint32).tobytes() + mode + bytes(value.tobytes())


def _of_pixels(data: bytes) -> Image.Image:
    from PIL import Image

    if data.startswith(b"II*\0"):
        return image(data)  # what Shardkit reads them as, of a dataset that was converted
    width, height, length = np.frombuffer(data[:12], np.uint32).tolist()
    return Image.frombytes(data[12 : 12 + length].decode(), (width, height), data[12 + length :])


def _file(kind: str, value: Image.Image) -> bytes:
    from PIL import Image, JpegImagePlugin

    _is(value, Image.Image)
    name = getattr(value, "filename", "")
    if kind == "JPEG" and isinstance(value, JpegImagePlugin.JpegImageFile) and name:
        try:
            with open(name, "rb") as file:
                return bytes(file.read())  # as it is, without loss
        except FileNotFoundError:
            pass
    made = BytesIO()
    value.save(made, format=kind)
    return made.getvalue()


def image(data: bytes) -> Image.Image:
    """Return the image of a file, decoded when it is used."""
    from PIL import Image

    return Image.open(BytesIO(data))


def _joined(head: bytes, values: list[bytes]) -> bytes:
    return b"".join(
        [head, np.uint32(len(values)).tobytes(), np.array([*map(len, values)], np.uint32).tobytes(), *values]
    )


def _array(dtype: str | None, shape: tuple[int, ...] | None, value: Any) -> bytes:
    name = value.dtype.name
    if name not in _ARRAY_CODES:
        raise ValueError(f"Unsupported dtype: {name}.")
    if dtype is not None and name != dtype:
        raise ValueError(f"Wrong dtype: expected {dtype}, got {name}.")
    if value.size == 0:
        raise ValueError("Attempting to encode a numpy array with 0 elements.")
    if value.ndim == 0:
        raise ValueError("Attempting to encode a scalar with NDArray encoding. Please use a scalar encoding.")
    if value.ndim >= 64:
        raise ValueError(f"Array has too many axes: maximum 63, got {value.ndim}.")
    parts = [] if dtype is not None else [bytes([_ARRAY_CODES[name]])]
    if shape is None:
        k = next(k for k in range(4) if max(value.shape) < 1 << (8 << k))
        parts += [bytes([value.ndim << 2 | k]), np.array(value.shape, f"<u{1 << k}").tobytes()]
    elif value.shape != shape:
        raise ValueError(f"Wrong shape: expected {shape}, got {value.shape}.")
    return b"".join([*parts, value.tobytes()])


def _of_array(dtype: str | None, shape: tuple[int, ...] | None, data: bytes) -> Any:
    at = 0
    if dtype is None:
        dtype, at = _ARRAY_TYPES[data[0]], 1
    if shape is None:
        k, ndim = data[at] % 4, data[at] >> 2
        end = at + 1 + (ndim << k)
        shape, at = tuple(np.frombuffer(data[at + 1 : end], f"<u{1 << k}").tolist()), end
    return np.frombuffer(data, dtype, offset=at).reshape(shape)


def _array_coder(parameters: str) -> Coder:
    dtype, _, sizes = parameters.partition(":")
    if dtype and dtype not in _ARRAY_CODES:
        raise ValueError(f"ndarray:{parameters}: there is no dtype {dtype}; {', '.join(_NUMBERS)}")
    shape = tuple(map(int, sizes.split(","))) if sizes else None
    if shape is not None and min(shape) < 1:
        raise ValueError(f"ndarray:{parameters}: dimensions are positive numbers")
    size = None if shape is None else int(np.prod(shape)) * np.dtype(dtype).itemsize
    given = dtype or None
    return Coder(partial(_array, given, shape), partial(_of_array, given, shape), size)


_jpeg, _png = partial(_file, "JPEG"), partial(_file, "PNG")
_jpegs = Coder(lambda files: _joined(b"", list(files)), lambda data: [image(file) for file in image_list(data)])


def _list(encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> Coder:
    return Coder(
        lambda values: _joined(bytes(4), [encode(each) for each in _is(values, list)]),
        lambda data: [decode(each) for each in image_list(data)],
    )


_CODERS = {
    "bytes": Coder(lambda value: bytes(_is(value, bytes)), bytes),
    "str": Coder(lambda value: str(_is(value, str)).encode(), bytes.decode),
    "int": Coder(
        lambda value: _number(np.int64, _is(value, int)), partial(int.from_bytes, byteorder="little", signed=True), 8
    ),
    "str_int": Coder(lambda value: str(_is(value, int)).encode(), lambda data: int(data.decode())),
    "str_float": Coder(lambda value: str(_is(value, float)).encode(), lambda data: float(data.decode())),
    "str_decimal": Coder(lambda value: str(_is(value, Decimal)).encode(), lambda data: Decimal(data.decode())),
    "json": Coder(_document, json.loads),
    "pil": Coder(_pixels, _of_pixels),
    "jpeg": Coder(_jpeg, image),
    "png": Coder(_png, image),
    "jpeg_array": _jpegs,
    "jpegarray": _jpegs,
    "list[pil]": _list(_pixels, _of_pixels),
    "list[jpeg]": _list(_jpeg, image),
    "list[png]": _list(_png, image),
    "ndarray": _array_coder(""),
}
for _name in _NUMBERS:
    _type = np.dtype(_name).type
    _CODERS[_name] = Coder(partial(_number, _type), partial(_first, _type), np.dtype(_name).itemsize)


def coder(encoding: str) -> Coder | None:
    """Return the coder of an encoding, or None when there is none of this name."""
    if encoding.startswith("ndarray:"):
        return _array_coder(encoding[len("ndarray:") :])
    return _CODERS.get(encoding)


def known_encodings() -> list[str]:
    """Return the names of the encodings."""
    return sorted(_CODERS)
