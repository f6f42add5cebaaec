from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import JPEG, PNG

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
            assert read[name] == {"a": 1}
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


ARRAY = np.zeros((8, 8, 3), np.uint8)
WRONG: list[tuple[str, object, str]] = [
    ("jpeg", ARRAY, r"bytes are wanted, not ndarray \(8, 8, 3\) of uint8: .*shardkit\.Encode\(\"jpeg\"\)"),
    ("jpeg", np.frombuffer(b"hello", np.uint8), "a JPEG file is wanted, not 5 bytes that begin with b'hello'"),
    ("jpeg", b"hello", "a JPEG file is wanted, not 5 bytes that begin with b'hello'"),
    ("jpeg", b"", "0 bytes"),
    ("jpeg", PNG, "a JPEG file is wanted, not PNG"),
    ("jpeg", "image.jpg", "bytes are wanted, not str"),
    ("png", JPEG, "a PNG file is wanted, not JPEG"),
    ("image", b"hello", "a known image file is wanted, not 5 bytes"),
    ("image", ARRAY, "bytes are wanted"),
    ("bytes", np.zeros(3), r"bytes are wanted, not ndarray \(3,\) of float64"),
    ("bytes", ARRAY, "bytes are wanted"),
    ("bytes", memoryview(np.zeros(3, "i4")), "bytes are wanted"),
    ("bytes", 3, "bytes are wanted, not int"),
    ("utf8", b"abc", "a str is wanted"),
    ("utf8", "\ud800", "surrogates"),
    ("json", {"a": float("nan")}, "not JSON compliant"),
    ("json", '{"a": NaN}', "JSON has no NaN"),
    ("json", b"[-Infinity]", "JSON has no -Infinity"),
    ("json", "{'a': 1}", "no JSON document"),
    ("json", b"\xff\xfe\x00", "no JSON document"),
    ("json", "", "no JSON document"),
    ("json", "[" * 100_000, "nested too deeply"),
    ("json", {1, 2}, "not JSON serializable"),
    ("rle", np.full((1, 2, 2), np.nan), "masks are pixels, 0 or not, and no float64 with NaN"),
    ("rle", np.array([["a"]]), "masks are pixels"),
    ("rle", np.zeros(4, bool), "masks, height, width"),
    ("rle", {"size": [3, 3], "counts": [1, 2]}, "3"),
    ("rle", {"size": [2, 2], "counts": [1, 2, 9]}, "12"),
    ("rle", {"size": [2, 2], "counts": [-1, 5]}, "."),
    ("rle", {"size": [2, 2], "counts": b"\x01\x02"}, "."),
    ("rle", "mask", "masks are pixels"),
]


@pytest.mark.parametrize(("kind", "given", "message"), WRONG)
def test_what_is_no_value_of_the_type(tmp_path: Path, kind: str, given: object, message: str) -> None:
    path = os.fspath(tmp_path / "out")
    with (
        sk.Writer(path, {"value": kind}) as writer,
        pytest.raises(ValueError, match=rf"(?s)sample 'the key', column value: .*{message}"),
    ):
        writer.write("the key", value=given)
    with pytest.raises(ValueError, match=r"row 0: sample '0{12}', column value: "):
        sk.pack([{"value": given}], tmp_path / "rows", columns={"value": kind})
    with sk.Writer(path + ".good", {"n": "i64"}) as writer:
        writer.write("a", n=1)
    with pytest.raises(ValueError, match="row 0, column value: "):
        sk.add_columns(path + ".good", [{"value": given}], columns={"value": kind})


def test_right_values(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "out")
    kinds = {"a": "jpeg", "b": "png", "c": "image", "d": "image", "e": "json", "f": "json", "g": "bytes", "h": "image"}
    with sk.Writer(path, kinds) as writer:
        writer.write(
            "k",
            a=bytearray(JPEG),
            b=memoryview(PNG),
            c=np.frombuffer(JPEG, np.uint8),
            d=b"GIF89a...",
            e={"ü": [1, None]},
            f=b" [1e999] ",
            g=np.frombuffer(b"abc", np.uint8),
            h=b"RIFF\x0a\x0d\xff\x00WEBPVP8 ",
        )
    sample = sk.open(path)[0]
    assert (sample["a"], sample["b"], sample["c"], sample["g"]) == (JPEG, PNG, JPEG, b"abc")
    assert (sample["e"], sample["f"]) == ({"ü": [1, None]}, [float("inf")])


def test_pixels_are_encoded(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    height, width = 40, 60
    smooth = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[:, :, None] + np.array([0, 9, 18])
    pixels = np.minimum(smooth, 255).astype(np.uint8)
    given: list[object] = [pixels, image.fromarray(pixels), pixels[:, :, 0], pixels[:, :, :1], JPEG, None]
    given.append(image.fromarray(pixels[:, :, 0]))
    given.append(np.asfortranarray(pixels))
    if importlib.util.find_spec("torch"):
        import torch

        given.append(torch.from_numpy(pixels))
    columns = {"image": sk.Encode("jpeg?", quality=95)}
    with sk.Writer(os.fspath(tmp_path / "out"), columns) as writer:
        for i, each in enumerate(given):
            writer.write(f"k{i}", image=each)
        for wrong, message in (
            (pixels / 255, "pixels are uint8, from 0 to 255, not float64"),
            (pixels.transpose(2, 0, 1), r"\[height, width, 3\] or \[height, width\], not \(3, 40, 60\)"),
            (pixels[:0], "have the shape"),
            (image.fromarray(pixels).convert("CMYK"), r"mode CMYK is no RGB: give image\.convert"),
            (b"hello", "a JPEG file is wanted"),
            ("image.jpg", "pixels are uint8"),
        ):
            with pytest.raises(ValueError, match=rf"sample 'bad', column image: .*{message}"):
                writer.write("bad", image=wrong)
    sk.pack([{"key": f"k{i}", "image": each} for i, each in enumerate(given)], tmp_path / "rows", columns=columns)
    for path in ("out", "rows"):
        samples = sk.open(os.fspath(tmp_path / path))
        assert str(samples.schema) == "Schema(key: utf8, image: jpeg?)"
        assert len(samples) == len(given)
        for each, sample in zip(given, samples, strict=True):
            if each is None or each is JPEG:
                assert sample["image"] == each
                continue
            wanted = np.asarray(each) if np.asarray(each).ndim == 3 else np.asarray(each)[:, :, None]
            decoded = sk.decode_image(sample["image"]).astype(int)
            assert np.abs(decoded - wanted).mean() < 2
        (batch,) = sk.Loader(os.fspath(tmp_path / path), 20, columns={"image": sk.Image(size=8)})
        assert batch["image"].shape == (len(given), 8, 8, 3)
    small = [len(sk.Encode(quality=quality)(pixels)) for quality in (10, 50, 95)]
    assert small == sorted(small)
    assert small[0] < small[2]
    for options, message in (({"kind": "png"}, "not 'png'"), ({"quality": 0}, "1 to 100"), ({"quality": True}, "1 to")):
        with pytest.raises((ValueError, TypeError), match=message):
            sk.Encode(**options)
    with pytest.raises(ValueError, match=r"row 0, column image: a value of Image has no type.*shardkit\.Encode"):
        sk.pack([{"image": image.fromarray(pixels)}], tmp_path / "inferred")
