"""Single images, decoded and encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from shardkit import _core, _numbers
from shardkit._options import checked
from shardkit.schema import Column, column


@checked
def decode_image(
    data: bytes,
    *,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    apply_orientation: bool = False,
    scaled_decode: bool = True,
    reduce_depth: bool = False,
    strict: bool = False,
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
        3 for RGB, 1 for gray. A PNG with a palette is refused with 1, because gray would replace its indices.
    apply_orientation : bool
        Turn the image upright as its EXIF orientation says.
    scaled_decode : bool
        When it shrinks, decode at 1/2, 1/4 or 1/8, which is faster and gives slightly other pixels.
    reduce_depth : bool
        Of a PNG of 16 bits per channel take the upper 8; without it such a PNG is refused.
    strict : bool
        Refuse a JPEG that libjpeg decodes with a warning (a premature end, after which the rest is gray); without it
        that is a ``UserWarning``.
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
    ValueError
        For a PNG that is refused as above.
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
        reduce_depth=reduce_depth,
        strict=strict,
        max_memory=max_memory,
    )


@checked
@dataclass(frozen=True)
class Encode:
    """A column of images for `Writer` and `pack` that takes pixels, and stores them as files.

    It takes images of PIL of mode RGB or L, and uint8 arrays and tensors, [height, width, 3], [height, width, 1] or
    [height, width]. Files of the type, as bytes, stay as they are.

    Parameters
    ----------
    kind : str
        ``"jpeg"``, or ``"jpeg?"`` where samples may lack it.
    quality : int
        1 to 100; less is smaller, and further from the pixels.
    """

    kind: str = "jpeg"
    quality: Annotated[int, "1 to 100"] = 95

    def __post_init__(self) -> None:
        if self.kind not in ("jpeg", "jpeg?"):
            raise ValueError(f'pixels are encoded as "jpeg" or "jpeg?", not {self.kind!r}; give other files as bytes')
        if isinstance(self.quality, bool) or not 1 <= self.quality <= 100:
            raise ValueError(f"quality={self.quality!r}: give 1 to 100")

    def __call__(self, value: Any) -> Any:
        """Return the file of these pixels; what is none, bytes or None, as it is."""
        if value is None or isinstance(value, (bytes, bytearray, memoryview)):
            return value
        if hasattr(value, "getbands") and value.mode not in ("RGB", "L"):
            raise ValueError(f'an image of mode {value.mode} is no RGB: give image.convert("RGB")')
        pixels = np.asarray(_numbers.plain(value))
        if pixels.dtype != np.uint8:
            raise ValueError(f"pixels are uint8, from 0 to 255, not {pixels.dtype}")
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or pixels.size == 0:
            raise ValueError(f"pixels have the shape [height, width, 3] or [height, width], not {pixels.shape}")
        height, width, _ = pixels.shape
        rgb = np.ascontiguousarray(np.broadcast_to(pixels, (height, width, 3)))
        return _core.encode_jpeg(rgb.tobytes(), width, height, self.quality)


def as_column(name: str, kind: str | type | Column | Encode) -> Column:
    """Return the column that a description, or what encodes its values, stands for."""
    if isinstance(kind, Column):
        return kind
    return column(name, kind.kind if isinstance(kind, Encode) else kind)


def encoded(kind: str | type | Column | Encode, value: Any) -> Any:
    """Return the value as the column takes it."""
    return kind(value) if isinstance(kind, Encode) else value


def _bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data))
