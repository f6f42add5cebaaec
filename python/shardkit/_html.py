"""The first samples of a dataset for notebooks: thumbnails, masks and small values, without a server."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardkit._core import DataLossError
from shardkit._numbers import NDArray
from shardkit.images import Encode, decode_image
from shardkit.masks import Masks
from shardkit.schema import Schema, describe

SAMPLES = 6
_SIDE = 96  # pixels of a thumbnail's longer side
_TEXT = 60  # characters of a value
_COLOURS = np.array([(230, 80, 60), (60, 150, 230), (80, 190, 90), (240, 180, 50), (160, 100, 210)], np.uint8)


def of_samples(schema: Schema, samples: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return a table with a row for each sample."""
    head = "".join(
        f"<th>{html.escape(column.name)}<br><small>{html.escape(describe(column))}</small></th>" for column in schema
    )
    rows = "".join(
        f"<tr>{''.join(f'<td>{_cell(schema, sample, each.name)}</td>' for each in schema)}</tr>" for sample in samples
    )
    return f"<p>{html.escape(title)}</p><table><tr>{head}</tr>{rows}</table>"


def _cell(schema: Schema, sample: Mapping[str, Any], name: str) -> str:
    value = sample[name]
    if value is None:
        return ""
    if schema[name].type in ("jpeg", "png", "image"):
        try:
            return _picture(_thumbnail(value))
        except (DataLossError, NotImplementedError, MemoryError, ValueError) as error:
            return html.escape(_short(str(error)))
    if isinstance(value, Masks):
        count = f"{len(value)} masks"
        return count if len(value) == 0 else f"{_picture(_overlay(value))}<br>{count}"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"{value.dtype} {list(value.shape)}"
    return html.escape(_short(str(value)))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"


def _places(height: int, width: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows and columns of a picture that its thumbnail shows."""
    scale = min(1.0, _SIDE / max(height, width))
    rows, columns = (np.linspace(0, side - 1, max(1, round(side * scale))).astype(np.intp) for side in (height, width))
    return rows, columns


def _thumbnail(stored: bytes) -> NDArray[np.uint8]:
    pixels = decode_image(stored, reduce_depth=True)
    rows, columns = _places(*pixels.shape[:2])
    return pixels[rows][:, columns]


def _overlay(masks: Masks) -> NDArray[np.uint8]:
    """Return the masks of the first one's size in colours on gray."""
    height, width = masks.sizes[0].tolist()
    rows, columns = _places(height, width)
    pixels = np.full((len(rows), len(columns), 3), 235, np.uint8)
    for i, mask in enumerate(masks):
        if mask.sizes[0].tolist() == [height, width]:
            pixels[mask.dense()[0][rows][:, columns] > 0] = _COLOURS[i % len(_COLOURS)]
    return pixels


def _picture(pixels: NDArray[np.uint8]) -> str:
    data = base64.b64encode(Encode(quality=80)(pixels)).decode()
    height, width = pixels.shape[:2]
    return f'<img alt="" width="{width}" height="{height}" src="data:image/jpeg;base64,{data}">'
