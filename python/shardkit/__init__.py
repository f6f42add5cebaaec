"""Shards for training data: pack small files, and stream them back in any order at the speed of the device."""

from shardkit._core import DataLossError, __version__

__all__ = ["DataLossError", "__version__"]
