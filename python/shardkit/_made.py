"""Rows as a function makes them of inputs, perhaps ahead by workers."""

from __future__ import annotations

import functools
import itertools
import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shardkit._options import shown
from shardkit._workers import Call, Workers, end_later
from shardkit.functions import Failure, FunctionError, Results, Step
from shardkit.schema import Column

# A position counts inputs, and in its lower bits the rows that one input gives.
_PART_BITS = 24
# Inputs of a task at most, so that a task that fails names few.
_RUN = 64
# After so much a worker hands over what inputs have given so far. It waits while two such parts are not taken.
_PART_ROWS, _PART_BYTES, _PART_SECONDS = 256, 16 << 20, 0.1


class Made(NamedTuple):
    """What became of an input: a row, one of several rows, or a failure."""

    number: int  # of the input
    part: int | None  # which row of an input that gives several
    row: Any
    failure: Failure | None = None
    shown: str = ""  # the input that failed

    @property
    def position(self) -> int:
        """Where it stands, for a writer."""
        return self.number << _PART_BITS | (self.part or 0)

    @property
    def next_position(self) -> int:
        """Where a writer that has it goes on."""
        return (self.number + 1) << _PART_BITS if self.part is None else self.position + 1

    @property
    def key(self) -> str:
        """The key of a row that has none."""
        return f"{self.number:012d}" + ("" if self.part is None else f"-{self.part:06d}")

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"row {self.number}" if self.part is None else f"row {self.part} of input {self.number}"

    @staticmethod
    def input_of(position: int) -> int:
        """Return the input at a position."""
        return position >> _PART_BITS


class _Maker:
    """Calls the function with inputs. Another call goes on with what the last one has not finished in this thread."""

    def __init__(self, step: Step, optional: bool) -> None:
        self.steps = [step]
        self._optional = optional
        self._local = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.steps[0], self._optional)

    def each(self, number: int, value: Any) -> Iterable[Made]:
        """Return what becomes of an input."""
        try:
            row = self.steps[0].function(value)
        except Exception as error:
            return (self._failed(number, None, value, error),)
        if isinstance(row, dict) or not isinstance(row, Iterator):
            return (Made(number, None, _own(row)),) if row is not None or not self._optional else ()
        return self._parts(number, value, row)

    def _parts(self, number: int, value: Any, rows: Iterator[Any]) -> Iterator[Made]:
        part = 0
        try:
            for row in rows:
                if (part + 1) >> _PART_BITS:
                    raise ValueError(f"it gives more than {part} rows: give smaller inputs")
                yield Made(number, part, _own(row))
                part += 1
        except Exception as error:
            yield self._failed(number, part, value, error)

    def _failed(self, number: int, part: int | None, value: Any, error: Exception) -> Made:
        return Made(number, part, None, Failure(None, self.steps[0].name, error), shown(value))

    def __call__(self, values: dict[str, list[Any]], epoch: int, identities: Sequence[tuple[int, int, int]]) -> Results:
        """Call the function with pairs of number and input; at the end, None is the last of what is made.

        Without inputs it goes on with those of the call before.
        """
        if values:
            self._local.going = itertools.chain.from_iterable(itertools.starmap(self.each, values["inputs"]))
        results = Results({"made": []})
        made = results.columns["made"]
        processor, end, size = time.thread_time(), time.perf_counter() + _PART_SECONDS, 0
        for each in self._local.going:
            if each.failure is not None:
                results.failures[len(made)] = each.failure
            made.append(each._replace(failure=None))  # whose error is perhaps not one that can be passed on
            size += _size(each.row)
            if len(made) >= _PART_ROWS or size >= _PART_BYTES or time.perf_counter() > end:
                break
        else:
            made.append(None)
        results.processor_seconds = time.thread_time() - processor
        return results


def _size(row: Any) -> int:
    """Return about how many bytes a row has."""
    values = row.values() if isinstance(row, Mapping) else ()
    return sum(len(each) if isinstance(each, (bytes, str)) else getattr(each, "nbytes", 0) for each in values)


class Rows(Iterable[dict[str, Any]]):
    """Rows for `shardkit.pack`, each made of an input; see `shardkit.rows` and `shardkit.sources`.

    Attributes
    ----------
    columns : dict of str to Column, or None
        The columns, where they are known before the first row is made. `shardkit.pack` takes these;
        ``columns={**rows.columns, "score": "f32?"}`` changes one.
    metadata : dict of str to str
        Metadata of the dataset.
    total : int
        How many inputs there are; 0: not known.
    """

    def __init__(
        self,
        inputs: Iterable[Any],
        function: Callable[[Any], Any] | None = None,
        name: str | None = None,
        *,
        columns: Mapping[str, Column] | None = None,
        metadata: Mapping[str, str] | None = None,
        total: int | None = None,
        optional: bool = False,
        workers: int | None = None,
        worker_kind: str = "thread",
    ) -> None:
        step = Step(_as_it_is, "", False) if function is None else Step.of(function)
        self.maker = _Maker(step if name is None else step._replace(name=name), optional)
        self.inputs = inputs
        self.columns = None if columns is None else dict(columns)
        self.metadata = dict(metadata or {})
        # 0 of a DataLoader whose dataset has no length.
        self.total = operator.length_hint(inputs) if total is None else total
        self.workers, self.worker_kind = workers, worker_kind
        self.calls = function is not None
        self._begun = False

    def making(self, threads: int = 1) -> Making:
        """Begin to make the rows; with so many threads unless the workers are known, one being the thread that asks.

        Raises
        ------
        ValueError
            Of inputs that are an iterator, for the second time: nobody knows which are left.
        """
        if isinstance(self.inputs, Iterator):
            if self._begun:
                raise ValueError("the inputs are an iterator, of which some were taken: make the rows again")
            self._begun = True
        return Making(self, (threads if threads > 1 and self.calls else 0) if self.workers is None else self.workers)

    def told(self, made: Made) -> FunctionError:
        """Return the error of an input that failed."""
        assert made.failure is not None
        error, name = made.failure.error, made.failure.function
        what = f"input {made.number}" + (f" ({made.shown})" if made.shown != str(made.number) else "")
        told = FunctionError(f"{name} failed on {what}: {type(error).__name__}: {error}", name)
        told.__cause__ = error
        return told

    def __iter__(self) -> Iterator[dict[str, Any]]:
        making = self.making()
        try:
            for made in making:
                if made.failure is not None:
                    raise self.told(made)
                yield made.row
        finally:
            making.close()


def _own(row: Any) -> Any:
    """Return a row that stays as it is when its maker fills the same dict again."""
    return dict(row) if isinstance(row, dict) else row


def _as_it_is(row: Any) -> Any:
    return row


class _Run:
    """Consecutive inputs, and what was made of them and is not taken yet."""

    def __init__(self, inputs: list[tuple[int, Any]]) -> None:
        self.inputs = inputs
        self.parts: deque[list[Made]] = deque()
        self.ended = False
        self.error: BaseException | None = None


class Making(Iterable[Made]):
    """What becomes of the inputs, in their order.

    Attributes
    ----------
    begin : int
        The function is not called with inputs before this one, unless workers have got them.
    """

    def __init__(self, rows: Rows, workers: int) -> None:
        self.begin = 0
        self._rows = rows
        self._inputs = ((number, value) for number, value in enumerate(rows.inputs) if number >= self.begin)
        self._changed = threading.Condition()
        self._closed = False
        self._failed: Exception | None = None  # of the inputs
        self._made = self._by_workers(workers) if workers else self._here()

    def __iter__(self) -> Iterator[Made]:
        return self._made

    def close(self) -> None:
        """End workers, each after the input that it has; processes at once."""
        self._made.close()

    def _here(self) -> Generator[Made, None, None]:
        if not self._rows.calls:
            yield from (Made(number, None, _own(row)) for number, row in self._inputs)
        for number, value in self._inputs:
            yield from self._rows.maker.each(number, value)

    def _by_workers(self, count: int) -> Generator[Made, None, None]:
        workers = Workers(self._rows.maker, count, self._rows.worker_kind)
        runs: deque[_Run] = deque()
        try:
            while True:
                while len(runs) <= 2 * count and (run := self._next_run(workers)) is not None:
                    runs.append(run)
                    workers.add([functools.partial(self._make, run, workers)])
                if not runs:
                    if self._failed is not None:
                        raise self._failed
                    return
                run = runs[0]
                with self._changed:
                    while not run.parts and not run.ended:
                        self._changed.wait()
                    part = run.parts.popleft() if run.parts else []
                    ended = run.ended and not run.parts
                    self._changed.notify_all()
                yield from part
                if ended:
                    runs.popleft()
                    if run.error is not None:
                        raise self._told(run)
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            end_later(workers.end())

    def _next_run(self, workers: Workers) -> _Run | None:
        inputs: list[tuple[int, Any]] = []
        try:
            for each in itertools.islice(self._inputs if self._failed is None else (), workers.part(_RUN)):
                inputs.append(each)
        except Exception as error:  # comes after what was made of the inputs before it
            self._failed = error
        return _Run(inputs) if inputs else None

    def _make(self, run: _Run, workers: Workers, call: Call) -> None:
        """Make the rows of a run, in the thread of a worker."""
        values = {"inputs": list(run.inputs)}
        seconds = processor_seconds = 0.0
        try:
            while not run.ended:
                begin = time.perf_counter()
                results = call(values, 0, ())
                seconds += time.perf_counter() - begin
                processor_seconds += results.processor_seconds
                values = {}
                made = results.columns["made"]
                ended = made[-1] is None
                for i, failure in results.failures.items():
                    made[i] = made[i]._replace(failure=failure)
                with self._changed:
                    run.parts.append(made[:-1] if ended else made)
                    run.ended = ended
                    self._changed.notify_all()
                    while not ended and not self._closed and len(run.parts) >= 2:
                        self._changed.wait()
                    if self._closed:
                        return
            workers.took(seconds, len(run.inputs), processor_seconds)
        except BaseException as error:  # such as SystemExit: it is the caller's
            with self._changed:
                run.error, run.ended = error, True
                self._changed.notify_all()

    def _told(self, run: _Run) -> BaseException:
        """Return the error of a run that has no results: a process that died, results that cannot be passed on."""
        error = run.error
        assert error is not None
        if not isinstance(error, Exception):
            return error
        name, first, last = self._rows.maker.steps[0].name, run.inputs[0][0], run.inputs[-1][0]
        what = f"input {first}" if first == last else f"one of the inputs {first} to {last}"
        told = FunctionError(f"{name} failed on {what}: {error}", name)
        told.__cause__ = error
        return told
