"""Loaders and datasets for PyTorch: tensors over the batches' memory, and what its samplers and checkpoints expect."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.utils.data
import torch.utils.dlpack

from shardkit import _core, _process
from shardkit import batch as _batch
from shardkit import loader as _loader
from shardkit._epochs import Epochs
from shardkit._mixture import Datasets, dataset_list, located, with_choice
from shardkit._options import OpenOptions, SampleLoaderOptions, Unpack, checked, refuse_unknown
from shardkit._plan import plan
from shardkit._ranks import check_ranks, ranks
from shardkit._specs import Spec, column_specs
from shardkit._tensors import Batch
from shardkit.columns import Stored, Tokens
from shardkit.dataset import open as open_dataset


def agree(generations: list[int]) -> list[int]:
    """Return, of each dataset, the least generation that a rank of torch.distributed sees: all of them can open it.

    For `follow` of a loader with several ranks. It is a collective of the default group, called on the thread that
    iterates the loader.
    """
    seen: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(seen, generations)
    return [min(each) for each in zip(*seen, strict=True)]


class _Sampler:
    """What trainers call to say which epoch begins."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)


class Loader(_loader.Loader, torch.utils.data.IterableDataset[Any]):
    """`shardkit.Loader` whose batches are tensors.

    It is an IterableDataset of whole batches for those who want a DataLoader: ``DataLoader(loader, batch_size=None)``.

    Parameters
    ----------
    datasets, batch_size, and other options
        As for `shardkit.Loader`.
    device : str or torch.device
        Where the tensors are wanted: ``"host"``, or a device of torch. Batches reach a CUDA device while the step
        before computes: they are decoded into page-locked memory, copied and converted there, and their tensors are
        ordered with the current stream. Where this build has no CUDA, and for other devices, torch copies the tensors
        when they are asked for, on the current stream. ``"emulated"`` does the work of a CUDA device with threads and
        memory of the host, for tests.
    device_geometry : bool
        Resize and crop on the CUDA device. Images are decoded whole.
    pin_memory : bool
        Have batches on the host in page-locked memory, for programs that copy them to a device themselves.
    pinned_bytes, device_bytes : int or str
        The most page-locked memory (512 MiB), and the most device memory of batches (0: as needed).
    device_batches : int
        Batches that wait on the CUDA device for the loop, 2 or more.
    """

    _epoch_ended = False
    batch_sampler = None

    def _device_options(self, device: Any, options: dict[str, Any]) -> dict[str, Any]:
        self.device = None if device in ("host", "emulated") else torch.device(device)
        on_cuda = self.device is not None and self.device.type == "cuda" and _core.has_cuda()
        if on_cuda and self.device == torch.device("cuda"):
            self.device = torch.device("cuda", torch.cuda.current_device())
        on_device = on_cuda or device == "emulated"
        if not on_device and (options["device_geometry"] or options["device_bytes"] or options["device_batches"] != 2):
            raise ValueError(
                'device_geometry, device_bytes and device_batches are for device="cuda", where the package was built '
                'with CUDA (tools/wheel --cuda) and the machine has a driver for it, and for device="emulated"'
            )
        self._pin_memory = bool(options["pin_memory"])
        if not on_device and not self._pin_memory and options["pinned_bytes"] != 512 << 20:
            raise ValueError("pinned_bytes is for a CUDA device and for pin_memory=True")
        self._device = ("emulated" if self.device is None else str(self.device)) if on_device else "host"
        # Without CUDA in this build, torch copies the tensors to page-locked memory.
        pin_memory = self._pin_memory and (on_device or _core.has_cuda())
        return {**options, "device": self._device, "pin_memory": pin_memory}

    # Made when it is asked for: an attribute would be a cycle, and the loader would live until the collector runs.
    @property
    def sampler(self) -> _Sampler:
        """What trainers tell the epoch."""
        return _Sampler(self)

    def _open(self, options: dict[str, Any]) -> _core.Loader:
        if self._device != "host" and self._recipe.functions is not None:
            raise ValueError(
                f"device={self._device!r}: transform and functions of columns need values on the host; "
                "leave device out, or the functions"
            )
        return super()._open(options)

    def _maker(self) -> Callable[..., Batch]:
        return functools.partial(Batch, self._names, self.device, self._pin_memory)

    @property
    def _ahead(self) -> bool:  # type: ignore[override]
        # What a function of a device's batch queues belongs in the stream of the loop.
        return self._device == "host"

    def __iter__(self) -> Iterator[Any]:
        ended, self._epoch_ended = self._epoch_ended, False
        return iter(()) if ended else super().__iter__()

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch at the next `iter`; nothing happens when that would go on inside it."""
        self._epoch_ended = False
        super().set_epoch(epoch)

    def state_dict(self, num_samples: int | None = None, from_beginning: bool = True) -> dict[str, Any]:
        """Return where a run goes on.

        Parameters
        ----------
        num_samples : int
            What Composer has trained on in an epoch that it has not ended. After its last batch, the next `iter` yields
            nothing, so that Composer's count of epochs stays right.
        from_beginning : bool
            Passed by Composer; the loader knows where it stands.
        """
        state = super().state_dict()
        if num_samples and self.steps_left == len(self):
            state["epoch_ended"] = True
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken, as `shardkit.Loader.load_state_dict`."""
        super().load_state_dict(state)
        self._epoch_ended = bool(state.get("epoch_ended", False))


class _Steps(torch.utils.data.Dataset[Any]):
    """The batches of a loader by their number in the epoch."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __getitem__(self, step: int) -> Any:
        if step != len(self.loader) - self.loader.steps_left:
            self.loader.seek(step)
        return next(self.loader._rest_of_epoch())


class _StepSampler:
    """Batches of one step each."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    @property
    def batch_sampler(self) -> _StepSampler:
        """Where Trainer looks for `set_epoch`, beneath the sampler that skips."""
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[list[int]]:
        return ([step] for step in range(len(self.loader)))

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)


class StepLoader(torch.utils.data.DataLoader[Any]):
    """A DataLoader over a loader's batches, in which skipping steps reads nothing; for Hugging Face's Trainer.

    Parameters
    ----------
    loader : Loader
        Its batches have been divided among ranks: `Accelerator.prepare` must not divide them again.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__(_Steps(loader), batch_sampler=_StepSampler(loader), collate_fn=_only)

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch at the next `iter`."""
        self.batch_sampler.set_epoch(epoch)


def _only(batches: list[Any]) -> Any:
    return batches[0]


def _refuse(batches: list[Any], **_: Any) -> Any:
    raise TypeError("a Loader gives batches, which a DataLoader need not make: DataLoader(loader, batch_size=None)")


torch.utils.data._utils.collate.default_collate_fn_map[_batch.Batch] = _refuse


class Dataset(torch.utils.data.Dataset[Any]):
    """The samples of a dataset by ordinal, for torch's DataLoader.

    Parameters
    ----------
    path : str
        As for `shardkit.open`.
    columns : sequence of str
        Columns to read.
    transform : callable
        Called with each sample, a dict; what it returns takes the sample's place.
    **options
        As for `shardkit.open`.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        *,
        transform: Callable[[dict[str, Any]], Any] | None = None,
        **options: Unpack[OpenOptions],
    ) -> None:
        self.samples = open_dataset(path, columns, **options)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Any) -> Any:
        """Return the sample at an index as `shardkit.Dataset` takes it, or a list of several."""
        found = self.samples[index]
        return [self._made(sample) for sample in found] if isinstance(found, list) else self._made(found)

    def _made(self, sample: dict[str, Any]) -> Any:
        sample = {name: _collatable(value) for name, value in sample.items()}
        return sample if self.transform is None else self.transform(sample)

    def __getitems__(self, indexes: Sequence[int]) -> list[Any]:
        """Return several samples, as DataLoader asks for a batch."""
        return [self[i] for i in indexes]


class _Samples(Iterator[Any]):
    """One iteration of an IterableDataset. No generator, which would be at its end after an exception."""

    def __init__(self, of: IterableDataset, place: dict[str, Any] | None) -> None:
        self._of = of
        self._place = place
        self._loader: _loader.Loader | None = None
        self._batches: Iterator[Any] = iter(())
        self._values: list[tuple[str, Sequence[Any]]] = []
        self._left = iter(range(0))  # samples of the batch

    def __next__(self) -> Any:
        of = self._of
        if self._place is None:
            self._place = of._begin()
        if self._loader is None:
            self._loader = of._open()
            self._batches = iter(self._loader)
        place = self._place
        if place["ended"]:
            raise StopIteration
        if of._place is not place:
            raise RuntimeError("the dataset was iterated again while this iteration went on")
        i = next(self._left, None)
        while i is None:
            before = self._loader.state_dict()
            batch = next(self._batches, None)
            if batch is None:
                place["ended"] = True
                raise StopIteration
            skip = place["taken"] if before == place["loader"] else 0
            place |= {"loader": before, "taken": skip}
            self._values = [(name, _values_of(batch, name)) for name in batch.columns]
            if of._has_keys and "key" not in batch:
                self._values.append(("key", batch.sample_keys))
            self._left = iter(range(skip, len(batch)))
            i = next(self._left, None)
        place["taken"] = i + 1
        sample = {name: _collatable(column[i]) for name, column in self._values}
        return sample if of._transform is None else of._transform(sample)


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Samples one by one, split over ranks and DataLoader's workers; for transforms that have to run in workers.

    A sample is a dict from column to value, as `shardkit.Dataset` gives it, or as decoded, with its key as ``"key"``
    where the dataset has keys; None is what is absent. Each `iter` is the next epoch, also of a DataLoader, whether its
    workers stay or not, and after a ``break``. Each rank and worker gets its part of the one order of the epoch. The
    state is that of one worker; StatefulDataLoader keeps those of all.

    Parameters
    ----------
    datasets
        As for `shardkit.Loader`.
    chunk : int
        Samples that a worker takes at once.
    transform : callable
        Called with each sample, a dict from column to value; what it returns takes the sample's place.
    columns, rank, world_size, **options
        As for `shardkit.Loader`: those of `SampleLoaderOptions`.
    """

    @checked
    def __init__(
        self,
        datasets: Datasets,
        *,
        chunk: int = 64,
        transform: Callable[[dict[str, Any]], Any] | None = None,
        columns: Mapping[str, Spec] | Sequence[str] | None = None,
        rank: int | str = "auto",
        world_size: int | str = "auto",
        **options: Unpack[SampleLoaderOptions],
    ) -> None:
        if isinstance(columns, Mapping) and (tokens := [n for n, spec in columns.items() if isinstance(spec, Tokens)]):
            raise ValueError(f"column {tokens[0]}: rows of tokens are of whole batches: use shardkit.torch.Loader")
        if "batch_size" in options:
            raise TypeError("samples come one by one: give batch_size to the DataLoader, or use shardkit.torch.Loader")
        known = SampleLoaderOptions.__annotations__
        refuse_unknown(options, known)
        if unknown := options.keys() - known.keys():
            raise TypeError(f"there is no option {min(unknown)}; those of SampleLoaderOptions are {', '.join(known)}")
        self._columns = columns
        self._options = options
        self._datasets = located(datasets)
        self._chunk = chunk
        self._transform = transform
        # Asked here: workers do not know the process group.
        self._rank, self._world_size = ranks(rank, world_size)
        self._auto = "auto" in (rank, world_size)
        self._epochs = Epochs()
        self._iterations = 0  # begun in this process
        self._state: dict[str, Any] | None = None  # to go on with
        self._place: dict[str, Any] | None = None  # where the iteration stands
        self._loader: _loader.Loader | None = None
        self._generation = -1
        self._part = (0, 0)
        self._length: int | None = None  # over all ranks

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch at the next `iter`, in workers, too; what goes on inside it by a state does so."""
        if self._state is not None and self._state["epoch"] == epoch and not self._state["ended"]:
            return
        self._state = self._place = None
        self._epochs.following = epoch

    def _open(self) -> _loader.Loader:
        worker = torch.utils.data.get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        parts = self._world_size * workers
        # So a rank has the same samples, however many workers it has.
        part = (number * self._world_size + self._rank, parts)
        if self._loader is None or self._part != part or self._generation != _process.generation:
            datasets = dataset_list(self._datasets)
            specs = column_specs(self._columns, datasets, self._options.get("missing", "fail"))
            first = open_dataset(datasets[0]["path"], generation=datasets[0].get("generation", 0))
            self._has_keys = first.all_columns.key is not None and self._options.get("keys", True)
            self._part, self._generation = part, _process.generation
            # The workers of a rank share its processors.
            threads = {"decode_threads": max(1, _core.available_processors() // workers)}
            self._loader = _loader.Loader(
                self._datasets,
                self._chunk,
                columns={name: [spec, _as_it_is] if _is_stored(spec) else spec for name, spec in specs.items()},
                collate="list",
                workers=0,  # this is called in workers
                rank=part[0],
                world_size=parts,
                empty_batches=True,  # samples are taken one by one
                **{**threads, **cast(dict[str, Any], self._options)},
            )
        return self._loader

    def __len__(self) -> int:
        """Return the samples of this rank in an epoch, over all of its workers."""
        if self._options.get("remainder", "keep") != "keep":
            raise TypeError("how many samples a remainder drops or pads depends on the number of workers")
        if self._length is None:
            choice = {name: self._options.get(name) for name in ("where", "indices", "balance", "weights")}
            choice["replacement"] = None if self._options.get("replacement", True) else False
            samples = plan(with_choice(self._datasets, choice), epoch_samples=self._options.get("epoch_samples", 0))
            self._length = samples.samples_per_epoch
        return self._length // self._world_size + (self._rank < self._length % self._world_size)

    def __iter__(self) -> Iterator[Any]:
        # A worker says at once that it takes part. Without workers, an iterator that nobody asks for anything is none.
        return _Samples(self, None if torch.utils.data.get_worker_info() is None else self._begin())

    def _begin(self) -> dict[str, Any]:
        """Begin an iteration; returns where it stands."""
        if self._auto:
            check_ranks(self._world_size)
        loader = self._open()
        worker = torch.utils.data.get_worker_info()
        state, self._state = self._state, None
        if state is not None and state["part"] is not None and tuple(state["part"]) != self._part:
            part, parts = state["part"]
            here = f"part {self._part[0]} of {self._part[1]}"
            raise ValueError(
                f"the state is that of part {part} of {parts}, and this is {here}: "
                "give as many ranks and workers as there were, or use shardkit.torch.Loader"
            )
        if worker is None:
            # One that ended its epoch goes on with the next one. A worker first ends that epoch, as the others do.
            if state is not None and state["ended"]:
                state = {**state, "epoch": state["epoch"] + 1, "loader": None, "taken": 0, "ended": False}
            epoch = self._epochs.following if state is None else state["epoch"]
            self._epochs.following = epoch + 1
        else:
            iteration = [worker.seed - worker.id, self._iterations]
            epoch = self._epochs.begin(iteration, worker.id, None if state is None else state["epoch"])
        self._iterations += 1
        if state is not None and state["loader"] is not None:
            loader.load_state_dict(state["loader"])
        else:
            loader.set_epoch(epoch)
            state = None
        place = {"epoch": epoch, "loader": loader.state_dict(), "taken": 0, "part": list(self._part), "ended": False}
        if state is not None:
            place |= {"taken": state["taken"], "ended": state["ended"]}
        self._place = place
        return place

    def state_dict(self) -> dict[str, Any]:
        """Return where this worker stands."""
        state = self._state or self._place
        if state is None:
            state = {"epoch": self._epochs.following, "loader": None, "taken": 0, "part": None, "ended": False}
        return {"version": _loader.STATE_VERSION, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a worker of the same number stood, at the next `iter`, which refuses the state of another."""
        if state.get("version") != _loader.STATE_VERSION:
            raise ValueError(f"the state is of version {state.get('version')}; this is {_loader.STATE_VERSION}")
        self._state = {name: value for name, value in state.items() if name != "version"}

    def __getstate__(self) -> dict[str, Any]:
        if self._auto:
            check_ranks(self._world_size)  # workers that are spawned do not know the process group
        return {**self.__dict__, "_loader": None, "_place": None, "_epochs": self._epochs.copied()}


def _collatable(value: Any) -> Any:
    """Return the value as torch's default_collate takes it: np.uint64 it does not."""
    return np.asarray(value) if isinstance(value, np.uint64) else value


def _as_it_is(value: Any) -> Any:
    return value


def _is_stored(spec: Spec) -> bool:
    return spec is None or isinstance(spec, Stored)


def _values_of(batch: _batch.Batch, name: str) -> Sequence[Any]:
    """Return the value of each sample, None where it is absent."""
    column = batch[name]
    if name in batch._made:
        return list(column)
    return [column[i] if there else None for i, there in enumerate(batch.present(name))]


def Node(loader: _loader.Loader) -> Any:  # noqa: N802 (a class to those who use it)
    """Return a torchdata node that yields the batches of a loader, one epoch for each reset.

    Parameters
    ----------
    loader : Loader
        Its state is the node's.
    """
    from torchdata.nodes import BaseNode

    class LoaderNode(BaseNode):
        def __init__(self) -> None:
            super().__init__()
            self._batches: Iterator[Any] = iter(())

        def reset(self, initial_state: dict[str, Any] | None = None) -> None:
            super().reset(initial_state)
            if initial_state is not None:
                loader.load_state_dict(initial_state)
            self._batches = iter(loader)

        def next(self) -> Any:
            return next(self._batches)

        def get_state(self) -> dict[str, Any]:
            return loader.state_dict()

    return LoaderNode()
