"""Pipelines of webdataset: samples in the loader's order, what stages make of them, and where an iteration stands."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from shardkit import _process
from shardkit._epochs import Epochs
from shardkit._ranks import check_ranks, ranks
from shardkit.wds import _stages
from shardkit.wds._fluent import Fluent
from shardkit.wds._order import (
    Shuffle,
    SimpleShardList,
    refuse_rename_files,
    resampled,
    single_node_only,
    split_by_node,
    split_by_worker,
    tarfile_to_samples,
)
from shardkit.wds._source import Place, Raised, Reader, Tars, ahead, through

try:
    from torch.utils.data import IterableDataset as _Base
except ModuleNotFoundError:

    class _Base:  # type: ignore[no-redef]
        """In place of torch's."""


STATE_VERSION = 1
# More epochs than one iteration has, so that iterations in workers have epochs of their own.
_EPOCHS = 1 << 16
_Pipeline = TypeVar("_Pipeline", bound="DataPipeline")


class _Iteration(Iterator[Any]):
    """One iteration of a pipeline."""

    def __init__(self, pipeline: DataPipeline, state: dict[str, Any]) -> None:
        self.pipeline = pipeline
        self.epoch: int = state["epoch"]
        self.round: int = state["round"]  # epochs of this iteration that have ended
        self.count: int = state["count"]  # of what it has given
        self.ended: bool = state["ended"]
        self.part = pipeline._part()
        self._mark = Place(state["loader"], state["taken"])  # where no stage held anything
        self._since: int = state["since"]  # given since the mark
        self._at = self._mark
        self._streams: list[_stages.Stream] = []
        self._given: Iterator[Any] | None = None

    def state(self) -> dict[str, Any]:
        """Return where it stands."""
        clean = not any(stream.holds for stream in self._streams) and self._given is not None
        place, since = (self._at, 0) if clean else (self._mark, self._since)
        return {
            **{"epoch": self.epoch, "round": self.round, "count": self.count, "ended": self.ended},
            **{"loader": place.loader, "taken": place.taken, "since": since, "part": list(self.part)},
        }

    def __next__(self) -> Any:
        pipeline = self.pipeline
        if pipeline._iteration is not self:
            raise RuntimeError("the dataset was iterated again while this iteration went on")
        while not self.ended and not 0 < pipeline._most <= self.count:
            if self._given is None:
                self._given = self._epoch(self._since)
            for each in self._given:
                self.count += 1
                self._since += 1
                return each
            self._given, self._mark, self._at, self._since = None, Place(), Place(), 0
            self._streams = []
            self.epoch += 1
            self.round += 1
            if pipeline._rounds and self.round >= pipeline._rounds:
                self.ended = True
        self.ended = True
        raise StopIteration

    def _epoch(self, skip: int) -> Iterator[Any]:
        pipeline = self.pipeline
        stages = [copy.copy(stage) for stage in pipeline._stages]
        self._streams = [stage for stage in stages if isinstance(stage, _stages.Stream)]
        first: list[Any] = list(itertools.takewhile(lambda stage: isinstance(stage, _stages.Each), stages))
        items: Iterator[tuple[Place, Any]] = pipeline._items(self.part, self.epoch, self._mark)
        workers, tasks = pipeline._workers
        items = ahead(items, first, workers, tasks) if workers and first else through(items, first)
        made = self._source(items)
        seed = f"{pipeline._seed} {self.epoch} {self.part}"
        for each, group in itertools.groupby(stages[len(first) :], lambda stage: isinstance(stage, _stages.Each)):
            if each:
                made = self._each(made, list(group))
            else:
                for stream in group:
                    assert isinstance(stream, _stages.Stream)
                    made = stream.run(made, seed)
        yield from itertools.islice(made, skip, None)

    def close(self) -> None:
        """End the threads and the reading of this iteration, which has itself in its generators."""
        self._given, self._streams = None, []

    def _source(self, items: Iterator[tuple[Place, Any]]) -> Iterator[Any]:
        streams = self._streams
        for place, sample in items:
            if isinstance(sample, Raised):
                raise sample.error
            if not any(stream.holds for stream in streams):
                self._mark, self._since = self._at, 0
            self._at = place
            if not isinstance(sample, _stages.Left):
                yield sample
            elif sample.stop:
                return

    @staticmethod
    def _each(source: Iterator[Any], stages: list[Any]) -> Iterator[Any]:
        for sample in source:
            try:
                for stage in stages:
                    sample = stage(sample)
            except _stages.Left as left:
                if left.stop:
                    return
                continue
            yield sample


class DataPipeline(Fluent, _Base):  # type: ignore[misc]
    """Samples, and what stages make of them.

    Each `iter` is the next epoch, of which this rank, and this worker of a DataLoader, has its part. With
    `state_dict` and `load_state_dict` an iteration goes on after what it has given, also under torchdata's
    StatefulDataLoader.

    Parameters
    ----------
    *args
        The stages of webdataset: first `SimpleShardList`, another pipeline, any iterable, or a function that returns
        one; then `split_by_node`, `split_by_worker`, `tarfile_to_samples`, `shuffle`, `decode` and the others, and
        functions of an iterator.
    """

    _workers = (0, 0)  # threads that stages are called on ahead, and their tasks

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self._tars: Tars | None = None
        self._source: Iterable[Any] | Callable[[], Iterable[Any]] = ()
        self._stages: list[_stages.Stage] = []
        self._rounds = 1  # epochs of an iteration; 0: without end
        self._most = -1  # of what an iteration gives
        self._length = -1
        self._seed = 0
        self._ranks = (0, 1)
        self._state: dict[str, Any] | None = None  # to go on with
        self._iteration: _Iteration | None = None
        self._reader: Reader | None = None
        self._iterations = 0  # begun in this process
        self._epochs = Epochs()
        stages = [stage for each in args if each is not None for stage in (each if isinstance(each, list) else [each])]
        if not stages:
            return
        first, *rest = stages
        if isinstance(first, SimpleShardList):
            expand = next((stage for stage in rest if isinstance(stage, tarfile_to_samples)), None)
            if expand is None:
                raise ValueError("DataPipeline: tarfile_to_samples() has to follow SimpleShardList")
            if expand.rename_files is not None:
                refuse_rename_files()
            # What ranks and workers do here is what they do in webdataset only where the splitters say so.
            tars = replace(first.tars, handler=expand.handler, select_files=expand.select_files, empty_check=False)
            self._of_tars(replace(tars, split_nodes=split_by_node in rest, split_workers=split_by_worker in rest))
            self._rounds = 0 if first.repeats or resampled in rest else 1
            markers = (split_by_node, split_by_worker, single_node_only, resampled, expand)
            rest = [stage for stage in rest if stage not in markers]
        elif isinstance(first, DataPipeline):
            self.__dict__ |= first._copied().__dict__
        else:
            self._source = first
        for stage in rest:
            self.append(stage)

    def _of_tars(self, tars: Tars) -> None:
        self._tars = tars
        self._seed = tars.seed
        self._ranks = ranks("auto", "auto")

    def _copied(self: _Pipeline) -> _Pipeline:
        made = copy.copy(self)
        made._stages = list(self._stages)
        made._iteration = made._reader = None
        made._epochs = Epochs(self._epochs.following)
        return made

    def append(self, f: Any) -> None:
        """Add a stage to this pipeline."""
        if isinstance(f, Shuffle):
            if f.size < 1:
                return
            if self._tars is None:
                self._seed = self._seed if f.seed is None else f.seed
                self._stages.append(_stages.Shuffled(f.size))
                return
            seed = self._tars.seed if f.seed is None else f.seed
            self._tars, self._seed = replace(self._tars, shuffled=True, seed=seed), seed
        elif isinstance(f, (_stages.Each, _stages.Stream)):
            self._stages.append(f)
        elif callable(f):
            self._stages.append(_stages.Function(f))
        else:
            raise TypeError(f"{f!r:.60} is no stage: give one of shardkit.wds, or a function of an iterator")

    def compose(self: _Pipeline, *args: Any) -> _Pipeline:
        """Return a copy with more stages."""
        made = self._copied()
        for stage in args:
            made.append(stage)
        return made

    # Epochs.

    def with_epoch(self: _Pipeline, nsamples: int = -1, nbatches: int = -1) -> _Pipeline:
        """End each iteration after so many samples or batches, and go on with the next one where it ended."""
        self._rounds, self._most = 0, max(nsamples, nbatches)
        return self

    def repeat(self: _Pipeline, nepochs: int = -1, nbatches: int = -1) -> _Pipeline:
        """Have so many epochs in an iteration, without end by default, and at most so many batches."""
        self._rounds, self._most = max(nepochs, 0), nbatches
        return self

    def with_length(self: _Pipeline, n: int, silent: bool = False) -> _Pipeline:
        """Say what `len` is, where it is not known; the samples stay the same."""
        self._length = n
        return self

    def __len__(self) -> int:
        """Return what this rank gets in an iteration.

        Raises
        ------
        TypeError
            When it depends on functions: `with_length` says it.
        """
        if self._length >= 0:
            return self._length
        if self._most > 0:
            return self._most
        if self._rounds == 0:
            raise TypeError("the dataset is repeated without end: with_epoch or with_length says how long it is")
        if self._tars is None:
            count = -1 if callable(self._source) else operator.length_hint(self._source, -1)
        else:
            rank, world = self._ranks if self._tars.split_nodes else (0, 1)
            samples = self._opened(self._part()).samples
            count = samples // world + (rank < samples % world)
        for stage in self._stages:
            if isinstance(stage, _stages.Batched):
                count = -(-count // stage.batchsize) if stage.partial else count // stage.batchsize
            elif not (isinstance(stage, _stages.Each) and stage.keeps):
                count = -1
            if count < 0:
                break
        if count < 0:
            raise TypeError("the length depends on what stages leave out or add: with_length(n) says it")
        return count * self._rounds

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch at the next `iter`, in workers, too."""
        self._state = None
        self._epochs.following = epoch

    # Iteration.

    def _part(self) -> tuple[int, int]:
        """Return which part of the samples this process has, and of how many."""
        if self._tars is None:
            return 0, 1
        check_ranks(self._ranks[1])
        rank, world = self._ranks if self._tars.split_nodes else (0, 1)
        worker = _worker() if self._tars.split_workers else None
        number, workers = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        # So a rank has the same samples, however many workers it has.
        return number * world + rank, world * workers

    def _opened(self, part: tuple[int, int]) -> Reader:
        assert self._tars is not None
        reader = self._reader
        if reader is None or (reader.tars, reader.part, reader.generation) != (self._tars, part, _process.generation):
            self._reader = reader = Reader(self._tars, part)
        return reader

    def _items(self, part: tuple[int, int], epoch: int, place: Place) -> Iterator[tuple[Place, Any]]:
        if self._tars is not None:
            return self._opened(part).items(epoch, place)
        source = self._source() if callable(self._source) else self._source
        numbered = zip(itertools.count(1), source, strict=False)
        return ((Place(None, i), sample) for i, sample in itertools.islice(numbered, place.taken, None))

    def _begin(self) -> dict[str, Any]:
        state, self._state = self._state, None
        part = self._part()
        if state is not None and tuple(state["part"]) != part:
            raise ValueError(
                f"the state is that of part {state['part'][0]} of {state['part'][1]}, and this is {part[0]} of "
                f"{part[1]}: give as many ranks and workers as there were; shardkit.torch.Loader goes on with others"
            )
        worker, before = _worker(), self._iteration
        fresh = {"round": 0, "count": 0, "ended": False, "loader": None, "taken": 0, "since": 0, "part": part}
        if worker is None:
            if state is None and before is not None and before.ended and self._most > 0 and self._rounds == 0:
                state = before.state()
            if state is not None and state["ended"]:
                state = state | {"round": 0, "count": 0, "ended": False}
            epoch = self._epochs.following if state is None else state["epoch"]
            begun = 0 if state is None else state["round"]
            self._epochs.following = epoch - begun + max(self._rounds, 1)
        else:
            iteration = [worker.seed - worker.id, self._iterations]
            epoch = self._epochs.begin(iteration, worker.id, None if state is None else state["epoch"] // _EPOCHS)
            epoch = epoch * _EPOCHS if state is None else state["epoch"]
        self._iterations += 1
        return fresh | {"epoch": epoch} if state is None else state

    def __iter__(self) -> Iterator[Any]:
        state = self._begin()
        self._end_iteration()
        self._iteration = _Iteration(self, state)
        return self._iteration

    def _end_iteration(self) -> None:
        if self._iteration is not None:
            self._iteration.close()
        self._iteration = None

    def state_dict(self) -> dict[str, Any]:
        """Return where the iteration stands, in this process, after what it has given; under 1 KB."""
        if self._state is not None:
            state = self._state
        elif self._iteration is not None:
            state = self._iteration.state()
        else:
            state = {"round": 0, "count": 0, "ended": False, "loader": None, "taken": 0, "since": 0}
            state |= {"epoch": self._epochs.following, "part": list(self._part())}
        return {"version": STATE_VERSION, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken, at the next `iter`: of the same samples, seed, stages, ranks and workers."""
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"the state is of version {state.get('version')}; this is {STATE_VERSION}")
        self._state = {name: value for name, value in state.items() if name != "version"}

    def close(self) -> None:
        """End the iteration, and close what is open."""
        self._end_iteration()
        self._reader = None

    def __enter__(self: _Pipeline) -> _Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_iteration": None, "_epochs": self._epochs.copied()}


def _worker() -> Any:
    """Return the worker of torch's DataLoader that this process is, or None."""
    if _Base.__module__ == __name__:
        return None
    from torch.utils.data import get_worker_info

    return get_worker_info()
