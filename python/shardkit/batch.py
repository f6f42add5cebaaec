"""A batch, and its columns whose values differ in size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from shardkit import _core, _numbers
from shardkit._numbers import Array
from shardkit._values import damaged, of_text
from shardkit.functions import Padded
from shardkit.masks import Masks


@dataclass(eq=False, repr=False)
class Ragged(Sequence[Any]):
    """Values of different sizes, one after another, in the batch's memory.

    Attributes
    ----------
    values : numpy.ndarray
        The elements of all samples.
    offsets : numpy.ndarray
        int64, [samples + 1]: sample i has elements offsets[i] to offsets[i + 1].
    shapes : numpy.ndarray or None
        int64, [samples, rank], of arrays and images.
    present : numpy.ndarray or None
        bool, [samples], where samples lack the value.
    """

    values: Array
    offsets: Array
    shapes: Array | None
    present: Array | None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        """Return the value of a sample, not copied, or None when it is absent; a list for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        i = range(len(self))[_numbers.ordinal(index)]
        if self.present is not None and not self.present[i]:
            return None
        value = self.values[self.offsets[i] : self.offsets[i + 1]]
        return value if self.shapes is None else value.reshape(self.shapes[i].tolist())

    def __iter__(self) -> Iterator[Array | None]:
        return (self[i] for i in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"these are values of different sizes, which have no {name!r}: images become one array by "
            "columns={name: shardkit.Image(size=...)}, others are in .values, one after another"
        )

    def to_list(self) -> list[Any]:
        """Return the values as bytes, or as arrays where they have a shape; None where absent."""
        if self.shapes is None and str(self.values.dtype).endswith("uint8"):
            host = self.values if isinstance(self.values, np.ndarray) else self.values.cpu().numpy()
            return [None if value is None else value.tobytes() for value in replace(self, values=host)]
        return list(self)

    def to_padded(self, value: float = 0) -> Any:
        """Return one array [samples, most, …]: the values of each sample, and `value` behind them.

        Of values with a shape every dimension is padded. ``np.diff(offsets)`` or `shapes` tell the sizes.
        """
        shapes = np.diff(np.asarray(self.offsets))[:, None] if self.shapes is None else np.asarray(self.shapes)
        size = [len(self), *shapes.max(axis=0, initial=0).tolist()]
        numpy = isinstance(self.values, np.ndarray)
        values: Any = self.values
        padded = np.full(size, value, values.dtype) if numpy else values.new_full(size, value)
        for i, shape in enumerate(shapes):
            part = values[self.offsets[i] : self.offsets[i + 1]].reshape(shape.tolist())
            place = (i, *(slice(size) for size in shape))
            padded[place] = part
        return padded

    def to_nested(self) -> Any:
        """Return a jagged nested tensor of torch over the same elements; for values without a shape."""
        import torch

        values = torch.as_tensor(self.values)
        offsets = torch.from_numpy(self.offsets.copy()).to(values.device)
        return torch.nested.nested_tensor_from_jagged(values, offsets)


@dataclass(eq=False, repr=False)
class BatchMasks(Sequence[Any]):
    """Masks of the samples of a batch, in the batch's memory.

    Attributes
    ----------
    values : numpy.ndarray
        [masks, height, width] of masks of one size, rows of (width + 7) // 8 bytes when packed; [samples, most masks,
        height, width] when padded; flat when the sizes differ. For runs: the run lengths of all masks.
    offsets : numpy.ndarray
        int64, [samples + 1]: sample i has masks offsets[i] to offsets[i + 1].
    item_offsets : numpy.ndarray or None
        int64, [masks + 1], where each mask begins in flat `values`.
    shapes : numpy.ndarray or None
        int64, [masks, 2]: height and width in pixels.
    present : numpy.ndarray or None
        bool, [samples], where samples lack the value.
    """

    values: Array
    offsets: Array
    item_offsets: Array | None
    shapes: Array | None
    present: Array | None
    _runs: bool

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        """Return the masks of a sample: `Masks` of runs; else an array, or a list of arrays when sizes differ.

        None when they are absent; a list for a slice.
        """
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        i = range(len(self))[_numbers.ordinal(index)]
        if self.present is not None and not self.present[i]:
            return None
        begin, end = int(self.offsets[i]), int(self.offsets[i + 1])
        if self.values.ndim == 4:
            return self.values[i, : end - begin]
        if self.values.ndim == 3 or self.item_offsets is None:
            return self.values[begin:end]
        items = [self.values[self.item_offsets[m] : self.item_offsets[m + 1]] for m in range(begin, end)]
        assert self.shapes is not None
        sizes = self.shapes[begin:end].tolist()
        if self._runs:
            masks = _core.RleList()
            for (height, width), item in zip(sizes, items, strict=True):
                masks.append_runs(height, width, cast("list[int]", item.tolist()))
            return Masks(masks)
        return [item.reshape(height, -1) for (height, _), item in zip(sizes, items, strict=True)]


@dataclass(eq=False, repr=False)
class TokenRows:
    """Documents packed into rows, and what models take with them. A document's piece is a sequence of its own.

    Of `shardkit.torch.Loader`, all arrays but `pieces` are tensors on its device.

    Attributes
    ----------
    values : numpy.ndarray
        [rows, context], as stored.
    pieces : numpy.ndarray
        int64, [samples, 4]: row, begin and length of each piece, and where in its document it begins. Row by row.
    """

    values: Array
    pieces: Array
    _converted: Callable[[Array], Any] = np.asarray

    def __repr__(self) -> str:
        rows, context = self.values.shape
        return f"<{rows} rows of {context} tokens, {len(self.pieces)} pieces of documents>"

    @cached_property
    def input_ids(self) -> Any:
        """int64, [rows, context]: the tokens."""
        return self.values.astype(np.int64) if isinstance(self.values, np.ndarray) else self.values.long()

    @cached_property
    def position_ids(self) -> Any:
        """int64, [rows, context]: where each token stands in its piece, from 0; 0 for padding."""
        edges, _ = self._sequences
        positions = np.ones(self._size, np.int64)  # steps, from one place to the next
        if self._size > 0:
            positions[edges[1:-1]] = 1 - np.diff(edges)[:-1]
            positions[0] = 0
        np.cumsum(positions, out=positions)
        positions[self._padding] = 0
        return self._converted(positions.reshape(self.values.shape))

    @cached_property
    def document_ids(self) -> Any:
        """int32, [rows, context]: the number of each token's piece in its row, from 0; -1 for padding."""
        edges, numbers = self._sequences
        return self._converted(np.repeat(numbers, np.diff(edges)).reshape(self.values.shape))

    @cached_property
    def cu_seqlens(self) -> Any:
        """int32: where sequences begin, and the last one ends, when the rows stand one after another.

        For attention over sequences of different lengths, such as flash_attn_varlen_func. What pads a row is a
        sequence, too.
        """
        if self._size >= 1 << 31:
            raise OverflowError(f"{self._size} tokens of a batch are too many for int32: lower batch_size")
        return self._converted(self._sequences[0].astype(np.int32))

    @cached_property
    def max_seqlen(self) -> int:
        """The length of the longest sequence in `cu_seqlens`."""
        return int(np.diff(self._sequences[0]).max(initial=0))

    def labels(self, ignore: int = -100, *, shifted: bool = False) -> Any:
        """Return what follows from each token, int64, [rows, context], and `ignore` where nothing does.

        Parameters
        ----------
        ignore : int
            Of padding, and of tokens that do not follow from one before them: the first ones of pieces.
        shifted : bool
            False, for models that shift labels, as those of Hugging Face do: the label of a place is its own token.
            True: it is the next place's.
        """
        tokens = self.input_ids
        labels = tokens.copy() if isinstance(tokens, np.ndarray) else tokens.clone()
        nothing = np.concatenate([self._sequences[0][:-1], self._padding])
        labels.reshape(-1)[self._converted(nothing)] = ignore
        if not shifted:
            return labels
        moved = np.empty_like(labels) if isinstance(labels, np.ndarray) else labels.new_empty(labels.shape)
        moved[:, :-1] = labels[:, 1:]
        moved[:, -1:] = ignore
        return moved

    def block_mask(self) -> Any:
        """Return the mask for torch's flex_attention: each token sees its own piece up to itself."""
        import torch
        from torch.nn.attention.flex_attention import create_block_mask

        documents = torch.as_tensor(self.document_ids)
        rows, context = documents.shape

        def visible(row: Any, _: Any, query: Any, key: Any) -> Any:
            return (query >= key) & (documents[row, query] == documents[row, key])

        return create_block_mask(visible, rows, None, context, context, device=str(documents.device))

    @property
    def _size(self) -> int:
        return int(self.values.shape[0] * self.values.shape[1])

    @cached_property
    def _sequences(self) -> tuple[Array, Array]:
        """Where sequences begin and the last ends, and the number of each in its row, -1 of padding."""
        rows, context = self.values.shape
        begins = self.pieces[:, 0] * context + self.pieces[:, 1]
        edges = np.unique(np.concatenate([begins, begins + self.pieces[:, 2], np.arange(rows + 1) * context]))
        numbers = np.full(len(edges) - 1, -1, np.int32)
        in_row = np.arange(len(begins)) - np.searchsorted(self.pieces[:, 0], self.pieces[:, 0])
        numbers[np.searchsorted(edges, begins)] = in_row
        return edges, numbers

    @cached_property
    def _padding(self) -> Array:
        """The places of padding, when the rows stand one after another."""
        edges, numbers = self._sequences
        gaps = np.flatnonzero(numbers < 0)
        return np.concatenate([np.arange(edges[i], edges[i + 1]) for i in gaps] or [np.arange(0)])


GEOMETRY = np.dtype(
    [
        (name, np.float64)
        for name in (
            *("stored_width", "stored_height", "orientation"),
            *("source_x", "source_y", "source_width", "source_height"),
            *("content_width", "content_height", "content_left", "content_top"),
            *("output_width", "output_height", "flip"),
        )
    ]
)


class Batch:
    """The samples of a step that belong to this rank, column by column.

    The arrays lie in the batch's memory, which is used again when the batch and all of its arrays are gone. They may be
    changed in place.
    """

    def __init__(
        self,
        names: Sequence[str],
        batch: _core.Batch,
        made: Mapping[str, Any] | None = None,
        kept: Sequence[int] | None = None,
        skipped: Sequence[tuple[int, int, str]] = (),
        made_alone: bool = False,
    ) -> None:
        self._batch = batch
        self._stored = names  # of the library's columns
        self._made = {} if made is None else made  # columns that functions made
        self._names = list(self._made) if made_alone else names
        self._kept = None if kept is None else np.array(kept, np.intp)  # of the library's samples
        self._skipped = list(skipped)
        self._columns: dict[str, Any] = {}

    @property
    def epoch(self) -> int:
        """The epoch that it belongs to."""
        return self._batch.epoch

    @property
    def step(self) -> int:
        """The step, counted from where the loader began in this epoch."""
        return self._batch.step

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._names)

    @property
    def sample_keys(self) -> list[str]:
        """The keys of the samples; their ordinals in twelve digits where no dataset has keys."""
        keys = self._batch.keys()
        return keys if self._kept is None else [keys[i] for i in self._kept]

    @property
    def samples(self) -> Array:
        """int64, [samples, 5]: dataset, shard, ordinal in the dataset, position in the epoch, copy.

        The copy tells positions of an epoch apart that have the same sample, by `balance`, `weights` or `repeat`.
        """
        return self._of_kept(self._batch.samples())

    @property
    def ordinals(self) -> Array:
        """int64, [samples]: where the samples stand in their datasets."""
        return self.samples[:, 2]

    @property
    def padding(self) -> Array:
        """bool, [samples]: which repeat others of the epoch (``remainder="pad"``); leave them out of measures."""
        return self._of_kept(self._batch.padding())

    @property
    def skipped(self) -> list[tuple[int, int, str]]:
        """Samples left out: dataset, ordinal and reason."""
        return self._batch.skipped() + self._skipped

    def __getitem__(self, name: str) -> Any:
        """Return a column: an array [samples, …], `Ragged`, `BatchMasks`, `TokenRows`, or a list.

        A list has the str of a column of utf8, the objects of a column of json, or views; None where absent.
        """
        if name not in self._columns:
            if isinstance(name, int):  # as of `for images, labels in loader`
                raise TypeError(
                    f"a batch is no tuple: write batch[{self._names[0]!r}]; as_tuple=[{self._names[0]!r}, ...] of the "
                    "loader makes one"
                )
            if name not in self._names:
                raise KeyError(f"there is no column {name!r}; the batch has {', '.join(self._names)}")
            self._columns[name] = self._column(name)
        return self._columns[name]

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("_names", ())
        if name in names:
            raise AttributeError(f"a batch is a mapping of columns: write batch[{name!r}]")
        if name == "to":
            raise AttributeError('a batch has no "to": shardkit.torch.Loader(device=...) brings it there')
        raise AttributeError(f"a batch has no {name!r}; its columns are {', '.join(names)}")

    def _of_kept(self, values: Array) -> Array:
        return values if self._kept is None else values[self._kept]

    def _column(self, name: str) -> Any:
        if name in self._made:
            made = self._made[name]
            return made.values if isinstance(made, Padded) else made
        column = self.stored_column(name)
        return column if self._kept is None else _taken(column, self._kept)

    def stored_column(self, name: str) -> Any:
        """Return a column as the library has decoded it, of all samples that it has."""
        layout, dtype, values, offsets, items, shapes, present = self._batch.column(self._stored.index(name))
        if layout == "views":
            return values
        if dtype in TEXTS:
            return texts(self._batch, name, dtype, values, offsets, present)
        return laid_out(layout, _numbers.numbers(values, dtype), offsets, items, shapes, present)

    def sizes(self, name: str) -> Array:
        """Return the sizes of each sample's result of a function, int64 [samples, rank]; for ``collate="pad"``."""
        made = self._made.get(name)
        if not isinstance(made, Padded):
            raise ValueError(
                f'column {name!r} is not padded: sizes are those of the results of sk.Map(..., collate="pad")'
            )
        return made.sizes

    def counts(self, name: str) -> Array:
        """Return how many boxes, points or items each sample has, int64 [samples]; padding comes after them."""
        layout, _, _, offsets, *_ = self._batch.column(self._stored.index(name)) if name in self._stored else ("",) * 7
        if layout not in ("padded", "masks", "mask_runs"):
            raise ValueError(f"column {name!r} has no items: counts are those of sk.Boxes, Points, Items and masks")
        return self._of_kept(np.diff(cast("Array", offsets)))

    def present(self, name: str) -> Array:
        """Return for each sample whether it has the value; its elements are zeros where it has not."""
        if name not in self._stored:
            return np.ones(len(self), bool)  # a column of a transform
        present = self._batch.column(self._stored.index(name))[6]
        return self._of_kept(np.ones(len(self._batch), bool) if present is None else present)

    def geometries(self, name: str) -> Array:
        """Return what was done with each image, or with ``deferred`` is still to be done with it, or with each mask.

        Structured, float64: the image of ``stored_width`` x ``stored_height`` is turned upright as ``orientation``
        (EXIF) says. The box at ``source_x``, ``source_y`` of ``source_width`` x ``source_height`` is resized to
        ``content_width`` x ``content_height``, mirrored where ``flip`` is 1, and lies at ``content_left``,
        ``content_top`` of ``output_width`` x ``output_height``; around it is padding. Sizes are in pixels; all are 0
        for a sample without an image. Empty for other columns: what lies on an image has its geometry.
        """
        position = self._stored.index(name)
        geometries = self._batch.geometries(position).view(GEOMETRY)[:, 0]
        if self._kept is None:
            return geometries
        layout, _, _, offsets, *_ = self._batch.column(position)
        return geometries[_items(offsets, self._kept) if layout == "mask_runs" else self._kept]

    def keys(self) -> list[str]:
        """Return the names of the columns, so that ``dict(batch)`` has all columns by name."""
        return list(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._batch) if self._kept is None else len(self._kept)

    def __repr__(self) -> str:
        return f"<batch of {len(self)} samples: {', '.join(map(self._described, self._names))}>"

    def _described(self, name: str) -> str:
        if name in self._made or name not in self._stored:
            made = self._made.get(name)
            kind, shape = getattr(made, "dtype", type(made).__name__), getattr(made, "shape", ())
            return f"{name} {kind}{list(shape) if len(shape) else ''}"
        layout, dtype, values, *_ = self._batch.column(self._stored.index(name))
        if layout in ("tensor", "padded"):
            return f"{name} {dtype}{list(values.shape) if values is not None else ''}"
        return f"{name} {'bytes' if layout == 'views' else dtype if dtype in TEXTS else f'{layout} {dtype}'}"


TEXTS = ("utf8", "json")


def texts(batch: _core.Batch, name: str, kind: str, values: Array, offsets: Array, present: Array | None) -> list[Any]:
    """Return the str, or the objects, of a column of stored texts."""
    stored, places = values.tobytes(), offsets.tolist()
    there = itertools.repeat(True) if present is None else present.tolist()
    made: list[Any] = []
    try:
        for begin, end, is_there in zip(places, places[1:], there, strict=False):
            made.append(of_text(kind, stored[begin:end]) if is_there else None)
    except _core.DataLossError as error:
        dataset, _, ordinal, *_ = batch.samples()[len(made)].tolist()
        message = f'dataset {dataset}: sample {ordinal}: column "{name}": {error}'
        raise damaged(message, sample=ordinal, column=name) from None
    return made


def laid_out(layout: str, values: Any, offsets: Any, items: Any, shapes: Any, present: Any) -> Any:
    """Return the column that these arrays are."""
    if layout in ("tensor", "padded"):
        return values
    if layout == "ragged":
        return Ragged(values, offsets, shapes, present)
    if layout == "tokens":
        return TokenRows(values, np.zeros((0, 4), np.int64) if shapes is None else shapes)
    return BatchMasks(values, offsets, items, shapes, present, layout == "mask_runs")


def _items(offsets: Array, kept: Array) -> Array:
    """Return the places of the items of some samples."""
    return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in kept] or [np.arange(0)])


def _taken(column: Any, kept: Array) -> Any:
    """Return some samples of a column."""
    if isinstance(column, list):
        return [column[i] for i in kept]
    if isinstance(column, np.ndarray):
        return column[kept]
    assert isinstance(column, (Ragged, BatchMasks))
    items = _items(column.offsets, kept)
    offsets = np.concatenate([[0], np.cumsum(np.diff(column.offsets)[kept])])
    present = None if column.present is None else column.present[kept]
    if isinstance(column, Ragged):
        shapes = None if column.shapes is None else column.shapes[kept]
        return Ragged(column.values[items], offsets, shapes, present)
    shapes = None if column.shapes is None else column.shapes[items]
    if column.item_offsets is None:
        values = column.values[kept if column.values.ndim == 4 else items]
        return BatchMasks(values, offsets, None, shapes, present, column._runs)
    parts = [column.values[column.item_offsets[i] : column.item_offsets[i + 1]] for i in items]
    values = np.concatenate(parts or [column.values[:0]])
    item_offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return BatchMasks(values, offsets, item_offsets, shapes, present, column._runs)
