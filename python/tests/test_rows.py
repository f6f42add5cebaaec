from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import value

import shardkit as sk


def rows(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield {"key": f"key {i}", **value(i), "tags": {"number": i}, "vector": [float(i), 1.5]}


def test_any_iterable_with_inferred_columns(tmp_path: Path) -> None:
    report = sk.pack(rows(500), tmp_path / "out", shard_samples=100, metadata={"from": "rows"})
    assert (report.samples, report.packed, report.shards, report.skipped) == (500, 500, 5, [])
    samples = sk.open(os.fspath(tmp_path / "out"))
    described = {column.name: (column.type, column.dtype, column.shape, column.nullable) for column in samples.schema}
    assert described["label"] == ("i64", None, None, False)
    assert described["vector"] == ("ndarray", "f64", [2], False)
    assert described["array"] == ("ndarray", "u8", None, False)
    assert described["masks"] == ("ndarray", "bool", None, False)
    assert described["blob"] == ("bytes", None, None, True)
    assert described["tags"] == ("json", None, None, False)
    for i in (0, 255, 256, 499):
        assert samples[i]["key"] == f"key {i}"
        assert samples[i]["blob"] == value(i)["blob"]
        assert samples[i]["tags"] == {"number": i}
        np.testing.assert_array_equal(samples[i]["masks"], value(i)["masks"])


def test_rows_are_compressed_as_files_are(tmp_path: Path, data: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for name, content in (("a.bin", b"\0"), ("a.json", b"{}"), ("a.txt", b"text")):
        (files / name).write_bytes(content)
    sk.pack(files, tmp_path / "files.packed", types={"txt": "utf8"})
    sk.pack(data / "sa1b", tmp_path / "pairs.packed")
    packed = [*sk.open(tmp_path / "files.packed").schema, *sk.open(tmp_path / "pairs.packed").schema]
    expected = {column.type: column.codec for column in packed if column.type != "ndarray"}
    assert {"bytes", "utf8", "json", "jpeg", "i64", "rle"} <= expected.keys()
    assert {kind: sk.column("name", kind).codec for kind in expected} == expected
    sk.pack(({"key": str(i), "text": "the same " * 9} for i in range(500)), tmp_path / "rows")
    assert {column.codec for column in sk.open(tmp_path / "rows").schema} == {"zstd"}
    sk.pack([{"text": "a"}], tmp_path / "given", codecs={"text": "none"})
    assert sk.open(tmp_path / "given").schema["text"].codec == "none"
    assert sk.column("pixels", "u8[3]").codec == "none"


class MapStyle:
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"number": index}


def test_map_style_in_order_by_many_threads(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    sk.pack(MapStyle(), tmp_path / "out", threads=4, progress=lambda done, total: calls.append((done, total)))
    samples = sk.open(os.fspath(tmp_path / "out"))
    assert [sample["number"] for sample in samples] == list(range(100))
    assert samples[7]["key"] == "000000000007"
    assert calls[-1] == (100, 100)


class Failing(MapStyle):
    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 70:
            raise OSError("the disk is gone")
        return {"number": index}


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_of_a_map_style_dataset_names_the_row(tmp_path: Path, threads: int) -> None:
    with pytest.raises(sk.FunctionError, match=r"Failing\[\] failed on input 70: OSError: the disk is gone") as raised:
        sk.pack(Failing(), tmp_path / "out", threads=threads)
    assert isinstance(raised.value.__cause__, OSError)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    report = sk.pack(Failing(), tmp_path / "out", threads=threads, skip_errors=True)
    assert [(skipped.position, skipped.key) for skipped in report.skipped] == [(70, "70")]
    assert list(sk.open(tmp_path / "out").column("number")) == [i for i in range(100) if i != 70]


def test_given_columns_and_types(tmp_path: Path) -> None:
    columns = {"label": "i32", "masks": "rle", "text": "utf8"}
    with pytest.raises(ValueError, match=r"row 0: there is no column 'array'"):
        sk.pack(rows(5), tmp_path / "out", columns=columns)
    given = ({name: row[name] for name in ("key", *columns)} for row in rows(5))
    sk.pack(given, tmp_path / "out", columns=columns)
    samples = sk.open(os.fspath(tmp_path / "out"))
    assert samples.schema["label"].type == "i32"
    np.testing.assert_array_equal(samples[3]["masks"].dense(), value(3)["masks"])


def test_bad_rows_are_named_or_skipped(tmp_path: Path) -> None:
    def bad() -> Iterator[dict[str, Any]]:
        yield from ({"number": i} for i in range(300))
        yield {"number": "three hundred"}
        yield {"number": 301}

    with pytest.raises(ValueError, match=r"row 300: sample '000000000300', column number"):
        sk.pack(bad(), tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    report = sk.pack(bad(), tmp_path / "out", skip_errors=True)
    assert report.samples == 301
    assert [skipped.position for skipped in report.skipped] == [300]
    for mixed in ([{"a": 1}, {"a": "b"}], [{"a": object()}], [{"a": None}]):
        with pytest.raises(ValueError, match="a"):
            sk.pack(mixed, tmp_path / "other")
    with pytest.raises(ValueError, match="for files"):
        sk.pack([{"a": 1}], tmp_path / "other", kind="files")
    for none in ([], iter(())):
        with pytest.raises(ValueError, match="no rows"):
            sk.pack(none, tmp_path / "other")
    assert sk.pack([], tmp_path / "other", allow_empty=True).samples == 0


def test_resumes_where_it_stopped_and_notices_other_rows(tmp_path: Path) -> None:
    options: dict[str, Any] = {"shard_samples": 50, "keep_on_cancel": True}

    def stops(at: int, first: int = 0) -> Iterator[dict[str, Any]]:
        for i in range(first, 400):
            if i == at:
                raise KeyboardInterrupt
            yield {"number": i}

    with pytest.raises(KeyboardInterrupt):
        sk.pack(stops(330), tmp_path / "out", **options)
    with pytest.raises(ValueError, match=r"job|options"):
        sk.pack(stops(-1, first=1), tmp_path / "out", resume=True, **options)
    report = sk.pack(stops(-1), tmp_path / "out", resume=True, **options)
    assert report.samples == 400
    assert 0 < report.packed < 400
    sk.pack(stops(-1), tmp_path / "whole", **options)
    for shard in (tmp_path / "whole").glob("*.shard"):
        assert shard.read_bytes() == (tmp_path / "out" / shard.name).read_bytes()


def test_the_report_tells_of_labels_that_stand_together(tmp_path: Path) -> None:
    rows = [{"key": f"k{i:03}", "label": i // 20, "text": "x" * 200} for i in range(400)]
    sk.pack(rows, tmp_path / "sorted", max_block_samples=5, codecs={"text": "none"})
    loader = sk.Loader(tmp_path / "sorted", 20, columns=["label"], shuffle_buffer_bytes=8000)
    for epoch in loader.epochs(1):
        for _ in epoch:
            pass
    assert loader.report().clumped_columns == ["label"]
    assert "equal values of column 'label' stand together" in str(loader.report())


def test_bools_beside_an_image_are_masks(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    picture = sk.Encode()(np.zeros((40, 50, 3), np.uint8))
    rows = [
        {
            "image": picture,
            "masks": random.random((i, 40, 50)) > 0.5,
            "flags": random.random(6) > 0.5,
            "one": random.random((40, 50)) > 0.5,
            "maybe": None if i == 1 else np.ones((1, 40, 50), bool),
        }
        for i in range(3)
    ]
    sk.pack(rows, tmp_path / "beside")
    dataset = sk.open(tmp_path / "beside")
    assert {each.name: each.type for each in dataset.schema if each.name != "key"} == {
        "image": "jpeg",
        "masks": "rle",
        "flags": "ndarray",
        "one": "ndarray",
        "maybe": "rle",
    }
    for row, sample in zip(rows, dataset, strict=True):
        np.testing.assert_array_equal(
            sample["masks"].dense() if len(row["masks"]) else np.zeros((0, 40, 50)), row["masks"]
        )
        assert (sample["maybe"] is None) == (row["maybe"] is None)
    (batch,) = sk.Loader(
        tmp_path / "beside", 3, columns={"image": sk.Image(crop="center", size=32), "masks": sk.DenseMasks()}
    )
    assert batch["masks"].values.shape[1:] == (32, 32)
    # Without an image they are arrays, as they were given.
    sk.pack([{"masks": row["masks"]} for row in rows], tmp_path / "alone")
    assert sk.open(tmp_path / "alone").schema["masks"].type == "ndarray"
