"""Keyword arguments that are passed on to the library by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZES = {
    "shard_size",
    "block_size",
    "memory_bytes",
    "shuffle_buffer_bytes",
    "stream_above",
    "max_decompression",
    "max_image_memory",
    "pending_pair_bytes",
    "pinned_bytes",
    "cache_bytes",
    "sample_bytes",
    "block_bytes",
    "shuffle_memory",
    "device_bytes",
}


def located(path: str | os.PathLike[str]) -> str:
    """Return the path as it holds when the process changes its directory, and in others: absolute, or a URL."""
    text = os.fspath(path)
    return text if "://" in text or not text else os.path.abspath(text)


class WriterOptions(TypedDict, total=False):
    """The options of a dataset that is written; sizes are bytes or text such as ``"256MiB"``."""

    block_size: int | str  # bytes of the values of a block
    max_block_samples: int
    alignment: int  # of blocks in the file, bytes
    zstd_levels: Mapping[str, int]  # by column
    dictionaries: Mapping[str, int]  # by column of codec zstd: bytes of a trained dictionary
    storage: Mapping[str, str]  # by column: "inline" (in pages) or "blob"
    codecs: Mapping[str, str]  # by column: "none" or "zstd"
    metadata: Mapping[str, str]
    sync: bool  # flush to stable storage
    shard_size: int | str  # bytes
    shard_samples: int  # exactly so many samples in each shard
    threads: int
    sha256: bool  # list the SHA-256 of each shard
    resume: bool
    append: bool  # to the dataset that is there, in one step
    existing_keys: str  # with append, of samples whose key is there: "refuse" (all), "skip" them or "add" them
    job: str


def size(value: int | str, name: str = "size") -> int:
    """Return the bytes of a size: a number, or text such as ``"256MiB"`` or ``"1.5 GB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(\w*)\s*", value)
        if match is None or match[2] not in _UNITS:
            raise ValueError(f"{name}: {value!r} is not a size; write bytes, or 256MiB, 4GB")
        return int(float(match[1]) * _UNITS[match[2]])
    if isinstance(value, bool) or value != int(value):
        raise ValueError(f"{name}: {value!r} is not a size; write bytes, or 256MiB, 4GB")
    return int(value)


def column_names(columns: Iterable[str] | None) -> list[str] | None:
    """Return the names of some columns, each once; None: all."""
    if columns is None:
        return None
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns={columns!r}: give a list, also of one column")
    names = list(columns)
    if not names:
        raise ValueError("columns: the list is empty; give None for all")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns: {name!r} is no name")
        if names.count(name) > 1:
            raise ValueError(f"columns: {name!r} stands twice")
    return names


def check_numbers(**numbers: int) -> None:
    """Refuse what is no whole number, True and False among it."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError(f"{name}={value!r}: give a whole number")


# What other loaders call it, and what does the same here.
_ELSEWHERE = {
    "shuffle": 'order="shuffled" (the default) or order="sequential"',
    "drop_last": 'remainder="drop"',
    "num_workers": "nothing, or decode_threads and read_threads: threads do the work of worker processes",
    "prefetch_factor": "memory_bytes",
    "persistent_workers": "nothing: threads stay",
    "collate_fn": "batch_function",
    "transform": "columns={name: function}, or batch_function",
    "pin_memory": "shardkit.torch.Loader, which has it",
    "device": "shardkit.torch.Loader, which has it",
}


def check_known(options: Iterable[str]) -> None:
    """Refuse options of other loaders, naming what to write."""
    for name in options:
        if name in _ELSEWHERE:
            raise TypeError(f"there is no option {name}: give {_ELSEWHERE[name]}")


def refuse(options: Iterable[str], needs: str) -> None:
    """Refuse options that do nothing as the others are."""
    for name in options:
        raise ValueError(f"{name} {needs}")


def parsed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as the library takes them: sizes as bytes, mappings as dicts, without those that are None."""
    made: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in _SIZES:
            value = size(value, name)
        elif isinstance(value, Mapping):
            value = dict(value)
            if name in {"zstd_levels", "dictionaries"}:
                check_numbers(**value)
        made[name] = value
    return made
