"""Shards for training data: pack small files, and stream them back in any order at the speed of the device."""

from shardkit._core import Column, DataLossError, SimulatedEpoch, SimulationReport, __version__
from shardkit._mixture import LoaderDataset
from shardkit._options import SampleLoaderOptions, WriterOptions
from shardkit.batch import Batch, BatchMasks, Ragged, TokenRows
from shardkit.block import Block, Values
from shardkit.change import add_columns, drop_columns, rename_columns, set_columns
from shardkit.columns import (
    Boxes,
    DenseMasks,
    Items,
    LabelMap,
    PackedMasks,
    Points,
    Stored,
    Tokens,
    Views,
)
from shardkit.dataset import Dataset, allow_bases, open, use_cache
from shardkit.functions import Choice, FunctionError, Map, Raw
from shardkit.images import Encode, Geometry, Image, decode_image, image_list
from shardkit.jobs import (
    compact,
    convert,
    convert_task,
    diff,
    finish_convert,
    finish_pack,
    history,
    index,
    merge,
    pack,
    pack_task,
    plan_pack,
    read_pack_plan,
    repair,
    reshard,
    unpack,
    validate,
)
from shardkit.loader import Loader
from shardkit.loader_report import LoaderReport
from shardkit.masks import Masks
from shardkit.plan import Plan, plan
from shardkit.reports import (
    AddedColumns,
    Diff,
    Filtered,
    Generation,
    Packed,
    PackPlan,
    Published,
    Repaired,
    TaskReport,
    Unpacked,
    Validated,
)
from shardkit.rows import rows
from shardkit.schema import Schema, column
from shardkit.selection import count, filter, remove, split
from shardkit.simulation import DatasetNumbers, simulate
from shardkit.writer import Writer

__all__ = [
    "AddedColumns",
    "Batch",
    "BatchMasks",
    "Block",
    "Boxes",
    "Choice",
    "Column",
    "DataLossError",
    "Dataset",
    "DatasetNumbers",
    "DenseMasks",
    "Diff",
    "Encode",
    "Filtered",
    "FunctionError",
    "Generation",
    "Geometry",
    "Image",
    "Items",
    "LabelMap",
    "Loader",
    "LoaderDataset",
    "LoaderReport",
    "Map",
    "Masks",
    "PackPlan",
    "Packed",
    "PackedMasks",
    "Plan",
    "Points",
    "Published",
    "Ragged",
    "Raw",
    "Repaired",
    "SampleLoaderOptions",
    "Schema",
    "SimulatedEpoch",
    "SimulationReport",
    "Stored",
    "TaskReport",
    "TokenRows",
    "Tokens",
    "Unpacked",
    "Validated",
    "Values",
    "Views",
    "Writer",
    "WriterOptions",
    "__version__",
    "add_columns",
    "allow_bases",
    "column",
    "compact",
    "convert",
    "convert_task",
    "count",
    "decode_image",
    "diff",
    "drop_columns",
    "filter",
    "finish_convert",
    "finish_pack",
    "history",
    "image_list",
    "index",
    "merge",
    "open",
    "pack",
    "pack_task",
    "plan",
    "plan_pack",
    "read_pack_plan",
    "remove",
    "rename_columns",
    "repair",
    "reshard",
    "rows",
    "set_columns",
    "simulate",
    "split",
    "unpack",
    "use_cache",
    "validate",
]
