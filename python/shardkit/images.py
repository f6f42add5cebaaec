"""Images: how loaders decode them, and single ones, decoded and encoded."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from shardkit import _core, _numbers
from shardkit._numbers import NDArray
from shardkit._options import checked
from shardkit.schema import Column, column


def _check_flip(flip: float, name: str) -> None:
    if isinstance(flip, bool) or not 0 <= flip <= 1:
        raise ValueError(f"{name}={flip!r}: give a probability from 0 to 1, as 0.5")


@checked
@dataclass(frozen=True)
class Geometry:
    """How the images of a sample, and the masks that belong to them, are transformed.

    Parameters
    ----------
    kind : str
        ``"native"`` (as stored), ``"resize"`` (to width x height), ``"center_crop"`` (the shorter side to `resize`,
        then width x width from the middle), ``"random_resized_crop"`` (a random box, to width x height),
        ``"random_crop"`` (width x height pixels at a random place), ``"longest_side"`` (the longer side to `width`,
        padded at the right or below to width x width) or ``"letterbox"`` (as large as fits in width x height, in the
        middle of padding).
    width, height, resize : int
        Pixels; height and resize of 0 are `width`.
    min_scale, max_scale : float
        Of a random box: its area as a part of the image's.
    min_ratio, max_ratio : float
        Of a random box: width / height.
    padding : int
        Of a random crop: pixels of padding around the image that it may show.
    min_zoom, max_zoom : float
        Of a random crop: what the image's sides are multiplied by first.
    flip_probability, vertical_flip_probability : float
        Of mirroring it left to right, and top to bottom, 0 to 1.
    rotate90 : bool
        Turn it by 0, 90, 180 or 270 degrees, equally often, before the crop.
    apply_orientation : bool
        Turn the image upright as its EXIF orientation says.
    """

    kind: str = "native"
    width: int = 0
    height: int = 0
    resize: int = 0
    min_scale: float = 0.08
    max_scale: float = 1.0
    min_ratio: float = 3 / 4
    max_ratio: float = 4 / 3
    padding: int = 0
    min_zoom: float = 1.0
    max_zoom: float = 1.0
    flip_probability: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    vertical_flip_probability: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    rotate90: bool = False
    apply_orientation: bool = False

    def __post_init__(self) -> None:
        kinds = ("native", "resize", "center_crop", "random_resized_crop", "random_crop", "longest_side", "letterbox")
        if self.kind not in kinds:
            raise ValueError(f"kind: give one of {', '.join(kinds)}, not {self.kind!r}")
        _check_flip(self.flip_probability, "flip_probability")
        _check_flip(self.vertical_flip_probability, "vertical_flip_probability")
        box = (self.min_scale, self.max_scale, self.min_ratio, self.max_ratio)
        if self.kind == "native" and (self.width or self.height or self.resize):
            raise ValueError("width, height and resize are for the other kinds; native images are as stored")
        if self.kind != "center_crop" and self.resize:
            raise ValueError(f"resize is for center_crop; {self.kind} has none")
        if self.kind != "random_resized_crop" and box != (0.08, 1.0, 3 / 4, 4 / 3):
            raise ValueError(f"scale and ratio are for random_resized_crop; {self.kind} has no random box")
        if self.kind != "random_crop" and (self.padding, self.min_zoom, self.max_zoom) != (0, 1.0, 1.0):
            raise ValueError(f"padding and zoom are for random_crop; {self.kind} has none")


@checked
@dataclass(frozen=True)
class Image:
    """Image files decoded to uint8, [samples, height, width, channels]; `Ragged` when sizes differ.

    The formats are JPEG, PNG, WebP, GIF, BMP, TIFF and, except in wheels, AVIF; of an animation the first frame is the
    image. Arrays of uint8, [height, width] or [height, width, 1, 3 or 4], are images, too. With another `dtype` images
    come as a model takes them, made by the threads that decode, or on the device: ``mean`` and ``std`` are those of
    torchvision's Normalize, and without them pixels are from 0 to 1.

    Parameters
    ----------
    crop : str
        ``"random"`` (a random box, resized: torchvision's RandomResizedCrop), ``"window"`` (`size` pixels at a random
        place: RandomCrop), ``"center"``, ``"longest"`` (the longer side to `size`, padded at the right or below to a
        square, as for SAM), ``"letterbox"`` (as large as fits, padded on both sides, as for YOLO), ``"resize"`` (to the
        size, whatever the proportions); by default ``"resize"`` when there is a size, else as stored.
    size : int or (int, int)
        Pixels: of both sides, or height and width.
    resize : int
        For ``"center"``: what the shorter side becomes first.
    flip, vertical_flip : float
        Probability of mirroring left to right, and top to bottom.
    rotate90 : bool
        Turn it by 0, 90, 180 or 270 degrees, equally often, before the crop.
    scale, ratio : (float, float)
        For ``"random"``: area of the box as a part of the image's, and its width / height.
    padding : int
        For ``"window"``: pixels around the image that the window may show. A smaller image has padding in any case.
    zoom : (float, float)
        For ``"window"``: what the image's sides are multiplied by first, any number from the first to the second.
    interpolation : str
        ``"bilinear"`` or ``"bicubic"``, both antialiased, as Pillow's.
    jitter : (float, float, float, float)
        Brightness, contrast, saturation and hue of torchvision's ColorJitter, as ``(0.4, 0.4, 0.4, 0.1)``.
    jitter_probability, grayscale : float
        Of that jitter, and of gray in place of colors.
    erasing : float
        Probability of erasing a box, as torchvision's RandomErasing: it becomes the `mean`; without one, black.
    apply_orientation : bool
        Turn upright as EXIF says.
    dtype : str
        ``"u8"``, ``"f32"``, ``"f16"`` or ``"bf16"``.
    layout : str
        ``"hwc"`` or ``"chw"``, [samples, channels, height, width]; by default hwc for u8. Floats are chw.
    mean, std : (float, float, float)
        Of pixels from 0 to 1, for each channel, the first alone for gray; for floats.
    channels : int
        3 for RGB, 1 for gray, 4 for RGBA: 255 where a file has no transparency, each channel resized alone, and
        padding of 0; not for jitter, grayscale, erasing and devices. With floats, transparency is from 0 to 1
        whatever `mean` and `std`. Not for label maps, which `LabelMap` decodes: what this gives of a gray PNG
        of class ids is blended where the size changes, and a file with a palette is refused with 1, because
        gray would replace its indices.
    scaled_decode : bool
        When it shrinks, decode at 1/2, 1/4 or 1/8: faster, with slightly other pixels.
    reduce_depth : bool
        Of PNGs and TIFFs of 16 bits per channel, and AVIFs of 10 or 12, take the upper 8; without it they are refused,
        because 8 bits hold one of 256 values of a depth map: ``LabelMap("u16", fill=0)`` takes all 16 of a gray PNG or
        TIFF.
    strict : bool
        Take a JPEG that libjpeg decodes with a warning (bytes too many before a marker, a premature end, after which
        the rest is gray) for a bad sample. Without it such images are decoded, as PIL and browsers do, and counted:
        ``Loader.report().warned_images``.
    fill : (int, int, int)
        The value of padding.
    max_memory : int
        Bytes that decoding one image may take; an image that needs more is a bad sample.
    deferred : bool
        Images come whole and as stored, and `Batch.geometries` says what is to be done with each: for those who crop
        and resize on a GPU.
    source : str
        The stored column, where the batch's column has another name.
    own_geometry : bool
        Crop and flip it independently of other images of the sample: for several views of one image, each a column of
        the batch with the same `source`. What belongs to it names it with ``of=``.
    """

    crop: str | None = None
    size: Annotated[int | tuple[int, int] | None, "pixels, as 224, or (224, 160) for height and width"] = None
    resize: int = 0
    flip: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    vertical_flip: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    rotate90: bool = False
    scale: Annotated[tuple[float, float], "the least and the most, as (0.08, 1.0)"] = (0.08, 1.0)
    ratio: Annotated[tuple[float, float], "the least and the most, as (0.75, 1.33)"] = (3 / 4, 4 / 3)
    padding: int = 0
    zoom: Annotated[tuple[float, float], "the least and the most, as (0.5, 2.0)"] = (1.0, 1.0)
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    jitter: Annotated[
        tuple[float, float, float, float] | None, "brightness, contrast, saturation and hue, as (0.4, 0.4, 0.4, 0.1)"
    ] = None
    jitter_probability: Annotated[float, "a probability from 0 to 1, as 0.5"] = 1.0
    grayscale: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    erasing: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    apply_orientation: bool = False
    dtype: str = "u8"
    layout: str | None = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    channels: int = 3
    scaled_decode: bool = True
    reduce_depth: bool = False
    strict: bool = False
    fill: tuple[int, int, int] = (0, 0, 0)
    max_memory: int = 224 << 20
    deferred: bool = False
    source: str = ""
    own_geometry: bool = False

    decode = "image"

    def __post_init__(self) -> None:
        _check_flip(self.flip, "flip")
        _check_flip(self.vertical_flip, "vertical_flip")
        if self.size is not None:
            sides = self.size if isinstance(self.size, (tuple, list)) else (self.size, self.size)
            whole = all(hasattr(side, "__index__") and not isinstance(side, bool) and side > 0 for side in sides)
            if not whole or len(sides) != 2:
                raise ValueError(f"size={self.size!r}: give pixels, as 224, or (224, 160) for height and width")
        if self.resize and self.crop != "center":
            raise ValueError('resize is what the shorter side becomes before crop="center"; give that, or size')
        for name, default, example, crop in (
            ("scale", (0.08, 1.0), (0.08, 1.0), "random"),
            ("ratio", (3 / 4, 4 / 3), (0.75, 1.33), "random"),
            ("zoom", (1.0, 1.0), (0.5, 2.0), "window"),
        ):
            given = getattr(self, name)
            if not (isinstance(given, (tuple, list)) and len(given) == 2):
                raise ValueError(f"{name}={given!r}: give the least and the most, as {example}")
            if tuple(given) != default and self.crop != crop:
                raise ValueError(f'{name} is for crop="{crop}"')
        if self.padding and self.crop != "window":
            raise ValueError('padding is what crop="window" may show around the image')
        if tuple(self.fill) != (0, 0, 0) and self.crop not in ("longest", "letterbox", "window"):
            raise ValueError('fill is for the padding of crop="longest", "letterbox" and "window"; this has none')
        for name in ("grayscale", "erasing", "jitter_probability"):
            _check_flip(getattr(self, name), name)
        if self.jitter is None:
            if self.jitter_probability != 1.0:
                raise ValueError("jitter_probability is that of jitter, and there is none")
        elif not (len(self.jitter) == 4 and all(0 <= part <= 255 for part in self.jitter) and self.jitter[3] <= 0.5):
            raise ValueError(
                f"jitter={self.jitter!r}: give brightness, contrast and saturation, and a hue up to 0.5, as "
                "(0.4, 0.4, 0.4, 0.1)"
            )
        elif self.channels == 1 and (self.jitter[2] or self.jitter[3]):
            raise ValueError(f"jitter={self.jitter!r}: gray has no saturation and no hue; give 0 for the two")
        if self.channels == 4 and (self.jitter is not None or self.grayscale or self.erasing):
            raise ValueError("jitter, grayscale and erasing are for channels=1 and 3, not for RGBA")
        if self.channels == 1 and self.grayscale:
            raise ValueError("grayscale is for channels=3; these are gray")
        if self.deferred and (self.jitter is not None or self.grayscale or self.erasing):
            raise ValueError("jitter, grayscale and erasing change pixels, and deferred images come as stored")
        if self.dtype not in ("u8", "f32", "f16", "bf16"):
            raise ValueError(f"dtype={self.dtype!r}: pixels become u8, f32, f16 or bf16")
        if self.layout not in (None, "hwc", "chw"):
            raise ValueError(f'layout={self.layout!r}: give "hwc" or "chw"')
        if self.dtype != "u8" and self.layout == "hwc":
            raise ValueError('floats have the layout "chw"; .contiguous(memory_format=) of torch makes channels_last')
        if self.dtype == "u8" and (tuple(self.mean), tuple(self.std)) != ((0.0,) * 3, (1.0,) * 3):
            raise ValueError('mean and std are for the float types; give dtype="f32"')
        if not all(math.isfinite(number) for number in (*self.mean, *self.std)) or 0 in self.std:
            raise ValueError(f"mean={self.mean}, std={self.std}: give numbers, and a std that is not 0")
        if self.deferred and (self.dtype != "u8" or self.layout == "chw"):
            raise ValueError("deferred images come as stored, of dtype u8 and layout hwc")
        self.geometry()

    def geometry(self) -> Geometry:
        """Return the geometry of the whole sample."""
        kinds = {
            None: "native" if self.size is None else "resize",
            "resize": "resize",
            "center": "center_crop",
            "random": "random_resized_crop",
            "window": "random_crop",
            "longest": "longest_side",
            "letterbox": "letterbox",
        }
        if self.crop not in kinds:
            raise ValueError(f"crop: give random, window, center, longest, letterbox or resize, not {self.crop!r}")
        if self.crop is not None and self.size is None:
            raise ValueError(f"crop={self.crop!r} needs a size")
        size = (0, 0) if self.size is None else self.size
        height, width = map(int, size if isinstance(size, (tuple, list)) else (size, size))
        if self.crop in ("center", "longest") and height != width:
            raise ValueError(f"crop={self.crop!r} gives squares: give one size")
        return Geometry(
            kind=kinds[self.crop],
            width=width,
            height=height,
            resize=self.resize,
            min_scale=self.scale[0],
            max_scale=self.scale[1],
            min_ratio=self.ratio[0],
            max_ratio=self.ratio[1],
            padding=self.padding,
            min_zoom=self.zoom[0],
            max_zoom=self.zoom[1],
            flip_probability=self.flip,
            vertical_flip_probability=self.vertical_flip,
            rotate90=self.rotate90,
            apply_orientation=self.apply_orientation,
        )

    def options(self) -> dict[str, Any]:
        """Return what the library's column is given."""
        return {
            "channels": self.channels,
            "scaled_decode": self.scaled_decode,
            "reduce_depth": self.reduce_depth,
            "strict": self.strict,
            "fill": list(self.fill),
            "interpolation": self.interpolation,
            "jitter": list(self.jitter or (0, 0, 0, 0)),
            "jitter_probability": self.jitter_probability,
            "grayscale": self.grayscale,
            "erasing": self.erasing,
            "max_memory": self.max_memory,
            "deferred": self.deferred,
            "source": self.source,
            "dtype": self.dtype,
            "layout": self.layout or ("hwc" if self.dtype == "u8" else "chw"),
            "mean": list(self.mean),
            "std": list(self.std),
        }


@checked
def image_list(value: bytes) -> list[bytes]:
    """Return the files in a value that is a list of images, as MDS has them.

    These are the values of the encodings jpeg_array, list[jpeg], list[png] and list[pil]. In a `Loader`, this is the
    function of such a column: ``columns={"frames": sk.image_list}``.

    Parameters
    ----------
    value : bytes
        The value.

    Raises
    ------
    DataLossError
        When the sizes in it are not those of the files.
    """
    data = _bytes(value)
    # The lists of MDS begin with four bytes of 0, and its arrays of JPEGs do not.
    head = 4 if len(data) > 4 and not any(data[:4]) else 0
    begin = head + 4 + 4 * int.from_bytes(data[head : head + 4], "little")
    ends = [begin]
    if begin <= len(data):
        ends = list(itertools.accumulate(np.frombuffer(data[head + 4 : begin], "<u4").tolist(), initial=begin))
    if ends[-1] != len(data):
        raise _core.DataLossError(f"a list of images of {len(data)} bytes, which are not those that its sizes say")
    return [data[first:last] for first, last in itertools.pairwise(ends)]


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
) -> NDArray[np.uint8]:
    """Decode a JPEG, PNG, WebP, GIF, BMP, TIFF or, except in wheels, AVIF. Does not hold the GIL.

    Parameters
    ----------
    data : bytes
        The file.
    size : (height, width)
        Resize to so many pixels, bilinear and antialiased; as stored by default.
    channels : int
        3 for RGB, 1 for gray, 4 for RGBA (255 where the file has no transparency). A file with a palette is refused
        with 1, because gray would replace its indices.
    apply_orientation : bool
        Turn the image upright as its EXIF orientation says.
    scaled_decode : bool
        When it shrinks, decode at 1/2, 1/4 or 1/8, which is faster and gives slightly other pixels.
    reduce_depth : bool
        Of a PNG or TIFF of 16 bits per channel, or an AVIF of 10 or 12, take the upper 8; without it such a file is
        refused.
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
        For a file that is refused as above.
    NotImplementedError
        For other formats, and for those whose library this build lacks.
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
