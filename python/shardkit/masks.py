"""Binary masks of one sample, as run lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast, overload

import numpy as np

from shardkit import _core, _numbers
from shardkit._numbers import ArrayLike, NDArray


class Masks:
    """Masks of a sample, kept as runs; the value of a column of type ``rle``.

    Parameters
    ----------
    runs : shardkit._core.RleList
        Made by `from_dense`, `from_coco`, `from_polygons` or by reading a dataset.
    """

    __slots__ = ("_runs",)

    def __init__(self, runs: _core.RleList) -> None:
        self._runs = runs

    @classmethod
    def from_dense(cls, pixels: ArrayLike) -> Masks:
        """Make masks of pixels.

        Parameters
        ----------
        pixels : array_like
            [masks, height, width], or [height, width] for one mask; what is not 0 is foreground.
        """
        array = np.asarray(_numbers.plain(pixels))
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and np.isnan(array).any()):
            raise ValueError(
                f"masks are pixels, 0 or not, and no {array.dtype}{' with NaN' * (array.dtype.kind == 'f')}"
            )
        if array.ndim == 2:
            array = array[None]
        if array.ndim != 3:
            raise ValueError(f"masks have the shape [masks, height, width], not {array.shape}")
        return cls(_core.RleList.from_dense(np.ascontiguousarray(array != 0).view(np.uint8)))

    @classmethod
    def from_coco(cls, masks: Sequence[dict[str, Any]]) -> Masks:
        """Make masks of COCO's dicts: ``{"size": [height, width], "counts": text or list of runs}``.

        Raises
        ------
        ValueError
            For a dict that is no mask, and runs that do not make its size.
        """
        runs = _core.RleList()
        for number, mask in enumerate(masks):
            try:
                height, width = (_numbers.ordinal(side) for side in mask["size"])
                counts = mask["counts"]
                if isinstance(counts, str):
                    counts = counts.encode()
                if isinstance(counts, bytes):
                    runs.append_coco(height, width, counts)
                else:
                    runs.append_runs(height, width, list(counts))
            except (_core.DataLossError, KeyError, TypeError, ValueError) as error:
                reason = "it has no " + str(error) if isinstance(error, KeyError) else str(error).split("\n")[0]
                raise ValueError(f"mask {number} is none of COCO: {reason}") from None
        return cls(runs)

    @classmethod
    def from_polygons(cls, masks: Sequence[Sequence[ArrayLike]], height: int, width: int) -> Masks:
        """Make masks of polygons, with the runs that pycocotools makes of them.

        Parameters
        ----------
        masks : sequence of sequences of array_like
            Of each mask its polygons, which are united: x and y of each corner in pixels, [corners, 2] or flat as in
            COCO.
        height, width : int
            In pixels, of all masks.

        Raises
        ------
        ValueError
            For a polygon with an odd count of numbers, or with one beyond 2,097,152 pixels.
        """
        runs = _core.RleList()
        for number, polygons in enumerate(masks):
            flat = [np.asarray(_numbers.plain(polygon), np.float64).ravel().tolist() for polygon in polygons]
            try:
                runs.append_polygons(_numbers.ordinal(height), _numbers.ordinal(width), flat)
            except ValueError as error:
                raise ValueError(f"mask {number}: {error}") from None
        return cls(runs)

    @classmethod
    def from_stored(cls, value: bytes) -> Masks:
        """Make masks of the bytes that a dataset stores. Raises `DataLossError` when they are malformed."""
        return cls(_core.RleList.from_stored(value))

    @classmethod
    def of(cls, value: Any) -> Masks:
        """Make masks of `Masks`, pixels, or COCO's dicts."""
        if isinstance(value, Masks):
            return value
        if isinstance(value, dict):
            return cls.from_coco([value])
        if isinstance(value, (list, tuple)) and all(isinstance(mask, dict) for mask in value):
            return cls.from_coco(value)
        return cls.from_dense(value)

    def to_stored(self) -> bytes:
        """Return the bytes that a dataset stores; equal masks give equal bytes."""
        return self._runs.to_stored()

    def dense(self) -> NDArray[np.uint8]:
        """Return [masks, height, width], 0 or 1. ValueError when the masks differ in size."""
        return self._runs.dense()

    def packed(self) -> NDArray[np.uint8]:
        """Return [masks, height, (width + 7) // 8]: one bit per pixel, the lowest first.

        ``numpy.unpackbits(..., axis=-1, count=width, bitorder="little")`` gives `dense`.
        """
        return self._runs.packed()

    def coco(self) -> list[dict[str, Any]]:
        """Return COCO's dicts, with the very characters that pycocotools writes as ``counts``."""
        sizes = cast("list[list[int]]", self._runs.sizes().tolist())
        return [{"size": size, "counts": self._runs.coco_text(i)} for i, size in enumerate(sizes)]

    def area(self) -> NDArray[np.int64]:
        """Return the foreground pixels of each mask."""
        return self._runs.areas()

    def boxes(self) -> NDArray[np.uint32]:
        """Return [masks, 4]: x, y, width, height of the tight boxes in pixels; zeros for an empty mask."""
        return self._runs.boxes()

    @property
    def sizes(self) -> NDArray[np.uint32]:
        """[masks, 2]: height and width in pixels."""
        return self._runs.sizes()

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Masks: ...
    @overload
    def __getitem__(self, index: slice) -> Masks: ...
    def __getitem__(self, index: int | slice) -> Masks:
        """Return a part of the masks, also for a single index."""
        if isinstance(index, slice):
            return Masks(self._runs.select(range(len(self))[index]))
        return Masks(self._runs.select([range(len(self))[_numbers.ordinal(index)]]))

    def __iter__(self) -> Iterator[Masks]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Masks) and self._runs == other._runs

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Masks.from_stored, (self.to_stored(),))

    def __repr__(self) -> str:
        return f"<{len(self)} masks>"
