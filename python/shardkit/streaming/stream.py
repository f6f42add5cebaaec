"""The datasets that a StreamingDataset mixes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardkit import dataset as _dataset
from shardkit.streaming._arguments import is_url

DEFAULTS: dict[str, Any] = {
    "split": None,
    "download_retry": 2,
    "download_timeout": 60,
    "validate_hash": None,
    "keep_zip": False,
}


class Stream:
    """A dataset of MDS or Shardkit, and how much of it an epoch takes.

    Parameters
    ----------
    remote : str
        A path or URL. It is read in place; of a URL `local` keeps what was read.
    local : str
        A directory with the dataset, or, where `remote` is a URL, one for what is read of it. A dataset that is there
        complete, as StreamingDataset leaves it, is read in place of the URL. Without `local` nothing is kept on disk.
        A process has one cache (`shardkit.use_cache`): that of the first dataset with one.
    split : str
        A folder below both.
    proportion, repeat, choose
        At most one: the share of an epoch, relative to the other streams; the samples of an epoch as a multiple of the
        dataset's; the samples of an epoch. By default all samples, once.
    download_retry, download_timeout
        Checked, and of no effect: requests are sent again for up to 5 minutes.
    validate_hash : str
        A hash that the index has to list. All hashes that it lists are compared in any case.
    keep_zip
        Of no effect: shards are kept as they are stored.
    """

    proportion: float
    repeat: float
    choose: int
    path: str  # or URL, that is read; of a stream of a dataset

    def __init__(
        self,
        *,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        proportion: float | None = None,
        repeat: float | None = None,
        choose: int | None = None,
        download_retry: int | None = None,
        download_timeout: float | None = None,
        validate_hash: str | None = None,
        keep_zip: bool | None = None,
    ) -> None:
        self.remote = None if remote is None else os.fspath(remote)
        self.split = split or ""
        weights = {"proportion": proportion, "repeat": repeat, "choose": choose}
        if sum(weight is not None for weight in weights.values()) > 1:
            raise ValueError("At most one of `proportion`, `repeat`, and `choose` may be specified")
        for name, weight in weights.items():
            if weight is not None:
                if weight < 0:
                    raise ValueError(f"`{name}` must be non-negative, and is {weight}")
                setattr(self, name, weight)
        if download_retry is not None and download_retry < 0:
            raise ValueError(f"`download_retry` must be non-negative, and is {download_retry}")
        if download_timeout is not None and download_timeout <= 0:
            raise ValueError(f"`download_timeout` must be positive, and is {download_timeout}")
        self._given = {name: weight for name, weight in weights.items() if weight is not None}
        self.download_retry = download_retry
        self.download_timeout = download_timeout
        self.validate_hash = validate_hash
        self.keep_zip = keep_zip
        self._local = None if local is None else os.fspath(local)

    @property
    def local(self) -> str:
        """The directory that was given, or the name of the one that mosaicml-streaming would make."""
        if self._local is not None:
            return self._local
        name = "" if self.remote is None else hashlib.blake2s(self.remote.encode(), digest_size=16).hexdigest()
        return os.path.join(tempfile.gettempdir(), name, self.split)

    def apply_default(self, default: Mapping[str, Any]) -> None:
        """Take what a dataset gives for all of its streams, where this one was given nothing."""
        if not self.remote and not self._local:
            raise ValueError("`remote` and/or `local` path must be provided")
        for name in DEFAULTS:
            if getattr(self, name) in (None, ""):
                setattr(self, name, default[name])
        self.split = self.split or ""
        self.path = self._read_place()

    def _read_place(self) -> str:
        if self.remote is None:
            assert self._local is not None
            return os.path.join(self._local, self.split) if self.split else self._local
        if self._local is not None and not _is_dataset(self.remote, self.split) and self._has_all():
            return os.path.join(self._local, self.split)
        return f"{self.remote.rstrip('/')}/{self.split}" if self.split else self.remote

    def _has_all(self) -> bool:
        """Tell whether the local directory has all of an MDS dataset."""
        assert self._local is not None
        folder = os.path.join(self._local, self.split)
        shards = listed_shards(folder) or []
        files = [[shard.get("raw_data"), shard.get("zip_data")] for shard in shards]
        there = [any(each and os.path.exists(os.path.join(folder, each["basename"])) for each in two) for two in files]
        return bool(there) and all(there)

    @property
    def cache(self) -> str | None:
        """The directory in which what is read of a URL is kept."""
        return None if self._local is None or not is_url(self.path) else os.path.join(self._local, ".shardkit-cache")

    def open(self) -> _dataset.Dataset:
        """Open the dataset."""
        try:
            return _dataset.open(self.path, mds_as_stored=True)
        except FileNotFoundError as error:
            if self.remote is None:
                missing = os.path.join(self.path, "index.json")
                raise RuntimeError(f"No `remote` provided, but local file {missing} does not exist: {error}") from error
            raise FileNotFoundError(errno.ENOENT, f"{os.strerror(errno.ENOENT)}: {error}") from error

    def check_hashes(self) -> None:
        """Refuse a dataset that lists none of the hashes that are asked for."""
        shards = listed_shards(self.path) if self.validate_hash else None
        for shard in shards or []:
            for file in (shard.get("raw_data"), shard.get("zip_data")):
                if file and self.validate_hash not in file["hashes"]:
                    listed = ", ".join(file["hashes"]) or "none"
                    raise ValueError(
                        f"{self.path}: validate_hash={self.validate_hash!r}: the index lists {listed} for "
                        f"{file['basename']}; what it lists is always compared, and checksums of Shardkit's shards"
                    )


def _is_dataset(remote: str, split: str) -> bool:
    return not is_url(remote) and os.path.exists(os.path.join(remote, split))


def listed_shards(folder: str) -> list[dict[str, Any]] | None:
    """Return the shards that the index of MDS in a directory lists, or None when there is no index."""
    try:
        with open(os.path.join(folder, "index.json"), "rb") as file:
            return list(json.load(file)["shards"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def apply_weights(streams: Sequence[Stream], samples: Sequence[int], epoch_size: int | None, seed: int) -> int:
    """Derive proportion, repeat and choose of every stream from what was given; returns the samples of an epoch."""
    relative = ["proportion" in stream._given for stream in streams]
    if any(relative) and not all(relative):
        raise ValueError(
            "Relative (`proportion`) and absolute (`repeat`, `choose`, none) stream weights are incompatible with each "
            f"other (error in stream {relative.index(not relative[0])})"
        )
    counts = np.array(samples, np.int64)
    if all(relative) or (epoch_size and not any(stream._given for stream in streams)):
        shares = np.array([stream._given.get("proportion", n) for stream, n in zip(streams, samples, strict=True)])
        if not shares.sum() > 0:
            raise ValueError("the proportions of all streams are 0")
        total = epoch_size or int(counts.sum())
        choose = (total * (shares / shares.sum())).astype(np.int64)
        some = np.flatnonzero(shares)
        more = np.random.default_rng(seed).choice(some, total - int(choose.sum()), replace=False)
        choose[more] += 1
    else:
        if epoch_size:
            raise ValueError("epoch_size: only with `proportion` of all streams, or with no weights")
        choose = np.array(
            [
                stream._given["choose"] if "choose" in stream._given else int(stream._given.get("repeat", 1) * n)
                for stream, n in zip(streams, samples, strict=True)
            ],
            np.int64,
        )
    total = int(choose.sum())
    if total == 0:
        raise ValueError("an epoch has no samples: give a stream a larger repeat, choose or proportion")
    for stream, n, chosen in zip(streams, samples, choose.tolist(), strict=True):
        stream.proportion, stream.repeat, stream.choose = chosen / total, chosen / n, chosen
    return total
