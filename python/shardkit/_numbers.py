"""Numbers as a column stores them. Only conversions that keep every value are made, the same ones on every machine."""

from __future__ import annotations

import datetime
import functools
import operator
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
else:
    ArrayLike = Any  # numpy.typing takes long to import

# As in numpy.typing. Names of annotations are there while the program runs, for typing.get_type_hints.
_Scalar = TypeVar("_Scalar", bound=np.generic, covariant=True)
NDArray = np.ndarray[Any, np.dtype[_Scalar]]
Array = NDArray[Any]

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


class _Small(NamedTuple):
    """A floating-point type that NumPy lacks."""

    ml_dtypes: str  # its name there, and in torch
    bits: str  # NumPy's code of integers as large
    mantissa: int  # bits
    least_exponent: int  # of a number that is not subnormal
    largest: int  # bits of the largest number
    infinity: int  # bits; 0: it has none
    nan: int  # bits


_SMALL = {
    "bf16": _Small("bfloat16", "u2", 7, -126, 0x7F7F, 0x7F80, 0x7FC0),
    "f8e4m3": _Small("float8_e4m3fn", "u1", 3, -6, 0x7E, 0, 0x7F),
    "f8e5m2": _Small("float8_e5m2", "u1", 2, -14, 0x7B, 0x7C, 0x7E),
}
_SMALL_NAMES = {small.ml_dtypes: name for name, small in _SMALL.items()}
_TORCH_NAMES = {f"torch.{small.ml_dtypes}": name for name, small in _SMALL.items()}
_NAMES = {np.dtype(kind): name for name, kind in NUMPY_NAMES.items()}


def ordinal(index: Any) -> int:
    """Return the integer that an index is; those of NumPy and torch are taken, and no bool."""
    if isinstance(index, bool) or "bool" in str(getattr(index, "dtype", "")):
        raise TypeError("an index is an integer, not a bool")
    return operator.index(index)


def torch_name(name: str) -> str | None:
    """Return what torch calls a type that NumPy lacks; None of others."""
    return _SMALL[name].ml_dtypes if name in _SMALL else None


def is_scalar(name: str) -> bool:
    """Tell whether the type's values are numbers."""
    return name in NUMPY_NAMES or name in _SMALL


def name_of(dtype: Any) -> str | None:
    """Return the type of the format that has the numbers of a dtype of NumPy, or one that NumPy lacks of torch."""
    if not isinstance(dtype, np.dtype):
        return _TORCH_NAMES.get(str(dtype))
    return _NAMES.get(dtype) or _SMALL_NAMES.get(dtype.name)


@functools.cache
def stored_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of a scalar type as it is stored: integers of the same bits for those that NumPy lacks."""
    return np.dtype(f"<{_SMALL[name].bits if name in _SMALL else NUMPY_NAMES[name]}")


def view_as(array: Array, name: str) -> Array:
    """Return the array of integers seen as the scalar type of this name; no copy."""
    return array.view(stored_dtype(name))


@functools.cache
def _has_ml_dtypes() -> bool:
    from importlib.util import find_spec

    return find_spec("ml_dtypes") is not None


def numbers(stored: Array, name: str) -> Array:
    """Return the numbers of an array of `stored_dtype`.

    bf16, f8e4m3 and f8e5m2 are those of ml_dtypes, not copied, where it is installed; else float32, which has all of
    their numbers.
    """
    if name not in _SMALL:
        return stored
    if not _has_ml_dtypes():
        return _widened(stored, name)
    import ml_dtypes

    return stored.view(np.dtype(getattr(ml_dtypes, _SMALL[name].ml_dtypes)))


def _widened(bits: Array, name: str) -> Array:
    """Return the numbers of these bits as float32."""
    small = _SMALL[name]
    sign = np.array(1 << (8 * bits.itemsize - 1), bits.dtype)
    magnitude = (bits & ~sign).astype(np.int32)
    exponent = np.maximum(magnitude >> small.mantissa, 1)
    digits = magnitude - ((exponent - 1) << small.mantissa)
    widened = np.ldexp(digits.astype(np.float64), exponent - 1 + small.least_exponent - small.mantissa)
    if small.infinity:
        widened = np.where(magnitude == small.infinity, np.inf, widened)
    widened = np.where(magnitude > max(small.largest, small.infinity), np.nan, widened)
    return np.where(bits & sign, -widened, widened).astype(np.float32)


def _narrowed(array: Array, name: str) -> tuple[Array, Array]:
    """Return the bits of the numbers nearest to these, of two as near the even one, and which of them there are."""
    small = _SMALL[name]
    wide = array if array.dtype.itemsize > 8 else array.astype(np.float64)
    finite = np.isfinite(wide)
    magnitude = np.where(finite, np.abs(wide), 0)
    exponent = np.where(magnitude > 0, np.frexp(magnitude)[1] - 1, small.least_exponent)
    exponent = np.maximum(exponent, small.least_exponent)
    digits = np.rint(np.ldexp(magnitude, small.mantissa - exponent)).astype(np.int64)
    found = digits + ((exponent.astype(np.int64) - small.least_exponent) << small.mantissa)
    fits = np.where(finite, found <= small.largest, np.isnan(wide) | (small.infinity != 0))
    found = np.where(finite, found, np.where(np.isnan(wide), small.nan, small.infinity))
    dtype = np.dtype(small.bits)
    return (found | (np.signbit(wide).astype(np.int64) << (8 * dtype.itemsize - 1))).astype(dtype), fits


def stored(value: Any, name: str, shape: tuple[int, ...] | None) -> Array:
    """Return the value as an array of `stored_dtype`.

    Integers, and floating-point numbers without a fraction, stay what they are; floating-point numbers are rounded to
    those of the type, where they are in its range; integers become timestamps of its unit.

    Parameters
    ----------
    value : object
        A number, or an array, list or tensor of numbers.
    name : str
        The scalar type.
    shape : tuple of int, or None
        What its shape has to be.

    Raises
    ------
    ValueError
        For what is not a number, a number that does not fit the type, and another shape.
    """
    array, integers = _array(value)
    if shape is not None and array.shape != shape:
        raise ValueError(f"the shape {array.shape} is not the column's, {shape}")
    dtype = stored_dtype(name)
    if name in _SMALL and _SMALL_NAMES.get(array.dtype.name) == name:
        return np.ascontiguousarray(array).reshape(array.shape).view(dtype)
    if name not in _SMALL and array.dtype == dtype and not integers:
        return array
    if array.dtype.name in _SMALL_NAMES:
        array = array.astype(np.float32)
    with np.errstate(all="ignore"):
        converted, fits = _convert(array, name, dtype)
    for place, integer in integers:
        read = _widened(converted[place], name) if name in _SMALL else converted[place]
        if fits[place] and read.item() != integer:
            raise ValueError(f"{integer}{_at(place)} does not fit {name}")
    if not fits.all():
        first = tuple(np.argwhere(~fits)[0].tolist())
        limits = "" if name in _SMALL else _limits(dtype)
        raise ValueError(f"{array[first]}{_at(first)} does not fit {name}{limits}")
    return converted


def _at(place: tuple[int, ...]) -> str:
    return f" at {list(place)}" if place else ""


def _limits(dtype: np.dtype[Any]) -> str:
    if dtype.kind not in "iu":
        return ""
    limits = np.iinfo(dtype)
    return f", which has the integers from {limits.min} to {limits.max}"


def lacks_values(value: Any) -> bool:
    """Tell whether it is an array of which values are masked."""
    return isinstance(value, np.ma.MaskedArray) and bool(np.any(value.mask))


def plain(value: Any) -> Any:
    """Return the array of a torch tensor, wherever it lies, and of a list of tensors; all else as it is.

    Types that NumPy lacks are those of `numbers`, or float32.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor"):
        return value
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        if str(tensor.dtype) in _TORCH_NAMES:
            name = _TORCH_NAMES[str(tensor.dtype)]
            bits = tensor.contiguous().view(torch.int16 if tensor.element_size() == 2 else torch.uint8)
            return numbers(bits.numpy().view(stored_dtype(name)), name)
        try:
            return tensor.numpy()
        except TypeError as error:
            raise ValueError(f"a tensor of {value.dtype} is no array of numbers: {error}") from None
    if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
        return [plain(each) for each in value]
    return value


def _array(value: Any) -> tuple[Array, list[tuple[tuple[int, ...], int]]]:
    """Return the numbers that the value is or holds, and where NumPy has made floating-point numbers of integers."""
    value = plain(value)
    if lacks_values(value):
        raise ValueError("a masked array lacks values; fill them, or give None for the whole")
    array = np.asarray(value)
    integers: list[tuple[tuple[int, ...], int]] = []
    if array.dtype.kind == "O":
        value = array.tolist()
        array = _of_objects(array)
    if array.dtype.kind not in "biufcM" and array.dtype.name not in _SMALL_NAMES:
        given = type(value).__name__ if array.ndim == 0 else f"an array of {array.dtype}"
        raise ValueError(f"a number is wanted, not {value!r:.40}, which is {given}")
    if isinstance(value, (list, tuple, int)) and array.dtype.kind in "fcM":
        for place, each in np.ndenumerate(np.array(value, dtype=object)):
            each = each[()] if isinstance(each, np.ndarray) else each
            if array.dtype.kind == "M" and not isinstance(each, (np.datetime64, datetime.date)):
                raise ValueError(f"a time is wanted, not {each}{_at(place)}")
            if isinstance(each, (int, np.integer)):
                integers.append((place, int(each)))
    return array, integers


def _of_objects(array: Array) -> Array:
    """Return Python's times, and integers too large for NumPy's, as NumPy's nearest numbers; else the array."""
    made: Array = np.asarray(array.tolist())
    if made.dtype.kind != "O":
        return made
    objects = [each for _, each in np.ndenumerate(array)]
    if all(isinstance(each, datetime.date) for each in objects):
        utc = [
            each.astimezone(datetime.timezone.utc).replace(tzinfo=None)
            if isinstance(each, datetime.datetime) and each.tzinfo is not None
            else each
            for each in objects
        ]
        return np.array(utc, "M8[us]").reshape(array.shape)
    if all(isinstance(each, (int, float)) for each in objects):
        try:
            return np.array([float(each) for each in objects]).reshape(array.shape)
        except OverflowError:
            pass
    return array


def _convert(array: Array, name: str, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the array as the type, and which of its numbers are there."""
    if "M" in (array.dtype.kind, dtype.kind):
        return _times(array, dtype)
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    every = np.ones(array.shape, bool)
    if dtype.kind == "c":
        made = np.zeros(array.shape, dtype)
        part = np.dtype(f"f{dtype.itemsize // 2}")
        made.real, fits = _convert(array.real, name, part)
        made.imag, fits_too = _convert(array.imag, name, part)
        return made, fits & fits_too
    if array.dtype.kind == "c":
        every = array.imag == 0
        array = array.real
    if dtype.kind == "b":
        return array.astype(dtype), every & ((array == 0) | (array == 1))
    if dtype.kind == "f" or name in _SMALL:
        return _floats(array, name, dtype, every)
    if array.dtype.kind == "f":
        wide = array if array.dtype.itemsize > 8 else array.astype(np.float64)
        limits = np.iinfo(dtype)
        fits = (wide == np.trunc(wide)) & (wide >= float(limits.min)) & (wide < float(limits.max + 1))
        return np.where(fits, wide, 0).astype(dtype), every & fits
    return array.astype(dtype), every & _between(array, np.iinfo(dtype).min, np.iinfo(dtype).max)


def _between(array: Array, least: int, most: int) -> Array:
    """Tell of integers which are in a range, without a conversion of theirs."""
    limits = np.iinfo(array.dtype)
    least, most = max(least, int(limits.min)), min(most, int(limits.max))
    there: Array = (array >= array.dtype.type(least)) & (array <= array.dtype.type(most))
    return there


def _floats(array: Array, name: str, dtype: np.dtype[Any], fits: Array) -> tuple[Array, Array]:
    if name in _SMALL:
        converted, there = _narrowed(array, name)
        fits = fits & there
    else:
        converted = array.astype(dtype)
    if array.dtype.kind == "f":
        if name not in _SMALL:
            fits = fits & (np.isfinite(converted) | ~np.isfinite(array))
        return converted, fits
    found = _widened(converted, name) if name in _SMALL else converted
    digits = _SMALL[name].mantissa if name in _SMALL else np.finfo(dtype).nmant
    large = ~_between(array, -(2 << digits), 2 << digits)
    fits = np.array(fits)
    for place in map(tuple, np.argwhere(large)):
        fits[place] &= float(found[place]) == int(array[place])
    return converted, fits


def _times(array: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    if array.dtype.kind == "M" and dtype.kind == "M":
        converted = array.astype(dtype)
        fits: Array = (converted.astype(array.dtype) == array) | np.isnat(array)
        return converted, fits
    if dtype.kind == "M" and array.dtype.kind in "iu":
        # The least of all stands for a time that is none.
        return array.astype(np.int64).view(dtype), _between(array, -(2**63) + 1, 2**63 - 1)
    raise ValueError(f"a value of {array.dtype} is no {'time' if dtype.kind == 'M' else 'number'}")
