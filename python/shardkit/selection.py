"""Some of the samples of a dataset: filter, split, count and remove."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardkit import _core, reports
from shardkit._options import CopyOptions, InputOptions, Unpack, checked, parsed, path_text, refuse
from shardkit._progress import Progress, shown_progress


def _selection(
    where: str | None, keys: Iterable[str] | None, ranges: Sequence[tuple[int, int]], sample: float, seed: int
) -> dict[str, Any]:
    if where is not None and not where.strip():
        raise ValueError("where: the condition is empty; leave it out to take all samples")
    if seed != 0 and sample == 1:
        raise ValueError(f"seed={seed}: only with sample, a share such as 0.1")
    ranges = [(begin, end) for begin, end in ranges]
    made: dict[str, Any] = {"where": where, "ranges": ranges, "sample": float(sample), "seed": seed}
    return made | {"keys": None if keys is None else list(keys)}


def _refuse_copying(options: Iterable[str]) -> None:
    """Refuse what is of no use where no sample is copied."""
    reading = ("threads", "max_decompression", "verify_listed_hashes")
    refuse((name for name in options if name not in reading), "is for copies; by_reference=True writes no samples")


@checked
def filter(
    dataset: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    where: str | None = None,
    keys: Iterable[str] | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    sample: float = 1.0,
    seed: int = 0,
    by_reference: bool = False,
    progress: Progress = None,
    **options: Unpack[CopyOptions],
) -> reports.Filtered:
    """Write the samples that satisfy everything given, in their order, as a new dataset.

    Parameters
    ----------
    dataset, output : path
        A dataset of any container, and the directory of the new one; URLs, too.
    where : str
        A condition on the values, as ``'width >= 1024 and mean(predicted_iou) > 0.9'``; docs/select.md describes it.
    keys : iterable of str
        Keys of samples.
    ranges : sequence of (int, int)
        Ordinals of samples, each range without its end.
    sample : float
        A share of the keys, above 0 and at most 1, chosen by their hashes: the same ones when samples are appended.
    seed : int
        Another choice of `sample` for each number; only with `sample`.
    by_reference : bool
        Write no samples: the new dataset refers to the shards of `dataset`, which stay, and must stay, where they are.
    progress : bool or callable
        As for `pack`.
    **options
        Of the input ``max_decompression`` and ``verify_listed_hashes``. Without `by_reference` also those of
        `WriterOptions`; ``keep_on_cancel``; ``keep_blocks=False`` rewrites all blocks, as ``block_size`` does, where
        otherwise blocks whose samples are all taken are copied.

    Raises
    ------
    ValueError
        When `where` is no condition on the columns; the message says at which character.
    """
    if by_reference:
        _refuse_copying(options)
    given = parsed({**_selection(where, keys, ranges, sample, seed), **options, "by_reference": by_reference})
    with shown_progress(progress, "filter", "samples") as show:
        return reports.Filtered(**_core.filter(path_text(dataset), path_text(output), given, show))


@checked
def split(
    dataset: str | os.PathLike[str],
    output: str | os.PathLike[str],
    into: Mapping[str, float],
    *,
    seed: int = 0,
    by_reference: bool = False,
    progress: Progress = None,
    **options: Unpack[CopyOptions],
) -> dict[str, reports.Packed]:
    """Divide a dataset by the hashes of its keys into datasets ``output/NAME``: no key is in two of them.

    Parameters
    ----------
    dataset, output : path
        A dataset of any container, and the directory that gets the parts; URLs, too.
    into : mapping of str to float
        Names and shares, as ``{"train": 0.9, "val": 0.1}``, together at most 1.
    seed : int
        Another division for each number.
    by_reference, progress, **options
        As for `filter`; progress counts the samples of one part after the other.
    """
    if by_reference:
        _refuse_copying(options)
    parts = [(name, float(share)) for name, share in into.items()]
    given = parsed({**options, "by_reference": by_reference})
    with shown_progress(progress, "split", "samples") as show:
        made = _core.split(path_text(dataset), path_text(output), parts, seed, given, show)
    return {name: reports.Packed(**report) for name, report in zip(into, made, strict=True)}


@checked
def count(
    dataset: str | os.PathLike[str],
    *,
    where: str | None = None,
    keys: Iterable[str] | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    sample: float = 1.0,
    seed: int = 0,
    threads: int = 1,
    progress: Progress = None,
    **options: Unpack[InputOptions],
) -> int:
    """Return how many samples `filter` would take.

    Parameters
    ----------
    dataset, where, keys, ranges, sample, seed, progress
        As for `filter`.
    threads : int
        Threads that read.
    **options
        ``max_decompression``, ``verify_listed_hashes``.
    """
    given = parsed({**_selection(where, keys, ranges, sample, seed), **options, "threads": threads})
    with shown_progress(progress, "count", "samples") as show:
        return _core.count(path_text(dataset), given, show).selected


@checked
def remove(
    dataset: str | os.PathLike[str],
    *,
    where: str | None = None,
    keys: Iterable[str] | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    threads: int = 1,
    progress: Progress = None,
    **options: Unpack[InputOptions],
) -> reports.Removed:
    """Make samples invisible to all readers of a dataset, in its next generation; no shard is rewritten.

    Their bytes stay until ``compact(dataset, purge=True)``.

    Parameters
    ----------
    dataset : path
        A dataset of Shardkit; a URL, too.
    where, keys, ranges, progress
        As for `filter`; at least one of the first three.
    threads : int
        Threads that look for the samples.
    **options
        ``max_decompression``.

    Raises
    ------
    ValueError
        When nothing says which samples, or `where` is no condition on the columns.
    """
    if where is None and keys is None and not ranges:
        raise ValueError("nothing says which samples: where, keys or ranges")
    for name in ("sample", "seed"):
        if name in options:
            raise TypeError(f"remove: there is no option {name}")
    given = parsed({**_selection(where, keys, ranges, 1.0, 0), **options, "threads": threads})
    with shown_progress(progress, "remove", "samples") as show:
        return _core.remove(path_text(dataset), given, show)
