"""Numbers and paths as mosaicml-streaming writes them."""

from __future__ import annotations

_BYTES = {"kb": 10, "mb": 20, "gb": 30, "tb": 40, "pb": 50, "eb": 60, "zb": 70, "yb": 80, "b": 0, "": 0}
_COUNTS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12, "": 1}


def _with_suffix(given: int | float | str, suffixes: dict[str, int], what: str) -> int:
    if not isinstance(given, str):
        return int(given)
    text = given.lower().strip()
    suffix = next(each for each in suffixes if text.endswith(each))
    number = text[: len(text) - len(suffix)]
    try:
        return int(number) * suffixes[suffix] if number.isdigit() else int(float(number) * suffixes[suffix])
    except (ValueError, OverflowError):
        known = ", ".join(each for each in suffixes if each)
        raise ValueError(f"{what}: Unsupported value/suffix {given}. Supported suffix are {known}") from None


def byte_count(given: int | float | str, what: str) -> int:
    """Return a number of bytes, given also as ``"64mb"``, which is 64 MiB."""
    made = _with_suffix(given, {name: 1 << bits for name, bits in _BYTES.items()}, what)
    if made < 0:
        raise ValueError(f"{what} must be greater than zero, and is {made}")
    return made


def sample_count(given: int | float | str, what: str) -> int:
    """Return a number of samples, given also as ``"100k"``."""
    made = _with_suffix(given, _COUNTS, what)
    if made < 0:
        raise ValueError(f"{what} cannot be negative: {made}")
    return made


def is_url(path: str) -> bool:
    """Tell whether a path leads to a store."""
    return "://" in path
