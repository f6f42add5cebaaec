"""The columns that hold what Parquet files, and other tables of Arrow, have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shardkit import _from_arrow
from shardkit.schema import Column


def columns(files: Sequence[str], names: Sequence[str] | None) -> dict[str, Column]:
    """Return the columns of all files, or those of some names, by the files' schemas and statistics."""
    import pyarrow.parquet as pq

    found: dict[str, _from_arrow.Found] = {}
    for path in files:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            features = _from_arrow.features(schema)
            for name in schema.names if names is None else [name for name in names if name in schema.names]:
                one = found.setdefault(name, _from_arrow.Found())
                one.add(path, schema.field(name), features.get(name, {}), _first(file, name), _has_nulls(file, name))
    for name in names or ():
        if files and name not in found:
            raise ValueError(f"{files[0]}: there is no column {name!r}, nor in any other of {len(files)} files")
    return {name: one.column(name, len(files)) for name, one in found.items()}


def _first(file: Any, name: str) -> Iterator[Any]:
    for batch in file.iter_batches(batch_size=16, columns=[name]):
        yield batch.column(0)


def _has_nulls(file: Any, name: str) -> bool:
    """Tell whether a column has an absent value: by the statistics where they say so, else by its values."""
    kind = file.schema_arrow.field(name).type
    whole = f"{name}.bytes" if _from_arrow.is_file(kind) else name
    counts = {}
    for group in range(file.metadata.num_row_groups):
        for i in range(file.metadata.num_columns):
            chunk = file.metadata.row_group(group).column(i)
            inside = not _from_arrow.is_file(kind) and chunk.path_in_schema.startswith(f"{name}.")
            if chunk.path_in_schema == whole or inside:
                known = chunk.is_stats_set and chunk.statistics.has_null_count
                counts[group, chunk.path_in_schema] = chunk.statistics.null_count if known else None
    if all(count == 0 for count in counts.values()):
        return False
    if all(count is not None and path == whole for (_, path), count in counts.items()):
        return True
    # Of lists and structs, the statistics count what is absent in them, too.
    return any(_from_arrow.has_nulls(batch.column(0)) for batch in file.iter_batches(columns=[name]))
