"""The columns that hold what Parquet files, and other tables of Arrow, have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
                one.metadata = one.metadata or _meaning(feature)
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


def columns_of_table(place: str, schema: Any, first: Any, whole: Any) -> dict[str, Column]:
    """Return the columns of a table, by its schema, its first rows, and all; those of a stream, None, are nullable."""
    features, made = _features(schema), {}
    for name in schema.names:
        kind = type_of(place, name, schema.field(name).type, "remove_columns leaves it out, and cast_column changes it")
        if not kind:
            raise ValueError(f"{place}: column {name} has no value: remove_columns leaves it out")
        feature = features.get(name, {})
        begins = first is not None and kind == "bytes" and _are_images(first[name])
        if kind == "bytes" and (feature.get("_type") == "Image" or begins):
            kind = "image"
        nulls = whole is None or _has_absent(whole.column(name))
        made[name] = column(name, kind + ("?" if nulls else ""), metadata=_meaning(feature))
    return made


def _meaning(feature: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a column that Hugging Face's datasets has a feature for."""
    while isinstance(feature.get("feature"), dict):  # of a list
        feature = feature["feature"]
    is_class = feature.get("_type") == "ClassLabel" and feature.get("names")
    return {"class_names": json.dumps(feature["names"])} if is_class else {}


def type_of(path: str, name: str, kind: Any, remedy: str = "leave it out by columns=[...]") -> str:
    """Return the type of a column that holds values of a type of Arrow; "" of the type that has none."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return ""
    if is_tensor(kind):
        sizes = "" if None in kind.shape else ", ".join(map(str, kind.shape))
        return f"{_number(_innermost(kind.storage_type))}[{sizes}]"
    if is_json(kind):
        return "json"
    if pa.types.is_dictionary(kind):
        return type_of(path, name, kind.value_type, remedy)
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
    if _is_nested(kind):
        return "json"
    raise ValueError(f"{path}: column {name} is of type {kind}, which has no counterpart: {remedy}")


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


def is_tensor(kind: Any) -> bool:
    """Tell whether values are arrays with a shape: Arrow's, or those of Hugging Face's datasets."""
    import pyarrow as pa

    return isinstance(kind, pa.BaseExtensionType) and hasattr(kind, "shape")


def is_json(kind: Any) -> bool:
    """Tell whether values are texts that are JSON."""
    return getattr(kind, "extension_name", "") == "arrow.json"


def _innermost(kind: Any) -> Any:
    return _innermost(kind.value_type) if is_list(kind) else kind


def _number(kind: Any) -> str:
    import pyarrow as pa

    name = _numbers.name_of(pa.array([], kind).to_numpy(zero_copy_only=False).dtype)  # to_pandas_dtype needs pandas
    return name or "bool"  # of nothing, NumPy's array of bools is one of objects


def _is_nested(kind: Any) -> bool:
    import pyarrow as pa

    if is_list(kind):
        return _is_nested(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_nested(field.type) for field in kind)
    return is_number(kind) or is_text(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_null(kind))


def _features(schema: Any) -> dict[str, dict[str, Any]]:
    """Return what Hugging Face's datasets noted of the columns."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _begins_with_images(file: Any, name: str) -> bool:
    told = (_are_images(batch.column(0)) for batch in file.iter_batches(batch_size=16, columns=[name]))
    return next((each for each in told if each is not None), False)


def _are_images(array: Any) -> bool | None:
    """Tell whether bytes are files of images; None where all are absent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    array = pc.struct_field(array, "bytes") if is_file(array.type) else array
    values = [value for value in array.to_pylist() if value is not None]
    return all(_core.image_format(value) != "unknown" for value in values) if values else None


def _has_absent(array: Any) -> bool:
    """Tell whether a value is absent; of a file, whether neither its bytes nor its path is there."""
    import pyarrow.compute as pc

    if not is_file(array.type):
        return bool(array.null_count)
    missing = (pc.is_null(pc.struct_field(array, name)) for name in ("bytes", "path"))
    return bool(pc.any(pc.and_(*missing)).as_py())


def _has_nulls(file: Any, name: str) -> bool:
    """Tell whether a column has an absent value: by the statistics where they say so, else by its values."""
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
    return any(_has_absent(batch.column(0)) for batch in file.iter_batches(columns=[name]))
