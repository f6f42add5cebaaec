"""Tables and streams of Arrow: packed by their types, and made of datasets, numbers where the blocks have them."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EVERY_TYPE, JPEG, PNG, value

import shardkit as sk
from shardkit import sources
from shardkit.schema import describe

pa = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is not installed")

UTC = timezone.utc
TEXTS = ["", "ü" * 30, "a\0b"]
FLOATS = [0.5, -1.0, 65504.0]
WHEN = [datetime(1970, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 456000), datetime(1960, 1, 1)]
WHEN_UTC = [each.replace(tzinfo=UTC) for each in WHEN]
DAYS = [date(1970, 1, 1), date(2024, 2, 29), date(1960, 1, 1)]
MIDNIGHTS = [datetime(each.year, each.month, each.day) for each in DAYS]
TIMES = [time(0), time(1, 2, 3, 456000), time(23, 59, 59)]
SPANS = [timedelta(0), timedelta(milliseconds=5), timedelta(days=-1)]
MONEY = [Decimal("0.00"), Decimal("-12.50"), Decimal("999.99")]
IMAGES = pa.struct({"bytes": pa.binary(), "path": pa.string()})
VIEWS = pa.dictionary(pa.uint32(), pa.string_view())
VECTORS = [[1, 2], [], [3, 4, 5]]
PAIRS = [[1, 2], [3, 4], [5, 6]]
GRIDS = [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [0, 0, 0]], [[7, 8, 9], [1, 1, 1]]]
BOXES = [[[1, 2]], [], [[3, 4], [5, 6]]]


def numbers(kind: Any) -> list[int]:
    return [0, 1, 127] if not str(kind).startswith("int") else [0, 1, -128]


# Of each type of Arrow three values, the type of the column; and what comes back where that is not the same: its type,
# and its values.
SAME = (None, None)
TYPES: dict[str, tuple[Any, list[Any], str, Any, Any]] = {
    **{
        f"{name}{bits}": (kind, numbers(kind), f"{name[0]}{bits}", *SAME)
        for name in ("int", "uint")
        for bits in (8, 16, 32, 64)
        for kind in (getattr(pa, f"{name}{bits}")(),)
    },
    "float16": (pa.float16(), FLOATS, "f16", *SAME),
    "float32": (pa.float32(), FLOATS, "f32", *SAME),
    "float64": (pa.float64(), [0.1, -1e300, float("inf")], "f64", *SAME),
    "bool": (pa.bool_(), [True, False, True], "bool", *SAME),
    "string": (pa.string(), TEXTS, "utf8", *SAME),
    "large_string": (pa.large_string(), TEXTS, "utf8", pa.string(), None),
    "string_view": (pa.string_view(), TEXTS, "utf8", pa.string(), None),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"], "utf8", pa.string(), None),
    "dictionary of views": (VIEWS, ["a" * 20, "b", "b"], "utf8", pa.string(), None),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.int16()), [1, 2, 1], "i16", pa.int16(), None),
    "run ends": (pa.run_end_encoded(pa.int32(), pa.int64()), [1, 1, 2], "i64", pa.int64(), None),
    "binary": (pa.binary(), [b"", b"\0", JPEG], "bytes", pa.large_binary(), None),
    "large_binary": (pa.large_binary(), [PNG, PNG, JPEG], "image", *SAME),
    "binary_view": (pa.binary_view(), [b"a", b"", b"b" * 99], "bytes", pa.large_binary(), None),
    "fixed_size_binary": (pa.binary(3), [b"abc", b"\0\0\0", b"xyz"], "bytes", pa.large_binary(), None),
    "uuid": (pa.uuid(), [bytes([i]) * 16 for i in range(3)], "bytes", pa.large_binary(), None),
    **{f"timestamp {unit}": (pa.timestamp(unit), [WHEN[0], MIDNIGHTS[1], WHEN[2]], f"timestamp_{unit}", *SAME)
       for unit in ("s", "ms", "us", "ns")},
    "timestamp UTC": (pa.timestamp("ms", "UTC"), WHEN_UTC, "timestamp_ms", *SAME),
    "timestamp of a zone": (pa.timestamp("us", "Europe/Berlin"), WHEN_UTC, "timestamp_us", *SAME),
    "date32": (pa.date32(), DAYS, "timestamp_s", pa.timestamp("s"), MIDNIGHTS),
    "date64": (pa.date64(), DAYS, "timestamp_ms", pa.timestamp("ms"), MIDNIGHTS),
    "time32": (pa.time32("ms"), TIMES, "utf8", pa.string(), ["00:00:00.000", "01:02:03.456", "23:59:59.000"]),
    "time64": (pa.time64("us"), TIMES, "utf8", pa.string(), ["00:00:00.000000", "01:02:03.456000", "23:59:59.000000"]),
    "duration": (pa.duration("ms"), SPANS, "i64", pa.int64(), [0, 5, -86_400_000]),
    "decimal32": (pa.decimal32(5, 2), MONEY, "utf8", pa.string(), ["0.00", "-12.50", "999.99"]),
    "decimal128": (pa.decimal128(5, 2), MONEY, "utf8", pa.string(), ["0.00", "-12.50", "999.99"]),
    "decimal256": (pa.decimal256(50, 2), MONEY, "utf8", pa.string(), ["0.00", "-12.50", "999.99"]),
    "json": (pa.json_(), ['{"a":1}', "[]", " null "], "json", pa.string(), None),
    "list of numbers": (pa.list_(pa.int16()), VECTORS, "i16[]", *SAME),
    "large_list": (pa.large_list(pa.float64()), VECTORS, "f64[]", pa.list_(pa.float64()), None),
    "list_view": (pa.list_view(pa.uint8()), VECTORS, "u8[]", pa.list_(pa.uint8()), None),
    "list of bools": (pa.list_(pa.bool_()), [[True], [], [False, True]], "bool[]", *SAME),
    "list of dates": (pa.list_(pa.date32()), [DAYS, [], DAYS[:1]], "timestamp_s[]", pa.list_(pa.timestamp("s")),
                      [MIDNIGHTS, [], MIDNIGHTS[:1]]),
    "fixed_size_list": (pa.list_(pa.float32(), 2), PAIRS, "f32[2]", *SAME),
    "fixed_size_list of bools": (pa.list_(pa.bool_(), 3), [[True, False, True]] * 3, "bool[3]", *SAME),
    "fixed_size_list twice": (pa.list_(pa.list_(pa.int8(), 3), 2), GRIDS, "i8[2, 3]", *SAME),
    "fixed_size_list of nothing": (pa.list_(pa.int32(), 0), [[], [], []], "i32[0]", *SAME),
    "list of fixed_size_list": (pa.list_(pa.list_(pa.float32(), 2)), BOXES, "f32[]", pa.list_(pa.list_(pa.float32())),
                                None),
    "list of lists": (pa.list_(pa.list_(pa.int64())), [[[1], [2, 3]], [], [[]]], "json", pa.string(),
                      ["[[1], [2, 3]]", "[]", "[[]]"]),
    "list of texts": (pa.list_(pa.string()), [["a"], [], ["ü", ""]], "utf8[]", *SAME),
    "list of string_view": (pa.list_(pa.string_view()), [["a"], [], ["ü", ""]], "utf8[]", pa.list_(pa.string()), None),
    "list of decimals": (pa.list_(pa.decimal128(5, 2)), [MONEY, [], MONEY[1:2]], "utf8[]", pa.list_(pa.string()),
                         [["0.00", "-12.50", "999.99"], [], ["-12.50"]]),
    "struct": (pa.struct({"a": pa.int8(), "when": pa.date32()}), [{"a": i, "when": DAYS[i]} for i in range(3)], "json",
               pa.string(), [f'{{"a": {i}, "when": "{DAYS[i]}"}}' for i in range(3)]),
    "map": (pa.map_(pa.string(), pa.decimal128(5, 2)), [[("a", MONEY[1])], [], [("b", None)]], "json", pa.string(),
            ['{"a": "-12.50"}', "{}", '{"b": null}']),
    "file": (IMAGES, [{"bytes": each, "path": "x"} for each in (PNG, JPEG, PNG)], "image", pa.large_binary(),
             [PNG, JPEG, PNG]),
}  # fmt: skip


def array_of(kind: Any, values: list[Any]) -> Any:
    if kind == VIEWS:
        numbers = pa.array(values).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            numbers.indices.cast(pa.uint32()), numbers.dictionary.cast(pa.string_view())
        )
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values, kind.value_type), kind
        )
    return pa.array(values, kind)


def unsized(kind: Any) -> Any:
    """The type of a nullable column: lists of no fixed size."""
    return pa.list_(unsized(kind.value_type)) if pa.types.is_fixed_size_list(kind) else kind


def packed(source: Any, output: Path, **options: Any) -> sk.Dataset:
    sk.pack(source, output, **options)
    return sk.open(output)


@pytest.mark.parametrize("name", TYPES)
def test_each_type_there_and_back(name: str, tmp_path: Path) -> None:
    kind, values, column, back, expected = TYPES[name]
    table = pa.table({"all": array_of(kind, values), "some": array_of(kind, [*values[:2], None])})
    dataset = packed(table, tmp_path / "out")
    assert [describe(dataset.schema[each]) for each in ("all", "some")] == [column, f"{column}?"]
    again = dataset.to_arrow(["all", "some"])
    again.validate(full=True)
    assert again.schema.types == [back or kind, unsized(back or kind)]
    plain = pa.array(values, back or kind).to_pylist() if expected is None else expected
    assert again["all"].to_pylist() == plain
    assert again["some"].to_pylist() == [*plain[:2], None]
    # A stream has the same, and fields that may be absent.
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    streamed = packed(reader, tmp_path / "streamed")
    assert [describe(streamed.schema[each]) for each in ("all", "some")] == [f"{column}?"] * 2
    found = streamed.to_arrow(["all", "some"])
    assert found.schema.types == [unsized(back or kind)] * 2
    assert found.to_pylist() == again.to_pylist()
    # Parquet has most types.
    if name == "fixed_size_list of nothing":
        return
    try:
        pq.write_table(table, tmp_path / "a.parquet")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        assert name in ("run ends", "list_view", "dictionary of views") or pa.types.is_fixed_size_list(kind)
        return
    sizes = pa.types.is_fixed_size_list(kind)  # of which pyarrow 22 writes no absent ones, or does not read them
    rows = sources.parquet(tmp_path / "a.parquet", ["all"] if sizes else None)
    # Parquet has no seconds, and one type of dates.
    column = {"timestamp s": "timestamp_ms", "date64": "timestamp_s"}.get(name, column)
    assert [describe(each) for each in rows.columns.values()] == [column, f"{column}?"][: len(rows.columns)]
    stored = packed(rows, tmp_path / "parquet").to_arrow(list(rows.columns))
    expected_table = again.select(list(rows.columns))
    assert stored.cast(expected_table.schema).equals(expected_table)
    pq.write_table(again, tmp_path / "again.parquet")
    assert pq.read_table(tmp_path / "again.parquet").to_pylist() == again.to_pylist()


def test_keys(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", None, "c"], "n": [1, 2, 3]})
    assert list(packed(table, tmp_path / "out", key="id").keys()) == ["a", "000000000001", "c"]
    numbers = pa.table({"key": pa.array([7, 8], pa.uint8()), "n": [1, 2]})
    assert list(packed(numbers, tmp_path / "numbers").keys()) == ["7", "8"]


def test_tensors(tmp_path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0])
    stored = pa.array([list(range(6)), None, list(range(6, 12))], pa.list_(pa.int32(), 6))
    dataset = packed(pa.table({"t": pa.ExtensionArray.from_storage(kind, stored)}), tmp_path / "out")
    assert describe(dataset.schema["t"]) == "i32[3, 2]?"
    np.testing.assert_array_equal(dataset[0]["t"], np.arange(6).reshape(2, 3).T)
    assert dataset[1]["t"] is None
    np.testing.assert_array_equal(dataset[2]["t"], np.arange(6, 12).reshape(2, 3).T)


def test_metadata_there_and_back(tmp_path: Path) -> None:
    rows = [{"label": i % 2, "n": np.int32(i), "caption": ["a"]} for i in range(5)]
    columns = {
        "label": sk.column("label", "i64", metadata={"class_names": '["cat", "dog"]', "description": "what it is"}),
        "n": "i32",
        "caption": "utf8[]",
    }
    table = packed(rows, tmp_path / "in", columns=columns).to_arrow()
    assert table.column_names == ["key", "label", "n", "caption"]
    assert table.schema.field("label").metadata[b"class_names"] == b'["cat", "dog"]'
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features == {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    again = packed(table, tmp_path / "out")
    assert list(again.keys()) == list(sk.open(tmp_path / "in").keys())
    for column in sk.open(tmp_path / "in").schema:
        assert again.schema[column.name].metadata == column.metadata
        assert describe(again.schema[column.name]) == describe(column)
    spans = packed(pa.table({"span": pa.array([1], pa.duration("us"))}), tmp_path / "spans")
    assert spans.schema["span"].metadata == {"unit": "us"}


def test_an_empty_list_is_of_its_type(tmp_path: Path) -> None:
    kinds = {"a": pa.list_(pa.float32()), "b": pa.list_(pa.string()), "c": pa.list_(pa.struct({"x": pa.int8()}))}
    table = pa.table({name: pa.array([[]] * 300, kind) for name, kind in kinds.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    for rows in (table, sources.arrow(table.to_reader()), sources.parquet(tmp_path / "a.parquet")):
        dataset = packed(rows, tmp_path / f"out{id(rows)}")
        assert [describe(each).rstrip("?") for each in dataset.schema] == ["utf8", "f32[]", "utf8[]", "json"]
        assert dataset[299]["a"].shape == (0,)
        assert dataset[299]["a"].dtype == np.float32
        assert (dataset[299]["b"], dataset[299]["c"]) == ([], [])
    sk.add_columns(tmp_path / f"out{id(table)}", table.rename_columns(["d", "e", "f"]))
    assert [describe(each) for each in sk.open(tmp_path / f"out{id(table)}").schema][4:] == ["f32[]", "utf8[]", "json"]


@pytest.mark.parametrize("row", [0, 3, 700])
def test_a_null_within_a_list_is_named(row: int, tmp_path: Path) -> None:
    for kind, good, bad in (
        (pa.list_(pa.int8()), [1], [1, None]),
        (pa.list_(pa.int8(), 2), [1, 2], [1, None]),
        (pa.list_view(pa.int8()), [1, 2], [None]),
        (pa.list_(pa.string()), ["a"], [None]),
        (pa.list_(pa.list_(pa.float32(), 2)), [[1, 2]], [[1, 2], None]),
        (pa.list_(pa.list_(pa.float32(), 2)), [[1, 2]], [[1, 2], [None, 1]]),
    ):
        values = [good, None, *[good] * 800]
        values[row] = bad
        table = pa.table({"x": pa.array(values, kind)})
        with pytest.raises(ValueError, match=rf"Table: row {row}, column x: a null within the list: fill it, or leave"):
            sk.pack(table, tmp_path / "out")
        with pytest.raises(ValueError, match=rf"Table: row {row}, column x: a null within the list"):
            sk.pack(pa.concat_tables([table.slice(0, 2), table.slice(2)]), tmp_path / "out")
    # JSON has them.
    nested = pa.table({"x": pa.array([[[1, None], None]], pa.list_(pa.list_(pa.int8())))})
    assert packed(nested, tmp_path / "json")[0]["x"] == [[1, None], None]


def test_what_has_no_counterpart_is_named(tmp_path: Path) -> None:
    for array in (
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])]),
        pa.array([[b"x"]], pa.list_(pa.binary())),
        pa.array([{"a": b"x"}], pa.struct({"a": pa.binary()})),
        pa.array([[[1]]], pa.list_(pa.list_view(pa.int8()))),
    ):
        with pytest.raises(ValueError, match=r"Table: column x is of type .*, which has no counterpart: leave it out"):
            sk.pack(pa.table({"x": array}), tmp_path / "out")
    twice = pa.table({"x": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8()))})
    with pytest.raises(ValueError, match=r"Table: rows 0 to 0, column x: a map has a key twice"):
        sk.pack(twice, tmp_path / "out")
    two = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(ValueError, match="2 columns are named 'x'"):
        sk.pack(two, tmp_path / "out")
    with pytest.raises(ValueError, match="there is no column 'z': there are 'x'"):
        sources.arrow(twice, ["z"])
    with pytest.raises(TypeError, match="has no __arrow_c_stream__"):
        sources.arrow([1])
    with pytest.raises(ValueError, match="there are no rows"):
        sk.pack(pa.table({"x": pa.array([], pa.int8())}), tmp_path / "out")


def test_a_column_without_values_is_json(tmp_path: Path) -> None:
    dataset = packed(pa.table({"n": [1, 2], "nothing": pa.nulls(2)}), tmp_path / "out")
    assert describe(dataset.schema["nothing"]) == "json?"
    assert dataset.to_arrow()["nothing"].to_pylist() == [None, None]


# From datasets


def expected(column: Any, found: Any) -> Any:
    """What Arrow gives for a value of a dataset."""
    if found is None:
        return None
    if column.type == "json":
        return json.dumps(found)
    if column.type == "rle":
        return [{**mask, "counts": mask["counts"].decode()} for mask in found.coco()]
    array = np.asarray(found)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array = array.astype(np.float32)
    return array.tolist() if isinstance(found, (np.ndarray, np.generic)) else found


def test_columns_of_every_type(every_type: str) -> None:
    samples = sk.open(every_type)
    names = [name for name in samples.schema.names if not name.startswith("u8[]")]
    table = samples.to_arrow(names)
    table.validate(full=True)
    assert table.column_names == names
    for column in sk.open(every_type, names).schema:
        for sample, found in zip(samples, table[column.name].cast(numbers_of(table[column.name].type)), strict=True):
            assert found.as_py() == expected(column, times_as_numbers(sample[column.name])), column.name
    small = samples.schema.names
    for kind in ("rle", "jpeg", "png", "image", "bytes"):
        small = [name for name in small if name.rstrip("?") != kind]
    with pytest.raises(ValueError, match=r'sample \d: column "u8\[\]\??": an array of \d dimensions, where the column'):
        samples.to_arrow(small)
    with pytest.raises(ValueError, match="dimensions"):
        samples.to_arrow()
    assert sk.open(every_type).to_arrow([name for name in small if not name.startswith("u8[]")]).num_rows == 8


def numbers_of(kind: Any) -> Any:
    """Nanoseconds are no datetime of Python."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(numbers_of(kind.value_type), kind.list_size)
    return pa.list_(numbers_of(kind.value_type)) if pa.types.is_list(kind) else kind


def times_as_numbers(found: Any) -> Any:
    if isinstance(found, (np.ndarray, np.generic)) and found.dtype.kind == "M":
        return found.astype(np.int64)
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1000])
def test_sizes_blocks_and_shards(count: int, tmp_path: Path) -> None:
    rows = [
        {"key": f"k{i}", "n": i, "maybe": None if i % 3 else i / 2, "vector": np.arange(i % 4), "text": "x" * (i % 7)}
        for i in range(count)
    ]
    columns = {"n": "i64", "maybe": "f32?", "vector": "i64[]", "text": "utf8"}
    options: dict[str, Any] = {"max_block_samples": 7, "shard_samples": 100, "allow_empty": True}
    dataset = packed(rows, tmp_path / "out", columns=columns, **options)
    table = dataset.to_arrow()
    table.validate(full=True)
    assert table.schema.types == [pa.string(), pa.int64(), pa.float32(), pa.list_(pa.int64()), pa.string()]
    assert table.to_pylist() == [{**row, "vector": row["vector"].tolist()} for row in rows]
    assert pa.table(dataset).equals(table)
    assert dataset.to_arrow(["text", "n"]).column_names == ["text", "n"]
    assert sk.open(tmp_path / "out", ["n"]).to_arrow()["n"].to_pylist() == list(range(count))
    some = dataset.to_arrow(["key"], where="n >= 3 and n < 17")
    assert some["key"].to_pylist() == [f"k{i}" for i in range(3, min(17, count))]
    assert dataset.to_arrow(["key"], where="n < 0").num_rows == 0


def test_chosen_removed_and_added(tmp_path: Path) -> None:
    path = tmp_path / "out"
    rows = [{"key": f"k{i}", "n": i, "texts": [f"{i}"] * (i % 3), "image": JPEG} for i in range(300)]
    sk.pack(rows, path, max_block_samples=16, shard_samples=90)
    sk.remove(path, where="n < 50 and n > 40")
    scores = ({"id": f"k{i}", "score": np.float32(i), "box": [i, i + 1]} for i in range(0, 300, 2))
    sk.add_columns(path, scores, key="id")
    sk.pack([{"key": f"z{i}", "n": 300 + i, "texts": [], "image": PNG} for i in range(5)], path, append=True)
    left = [i for i in range(305) if not 40 < i < 50]
    table = sk.open(path).to_arrow()
    assert table.column_names == ["key", "n", "texts", "score", "box"]
    assert table["n"].to_pylist() == left
    assert table["texts"].to_pylist() == [[f"{i}"] * (i % 3) if i < 300 else [] for i in left]
    assert table["score"].to_pylist() == [float(i) if i % 2 == 0 and i < 300 else None for i in left]
    assert table["box"].to_pylist() == [[i, i + 1] if i % 2 == 0 and i < 300 else None for i in left]
    some = sk.open(path, ["n", "image"], where="n >= 250", indices=slice(0, -1))
    assert some.to_arrow()["n"].to_pylist() == list(range(250, 304))
    assert some.to_arrow(["n"], where="n < 252 or n == 303")["n"].to_pylist() == [250, 251, 303]
    assert set(some.to_arrow()["image"].to_pylist()) == {JPEG, PNG}
    keyed = sk.open(path, indices=["k7", "k3", "z0"])
    assert keyed.to_arrow(["key"])["key"].to_pylist() == ["k3", "k7", "z0"]
    assert keyed.to_arrow(["key"], where="n > 3")["key"].to_pylist() == ["k7", "z0"]


def test_what_is_asked_for_must_be_there(dataset: str) -> None:
    samples = sk.open(dataset)
    with pytest.raises(KeyError, match="there is no column 'none'"):
        samples.to_arrow(["none"])
    with pytest.raises(ValueError, match="the condition is empty"):
        samples.to_arrow(where=" ")
    with pytest.raises(KeyError, match="there is no column 'text'"):
        sk.open(dataset, ["label"]).to_arrow(["text"])
    assert samples.to_arrow(["blob", "masks"])["blob"].to_pylist() == [value(i)["blob"] for i in range(200)]


def test_numbers_and_texts_lie_where_the_blocks_have_them(tmp_path: Path) -> None:
    count = 60_000
    rows: dict[str, Any] = {"n": np.arange(count), "vector": np.zeros((count, 4), np.float32)}
    columns = {"n": "i64", "vector": "f32[4]", "text": "utf8"}
    sk.pack(
        ({"n": n, "vector": v, "text": f"text {n}"} for n, v in zip(*rows.values(), strict=True)),
        tmp_path / "out",
        columns=columns,
    )
    from shardkit import _to_arrow

    dataset = sk.open(tmp_path / "out")
    kinds = dataset._arrow_schema()
    for block in dataset.scan():
        batch = _to_arrow.batch(block, list(dataset.schema), kinds)
        for name, child in (("n", batch["n"]), ("vector", batch["vector"].flatten())):
            assert child.buffers()[1].address == block[name].__array_interface__["data"][0], name
        text = next(view for view in map(block["text"].view, range(len(block))) if view is not None)
        assert batch["text"].buffers()[2].address == text.__array_interface__["data"][0]
    # Of a table, too: it holds all blocks, which outlive dataset and scan.
    table = dataset.to_arrow()
    del dataset, block, batch, text
    gc.collect()
    assert table["n"].to_pylist() == list(range(count))


def test_a_stream_is_lazy_and_holds_few_blocks(tmp_path: Path) -> None:
    code = f"""
import resource, numpy as np, pyarrow as pa, shardkit as sk
path = {os.fspath(tmp_path / "out")!r}
columns = {{"vector": "f32[65536]"}}
sk.pack(({{"vector": np.full(65536, i, np.float32)}} for i in range(1600)), path, columns=columns)
dataset = sk.open(path)
stream = pa.RecordBatchReader.from_stream(dataset)
first = stream.read_next_batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = first.num_rows
for batch in stream:
    assert batch["vector"].flatten()[0].as_py() == rows
    rows += batch.num_rows
assert rows == 1600
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
# One that is given up ends at once.
for _ in range(3):
    stream = pa.RecordBatchReader.from_stream(dataset)
    stream.read_next_batch()
    del stream
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100 << 10  # KiB, of 400 MiB


def test_damage_is_an_error_of_its_kind(tmp_path: Path) -> None:
    sk.pack([{"text": f"text {i}" * 99, "n": i} for i in range(1000)], tmp_path / "out", max_block_samples=50)
    (shard,) = (tmp_path / "out").glob("*.shard")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(sk.DataLossError, match=r"shard"):
        sk.open(tmp_path / "out").to_arrow()
    with pytest.raises((OSError, pa.ArrowException), match=r"checksum|shard"):
        pa.table(sk.open(tmp_path / "out"))


def test_texts_that_are_none(tmp_path: Path) -> None:
    """Other containers do not check."""
    from shardkit.streaming import MDSWriter

    with MDSWriter(out=os.fspath(tmp_path / "mds"), columns={"key": "str", "text": "str"}) as writer:
        for i in range(3):
            writer.write({"key": str(i), "text": f"text {i}"})
    (shard,) = (tmp_path / "mds").glob("*.mds")
    shard.write_bytes(shard.read_bytes().replace(b"text 1", b"text \xff"))
    dataset = sk.open(tmp_path / "mds")
    with pytest.raises(sk.DataLossError, match=r'column "text", samples 0 to 2: a value is no text of UTF-8'):
        dataset.to_arrow()
    assert dataset.to_arrow(["key"])["key"].to_pylist() == ["0", "1", "2"]


def test_streaming_to_parquet_and_back(tmp_path: Path, dataset: str) -> None:
    stream = pa.RecordBatchReader.from_stream(sk.open(dataset, ["key", "label", "vector", "blob"]))
    with pq.ParquetWriter(tmp_path / "a.parquet", stream.schema) as file:
        for batch in stream:
            file.write_batch(batch)
    again = packed(sources.parquet(tmp_path / "a.parquet"), tmp_path / "out")
    assert [describe(each) for each in again.schema] == ["utf8", "i64", "f32[4]", "bytes?"]
    for one, two in zip(sk.open(dataset, ["key", "label", "vector", "blob"]), again, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])


def test_rows_come_a_few_at_a_time(tmp_path: Path) -> None:
    made = 0

    def batches() -> Any:
        nonlocal made
        for i in range(50):
            made += 1
            yield pa.record_batch({"n": pa.array([i] * 100)})

    rows = sources.arrow(pa.RecordBatchReader.from_batches(pa.schema({"n": pa.int64()}), batches()), batch_size=30)
    begun = iter(rows)
    for _ in range(101):
        next(begun)
    assert made <= 3
    assert sum(1 for _ in begun) == 4899


def test_other_rows_are_what_they_were(tmp_path: Path, dataset: str) -> None:
    """A dataset has a stream of Arrow, and its rows are packed with their own types, images and masks."""
    again = packed(sk.open(dataset), tmp_path / "out")
    assert again.schema["masks"].type == "rle"
    assert len(again) == 200
    assert EVERY_TYPE


def test_a_null_is_named_behind_lists_that_are_absent() -> None:
    lists = pa.ListArray.from_arrays([0, 2, 4], pa.array([1, 2, 3, None]), mask=pa.array([True, False]))
    with pytest.raises(ValueError, match=r"row 1, column x: a null within the list"):
        list(sources.arrow(pa.table({"x": lists})))


def test_images_are_known_behind_a_batch_of_none(tmp_path: Path) -> None:
    schema = pa.schema({"x": pa.binary()})
    batches = [pa.record_batch({"x": pa.array(values, pa.binary())}) for values in ([], [JPEG], [PNG])]
    assert packed(pa.RecordBatchReader.from_batches(schema, batches), tmp_path / "out").schema["x"].type == "image"


def test_metadata_of_others_that_is_named_like_ours(tmp_path: Path) -> None:
    for i, text in enumerate(("oops", '{"a": 1}', '["a", 1]', '["a", "b"]')):
        field = pa.field("x", pa.int64(), metadata={"class_names": text})
        made = packed(pa.table({"x": [0, 1]}, pa.schema([field])), tmp_path / str(i))
        assert made.schema["x"].class_names == (["a", "b"] if i == 3 else [])
        assert made.to_arrow().column("x").to_pylist() == [0, 1]


def test_what_pyarrow_cannot_cast_is_named(tmp_path: Path) -> None:
    texts = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"]))
    table = pa.table({"x": pa.ListArray.from_arrays([0, 2], texts)})
    with pytest.raises(ValueError, match="column x: ") as raised:
        sk.pack(table, tmp_path / "out")
    assert type(raised.value) is ValueError


def test_a_map_that_is_cut_is_damage(tmp_path: Path) -> None:
    sk.pack(({"x": i} for i in range(200_000)), tmp_path / "out", columns={"x": "i64"}, codecs={"x": "none"})
    dataset = sk.open(tmp_path / "out", mode="mapped", verify="never")
    assert sum(dataset.to_arrow(["x"]).column("x").to_pylist()) == 199_999 * 100_000
    os.truncate(tmp_path / "out" / "00000000.shard", 4096)
    with pytest.raises(sk.DataLossError):
        dataset.to_arrow(["x"])
