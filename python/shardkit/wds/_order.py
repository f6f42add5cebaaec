"""Which samples a pipeline of webdataset has, and in which order: the stages that are none of samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from shardkit.wds._source import Tars, one_path
from shardkit.wds._stages import ExceptionHandler, reraise_exception


def split_by_node(src: Any, group: Any = None) -> NoReturn:
    """Say that ranks divide the samples, as nodesplitter or as a stage."""
    raise TypeError("split_by_node is an argument of WebDataset, or a stage of DataPipeline, and is not called")


def single_node_only(src: Any, group: Any = None) -> NoReturn:
    """Say that there is one rank: several are an error."""
    raise TypeError("single_node_only is an argument of WebDataset, or a stage of DataPipeline, and is not called")


def split_by_worker(src: Any) -> NoReturn:
    """Say that workers of a DataLoader divide the samples, as workersplitter or as a stage."""
    raise TypeError("split_by_worker is an argument of WebDataset, or a stage of DataPipeline, and is not called")


@dataclass(frozen=True)
class Shuffle:
    """That the order is shuffled; `seed` None is the dataset's."""

    size: int
    seed: int | None = None


def shuffle(
    bufsize: int = 1000, initial: int = 100, rng: Any = None, seed: int | None = None, handler: Any = None
) -> Shuffle:
    """Shuffle the order of samples: over blocks of the whole dataset, and 256 MiB of samples.

    Parameters
    ----------
    bufsize, initial : int
        More than 0: the order is shuffled. How far does not depend on them.
    rng, handler
        Refused: `seed` decides, and no exception comes of shuffling.
    seed : int
        In place of the dataset's.
    """
    if rng is not None:
        raise ValueError("shuffle(rng=...): the order is made from a seed: give seed=")
    if handler is not None:
        raise ValueError("shuffle(handler=...): no exception comes of shuffling; leave handler out")
    return Shuffle(bufsize, seed)


def detshuffle(bufsize: int = 1000, initial: int = 100, seed: int | None = None, epoch: int = -1) -> Shuffle:
    """Shuffle as `shuffle`, whose order is always that of the seed and the epoch."""
    if epoch != -1:
        raise ValueError("detshuffle(epoch=...): set_epoch of the dataset chooses the epoch")
    return Shuffle(bufsize, seed)


class SimpleShardList:
    """Tars, for a `DataPipeline`."""

    repeats = False

    def __init__(self, urls: Any, seed: int | bool | None = None) -> None:
        self.tars = Tars(one_path(urls), int(seed or 0), seed is not None)


class ResampledShards(SimpleShardList):
    """Tars for a `DataPipeline` without end. Every sample comes once before one comes again."""

    repeats = True

    def __init__(self, urls: Any, seed: int = 0, deterministic: bool = True) -> None:
        super().__init__(urls, seed)


shardspec = SimpleShardList


def resampled(n: int | None = None) -> Any:
    """Say that a `DataPipeline` has no end; `n`, a number of tars, is refused."""
    if n is not None:
        raise ValueError("resampled(n): tars are not drawn: with_epoch(n) has so many samples in an iteration")
    return resampled


ResampledShardList = ResampledShards


@dataclass(frozen=True)
class tarfile_to_samples:  # noqa: N801 (its name in webdataset)
    """The stage of a `DataPipeline` that reads tars; its arguments are those of `WebDataset`."""

    handler: ExceptionHandler = reraise_exception
    select_files: Callable[[str], Any] | None = None
    rename_files: None = None


tarfile_samples = tarfile_to_samples()


def refuse_rename_files() -> NoReturn:
    """Say what there is in place of rename_files."""
    raise ValueError("rename_files: rename() and rename_keys() name extensions, map() changes keys")
