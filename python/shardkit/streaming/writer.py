"""Writing MDS."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from shardkit import jobs
from shardkit.streaming._arguments import byte_count, is_url
from shardkit.streaming.encodings import Coder, coder, known_encodings

_OFFSETS = 1 << 32  # they are 32 bits wide
_HASHES = {"xxh32", "xxh64", "xxh3_64", "xxh128", "xxh3_128", *hashlib.algorithms_guaranteed}


class MDSWriter:
    """Writes samples as MDS; the files are byte for byte what mosaicml-streaming writes.

    Parameters
    ----------
    columns : mapping of str to str
        The encoding of each column. ``pkl`` is refused.
    out : str or (str, str)
        A directory, a URL (``s3://``, ``gs://``), or a directory and a URL, which both get the dataset.
    keep_local : bool
        Whether the directory of a pair stays. A URL alone has none: what is written before it is uploaded lies in a
        temporary directory.
    compression : str
        ``"zstd"``, or with a level ``"zstd:1"`` to ``"zstd:22"``. Others are read, and not written.
    hashes : sequence of str
        Names of hashes, sorted: the index gets those of each file.
    size_limit : int or str
        The most bytes of a shard before compression, below 4 GiB; None: one shard.
    progress_bar : bool
        Show how far uploads and compression are.
    max_workers : int
        Threads that compress; 1 by default.
    retry : int
        Taken and of no effect: requests are sent again for up to 5 minutes.
    exist_ok : bool
        Whether to remove what is in the directory first.

    Notes
    -----
    With compression or hashes, and for URLs, shards lie in a temporary directory beside `out` until the ``with``
    statement ends, which makes the dataset of them. The index comes last.
    """

    def __init__(
        self,
        *,
        columns: Mapping[str, str],
        out: str | os.PathLike[str] | tuple[str, str],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: Sequence[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        **kwargs: Any,
    ) -> None:
        options = {"progress_bar": False, "max_workers": None, "retry": 2, "exist_ok": False}
        if unknown := sorted(kwargs.keys() - options.keys()):
            raise ValueError(f"Invalid Writer argument(s): {unknown}; there are {', '.join(options)}")
        options |= kwargs
        self.columns = dict(columns)
        self.column_names = sorted(columns)
        self.column_encodings = [columns[name] for name in self.column_names]
        self._coders = [_coder(name, columns[name]) for name in self.column_names]
        self.column_sizes = [each.size for each in self._coders]
        self.compression = compression or None
        if self.compression is not None and not re.fullmatch(r"zstd(:([1-9]|1\d|2[0-2]))?", self.compression):
            raise ValueError(
                f'Invalid compression: {compression}: MDS is written with "zstd", "zstd:1" to "zstd:22" or none'
            )
        self.hashes = list(hashes or [])
        if self.hashes != sorted(set(self.hashes)):
            raise ValueError("Hashes must be unique and in sorted order.")
        if unknown := sorted(set(self.hashes) - _HASHES):
            raise ValueError(f"Invalid hash: {unknown[0]}; there are {', '.join(sorted(_HASHES))}")
        self.size_limit = byte_count(size_limit, "size_limit") if size_limit else None
        if self.size_limit is not None and self.size_limit >= _OFFSETS:
            raise ValueError(f"`size_limit` must be less than 2**32, where offsets end, and is {self.size_limit}")
        self._progress = bool(options["progress_bar"])
        self._threads = int(options["max_workers"] or 1)
        self.keep_local = keep_local
        self.local, self.remote = _places(out)
        if self.local is not None:
            if options["exist_ok"]:
                shutil.rmtree(self.local, ignore_errors=True)
            if os.path.isdir(self.local) and os.listdir(self.local):
                raise FileExistsError(f"Directory is not empty: {self.local}; exist_ok=True removes what is there")
            os.makedirs(self.local, exist_ok=True)
        self._direct = self.remote is None and self.compression is None and not self.hashes
        self._folder = self.local if self._direct else None
        self.shards: list[dict[str, Any]] = []
        # The config of the final shards decides where they end, and that of the files written here is theirs.
        self._config = {**self.get_config(), "compression": None, "hashes": []}
        self._header = json.dumps(self._config, sort_keys=True).encode()
        self._samples: list[bytes] = []
        self._size = 8 + len(self._header)
        self._closed = False

    def get_config(self) -> dict[str, Any]:
        """Return what the index says of each shard."""
        return {
            "version": 2,
            "format": "mds",
            "compression": self.compression,
            "hashes": self.hashes,
            "size_limit": self.size_limit,
            "column_names": self.column_names,
            "column_encodings": self.column_encodings,
            "column_sizes": self.column_sizes,
        }

    def encode_sample(self, sample: Mapping[str, Any]) -> bytes:
        """Return the stored form of a sample, a mapping with a value for each column."""
        sizes: list[int] = []
        values: list[bytes] = []
        for name, made in zip(self.column_names, self._coders, strict=True):
            value = sample[name]
            stored = value if isinstance(value, bytes) else made.encode(value)
            if made.size is None:
                sizes.append(len(stored))
            elif made.size != len(stored):
                raise KeyError(f"column {name}: a value has {len(stored)} bytes; {self.columns[name]} has {made.size}")
            values.append(stored)
        return np.array(sizes, np.uint32).tobytes() + b"".join(values)

    def write(self, sample: Mapping[str, Any]) -> None:
        """Write a sample, a mapping with a value for each column; others are left out."""
        if self._closed:
            raise ValueError("the writer is closed")
        stored = self.encode_sample(sample)
        if self._samples and self.size_limit is not None and self.size_limit < self._size + len(stored) + 4:
            self._flush()
        if self._size + len(stored) + 4 >= _OFFSETS:
            raise ValueError("the shard would have 4 GiB, where offsets end: give a smaller size_limit")
        self._samples.append(stored)
        self._size += len(stored) + 4

    def _flush(self) -> None:
        if self._folder is None:
            # Beside the output, where there is room for it.
            beside = None if self.local is None else os.path.dirname(os.path.abspath(self.local))
            self._folder = tempfile.mkdtemp(prefix=".mds-", dir=beside)
        name = f"shard.{len(self.shards):05}.mds"
        count = len(self._samples)
        begin = 8 + 4 * count + len(self._header)
        ends = begin + np.cumsum([0, *map(len, self._samples)])
        with open(os.path.join(self._folder, name), "wb") as file:
            file.write(np.uint32(count).tobytes() + ends.astype(np.uint32).tobytes() + self._header)
            file.writelines(self._samples)
        raw = {"basename": name, "bytes": int(ends[-1]), "hashes": {}}
        self.shards.append({**self._config, "samples": count, "raw_data": raw, "zip_data": None})
        self._samples = []
        self._size = 8 + len(self._header)

    def finish(self) -> None:
        """Write what is left and the index; the ``with`` statement calls it."""
        if self._closed:
            return
        self._closed = True
        if self._samples:
            self._flush()
        try:
            if self._direct or not self.shards:
                self._write_index(self.local if self._direct else self._folder or self.local)
            if not self._direct and self.shards:
                self._write_index(self._folder)
                self._convert()
        finally:
            if not self._direct and self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
        if self.remote is not None and self.local is not None and not self.keep_local:
            shutil.rmtree(self.local, ignore_errors=True)

    def _convert(self) -> None:
        assert self._folder is not None
        given: dict[str, Any] = {"hashes": self.hashes, "threads": self._threads}
        if self.compression is not None:
            given["compression"] = self.compression
        given["shard_size"] = self.size_limit if self.size_limit is not None else _OFFSETS - 1
        for place in (self.local, self.remote):
            if place is not None:
                jobs.convert(self._folder, place, to="mds", progress=self._progress or None, **given)

    def _write_index(self, folder: str | None) -> None:
        if folder is None:
            raise ValueError("there is no sample, and a store holds no empty MDS: write one, or give a directory")
        text = json.dumps({"version": 2, "shards": self.shards}, sort_keys=True)
        with open(os.path.join(folder, "index.json.partial"), "w") as file:
            file.write(text)
        os.replace(file.name, os.path.join(folder, "index.json"))

    def __enter__(self) -> MDSWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
            return
        self._closed = True
        if not self._direct and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _coder(name: str, encoding: str) -> Coder:
    made = coder(encoding)
    if made is None:
        why = "runs code from the file when it is read" if encoding == "pkl" else "is unsupported"
        raise TypeError(
            f"MDSWriter passed column `{name}` with encoding `{encoding}`, which {why}. "
            f"Supported encodings are {', '.join(known_encodings())}"
        )
    return made


def _places(out: str | os.PathLike[str] | tuple[str, str]) -> tuple[str | None, str | None]:
    """Return directory and URL."""
    if isinstance(out, tuple):
        local, remote = map(os.fspath, out)
        return os.path.expanduser(local), remote
    text = os.fspath(out)
    return (None, text) if is_url(text) else (os.path.expanduser(text), None)


def merge_index(*args: Any, **kwargs: Any) -> None:
    """Write the index of several MDS datasets into the directory or URL that they lie in.

    Called as ``merge_index(out)``, where the datasets are the folders of `out` that have an index, or as
    ``merge_index(index_file_urls, out)``. As in mosaicml-streaming, `keep_local` says whether the directory of a pair
    (directory, URL) stays; `download_timeout` is taken and of no effect, because requests are sent again for up to 5
    minutes.
    """
    if args and isinstance(args[0], (list, tuple)) and not (isinstance(args[0], tuple) and len(args) == 1):
        _merge(*args, **kwargs)
    elif args or "out" in kwargs:
        _merge(None, *args, **kwargs)
    else:
        raise ValueError(f"Invalid arguments to merge_index: {args}, {kwargs}")


def _merge(
    index_file_urls: Sequence[str | tuple[str, str]] | None,
    out: str | tuple[str, str],
    keep_local: bool = True,
    download_timeout: float = 60,
) -> None:
    del download_timeout
    local, remote = _places(out)
    if not keep_local and (local is None or remote is None):
        raise ValueError("keep_local=False: only of a pair (directory, URL) can the directory go")
    for place in (local, remote):
        if place is None:
            continue
        parts = _folders(place) if index_file_urls is None else [_part(each, place) for each in index_file_urls]
        if not parts:
            raise ValueError(f"{place}: no folder has an index.json")
        jobs.merge(list(dict.fromkeys(parts)), place, keep_repeated_keys=True)
    if not keep_local and local is not None:
        shutil.rmtree(local, ignore_errors=True)


def _folders(out: str) -> list[str]:
    if is_url(out):
        raise ValueError(
            f"{out}: stores are not listed; give the indexes, merge_index([...], out), or open the folder as it is: a "
            "folder of MDS datasets is one"
        )
    found = sorted(folder for folder, _, names in os.walk(out) if "index.json" in names)
    return [folder for folder in found if os.path.realpath(folder) != os.path.realpath(out)]


def _part(given: str | tuple[str, str], out: str) -> str:
    if isinstance(given, tuple):
        given = given[1] if is_url(out) else given[0]
    folder = given.rstrip("/").strip()
    return folder[: -len("/index.json")] if folder.endswith("/index.json") else folder
