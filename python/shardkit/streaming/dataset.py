"""StreamingDataset over Shardkit's readers."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch.utils.data

from shardkit import _core, _process, _values
from shardkit import dataset as _dataset
from shardkit._epochs import Epochs
from shardkit._ranks import ranks
from shardkit.streaming._arguments import byte_count, is_url, sample_count
from shardkit.streaming._batching import OfOneStream, Stratified
from shardkit.streaming._order import Ids, Orders, Part, Rules
from shardkit.streaming.encodings import coder, image
from shardkit.streaming.stream import DEFAULTS, Stream, apply_weights

_CHOICES = {
    "sampling_method": ("balanced", "fixed"),
    "partition_algo": ("relaxed", "orig"),
    "shuffle_algo": ("py1e", "py1br", "py1s", "py2s", "naive"),
    "batching_method": ("random", "stratified", "per_stream", "device_per_stream"),
}
_READERS = 16  # threads that read ahead of URLs
_TOGETHER, _TOGETHER_BYTES = 64, 64 << 10  # samples that are read at once, at most
_BUFFER = 256 << 20
_WHOLE = 1 << 62


@dataclass(frozen=True)
class Shard:
    """A shard of a stream, as the stream's dataset lists it."""

    basename: str
    samples: int

    def __len__(self) -> int:
        return self.samples


class _Samples:
    """The samples of a stream, as their encodings say."""

    def __init__(self, stream: Stream) -> None:
        self.dataset = stream.open()
        self._reader = self.dataset._library
        columns = list(self.dataset.schema)
        encodings = _encodings(self.dataset)
        self._columns = [
            (column.name, i, _decoder(column, encodings.get(column.name)), _values.wants_writable(column))
            for i, column in enumerate(columns)
        ]
        self._positions = [i for _, i, _, _ in self._columns]
        self._writable = [writable for *_, writable in self._columns]

    def each(self, ordinals: Iterator[int]) -> Iterator[dict[str, Any]]:
        """Yield samples, which are read some at a time: of small values a call takes longer than to read them."""
        names = [name for name, *_ in self._columns]
        count = 1
        while some := list(itertools.islice(ordinals, count)):
            try:
                size, columns = self._read_columns(some)
            except Exception:  # it is that of one sample, and comes behind the samples before it
                yield from map(self.read, some)
                continue
            yield from [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            count = min(_TOGETHER, max(1, _TOGETHER_BYTES * len(some) // max(1, size)))

    def _read_columns(self, ordinals: list[int]) -> tuple[int, list[list[Any]]]:
        """Return how many bytes the samples have, and the values of each column."""
        if len(ordinals) > 1:
            columns = self._reader.read_values(ordinals, self._positions, self._writable)
        else:
            columns = [[value] for value in self.stored(ordinals[0])]
        size, made = 0, []
        for (_, _, decode, _), stored in zip(self._columns, columns, strict=True):
            size += sum(map(len, filter(None, stored)))
            made.append([None if value is None else decode(value) for value in stored])
        return size, made

    def stored(self, ordinal: int) -> list[Any]:
        read = self._reader.read_value
        return [read(ordinal, i, writable) for _, i, _, writable in self._columns]

    def read(self, ordinal: int, stored: list[Any] | None = None) -> dict[str, Any]:
        """Return a sample; `stored` are its values, if they have been read."""
        read = self._reader.read_value
        made: dict[str, Any] = {}
        for name, i, decode, writable in self._columns:
            value = read(ordinal, i, writable) if stored is None else stored[i]
            try:
                made[name] = None if value is None else decode(value)
            except Exception as error:  # of any decoder
                path = self.dataset.path
                message = f"{path}: sample {ordinal}: column {name}: {error}"
                raise _values.damaged(message, path, ordinal, name) from error
        return made


def _encodings(dataset: _dataset.Dataset) -> Mapping[str, str]:
    return dict(json.loads(dataset.metadata.get("mds.encodings", "{}")))


def _decoder(column: _core.Column, encoding: str | None) -> Callable[[Any], Any]:
    made = coder(encoding) if encoding is not None else None
    if encoding in ("str_int", "str_float") and column.type != "utf8":  # of a dataset that was converted
        return lambda value: _values.decode(column, value).item()
    if made is not None and column.type != "ndarray":
        return made.decode
    return image if column.type in ("jpeg", "png", "image") else partial(_values.decode, column)


class _Place(Epochs):
    """Which epoch comes next, and where to go on; for all processes that iterate a dataset."""

    def resume(self, state: Mapping[str, Any]) -> None:
        with self._shared() as shared:
            shared |= {"resume": dict(state), "waits": state["epoch"] >= 0}
            # These hold for the epochs that follow, too.
            shared["kept"] = {name: state[name] for name in ("shuffle_seed", "num_canonical_nodes") if name in state}

    def begin_at(self, epoch: int) -> None:
        """Begin this epoch at the next iteration, inside it where a state that waits says so."""
        with self._shared() as shared:
            shared["next"] = epoch
            shared["waits"] = shared.get("waits", False) and shared["resume"]["epoch"] == epoch

    def now(self) -> dict[str, Any]:
        """Return the state that the next iteration goes from if one waits, else that of the one begun last."""
        with self._shared() as shared:
            state = shared.get("resume")
            if state is not None and (shared["waits"] or state["epoch"] == shared["next"] - 1):
                return dict(state)
            return {**shared.get("kept", {}), "epoch": shared["next"] - 1, "sample_in_epoch": 0}

    def started(self, iteration: list[int], worker: int) -> dict[str, Any]:
        """Return the state from which an iteration goes, which each of its workers begins once."""
        with self._shared() as shared:
            for known in reversed(shared["iterations"]):
                if known["iteration"] == iteration and worker not in known["workers"]:
                    known["workers"].append(worker)
                    return dict(known["state"])
            state: dict[str, Any] = {**shared.get("kept", {}), "epoch": shared["next"], "sample_in_epoch": 0}
            if shared.get("waits"):
                state = dict(shared["resume"])
            else:
                shared["resume"] = None
            shared |= {"next": state["epoch"] + 1, "waits": False}
            shared["iterations"].append({"iteration": iteration, "workers": [worker], "state": state})
            del shared["iterations"][: -self._REMEMBERED]
            return state

    def copied(self) -> _Place:
        made = super().copied()
        if made is self:
            return self
        other = _Place(self.following)
        with self._shared() as shared, other._shared() as copy:
            copy |= {name: shared[name] for name in ("resume", "waits", "kept") if name in shared}
        return other


class StreamingDataset(torch.utils.data.IterableDataset[Any]):
    """The samples of MDS or of Shardkit's shards, one by one, divided among ranks and DataLoader's workers.

    Takes what StreamingDataset of mosaicml-streaming 0.13 takes; docs/from-mosaicml-streaming.md has a line for each
    parameter. The order of an epoch depends on the data, the seed and the epoch, and not on ranks and workers. Each
    sample comes once in an epoch; to give all ranks equally many, fewer samples than there are ranks come again at its
    end. A subclass may define `__getitem__`.

    Raises
    ------
    ValueError
        For options that contradict each other or the data.
    """

    def __init__(
        self,
        *,
        streams: Sequence[Stream] | None = None,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60,
        validate_hash: str | None = None,
        keep_zip: bool = False,
        epoch_size: int | str | None = None,
        predownload: int | None = None,
        cache_limit: int | str | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        partition_algo: str = "relaxed",
        num_canonical_nodes: int | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        shuffle_algo: str = "py1e",
        shuffle_seed: int = 9176,
        shuffle_block_size: int | None = None,
        batching_method: str = "random",
        allow_unsafe_types: bool = False,
        replication: int | None = None,
        stream_name: str = "stream",
        stream_config: dict[str, Any] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in _CHOICES}
        for name, value in given.items():
            if value not in _CHOICES[name]:
                words = {"sampling_method": "sampling method", "batching_method": "batching method"}.get(name, name)
                raise ValueError(f"Invalid {words}: {value}. Must be one of {', '.join(_CHOICES[name])}.")
        if bool(streams) == (bool(remote) or bool(local)):
            raise ValueError("You must provide either `streams` or `remote`/`local`, but not both.")
        if stream_name != "stream":
            raise ValueError(f"stream_name={stream_name!r}: there is no registry; give streams=[YourStream(...)]")
        for name, number in {
            "sampling_granularity": sampling_granularity,
            "num_canonical_nodes": num_canonical_nodes,
            "batch_size": batch_size,
            "predownload": predownload,
            "shuffle_block_size": shuffle_block_size,
            "replication": replication,
        }.items():
            if number is not None and (not isinstance(number, (int, np.integer)) or number < (name != "predownload")):
                raise ValueError(f"`{name}` must be a positive integer, but got: {number}.")
        if shuffle_seed < 0:
            raise ValueError(f"`shuffle_seed` must be a non-negative integer, but got: {shuffle_seed}.")
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.shuffle_algo = shuffle_algo
        self.shuffle_seed = shuffle_seed
        self.shuffle_block_size = shuffle_block_size
        self.num_canonical_nodes = num_canonical_nodes
        self.sampling_method = sampling_method
        self.sampling_granularity = sampling_granularity
        self.partition_algo = partition_algo
        self.batching_method = batching_method
        self.allow_unsafe_types = allow_unsafe_types
        self.replication = replication
        self.predownload = predownload if predownload is not None else 8 * batch_size if batch_size else 64
        if predownload is not None and batch_size is not None and predownload < batch_size:
            warnings.warn(
                f"predownload < batch_size ({predownload} < {batch_size}): This may result in slower batch time. "
                "Recommendation is to set predownload to at least batch_size",
                stacklevel=2,
            )
        self.cache_limit = None if cache_limit is None else byte_count(cache_limit, "cache_limit")
        self._ranks(replication)

        stream_defaults = {
            "split": split,
            "download_retry": download_retry,
            "download_timeout": download_timeout,
            "validate_hash": validate_hash,
            "keep_zip": keep_zip,
        }
        assert stream_defaults.keys() == DEFAULTS.keys()
        if streams is None or not streams:
            streams = [Stream(**{**(stream_config or {}), "remote": remote, "local": local, **stream_defaults})]
        elif stream_config:
            raise ValueError("stream_config: the streams are given, and made already")
        self.streams = list(streams)
        self.num_streams = len(self.streams)
        for stream in self.streams:
            stream.apply_default(stream_defaults)
        self._open()
        self.samples_per_stream = np.array([len(each.dataset) for each in self._samples], np.int64)
        for stream, count in zip(self.streams, self.samples_per_stream, strict=True):
            if count == 0:
                raise RuntimeError(f"Stream contains no samples: {stream.path}.")
            stream.check_hashes()
        self.num_samples = int(self.samples_per_stream.sum())
        self.sample_offset_per_stream = self.samples_per_stream.cumsum() - self.samples_per_stream
        wanted = sample_count(epoch_size, "Epoch size") if epoch_size else None
        self.epoch_size = apply_weights(self.streams, self.samples_per_stream.tolist(), wanted, shuffle_seed)
        self.length = -(-self.epoch_size // self._world_size)
        self._mean_bytes: int | None = None  # of a sample, about
        self._place = _Place()
        self._iterations = 0  # begun in this process

    def _ranks(self, replication: int | None) -> None:
        rank, world_size = ranks("auto", "auto")
        if replication is not None and world_size % replication:
            raise ValueError(f"World size must be divisible by your replication factor: {world_size}, {replication}.")
        self._rank, self._world_size = rank // (replication or 1), world_size // (replication or 1)
        self._nodes = max(1, world_size // int(os.environ.get("LOCAL_WORLD_SIZE") or world_size))

    def _open(self) -> None:
        self._generation = _process.generation
        caches = [cache for stream in self.streams if (cache := stream.cache) is not None]
        if caches and not os.environ.get("SHARDKIT_CACHE"):
            os.makedirs(os.path.dirname(caches[0]), exist_ok=True)
            _dataset.use_cache(caches[0], self.cache_limit or 0)
        self._samples = [_Samples(stream) for stream in self.streams]
        self._ends = np.cumsum([len(each.dataset) for each in self._samples])
        self._alone = self._samples[0] if len(self._samples) == 1 else None
        self._reads_ahead = any(is_url(stream.path) for stream in self.streams)
        self._read: dict[int, list[Any]] = {}  # ahead
        self._orders: tuple[Rules, Orders | Stratified | OfOneStream] | None = None

    @property
    def size(self) -> int:
        """The number of samples, each counted once."""
        return self.num_samples

    @property
    def shards(self) -> list[Shard]:
        """The shards of all streams, in their order."""
        opened = [each.dataset for each in self._samples]
        return [Shard(*of._library.shard(i)) for of in opened for i in range(of.shard_count)]

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        return sum(each.dataset.shard_count for each in self._samples)

    @property
    def samples_per_shard(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The samples of each of `shards`."""
        return np.array([shard.samples for shard in self.shards], np.int64)

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        return self._place.following

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self._place.begin_at(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch at the next iteration; what goes on inside it by a state does so."""
        self._place.begin_at(epoch)

    def __len__(self) -> int:
        """Return the samples of this rank in an epoch."""
        return self.length

    def __getitem__(self, at: Any) -> Any:
        """Return the sample of a number, which may be negative, or a list of those of a slice, list or array."""
        if type(at) is int or isinstance(at, (int, np.integer)):
            return self.get_item(int(at) + self.num_samples if at < 0 else int(at))
        if isinstance(at, slice):
            return [self.get_item(i) for i in range(*at.indices(self.num_samples))]
        if isinstance(at, (list, np.ndarray)):
            return [self[each] for each in at]
        raise ValueError(f"Unsupported argument type passed to __getitem__: {type(at)}.")

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return the sample of a number from 0; `retry` is of no effect: requests are sent again by themselves."""
        del retry
        if self._generation != _process.generation:
            self._open()
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"there is no sample {sample_id}; there are {self.num_samples}")
        of = self._alone
        ordinal = sample_id
        if of is None:
            i = int(np.searchsorted(self._ends, sample_id, side="right"))
            of, ordinal = self._samples[i], sample_id - int(self.sample_offset_per_stream[i])
        return of.read(ordinal, self._read.pop(sample_id, None) if self._read else None)

    def _stored(self, sample_id: int) -> list[Any]:
        i = int(np.searchsorted(self._ends, sample_id, side="right"))
        return self._samples[i].stored(sample_id - int(self.sample_offset_per_stream[i]))

    def _order(self, rules: Rules) -> Orders | Stratified | OfOneStream:
        if self._orders is None or self._orders[0] != rules:
            choose = [stream.choose for stream in self.streams]
            counts = self.samples_per_stream.tolist()
            paths = [each.dataset.path for each in self._samples]
            parts = [Part(*each) for each in zip(paths, counts, choose, strict=True)]
            size, world = self._batch_size(), self._world_size
            if self.batching_method == "stratified":
                orders: Orders | Stratified | OfOneStream = Stratified(parts, rules, size * world)
            elif self.batching_method == "per_stream":
                orders = OfOneStream(parts, rules, size * world, 1)
            elif self.batching_method == "device_per_stream":
                orders = OfOneStream(parts, rules, size, world)
            else:
                orders = Orders(parts, rules)
            self._orders = rules, orders
        return self._orders[1]

    def _batch_size(self) -> int:
        if self.batch_size is None:
            raise ValueError("Please pass `batch_size` to StreamingDataset, the same as to the DataLoader")
        return self.batch_size

    def _rules(self, state: Mapping[str, Any]) -> Rules:
        lanes = state.get("num_canonical_nodes", self.num_canonical_nodes)
        return Rules(
            seed=int(state.get("shuffle_seed", self.shuffle_seed)),
            shuffle=self.shuffle,
            fixed=self.sampling_method == "fixed",
            lanes=lanes or 0,
            buffer_bytes=self._buffer_bytes(lanes or 1),
        )

    def _buffer_bytes(self, nodes: int) -> int:
        """Return the bytes that have as many samples as are to be shuffled together."""
        if self._generation != _process.generation:
            self._open()
        if self.shuffle_algo == "naive":
            return _WHOLE
        shards = sum(each.dataset.shard_count for each in self._samples)
        if self.shuffle and self.shuffle_block_size and self.shuffle_block_size * shards < self.num_samples:
            warnings.warn("Shuffle block size was smaller than shard size: shards are shuffled whole", stacklevel=2)
        block = self.shuffle_block_size or max(4_000_000 // nodes, 1 << 18)
        if block * nodes >= self.num_samples:
            return _WHOLE
        if self._mean_bytes is None:
            some = np.linspace(0, self.num_samples - 1, 16).astype(np.int64).tolist()
            self._mean_bytes = sum(len(value or b"") for i in some for value in self._stored(i)) // len(some)
        size = block * nodes * self._mean_bytes
        return max(size, 1 << 20) if self.shuffle_block_size else max(size, _BUFFER)

    def _ids(self, state: Mapping[str, Any], worker: int, workers: int) -> Iterator[Ids]:
        """Yield the samples of this worker of this rank, batch by batch."""
        orders = self._order(self._rules(state))
        order = orders.epoch(state["epoch"])
        first, size, world = state["sample_in_epoch"], orders.size, self._world_size
        last = first + -(-max(0, size - first) // world) * world  # all ranks get equally many
        step = self._batch_size() * world
        for begin in range(first + worker * step, last, workers * step):
            end = min(begin + step, last)
            ids = order(begin, min(end, size))
            while len(ids) < end - begin:
                ids = np.concatenate([ids, order(0, min(size, end - begin - len(ids)))])
            yield ids[(self._rank - begin) % world :: world]

    def __iter__(self) -> Iterator[Any]:
        """Yield the samples of this rank, and in a DataLoader of this worker, of the next epoch, or of its rest."""
        if self._generation != _process.generation:
            self._open()
        info = torch.utils.data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        if info is None:
            iteration = [os.getpid(), id(self), self._iterations]
        else:
            iteration = [info.seed - info.id, 0, self._iterations]
        self._iterations += 1
        state = self._place.started(iteration, worker)
        batches = self._ids(state, worker, workers)
        ids = itertools.chain.from_iterable(batch.tolist() for batch in batches)
        plain = type(self).__getitem__ is StreamingDataset.__getitem__
        if plain and type(self).get_item is StreamingDataset.get_item and not self._reads_ahead and self._alone:
            yield from self._alone.each(ids)
        else:
            yield from map(self.__getitem__, self._ahead(ids) if self._reads_ahead else ids)

    def _ahead(self, ids: Iterator[int]) -> Iterator[int]:
        """Yield the same numbers, while threads read the samples of the next ones."""
        executor = ThreadPoolExecutor(_READERS, "shardkit-streaming")
        pending: deque[tuple[int, Future[list[Any]]]] = deque()
        try:
            for each in itertools.chain(ids, itertools.repeat(-1)):
                if each >= 0:
                    pending.append((each, executor.submit(self._stored, each)))
                if pending and (each < 0 or len(pending) > max(1, self.predownload)):
                    number, future = pending.popleft()
                    self._read[number] = future.result()
                    yield number
                    self._read.pop(number, None)
                elif each < 0:
                    return
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return where a run goes on; called where the DataLoader is, not in its workers.

        Parameters
        ----------
        num_samples : int
            Samples that all ranks together have had.
        from_beginning : bool
            Whether they are counted from the beginning of the epoch, or from where this run went on inside it.
        """
        state = self._place.now()
        first = 0 if from_beginning else state["sample_in_epoch"]
        return {
            "epoch": state["epoch"],
            "sample_in_epoch": first + num_samples,
            "num_canonical_nodes": state.get("num_canonical_nodes", self.num_canonical_nodes),
            "shuffle_seed": state.get("shuffle_seed", self.shuffle_seed),
            "initial_physical_nodes": state.get("initial_physical_nodes", self._nodes),
            "shardkit": self._fingerprint,
        }

    @property
    def _fingerprint(self) -> list[int]:
        """What makes the order another one."""
        made = [self.num_samples, self.epoch_size, int(self.shuffle), self._rules({}).buffer_bytes]
        if self.batching_method == "random":
            return made
        together = 1 if self.batching_method == "device_per_stream" else self._world_size
        return [*made, _CHOICES["batching_method"].index(self.batching_method), self._batch_size() * together]

    def load_state_dict(self, obj: Mapping[str, Any]) -> None:
        """Go on where a state was taken, at the next iteration, with any number of ranks and workers.

        Raises
        ------
        ValueError
            For a state from inside an epoch of other data or options, or of mosaicml-streaming, whose order is another.
        """
        if obj["sample_in_epoch"] != 0 and obj.get("shardkit") != self._fingerprint:
            if "shardkit" not in obj:
                raise ValueError(
                    f"the state is of mosaicml-streaming, whose order inside epoch {obj['epoch']} is another: change "
                    "over between two epochs, with sample_in_epoch=0"
                )
            raise ValueError(
                f"the state is of samples, epoch size, shuffle, buffer and batches {obj['shardkit']}, and here they "
                f"are {self._fingerprint}: give the same data and options, or sample_in_epoch=0"
            )
        self._place.resume(obj)

    def __getstate__(self) -> dict[str, Any]:
        unpickled: dict[str, Any] = {"_samples": None, "_alone": None, "_orders": None, "_read": {}, "_generation": -1}
        return {**self.__dict__, **unpickled, "_place": self._place.copied()}


class LocalDataset(torch.utils.data.Dataset[Any]):
    """The samples of a directory by their number.

    Parameters
    ----------
    local : str
        The directory.
    split : str
        A folder below it.
    """

    def __init__(self, local: str, split: str | None = None) -> None:
        self.local = local
        self.split = split or ""
        self._of = StreamingDataset(local=local, split=split)

    @property
    def size(self) -> int:
        """The number of samples."""
        return self._of.num_samples

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        """Return what `StreamingDataset` returns."""
        return self._of[at]
