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
    "Items",
    "LabelMap",
    "PackedMasks",
    "Points",
    "Stored",
    "Tokens",
    "Views",
]


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
class Stored:
    """As stored: an array [samples, …], or `Ragged` where sizes differ."""

    decode = "stored"


@checked
@dataclass(frozen=True)
class Views:
    """The bytes of each value where they were read: a list of read-only arrays, None where absent. No copy."""

    decode = "views"


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
    """The numbers of PNGs and TIFFs, classes for semantic segmentation or depths, through the geometry of the image.

    Gray values come as they are stored, of 1 to 16 bits, and of a file with a palette the indices. Where the size
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
