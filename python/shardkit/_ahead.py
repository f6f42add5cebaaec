"""Batches as a loop gets them: of the library, and with what functions of Python make of them ahead of the loop."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shardkit import _core, _process, _values
from shardkit._workers import Call, Task, Workers
from shardkit.batch import Batch
from shardkit.functions import Collected, Failure, FunctionError, Results, SampleFunctions

if TYPE_CHECKING:
    from shardkit.loader import Loader


class Place(NamedTuple):
    """Where a loader stands."""

    cursor: str
    epoch: int
    steps_left: int

    @classmethod
    def of(cls, loader: _core.Loader) -> Place:
        """Return where the library stands."""
        return cls(loader.cursor, loader.epoch, loader.steps_left)


@dataclass(eq=False, repr=False)
class Waits:
    """What the loop has waited for batches; times in seconds."""

    batches: int = 0
    samples: int = 0
    seconds: float = 0.0
    consumer_wait_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    step_seconds: float = 0.0
    _first: float | None = None  # when the first batch was asked for, and when it was there
    _there: float = 0.0

    def got(self, begin: float, samples: int) -> None:
        """Count a batch that was asked for at `begin`, and is there now."""
        now = time.perf_counter()
        if self._first is None:
            self._first, self._there = begin, now
            self.first_batch_seconds = now - begin
        else:
            self.consumer_wait_seconds += now - begin
        self.seconds, self.step_seconds = now - self._first, now - self._there
        self.batches += 1
        self.samples += samples


@dataclass(eq=False, repr=False)
class Recipe:
    """What becomes of each batch of the library. Not the loader, which would live as long as the threads that use this.

    Attributes
    ----------
    names : sequence of str
        The library's columns.
    objects : mapping of str to Column or None
        Columns whose values are given to functions as objects of this column, or as bytes (None).
    functions : SampleFunctions or None
        Called for each sample.
    collate : mapping of str or None to str
        How the results of a column become a batch; None is all others.
    make : callable
        Makes a batch of the library's, and of columns that functions made.
    batch_function : callable or None
        Called with each batch.
    as_tuple : sequence of str or None
        What the loop gets of a batch.
    skip : bool
        Whether samples that a function fails on are left out.
    paths : sequence of str
        The datasets.
    """

    names: Sequence[str]
    objects: Mapping[str, _core.Column | None]
    functions: SampleFunctions | None
    collate: Mapping[str | None, str]
    make: Callable[..., Batch]
    batch_function: Callable[[Batch], Any] | None
    as_tuple: Sequence[str] | None
    skip: bool
    paths: Sequence[str]
    seconds: dict[str, float] = field(default_factory=dict)  # of functions, by their names
    lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, seconds: Mapping[str, float]) -> None:
        """Add the time of functions."""
        with self.lock:
            for name, more in seconds.items():
                self.seconds[name] = self.seconds.get(name, 0.0) + more

    def given(self, batch: Batch) -> Any:
        """Return what the loop gets of a batch."""
        return batch if self.as_tuple is None else tuple(batch[name] for name in self.as_tuple)

    def inputs(
        self, batch: Batch, core: _core.Batch, unread: dict[int, Failure]
    ) -> dict[str, Callable[[int, int], list[Any]]]:
        """Return for each column that functions get how its values of the samples from a first to a last are had.

        They add to `unread` the samples of which a value is not what its column says.
        """
        assert self.functions is not None
        wanted = self.names if self.functions.transform is not None else list(self.functions.columns)
        return {name: self._values_of(batch, core, name, unread) for name in wanted}

    def _values_of(
        self, batch: Batch, core: _core.Batch, name: str, unread: dict[int, Failure]
    ) -> Callable[[int, int], list[Any]]:
        layout, _, views, offsets, _, _, present = core.column(self.names.index(name))
        if name in self.objects:
            column = self.objects[name]
            empty = np.empty(0, np.uint8)  # as of a value that is there, and of no byte

            def value(i: int) -> Any:
                view = empty if views[i] is None else views[i]
                try:
                    return bytes(view) if column is None else _values.of_view(column, view)
                except _core.DataLossError as error:
                    unread[i] = Failure(name, "reading", error)
                    return None

        else:
            values = batch.stored_column(name)
            if layout in ("tensor", "views") and present is None:
                return lambda begin, end: list(values[begin:end])

            def value(i: int) -> Any:
                return values[i, : offsets[i + 1] - offsets[i]] if layout == "padded" else values[i]

        if present is None:
            return lambda begin, end: [value(i) for i in range(begin, end)]
        return lambda begin, end: [value(i) if present[i] else None for i in range(begin, end)]


class Job:
    """A batch on its way through the functions."""

    def __init__(self, recipe: Recipe, core: _core.Batch, place: Place) -> None:
        _process.belongs_here(core)
        self.place = place
        self.done = False
        self.dropped = False
        self.error: BaseException | None = None
        self.made: Any = None
        self.samples = len(core)
        self._recipe, self._core = recipe, core
        self._batch = recipe.make(core)
        self._lock = threading.Lock()
        self._left = 0
        self._failures: dict[int, Failure] = {}
        self._unread: dict[int, Failure] = {}
        self._collected: dict[str, Collected] | None = None
        functions = recipe.functions
        if functions is not None:
            self._inputs = recipe.inputs(self._batch, core, self._unread)
            self._identities = [(dataset, ordinal, copy) for dataset, _, ordinal, _, copy in core.samples().tolist()]
            if functions.transform is None:
                self._collected = self._collectors(list(functions.columns))

    def _collectors(self, names: Sequence[str]) -> dict[str, Collected]:
        collate = self._recipe.collate
        return {name: Collected(name, self.samples, collate.get(name, collate[None])) for name in names}

    def tasks(self, workers: Workers, done: Callable[[], None]) -> list[Task]:
        """Return what has to be done; `done` is called after the last of it."""
        part = self.samples if self._recipe.functions is None else workers.part(self.samples)
        begins = range(0, max(1, self.samples), max(1, part))
        self._left = len(begins)

        def task_of(begin: int) -> Task:
            end = min(self.samples, begin + part)

            def task(call: Call) -> None:
                if not self.dropped:
                    self._run(begin, end, call, workers)
                with self._lock:
                    self._left -= 1
                    last = self._left == 0
                if last:
                    if not self.dropped:
                        self._finish()
                    done()

            return task

        return [task_of(begin) for begin in begins]

    def run(self) -> None:
        """Do all of it here."""
        if self._recipe.functions is not None:
            self._run(0, self.samples, self._recipe.functions, None)
        self._finish()

    def _run(self, begin: int, end: int, call: Call, workers: Workers | None) -> None:
        if self._recipe.functions is None or self.error is not None or begin == end:
            return
        started = time.perf_counter()
        try:
            values = {name: of(begin, end) for name, of in self._inputs.items()}
            results = call(values, self._core.epoch, self._identities[begin:end])
            if self._unread:
                results.failures |= {i - begin: self._unread[i] for i in range(begin, end) if i in self._unread}
            self._put(begin, results)
        except BaseException as error:  # such as SystemExit: it is the loop's
            with self._lock:
                self.error = self.error or error
            return
        if workers is not None:
            workers.took(time.perf_counter() - started, end - begin, results.processor_seconds)
        self._recipe.took(results.seconds)

    def _put(self, begin: int, results: Results) -> None:
        with self._lock:
            self._failures |= {begin + i: failure for i, failure in results.failures.items()}
            if self._collected is None and results.columns:
                self._collected = self._collectors(list(results.columns))
            collected = self._collected
        if collected is None:
            return  # all of these samples failed
        if results.columns and collected.keys() != results.columns.keys():
            assert self._recipe.functions is not None
            raise FunctionError(
                f"transform returned columns {sorted(results.columns)}, and {sorted(collected)} for other samples",
                "transform",
            )
        for name, column in collected.items():
            if name in results.columns:
                column.put(begin, results.columns[name], results.failures, results.lasting)

    def _finish(self) -> None:
        recipe, batch = self._recipe, self._batch
        try:
            if self.error is None and self._failures and not recipe.skip:
                i, failure = min(self._failures.items())
                self.error = self._told(i, failure)
            if self.error is None and recipe.functions is not None:
                kept = [i for i in range(self.samples) if i not in self._failures]
                columns = {name: column.value(kept) for name, column in (self._collected or {}).items()}
                skipped = []
                for i, failure in sorted(self._failures.items()):
                    error = self._told(i, failure)
                    dataset, ordinal, _ = self._identities[i]
                    skipped.append((dataset, ordinal, str(error)))
                batch = recipe.make(
                    self._core, columns, kept if skipped else None, skipped, recipe.functions.transform is not None
                )
                self.samples = len(kept)
            if self.error is None:
                self.made = recipe.given(batch) if recipe.batch_function is None else self._of_batch(batch)
        except BaseException as error:  # of a batch function, and of results that make no batch: it is the loop's
            self.error = error
        self._batch = self._core = self._inputs = self._collected = None  # type: ignore[assignment]

    def _of_batch(self, batch: Batch) -> Any:
        function = self._recipe.batch_function
        assert function is not None
        begin = time.perf_counter()
        try:
            return function(batch)
        except Exception as error:
            name = getattr(function, "__name__", type(function).__name__)
            raise FunctionError(
                f"batch_function {name} failed on step {batch.step} of epoch {batch.epoch}: "
                f"{type(error).__name__}: {error}",
                name,
            ) from error
        finally:
            self._recipe.took({"batch_function": time.perf_counter() - begin})

    def _told(self, i: int, failure: Failure) -> FunctionError:
        dataset, ordinal, _ = self._identities[i]
        path, key = self._recipe.paths[dataset], self._core.keys()[i]
        what = "transform" if failure.column is None else f"column {failure.column!r}"
        told = FunctionError(
            f"{what}: {failure.function} failed on sample {ordinal}{f' ({key})' if key else ''} of {path}: "
            f"{type(failure.error).__name__}: {failure.error}",
            failure.function,
            failure.column,
            path,
            ordinal,
            key or None,
        )
        told.__cause__ = failure.error
        return told


class InLoop:
    """The batches of the library one after another; functions are called where the batch is asked for."""

    def __init__(self, loader: _core.Loader, recipe: Recipe) -> None:
        self._loader, self._recipe = loader, recipe
        self._plain = recipe.functions is None and recipe.batch_function is None
        self.place = Place.of(loader)

    def next(self) -> Any:
        """Return the next batch; it counts as given out also when a function fails on it."""
        core = self._loader.next()
        self.place = Place.of(self._loader)
        if self._plain:
            _process.belongs_here(core)
            return self._recipe.given(self._recipe.make(core))
        job = Job(self._recipe, core, self.place)
        job.run()
        if job.error is not None:
            raise job.error
        return job.made

    def end(self) -> list[threading.Thread]:
        """Tell it to end; returns the threads that do."""
        return []


class Ahead:
    """The batches of the library one after another, with functions called ahead of the loop by workers.

    A thread asks the library for batches as long as there is room for more; the workers take their samples. What is
    given out is in the library's order. It begins when the first batch is asked for: functions get nothing that a
    state, which is loaded before, passes over.
    """

    def __init__(self, loader: _core.Loader, recipe: Recipe, workers: Workers, samples: int, waits: Waits) -> None:
        self._loader, self._recipe, self._workers, self._waits = loader, recipe, workers, waits
        # As many batches as keep the workers busy while the loop takes one.
        self._most = 2 + -(-2 * workers.count // max(1, samples))
        self.place = Place.of(loader)
        self._lock = threading.RLock()  # as that of workers
        self._room = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._jobs: deque[Job] = deque()  # not given out yet
        self._error: BaseException | None = None  # after which nothing comes
        self._closed = False
        self._reader: threading.Thread | None = None

    def _read(self) -> None:
        while True:
            with self._lock:
                while len(self._jobs) >= self._most and not self._closed:
                    self._workers.full = True
                    self._room.wait()
                self._workers.full = False
                if self._closed:
                    return
            try:
                core = self._loader.next()
                job = Job(self._recipe, core, Place.of(self._loader))
                tasks = job.tasks(self._workers, self._notice(job))
                del core
            except BaseException as error:  # it is the loop's
                with self._lock:
                    self._error = error.with_traceback(None)
                    self._done.notify_all()
                return
            with self._lock:
                self._jobs.append(job)
            self._workers.add(tasks)
            del job, tasks

    def _notice(self, job: Job) -> Callable[[], None]:
        def done() -> None:
            with self._lock:
                job.done = True
                self._done.notify_all()

        return done

    def next(self) -> Any:
        """Return the next batch; it counts as given out also when a function failed on it."""
        begin = time.perf_counter()
        with self._lock:
            if self._reader is None and not self._closed:
                self._reader = threading.Thread(target=self._read, name="shardkit batches", daemon=True)
                self._reader.start()
            while not (self._jobs and self._jobs[0].done) and (self._jobs or self._error is None):
                self._done.wait()  # a signal's exception leaves the batch for the next call
            if not self._jobs:
                assert self._error is not None
                raise self._error.with_traceback(None)
            job = self._jobs.popleft()
            self.place = job.place
            self._room.notify()
        if job.error is not None:
            raise job.error
        self._waits.got(begin, job.samples)
        return job.made

    def end(self) -> list[threading.Thread]:
        """Tell it to end; returns the threads that do. What is on its way is dropped."""
        with self._lock:
            self._closed = True
            for job in self._jobs:
                job.dropped = True
            self._jobs.clear()
            self._room.notify_all()
        self._loader.cancel()
        return [] if self._reader is None else [self._reader]


class Batches(Iterator[Any]):
    """One iteration of a loader. No generator, which would be at its end after an exception."""

    def __init__(self, of: Loader, token: object) -> None:
        self._of = of
        self._token = token  # the loader's, as long as no other iteration has begun
        self._source: InLoop | Ahead | None = None
        self._epoch = 0
        self._ended = False

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        of, source = self._of, self._source
        current = of._source
        if source is not None and source.place.epoch != self._epoch:
            self._ended = True
            if source is current:  # also where a function raised for the last batch
                of._place = source.place
                of._goes_on = of._look_due = True
            of._look()
            raise StopIteration
        if of._iteration is not self._token:
            raise RuntimeError(
                "another iteration of this loader has begun: a second Loader can iterate beside this one"
            )
        if source is None:
            source = of._begin()
            self._source, self._epoch = source, source.place.epoch
        elif source is not current:
            raise RuntimeError("the loader was started again while this epoch was iterated")
        made = source.next()
        place = source.place
        ended = place.epoch != of._place.epoch
        # Nothing is called from here on, because Python runs the handlers of signals after calls.
        of._place = place
        of._goes_on = of._look_due = ended
        return made
