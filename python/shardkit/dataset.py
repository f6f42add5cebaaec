"""Reading datasets by ordinal, by key, and block by block."""

from __future__ import annotations

import functools
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, overload

import numpy as np

from shardkit import _core, _numbers, _process, _values
from shardkit._options import ReadMode, Size, Verify, checked, column_names, located, path_text, shown, size
from shardkit.block import Block
from shardkit.schema import Schema, describe


class Dataset(Sequence[Mapping[str, Any]]):
    """The samples of a dataset: Shardkit's own, MDS or WebDataset. Made by `open`.

    Thread-safe; reading does not hold the GIL. Pickled as its path and options. After a fork it opens its files
    again in the child.
    """

    def __init__(self, path: str, options: dict[str, Any], choice: dict[str, Any] | None = None) -> None:
        self._given = path
        self._path = path_text(path)
        self._options = options
        self._choice = choice or {}
        self._open()

    def _open(self) -> None:
        self._generation = _process.generation
        self._reader = _core.Dataset(self._path, **self._options)
        _process.belongs_here(self._reader)
        self._columns = self._reader.columns
        self._names = [column.name for column in self._columns]
        self._all_columns = self._reader.all_columns
        self._count = self._reader.sample_count
        self._chosen: _core.ChosenSamples | None = None
        if self._choice:
            given = {name: self._options[name] for name in ("generation", "max_decompression", "verify_listed_hashes")}
            self._chosen = _core.choose(self._path, {**self._choice, **given})
            if self._chosen.of != self._count:
                raise ValueError(f"{self._path}: has changed while it was opened; open it again")
            self._ordinals = self._chosen.ordinals()
            self._count = len(self._ordinals)

    @property
    def _library(self) -> _core.Dataset:
        if self._generation != _process.generation:
            self._open()
        return self._reader

    @property
    def path(self) -> str:
        """The path, absolute, or the URL without its query."""
        return self._path

    @property
    def schema(self) -> Schema:
        """The columns that are read."""
        return Schema(self._columns)

    @property
    def all_columns(self) -> Schema:
        """All columns of the dataset."""
        return Schema(self._all_columns)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the dataset."""
        return self._library.metadata

    @property
    def container(self) -> str:
        """``"shard"``, ``"mds"`` or ``"webdataset"``."""
        return self._library.container

    @property
    def shard_count(self) -> int:
        """The number of shards."""
        return self._library.shard_count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int | str | bytes) -> dict[str, Any]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, index: slice | Sequence[int | str | bytes]) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: Any) -> Any:
        """Return the sample at an ordinal or of a key, or a list of the samples of several.

        A sample is a dict from column to value: ``bytes`` for images and other bytes, ``str`` for utf8, NumPy's
        scalars and arrays, `Masks` for rle, ``None`` for what is absent.

        Parameters
        ----------
        index : int, str or bytes; or slice, sequence, array or tensor
            An ordinal, of Python, NumPy or torch, or a key. Of several: a slice of ordinals, ordinals and keys one
            after another, or a mask, which is a bool for each sample.

        Raises
        ------
        IndexError
            For an ordinal that is not there, and a mask of another length.
        KeyError
            For a key that is not there.
        TypeError
            For what is neither ordinal, key nor several of them.
        DataLossError
            When the sample is damaged.
        """
        if isinstance(index, slice):
            return [self._read(i) for i in range(len(self))[index]]
        several = _several(index)
        if several is None:
            return self._read(self._found(index))
        if several and all(isinstance(each, (bool, np.bool_)) for each in several):
            if len(several) != len(self):
                raise IndexError(f"{self._path}: a mask of {len(several)} samples; it has {len(self)}")
            return [self._read(i) for i, chosen in enumerate(several) if chosen]
        return [self._read(self._found(each)) for each in several]

    def _found(self, index: Any) -> int:
        """Return the ordinal that an index is, or of the sample with this key."""
        if isinstance(index, (str, bytes)):
            sample = self.find(index)
            if sample is None:
                if index in [column.name for column in self.schema]:
                    raise KeyError(f"no sample has the key {index!r}, which is a column: write dataset[0][{index!r}]")
                raise KeyError(index)
            return sample
        try:
            return self._ordinal(_numbers.ordinal(index))
        except TypeError:
            raise TypeError(f"a sample has an ordinal or a key, and {index!r:.60} is neither") from None

    def _ordinal(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"{self._path}: there is no sample {index}; it has {count}")
        return index % count

    def _read(self, sample: int) -> dict[str, Any]:
        reader = self._library
        sample = self._of_all(sample)
        made = {}
        for i, column in enumerate(self._columns):
            stored = reader.read_value(sample, i, _values.wants_writable(column))
            try:
                made[column.name] = _values.decode(column, stored)
            except _core.DataLossError as error:
                message = f'{self._path}: sample {sample}: column "{column.name}": {error}'
                raise _values.damaged(message, self._path, sample, column.name) from None
        return made

    def _of_all(self, sample: int) -> int:
        """Return the ordinal among all samples of the dataset."""
        return sample if self._chosen is None else int(self._ordinals[sample])

    def _position(self, column: str) -> int:
        if column not in self._names:
            raise KeyError(f"there is no column {column!r}; the dataset has {', '.join(self._names)}")
        return self._names.index(column)

    @checked
    def open_value(self, index: Any, column: str, *, buffer_size: Size = 256 << 10) -> io.BufferedReader | None:
        """Open one value as a seekable binary file, of which only what is asked for is read: for videos and recordings.

        Bytes without a codec, and values in tars and in MDS without compression, are read in ranges, local or by URL.
        Any other value is read and decompressed whole, now. No checksum is compared of a part; all of the value, by
        ``read()`` of the file as it was opened, is checked as `dataset[index]` is. Each file is for one thread at a
        time; ``raw`` has the ``size`` in bytes.

        Parameters
        ----------
        index : int, str or bytes
            An ordinal or a key, as for `dataset[index]`.
        column : str
            Of any type; the file has the bytes as they are stored.
        buffer_size : int or str
            Bytes read at least at once, as for `io.BufferedReader`; of a URL, each read is a request.

        Returns
        -------
        io.BufferedReader or None
            The file, open until it is closed; None where the value is absent.

        Raises
        ------
        IndexError, KeyError
            When there is no such sample or column.
        DataLossError
            When the sample is damaged, also from later reads.
        """
        raw = _ValueFile.open(self, self._of_all(self._found(index)), self._position(column))
        return None if raw is None else io.BufferedReader(raw, size(buffer_size, "buffer_size"))

    def __contains__(self, key: object) -> bool:
        """Tell whether a sample has this key."""
        return isinstance(key, (str, bytes)) and self.find(key) is not None

    @checked
    def find(self, key: str | bytes) -> int | None:
        """Return the ordinal of the first sample with this key, or None."""
        try:
            text = key.decode() if isinstance(key, bytes) else key.encode().decode()
        except UnicodeError:
            return None  # keys are UTF-8
        found = self._library.find_key(text)
        if self._chosen is None or found is None:
            return found
        place = int(np.searchsorted(self._ordinals, found))
        return place if place < self._count and self._ordinals[place] == found else None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield all samples in order, read block by block."""

        def sample(block: Block, i: int) -> dict[str, Any]:
            # Copies, so that a kept sample does not keep its block.
            return {name: block.value(name, i) for name in self._names}

        return _Each(self.scan(), lambda block: map(functools.partial(sample, block), range(len(block))))

    def keys(self) -> Iterator[str]:
        """Yield the keys in order; memory does not grow with their number.

        Without a column of keys they are the ordinals in the dataset, in twelve digits.
        """
        name = self.all_columns.key
        if name is None:
            return map("{:012d}".format, self._ordinals if self._chosen is not None else range(len(self)))
        return _Each(self._of_columns([name]).scan(), lambda block: iter(block[name]))

    @checked
    def scan(
        self, *, threads: int = 1, blocks_ahead: int = 4, first_sample: int = 0, end_sample: int | None = None
    ) -> Iterator[Block]:
        """Yield the blocks in order, columns as arrays over the block's memory.

        Parameters
        ----------
        threads : int
            Threads that read, check and decompress ahead; 0: the caller does it.
        blocks_ahead : int
            Blocks read ahead, at least `threads`. So many blocks and one more may be in use at once.
        first_sample, end_sample : int
            The samples wanted, extended to whole blocks. Of chosen samples (`open`), the blocks have just these, in
            memory of their own.

        Raises
        ------
        ValueError
            When arrays of more blocks are kept than `blocks_ahead` allows.
        """
        return self._blocks(threads, blocks_ahead, first_sample, end_sample, most_held=1)

    def _blocks(
        self,
        threads: int = 1,
        blocks_ahead: int = 4,
        first_sample: int = 0,
        end_sample: int | None = None,
        *,
        most_held: int | None,
    ) -> Iterator[Block]:
        """Yield the blocks as `scan` does; `most_held`, None: any number, may be in use beside those read ahead."""
        count = len(self)
        end_sample = count if end_sample is None else min(end_sample, count)
        chosen = None if self._chosen is None else self._ordinals
        begin, end = first_sample, end_sample
        if chosen is not None and first_sample < end_sample:
            begin, end = int(chosen[first_sample]), int(chosen[end_sample - 1]) + 1
        scanner = _core.Scanner(
            self._library,
            threads=threads,
            blocks_ahead=max(blocks_ahead, threads, 1),
            most_held=(1 << 31) - 1 if most_held is None else most_held,
            first_sample=begin,
            end_sample=max(begin, end),
            samples=self._chosen,
        )
        _process.belongs_here(scanner)
        schema = self.schema

        def made(block: _core.Block) -> Block:
            _process.belongs_here(block)
            if chosen is None:
                return Block(block, schema)
            first = int(np.searchsorted(chosen, block.first_sample))
            last = int(np.searchsorted(chosen, block.first_sample + block.sample_count))
            return Block(block, schema, chosen[first:last] - block.first_sample, first)

        return map(made, scanner) if chosen is None else filter(len, map(made, scanner))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dataset, (self._given, self._options, self._choice))

    @checked
    def column(self, name: str) -> Any:
        """Return all values of a column: an array [samples, …] where all have one size, 0 where absent; else a list.

        Raises
        ------
        KeyError
            When there is no such column.
        """
        self._position(name)
        alone = self._of_columns([name])
        # Copies, because few blocks may be in use at once.
        parts = [
            part.copy() if isinstance(part := block[name], np.ndarray) else list(part)
            for block in alone.scan(threads=2)
        ]
        if all(isinstance(part, np.ndarray) for part in parts) and parts:
            return np.concatenate(parts)
        return [value for part in parts for value in part]

    def _of_columns(self, names: Sequence[str], where: str | None = None) -> Dataset:
        """Return the dataset with these columns, of the samples that satisfy one more condition."""
        choice = self._choice
        if where is not None and self._options["skip_lost_samples"]:
            raise ValueError("where chooses among all samples: leave skip_lost_samples out")
        if where is not None and len(self) > 0:
            indices = None if self._chosen is None else self._ordinals
            choice = chosen(self._path, where, indices, self._options["generation"])
        return Dataset(self._path, {**self._options, "columns": list(names)}, choice)

    @checked
    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """Return samples as a table of Arrow. Needs pyarrow.

        Numbers lie in the table as the blocks have them, without a copy. docs/recipes.md says which types
        columns get.

        Parameters
        ----------
        columns : sequence of str
            Columns of the table, in this order. By default those that `open` was given, else all small ones: neither
            images, other bytes nor masks.
        where : str
            Only the samples that satisfy a condition, as for `open`.

        Returns
        -------
        pyarrow.Table
            In memory as a whole; ``pyarrow.RecordBatchReader.from_stream(dataset)`` reads a part at a time.

        Raises
        ------
        KeyError
            When a column is not among those that are read.
        ValueError
            For arrays of several numbers of dimensions in a column that has no shape.
        """
        import pyarrow as pa

        kinds, batches = self._arrow(column_names(columns), where)
        return pa.Table.from_batches(batches, kinds)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a stream of the samples for other programs: DuckDB, pandas and others take a dataset as it is.

        polars takes one for a sequence: give it `to_arrow`. The columns are the same. Blocks are read when they are
        asked for, and a few ahead.
        """
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(*self._arrow(None, None)).__arrow_c_stream__(requested_schema)

    def _arrow(self, names: Sequence[str] | None, where: str | None) -> tuple[Any, Iterator[Any]]:
        """Return the schema and the record batches of `to_arrow`."""
        from shardkit import _to_arrow

        if names is None:
            every = bool(self._options["columns"])
            names = [column.name for column in self._columns if every or _to_arrow.is_small(column)]
            if not names:
                raise ValueError(f"{self._path}: no column is small: name columns, as {self._names[0]!r}")
        for name in names:
            if name not in self._names:
                raise KeyError(f"there is no column {name!r}; the dataset has {', '.join(self._names)}")
        dataset = self if where is None and names == self._names else self._of_columns(names, where)
        threads = min(_core.available_processors(), 8)
        kinds = dataset._arrow_schema()
        # Arrays over a block's memory hold it for as long as others have them.
        blocks = dataset._blocks(threads, threads, most_held=None)
        return kinds, _to_arrow.batches(blocks, dataset._columns, kinds)

    def _arrow_schema(self) -> Any:
        """Return Arrow's schema of all columns that are read."""
        from shardkit import _to_arrow

        return _to_arrow.schema(self._columns, lambda names: self._of_columns(names).scan())

    @property
    def classes(self) -> list[str]:
        """The names of the classes, where one column has some: value i of it means class i."""
        named = [names for each in self._columns if (names := each.class_names)]
        if len(named) != 1:
            raise ValueError(f"{self._path}: {len(named)} columns have class names: schema[name].class_names has each")
        return named[0]

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class, as of `ImageFolder` of torchvision."""
        return {name: i for i, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name}: {describe(column)}" for column in self._columns)
        shards = f"{self.shard_count} shard{'' if self.shard_count == 1 else 's'}"
        return f"<shardkit.Dataset {self._path!r}: {len(self)} samples of {columns}; {shards}>"

    def _repr_html_(self) -> str:
        """Return the first samples for notebooks."""
        from shardkit import _html

        samples = [self[i] for i in range(min(len(self), _html.SAMPLES))]
        return _html.of_samples(self.schema, samples, f"{self._path}: {len(self)} samples")


class _ValueFile(io.RawIOBase):
    """A value as a file. After a fork, it is opened again in the child."""

    def __init__(self, dataset: Dataset, sample: int, column: int, value: _core.Value) -> None:
        super().__init__()
        self._place = (dataset, sample, column)
        self._value = value
        self._generation = _process.generation
        self._offset = 0
        self.size = value.size

    @classmethod
    def open(cls, dataset: Dataset, sample: int, column: int) -> _ValueFile | None:
        value = dataset._library.open_value(sample, column)
        if value is None:
            return None
        _process.belongs_here(value)
        return cls(dataset, sample, column, value)

    def close(self) -> None:
        super().close()
        self.__dict__.pop("_value", None)  # which keeps the shard's file open

    def _checked(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readable(self) -> bool:
        self._checked()
        return True

    def seekable(self) -> bool:
        self._checked()
        return True

    def tell(self) -> int:
        self._checked()
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._checked()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence is {whence}: 0, 1 or 2 is wanted")
        to = offset + (0, self._offset, self.size)[whence]
        if to < 0:
            raise ValueError(f"there is no byte {to} to seek")
        self._offset = to
        return to

    def readinto(self, buffer: Any) -> int:
        self._checked()
        view = memoryview(buffer)
        count = min(view.nbytes, max(0, self.size - self._offset))
        if count:
            if self._generation != _process.generation:
                again = _ValueFile.open(*self._place)
                if again is None or again.size != self.size:
                    dataset, sample, column = self._place
                    name = dataset.schema.names[column]
                    message = f"{dataset.path}: sample {sample}: column {name}: has changed since it was opened"
                    raise _values.damaged(message, dataset.path, sample, name)
                self._value, self._generation = again._value, again._generation
            self._value.read_into(self._offset, view.cast("B")[:count])
            self._offset += count
        return count

    def readall(self) -> bytes:
        self._checked()
        if self._offset == 0:
            dataset, sample, column = self._place
            whole = dataset._library.read_value(sample, column, False)  # which compares its checksum
            self._offset = self.size
            return bytes(whole or b"")
        rest = bytearray(max(0, self.size - self._offset))
        self.readinto(rest)
        return bytes(rest)


class _Each(Iterator[Any]):
    """What a function makes of each block, one by one.

    After an exception it goes on where the blocks do, which raise it again. A generator would be at its end, as if that
    were the dataset's.
    """

    def __init__(self, blocks: Iterator[Block], function: Callable[[Block], Iterator[Any]]) -> None:
        self._blocks = blocks
        self._function = function
        self._rest: Iterator[Any] = iter(())

    def __next__(self) -> Any:
        while True:
            for each in self._rest:
                return each
            self._rest = self._function(next(self._blocks))


def _several(index: Any) -> list[Any] | None:
    """Return the indexes of a sequence, an array or a tensor of one dimension; None of what is a single one."""
    if isinstance(index, (str, bytes)):
        return None
    if isinstance(index, (list, tuple, range)):
        return list(index)
    dimensions = getattr(index, "ndim", 0)
    if dimensions > 1:
        raise TypeError(f"samples are chosen by one dimension, not the {dimensions} of {index!r:.60}")
    return list(index.tolist()) if dimensions == 1 else None


Indices = Annotated[Any, "ordinals, keys, a mask, a slice, or a file of keys or (.npy) ordinals"]


def chosen(path: str, where: str | None, indices: Any, generation: int) -> dict[str, Any]:
    """Return what `where` and `indices` choose of the dataset, as the library takes it."""
    made: dict[str, Any] = {}
    if where is not None:
        if not where.strip():
            raise ValueError("where: the condition is empty; leave it out to take all samples")
        made["where"] = where
    if indices is None:
        return made
    if isinstance(indices, (str, os.PathLike)):
        name = os.fspath(indices)
        indices = np.load(name) if name.endswith(".npy") else _core.read_keys(path_text(name))
    several = None if isinstance(indices, slice) else _several(indices)
    if several and all(isinstance(each, str) for each in several):
        return made | {"keys": several}
    count = len(open(path, generation=generation))
    if isinstance(indices, slice):
        ordinals = np.arange(count)[indices]
    else:
        ordinals = np.array([] if several is None else several)
        if several is None or ordinals.dtype.kind not in ("iub" if len(ordinals) else "f"):
            raise TypeError(
                f"indices={shown(indices)}: give ordinals, keys, a mask, a slice, or a file of keys or (.npy) ordinals"
            )
    if ordinals.dtype.kind == "b":
        if len(ordinals) != count:
            raise ValueError(f"indices: a mask of {len(ordinals)} samples; {path} has {count}")
        ordinals = np.flatnonzero(ordinals)
    if len(ordinals) == 0:
        raise ValueError("indices: no sample is chosen; leave it out to take all samples")
    ordinals = np.sort(ordinals)
    if ordinals[0] < 0 or ordinals[-1] >= count:
        wrong = ordinals[0] if ordinals[0] < 0 else ordinals[-1]
        raise IndexError(f"indices: there is no sample {wrong}; {path} has {count}")
    steps = np.diff(ordinals)
    if np.any(steps == 0):
        raise ValueError(f"indices: {ordinals[:-1][steps == 0][0]} occurs twice; weights take samples more than once")
    last = np.concatenate([np.flatnonzero(steps > 1), [len(ordinals) - 1]])  # of each run of ordinals
    first = np.concatenate([[0], last[:-1] + 1])
    return made | {"ranges": list(zip(ordinals[first].tolist(), (ordinals[last] + 1).tolist(), strict=True))}


@checked
def use_cache(directory: str | os.PathLike[str] | None, limit: int | str = 0) -> None:
    """Keep what is read of URLs on local disk, for all processes of this machine.

    Holds for what is opened from now on, in this process and those that it starts. `docs/remote.md` says how it works.

    Parameters
    ----------
    directory : path or None
        The cache; made when there is none. None: no cache.
    limit : int or str
        What it takes on disk at most, in bytes or as ``"500GB"``; 0: four fifths of the file system.

    Raises
    ------
    PermissionError
        When others own the directory, or may write there.
    """
    if directory is not None and not os.fspath(directory):
        raise ValueError("directory='': give the cache's directory, or None for no cache")
    name = "" if directory is None else os.path.abspath(directory)
    bytes_ = size(limit, "limit")
    _core.use_cache(name, bytes_)
    os.environ.update(SHARDKIT_CACHE=name, SHARDKIT_CACHE_LIMIT=str(bytes_))


def share_cache(directory: str | os.PathLike[str], limit: int | str) -> None:
    """Use the cache, or refuse another one than the process has: what it has opened goes on with that."""
    name = os.fspath(directory)
    now = os.environ.get("SHARDKIT_CACHE") if name else None
    if now and os.path.realpath(now) != os.path.realpath(name):
        raise ValueError(
            f"cache={name!r}: this process keeps what it reads in {now!r}, of use_cache, an earlier loader or "
            "SHARDKIT_CACHE, and has one cache: give that, or leave cache out"
        )
    if not now or limit:
        use_cache(name, limit)


@checked
def allow_bases(*prefixes: str | os.PathLike[str]) -> None:
    """Let datasets refer to shards below these paths and URLs, beyond their own folder, bucket or host.

    Holds for what is opened from now on, in this process and those that it starts; a later call replaces the prefixes.
    `docs/reshape.md` says what such datasets are.

    Parameters
    ----------
    *prefixes : path
        As ``"s3://team/images"``; ``"s3://"`` is every bucket.
    """
    texts = [path_text(located(prefix)) for prefix in prefixes]
    if any("," in text for text in texts):
        raise ValueError("prefixes: a prefix cannot have a comma; give a shorter one")
    _core.allow_bases(texts)
    os.environ["SHARDKIT_ALLOW_BASES"] = ",".join(texts)


@checked
def open(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    mode: ReadMode = "auto",
    verify: Verify = "every",
    verify_listed_hashes: bool = True,
    max_decompression: Size = 128 << 20,
    max_open_shards: int = 256,
    skip_lost_samples: bool = False,
    mds_as_stored: bool = False,
    generation: int = 0,
    where: str | None = None,
    indices: Indices = None,
) -> Dataset:
    """Open a dataset for reading, or some of its samples, of which nothing is copied.

    Warns of what is unexpected in a container of others: columns of MDS that are left out, members of tars that are
    passed over.

    Parameters
    ----------
    path : str
        A dataset's directory or a shard; an MDS directory; tars, or a folder of them.
    columns : sequence of str
        Columns to read, in this order; all by default.
    mode : str
        ``"auto"``, ``"buffered"``, ``"mapped"`` (memory maps) or ``"direct"`` (past the page cache).
    verify : str
        Which checksums are compared: ``"every"``, of all that is read; ``"first"``, of each block when this process
        reads it for the first time; ``"never"``.
    verify_listed_hashes : bool
        For MDS: compare the hash that an index lists for a file before its first value is returned.
    max_decompression : int
        Bytes that decompressing a block may add; more is a `MemoryError`.
    max_open_shards : int
        Shards kept open at once; fewer where the process would otherwise have more than half of the files open that
        ``ulimit -n`` allows.
    skip_lost_samples : bool
        Of tars, leave out samples that cannot be taken (a name that is not UTF-8, a member twice or sparse), and of
        damaged or cut ones what follows the damage.
    mds_as_stored : bool
        Of MDS, leave values as they are stored where they are otherwise converted: ``str_int`` and ``str_float`` are
        texts then, and ``pil``, ``list[pil]`` and ``ndarray`` without a dtype bytes.
    generation : int
        Read the dataset as it was in this generation, which `history` lists; 0 is the newest.
    where : str
        Only the samples that satisfy a condition, such as ``"label < 10 and width >= 512"``, as for `filter`;
        docs/select.md describes the language. Columns that it names are read once, now.
    indices : sequence, array, slice or path
        Only these samples: ordinals or keys, in any order; a mask, which is a bool for each sample; or a file with one
        key a line, or ``.npy`` of ordinals. With `where`, those of them that satisfy it. The samples keep their order,
        and are numbered again from 0.

    Raises
    ------
    FileNotFoundError
        When there is no dataset.
    IndexError
        When a column does not exist.
    DataLossError
        When the manifest is damaged.
    """
    if skip_lost_samples and (where is not None or indices is not None):
        raise ValueError("where and indices choose among all samples: leave skip_lost_samples out")
    dataset = Dataset(
        located(path),
        {
            "columns": column_names(columns) or [],
            "mode": mode,
            "verify": verify,
            "verify_listed_hashes": verify_listed_hashes,
            "max_decompression": size(max_decompression, "max_decompression"),
            "max_open_shards": max_open_shards,
            "skip_lost_samples": skip_lost_samples,
            "mds_as_stored": mds_as_stored,
            "generation": generation,
        },
        chosen(located(path), where, indices, generation),
    )
    for note in dataset._library.notes:
        warnings.warn(note, stacklevel=3)
    return dataset
