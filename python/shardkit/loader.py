"""The loader: shuffled batches from datasets, in an order that does not depend on threads, ranks or restarts."""

from __future__ import annotations

import json
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import shardkit
from shardkit import _core, _process
from shardkit._ahead import Ahead, Batches, InLoop, Place, Recipe, Waits
from shardkit._mixture import Datasets, dataset_list, located, with_choice
from shardkit._options import (
    BadSamples,
    Collate,
    Missing,
    Order,
    ReadMode,
    Remainder,
    Size,
    Verify,
    WorkerKind,
    checked,
    column_names,
    parsed,
)
from shardkit._ranks import check_ranks, ranks
from shardkit._specs import (
    Kind,
    Spec,
    column_options,
    column_specs,
    parts,
    shared_geometry,
    stored_columns,
    with_items,
)
from shardkit._values import is_number
from shardkit._workers import Workers, end_later, worker_count
from shardkit.batch import Batch
from shardkit.columns import Stored, Tokens, Views
from shardkit.dataset import Indices, share_cache
from shardkit.functions import Map, Raw, SampleFunctions, Step
from shardkit.images import Geometry

if TYPE_CHECKING:
    from torch import device as Device  # noqa: N812 - a class
else:
    Device = Any  # torch is imported by programs that use it

# Options that the library takes by the same names.
_PASSED = {
    *("seed", "missing", "keys", "bad_samples", "memory_bytes", "decode_threads", "read_threads", "order", "remainder"),
    *("shuffle_buffer_bytes", "lanes", "expected_world_size", "locality", "epoch_samples", "mode", "verify"),
    *("verify_listed_hashes", "max_decompression", "trace", "empty_batches"),
}
STATE_VERSION = 2


def _close(workers: Workers, running: list[InLoop | Ahead], generation: int) -> None:
    """End what a loader that is gone has begun; in the child of a fork, where nothing of it runs, nothing."""
    if generation != _process.generation:
        return
    end_later([thread for each in (*running, workers) for thread in each.end()])


class Loader:
    """Batches of datasets, epoch after epoch. One ``for`` is one epoch.

    Parameters
    ----------
    datasets : path, `LoaderDataset`, or a sequence of these
        What is loaded; several are mixed.
    batch_size : int
        Samples of a batch: of a step on this rank, as in every program of PyTorch. 1 by default. With `Tokens`, rows.
    global_batch_size : int
        In place of `batch_size`: samples of a step over all ranks, a multiple of their number. Training that goes on at
        another world size then has the same steps.
    columns : mapping or sequence of str
        The columns, all but the key by default. A mapping says how each is decoded: `Image`, `LabelMap`,
        `DenseMasks`, `PackedMasks`, `Boxes`, `Points`, `Items`, `Tokens`, `Views`, `Stored` (None), a function, `Map`
        or `Raw`, or a list of one of the kinds and functions, each of which gets what the one before it made.
    where : str
        Only the samples that satisfy a condition, such as ``"label < 10 and width >= 512"``, as for `filter`. The
        columns that it names are read once, when the loader is made; blocks without a sample of them never.
    indices : sequence, array, slice or path
        Only these samples: ordinals or keys, in any order; a mask, which is a bool for each sample; or a file with one
        key a line, or ``.npy`` of ordinals.
    balance : str
        A column of integers, bools or texts: all of its values come equally often, whatever the number of samples that
        have them. Those of samples with a rare value come several times in an epoch, each time with other random crops,
        and of a common one not in every epoch. Samples without a value are left out.
    weights : array
        In place of `balance`: how often each sample of the dataset is taken, relative to the others; numbers from 0. In
        every epoch that is its share, rounded up or down by chance, so that over epochs it is exact.
    replacement : bool
        Whether `weights` and `balance` may take a sample more than once in an epoch. False is for epochs of fewer
        samples than there are, as by ``LoaderDataset(choose=...)``.
    seed : int
        What the order and the random crops are made from.
    rank, world_size : int or "auto"
        This rank, of how many. The order is the same for every world size. "auto" asks torch.distributed if it is in
        use, else the variables of torchrun, Slurm, Open MPI or PMI (`docs/train-python.md`), else there is one rank.
    uneven : bool
        Whether `global_batch_size` need not be a multiple of the world size; then ranks differ by one sample. In the
        last step of an epoch they may differ anyway, unless `remainder` is "drop" or "pad". A rank never has no sample:
        that is refused, also when a dataset has grown under `follow`.
    geometry : Geometry
        Of images and masks; by default that of the `Image` among the columns.
    transform : callable
        Called with each sample, a dict of its columns as `Dataset` gives them, or as decoded; returns a dict, whose
        columns the batch has. With a parameter ``rng`` it gets a generator, as the function of a `Map`.
    batch_function : callable
        Called with each batch; what it returns takes the batch's place.
    as_tuple : sequence of str
        The loop gets a tuple of these columns in place of the batch: ``for images, labels in loader``.
    collate : str
        What a batch of the results of functions is: ``"stack"``, ``"pad"`` or ``"list"``, as for `Map`.
    workers : int or "auto"
        Functions run ahead of the loop, on so many threads, in the order of the samples. "auto": one for each
        processor that this process may use, as for `decode_threads`. 0: in the loop, where the batch is asked for.
    worker_kind : str
        ``"thread"``; or ``"process"``, where each of these threads has `transform` and the functions of columns called
        in a process of its own. For functions that hold Python's lock. They are passed by name, so that they have to be
        those of a module.
    missing : str
        What becomes of a column that one of several datasets does not have: ``"fail"``, or ``"absent"``: its samples
        have no value of it, as `Batch.present` says. Without `columns` these are then the columns of all datasets.
    keys : bool
        Whether batches have the keys of their samples.
    bad_samples : str
        ``"fail"``, or ``"skip"`` to leave out what cannot be read.
    memory_bytes : int or str
        The most memory of blocks and batches, such as ``"768MiB"``.
    decode_threads, read_threads : int
        0: a decoding thread for each processor that this process may use (affinity, and the cgroup's limit), divided
        among the LOCAL_WORLD_SIZE ranks of the machine; reading threads are found by trying.
    follow : bool or callable
        Look at the manifests between epochs, and when a dataset has changed, load its newest generation from the next
        epoch on. Ranks look at different moments: with several, give a function that makes them agree, such as
        `shardkit.torch.agree`. It is called with the newest generation of each dataset that this rank sees, on all
        ranks alike: when the loader is made, between epochs, and when an epoch is started again; it returns what all of
        them shall open.
    order : str
        ``"shuffled"``; ``"sequential"``, as stored; ``"window"``: blocks as stored, samples shuffled within the buffer.
    remainder : str
        What becomes of the samples that do not fill the last step: ``"keep"`` has a smaller step, ``"drop"`` leaves
        them out, ``"pad"`` repeats others (`Batch.padding`).
    shuffle_buffer_bytes : int or str
        The bytes among which samples are shuffled, over all ranks.
    lanes, expected_world_size : int
        Into how many streams the order is divided, or a world size that this is to be a multiple of; 0 chooses. Ranks
        of a world size that divides the lanes read only what is theirs.
    locality : bool
        Ranks read the same blocks in every epoch, which their machines may have cached.
    epoch_samples : int
        Of datasets with a `proportion`: the samples of an epoch; 0 is as many as the datasets have.
    cache, cache_limit : path, and int or str
        Keep what is read of URLs on this local disk, as `use_cache` does for the whole process, which has one cache.
    mode, verify, verify_listed_hashes, max_decompression
        As for `open`.
    trace : bool
        Record what `trace` returns.
    empty_batches : bool
        Allow steps in which this rank has no sample.
    device, device_geometry, pin_memory, pinned_bytes, device_bytes, device_batches
        For tensors: see `shardkit.torch.Loader`.

    Raises
    ------
    ValueError
        For options that contradict each other or the data, and a state of another plan.
    DataLossError
        For damage, while iterating, naming the sample.

    Notes
    -----
    Threads of this process read and decode ahead, and do not hold the GIL. After a fork a loader works in the parent
    only.

    With `follow`, `len` and `samples_per_epoch` change between epochs. A state from inside an epoch opens the
    generations that it is of, for the rest of that epoch, as long as they are kept. Without `follow`, it is refused
    where the dataset has changed since: ``LoaderDataset(path, generation=...)`` opens the one that it needs.
    """

    @checked
    def __init__(
        self,
        datasets: Datasets,
        batch_size: int | None = None,
        *,
        global_batch_size: int | None = None,
        columns: Mapping[str, Spec] | Sequence[str] | None = None,
        where: str | None = None,
        indices: Indices = None,
        balance: str | None = None,
        weights: Annotated[Any, "an array of a number for each sample"] = None,
        replacement: bool = True,
        seed: int = 0,
        rank: Annotated[int | str, 'a number, or "auto"'] = "auto",
        world_size: Annotated[int | str, 'a number, or "auto"'] = "auto",
        uneven: bool = False,
        geometry: Geometry | None = None,
        transform: Callable[..., Mapping[str, Any]] | None = None,
        batch_function: Callable[[Batch], Any] | None = None,
        as_tuple: Sequence[str] | None = None,
        collate: Collate = "stack",
        workers: Annotated[int | str, 'a number, or "auto"'] = "auto",
        worker_kind: WorkerKind = "thread",
        missing: Missing = "fail",
        keys: bool = True,
        bad_samples: BadSamples = "fail",
        memory_bytes: Size = 768 << 20,
        decode_threads: int = 0,
        read_threads: int = 0,
        follow: bool | Callable[[list[int]], Sequence[int]] = False,
        order: Order = "shuffled",
        remainder: Remainder = "keep",
        shuffle_buffer_bytes: Size = 256 << 20,
        lanes: int = 0,
        expected_world_size: int = 1,
        locality: bool = False,
        epoch_samples: int = 0,
        cache: str | os.PathLike[str] | None = None,
        cache_limit: Size = 0,
        mode: ReadMode = "auto",
        verify: Verify = "every",
        verify_listed_hashes: bool = True,
        max_decompression: Size = 128 << 20,
        trace: bool = False,
        empty_batches: bool = False,
        device: str | Device = "host",
        device_geometry: bool = False,
        pin_memory: bool = False,
        pinned_bytes: Size = 512 << 20,
        device_bytes: Size = 0,
        device_batches: int = 2,
    ) -> None:
        passed = {name: value for name, value in locals().items() if name in _PASSED}
        if cache is not None:
            share_cache(cache, cache_limit)
        elif cache_limit:
            raise ValueError("cache_limit is what the cache takes at most: give its directory as cache, too")
        on_device = self._device_options(
            device,
            {
                "device_geometry": device_geometry,
                "pin_memory": pin_memory,
                "pinned_bytes": pinned_bytes,
                "device_bytes": device_bytes,
                "device_batches": device_batches,
            },
        )
        choice = {
            "where": where,
            "indices": indices,
            "balance": balance,
            "weights": weights,
            "replacement": None if replacement else False,
        }
        self._datasets = dataset_list(with_choice(located(datasets), choice))
        self._running: list[InLoop | Ahead] = []  # one, since it was started
        if batch_size is not None and global_batch_size is not None:
            raise ValueError("batch_size is that of each rank, global_batch_size that of all: give one of the two")
        for name, size in (("batch_size", batch_size), ("global_batch_size", global_batch_size)):
            if size is not None and size < 1:
                raise ValueError(f"{name}={size}: batches have samples")
        given = with_items(
            {name: parts(name, spec) for name, spec in column_specs(columns, self._datasets, missing).items()}
        )
        specs = {name: kind for name, (kind, _) in given.items()}
        self._names = list(specs)
        geometry = shared_geometry(specs.values(), geometry)
        self.rank, self.world_size = ranks(rank, world_size)
        self._auto = "auto" in (rank, world_size)
        self._per_rank = global_batch_size is None
        self.global_batch_size = (batch_size or 1) * self.world_size if global_batch_size is None else global_batch_size
        if uneven and self._per_rank:
            raise ValueError("uneven is for a global_batch_size that is no multiple of the world size")
        if self.global_batch_size % self.world_size != 0 and not uneven:
            raise ValueError(
                f"global_batch_size {self.global_batch_size} is no multiple of the {self.world_size} ranks: "
                f"give {-(-self.global_batch_size // self.world_size) * self.world_size}, or uneven=True"
            )
        if follow is True and self.world_size > 1:
            raise ValueError(
                f"follow=True is for one rank: {self.world_size} ranks look at different moments, and their epochs "
                "would differ; give a function that makes them agree, such as shardkit.torch.agree"
            )
        if follow and any(each.get("generation", 0) for each in self._datasets):
            raise ValueError("follow takes the newest generation of each dataset, and one has a `generation`")
        self._follow = follow
        self.batch_size = -(-self.global_batch_size // self.world_size)
        if as_tuple is not None:
            names = column_names(as_tuple)
            assert names is not None
            if batch_function is not None:
                raise ValueError("as_tuple is for batches, and batch_function makes others: give one of the two")
            if transform is None and (unknown := [name for name in names if name not in specs]):
                raise ValueError(f"as_tuple: there is no column {unknown[0]!r}; the batch has {', '.join(specs)}")
            as_tuple = names
        self._set_functions(
            given, transform, batch_function, as_tuple, collate, workers, worker_kind, seed, bad_samples
        )
        self._options = parsed(
            {
                "batch_size": self.global_batch_size,
                "rank": self.rank,
                "world_size": self.world_size,
                "geometry": asdict(geometry),
                "columns": [column_options(name, kind) for name, kind in specs.items()],
                "epochs": 0,
            }
            | passed
            | on_device
        )
        self._loader: _core.Loader | None = None
        self._objects_of: int | None = None
        self._waits = Waits()
        self._generation = _process.generation
        self._before: _core.LoaderReport | None = None  # of the loaders of the library before it
        self._start("")
        if self._auto and self.world_size > 1:
            least, more = divmod(self.global_batch_size, self.world_size)
            each = f"{least} to {least + 1}" if more else f"{least}"
            import logging

            logging.getLogger("shardkit").info(
                "steps of %d samples over %d ranks: %s each", self.global_batch_size, self.world_size, each
            )

    def _device_options(self, device: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return what the library is told of where batches lie."""
        defaults: dict[str, Any] = {"device": "host", "device_batches": 2}
        defaults |= {"device_geometry": False, "pin_memory": False, "pinned_bytes": 512 << 20, "device_bytes": 0}
        for name, value in {"device": device, **options}.items():
            default = defaults[name]
            if type(value) is not type(default) or value != default:
                raise TypeError(f"there is no option {name}: give shardkit.torch.Loader, which has it")
        return {}

    def _set_functions(
        self,
        columns: Mapping[str, tuple[Kind, list[Map]]],
        transform: Callable[..., Any] | None,
        batch_function: Callable[[Batch], Any] | None,
        as_tuple: Sequence[str] | None,
        collate: str,
        workers: int | str,
        worker_kind: str,
        seed: int,
        bad_samples: str,
    ) -> None:
        count = worker_count(workers)
        maps = {name: of_column for name, (_, of_column) in columns.items() if of_column}
        functions = None
        if maps or transform is not None:
            if worker_kind == "process" and count == 0:
                raise ValueError('worker_kind="process" needs workers, and with 0 functions are called in the loop')
            rows = [name for name, (kind, _) in columns.items() if isinstance(kind, Tokens)]
            if rows and (transform is not None or bad_samples == "skip"):
                raise ValueError(
                    f"column {rows[0]}: rows of tokens are of whole batches, of which functions of samples take no "
                    "part: give a batch_function"
                )
            steps = {name: [Step.of(each.function) for each in of_column] for name, of_column in maps.items()}
            functions = SampleFunctions(seed, steps, None if transform is None else Step.of(transform))
        elif worker_kind == "process":
            raise ValueError('worker_kind="process" is for transform and functions of columns, and there are none')
        # Columns whose values functions get as `open` gives them, or as the stored bytes.
        self._given = {
            name: isinstance(of_column[0], Raw) if of_column else False
            for name, (kind, of_column) in columns.items()
            if (of_column or transform is not None) and (kind is None or isinstance(kind, Stored))
        }
        self._recipe = Recipe(
            self._names,
            {},
            functions,
            {None: collate}
            | {name: of_column[-1].collate for name, of_column in maps.items() if of_column[-1].collate is not None},
            self._maker(),
            batch_function,
            as_tuple,
            bad_samples == "skip",
            [each["path"] for each in self._datasets],
        )
        self._workers: Workers | None = None
        if count > 0 and self._ahead and (functions is not None or batch_function is not None):
            self._workers = Workers(functions, count, worker_kind)
            weakref.finalize(self, _close, self._workers, self._running, _process.generation)

    _ahead = True  # whether functions may be called on other threads

    def _maker(self) -> Callable[..., Batch]:
        return partial(Batch, self._names)

    def _start(self, cursor: str) -> None:
        place: dict[str, Any] = {"cursor": cursor}
        if self._follow:
            at: dict[str, Any] = json.loads(cursor) if cursor else {"epoch": 0, "position": 0}
            if at["position"] > 0:
                self._choose(at.get("generations", []))
            else:
                self._choose(self._newest())
                place = {"first_epoch": at["epoch"]}
        self._start_at(place)

    def _start_at(self, place: dict[str, Any]) -> None:
        loader = self._open({**self._options, **place, "columns": self._column_options()})
        _process.belongs_here(loader)
        if self._loader is not None and self._generation == _process.generation:
            for source in self._running:
                for thread in source.end():
                    thread.join()
            self._before = self._loader.report(self._before)
        # The place counts the batches that were yielded. The source's is ahead of it when an exception, such as that of
        # Ctrl-C, took a batch that it had given out.
        self._loader, self._place = loader, Place.of(loader)
        if self._workers is None:
            self._running[:] = [InLoop(loader, self._recipe)]
        else:
            samples = self.global_batch_size // self.world_size
            self._running[:] = [Ahead(loader, self._recipe, self._workers, samples, self._waits)]
        self._generation = _process.generation
        # Whether the next `iter` goes on where the loader stands: at the beginning of an epoch, or where a state says.
        self._goes_on = True
        # Whether an epoch lies ahead that the datasets have not been looked at for.
        self._look_due = False

    def _column_options(self) -> list[dict[str, Any]]:
        """Return the library's columns. Those whose values functions get as objects come as views."""
        options: list[dict[str, Any]] = self._options["columns"]
        generation = self._datasets[0].get("generation", 0)
        if self._given and generation != self._objects_of:
            stored = stored_columns(self._datasets, self._options["missing"])
            objects = {
                name: None if raw else stored[name]
                for name, raw in self._given.items()
                if name in stored and (raw or not is_number(stored[name]))
            }
            self._recipe = replace(self._recipe, objects=objects)
            self._objects_of = generation
        views = column_options("", Views())["decode"]
        return [each | {"decode": views} if each["name"] in self._recipe.objects else each for each in options]

    def _newest(self) -> list[int]:
        newest = _core.newest_generations(self._datasets)
        return list(self._follow(newest)) if callable(self._follow) else newest

    def _choose(self, generations: Sequence[int]) -> None:
        for dataset, generation in zip(self._datasets, generations, strict=False):
            dataset["generation"] = generation

    def _look(self) -> None:
        """Open the datasets again, between epochs, when one has a newer generation."""
        if not (self._follow and self._look_due):
            return
        opened = self._library.generations
        newest = [max(pair) for pair in zip(self._newest(), opened, strict=True)]
        if newest != opened:
            self._choose(newest)
            try:
                self._start_at({"first_epoch": self.epoch})
            except BaseException:
                self._choose(opened)
                raise
        self._look_due = False

    def _open(self, options: dict[str, Any]) -> _core.Loader:
        return _core.Loader(self._datasets, options)

    @property
    def _library(self) -> _core.Loader:
        if self._generation != _process.generation:
            raise RuntimeError("this loader was made before the process was forked: make one in the child")
        assert self._loader is not None
        return self._loader

    @property
    def _source(self) -> InLoop | Ahead:
        self._library  # noqa: B018 (which refuses the child of a fork)
        return self._running[0]

    @property
    def _delivered(self) -> Place:
        self._library  # noqa: B018 (which refuses the child of a fork)
        return self._place

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._delivered.epoch

    @property
    def steps_left(self) -> int:
        """Steps left in `epoch`."""
        return self._delivered.steps_left

    @property
    def samples_per_epoch(self) -> int:
        """Samples of an epoch, over all ranks."""
        return self._library.samples

    def __len__(self) -> int:
        """Return the steps of a whole epoch."""
        return self._library.steps

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of one epoch: what is left of it after `load_state_dict`, else all of it.

        After a ``break`` the epoch begins again. Of two iterations of one loader the older one raises RuntimeError.
        After an exception of a function, ``next`` of the same iterator passes over that batch.
        """
        if not self._goes_on:
            self._start(self._library.cursor_at(self.epoch))
        return self._rest_of_epoch()

    def _rest_of_epoch(self) -> Iterator[Any]:
        self._iteration = token = object()
        return Batches(self, token)

    def _begin(self) -> InLoop | Ahead:
        """Begin an iteration."""
        if self._auto:
            check_ranks(self.world_size)
        if self._source.place.cursor != self._place.cursor:
            self._start(self._place.cursor)
        self._look()
        self._goes_on = False
        return self._source

    def epochs(self, count: int) -> Iterator[Iterator[Any]]:
        """Yield the epochs that remain of `count`, the first from where the loader stands."""
        while self.epoch < count:
            epoch = self.epoch
            yield self._rest_of_epoch()
            if self.epoch == epoch:
                raise RuntimeError("an epoch of epochs() was left before its end: use one loop for each epoch")

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch at the next `iter`; nothing happens when that would go on inside it."""
        if self.epoch != epoch or not self._goes_on:
            self._start(self._library.cursor_at(epoch))
        self._look()

    def seek(self, step: int) -> None:
        """Begin at this step of `epoch` at the next `iter`; what comes before it is not read."""
        if not 0 <= step < len(self):
            raise ValueError(f"step {step}: an epoch has steps 0 to {len(self) - 1}")
        self._start(self._library.cursor_at(self.epoch, step * self.global_batch_size))

    def state_dict(self) -> dict[str, Any]:
        """Return where a run goes on after the batches that it has got; under 1 KB, for any world size.

        A batch counts when the loop over the loader has it. One that ``batch_function`` or Ctrl-C ends before does not.
        """
        return {
            "version": STATE_VERSION,
            "cursor": self._delivered.cursor,
            "global_batch_size": self.global_batch_size,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken: the next `iter` yields the rest of its epoch.

        Warns where the steps have another number of samples now, because the world size is another, and `batch_size` is
        that of each rank.

        Raises
        ------
        ValueError
            When the state is of other datasets, or another generation of them, another seed, order, buffer or lanes.
        """
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"the state is of version {state.get('version')}; this is {STATE_VERSION}")
        before = state["global_batch_size"]
        if self._per_rank and before != self.global_batch_size:
            warnings.warn(
                f"steps had {before} samples over all ranks, and now have {self.global_batch_size}, "
                f"{self.batch_size} on each of {self.world_size}: global_batch_size={before} keeps them as they were",
                stacklevel=2,
            )
        self._start(state["cursor"])

    def report(self) -> shardkit.LoaderReport:
        """Return what the loader has done since it was made, and what limits its speed; ``print`` it."""
        from shardkit.loader_report import LoaderReport

        numbers = self._library.report(self._before).numbers()
        return LoaderReport.of(numbers, self._recipe.seconds, self._workers, self._waits)

    def metrics(self) -> dict[str, float]:
        """Return the numbers of `report` in one flat dict, for loggers such as W&B and TensorBoard."""
        return self.report().metrics()

    def trace(self) -> str:
        """Return the events so far in Chrome's trace format; empty without ``trace=True``."""
        return self._library.trace()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a loader cannot be pickled: make it in the process that uses it, with its state_dict")

    def __repr__(self) -> str:
        paths = ", ".join(each["path"] for each in self._datasets)
        ranks = f"rank {self.rank} of {self.world_size}"
        return f"<shardkit.Loader of {paths}: {len(self)} steps of {self.global_batch_size}, {ranks}>"
