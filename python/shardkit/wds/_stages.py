"""What is done with samples one after another, as the stages of webdataset do it."""

from __future__ import annotations

import itertools
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

import numpy as np

from shardkit.wds import _decode

ExceptionHandler = Callable[[Exception], bool]


def reraise_exception(exn: Exception) -> bool:
    """Raise the exception."""
    raise exn


def ignore_and_continue(exn: Exception) -> bool:
    """Leave the sample out."""
    return True


def warn_and_continue(exn: Exception) -> bool:
    """Warn, and leave the sample out."""
    warnings.warn(repr(exn), stacklevel=2)
    return True


def ignore_and_stop(exn: Exception) -> bool:
    """End the epoch."""
    return False


def warn_and_stop(exn: Exception) -> bool:
    """Warn, and end the epoch."""
    warnings.warn(repr(exn), stacklevel=2)
    return False


class Left(Exception):  # noqa: N818 (it is no error)
    """A sample that is left out, or with which the epoch ends."""

    def __init__(self, stop: bool) -> None:
        super().__init__(stop)
        self.stop = stop


class Each:
    """A stage that makes of each sample one or none.

    Parameters
    ----------
    call : callable
        Returns what becomes of the sample; raises `Left` for one that is left out.
    handler : callable
        Called with an exception of `call`: True leaves the sample out, False ends the epoch.
    keeps : bool
        Whether no sample is left out, but by the handler.
    """

    def __init__(
        self, call: Callable[[Any], Any], handler: ExceptionHandler = reraise_exception, keeps: bool = True
    ) -> None:
        self.call = call
        self.handler = handler
        self.keeps = keeps and handler is reraise_exception

    def __call__(self, sample: Any) -> Any:
        try:
            return self.call(sample)
        except Left:
            raise
        except Exception as error:
            raise Left(stop=not self.handler(error)) from error


class Stream:
    """A stage that makes something else of the stream of samples.

    `holds` says whether it has samples, or part of one, that it has not passed on: a state is taken where no stage
    holds any, and what came since is made once more.
    """

    holds = False

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield what becomes of the source; `seed` is of the epoch and the part of it."""
        raise NotImplementedError


Stage = Each | Stream


class Function(Stream):
    """A function of the whole stream: what it holds is unknown."""

    holds = True

    def __init__(self, function: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self.function = function

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield what the function does."""
        return iter(self.function(source))


class Slice(Stream):
    """As `itertools.islice`."""

    holds = True

    def __init__(self, *args: Any) -> None:
        self.args = args

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield the items that the arguments choose."""
        return itertools.islice(source, *self.args)


class Sampled(Stream):
    """Passes each sample on with a probability."""

    holds = True

    def __init__(self, p: float) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p={p}: a probability is from 0 to 1")
        self.p = p

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield the samples that chance, of the seed, takes."""
        chance = random.Random(f"rsample {seed}")
        return (sample for sample in source if chance.random() < self.p)


class Shuffled(Stream):
    """Samples of a source that has an order of its own, through a buffer of so many."""

    holds = True

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield the samples in an order of the seed."""
        chance = random.Random(f"shuffle {seed}")
        buffer: list[Any] = []
        for sample in source:
            buffer.append(sample)
            if len(buffer) >= self.size:
                i = chance.randrange(len(buffer))
                buffer[i], buffer[-1] = buffer[-1], buffer[i]
                yield buffer.pop()
        chance.shuffle(buffer)
        yield from buffer


def combine_values(b: Sequence[Any], combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """Return numbers as an array, arrays and tensors of one shape stacked, and others as a list."""
    if isinstance(b[0], (int, float)):
        return np.array(list(b)) if combine_scalars else b
    tensor = type(b[0]).__module__.split(".")[0] == "torch" and hasattr(b[0], "new_empty")
    if not (tensor or isinstance(b[0], np.ndarray)):
        return list(b)
    if not combine_tensors:
        return b
    shapes = {tuple(each.shape) for each in b}
    if len(shapes) != 1:
        raise ValueError(f"all shapes must be equal in collation, got {shapes}: collation_fn=None gives lists")
    if not tensor:
        return np.array(list(b))
    import torch

    return torch.stack(list(b))


def default_collation_fn(samples: Sequence[Any], combine_tensors: bool = True, combine_scalars: bool = True) -> Any:
    """Return one sample whose entries are those of all samples: a dict of dicts, a tuple of tuples."""
    rows = [each if isinstance(each, Mapping) else dict(enumerate(each)) for each in samples]
    if any(row.keys() != rows[0].keys() for row in rows):
        raise ValueError("keys don't match in different samples: to_tuple() or map() makes them equal")
    made = {name: combine_values([row[name] for row in rows], combine_tensors, combine_scalars) for name in rows[0]}
    return made if isinstance(samples[0], Mapping) else tuple(made.values())


class Batched(Stream):
    """Batches of a number of samples; the last of an epoch may be smaller."""

    def __init__(
        self,
        batchsize: int = 20,
        collation_fn: Callable[[list[Any]], Any] | None = default_collation_fn,
        partial: bool = True,
    ) -> None:
        if batchsize < 1:
            raise ValueError(f"batchsize={batchsize}: batches have samples")
        self.batchsize, self.collation_fn, self.partial = batchsize, collation_fn, partial

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield the batches."""
        batch: list[Any] = []
        self.holds = False
        for sample in source:
            batch.append(sample)
            self.holds = len(batch) < self.batchsize
            if not self.holds:
                yield batch if self.collation_fn is None else self.collation_fn(batch)
                batch = []
        self.holds = False
        if batch and self.partial:
            yield batch if self.collation_fn is None else self.collation_fn(batch)


class Unbatched(Stream):
    """The samples of batches, of which each entry has as many."""

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield the samples."""
        self.holds = False
        for batch in source:
            entries = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
            lengths = {len(entry) for entry in entries}
            if len(lengths) != 1:
                raise ValueError(f"the entries of a batch have {sorted(lengths)} samples")
            count = lengths.pop()
            for i in range(count):
                self.holds = i + 1 < count
                made = [entry[i] for entry in entries]
                yield dict(zip(batch, made, strict=True)) if isinstance(batch, Mapping) else tuple(made)


class Unlisted(Stream):
    """The samples of lists of them."""

    def run(self, source: Iterator[Any], seed: str) -> Iterator[Any]:
        """Yield the samples."""
        self.holds = False
        for batch in source:
            for i, sample in enumerate(batch):
                self.holds = i + 1 < len(batch)
                yield sample


def getfirst(
    a: Mapping[str, Any], keys: str | Sequence[str], default: Any = None, missing_is_error: bool = True
) -> Any:
    """Return the value of the first of these keys that is there; a str has them between semicolons."""
    names = keys.split(";") if isinstance(keys, str) else keys
    for name in names:
        if name in a:
            return a[name]
    if missing_is_error:
        raise ValueError(f"didn't find {names} in {list(a)}")
    return default


def map(f: Callable[[Any], Any], handler: ExceptionHandler = reraise_exception) -> Each:
    """Call a function with each sample; one of which it makes None is left out. A dict keeps its ``__key__``."""

    def call(sample: Any) -> Any:
        result = f(sample)
        if result is None:
            raise Left(stop=False)
        if isinstance(sample, dict) and isinstance(result, dict):
            result["__key__"] = sample.get("__key__")
        return result

    return Each(call, handler)


def decode(
    *args: Any,
    pre: Any = None,
    post: Any = None,
    only: Any = None,
    partial: bool = False,
    handler: ExceptionHandler = reraise_exception,
) -> Each:
    """Decode values by their extensions: `Decoder` says how."""
    handlers = [_decode.ImageHandler(each) if isinstance(each, str) else each for each in args]
    return map(_decode.Decoder(handlers, pre=pre, post=post, only=only, partial=partial), handler)


def select(predicate: Callable[[Any], Any]) -> Each:
    """Leave out the samples of which a function says no."""

    def call(sample: Any) -> Any:
        if not predicate(sample):
            raise Left(stop=False)
        return sample

    return Each(call, keeps=False)


def map_dict(handler: ExceptionHandler = reraise_exception, **kw: Callable[[Any], Any]) -> Each:
    """Call a function for each of these entries."""
    if not kw or not all(callable(f) for f in kw.values()):
        raise TypeError("map_dict: give a function for an entry, as map_dict(jpg=f)")

    def call(sample: dict[str, Any]) -> dict[str, Any]:
        for name, f in kw.items():
            sample[name] = f(sample[name])
        return sample

    return Each(call, handler)


def map_tuple(*args: Callable[[Any], Any] | None, handler: ExceptionHandler = reraise_exception) -> Each:
    """Call a function for each element of a tuple; None leaves it."""
    if not all(f is None or callable(f) for f in args):
        raise TypeError("map_tuple: give a function or None for each element")

    def call(sample: Sequence[Any]) -> tuple[Any, ...]:
        made = [value if f is None else f(value) for f, value in zip(args, sample, strict=False)]
        return (*made, *sample[len(made) :])

    return Each(call, handler)


def to_tuple(
    *args: str | Sequence[str],
    handler: ExceptionHandler = reraise_exception,
    missing_is_error: bool = True,
    none_is_error: bool | None = None,
) -> Each:
    """Make a tuple of entries; of ``"jpg;png"`` the first that is there."""
    if len(args) == 1 and isinstance(args[0], str):
        args = tuple(args[0].split())
    names = [each.split(";") if isinstance(each, str) else list(each) for each in args]
    no_none = missing_is_error if none_is_error is None else none_is_error

    def call(sample: Mapping[str, Any]) -> tuple[Any, ...]:
        made = tuple(getfirst(sample, each, missing_is_error=missing_is_error) for each in names)
        if no_none and any(value is None for value in made):
            raise ValueError(f"to_tuple {args} got {sample.keys()}")
        return made

    return Each(call, handler)


def rename(handler: ExceptionHandler = reraise_exception, keep: bool = True, **kw: str | Sequence[str]) -> Each:
    """Give entries new names, ``image="jpg;png"``; `keep` says whether the others stay."""
    names = {new: old.split(";") if isinstance(old, str) else list(old) for new, old in kw.items()}
    replaced = {old for each in names.values() for old in each}

    def call(sample: Mapping[str, Any]) -> dict[str, Any]:
        made = {name: value for name, value in sample.items() if keep and name not in replaced}
        return made | {new: getfirst(sample, old) for new, old in names.items()}

    return Each(call, handler)


def associate(associator: Callable[[str], Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]) -> Each:
    """Add the entries that a function or a dict has for the sample's key."""

    def call(sample: dict[str, Any]) -> dict[str, Any]:
        key = sample["__key__"]
        return sample | dict(associator(key) if callable(associator) else associator.get(key, {}))

    return Each(call)


def extract_keys(*patterns: str | Sequence[str], duplicate_is_error: bool = True, ignore_missing: bool = False) -> Each:
    """Make a tuple of the entries whose names match patterns, ``"*.jpg;*.png"``."""
    wanted = [each.split(";") if isinstance(each, str) else list(each) for each in patterns]

    def call(sample: Mapping[str, Any]) -> tuple[Any, ...]:
        made = []
        for each in wanted:
            found = [name for name in sample if any(fnmatch("." + name, p) or fnmatch(name, p) for p in each)]
            if not found and not ignore_missing:
                raise ValueError(f"Cannot find {each} in sample keys {sample.keys()}.")
            if len(found) > 1 and duplicate_is_error:
                raise ValueError(f"Multiple sample keys {sample.keys()} match {each}.")
            made += [sample[name] for name in found[:1]]
        return tuple(made)

    return Each(call)


def rename_keys(
    *args: tuple[str, str],
    keep_unselected: bool = False,
    must_match: bool = True,
    duplicate_is_error: bool = True,
    **kw: str,
) -> Each:
    """Give the entries whose names match patterns new names, ``image="*.jpg"``; the last that matches holds."""
    renamings = [*args, *kw.items()][::-1]

    def call(sample: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        missing = {pattern for _, pattern in renamings}
        for path, value in sample.items():
            base = re.sub(r".*/", "", path).lower()
            found = next(((new, pattern) for new, pattern in renamings if fnmatch(base, pattern)), None)
            if found is None:
                if keep_unselected:
                    made[path] = value
                continue
            missing.discard(found[1])
            if found[0] not in made:
                made[found[0]] = value
            elif duplicate_is_error:
                raise ValueError(f"Duplicate value in sample {sample.keys()} after rename.")
        if must_match and missing:
            raise ValueError(f"Not all patterns ({missing}) matched sample keys ({sample.keys()}).")
        return made

    return Each(call)


def log_keys(logfile: str | None = None) -> Each:
    """Write a line for each sample into a file: its number here, worker, rank (None) and key."""
    numbers = itertools.count()

    def call(sample: Mapping[str, Any]) -> Mapping[str, Any]:
        if logfile:
            with open(logfile, "a") as stream:
                stream.write(f"{next(numbers)}\tNone\tNone\t{sample.get('__key__')}\n")
        return sample

    return Each(call)


rsample = Sampled
slice = Slice
batched = Batched
unbatched = Unbatched
unlisted = Unlisted
