"""The tf.Examples of TFRecord files, without TensorFlow."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from shardkit._numbers import Array, NDArray
from shardkit._values import damaged

# The values of a feature; None: it says nothing, not even of which type.
Values = list[bytes] | Array | None

_LARGEST = 1 << 31  # bytes of a message of protobuf


def examples(path: str) -> Iterator[dict[str, Values]]:
    """Yield the features of each example of a file, perhaps compressed with gzip."""
    for number, record in enumerate(_records(path)):
        try:
            example: dict[str, Values] = {}
            for top, features in _fields(record, 1, 2):
                if top == 2:
                    raise ValueError("it is a tf.SequenceExample, which has lists of features")
                for _, entry in _fields(features, 1):
                    name, feature = b"", b""
                    for field, value in _fields(entry, 1, 2):
                        name, feature = (value, feature) if field == 1 else (name, value)
                    example[bytes(name).decode()] = _values(feature)
        except (ValueError, IndexError) as error:
            raise damaged(f"{path}: record {number} is no tf.Example: {error}", path) from None
        yield example


def _records(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        head = file.read(12)
        file.seek(0)
        # Two bytes alone could also be those of a length.
        if head[:2] == b"\x1f\x8b" and not _is_whole(head[:8], head[8:]):
            with gzip.open(file) as unzipped:
                yield from _records_of(path, unzipped)
        else:
            yield from _records_of(path, file)


def _records_of(path: str, file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    at = number = 0
    while True:
        try:
            head = file.read(12)
            if not head:
                return
            length = int.from_bytes(head[:8], "little")
            if not _is_whole(head[:8], head[8:]) or length > _LARGEST:
                raise ValueError("its length is damaged" if len(head) == 12 else "the file ends in it")
            content, check = file.read(length), file.read(4)
            if len(content) < length or len(check) < 4:
                raise ValueError("the file ends in it")
            if not _is_whole(content, check):
                raise ValueError("its checksum is another")
        except (ValueError, EOFError, OSError) as error:
            raise damaged(f"{path}: record {number}, at byte {at}: {error}", path) from None
        yield content
        at, number = at + 16 + length, number + 1


def _is_whole(content: bytes, check: bytes) -> bool:
    """Tell whether a checksum of TFRecord is the one of the content."""
    import crc32c

    crc = crc32c.crc32c(content)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return check == struct.pack("<I", masked)


def _varint(message: Any, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _fields(message: Any, *numbers: int) -> Iterator[tuple[int, Any]]:
    """Yield number and content of those fields of a message that have a length, or a number of 32 or 64 bits."""
    message, at = memoryview(message), 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            begin = at
            _, at = _varint(message, at)
        elif kind in (1, 2, 5):
            size, begin = _varint(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            at = begin + size
        else:
            raise ValueError(f"a field has the unknown type {kind}")
        if at > len(message):
            raise ValueError("a field is longer than its message")
        if tag >> 3 in numbers:
            yield tag >> 3, message[begin:at]


def _values(feature: Any) -> Values:
    for kind, values in _fields(feature, 1, 2, 3):
        parts = [part for _, part in _fields(values, 1)]
        if kind == 1:
            return [bytes(part) for part in parts]
        whole = b"".join(parts)  # packed or not
        return np.frombuffer(whole, "<f4") if kind == 2 else _integers(whole)
    return None


def _integers(packed: bytes) -> NDArray[np.int64]:
    stored = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(stored < 128)
    if len(stored) > 0 and (len(ends) == 0 or ends[-1] != len(stored) - 1):
        raise ValueError("a list of integers ends in one")
    begins = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    sizes = ends - begins + 1
    most = int(sizes.max(initial=0))
    if most > 10:
        raise ValueError("a number has more than 64 bits")
    made = np.zeros(len(ends), np.uint64)
    for k in range(most):
        there = sizes > k
        made[there] |= (stored[begins[there] + k] & 127).astype(np.uint64) << np.uint64(7 * k)
    return made.view(np.int64)
