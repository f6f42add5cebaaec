"""Functions of Python in a loader: what they are called with, and what becomes of their results."""

from __future__ import annotations

import inspect
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from shardkit._numbers import NDArray
from shardkit._options import Collate, checked, shown


class FunctionError(RuntimeError):
    """A function of Python failed on a sample, or on a batch; what it raised is the ``__cause__``.

    Attributes
    ----------
    function : str
        The function's name.
    column : str or None
        The column it is of; None for `transform` and `batch_function`.
    path, sample, key : str or None, int or None, str or None
        The dataset, the sample's ordinal in it, and its key; None for `batch_function`.
    """

    def __init__(
        self,
        message: str,
        function: str,
        column: str | None = None,
        path: str | None = None,
        sample: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.function, self.column, self.path, self.sample, self.key = function, column, path, sample, key

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.function, self.column, self.path, self.sample, self.key)


@checked
@dataclass(frozen=True)
class Map:
    """A function that is called with each value of a column; what it returns takes the value's place.

    A function alone means the same. In a list after `Image` or another kind of column it gets what that makes:
    ``columns={"image": [sk.Image(size=224), sk.Map(augment)]}``. Alone it gets what `open` gives: NumPy's scalars and
    arrays, str, the objects of json, `Masks`, bytes, and None where the value is absent. One that has a parameter
    ``rng`` gets a ``numpy.random.Generator`` made of seed, epoch, sample and column.

    Parameters
    ----------
    function : callable
        Called with one value.
    collate : str
        What a batch of the results is; by default that of the `Loader`. ``"stack"``: one array of numbers or of arrays
        of one shape and type; results of other kinds are a list. ``"pad"``: arrays of one type, with zeros up to the
        largest; `Batch.sizes` tells theirs. ``"list"``: a list.
    """

    function: Callable[..., Any]
    collate: Collate | None = None


class Raw(Map):
    """As `Map`, called with the bytes of each value as they are stored; None where it is absent."""


def choose_one(values: Any, rng: np.random.Generator) -> Any:
    """Return one entry of a list, or of an array along its first axis; None of None."""
    if values is None:
        return None
    if not isinstance(values, list) and not (isinstance(values, np.ndarray) and values.ndim > 0):
        raise TypeError(f"Choice takes one of a list, not of {shown(values)}")
    if len(values) == 0:
        raise ValueError("Choice: the list is empty")
    return values[int(rng.integers(len(values)))]


@checked
@dataclass(frozen=True)
class Choice(Map):
    """One entry of each list, such as one of an image's captions in a column of json: another one in every epoch.

    Also of arrays, along their first axis. None where the value is absent. It is drawn as a `Map` with ``rng`` would,
    and is followed by other functions in a list: ``columns={"captions": [sk.Choice(), tokenize]}``.

    Parameters
    ----------
    collate : str
        As for `Map`.
    """

    function: Callable[..., Any] = field(default=staticmethod(choose_one), init=False)


class Step(NamedTuple):
    """A function, and whether it wants a generator of random numbers."""

    function: Callable[..., Any]
    name: str
    wants_rng: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Step:
        """Look at the function's signature."""
        try:
            parameter = inspect.signature(function).parameters.get("rng")
        except (TypeError, ValueError):  # of a function of C
            parameter = None
        wants = parameter is not None and parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.VAR_KEYWORD)
        return cls(function, getattr(function, "__name__", None) or type(function).__name__, wants)


def generator(seed: int, epoch: int, dataset: int, ordinal: int, copy: int, column: str) -> np.random.Generator:
    """Return the random numbers of a sample, the same wherever and whenever its function runs."""
    import hashlib

    place = struct.pack("<5Q", seed % (1 << 64), epoch, dataset, ordinal, copy) + column.encode()
    key = int.from_bytes(hashlib.blake2b(place, digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))


class Failure(NamedTuple):
    """Which function failed on a sample, and how."""

    column: str | None
    function: str
    error: BaseException


@dataclass(eq=False, repr=False)
class Results:
    """What functions made of some samples one after another."""

    columns: dict[str, list[Any]]  # by column, each with one entry for each sample
    failures: dict[int, Failure] = field(default_factory=dict)  # by sample; its entries mean nothing
    seconds: dict[str, float] = field(default_factory=dict)  # by function
    processor_seconds: float = 0.0
    lasting: bool = True  # or in memory that is used again after the task


class Functions(Protocol):
    """What workers call, which other processes get as it is."""

    @property
    def steps(self) -> Sequence[Step]:
        """The functions of the user in it."""

    def __call__(self, values: dict[str, list[Any]], epoch: int, identities: Sequence[tuple[int, int, int]]) -> Results:
        """Call them; see `SampleFunctions`."""


class SampleFunctions:
    """All that is called for each sample."""

    def __init__(self, seed: int, columns: Mapping[str, Sequence[Step]], transform: Step | None) -> None:
        self.seed = seed
        self.columns = {name: tuple(steps) for name, steps in columns.items()}
        self.transform = transform

    @property
    def steps(self) -> list[Step]:
        """All functions."""
        each = [step for steps in self.columns.values() for step in steps]
        return each if self.transform is None else [*each, self.transform]

    def __call__(self, values: dict[str, list[Any]], epoch: int, identities: Sequence[tuple[int, int, int]]) -> Results:
        """Call the functions with the values of samples, whose datasets, ordinals and copies the identities are."""
        results = Results(dict(values))
        begin = time.thread_time()
        for name, steps in self.columns.items():
            generators: list[np.random.Generator] | None = None
            for step in steps:
                if step.wants_rng and generators is None:
                    generators = [generator(self.seed, epoch, *each, name) for each in identities]
                results.columns[name] = self._each(step, name, results.columns[name], generators, results)
        if self.transform is not None:
            names = list(results.columns)
            samples = [dict(zip(names, each, strict=True)) for each in zip(*results.columns.values(), strict=True)]
            generators = None
            if self.transform.wants_rng:
                generators = [generator(self.seed, epoch, *each, "") for each in identities]
            made = self._each(self.transform, None, samples, generators, results)
            results.columns = _by_column(made, self.transform, results)
        results.processor_seconds = time.thread_time() - begin
        return results

    def _each(
        self,
        step: Step,
        column: str | None,
        values: Sequence[Any],
        generators: Sequence[np.random.Generator] | None,
        results: Results,
    ) -> list[Any]:
        function, failures = step.function, results.failures
        made: list[Any] = []
        begin = time.perf_counter()
        while len(made) < len(values):
            try:
                for i in range(len(made), len(values)):
                    if i in failures:
                        made.append(None)
                    elif step.wants_rng and generators is not None:
                        made.append(function(values[i], rng=generators[i]))
                    else:
                        made.append(function(values[i]))
            except Exception as error:
                failures[len(made)] = Failure(column, step.name, error)
                made.append(None)
        called = step.name if column is None else f"{step.name} of column {column!r}"
        results.seconds[called] = results.seconds.get(called, 0.0) + time.perf_counter() - begin
        return made


def _by_column(samples: list[Any], step: Step, results: Results) -> dict[str, list[Any]]:
    """Return the samples that a transform made, column by column."""
    names: list[str] | None = None
    for i, sample in enumerate(samples):
        if i in results.failures:
            continue
        if not isinstance(sample, Mapping):
            wrong = TypeError(f"it returned {shown(sample)}: return a dict of the sample's columns")
            results.failures[i] = Failure(None, step.name, wrong)
        elif names is None:
            names = list(sample)
        elif sample.keys() != set(names):
            other = TypeError(f"it returned columns {sorted(sample)}, and {sorted(names)} for another sample")
            results.failures[i] = Failure(None, step.name, other)
    none = dict.fromkeys(names or ())
    there = [none if i in results.failures else sample for i, sample in enumerate(samples)]
    return {name: [sample[name] for sample in there] for name in names or ()}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.generic))


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or _is_tensor(value)


class Collected:
    """The results of a column for a batch of samples, which come in parts; `put` is for any thread.

    Parameters
    ----------
    column : str
        The column, for errors.
    samples : int
        Of the batch.
    collate : str
        As for `Map`.
    """

    def __init__(self, column: str, samples: int, collate: str) -> None:
        self._column, self._samples, self._collate = column, samples, collate
        self._lock = threading.Lock()
        self._array: Any = None
        self._results: list[Any] = [None] * samples
        self._copied = [False] * samples

    def put(self, begin: int, results: Sequence[Any], failed: Mapping[int, Failure], lasting: bool) -> None:
        """Take the results of samples from `begin` on, and copy them unless they last."""
        for i, result in enumerate(results):
            if i in failed:
                continue
            if self._collate == "stack" and _is_array(result):
                array = self._array
                if array is None:
                    with self._lock:
                        if self._array is None:
                            self._array = _empty(self._samples, result)
                        array = self._array
                if type(result) is type(array) and result.shape == array.shape[1:] and result.dtype == array.dtype:
                    array[begin + i] = result
                    self._copied[begin + i] = True
                    continue
            self._results[begin + i] = result if lasting else _own(result)

    def value(self, kept: Sequence[int]) -> Any:
        """Return the batch of the results of the samples that are kept."""
        if self._collate == "list":
            return [self._results[i] for i in kept]
        if self._array is not None:
            if all(self._copied[i] for i in kept):
                return self._array if len(kept) == self._samples else self._array[list(kept)]
            # The array is like the result that came first, perhaps of a sample that is not kept.
            results = [self._array[i] if self._copied[i] else self._results[i] for i in kept]
            first = next(filter(_is_array, results), None)
            if first is not None:
                fits = lambda each: _is_array(each) and _kind(each) == _kind(first)  # noqa: E731
                if not all(map(fits, results)):
                    raise self._refused(*_two(results, fits))
                array = _empty(len(kept), first)
                for i, result in enumerate(results):
                    array[i] = result
                return array
        results = [self._results[i] for i in kept]
        if self._collate == "pad" and any(map(_is_array, results)):
            return self._padded(results)
        numbers = sum(map(_is_number, results))
        if numbers == 0:
            return results
        if numbers < len(results):
            raise self._refused(*_two(results, _is_number))
        arrays = [np.asarray(result) for result in results]
        if len({array.dtype for array in arrays}) > 1:
            raise self._refused(*_two(results, lambda result: np.asarray(result).dtype == arrays[0].dtype))
        return np.stack(arrays)

    def _padded(self, results: list[Any]) -> Any:
        first = next(filter(_is_array, results))
        fits = lambda each: type(each) is type(first) and each.dtype == first.dtype and each.ndim == first.ndim  # noqa: E731
        if not all(map(fits, results)):
            raise self._refused(*_two(results, fits))
        largest = tuple(max(each.shape[axis] for each in results) for axis in range(first.ndim))
        padded = (
            first.new_zeros((len(results), *largest))
            if _is_tensor(first)
            else np.zeros((len(results), *largest), first.dtype)
        )
        for i, each in enumerate(results):
            place = (i, *map(slice, each.shape))
            padded[place] = each
        sizes = np.array([tuple(each.shape) for each in results], np.int64).reshape(len(results), first.ndim)
        return Padded(padded, sizes)

    def _refused(self, a: Any, b: Any) -> Exception:
        advice = 'sk.Map(..., collate="list"), or "pad" for arrays of one type and several sizes'
        return ValueError(
            f"column {self._column!r}: the results of a batch differ, as {_described(a)} and {_described(b)}: return "
            f"one type and shape, or give {advice}"
        )


class Padded(NamedTuple):
    """Results with zeros up to the largest, and their own sizes."""

    values: Any
    sizes: NDArray[np.int64]


def _two(results: list[Any], fits: Callable[[Any], bool]) -> tuple[Any, Any]:
    """Return a result that fits, and one that does not."""
    return next(filter(fits, results)), next(each for each in results if not fits(each))


def _kind(array: Any) -> tuple[Any, ...]:
    return type(array), array.dtype, array.shape


def _empty(samples: int, like: Any) -> Any:
    if _is_tensor(like):
        return like.new_empty((samples, *like.shape))
    return np.empty((samples, *like.shape), like.dtype)


def _own(result: Any) -> Any:
    """Return the result in memory of its own, an array or what is none."""
    if _is_tensor(result):
        return result.clone()
    return result.copy() if isinstance(result, np.ndarray) else result


def _described(result: Any) -> str:
    if _is_array(result):
        return f"{result.dtype}{list(result.shape)}"
    return str(np.asarray(result).dtype) if _is_number(result) else shown(result)
