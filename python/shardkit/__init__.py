"""Shards for training data: pack small files, and stream them back in any order at the speed of the device."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from shardkit._core import Column, DataLossError, SimulatedEpoch, SimulationReport, __version__

if TYPE_CHECKING:
    from shardkit._mixture import LoaderDataset
    from shardkit._options import SampleLoaderOptions, WriterOptions
    from shardkit._plan import Plan, plan
    from shardkit._rows import rows
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
    from shardkit.schema import Schema, column
    from shardkit.selection import count, filter, remove, split
    from shardkit.simulation import DatasetNumbers, simulate
    from shardkit.writer import Writer

# What the modules define. Each is imported when something of it is used first: a program needs few of them.
_NAMES = {
    "_mixture": ["LoaderDataset"],
    "_options": ["SampleLoaderOptions", "WriterOptions"],
    "_plan": ["Plan", "plan"],
    "_rows": ["rows"],
    "batch": ["Batch", "BatchMasks", "Ragged", "TokenRows"],
    "block": ["Block", "Values"],
    "change": ["add_columns", "drop_columns", "rename_columns", "set_columns"],
    "columns": ["Boxes", "DenseMasks", "Items", "LabelMap", "PackedMasks", "Points", "Stored", "Tokens", "Views"],
    "dataset": ["Dataset", "allow_bases", "open", "use_cache"],
    "functions": ["Choice", "FunctionError", "Map", "Raw"],
    "images": ["Encode", "Geometry", "Image", "decode_image", "image_list"],
    "jobs": [
        "compact",
        "convert",
        "convert_task",
        "diff",
        "finish_convert",
        "finish_pack",
        "history",
        "index",
        "merge",
        "pack",
        "pack_task",
        "plan_pack",
        "read_pack_plan",
        "repair",
        "reshard",
        "unpack",
        "validate",
    ],
    "loader": ["Loader"],
    "loader_report": ["LoaderReport"],
    "masks": ["Masks"],
    "reports": [
        "AddedColumns",
        "Diff",
        "Filtered",
        "Generation",
        "PackPlan",
        "Packed",
        "Published",
        "Repaired",
        "TaskReport",
        "Unpacked",
        "Validated",
    ],
    "schema": ["Schema", "column"],
    "selection": ["count", "filter", "remove", "split"],
    "simulation": ["DatasetNumbers", "simulate"],
    "writer": ["Writer"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

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


if not TYPE_CHECKING:  # for which any name would do then

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(importlib.import_module(f"shardkit.{_HOMES[name]}"), name)
        elif name in _NAMES or name == "sources":
            value = importlib.import_module(f"shardkit.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        modules = {"sources", *(name for name in _NAMES if not name.startswith("_"))}
        return sorted({*globals(), *__all__, *modules})
