"""Decoding single images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit import _core


def decode_image(
    data: bytes,
    *,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    apply_orientation: bool = False,
    scaled_decode: bool = True,
    max_memory: int = 224 << 20,
) -> npt.NDArray[np.uint8]:
    """Decode a JPEG or PNG. Does not hold the GIL.

    Parameters
    ----------
    data : bytes
        The file.
    size : (height, width)
        Resize to so many pixels, bilinear and antialiased; as stored by default.
    channels : int
        3 for RGB, 1 for gray.
    apply_orientation : bool
        Turn the image upright as its EXIF orientation says.
    scaled_decode : bool
        When it shrinks, decode at 1/2, 1/4 or 1/8, which is faster and gives slightly other pixels.
    max_memory : int
        Bytes that decoding may take.

    Returns
    -------
    numpy.ndarray
        uint8, [height, width, channels].

    Raises
    ------
    DataLossError
        When the file is damaged.
    NotImplementedError
        For other formats.
    MemoryError
        For an image that needs more than `max_memory`.
    """
    return _core.decode_image(
        _bytes(data),
        size=size,
        channels=channels,
        apply_orientation=apply_orientation,
        scaled_decode=scaled_decode,
        max_memory=max_memory,
    )


def _bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data))
