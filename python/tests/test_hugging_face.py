"""Datasets of Hugging Face: their types, files as stored, splits, and what was done to them before."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import JPEG, PNG, identical

import shardkit as sk
from shardkit import sources
from shardkit.schema import describe

datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
datasets.disable_progress_bars()

KINDS = {
    "image": "image",
    "sound": "bytes",
    "label": "i64",
    "labels": "i64[]",
    "small": "u8",
    "half": "f16",
    "flag": "bool",
    "text": "utf8",
    "captions": "utf8[]",
    "box": "f32[4]",
    "vector": "i16[]",
    "grid": "f32[2, 3]",
    "rows": "i16[]",
    "objects": "json",
    "json": "json",
    "words": "json",
    "when": "timestamp_us",
}


def features(sound: Any = None) -> Any:
    value = datasets.Value
    return datasets.Features(
        {
            "image": datasets.Image(),
            "sound": sound or datasets.Audio(sampling_rate=16000),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "labels": datasets.List(datasets.ClassLabel(names=["p", "q"])),
            "small": value("uint8"),
            "half": value("float16"),
            "flag": value("bool"),
            "text": value("string"),
            "captions": datasets.List(value("string")),
            "box": datasets.List(value("float32"), length=4),
            "vector": datasets.List(value("int16")),
            "grid": datasets.Array2D((2, 3), "float32"),
            "rows": datasets.Array2D((None, 3), "int16"),
            "objects": {"id": datasets.List(value("int32")), "of": {"name": value("string")}},
            "json": datasets.Json(),
            "words": datasets.Translation(["en", "de"]),
            "when": value("timestamp[us]"),
        }
    )


def given(i: int, path: Path) -> dict[str, Any]:
    """A row as datasets takes it; of some the image is only a path."""
    return {
        "image": {"bytes": None, "path": os.fspath(path)} if i % 3 == 2 else {"bytes": JPEG, "path": "a.jpg"},
        "sound": {"bytes": b"RIFF%d" % i, "path": None},
        "label": i % 2,
        "labels": [0, 1][: i % 3],
        "small": i % 256,
        "half": np.float16(i % 100),
        "flag": i % 2 == 0,
        "text": f"text {i}",
        "captions": [f"c{k}" for k in range(i % 3)],
        "box": [i, 1.5, 2, 3],
        "vector": list(range(i % 4)),
        "grid": np.full((2, 3), i, np.float32),
        "rows": np.full((1 + i % 3, 3), i, np.int16).tolist(),
        "objects": {"id": [i], "of": {"name": "n"}},
        "json": {"i": [i, None]},
        "words": {"en": "a", "de": "b"},
        "when": datetime.datetime(2020, 1, 1) + datetime.timedelta(microseconds=i),
    }


def expected(i: int) -> dict[str, Any]:
    row = given(i, Path())
    return {
        **row,
        "image": PNG if i % 3 == 2 else JPEG,
        "sound": b"RIFF%d" % i,
        "label": np.int64(i % 2),
        "labels": np.array(row["labels"], np.int64),
        "small": np.uint8(i % 256),
        "flag": np.bool_(i % 2 == 0),
        "box": np.array(row["box"], np.float32),
        "vector": np.array(row["vector"], np.int16),
        "rows": np.array(row["rows"], np.int16),
        "when": np.datetime64(row["when"], "us"),
    }


def check(dataset: Path, numbers: Iterator[int] | range | list[int]) -> None:
    samples = list(sk.open(dataset))
    numbers = list(numbers)
    assert [sample["text"] for sample in samples] == [f"text {i}" for i in numbers]
    for sample, i in zip(samples, numbers, strict=True):
        for name, value in sample.items():
            assert name == "key" or identical(value, expected(i)[name]), (i, name, value)


def made(folder: Path, count: int) -> Any:
    (folder / "there.png").write_bytes(PNG)
    rows = [given(i, folder / "there.png") for i in range(count)]
    # Without torchcodec, datasets makes no sound of bytes.
    plain = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    return datasets.Dataset.from_list(rows, features=features(plain)).cast(features())


@pytest.mark.parametrize("count", [1, 2, 5, 600])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_dataset(tmp_path: Path, count: int, threads: int) -> None:
    calls: list[tuple[int, int]] = []
    report = sk.pack(
        made(tmp_path, count), tmp_path / "out", threads=threads, progress=lambda *done: calls.append(done)
    )
    assert (report.samples, report.skipped, calls[-1]) == (count, [], (count, count))
    dataset = sk.open(tmp_path / "out")
    assert {column.name: describe(column) for column in dataset.schema if column.name != "key"} == KINDS
    assert dataset.schema["label"].class_names == ["cat", "dog"]
    assert dataset.schema["labels"].class_names == ["p", "q"]
    kept = datasets.Features.from_dict(json.loads(dataset.metadata["hugging_face.features"]))
    assert kept == features()
    check(tmp_path / "out", range(count))


@pytest.mark.parametrize("count", [1, 2, 5, 300])
@pytest.mark.parametrize("source", ["generator", "dataset", "parquet"])
def test_a_stream(tmp_path: Path, count: int, source: str) -> None:
    path = tmp_path / "there.png"
    dataset = made(tmp_path, count)
    if source == "generator":
        stream = datasets.IterableDataset.from_generator(
            lambda: (given(i, path) for i in range(count)), features=features(datasets.Video())
        )
    elif source == "dataset":
        stream = dataset.to_iterable_dataset()
    else:
        dataset = dataset.remove_columns("words")  # which datasets itself cannot stream
        dataset.to_parquet(tmp_path / "a.parquet")
        files = os.fspath(tmp_path / "a.parquet")
        cache = os.fspath(tmp_path / "cache")
        stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, cache_dir=cache)
    sk.pack(stream, tmp_path / "out")
    columns = sk.open(tmp_path / "out").schema
    assert {column.name: describe(column) for column in columns if column.name != "key"} == {
        name: f"{kind}?" for name, kind in KINDS.items() if source != "parquet" or name != "words"
    }
    check(tmp_path / "out", range(count))


def test_what_was_done_to_a_dataset_before(tmp_path: Path) -> None:
    dataset = made(tmp_path, 100).remove_columns("sound")  # which only torchcodec decodes
    # Filters of streams decode, and datasets does not keep the bytes.
    undecoded = dataset.to_iterable_dataset().cast_column("image", datasets.Image(decode=False))
    # From the end, some of it, and in formats that decode.
    for number, (prepared, numbers) in enumerate(
        [
            (dataset.select(range(99, -1, -2)), list(range(99, -1, -2))),
            (dataset.filter(lambda row: row["small"] % 3 == 0), list(range(0, 100, 3))),
            (dataset.with_format("numpy").skip(90), list(range(90, 100))),
            (dataset.to_iterable_dataset().with_format("numpy").skip(3).take(5), list(range(3, 8))),
            (undecoded.filter(lambda row: row["small"] < 7), list(range(7))),
            (datasets.concatenate_datasets([dataset, dataset.select([1])]), [*range(100), 1]),
        ]
    ):
        sk.pack(prepared, tmp_path / f"{number}")
        check(tmp_path / f"{number}", numbers)
    with pytest.raises(ValueError, match=r"column image: bytes are wanted, not JpegImageFile"):
        sk.pack(dataset.to_iterable_dataset().filter(lambda row: row["small"] < 7), tmp_path / "decoded")
    sk.pack(dataset.with_format("numpy", columns=["label", "text"]), tmp_path / "chosen")
    assert str(sk.open(tmp_path / "chosen").schema) == "Schema(key: utf8, label: i64, text: utf8)"
    shuffled = dataset.shuffle(seed=1)
    sk.pack(shuffled, tmp_path / "shuffled")
    check(tmp_path / "shuffled", [int(text.split()[1]) for text in shuffled["text"]])
    with pytest.raises(ValueError, match=r"has a transform.*dataset\.map"):
        sk.pack(dataset.with_transform(lambda rows: rows), tmp_path / "no")


def test_streams_of_other_columns_put_together(tmp_path: Path) -> None:
    first = datasets.Dataset.from_dict({"id": [1, 2]}).to_iterable_dataset()
    second = datasets.Dataset.from_dict({"id": [3], "text": ["x"]}).to_iterable_dataset()
    sk.pack(datasets.concatenate_datasets([first, second]), tmp_path / "one after another")
    sk.pack(datasets.interleave_datasets([first, second]), tmp_path / "in turn")
    for name, rows in (("one after another", [(1, None), (2, None), (3, "x")]), ("in turn", [(1, None), (3, "x")])):
        assert [(row["id"], row["text"]) for row in sk.open(tmp_path / name)] == rows


def test_each_split_is_a_dataset(tmp_path: Path) -> None:
    splits = made(tmp_path, 20).train_test_split(test_size=5, shuffle=False)
    report = sk.pack(splits, tmp_path / "out", shard_samples=10)
    assert (report.samples, report.packed, report.shards) == (20, 20, 3)
    assert {name: each.samples for name, each in report.splits.items()} == {"train": 15, "test": 5}
    check(tmp_path / "out" / "train", range(15))
    check(tmp_path / "out" / "test", range(15, 20))
    streams = datasets.IterableDatasetDict({name: each.to_iterable_dataset() for name, each in splits.items()})
    assert sk.pack(streams, tmp_path / "streams").splits["test"].samples == 5
    check(tmp_path / "streams" / "test", range(15, 20))
    with pytest.raises(FileExistsError):
        sk.pack(splits, tmp_path / "out")
    with pytest.raises(ValueError, match="are for files"):
        sk.pack(splits, tmp_path / "other", kind="files")


def test_absent_values(tmp_path: Path) -> None:
    files = [{"bytes": PNG, "path": None}, None, {"bytes": JPEG, "path": None}]
    columns = {"image": files, "n": [1, None, 3], "text": ["a", "b", None], "there": [1, 2, 3]}
    columns = {name: [values[0]] * 30 + values for name, values in columns.items()}
    kinds = datasets.Features(
        {
            "image": datasets.Image(),
            **{n: datasets.Value("int32") for n in ("n", "there")},
            "text": datasets.Value("string"),
        }
    )
    dataset = datasets.Dataset.from_dict(columns, features=kinds)
    for name, each in (("map", dataset), ("stream", dataset.to_iterable_dataset())):
        sk.pack(each, tmp_path / name)
        samples = list(sk.open(tmp_path / name))[30:]
        assert [sample["image"] for sample in samples] == [PNG, None, JPEG]
        assert [sample["n"] for sample in samples] == [1, None, 3]
        assert [sample["text"] for sample in samples] == ["a", "b", None]
    described = {column.name: describe(column) for column in sk.open(tmp_path / "map").schema}
    assert described == {"key": "utf8", "image": "image?", "n": "i32?", "text": "utf8?", "there": "i32"}


def test_pixels_of_a_stream_without_features(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    stream = (
        made(tmp_path, 5)
        .remove_columns("sound")
        .to_iterable_dataset()
        .map(lambda row: {"image": image.new("RGB", (8, 8)), "n": 1})
    )
    stream = stream.select_columns(["image", "n"])
    with pytest.raises(ValueError, match=r"column image: a value of Image .*shardkit\.Encode"):
        sk.pack(stream, tmp_path / "out")
    sk.pack(stream, tmp_path / "out", columns={"image": sk.Encode("jpeg"), "n": "i64"})
    assert image.open(io.BytesIO(sk.open(tmp_path / "out")[4]["image"])).size == (8, 8)


def test_files_of_a_stream_without_features(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"there")
    path = os.fspath(tmp_path / "there")
    files = [{"bytes": b"here", "path": None}, {"bytes": None, "path": path}, None]
    sk.pack(datasets.IterableDataset.from_generator(lambda: ({"file": file} for file in files)), tmp_path / "out")
    assert [sample["file"] for sample in sk.open(tmp_path / "out")] == [b"here", b"there", None]


def test_types_of_arrow_are_alike_in_streams(tmp_path: Path) -> None:
    kinds = datasets.Features(
        {
            "day": datasets.Value("date32"),
            "price": datasets.Value("decimal128(7, 2)"),
            "took": datasets.Value("duration[ms]"),
            "days": datasets.List(datasets.Value("date32")),
            "at": datasets.Value("time64[us]"),
        }
    )
    rows = {
        "day": [datetime.date(2020, 1, 1), None, datetime.date(1969, 12, 31)],
        "price": [decimal.Decimal("-12.50"), decimal.Decimal("0.01"), None],
        "took": [datetime.timedelta(milliseconds=1500), None, datetime.timedelta(0)],
        "days": [[datetime.date(2020, 1, 1)], [], [datetime.date(2020, 1, 2), datetime.date(2020, 1, 3)]],
        "at": [datetime.time(1, 2, 3, 456), None, datetime.time(0)],
    }
    dataset = datasets.Dataset.from_dict(rows, features=kinds)
    found = []
    generated = datasets.IterableDataset.from_generator(lambda: iter(dataset), features=kinds)
    for name, each in (("map", dataset), ("stream", dataset.to_iterable_dataset()), ("generated", generated)):
        sk.pack(each, tmp_path / name)
        found.append([{**sample, "days": sample["days"].tolist()} for sample in sk.open(tmp_path / name)])
    assert found[0] == found[1] == found[2]
    assert [sample["day"] for sample in found[0]] == [
        np.datetime64("2020-01-01", "s"),
        None,
        np.datetime64("1969-12-31", "s"),
    ]
    assert [sample["price"] for sample in found[0]] == ["-12.50", "0.01", None]
    assert [sample["took"] for sample in found[0]] == [1500, None, 0]
    assert [sample["at"] for sample in found[0]] == ["01:02:03.000456", None, "00:00:00.000000"]
    assert [len(sample["days"]) for sample in found[0]] == [1, 0, 2]


def test_types_without_counterpart_and_missing_files_are_named(tmp_path: Path) -> None:
    kinds = datasets.Features({"files": datasets.List(datasets.Value("binary")), "n": datasets.Value("int64")})
    dataset = datasets.Dataset.from_dict({"files": [[b"a"], []], "n": [1, 2]}, features=kinds)
    for each in (dataset, dataset.to_iterable_dataset()):
        with pytest.raises(ValueError, match=r"column files is of type list<.*binary>, which has no counterpart"):
            sk.pack(each, tmp_path / "out")
    sk.pack(dataset.remove_columns("files"), tmp_path / "out")
    gone = made(tmp_path, 5)
    (tmp_path / "there.png").unlink()
    with pytest.raises(sk.FunctionError, match=r"reading files failed on input 2 .*there\.png"):
        sk.pack(gone, tmp_path / "gone")
    report = sk.pack(gone, tmp_path / "gone", skip_errors=True)
    assert [skipped.position for skipped in report.skipped] == [2]
    check(tmp_path / "gone", [0, 1, 3, 4])


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    dataset = made(tmp_path, 400)
    options: dict[str, Any] = {"shard_samples": 50, "keep_on_cancel": True}

    (tmp_path / "there.png").rename(tmp_path / "away.png")
    rows = sources.hugging_face(dataset.select(range(400)))
    with pytest.raises(sk.FunctionError):
        sk.pack(rows, tmp_path / "out", **options)
    (tmp_path / "away.png").rename(tmp_path / "there.png")
    with pytest.raises(KeyboardInterrupt):
        sk.pack(Stops(dataset, 350), tmp_path / "out", columns=sources.hugging_face(dataset).columns, **options)
    report = sk.pack(
        Stops(dataset, 400), tmp_path / "out", columns=sources.hugging_face(dataset).columns, resume=True, **options
    )
    assert 0 < report.packed < 400
    check(tmp_path / "out", range(400))


class Stops:
    """Rows of a dataset, up to an interruption."""

    def __init__(self, dataset: Any, at: int) -> None:
        self._dataset, self._at = dataset, at

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(sources.hugging_face(self._dataset)):
            if number == self._at:
                raise KeyboardInterrupt
            yield row
