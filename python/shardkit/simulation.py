"""What a training job would read, and what would bound it, before it runs."""

from __future__ import annotations

import dataclasses

from shardkit import _core
from shardkit._core import SimulationReport
from shardkit._mixture import Datasets, dataset_list
from shardkit._options import SimulationOptions, Unpack, checked, parsed


@dataclasses.dataclass(frozen=True)
class DatasetNumbers:
    """A dataset that need not exist. Its samples are equally large; sizes are bytes, or text such as ``"4MiB"``."""

    samples: int
    sample_bytes: int | str
    shards: int = 1
    block_bytes: int | str = "4MiB"


@checked
def simulate(
    datasets: Datasets | DatasetNumbers,
    global_batch_size: int = 1,
    *,
    seed: int = 0,
    **options: Unpack[SimulationOptions],
) -> SimulationReport:
    """Predict how ranks would read: in virtual time, with the loader's own plan and policies.

    Parameters
    ----------
    datasets : as for `Loader`, or DatasetNumbers
        Nothing is read but manifests and directories of blocks.
    global_batch_size, seed
        As for `Loader`.
    **options
        ``nodes`` and ``ranks_per_node`` (1); ``epochs`` (1); ``steps``, after which it ends (0: the last);
        ``step_seconds`` of training on a batch; ``decode_seconds`` of one processor for one sample, and
        ``check_bytes_per_second`` of blocks that it receives, checks and decompresses (0: in no time);
        ``decode_threads`` (1), its processors, ``read_threads`` (as the loader finds them) and ``memory_bytes``
        (768 MiB) of a rank; ``cache_bytes`` of a node (0: each rank reads for itself). Of storage: ``latency`` in
        seconds, which half of the requests take to their first byte; ``latency_p99``, which one in a hundred exceeds;
        ``node_bytes_per_second``, and of all nodes together ``bytes_per_second`` and ``requests_per_second`` (0: no
        limit). Of the plan, as for `plan`: ``order``, ``remainder``, ``shuffle_buffer_bytes``, ``lanes``,
        ``expected_world_size``, ``locality``, ``epoch_samples``.
    """
    numbers = parsed(dataclasses.asdict(datasets)) if isinstance(datasets, DatasetNumbers) else {}
    parts = [] if isinstance(datasets, DatasetNumbers) else dataset_list(datasets)
    return _core.simulate(parts, numbers, parsed({**options, "batch_size": global_batch_size, "seed": seed}))
