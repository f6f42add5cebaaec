"""The columns of a dataset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from shardkit._core import Column
from shardkit._options import checked

__all__ = ["Column", "Schema", "column"]

_ARRAY = re.compile(r"(\w+)\[([\d, ]*)\]")
# As `shardctl pack` stores them: mostly compressed already, or best read where they lie.
_STORED_AS_IS = {"bytes", "jpeg", "png", "image"}
# What Python, NumPy and torch call types of the format.
_CALLED = {f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
_CALLED |= {"int": "i64", "float": "f64", "long": "i64", "double": "f64", "half": "f16", "bfloat16": "bf16"}
_CALLED |= {"str": "utf8", "string": "utf8", "text": "utf8", "dict": "json", "list": "json", "jpg": "jpeg"}
del _CALLED["float8"]


class Schema(Sequence[Column]):
    """The columns of a dataset, in order; also found by name."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = list(columns)
        self._by_name = {column.name: column for column in self._columns}

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [column.name for column in self._columns]

    @property
    def key(self) -> str | None:
        """The name of the column of the keys, if there is one."""
        return next((column.name for column in self._columns if column.is_key), None)

    def __getitem__(self, index: int | str) -> Column:  # type: ignore[override]
        """Return the column at a position or of a name."""
        return self._by_name[index] if isinstance(index, str) else self._columns[index]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns)

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{column.name}: {describe(column)}' for column in self._columns)})"


def is_text_list(column: Column) -> bool:
    """Tell whether each value is a list of texts: json, as its metadata says (format-spec/registry.md)."""
    return column.type == "json" and column.metadata.get("items") == "utf8"


def describe(column: Column) -> str:
    """Return the type as `column` takes it: "jpeg", "i64?", "f32[3, 4]", "utf8[]"."""
    text = "utf8[]" if is_text_list(column) else column.type
    if column.type == "ndarray":
        text = f"{column.dtype}[{', '.join(map(str, column.shape)) if column.shape is not None else ''}]"
    return text + ("?" if column.nullable else "")


@checked
def column(
    name: str, kind: str | type, *, codec: str | None = None, metadata: Mapping[str, str] | None = None
) -> Column:
    """Make a column from a short description of its type.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : str
        A type of the format (``"jpeg"``, ``"utf8"``, ``"i64"``, ``"rle"``, ``"bytes"`` …); ``"f32[512]"`` or
        ``"u8[3, 4]"`` for arrays of one shape, ``"f32[]"`` for arrays that have their own; ``"utf8[]"`` for lists of
        texts, such as captions, stored as json. ``"?"`` at the end: samples may lack the value.
    codec : str
        ``"none"`` or ``"zstd"``; by default ``"none"`` for bytes, images and arrays, and ``"zstd"`` for all others, as
        `pack` stores files.
    metadata : mapping of str to str
        What the values mean: ``media_type``, ``class_names``, ``unit``, ``description``.

    Raises
    ------
    ValueError
        For a type or codec that does not exist.
    """
    if not isinstance(kind, str):
        called = getattr(kind, "__name__", str(kind)).removeprefix("torch.")
        raise TypeError(f'column {name!r}: give its type as a text, as "{_CALLED.get(called, "i64")}", not {kind!r}')
    if (word := re.match(r"\w*", kind)) and word[0] in _CALLED:
        raise ValueError(f'column {name!r}: there is no type "{kind}": write "{_CALLED[word[0]]}{kind[word.end() :]}"')
    nullable = kind.endswith("?")
    kind = kind.rstrip("?")
    metadata = dict(metadata or {})
    if kind == "utf8[]":
        kind, metadata = "json", {**metadata, "items": "utf8"}
    array = _ARRAY.fullmatch(kind)
    if array is None:
        codec = codec or ("none" if kind in _STORED_AS_IS else "zstd")
        return Column(name, kind, nullable=nullable, codec=codec, metadata=metadata)
    sizes = [int(size) for size in array[2].split(",") if size.strip()]
    return Column(
        name,
        "ndarray",
        nullable=nullable,
        dtype=array[1],
        shape=sizes if array[2].strip() else None,
        codec=codec or "none",
        metadata=metadata,
    )
