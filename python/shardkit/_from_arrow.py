"""The columns that hold what Arrow has, and the values for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shardkit import _core, _numbers
from shardkit.schema import Column, column


@dataclass
class Found:
    """What schemas say of a column, one after another."""

    kind: str = ""
    place: str = ""  # that says so
    count: int = 0  # of schemas that have the column
    nulls: bool = False
    metadata: dict[str, str] = field(default_factory=dict)

    def add(self, place: str, one: Any, feature: Mapping[str, Any], first: Iterable[Any], nulls: bool) -> None:
        """Take in what one more schema says, the arrays that begin the column, and whether a value is absent."""
        self.count += 1
        kind = type_of(place, one.name, one.type)
        if kind == "bytes" and (feature.get("_type") == "Image" or _begin_with_images(first)):
            kind = "image"
        if {self.kind, kind} == {"bytes", "image"}:
            self.kind = "bytes"
        elif kind and self.kind not in ("", kind):
            raise ValueError(
                f"{place}: column {one.name} is {kind}, in {self.place} {self.kind}: read these files apart"
            )
        elif kind:
            self.kind, self.place = kind, place
        self.nulls = self.nulls or nulls or not kind
        for name, text in _metadata(one, feature).items():
            self.metadata.setdefault(name, text)

    def column(self, name: str, schemas: int) -> Column:
        """Return the column; `schemas` is how many there are. What nobody has a value of is JSON."""
        absent = self.nulls or self.count < schemas
        return column(name, (self.kind or "json") + ("?" if absent else ""), metadata=self.metadata)


def columns(place: str, schema: Any, names: Sequence[str], first: Any, nulls: Any) -> dict[str, Column]:
    """Return the columns of a schema that have these names.

    `first` is a table of the first values, or None; `nulls` the table of all, or None: then a column is nullable if its
    field is.
    """
    import pyarrow as pa

    noted = features(schema)
    made = {}
    for name in names:
        one = schema.field(name)
        begin = first.column(name).chunks if first is not None and name in first.column_names else ()
        type_of(place, name, one.type)  # has a counterpart
        found = Found()
        try:
            absent = one.nullable if nulls is None else any(has_nulls(chunk) for chunk in nulls.column(name).chunks)
            found.add(place, one, noted.get(name, {}), begin, absent)
        except pa.ArrowException as error:
            raise ValueError(f"{place}: column {name}: {error}") from None
        made[name] = found.column(name, 1)
    return made


def features(schema: Any) -> dict[str, dict[str, Any]]:
    """Return what Hugging Face's datasets noted of the columns."""
    try:
        noted = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: feature for name, feature in noted.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _metadata(one: Any, feature: Mapping[str, Any]) -> dict[str, str]:
    """Return what is said of the values of a field."""
    import pyarrow as pa

    made = {}
    for name, text in (one.metadata or {}).items():
        # Neither Arrow's, Parquet's, nor what only JSON may have.
        if b":" not in name and name != b"items" and (name != b"class_names" or _is_names(text)):
            made[name.decode(errors="replace")] = text.decode(errors="replace")
    while isinstance(feature.get("feature"), dict):  # of a list
        feature = feature["feature"]
    if feature.get("_type") == "ClassLabel" and feature.get("names"):
        made["class_names"] = json.dumps(feature["names"])
    kind = one.type
    while is_list(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz:
        made["timezone"] = kind.tz
    if pa.types.is_duration(kind):
        made["unit"] = kind.unit
    return made


def _is_names(text: bytes) -> bool:
    try:
        names = json.loads(text)
    except ValueError:
        return False
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def type_of(place: str, name: str, kind: Any) -> str:
    """Return the type of a column that holds values of a type of Arrow; "" of the type that has none."""
    import pyarrow as pa

    if getattr(kind, "extension_name", "") == "arrow.json":
        return "json"
    kind = _without_view(kind)
    found = _plain(kind)
    if pa.types.is_null(found):
        return ""
    if is_number(found):
        return _number(found)
    if is_text(found):
        return "utf8"
    if pa.types.is_binary(found) or pa.types.is_large_binary(found) or is_file(found):
        return "bytes"
    array = _array_of(kind)
    if array is not None:
        leaf, shape = array
        return f"{_number(leaf)}[{'' if None in shape else ', '.join(map(str, shape))}]"
    if is_list(found) and is_text(found.value_type):
        return "utf8[]"
    if _is_json(_plain(kind, in_json=True)):
        return "json"
    raise ValueError(
        f"{place}: column {name} is of type {kind}, which has no counterpart: leave it out, by columns=[...] of "
        "shardkit.sources, select of a table or remove_columns of Hugging Face's datasets"
    )


def is_number(kind: Any) -> bool:
    """Tell whether values are numbers, bools or times of the format."""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_timestamp(kind))


def is_text(kind: Any) -> bool:
    """Tell whether values are texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: Any) -> bool:
    """Tell whether values are lists."""
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_file(kind: Any) -> bool:
    """Tell whether values are what Hugging Face makes of a file: an image, a sound."""
    import pyarrow as pa

    return bool(pa.types.is_struct(kind)) and {field.name for field in kind} == {"bytes", "path"}


def is_tensor(kind: Any) -> bool:
    """Tell whether values are arrays with a shape: Arrow's, or those of Hugging Face's datasets."""
    import pyarrow as pa

    return isinstance(kind, pa.BaseExtensionType) and hasattr(kind, "shape")


def is_plain(kind: Any) -> bool:
    """Tell whether values are objects of Python as they are: no dates, decimals or others that change."""
    import pyarrow as pa

    return isinstance(kind, pa.BaseExtensionType) or bool(_plain(kind, in_json=not is_number(kind)) == kind)


def _plain(kind: Any, in_json: bool = False) -> Any:
    """Return the type, of few, that values of a type are cast to: of texts, bytes, numbers, times, lists and structs.

    JSON has no times: there they are texts.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _plain(kind.value_type, in_json)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type, in_json)
    if types.is_string_view(kind) or types.is_time(kind) or types.is_decimal(kind):
        return pa.large_string()
    if types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if types.is_date(kind) or types.is_timestamp(kind):
        if in_json:
            return pa.large_string()
        return kind if types.is_timestamp(kind) else pa.timestamp("s" if types.is_date32(kind) else "ms")
    if types.is_duration(kind):
        return pa.int64()
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type, in_json), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type, in_json))
    if types.is_list(kind):
        return pa.list_(_plain(kind.value_type, in_json))
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type, in_json), _plain(kind.item_type, in_json))
    if types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type, in_json)) for field in kind])
    return kind


def _array_of(kind: Any) -> tuple[Any, list[int | None]] | None:
    """Return the type of the elements and the shape of values that are arrays by their type; None: of any size."""
    import pyarrow as pa

    kind = _without_view(kind)
    leaf, shape = _plain(kind), []
    while is_list(leaf):
        shape.append(leaf.list_size if pa.types.is_fixed_size_list(leaf) else None)
        leaf = leaf.value_type
    # Tensors are lists of their elements, or, of Hugging Face, lists of lists, and their type says the shape.
    if shape and is_tensor(kind):
        shape = list(kind.shape)
        shape = [shape[i] for i in getattr(kind, "permutation", None) or range(len(shape))]
    return (leaf, shape) if shape and is_number(leaf) and None not in shape[1:] else None


def _without_view(kind: Any) -> Any:
    """Return the type of lists for views of lists; views within others have no counterpart."""
    import pyarrow as pa

    return pa.large_list(kind.value_type) if _is_view(kind) else kind


def _is_view(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _number(kind: Any) -> str:
    import pyarrow as pa

    name = _numbers.name_of(pa.array([], kind).to_numpy(zero_copy_only=False).dtype)  # to_pandas_dtype needs pandas
    return name or "bool"  # of nothing, NumPy's array of bools is one of objects


def _is_json(kind: Any) -> bool:
    import pyarrow as pa

    if is_list(kind):
        return _is_json(kind.value_type)
    if pa.types.is_map(kind):
        return _is_json(kind.key_type) and _is_json(kind.item_type)
    if pa.types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    return is_text(kind) or is_number(kind) or bool(pa.types.is_null(kind))


def _begin_with_images(arrays: Iterable[Any]) -> bool:
    """Tell whether the first values of a column of bytes are images."""
    for array in arrays:
        values = [value for value in _contents(array.slice(0, 16)).to_pylist() if value is not None]
        if values:
            return all(_core.image_format(value) != "unknown" for value in values)
    return False


def has_nulls(array: Any) -> bool:
    """Tell whether an array lacks a value; of a file, both its bytes and its path."""
    import pyarrow.compute as pc

    array = _cast(array)
    if not is_file(array.type):
        return bool(array.null_count)
    missing = (pc.is_null(pc.struct_field(array, name)) for name in ("bytes", "path"))
    return bool(pc.any(pc.and_(*missing)).as_py())


def _contents(array: Any) -> Any:
    """Return the values of an array, and of files their bytes."""
    import pyarrow.compute as pc

    array = _cast(array)
    return pc.struct_field(array, "bytes") if is_file(array.type) else array


def _cast(array: Any, in_json: bool = False) -> Any:
    """Return an array as its type is by `_plain`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):  # whose cast lacks those of views of texts, as of polars
        array = _cast(array.dictionary, in_json).take(array.indices)
    if _is_view(array.type):  # whose cast is wrong of a part of an array, in pyarrow 22
        sizes = pc.list_value_length(array).fill_null(0).to_numpy()
        begins = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
        array = pa.LargeListArray.from_arrays(begins, array.flatten(), mask=array.is_null())
    kind = _plain(array.type, in_json)
    return array if array.type == kind else array.cast(kind)


def rows(batch: Any, place: str, first_row: int = 0, paths: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a record batch of Arrow; see `values`."""
    names = batch.schema.names
    columns = (values(place, first_row, name, batch.column(i), paths) for i, name in enumerate(names))
    for each in zip(*columns, strict=True):
        yield dict(zip(names, each, strict=True))


def values(place: str, row: int, name: str, array: Any, paths: bool = False) -> Sequence[Any]:
    """Return the values of a column of a batch that begins at `row`: of numbers all of which are there, an array.

    `place` is where errors say that they come from. With `paths`, files of which only the path is there are `Stored`.
    """
    import pyarrow as pa

    try:
        return _values(place, row, name, array, paths)
    except pa.ArrowException as error:
        raise ValueError(f"{place}: rows {row} to {row + len(array) - 1}, column {name}: {error}") from None


def _values(place: str, row: int, name: str, array: Any, paths: bool) -> Sequence[Any]:
    import pyarrow as pa

    type_of(place, name, array.type)  # has a counterpart
    shaped = _array_of(array.type)
    if shaped is not None:
        return _arrays(place, row, name, array, shaped[1])
    found = _cast(array)
    plain = found.type
    if is_number(plain):
        return _scalars(found)
    if is_file(plain):
        return [file_of(place, row + i, name, value, paths) for i, value in enumerate(found.to_pylist())]
    if is_list(plain) and is_text(plain.value_type):
        _refuse_nulls(place, row, name, found)
    elif pa.types.is_nested(plain):
        found = _cast(array, in_json=True)
    try:
        return found.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    except KeyError as error:
        last = row + len(array) - 1
        raise ValueError(f"{place}: rows {row} to {last}, column {name}: a map has a key twice: {error}") from None


def _scalars(array: Any) -> Sequence[Any]:
    """Return numbers as NumPy's."""
    import pyarrow as pa

    stored = array.fill_null(False if pa.types.is_boolean(array.type) else 0) if array.null_count else array
    made = stored.to_numpy(zero_copy_only=False)
    if not array.null_count:
        return made  # type: ignore[no-any-return]
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return [value if there else None for value, there in zip(made, present, strict=True)]


def _refuse_nulls(place: str, row: int, name: str, array: Any) -> Any:
    """Return all elements of lists, of which none is absent."""
    import pyarrow.compute as pc

    parents = np.arange(len(array))
    while is_list(array.type):
        parents = np.repeat(parents, pc.list_value_length(array).fill_null(0).to_numpy())
        array = array.flatten()
        if array.null_count:
            first = parents[array.is_null().index(True).as_py()]
            raise ValueError(
                f"{place}: row {row + first}, column {name}: a null within the list: fill it, or leave the column out"
            )
    return array


def _arrays(place: str, row: int, name: str, array: Any, shape: Sequence[int | None]) -> Sequence[Any]:
    import pyarrow.compute as pc

    lists = _cast(array)
    flat = _refuse_nulls(place, row, name, lists).to_numpy(zero_copy_only=False)
    tensor = array.type if hasattr(array.type, "shape") else None
    order = None if tensor is None else getattr(tensor, "permutation", None)
    if tensor is not None:
        shape = tensor.shape
    if None not in shape and not lists.null_count:
        made = flat.reshape(len(array), *shape)
        return made if order is None else made.transpose(0, *(i + 1 for i in order))  # type: ignore[no-any-return]
    inner = int(np.prod([size for size in shape if size is not None], dtype=np.int64))
    counts = pc.list_value_length(lists).to_pylist()
    result: list[Any] = []
    begin = 0
    for count in counts:
        size = 0 if count is None else inner * (count if shape[0] is None else 1)
        one = None if count is None else flat[begin : begin + size].reshape([count if n is None else n for n in shape])
        result.append(one if one is None or order is None else one.transpose(order))
        begin += size
    return result


class Stored(NamedTuple):
    """A file whose bytes are at a path."""

    path: str


def file_of(place: str, row: int, name: str, value: Any, paths: bool) -> Any:
    """Return the bytes of a file of Hugging Face, or where they are."""
    if value is None or (value["bytes"] is None and value["path"] is None):
        return None
    if value["bytes"] is None and paths:
        return Stored(value["path"])
    if value["bytes"] is None:
        raise ValueError(
            f"{place}: row {row}, column {name}: only the path of the file, {value['path']!r}, is there: "
            "sk.pack(datasets.load_dataset(...), ...) reads it, too"
        )
    return value["bytes"]
