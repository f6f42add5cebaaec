"""The samples of tars, as webdataset gives them, from a loader: in its order, with a place to go on from."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardkit import _core, _numbers, _process
from shardkit._options import located, path_text
from shardkit.columns import Views
from shardkit.dataset import open as open_dataset
from shardkit.loader import Loader
from shardkit.wds._stages import Each, ExceptionHandler, Left, reraise_exception

# Samples that the loader gives at once, and that a worker takes at once.
_CHUNK = 64
_TASK = 8


def one_path(urls: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> str:
    """Return URLs as webdataset takes them as one path: a pattern, where they are several."""
    if isinstance(urls, dict):
        raise ValueError("urls: a mixture of datasets is a list of sk.LoaderDataset(path, proportion=...) of sk.Loader")
    given = urls.split("::") if isinstance(urls, str) else [urls] if isinstance(urls, os.PathLike) else list(urls)
    if not given:
        raise ValueError("urls: the list is empty")
    paths = []
    for each in given:
        if not isinstance(each, (str, os.PathLike)):
            raise TypeError(f"urls: give a path, a URL or a list of these, not {each!r:.60}")
        url = re.sub(r"\$\{(\w+)\}", _variable, os.fspath(each))
        if url.startswith(("pipe:", "-")):
            raise ValueError(
                f"{url}: no program is run: give the URL of the tar itself, as s3://bucket/x.tar, gs://bucket/x.tar or "
                "https://host/x.tar"
            )
        if url.endswith((".yaml", ".yml", ".json")):
            raise ValueError(f"{url}: lists of shards are not read: give the tars, as x-{{000000..000099}}.tar")
        paths.append(path_text(located(url[5:] if url.startswith("file:") else url)))
    if len(paths) == 1:
        return paths[0]
    folders = [path[: path.rfind("/", 0, re.search(r"[{*?\[\\]|$", path).start()) + 1] for path in paths]  # type: ignore[union-attr]
    prefix = min(folders, key=len)
    while not all(folder.startswith(prefix) for folder in folders):
        prefix = prefix[: prefix.rstrip("/").rfind("/") + 1]
    return prefix + "{" + ",".join(_escaped(path[len(prefix) :]) for path in paths) + "}"


def _escaped(path: str) -> str:
    """Return a path as a part between braces; commas within its own braces divide those."""
    return path if "{" in path else path.replace(",", "\\,")


def _variable(match: re.Match[str]) -> str:
    name = "WDS_" + match[1]
    if name not in os.environ:
        raise ValueError(f"urls: there is no environment variable {name}")
    return os.environ[name]


def _extension(column: str) -> str:
    return {"/.": "", "/key": "key"}.get(column, column)


@dataclass(frozen=True)
class Place:
    """Where an iteration of an epoch stands: samples taken of the batch before which the loader had this state."""

    loader: dict[str, Any] | None = None
    taken: int = 0


@dataclass(frozen=True)
class Tars:
    """Which samples, and in which order.

    Attributes
    ----------
    path : str
        A tar, a folder of tars, or a pattern of them.
    seed : int
        Of the order.
    shuffled : bool
        Whether the order is shuffled.
    handler : callable
        Called with the exception of a sample that is damaged.
    split_nodes, split_workers : bool
        Whether ranks, and workers of a DataLoader, divide the samples.
    select_files : callable
        Called with the name of each member: false leaves it out.
    empty_check : bool
        Whether no sample is an error.
    """

    path: str
    seed: int = 0
    shuffled: bool = False
    handler: ExceptionHandler = reraise_exception
    split_nodes: bool = True
    split_workers: bool = True
    select_files: Callable[[str], Any] | None = None
    empty_check: bool = True

    def but(self, **changed: Any) -> Tars:
        """Return the same with something changed."""
        return replace(self, **changed)


class Reader:
    """The loader of one part of the samples, in one process."""

    def __init__(self, tars: Tars, part: tuple[int, int]) -> None:
        self.tars, self.part = tars, part
        self.generation = _process.generation
        self._dataset = open_dataset(tars.path)
        columns = self._dataset.all_columns
        for column in columns:
            if column.type in ("rle", "ndarray") or _numbers.is_scalar(column.type):
                raise ValueError(
                    f"{tars.path}: column {column.name!r} is of {column.type}, and webdataset's samples are of bytes: "
                    "use shardkit.torch.Loader"
                )
        names = [column.name for column in columns if column.name != columns.key]
        self.samples = len(self._dataset)
        self._names = [(name, _extension(name)) for name in names]
        self._urls: dict[int, str] = {}
        self._loader: Loader | None = None
        if self.samples == 0:
            return
        self._loader = Loader(
            tars.path,
            _CHUNK,
            columns={name: Views() for name in names},
            seed=tars.seed,
            order="shuffled" if tars.shuffled else "sequential",
            rank=part[0],
            world_size=part[1],
            workers=0,
            empty_batches=True,
            bad_samples="fail" if tars.handler is reraise_exception else "skip",
            decode_threads=max(1, _core.available_processors() // part[1]),
        )

    def _url(self, shard: int) -> str:
        if shard not in self._urls:
            name, _ = self._dataset._library.shard(shard)
            path = self._dataset.path
            # Of a pattern, shards have whole names.
            if name == os.path.basename(path):
                name = path
            elif "/" not in name:
                name = path.rstrip("/") + "/" + name
            self._urls[shard] = name
        return self._urls[shard]

    def items(self, epoch: int, place: Place) -> Iterator[tuple[Place, Any]]:
        """Yield the samples of an epoch from a place on, each with the place behind it."""
        if self._loader is None:
            if self.tars.empty_check:
                raise ValueError(f"{self.tars.path}: no samples; empty_check=False allows it")
            return
        if place.loader is not None:
            self._loader.load_state_dict(place.loader)
        else:
            self._loader.set_epoch(epoch)
        skip = place.taken
        before = self._loader.state_dict()
        for batch in self._loader:
            for _, ordinal, reason in batch.skipped:
                if not self.tars.handler(_core.DataLossError(f"{self.tars.path}: sample {ordinal}: {reason}")):
                    return
            yield from itertools.islice(self._samples(batch, before), skip, None)
            before, skip = self._loader.state_dict(), 0

    def _samples(self, batch: Any, before: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
        select = self.tars.select_files
        columns = []
        for i, (_, extension) in enumerate(self._names):
            _, _, views, _, _, _, present = batch._batch.column(i)
            columns.append((extension, views, present))
        shards = batch.samples[:, 1].tolist()
        for i, key in enumerate(batch.sample_keys):
            url = self._url(shards[i])
            sample: dict[str, Any] = {"__key__": key, "__url__": url}
            if "://" not in url:
                sample["__local_path__"] = url
            for extension, views, present in columns:
                if present is not None and not present[i]:
                    continue
                if select is None or select(f"{key}.{extension}"):
                    sample[extension] = b"" if views[i] is None else views[i].tobytes()
            yield (
                Place(before, i + 1),
                sample if select is None or not all(name.startswith("__") for name in sample) else Left(stop=False),
            )


def through(items: Iterator[tuple[Place, Any]], stages: Sequence[Each]) -> Iterator[tuple[Place, Any]]:
    """Yield what stages make of samples; `Left`, or the exception, in place of one that they fail on."""
    return ((place, _called(stages, sample)) for place, sample in items)


def ahead(
    items: Iterator[tuple[Place, Any]], stages: Sequence[Each], workers: int, tasks: int
) -> Iterator[tuple[Place, Any]]:
    """Yield the same as `through`, with stages called ahead on threads; at most so many tasks are under way."""

    def task(part: list[tuple[Place, Any]]) -> list[tuple[Place, Any]]:
        return list(through(iter(part), stages))

    pool = concurrent.futures.ThreadPoolExecutor(workers, "shardkit-wds")
    running: deque[concurrent.futures.Future[list[tuple[Place, Any]]]] = deque()
    failed: Exception | None = None
    try:
        while True:
            while len(running) < tasks and failed is None:
                part: list[tuple[Place, Any]] = []
                try:
                    for item in itertools.islice(items, _TASK):
                        part.append(item)
                except Exception as error:  # comes after what was read before it
                    failed = error
                if not part:
                    break
                running.append(pool.submit(task, part))
            if not running:
                break
            yield from running.popleft().result()
        if failed is not None:
            raise failed
    finally:
        # No waiting: a collection of garbage may end this anywhere, also where `threading` holds a lock that the end of
        # a thread takes.
        pool.shutdown(wait=False, cancel_futures=True)


def _called(stages: Sequence[Each], sample: Any) -> Any:
    if isinstance(sample, Left):
        return sample
    try:
        for stage in stages:
            sample = stage(sample)
    except Left as left:
        return left
    except Exception as error:
        return Raised(error)
    return sample


@dataclass(frozen=True)
class Raised:
    """In place of a sample: what a stage raised."""

    error: Exception
