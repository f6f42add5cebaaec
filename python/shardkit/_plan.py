"""The order of samples, without reading them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shardkit import _core
from shardkit._mixture import Datasets, dataset_list
from shardkit._numbers import NDArray
from shardkit._options import Order, Remainder, Size, checked, parsed


class Plan:
    """The samples of each step of each epoch. Made by `plan`."""

    def __init__(self, core: _core.Plan) -> None:
        self._core = core

    def __len__(self) -> int:
        """Return the steps of an epoch."""
        return self._core.steps

    @property
    def samples_per_epoch(self) -> int:
        """Samples of an epoch, over all ranks."""
        return self._core.samples

    @property
    def lanes(self) -> int:
        """The canonical streams; ranks of a world size that divides them read only what is theirs."""
        return self._core.lanes

    @checked
    def epoch(self, epoch: int = 0, *, rank: int = 0, world_size: int = 1) -> Iterator[NDArray[np.int64]]:
        """Yield for each step [samples, 2]: dataset, and ordinal in it, of the rank's samples."""
        order = _core.PlanEpoch(self._core, epoch)
        for step in range(len(self)):
            yield order.step(step, rank, world_size)

    @checked
    def read_amplification(self, epoch: int = 0, *, world_size: int = 1) -> float:
        """Return the bytes that all ranks read for each byte that they need."""
        return self._core.read_amplification(epoch, world_size)


@checked
def plan(
    datasets: Datasets,
    global_batch_size: int = 1,
    *,
    seed: int = 0,
    order: Order = "shuffled",
    remainder: Remainder = "keep",
    shuffle_buffer_bytes: Size = 256 << 20,
    lanes: int = 0,
    expected_world_size: int = 1,
    locality: bool = False,
    epoch_samples: int = 0,
) -> Plan:
    """Return the order in which a `Loader` of these options delivers samples; reads only directories of blocks.

    Parameters
    ----------
    datasets, and all others
        As for `Loader`.
    """
    options = {
        "batch_size": global_batch_size,
        "seed": seed,
        "order": order,
        "remainder": remainder,
        "shuffle_buffer_bytes": shuffle_buffer_bytes,
        "lanes": lanes,
        "expected_world_size": expected_world_size,
        "locality": locality,
        "epoch_samples": epoch_samples,
    }
    return Plan(_core.Plan(dataset_list(datasets), parsed(options)))
