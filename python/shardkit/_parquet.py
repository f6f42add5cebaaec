"""The columns that hold what Parquet files have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardkit import _core, _numbers
from shardkit.schema import Column, column


@dataclass
class _Found:
    """What the files say of a column."""

    kind: str = ""
    file: str = ""  # that says so
    files: int = 0  # that have the column
    nulls: bool = False
    metadata: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, name: str, kind: str) -> None:
        """Take in what one more file says."""
        self.files += 1
        if {self.kind, kind} == {"bytes", "image"}:
            self.kind = "bytes"
        elif kind and self.kind not in ("", kind):
            raise ValueError(f"{path}: column {name} is {kind}, in {self.file} {self.kind}: read these files apart")
        elif kind:
            self.kind, self.file = kind, path


def columns(files: Sequence[str], names: Sequence[str] | None) -> dict[str, Column]:
    """Return the columns of all files, or those of some names, by the files' schemas and statistics."""
    import pyarrow.parquet as pq

    found: dict[str, _Found] = {}
    for path in files:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            features = _features(schema)
            for name in schema.names if names is None else [name for name in names if name in schema.names]:
                feature = features.get(name, {})
                kind = type_of(path, name, schema.field(name).type)
                if kind == "bytes" and (feature.get("_type") == "Image" or _begins_with_images(file, name)):
                    kind = "image"
                one = found.setdefault(name, _Found())
                one.add(path, name, kind)
                one.nulls = one.nulls or not kind or _has_nulls(file, name)
                if feature.get("_type") == "ClassLabel" and feature.get("names"):
                    one.metadata.setdefault("class_names", json.dumps(feature["names"]))
    for name in names or ():
        if files and name not in found:
            raise ValueError(f"{files[0]}: there is no column {name!r}, nor in any other of {len(files)} files")
    for name, one in found.items():
        if not one.kind:
            raise ValueError(f"{files[0]}: column {name} has no value in any file: leave it out by columns=[...]")
    return {
        name: column(name, one.kind + ("?" if one.nulls or one.files < len(files) else ""), metadata=one.metadata)
        for name, one in found.items()
    }


def type_of(path: str, name: str, kind: Any) -> str:
    """Return the type of a column that holds values of a type of Arrow; "" of the type that has none."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return ""
    if pa.types.is_dictionary(kind):
        return type_of(path, name, kind.value_type)
    if is_number(kind) or pa.types.is_boolean(kind):
        return _number(kind)
    if is_list(kind):
        if is_number(kind.value_type) or pa.types.is_boolean(kind.value_type):
            return f"{_number(kind.value_type)}[{kind.list_size if pa.types.is_fixed_size_list(kind) else ''}]"
        if is_text(kind.value_type):
            return "utf8[]"
    if pa.types.is_timestamp(kind):
        return f"timestamp_{kind.unit}"
    if is_text(kind):
        return "utf8"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or is_file(kind):
        return "bytes"
    if _is_json(kind):
        return "json"
    raise ValueError(
        f"{path}: column {name} is of type {kind}, which has no counterpart: leave it out by columns=[...]"
    )


def is_number(kind: Any) -> bool:
    """Tell whether values are integers or have a fraction."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


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


def _number(kind: Any) -> str:
    import pyarrow as pa

    name = _numbers.name_of(pa.array([], kind).to_numpy(zero_copy_only=False).dtype)  # to_pandas_dtype needs pandas
    return name or "bool"  # of nothing, NumPy's array of bools is one of objects


def _is_json(kind: Any) -> bool:
    import pyarrow as pa

    if is_list(kind):
        return _is_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    return is_number(kind) or is_text(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_null(kind))


def _features(schema: Any) -> dict[str, dict[str, Any]]:
    """Return what Hugging Face's datasets noted of the columns."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _begins_with_images(file: Any, name: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    values: list[bytes] = []
    for batch in file.iter_batches(batch_size=16, columns=[name]):
        array = batch.column(0)
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        array = pc.struct_field(array, "bytes") if is_file(array.type) else array
        values = [value for value in array.to_pylist() if value is not None]
        if values:
            break
    return bool(values) and all(_core.image_format(value) != "unknown" for value in values)


def _has_nulls(file: Any, name: str) -> bool:
    """Tell whether a column has an absent value: by the statistics where they say so, else by its values."""
    import pyarrow.compute as pc

    kind = file.schema_arrow.field(name).type
    whole = f"{name}.bytes" if is_file(kind) else name
    counts = {}
    for group in range(file.metadata.num_row_groups):
        for i in range(file.metadata.num_columns):
            chunk = file.metadata.row_group(group).column(i)
            if chunk.path_in_schema == whole or (not is_file(kind) and chunk.path_in_schema.startswith(f"{name}.")):
                known = chunk.is_stats_set and chunk.statistics.has_null_count
                counts[group, chunk.path_in_schema] = chunk.statistics.null_count if known else None
    if all(count == 0 for count in counts.values()):
        return False
    if all(count is not None and path == whole for (_, path), count in counts.items()):
        return True
    # Of lists and structs, the statistics count what is absent in them, too.
    for batch in file.iter_batches(columns=[name]):
        array = batch.column(0)
        if (pc.struct_field(array, "bytes") if is_file(kind) else array).null_count:
            return True
    return False
