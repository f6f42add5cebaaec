"""How the columns of a loader become arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, SupportsIndex

from shardkit._options import checked

__all__ = [
    "Boxes",
    "DenseMasks",
    "Geometry",
    "Image",
    "Items",
    "LabelMap",
    "PackedMasks",
    "Points",
    "Stored",
    "Tokens",
    "Views",
]


def _check_flip(flip: float, name: str) -> None:
    if isinstance(flip, bool) or not 0 <= flip <= 1:
        raise ValueError(f"{name}={flip!r}: give a probability from 0 to 1, as 0.5")


Choose = Literal["first", "random", "largest"]


def _check_chooser(kind: DenseMasks | Boxes) -> None:
    if isinstance(kind.with_columns, str):
        raise TypeError(f"with_columns={kind.with_columns!r}: give a list of names")
    if kind.choose != "first" and kind.most == 0:
        raise ValueError(f"choose={kind.choose!r}: without `most` there is nothing to choose")
    if kind.along and (kind.most > 0 or kind.with_columns):
        raise ValueError("along: the other column says which items there are; leave most and with_columns out")


@checked
@dataclass(frozen=True)
class Geometry:
    """How the images of a sample, and the masks that belong to them, are transformed.

    Parameters
    ----------
    kind : str
        ``"native"`` (as stored), ``"resize"`` (to width x height), ``"center_crop"`` (the shorter side to `resize`,
        then width x width from the middle), ``"random_resized_crop"`` (a random box, to width x height) or
        ``"longest_side"`` (the longer side to `width`, padded to width x width).
    width, height, resize : int
        Pixels; height and resize of 0 are `width`.
    min_scale, max_scale : float
        Of a random box: its area as a part of the image's.
    min_ratio, max_ratio : float
        Of a random box: width / height.
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
    flip_probability: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    vertical_flip_probability: Annotated[float, "a probability from 0 to 1, as 0.5"] = 0.0
    rotate90: bool = False
    apply_orientation: bool = False

    def __post_init__(self) -> None:
        kinds = ("native", "resize", "center_crop", "random_resized_crop", "longest_side")
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


@dataclass(frozen=True)
class Stored:
    """As stored: an array [samples, …], or `Ragged` where sizes differ."""

    decode = "stored"


@dataclass(frozen=True)
class Views:
    """The bytes of each value where they were read: a list of read-only arrays, None where absent. No copy."""

    decode = "views"


@checked
@dataclass(frozen=True)
class Image:
    """JPEG and PNG decoded to uint8, [samples, height, width, channels]; `Ragged` when sizes differ.

    With another `dtype` they come as a model takes them, made by the threads that decode, or on the device: ``mean``
    and ``std`` are those of torchvision's Normalize, and without them pixels are from 0 to 1.

    Parameters
    ----------
    crop : str
        ``"random"``, ``"center"``, ``"longest"`` (pad to a square), ``"resize"`` (to the size, whatever the
        proportions); by default ``"resize"`` when there is a size, else as stored.
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
    apply_orientation : bool
        Turn upright as EXIF says.
    dtype : str
        ``"u8"``, ``"f32"``, ``"f16"`` or ``"bf16"``.
    layout : str
        ``"hwc"`` or ``"chw"``, [samples, channels, height, width]; by default hwc for u8. Floats are chw.
    mean, std : (float, float, float)
        Of pixels from 0 to 1, for each channel, the first alone for gray; for floats.
    channels : int
        3 for RGB, 1 for gray. Not for label maps, which `LabelMap` decodes: what this gives of a gray PNG of class ids
        is blended where the size changes, and a PNG with a palette is refused with 1, because gray would replace its
        indices.
    scaled_decode : bool
        When it shrinks, decode at 1/2, 1/4 or 1/8: faster, with slightly other pixels.
    reduce_depth : bool
        Of PNGs of 16 bits per channel take the upper 8; without it they are refused, because 8 bits hold one of 256
        values of a depth map.
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
        for name, default in (("scale", (0.08, 1.0)), ("ratio", (3 / 4, 4 / 3))):
            given = getattr(self, name)
            if not (isinstance(given, (tuple, list)) and len(given) == 2):
                raise ValueError(f"{name}={given!r}: give the least and the most, as {default}")
            if tuple(given) != default and self.crop != "random":
                raise ValueError(f'{name} is that of the box of crop="random"')
        if tuple(self.fill) != (0, 0, 0) and self.crop != "longest":
            raise ValueError('fill is for the padding of crop="longest"; this has none')
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
            "longest": "longest_side",
        }
        if self.crop not in kinds:
            raise ValueError(f"crop: give random, center, longest or resize, not {self.crop!r}")
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
            "max_memory": self.max_memory,
            "deferred": self.deferred,
            "source": self.source,
            "dtype": self.dtype,
            "layout": self.layout or ("hwc" if self.dtype == "u8" else "chw"),
            "mean": list(self.mean),
            "std": list(self.std),
        }


@checked
@dataclass(frozen=True)
class DenseMasks:
    """Masks of type rle as uint8, 0 or 1, through the geometry of the image.

    Parameters
    ----------
    pad_masks : bool
        One array [samples, most masks, height, width], zeros where a sample has fewer; else the masks of all samples
        after one another. ``batch.counts(name)`` says how many each sample has.
    deferred : bool
        Masks come as runs and as stored, and `Batch.geometries` says what is to be done with each.
    most : int
        The most masks of a sample; 0 for all.
    choose : str
        Which ones a sample with more has: the ``"first"``, ``"random"`` ones, others in every epoch, or the
        ``"largest"``, by their pixels as stored. They keep their order.
    with_columns : sequence of str
        Columns of one entry for each mask, which lose the entries of masks that are left out: arrays such as scores as
        `Items`, or as `Points`, `Boxes` or masks where the columns of the loader say so.
    along : str
        The column of boxes or masks that says which masks there are, as its `with_columns` does.
    source : str
        The stored column, where the batch's column has another name.
    of : str
        The column of the image that they belong to, where the batch has several views; by default the first.
    """

    pad_masks: bool = False
    deferred: bool = False
    most: int = 0
    choose: Choose = "first"
    with_columns: Sequence[str] = ()
    along: str = ""
    source: str = ""
    of: str = ""

    decode = "masks"

    def __post_init__(self) -> None:
        if self.pad_masks and self.deferred:
            raise ValueError("pad_masks is for masks that are decoded; deferred ones come as runs")
        _check_chooser(self)

    def options(self) -> dict[str, Any]:
        """Return what the library's column is given."""
        names = ("pad_masks", "deferred", "most", "choose", "along", "source", "of")
        return {name: getattr(self, name) for name in names}


class PackedMasks(DenseMasks):
    """As `DenseMasks`, one bit per pixel, the lowest first; rows are whole bytes."""

    decode = "packed_masks"


@checked
@dataclass(frozen=True)
class Tokens:
    """Documents of tokens packed into rows, as `TokenRows`: every step has as many rows, all of one shape.

    `batch_size` counts rows, and so do states. The batch's samples are the documents in its rows; one that is cut comes
    once for each piece. Loading begins by reading the lengths of all documents: of columns of bytes without a codec, on
    a disk, little more; else the column. Of several columns the first says which documents there are.

    Parameters
    ----------
    context : int
        Tokens of a row.
    mode : str
        ``"best_fit"`` cuts only documents that are longer than a row, and pads the ends of rows; ``"concat"`` puts one
        document after another, and cuts where a row is full. Both pack the documents of neighbouring blocks, 128 rows
        or more (fewer beside images); with "concat" the last of these rows may be not full. When shuffled, other
        documents share a row in every epoch, as far as they fit.
    padding_token : int
        What fills a row.
    dtype : str
        Of tokens in a column of bytes: ``"u8"``, ``"u16"`` or another integer, little-endian.
    source : str
        The stored column, where the batch's column has another name.

    Examples
    --------
    >>> for batch in Loader(path, batch_size=8, columns={"tokens": Tokens(context=4096)}):
    ...     rows = batch["tokens"]
    ...     loss = model(rows.input_ids, position_ids=rows.position_ids, labels=rows.labels())
    """

    context: int = 4096
    mode: Literal["best_fit", "concat"] = "best_fit"
    padding_token: Annotated[SupportsIndex, "a whole number"] = 0
    dtype: str = "u8"
    source: str = ""

    decode = "tokens"


@checked
@dataclass(frozen=True)
class LabelMap:
    """The class numbers of PNGs, for semantic segmentation, through the geometry of the image.

    Gray values come as they are stored, of 1 to 16 bits, and of a PNG with a palette the indices. Where the size
    changes each number is that of the nearest pixel, never a blend. An array [samples, height, width]; `Ragged` when
    sizes differ. A map that was drawn on the upright picture of an image that EXIF turns is taken as it is, by its
    size.

    Parameters
    ----------
    dtype : str
        ``"u8"``, ``"u16"``, ``"i64"`` or another integer. A class that does not fit makes a bad sample.
    fill : int
        The class of padding, and of every pixel where a map of fixed size is absent: what the loss ignores.
    max_memory : int
        Bytes that decoding one map may take; a map that needs more is a bad sample.
    source : str
        The stored column, where the batch's column has another name.
    of : str
        The column of the image that it belongs to, where the batch has several views; by default the first.
    """

    dtype: str = "u8"
    fill: Annotated[SupportsIndex, "a whole number"] = 255
    max_memory: int = 224 << 20
    source: str = ""
    of: str = ""

    decode = "labels"

    def __post_init__(self) -> None:
        sizes = {sign + str(bits): (sign, bits) for sign in "ui" for bits in (8, 16, 32, 64)}
        if self.dtype not in sizes:
            raise ValueError(f"dtype={self.dtype!r}: class numbers are integers; give {', '.join(sizes)}")
        sign, bits = sizes[self.dtype]
        least, end = (0, 1 << bits) if sign == "u" else (-(1 << (bits - 1)), 1 << (bits - 1))
        if not least <= operator.index(self.fill) < min(end, 1 << 63):
            raise ValueError(f"fill={self.fill} does not fit {self.dtype}")

    def options(self) -> dict[str, Any]:
        """Return what the library's column is given."""
        return {
            "dtype": self.dtype,
            "label_fill": operator.index(self.fill),
            "max_memory": self.max_memory,
            "source": self.source,
            "of": self.of,
        }


_BOXES = ("xywh", "xyxy", "cxcywh")


def _check_padding(padding: Any) -> None:
    if not -(1 << 63) <= operator.index(padding) < 1 << 63:
        raise ValueError(f"padding={padding}: give a number of 64 bits")


@checked
@dataclass(frozen=True)
class Boxes:
    """Boxes of the objects on an image, through its crop, flip, orientation and size: float32 [samples, most boxes, 4].

    The arrays are [boxes, 4], in pixels. ``batch.counts(name)`` says how many boxes each sample has; padding comes
    after them. The image has to be among the columns.

    Parameters
    ----------
    format : str
        Of the stored boxes: ``"xywh"`` (left, top, width, height), ``"xyxy"`` (both corners) or ``"cxcywh"`` (middle
        and size).
    to : str
        The format that the batch gets; ``"xyxy"`` is what torchvision's models take.
    clip : bool
        Cut boxes at the edges of the picture.
    min_area : float
        Boxes of which fewer square pixels can be seen are left out, as crops leave them. 0 keeps all.
    most, choose, along
        As for `DenseMasks`; "largest" is by what can be seen. With `along` no box is left out for its area.
    with_columns : sequence of str
        Columns of one entry for each box, such as classes, which lose the entries of boxes that are left out: as
        `Items`, or as `Points` or masks where the columns of the loader say so.
    upright : bool
        Boxes are drawn on the upright picture, as annotation tools show it; False: on the picture as it is stored.
        Images that EXIF turns then want ``sk.Image(apply_orientation=True)``: without it they are bad samples.
    padding : int
        What fills the rows of samples with fewer boxes.
    source : str
        The stored column, where the batch's column has another name.
    of : str
        The column of the image that they belong to, where the batch has several views; by default the first.
    """

    format: str = "xywh"
    to: str = "xyxy"
    clip: bool = True
    min_area: float = 1
    most: int = 0
    choose: Choose = "first"
    with_columns: Sequence[str] = ()
    along: str = ""
    upright: bool = True
    padding: Annotated[SupportsIndex, "a whole number"] = 0
    source: str = ""
    of: str = ""

    decode = "boxes"

    def __post_init__(self) -> None:
        for name, value in (("format", self.format), ("to", self.to)):
            if value not in _BOXES:
                raise ValueError(f"{name}={value!r}: give one of {', '.join(_BOXES)}")
        if not 0 <= self.min_area < math.inf:
            raise ValueError(f"min_area={self.min_area}: give square pixels, 0 or more")
        _check_chooser(self)
        _check_padding(self.padding)

    def options(self) -> dict[str, Any]:
        """Return what the library's column is given."""
        return {
            "most": self.most,
            "choose": self.choose,
            "along": self.along,
            "box_format": self.format,
            "output_boxes": self.to,
            "clip": self.clip,
            "min_area": float(self.min_area),
            "upright": self.upright,
            "padding": operator.index(self.padding),
            "source": self.source,
            "of": self.of,
        }


@checked
@dataclass(frozen=True)
class Points:
    """Points on an image, through its crop, flip, orientation and size: float32 [samples, most items, …].

    The arrays are [items, 2], [items, points, 2] or of more numbers: x and y in pixels come first, and what is behind
    them stays, as the visibility of keypoints. Points beyond the picture keep their place. ``batch.counts(name)`` says
    how many items each sample has. The image has to be among the columns.

    Parameters
    ----------
    along : str
        The column of `Boxes` that the items belong to, which leaves out items of some boxes.
    upright, padding, source, of
        As for `Boxes`.
    """

    along: str = ""
    upright: bool = True
    padding: Annotated[SupportsIndex, "a whole number"] = 0
    source: str = ""
    of: str = ""

    decode = "points"

    def __post_init__(self) -> None:
        _check_padding(self.padding)

    def options(self) -> dict[str, Any]:
        """Return what the library's column is given."""
        return {
            "along": self.along,
            "upright": self.upright,
            "padding": operator.index(self.padding),
            "source": self.source,
            "of": self.of,
        }


@checked
@dataclass(frozen=True)
class Items:
    """Arrays of one entry for each item of a sample, such as classes of its objects: [samples, most items, …].

    ``batch.counts(name)`` says how many items each sample has; padding comes after them.

    Parameters
    ----------
    along : str
        The column of `Boxes` that the items belong to, which leaves out items of some boxes.
    padding : int
        What fills the rows of samples with fewer items, as -1.
    source : str
        The stored column, where the batch's column has another name.
    """

    along: str = ""
    padding: Annotated[SupportsIndex, "a whole number"] = 0
    source: str = ""

    decode = "items"

    def __post_init__(self) -> None:
        _check_padding(self.padding)

    def options(self) -> dict[str, Any]:
        """Return what the library's column is given."""
        return {"along": self.along, "padding": operator.index(self.padding), "source": self.source}
