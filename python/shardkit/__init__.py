"""Shards for training data: pack small files, and stream them back in any order at the speed of the device."""

from shardkit._core import Column, DataLossError, __version__
from shardkit._options import WriterOptions
from shardkit.block import Block, Values
from shardkit.dataset import Dataset, open
from shardkit.images import decode_image
from shardkit.jobs import convert, index, merge, pack, repair, unpack, validate
from shardkit.masks import Masks
from shardkit.reports import Packed, Published, Repaired, Unpacked, Validated
from shardkit.schema import Schema, column
from shardkit.writer import Writer

__all__ = [
    "Block",
    "Column",
    "DataLossError",
    "Dataset",
    "Masks",
    "Packed",
    "Published",
    "Repaired",
    "Schema",
    "Unpacked",
    "Validated",
    "Values",
    "Writer",
    "WriterOptions",
    "__version__",
    "column",
    "convert",
    "decode_image",
    "index",
    "merge",
    "open",
    "pack",
    "repair",
    "unpack",
    "validate",
]
