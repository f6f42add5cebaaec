from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import shardkit as sk


def test_every_type(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "types")
    samples: dict[str, tuple[str, object]] = {
        "i8": ("i8", np.int8(-3)),
        "u64": ("u64", 2**64 - 1),
        "f16": ("f16", 0.5),
        "f32": ("f32", 0.1),
        "f64": ("f64", 0.1),
        "flag": ("bool", True),
        "complex": ("complex128", 1 + 2j),
        "time": ("timestamp_ms", np.datetime64("2024-02-03T04:05:06.789")),
        "text": ("utf8", "grüße"),
        "json": ("json", '{"a": 1}'),
        "bytes": ("bytes", b"\0\1"),
        "view": ("bytes", memoryview(b"abc")),
        "matrix": ("f64[2, 3]", np.arange(6.0).reshape(2, 3)),
        "number": ("i32[]", np.int32(5)),
        "times": ("timestamp_s[]", np.array(["2024-01-01", "1969-12-31"], "M8[s]")),
    }
    with sk.Writer(path, {name: kind for name, (kind, _) in samples.items()}) as writer:
        writer.write("a", **{name: given for name, (_, given) in samples.items()})
    assert writer.result is not None
    assert writer.result.samples == 1
    read = sk.open(path)[0]
    for name, (_, given) in samples.items():
        if name == "f32":
            assert read[name] == np.float32(0.1)
        elif name == "json":
            assert read[name] == b'{"a": 1}'
        elif name == "view":
            assert read[name] == b"abc"
        else:
            np.testing.assert_array_equal(read[name], given)  # type: ignore[arg-type]
    assert isinstance(read["time"], np.datetime64)
    assert read["matrix"].shape == (2, 3)


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        ("i8", 300, "does not fit"),
        ("i64", 1.5, "does not fit"),
        ("f32[4]", np.zeros(3, np.float32), "shape"),
        ("u8[]", np.array([256]), "does not fit"),
        ("utf8", b"abc", "str is wanted"),
        ("bytes", "abc", "bytes are wanted"),
        ("rle", np.zeros(4, bool), "masks, height, width"),
        ("i64", None, "value"),
    ],
)
def test_a_bad_value_names_sample_and_column(tmp_path: Path, column: str, given: object, message: str) -> None:
    path = os.fspath(tmp_path / "out")
    with sk.Writer(path, {"value": column}) as writer:
        with pytest.raises((ValueError, OverflowError), match=message) as caught:
            writer.write("the key", value=given)
        assert "value" in str(caught.value)
        with pytest.raises(ValueError, match="no column 'other'"):
            writer.write("the key", other=1)
        good = {"i8": 1, "i64": 1, "f32[4]": np.zeros(4, "f4"), "u8[]": np.zeros(2, "u1"), "utf8": "a", "bytes": b"a"}
        writer.write("good", value=good.get(column, np.zeros((1, 2, 2), bool)))
    assert list(sk.open(path).keys()) == ["good"]


def test_nothing_is_left_after_an_exception(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write() -> None:
        with sk.Writer(os.fspath(path), {"value": "bytes"}, shard_size="64KiB", block_size="4KiB") as writer:
            for i in range(100):
                writer.write(str(i), value=b"x" * 5000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not path.exists() or list(path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        sk.open(os.fspath(path))


def test_rows_append_and_existing(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "out")
    with sk.Writer(path, {"value": "i64"}, key="id") as writer:
        writer.write({"id": "a", "value": 1})
    with pytest.raises(FileExistsError):
        sk.Writer(path, {"value": "i64"}, key="id")
    with sk.Writer(path, {"value": "i64"}, key="id", append=True) as writer:
        writer.write("b", value=2)
    samples = sk.open(path)
    assert [(sample["id"], sample["value"]) for sample in samples] == [("a", 1), ("b", 2)]
    with pytest.raises(ValueError, match="closed"):
        writer.write("c", value=3)


def test_unknown_and_bad_options(tmp_path: Path) -> None:
    for options, error in (
        ({"shard_sise": 1}, TypeError),
        ({"shard_size": "much"}, ValueError),
        ({"threads": "two"}, ValueError),
        ({"storage": {"value": "round"}}, ValueError),
        ({"alignment": 3}, ValueError),
    ):
        with pytest.raises(error, match=next(iter(options)) if "storage" not in options else "storage"):
            sk.Writer(os.fspath(tmp_path / "out"), {"value": "bytes"}, **options)
    with pytest.raises(ValueError, match="no type"):
        sk.Writer(os.fspath(tmp_path / "out"), {"value": "jpegg"})


def test_column_descriptions() -> None:
    column = sk.column("image", "u8[3, 4]?", codec="zstd", metadata={"unit": "1"})
    assert (column.type, column.dtype, column.shape, column.nullable) == ("ndarray", "u8", [3, 4], True)
    assert (column.codec, column.metadata) == ("zstd", {"unit": "1"})
    assert sk.column("a", "f32[]").shape is None


def test_a_writer_whose_end_fails_gives_up_the_lock(tmp_path: Path) -> None:
    with sk.Writer(tmp_path / "data", {"n": "i64"}) as writer:
        writer.write("a", n=1)
    failed = sk.Writer(tmp_path / "data", {"n": "i64"}, append=True)
    failed.write("a", n=2)
    with pytest.raises(FileExistsError, match="key of 1 sample"):
        failed.close()
    with sk.Writer(tmp_path / "data", {"n": "i64"}, append=True) as writer:
        writer.write("b", n=3)
    assert len(sk.open(tmp_path / "data")) == 2
    assert failed.result is None
