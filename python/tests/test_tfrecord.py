"""Rows of TFRecord files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import JPEG
from tfrecords import example, feature, field, records

import shardkit as sk
from shardkit import sources
from shardkit.schema import describe

pytest.importorskip("crc32c", reason="the package crc32c is not installed")


def row(i: int) -> dict[str, Any]:
    return {
        "image/encoded": [JPEG + bytes([i & 255])],
        "image/class/label": [i - 2],
        "image/class/text": ["ü".encode() * (i % 4)],
        "image/object/bbox/xmin": [k / 4 + 0.5 for k in range(i % 3)] or (),
        "image/object/class/label": (*[(-1) ** k << (7 * k) for k in range(i % 3 * 3)],),
        "image/object/class/text": [f"class {k}".encode() for k in range(i % 3)],
    }


@pytest.mark.parametrize("count", [1, 2, 5, 600])
@pytest.mark.parametrize("packed", [True, False])
def test_images_with_objects(tmp_path: Path, count: int, packed: bool) -> None:
    content = records([example(row(i), packed) for i in range(count)])
    (tmp_path / "a.tfrecord").write_bytes(content)
    (tmp_path / "b.tfrecord.gz").write_bytes(gzip.compress(content))
    rows = list(sources.tfrecord([tmp_path / "a.tfrecord", tmp_path / "b.tfrecord.gz"]))
    assert len(rows) == 2 * count
    for i, found in enumerate(rows):
        given = row(i % count)
        assert list(found) == list(given)
        for name in ("image/encoded", "image/class/label", "image/class/text"):
            assert [found[name]] == given[name]
        if count < 3:  # one object at most: a single value, or none
            (text,) = given["image/object/class/text"] or [None]
            assert found["image/object/class/text"] == text
            continue
        assert found["image/object/bbox/xmin"].tolist() == list(given["image/object/bbox/xmin"])
        assert found["image/object/class/label"].tolist() == list(given["image/object/class/label"])
        assert found["image/object/class/text"] == [text.decode() for text in given["image/object/class/text"]]
    few = sources.tfrecord(tmp_path / "a.tfrecord", ["image/class/label", "none"])
    assert list(few) == [{"image/class/label": i - 2, "none": None} for i in range(count)]


def test_packed_with_types(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(
        records([example({"image": [JPEG], "label": [i], "boxes": [0.5] * 4, "words": [b"a", b"b"]}) for i in range(5)])
    )
    sk.pack(sources.tfrecord(tmp_path / "a.tfrecord"), tmp_path / "out")
    dataset = sk.open(tmp_path / "out")
    kinds = {column.name: describe(column) for column in dataset.schema}
    assert kinds == {"key": "utf8", "boxes": "f32[4]", "image": "jpeg", "label": "i64", "words": "utf8[]"}
    assert [sample["label"] for sample in dataset] == list(range(5))
    assert dataset[4]["boxes"].tolist() == [0.5] * 4
    assert dataset[4]["words"] == ["a", "b"]


def test_integers_of_every_length(tmp_path: Path) -> None:
    values = [0, *(sign * ((1 << bits) - 1) for bits in range(1, 64) for sign in (1, -1)), -(1 << 63)]
    (tmp_path / "a.tfrecord").write_bytes(records([example({"n": tuple(values)})]))
    (found,) = sources.tfrecord(tmp_path / "a.tfrecord")
    assert found["n"].dtype == np.int64
    assert found["n"].tolist() == values


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    whole = records([example({"n": [i], "text": [b"text"]}) for i in range(3)])
    size = len(whole) // 3
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(sk.DataLossError, match=rf"a\.tfrecord: record {at // size}, at byte {at // size * size}: "):
            list(sources.tfrecord(path))
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        if end % size == 0:
            assert len(list(sources.tfrecord(path))) == end // size
        else:
            with pytest.raises(sk.DataLossError, match=rf"record {end // size}, .*: the file ends in it"):
                list(sources.tfrecord(path))
    path.write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(sk.DataLossError, match=r"a\.tfrecord: record"):
        list(sources.tfrecord(path))
    path.write_bytes(b"")
    assert list(sources.tfrecord(path)) == []


def test_what_is_no_example(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    whole = example({"n": tuple(range(99)), "text": [b"text"], "none": None})
    for end in range(1, len(whole)):
        path.write_bytes(records([whole[:end]]))
        with pytest.raises(sk.DataLossError, match=r"record 0 is no tf\.Example: "):
            list(sources.tfrecord(path))
    sequence = whole + field(2, field(1, field(1, b"frames") + field(2, field(1, feature([1])))))
    for content, message in (
        (sequence, "a tf.SequenceExample"),
        (b"\xff" * 11, "more than 64 bits"),
        (b"\x0b", "type 3"),
    ):
        path.write_bytes(records([whole, content]))
        with pytest.raises(sk.DataLossError, match=rf"record 1 is no tf\.Example: .*{message}"):
            list(sources.tfrecord(path))


def test_several_values_behind_the_first_examples(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(records([example({"n": [i]}) for i in range(300)] + [example({"n": [1, 2]})]))
    with pytest.raises(ValueError, match=r"a\.tfrecord: record 300: feature n has 2 values, and one in the first 256"):
        list(sources.tfrecord(path))
    path.write_bytes(records([example({"n": [b"\xff", b"a"]})]))
    with pytest.raises(ValueError, match=r"a\.tfrecord: record 0: feature n has several values that are no texts"):
        list(sources.tfrecord(path))


def test_files_of_others(data: Path, tmp_path: Path) -> None:
    files = [path for path in sorted((data / "tfrecord").rglob("*.tfrecord")) if "sequence" not in path.name]
    assert files
    for number, path in enumerate(files):
        report = sk.pack(sources.tfrecord(path), tmp_path / str(number))
        assert report.samples == len(list(sources.tfrecord(path))) > 0
