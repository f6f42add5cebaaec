"""webdataset's interface over Shardkit's loader: programs of webdataset 1.0 change ``import webdataset as wds``.

`docs/from-webdataset.md` says of each argument and method what it does here.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from shardkit._ranks import ranks
from shardkit.dataset import use_cache
from shardkit.wds import _stages
from shardkit.wds._decode import (
    Continue,
    Decoder,
    DecodingError,
    ImageHandler,
    gzfilter,
    handle_extension,
    imagehandler,
    imagespecs,
    torch_loads,
)
from shardkit.wds._order import (
    ResampledShards,
    SimpleShardList,
    detshuffle,
    refuse_rename_files,
    resampled,
    shardspec,
    shuffle,
    single_node_only,
    split_by_node,
    split_by_worker,
    tarfile_samples,
    tarfile_to_samples,
)
from shardkit.wds._pipeline import DataPipeline
from shardkit.wds._source import Tars, one_path
from shardkit.wds._stages import (
    associate,
    batched,
    decode,
    default_collation_fn,
    extract_keys,
    getfirst,
    ignore_and_continue,
    ignore_and_stop,
    log_keys,
    map,
    map_dict,
    map_tuple,
    rename,
    rename_keys,
    reraise_exception,
    rsample,
    select,
    slice,
    to_tuple,
    unbatched,
    unlisted,
    warn_and_continue,
    warn_and_stop,
)
from shardkit.wds._write import ShardWriter, TarWriter, numpy_dumps, torch_dumps

__all__ = [
    "Continue",
    "DataPipeline",
    "Decoder",
    "DecodingError",
    "ImageHandler",
    "MockDataset",
    "ResampledShards",
    "ShardWriter",
    "SimpleShardList",
    "TarWriter",
    "WebDataset",
    "WebLoader",
    "associate",
    "batched",
    "decode",
    "default_collation_fn",
    "detshuffle",
    "extract_keys",
    "getfirst",
    "gzfilter",
    "handle_extension",
    "ignore_and_continue",
    "ignore_and_stop",
    "imagehandler",
    "imagespecs",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "numpy_dumps",
    "rename",
    "rename_keys",
    "reraise_exception",
    "resampled",
    "rsample",
    "select",
    "shardspec",
    "shuffle",
    "single_node_only",
    "slice",
    "split_by_node",
    "split_by_worker",
    "tarfile_samples",
    "tarfile_to_samples",
    "to_tuple",
    "torch_dumps",
    "torch_loads",
    "unbatched",
    "unlisted",
    "warn_and_continue",
    "warn_and_stop",
]

_log = logging.getLogger("shardkit")

# What is not here, and what is in its place.
_ELSEWHERE = {
    **dict.fromkeys(("RandomMix", "RoundRobin"), "sk.Loader takes a list of sk.LoaderDataset(path, proportion=...)"),
    **dict.fromkeys(("Cached", "LMDBCached"), "sk.pack makes a dataset of what was decoded"),
    **dict.fromkeys(("gopen", "gopen_schemes", "tenbin"), "open URLs and files of other formats with their packages"),
    **dict.fromkeys(("LRUCleanup", "pipe_cleaner"), "sk.use_cache(directory, limit) keeps what is read of URLs"),
    **dict.fromkeys(("torch_video", "torch_audio"), 'decode(wds.handle_extension("mp4", f)) decodes with a function'),
    "MultiShardSample": "sk.LoaderDataset(path, choose=...) has part of a dataset",
    "pipelinefilter": "compose(f) takes a function of an iterator",
    "xdecode": "decode(wds.handle_extension(...)) has a function by extension",
}


def __getattr__(name: str) -> Any:
    instead = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"shardkit.wds has no {name}{instead}")


def MockDataset(sample: Any, length: int) -> DataPipeline:  # noqa: N802 (a class in webdataset)
    """Return a pipeline of one sample, so many times."""
    return DataPipeline(partial(itertools.repeat, sample, length))


class WebDataset(DataPipeline):
    """The samples of tars: dicts with ``"__key__"``, ``"__url__"``, and bytes by extension.

    A rank, and a worker of a DataLoader, has its part of the samples, whatever the number of tars. `len` is known, the
    order is that of the seed and the epoch, and `state_dict` says where an iteration stands.

    Parameters
    ----------
    urls : str or sequence of str
        Tars: paths and URLs with braces and wildcards, ``"x-{000..099}.tar"``, several between ``"::"``, a list of
        them, or a folder. A dataset that `sk.pack` made of tars will do, too.
    handler : callable
        Called with the exception of a sample that is damaged, as `warn_and_continue`. By default it is raised.
    mode : str
        None, or ``"resampled"``, as `resampled`.
    resampled, repeat : bool
        Iterations without end, for `with_epoch`. Every sample comes once before one comes again.
    shardshuffle : int or bool
        As `shuffle` for more than 0: the order of samples is shuffled.
    cache_dir, cache_size
        As `sk.use_cache`, for this process: what is read of URLs is kept there, at most so many bytes.
    url_to_name, rename_files
        Refused.
    detshuffle : bool
        The order is always that of the seed and the epoch.
    nodesplitter
        `split_by_node` (the default): ranks divide the samples; `single_node_only`: several ranks are an error; None:
        each rank has all samples.
    workersplitter
        `split_by_worker`, or None: each worker of a DataLoader has all samples.
    select_files : callable
        Called with the name of each member: false leaves it out.
    empty_check : bool
        Whether no sample at all is an error.
    verbose : bool
        Whether what is opened is logged (INFO, "shardkit").
    seed : int
        Of the order; by default the variable WDS_SEED, or 0.
    """

    def __init__(
        self,
        urls: Any,
        handler: _stages.ExceptionHandler = reraise_exception,
        mode: str | None = None,
        resampled: bool = False,
        repeat: bool = False,
        shardshuffle: int | bool | None = None,
        cache_size: int = -1,
        cache_dir: str | os.PathLike[str] | None = None,
        url_to_name: None = None,
        detshuffle: bool = False,
        nodesplitter: Any = split_by_node,
        workersplitter: Any = split_by_worker,
        select_files: Callable[[str], Any] | None = None,
        rename_files: None = None,
        empty_check: bool = True,
        verbose: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        if mode not in (None, "resampled"):
            raise ValueError(f'mode={mode!r}: give None or "resampled"; a folder is read as it is when it is opened')
        if url_to_name is not None:
            raise ValueError("url_to_name: the cache names its files itself, by URL and content; leave it out")
        if rename_files is not None:
            refuse_rename_files()
        if nodesplitter not in (split_by_node, single_node_only, None):
            raise ValueError(
                "nodesplitter: samples are divided, not tars: give split_by_node, single_node_only or None"
            )
        if workersplitter not in (split_by_worker, None, False):
            raise ValueError("workersplitter: samples are divided, not tars: give split_by_worker or None")
        directory = os.environ.get("WDS_CACHE", cache_dir)
        limit = int(os.environ.get("WDS_CACHE_SIZE", cache_size))
        if directory is not None and limit != 0:
            use_cache(os.path.expanduser(directory), max(limit, 0))
        if seed is None:
            seed = int(os.environ.get("WDS_SEED", "0"))
        tars = Tars(one_path(urls), seed, bool(shardshuffle and shardshuffle > 0) or detshuffle, handler)
        if nodesplitter is single_node_only and ranks("auto", "auto")[1] > 1:
            raise ValueError("there are several ranks: nodesplitter=wds.split_by_node divides the samples among them")
        self._of_tars(
            tars.but(
                split_nodes=nodesplitter is split_by_node,
                split_workers=workersplitter is split_by_worker,
                select_files=select_files,
                empty_check=empty_check,
            )
        )
        self._rounds = 0 if resampled or mode == "resampled" or repeat else 1
        if verbose:
            _log.info("WebDataset of %s", tars.path)


class WebLoader(DataPipeline):
    """Batches of a dataset, whose first stages run ahead of the loop on threads, in order.

    Parameters
    ----------
    dataset : WebDataset or DataPipeline
        Whose stages that make one sample of one, up to the first other, run on the threads.
    batch_size : int or None
        Samples of a batch, 1 by default as of torch's DataLoader; None where the dataset makes batches.
    num_workers : int
        Threads. Functions that hold Python's lock are no faster for more of them:
        ``torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=...)`` calls them in processes.
    collate_fn : callable
        Makes a batch of a list of samples, by default torch's; without `batch_size` called with each sample, by default
        torch's, too, which makes tensors of arrays.
    pin_memory : bool
        Whether tensors are in page-locked memory, where there is a CUDA device.
    drop_last : bool
        Whether samples that do not fill the last batch are left out.
    prefetch_factor : int
        Eights of samples that are ahead for each thread, 2 by default.
    persistent_workers : bool
        Threads cost nothing to start: both have the same effect.
    **other
        Other options of torch's DataLoader are refused.
    """

    def __init__(
        self,
        dataset: DataPipeline,
        batch_size: int | None = 1,
        *,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        **other: Any,
    ) -> None:
        if not isinstance(dataset, DataPipeline):
            raise TypeError("WebLoader loads a WebDataset or DataPipeline: give others to torch.utils.data.DataLoader")
        for name in other:
            raise TypeError(f"there is no option {name}: {_LOADER_OPTIONS.get(name, 'leave it out')}")
        if num_workers < 0:
            raise ValueError(f"num_workers={num_workers}: give the number of threads, or 0")
        super().__init__(dataset)
        if batch_size is None:
            if drop_last:
                raise ValueError("drop_last is for a batch_size; batched(n, partial=False) of the dataset does it")
            self.append(_stages.Each(_torch_convert if collate_fn is None else collate_fn))
        else:
            if self._most > 0:
                raise ValueError("with_epoch of the dataset counts its samples: give it to the loader, in batches")
            self.append(batched(batch_size, _torch_collate if collate_fn is None else collate_fn, not drop_last))
        if pin_memory:
            self.append(_stages.Each(_pinned))
        if num_workers:
            self._workers = num_workers, num_workers * (2 if prefetch_factor is None else prefetch_factor)


_LOADER_OPTIONS = {
    "shuffle": "WebDataset(shardshuffle=...) and shuffle(n) shuffle",
    "sampler": "sk.open(path, indices=...) and sk.Loader(indices=...) choose samples",
    "batch_sampler": "batched(n) makes batches",
    "timeout": "reading gives up by itself, where a store does not answer",
    "worker_init_fn": "workers are threads of this process",
    "multiprocessing_context": "workers are threads of this process",
    "generator": "WebDataset(seed=...) decides",
    "pin_memory_device": "pin_memory is for the current CUDA device",
}


def _torch_convert(sample: Any) -> Any:
    try:
        from torch.utils.data import default_convert
    except ModuleNotFoundError:
        return sample

    return default_convert(sample)


def _torch_collate(samples: list[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate(samples)


def _pinned(batch: Any) -> Any:
    import torch
    from torch.utils.data._utils.pin_memory import pin_memory

    return pin_memory(batch) if torch.cuda.is_available() else batch
