"""Writing datasets sample by sample."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from shardkit import _core, _values
from shardkit._options import Unpack, WriterOptions, checked, located, parsed, path_text
from shardkit.images import Encode, as_column, encoded
from shardkit.reports import Published
from shardkit.schema import Column, Schema


def _check(columns: list[Column], options: Mapping[str, Any]) -> None:
    """Refuse options that would do nothing."""
    names = {column.name: column for column in columns}
    for option in ("zstd_levels", "dictionaries", "storage", "codecs"):
        for name in options.get(option) or {}:
            if name not in names:
                raise ValueError(f"{option}: there is no column {name!r}; there are {', '.join(names)}")
    for name in options.get("zstd_levels") or {}:
        if (options.get("codecs") or {}).get(name, names[name].codec) != "zstd":
            raise ValueError(f"zstd_levels: column {name!r} is not compressed; its codec would have to be zstd")
    if options.get("existing_keys") is not None and not options.get("append"):
        raise ValueError("existing_keys is for append=True; a new dataset has none")


class Writer:
    """Writes samples to a new dataset, which appears when the ``with`` statement ends without an exception.

    Parameters
    ----------
    path : str
        The directory of the dataset, or its URL in ``s3://`` or ``gs://``; must not hold one, but for ``append``.
    columns : mapping
        From name to type, as `column` takes it (``"jpeg"``, ``"i64"``, ``"f32[512]"``, ``"rle?"``), to a `Column`, or
        to an `Encode`, which makes files of pixels.
    key : str
        Name of the column of the keys, which is added.
    **options
        The options of `WriterOptions`, among them ``shard_size`` (bytes, or text such as ``"256MiB"``), ``threads``,
        ``metadata``, ``append``. With ``append`` the samples are added to the dataset, in one step when the ``with``
        statement ends; ``existing_keys`` says what becomes of those whose key is there: all are refused
        (FileExistsError, ``"refuse"``), or they are left out (``"skip"``) or added (``"add"``).

    Examples
    --------
    >>> import tempfile, shardkit as sk
    >>> path = tempfile.mkdtemp() + "/dataset"
    >>> with sk.Writer(path, columns={"label": "i64", "text": "utf8"}) as writer:
    ...     writer.write("a", label=3, text="three")
    >>> sk.open(path)["a"]["text"]
    'three'
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Mapping[str, str | type | Column | Encode],
        *,
        key: str = "key",
        **options: Unpack[WriterOptions],
    ) -> None:
        made = [Column(key, "utf8", is_key=True, codec="zstd")]
        made += [as_column(name, kind) for name, kind in columns.items()]
        self._kinds = dict(columns)
        _check(made, options)
        self._key = key
        self._writer: _core.Writer | None = _core.Writer(path_text(located(path)), made, parsed(options))
        self._columns = self._writer.columns
        self._names = {column.name for column in self._columns}
        self.result: Published | None = None

    @property
    def schema(self) -> Schema:
        """The columns, the key among them."""
        return Schema(self._columns)

    def write(self, key: str | Mapping[str, Any], /, **values: Any) -> None:
        """Write one sample.

        Parameters
        ----------
        key : str or mapping
            The sample's key, or a mapping with the key and all values.
        **values
            The values by column; a column without one is absent.

        Raises
        ------
        ValueError
            For a value that is not of its column's type, dtype or shape, and for a column that does not exist. The
            sample is then not written, and others can be.
        """
        if isinstance(key, str):
            self.append(key, values)
        else:
            values = {**key, **values}
            self.append(values.pop(self._key), values)

    def append(self, key: str, values: Mapping[str, Any], next_position: int | None = None) -> None:
        """Write one sample, as `write` does.

        Parameters
        ----------
        key : str
            The sample's key.
        values : mapping
            The values by column.
        next_position : int
            Where a resumed run goes on after this sample (`resume_position`); by default one more than before.
        """
        writer = self._open
        if unknown := values.keys() - self._names:
            raise ValueError(f"sample {key!r}: there is no column {sorted(unknown)[0]!r}")
        row: list[bytes | None] = []
        for each in self._columns:
            try:
                value = key if each.is_key else values.get(each.name)
                row.append(_values.encode(each, encoded(self._kinds.get(each.name, each), value)))
            except (ValueError, TypeError, OverflowError) as error:
                raise ValueError(f"sample {key!r}, column {each.name}: {error}") from None
        writer.append(row, next_position)

    @property
    def resume_position(self) -> int:
        """Where to go on: how much of the input is safely stored; 0 in a new run."""
        return self._open.resume_position

    @property
    def _open(self) -> _core.Writer:
        if self._writer is None:
            raise ValueError("the writer is closed")
        return self._writer

    def skip(self, position: int, key: str, reason: str) -> None:
        """Record a sample of the input that is left out."""
        self._open.record_skip(position, key, reason)

    def suspend(self) -> None:
        """Stop, and keep what is finished for a later run with ``resume=True``."""
        if self._writer is not None:
            self._writer.suspend()
            self._writer = None

    def close(self) -> None:
        """Publish the dataset."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                self.result = Published(**writer.finish())
            except BaseException:
                writer.abort()  # the traceback may keep the writer, and it the lock
                raise

    def abort(self) -> None:
        """Remove all that was written."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


__all__ = ["Writer", "WriterOptions"]
