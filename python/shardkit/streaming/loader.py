"""The DataLoader of a StreamingDataset."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch.utils.data

from shardkit.streaming.dataset import StreamingDataset

_PACKED_BYTES = 1 << 18  # of a tensor, at most


class _Packed:
    """A batch in one piece of bytes.

    torch gives each tensor of a batch a file of shared memory and a descriptor, which takes longer than to copy a small
    one, and outlives processes that are killed at the wrong moment.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data


class _LargeError(Exception):
    """A tensor is better not copied."""


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        plain = type(value) is torch.Tensor and value.layout == torch.strided and not value.requires_grad
        if not plain or value.device.type != "cpu" or value.numel() * value.element_size() > _PACKED_BYTES:
            raise _LargeError
        try:
            return torch.from_numpy, (value.numpy(),)
        except (TypeError, RuntimeError):  # a type that NumPy has not
            raise _LargeError from None


def _packed(collate: Callable[[list[Any]], Any], samples: list[Any]) -> Any:
    batch = collate(samples)
    file = io.BytesIO()
    try:
        _Packer(file, pickle.HIGHEST_PROTOCOL).dump(batch)
    except (_LargeError, pickle.PicklingError, AttributeError, TypeError):
        return batch
    return _Packed(file.getvalue())


class StreamingDataLoader(torch.utils.data.DataLoader[Any]):
    """A DataLoader that knows how many samples it has yielded, so that it has a state; takes what DataLoader takes."""

    collate_fn: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_samples_yielded = 0

    def __iter__(self) -> Iterator[Any]:
        self.num_samples_yielded = 0
        for batch in super().__iter__():
            batch = pickle.loads(batch.data) if type(batch) is _Packed else batch
            self.num_samples_yielded += self._get_batch_size(batch)
            yield batch

    def _get_iterator(self) -> Any:
        # For the workers alone: other programs take collate_fn from a loader to make one of their own.
        given = self.collate_fn
        if self.num_workers > 0 and not self.pin_memory and self.batch_size is not None:
            self.collate_fn = partial(_packed, given)
        try:
            return super()._get_iterator()
        finally:
            self.collate_fn = given

    def _get_batch_size(self, batch: Any) -> int:
        """Return the samples of a batch; for a subclass whose batches are neither mappings, tensors nor tuples."""
        if isinstance(batch, Mapping) or hasattr(batch, "keys"):
            return len(next(iter(batch.values())))
        return len(batch) if isinstance(batch, torch.Tensor) else len(batch[0])

    def state_dict(self) -> dict[str, Any] | None:
        """Return where a run goes on after the batches that it has got; None of another dataset."""
        if not isinstance(self.dataset, StreamingDataset):
            return None
        return self.dataset.state_dict(self.num_samples_yielded * self.dataset._world_size, False)

    def load_state_dict(self, obj: Mapping[str, Any]) -> None:
        """Go on where a state was taken, at the next iteration."""
        if isinstance(self.dataset, StreamingDataset):
            self.dataset.load_state_dict(obj)
