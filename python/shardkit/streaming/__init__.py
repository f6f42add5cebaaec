"""Programs of MosaicML Streaming over Shardkit: ``from shardkit.streaming import StreamingDataset``.

docs/from-mosaicml-streaming.md says what each parameter does here.
"""

from shardkit.streaming.dataset import LocalDataset, StreamingDataset
from shardkit.streaming.loader import StreamingDataLoader
from shardkit.streaming.stream import Stream
from shardkit.streaming.writer import MDSWriter, merge_index


def clean_stale_shared_memory() -> None:
    """Do nothing: no shared memory outlives the processes here. For programs that call it."""


__all__ = [
    "LocalDataset",
    "MDSWriter",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
    "clean_stale_shared_memory",
    "merge_index",
]
