"""Rows of Parquet files: typed by the files, read a few at a time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import JPEG, PNG, identical

import shardkit as sk
from shardkit import sources
from shardkit.schema import describe

pa = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is not installed")


def write(path: Path, columns: dict[str, Any], features: dict[str, Any] | None = None, **options: Any) -> Path:
    """A file, with what Hugging Face's datasets notes of the columns."""
    table = pa.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, **options)
    return path


def packed(rows: Any, output: Path, **options: Any) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The columns of the dataset made of these rows, and its samples without the key."""
    sk.pack(rows, output, **options)
    dataset = sk.open(output)
    described = {column.name: describe(column) for column in dataset.schema}
    assert described.pop("key") == "utf8"
    return described, [{name: sample[name] for name in described} for sample in dataset]


IMAGES = pa.struct({"bytes": pa.binary(), "path": pa.string()})


@pytest.mark.parametrize("count", [1, 2, 5, 600])
def test_a_folder_of_hugging_face(tmp_path: Path, count: int) -> None:
    features = {
        "image": {"_type": "Image"},
        "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
        "sound": {"_type": "Audio"},
    }
    given = []
    for part in range(2):
        given += [
            {
                "image": PNG if i % 2 else JPEG,
                "label": i % 2,
                "sound": None if i % 3 == 2 else b"RIFF%d" % i,
                "captions": [f"{part} {i} {k} ü" for k in range(i % 3)],
                "box": np.array([i, part, 0.5, 1], np.float32),
                "objects": {"id": list(range(i % 3)), "area": None if i == 1 else i / 2},
            }
            for i in range(count)
        ]
        rows = given[part * count :]
        columns = {
            "image": pa.array([{"bytes": row["image"], "path": "a.jpg"} for row in rows], IMAGES),
            "label": pa.array([row["label"] for row in rows], pa.int64()),
            "sound": pa.array([{"bytes": row["sound"], "path": None} for row in rows], IMAGES),
            "captions": pa.array([row["captions"] for row in rows], pa.list_(pa.string())),
            "box": pa.array([row["box"] for row in rows], pa.list_(pa.float32(), 4)),
            "objects": pa.array(
                [row["objects"] for row in rows], pa.struct({"id": pa.list_(pa.int32()), "area": pa.float64()})
            ),
        }
        write(tmp_path / f"train-0000{part}-of-00002.parquet", columns, features, row_group_size=100)
    rows_read = sources.parquet(sorted(tmp_path.glob("train-*.parquet")), batch_size=7)
    kinds, samples = packed(rows_read, tmp_path / "out")
    absent = "?" if count > 2 else ""
    assert kinds == {
        "image": "image",
        "label": "i64",
        "sound": "bytes" + absent,
        "captions": "utf8[]",
        "box": "f32[4]",
        "objects": "json",
    }
    assert len(samples) == len(given) == 2 * count
    for sample, row in zip(samples, given, strict=True):
        assert np.array_equal(sample.pop("box"), row["box"])
        assert sample == {name: value for name, value in row.items() if name != "box"}
    assert sk.open(tmp_path / "out").classes == ["cat", "dog"]


# Of each type of Arrow three values, and the type of the column.
EACH: dict[str, tuple[Any, list[Any], str]] = {
    **{
        f"{name}{bits}": (
            getattr(pa, f"{name}{bits}")(),
            [np.dtype(f"{name}{bits}").type(i) for i in (0, 1, 127)],
            kind,
        )
        for name, letter in (("int", "i"), ("uint", "u"))
        for bits in (8, 16, 32, 64)
        for kind in (f"{letter}{bits}",)
    },
    "f16": (pa.float16(), [np.float16(i / 2) for i in range(3)], "f16"),
    "f32": (pa.float32(), [np.float32(i / 2) for i in range(3)], "f32"),
    "f64": (pa.float64(), [np.float64(i / 3) for i in range(3)], "f64"),
    "bool": (pa.bool_(), [np.bool_(True), np.bool_(False), np.bool_(True)], "bool"),
    "text": (pa.string(), ["", "ü", "a\0b"], "utf8"),
    "large_text": (pa.large_string(), ["", "ü", "c"], "utf8"),
    "words": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"], "utf8"),
    "bytes": (pa.binary(), [b"", b"\0", JPEG], "bytes"),
    "images": (pa.large_binary(), [PNG, PNG, JPEG], "image"),
    "when": (pa.timestamp("us", "UTC"), [np.datetime64(i, "us") for i in (0, 1, -5)], "timestamp_us"),
    "vector": (pa.list_(pa.int16()), [np.array(a, np.int16) for a in ([1], [], [2, 3])], "i16[]"),
    "large": (pa.large_list(pa.float64()), [np.array(a, np.float64) for a in ([1], [], [2, 3])], "f64[]"),
    "flags": (pa.list_(pa.bool_()), [np.array(a, bool) for a in ([True], [], [False, True])], "bool[]"),
    "grid": (pa.list_(pa.list_(pa.int64())), [[[1], [2, 3]], [], [[]]], "json"),
    "texts": (pa.list_(pa.string()), [["a"], [], ["b", "c"]], "utf8[]"),
    "struct": (
        pa.struct({"a": pa.int8(), "b": pa.list_(pa.string())}),
        [{"a": i, "b": ["x"]} for i in range(3)],
        "json",
    ),
}


@pytest.mark.parametrize("statistics", [True, False])
def test_every_type_with_and_without_absent_values(tmp_path: Path, statistics: bool) -> None:
    columns: dict[str, Any] = {}
    for name, (kind, values, _) in EACH.items():
        plain = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
        plain = [int(value.astype(int)) if isinstance(value, np.datetime64) else value for value in plain]
        columns[name] = pa.array(plain, pa.string()).dictionary_encode() if name == "words" else pa.array(plain, kind)
        columns[f"{name}?"] = columns[name].take(pa.array([0, 1, None]))
    path = write(tmp_path / "a.parquet", columns, write_statistics=statistics, row_group_size=2)
    kinds, samples = packed(sources.parquet(path), tmp_path / "out")
    assert kinds == {name + end: kind + end for name, (_, _, kind) in EACH.items() for end in ("", "?")}
    for name, (_, values, _) in EACH.items():
        for i, value in enumerate(values):
            assert identical(samples[i][name], value), name
            assert identical(samples[i][f"{name}?"], None if i == 2 else value), name


def test_an_absent_value_in_the_last_row_is_known_from_the_beginning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"text": ["a"] * 999 + [None], "n": pa.array(range(1000))})
    kinds, samples = packed(sources.parquet(path, batch_size=10), tmp_path / "out")
    assert kinds == {"text": "utf8?", "n": "i64"}
    assert [sample["text"] for sample in samples] == ["a"] * 999 + [None]


def test_files_that_differ(tmp_path: Path) -> None:
    a = write(tmp_path / "a.parquet", {"n": pa.array([1, 2]), "image": [JPEG, JPEG], "later": pa.nulls(2)})
    b = write(tmp_path / "b.parquet", {"n": pa.array([3]), "image": [b"none"], "later": ["x"], "more": [0.5]})
    empty = write(tmp_path / "c.parquet", {"n": pa.array([], pa.int64()), "image": pa.array([], pa.binary())})
    kinds, samples = packed(sources.parquet([a, b, empty]), tmp_path / "out")
    assert kinds == {"n": "i64", "image": "bytes", "later": "utf8?", "more": "f64?"}
    assert samples == [
        {"n": 1, "image": JPEG, "later": None, "more": None},
        {"n": 2, "image": JPEG, "later": None, "more": None},
        {"n": 3, "image": b"none", "later": "x", "more": 0.5},
    ]
    assert packed(sources.parquet([a, b], ["n"]), tmp_path / "n") == ({"n": "i64"}, [{"n": 1}, {"n": 2}, {"n": 3}])
    other = write(tmp_path / "d.parquet", {"n": ["text"]})
    with pytest.raises(ValueError, match=r"d\.parquet: column n is utf8, in .*a\.parquet i64: read these files apart"):
        sources.parquet([a, other])
    with pytest.raises(ValueError, match=r"a\.parquet: there is no column 'm'"):
        sources.parquet([a, b], ["n", "m"])
    assert describe(sources.parquet([a]).columns["later"]) == "json?"
    with pytest.raises(FileNotFoundError):
        sources.parquet(tmp_path / "nowhere.parquet")


def test_columns_may_be_given_in_part(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"key": ["x", "y"], "score": [0.5, 1.0], "text": ["1", "[2]"]})
    rows = sources.parquet(path)
    columns = {**rows.columns, "score": "f32?", "text": "json"}
    del columns["key"]
    kinds, samples = packed(rows, tmp_path / "out", columns=columns)
    assert kinds == {"score": "f32?", "text": "json"}
    assert samples == [{"score": 0.5, "text": 1}, {"score": 1.0, "text": [2]}]
    assert list(sk.open(tmp_path / "out").keys()) == ["x", "y"]


def test_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"n": pa.array([], pa.int16())})
    for given in ([], path):
        with pytest.raises(ValueError, match="there are no rows"):
            sk.pack(sources.parquet(given), tmp_path / "out")
    assert packed(sources.parquet(path), tmp_path / "out", allow_empty=True) == ({"n": "i16"}, [])


def test_values_without_counterpart_are_named(tmp_path: Path) -> None:
    for kind in (pa.list_(pa.binary()), pa.map_(pa.string(), pa.binary()), pa.list_(IMAGES)):
        path = write(tmp_path / "a.parquet", {"n": pa.nulls(1, kind)})
        with pytest.raises(ValueError, match=r"a\.parquet: column n is of type .* leave it out, by columns="):
            sources.parquet(path)
    path = write(tmp_path / "b.parquet", {"n": pa.array([[1], [2], [3, None]])})
    with pytest.raises(ValueError, match=r"b\.parquet: row 2, column n: a null within the list"):
        sk.pack(sources.parquet(path, batch_size=2), tmp_path / "out")
    images = [{"bytes": JPEG, "path": None}, {"bytes": None, "path": "far/away.jpg"}]
    path = write(tmp_path / "c.parquet", {"image": pa.array(images, IMAGES)})
    with pytest.raises(
        ValueError, match=r"c\.parquet: row 1, column image: only the path of the file, 'far/away\.jpg'"
    ):
        sk.pack(sources.parquet(path), tmp_path / "out")
    assert not os.listdir(tmp_path / "out") if (tmp_path / "out").exists() else True


def test_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"blob": [os.urandom(1 << 16) for _ in range(400)]}, row_group_size=20)
    rows = iter(sources.parquet(tmp_path / "a.parquet", batch_size=5))
    next(rows)
    before = pa.total_allocated_bytes()
    most = before
    for _ in rows:
        most = max(most, pa.total_allocated_bytes())
    assert most < before + (8 << 20)  # of 25 MiB
