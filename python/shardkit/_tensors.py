"""Batches whose arrays are tensors of PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack

from shardkit import _numbers
from shardkit import batch as _batch
from shardkit._numbers import Array

_SIGNED = {np.dtype(f"u{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}


def to_tensor(array: Array, dtype: str | None = None) -> torch.Tensor:
    """Return a tensor over the array's memory.

    Unsigned integers that this torch does not have become signed ones of the same bits.

    Parameters
    ----------
    array : numpy.ndarray
        The numbers.
    dtype : str
        ``"bf16"``, ``"f8e4m3"`` or ``"f8e5m2"`` of integers of the same bits; float32, copied, where this torch lacks
        them.
    """
    if not array.flags.writeable:
        array = array.copy()
    small = array.dtype.isbuiltin == 2  # of ml_dtypes, whose names are torch's
    if name := array.dtype.name if small else dtype and _numbers.torch_name(dtype):
        if not hasattr(torch, name):
            return torch.from_numpy((array if small else _numbers.numbers(array, dtype or "")).astype(np.float32))
        bits = array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)
        return torch.from_numpy(bits).view(getattr(torch, name))
    if array.dtype in _SIGNED and not hasattr(torch, f"uint{8 * array.dtype.itemsize}"):
        array = array.view(_SIGNED[array.dtype])
    return torch.from_numpy(array)


def _widened(array: Array) -> Array:
    """Return unsigned integers that this torch lacks as int64, so that no token becomes negative."""
    return array.astype(np.int64) if array.dtype in _SIGNED and not hasattr(torch, array.dtype.name) else array


class Batch(_batch.Batch):
    """A batch whose arrays are tensors, and so are the values of `shardkit.Ragged` and `shardkit.BatchMasks`; no runs.

    On a CUDA device that Shardkit brings batches to, the tensors lie in the batch's memory there. It is used again
    after the work that is in the current stream when the last of them is gone. Offsets and shapes are arrays on the
    host.
    """

    def __init__(self, names: Sequence[str], device: torch.device | None, pinned: bool, *batch: Any) -> None:
        super().__init__(names, *batch)
        self.device = device
        self._pinned = pinned

    def to(self, device: str | torch.device, non_blocking: bool = False) -> Batch:
        """Return the batch with its tensors on another device, each copied when it is first asked for."""
        wanted, here = torch.device(device), self.device or torch.device("cpu")
        if wanted.type == here.type and wanted.index in (None, here.index):
            return self
        if self._batch.device != "host":
            raise ValueError(f"the batch lies on {self._batch.device}: move its tensors")
        moved = copy.copy(self)
        moved.device, moved._columns, moved._pinned = wanted, {}, self._pinned and non_blocking
        return moved

    def pin_memory(self) -> Batch:
        """Return the batch with its tensors in page-locked memory, as DataLoader asks for."""
        pinned = copy.copy(self)
        pinned._columns, pinned._pinned = {}, self._batch.device == "host"
        return pinned

    def _column(self, name: str) -> Any:
        if self._batch.device != "host":
            return self._device_column(name)
        dtype = None
        if name in self._made:
            column = super()._column(name)
        else:
            layout, stored, values, *others = self._batch.column(self._stored.index(name))
            if layout != "views" and _numbers.torch_name(stored) is not None:
                dtype = stored  # of bits, which become numbers below
                column = _batch.laid_out(layout, values, *others)
                column = column if self._kept is None else _batch._taken(column, self._kept)
            else:
                column = super()._column(name)
        if isinstance(column, np.ndarray) and column.dtype.kind not in "OUSM":
            return self._there(to_tensor(column, dtype))
        if isinstance(column, _batch.TokenRows):
            return _batch.TokenRows(self._there(to_tensor(_widened(column.values))), column.pieces, self._from_numpy)
        if isinstance(column, (_batch.Ragged, _batch.BatchMasks)) and not getattr(column, "_runs", False):
            numbers = column.values if dtype else _widened(column.values)
            return replace(column, values=self._there(to_tensor(numbers, dtype)))
        return self._there(column) if isinstance(column, torch.Tensor) else column

    def _there(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._pinned and not tensor.is_pinned():  # what functions made, and where this build is without CUDA
            tensor = tensor.pin_memory()
        return tensor if self.device is None else tensor.to(self.device, non_blocking=self._pinned)

    def _device_column(self, name: str) -> Any:
        position = self._stored.index(name)
        layout, dtype, _, offsets, items, shapes, present = self._batch.column(position)
        # An emulated device has no streams.
        stream = 0 if self.device is None else torch.cuda.current_stream(self.device).cuda_stream
        values = torch.utils.dlpack.from_dlpack(self._batch.dlpack(position, stream))
        if dtype in _batch.TEXTS:
            return _batch.texts(self._batch, name, dtype, values.cpu().numpy(), offsets, present)
        column = _batch.laid_out(layout, values, offsets, items, shapes, present)
        if isinstance(column, _batch.TokenRows):
            return _batch.TokenRows(values, column.pieces, self._from_numpy)
        return column

    def _from_numpy(self, array: Array) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor if self.device is None else tensor.to(self.device)
