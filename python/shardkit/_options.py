"""Arguments: checked against what a function's signature says, or passed on to the library by name."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar

from shardkit import _core

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
elif sys.version_info >= (3, 11):
    from typing import Unpack
else:

    class Unpack:
        """Makes annotations with it mean something in Python 3.10, too."""

        def __class_getitem__(cls, options: Any) -> Any:
            """Return the options, which are named and typed."""
            return options


_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZES = {
    "shard_size",
    "block_size",
    "memory_bytes",
    "shuffle_buffer_bytes",
    "stream_above",
    "max_decompression",
    "max_image_memory",
    "pending_pair_bytes",
    "pinned_bytes",
    "cache_bytes",
    "sample_bytes",
    "block_bytes",
    "shuffle_memory",
    "device_bytes",
}


# The words of options.
Order = Literal["shuffled", "sequential", "window"]
Remainder = Literal["keep", "drop", "pad"]
BadSamples = Literal["fail", "skip"]
ReadMode = Literal["auto", "buffered", "mapped", "direct"]
Verify = Literal["every", "first", "never"]
Collate = Literal["stack", "pad", "list"]
Missing = Literal["fail", "absent"]
WorkerKind = Literal["thread", "process"]
Size = Annotated[int | str, "bytes, or 256MiB, 4GB"]


def located(path: str | os.PathLike[str]) -> str:
    """Return the path as it holds when the process changes its directory, and in others: absolute, or a URL."""
    text = os.fspath(path)
    return text if "://" in text or not text else os.path.abspath(text)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _whole(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and 0 <= operator.index(value) < 1 << 64
    except TypeError:
        return False


def _real(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, str, bytes)) and not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


# What a value of an annotation is called, and whether a value is one.
_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    bytes: ("bytes", lambda value: isinstance(value, (bytes, bytearray, memoryview))),
    bool: ("True or False", lambda value: isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")),
    int: ("a whole number from 0", _whole),
    float: ("a number", _real),
    os.PathLike: ("a path", lambda value: isinstance(value, os.PathLike)),
    type(None): ("None", lambda value: value is None),
    collections.abc.Callable: ("a function", callable),
}


def _kind(hint: Any) -> tuple[str, Callable[[Any], bool]] | None:
    """Return what a value of the hint is called and whether a value is one; None where anything may be."""
    if typing.get_origin(hint) is typing.Annotated:  # says in its own words what to give
        plain, words = typing.get_args(hint)
        kind = _kind(plain)
        return None if kind is None else (words, kind[1])
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        *words, last = map(repr, inside)
        return (
            f"{', '.join(words)} or {last}" if words else last,
            lambda value: isinstance(value, str) and value in inside,
        )
    if (hint if origin is None else origin) in _KINDS:
        return _KINDS[hint if origin is None else origin]
    if origin in (typing.Union, types.UnionType):
        kinds = [_kind(each) for each in inside]
        known = [kind for kind in kinds if kind is not None]
        if len(known) < len(kinds):
            return None
        name = " or ".join(dict.fromkeys(name for name, _ in known)).replace("a text or a path", "a path or URL")
        return name, lambda value: any(fits(value) for _, fits in known)
    if origin is tuple and Ellipsis not in inside:
        names, fit = zip(*(_kind(each) or ("anything", lambda value: True) for each in inside), strict=True)

        def is_tuple(value: Any) -> bool:
            return (
                isinstance(value, (tuple, list))
                and len(value) == len(fit)
                and all(fits(each) for fits, each in zip(fit, value, strict=True))
            )

        return f"({', '.join(names)})", is_tuple
    if origin is collections.abc.Mapping:
        of_keys, of_values = (_kind(each) for each in inside)
        name = "a dict" + (f", each value {of_values[0]}" if of_values else "")

        def is_mapping(value: Any) -> bool:
            return isinstance(value, Mapping) and all(
                (of_keys is None or of_keys[1](key)) and (of_values is None or of_values[1](each))
                for key, each in value.items()
            )

        return name, is_mapping
    if origin in (collections.abc.Sequence, collections.abc.Iterable, list):
        of = _kind(inside[0])

        def is_sequence(value: Any) -> bool:
            if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
                return False
            if not hasattr(value, "__len__"):
                return origin is collections.abc.Iterable  # whose items are seen only once
            return of is None or all(map(of[1], value))

        return f"a list, each {of[0]}" if of else "a list", is_sequence
    if origin is None and isinstance(hint, type) and hint is not Any:
        return hint.__name__, lambda value: isinstance(value, hint)
    return None


def shown(value: object) -> str:
    """Return a value as an error shows it: on one line, and short."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def checked(function: _Function) -> _Function:
    """Refuse arguments that are not what the function's signature says, in one line: what was given, what to give."""
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return function
    signature: inspect.Signature | None = None  # made at the first call, as most functions are never called
    kinds: dict[str, tuple[str, Callable[[Any], bool]] | None] = {}

    def kind_of(name: str, hint: Any) -> tuple[str, Callable[[Any], bool]] | None:
        if name not in kinds:
            if isinstance(hint, str):
                scope = vars(sys.modules[function.__module__])
                hint = eval(hint, scope)
            kinds[name] = _kind(hint)
        return kinds[name]

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        nonlocal signature
        if signature is None:
            signature = inspect.signature(function)
        try:
            given = signature.bind(*args, **options).arguments
        except TypeError:
            refuse_unknown(options, signature.parameters)
            return function(*args, **options)  # Python says what is missing or too much
        for name, value in given.items():
            parameter = signature.parameters[name]
            if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            kind = kind_of(name, parameter.annotation)
            if kind is not None and not kind[1](value):
                also = ", also of one" if isinstance(value, str) and "a list" in kind[0] else ""
                wrong_word = isinstance(value, str) and kind[0].startswith("'")  # the words of a Literal are quoted
                raise (ValueError if wrong_word else TypeError)(f"{name}={shown(value)}: give {kind[0]}{also}")
        return function(*args, **options)

    return typing.cast(_Function, call)


class SampleLoaderOptions(TypedDict, total=False):
    """Options of `Loader` that a loader of single samples has, too."""

    where: str | None
    indices: Any
    balance: str | None
    weights: Any
    replacement: bool
    seed: int
    geometry: Any
    missing: Missing
    keys: bool
    bad_samples: BadSamples
    memory_bytes: int | str
    decode_threads: int
    read_threads: int
    order: Order
    remainder: Remainder
    shuffle_buffer_bytes: int | str
    lanes: int
    expected_world_size: int
    locality: bool
    epoch_samples: int
    mode: ReadMode
    verify: Verify
    verify_listed_hashes: bool
    max_decompression: int | str
    trace: bool


class WriterOptions(TypedDict, total=False):
    """The options of a dataset that is written; sizes are bytes or text such as ``"256MiB"``."""

    block_size: int | str  # bytes of the values of a block
    max_block_samples: int
    alignment: int  # of blocks in the file, bytes
    zstd_levels: Mapping[str, int]  # by column
    dictionaries: Mapping[str, int]  # by column of codec zstd: bytes of a trained dictionary
    storage: Mapping[str, str]  # by column: "paged" or "blob"
    codecs: Mapping[str, str]  # by column: "none" or "zstd"
    metadata: Mapping[str, str]
    sync: bool  # wait until the files are on the device; False: a power cut soon after may damage the dataset
    shard_size: int | str  # bytes
    shard_samples: int  # exactly so many samples in each shard
    threads: int
    sha256: bool  # list the SHA-256 of each shard
    resume: bool
    append: bool  # to the dataset that is there, in one step
    existing_keys: str  # with append, of samples whose key is there: "refuse" (all), "skip" them or "add" them
    job: str


class InputOptions(TypedDict, total=False):
    """How the samples of an input are read."""

    max_decompression: int | str
    verify_listed_hashes: bool


class OpenOptions(InputOptions, total=False):
    """The options of `open`."""

    mode: ReadMode
    verify: Verify
    max_open_shards: int
    skip_lost_samples: bool
    mds_as_stored: bool
    generation: int
    where: str | None
    indices: Any


class CopyOptions(WriterOptions, InputOptions, total=False):
    """Of verbs that write the samples of a dataset into another one."""

    keep_on_cancel: bool
    keep_blocks: bool  # copy blocks whose samples are all taken


class ReshardOptions(CopyOptions, total=False):
    """The options of `reshard`; the two are for a shuffle."""

    shuffle_memory: int | str
    scratch: str  # a directory for temporary files


class ConvertOptions(CopyOptions, total=False):
    """The options of `convert`."""

    compression: str  # of MDS
    hashes: Sequence[str]  # of MDS
    encodings: Mapping[str, str]  # of MDS, by column
    index: bool  # of WebDataset


class PackOptions(WriterOptions, InputOptions, total=False):
    """The options of `pack`; `columns` and `key` are for rows, `key`, `file` and `root` for tables."""

    keep_on_cancel: bool
    limit: int
    include: Sequence[str]
    exclude: Sequence[str]
    files: Sequence[str]
    allow_empty: bool
    keep_hidden: bool
    follow_links: bool
    stream_above: int | str
    pending_pair_bytes: int | str
    columns: Mapping[str, Any] | None
    key: str
    file: str | Sequence[str]
    root: str | os.PathLike[str]


class ValidateOptions(TypedDict, total=False):
    """The options of `validate`."""

    mode: ReadMode
    max_problems: int
    max_decompression: int | str
    max_image_memory: int | str
    task: int
    tasks: int


class UnpackOptions(InputOptions, total=False):
    """The options of `unpack`."""

    first_sample: int
    end_sample: int
    generation: int
    by_shard: bool


class RepairOptions(TypedDict, total=False):
    """The options of `repair`."""

    schema_from: str
    max_keys: int
    max_decompression: int | str
    sync: bool


class DiffOptions(TypedDict, total=False):
    """The options of `diff`."""

    generation_a: int
    generation_b: int


class SimulationOptions(TypedDict, total=False):
    """The options of `simulate`."""

    nodes: int
    ranks_per_node: int
    epochs: int
    steps: int
    step_seconds: float
    decode_seconds: float
    check_bytes_per_second: float
    decode_threads: int
    read_threads: int
    memory_bytes: int | str
    cache_bytes: int | str
    latency: float
    latency_p99: float
    node_bytes_per_second: float
    bytes_per_second: float
    requests_per_second: float
    order: Order
    remainder: Remainder
    shuffle_buffer_bytes: int | str
    lanes: int
    expected_world_size: int
    locality: bool
    epoch_samples: int


def size(value: int | str, name: str = "size") -> int:
    """Return the bytes of a size: a number, or text such as ``"256MiB"`` or ``"1.5 GB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(\w*)\s*", value)
        if match is None or match[2] not in _UNITS:
            raise ValueError(f"{name}: {value!r} is not a size; write bytes, or 256MiB, 4GB")
        return int(float(match[1]) * _UNITS[match[2]])
    if isinstance(value, bool) or value != int(value):
        raise ValueError(f"{name}: {value!r} is not a size; write bytes, or 256MiB, 4GB")
    return int(value)


def column_names(columns: Iterable[str] | None) -> list[str] | None:
    """Return the names of some columns, each once; None: all."""
    if columns is None:
        return None
    names = list(columns)
    if not names:
        raise ValueError("columns: the list is empty; give None for all")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"columns: {name!r} occurs twice")
    return names


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as the library takes it: the query of a URL, which may be a signature, is kept apart."""
    return _core.keep_query(os.fspath(path))


# What other loaders call it, and what does the same here.
_ELSEWHERE = {
    "shuffle": 'order="shuffled" (the default) or order="sequential"',
    "drop_last": 'remainder="drop"',
    "num_workers": "nothing, or workers of Python's functions, decode_threads and read_threads of the library",
    "prefetch_factor": "memory_bytes",
    "persistent_workers": "nothing: threads stay",
    "collate_fn": "batch_function",
}


def refuse_unknown(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse options that are not known and have another name here, naming that."""
    for name in names:
        if name in known:
            continue
        if name in _ELSEWHERE:
            raise TypeError(f"there is no option {name}: give {_ELSEWHERE[name]}")
        import difflib

        if near := difflib.get_close_matches(name, known, 1, 0.7):
            raise TypeError(f"there is no option {name}: did you mean {near[0]}?")


def refuse(options: Iterable[str], needs: str) -> None:
    """Refuse options that do nothing as the others are."""
    for name in options:
        raise ValueError(f"{name} {needs}")


def parsed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as the library takes them: sizes as bytes, mappings as dicts, without those that are None."""
    made: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in _SIZES:
            value = size(value, name)
        elif name == "root":
            value = path_text(value)
        elif name == "file" and isinstance(value, str):
            value = [value]
        elif isinstance(value, Mapping):
            value = dict(value)
            if name in {"zstd_levels", "dictionaries"}:
                for column, number in value.items():
                    if isinstance(number, bool) or not hasattr(number, "__index__"):
                        raise TypeError(f"{name}: {column}={shown(number)}: give a whole number")
        made[name] = value
    return made
