"""Files of TFRecord with tf.Examples, written byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values: Sequence[Any] | None, packed: bool = True) -> bytes:
    """Bytes, numbers with a fraction, or integers; None: a feature that says nothing."""
    if values is None:
        return b""
    if isinstance(values, list) and all(isinstance(value, bytes) for value in values):
        return field(1, b"".join(field(1, value) for value in values))
    if any(isinstance(value, float) for value in values):
        parts = [struct.pack("<f", value) for value in values]
        return field(2, field(1, b"".join(parts)) if packed else b"".join(varint(1 << 3 | 5) + part for part in parts))
    parts = [varint(value) for value in values]
    return field(3, field(1, b"".join(parts)) if packed else b"".join(varint(1 << 3) + part for part in parts))


def example(row: dict[str, Any], packed: bool = True) -> bytes:
    entries = (field(1, name.encode()) + field(2, feature(values, packed)) for name, values in row.items())
    return field(1, b"".join(field(1, entry) for entry in entries))


def masked(content: bytes) -> bytes:
    import crc32c

    crc = crc32c.crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def records(contents: Sequence[bytes]) -> bytes:
    lengths = [struct.pack("<Q", len(content)) for content in contents]
    return b"".join(
        length + masked(length) + content + masked(content) for length, content in zip(lengths, contents, strict=True)
    )
