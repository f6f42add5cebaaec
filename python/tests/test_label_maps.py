"""Label maps: the class numbers of PNGs, through the geometry of their image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk


def _labelled(path: Path, orientation: int = 1, upright: bool = False) -> tuple[str, Any]:
    """Write eight samples: a JPEG, and the class of each pixel as a PNG with a palette. Return the classes, too."""
    image = pytest.importorskip("PIL.Image")
    import io

    random = np.random.default_rng(3)
    classes = []
    with sk.Writer(os.fspath(path), {"image": "jpeg", "labels": "png"}) as w:
        for i in range(8):
            number = random.integers(0, 200, (24, 30)).astype(np.uint8)
            classes.append(number)
            labels = image.fromarray(number, "P")
            labels.putpalette([channel for n in range(256) for channel in (n // 2, 0, 0)])
            stored = labels.transpose(image.Transpose.ROTATE_270) if upright else labels
            exif = image.Exif()
            exif[0x0112] = orientation
            picture, png = io.BytesIO(), io.BytesIO()
            image.fromarray(np.repeat(number[:, :, None], 3, 2)).save(picture, "JPEG", quality=95, exif=exif.tobytes())
            stored.save(png, "PNG")
            w.write(str(i), image=picture.getvalue(), labels=png.getvalue())
    return os.fspath(path), classes


def test_label_maps_are_classes_and_follow_their_image(tmp_path: Path) -> None:
    path, classes = _labelled(tmp_path / "data")
    (batch,) = sk.Loader(path, 8, columns={"labels": sk.LabelMap()}, order="sequential")
    assert [batch["labels"][i].tolist() for i in range(8)] == [each.tolist() for each in classes]
    random = {"crop": "random", "size": 16, "flip": 0.5}
    wanted = {"image": sk.Image(**random), "labels": sk.LabelMap(dtype="i64")}
    (batch,) = sk.Loader(path, 8, columns=wanted, seed=5, order="sequential")
    labels = batch["labels"]
    assert labels.shape == (8, 16, 16)
    assert labels.dtype == np.int64
    assert all(set(np.unique(labels[i])) <= set(np.unique(each)) for i, each in enumerate(classes))
    # Of what is shown at its own size the pixels of both agree.
    square = {"crop": "center", "size": 24, "resize": 24, "flip": 0.5}
    (batch,) = sk.Loader(path, 8, columns={"image": sk.Image(**square), "labels": sk.LabelMap()}, order="sequential")
    assert np.abs(batch["image"][..., 0].astype(int) - batch["labels"]).mean() < 3
    padded = {"image": sk.Image(crop="longest", size=30), "labels": sk.LabelMap(fill=9)}
    (batch,) = sk.Loader(path, 8, columns=padded, order="sequential")
    assert (batch["labels"][:, 24:] == 9).all()
    assert all((batch["labels"][i, :24] == each).all() for i, each in enumerate(classes))


def test_where_a_label_map_is_absent_no_pixel_has_a_class(tmp_path: Path) -> None:
    path, classes = _labelled(tmp_path / "data")
    values = [values["labels"] for values in sk.open(path)]
    with sk.Writer(os.fspath(tmp_path / "some"), {"labels": "png?"}) as w:
        for i, value in enumerate(values):
            w.write(str(i), labels=None if i % 2 else value)
    for size in (None, sk.Geometry(kind="resize", width=30, height=24)):
        columns = {"labels": sk.LabelMap(dtype="i16", fill=-7)}
        (batch,) = sk.Loader(os.fspath(tmp_path / "some"), 8, columns=columns, geometry=size, order="sequential")
        for i, each in enumerate(classes):
            if i % 2 == 0:
                assert (batch["labels"][i] == each).all()
            elif size is None:
                assert batch["labels"][i] is None
            else:
                assert (batch["labels"][i] == -7).all()


def test_label_maps_as_tensors_and_through_the_stage_of_a_device(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    path, classes = _labelled(tmp_path / "data")
    columns = {"image": sk.Image(crop="random", size=16, flip=0.5), "labels": sk.LabelMap("i64")}
    made = [
        [batch["labels"].clone() for batch in skt.Loader(path, 3, seed=4, columns=columns | more, device=device)]
        for device, more in (
            ("host", {}),
            ("emulated", {}),
            ("emulated", {"image": sk.Image("random", 16, flip=0.5, dtype="f32")}),
        )
    ]
    for each in made:
        assert [labels.dtype for labels in each] == [torch.int64] * 3
        assert [len(labels) for labels in each] == [3, 3, 2]
        assert all(torch.equal(a, b) for a, b in zip(each, made[0], strict=True))
    (batch,) = skt.Loader(
        path,
        8,
        columns={"labels": sk.LabelMap("u16")},
        geometry=sk.Geometry(kind="resize", width=30, height=24),
        order="sequential",
    )
    assert batch["labels"].tolist() == [each.tolist() for each in classes]


@pytest.mark.parametrize("upright", [False, True])
def test_label_maps_turn_with_their_image(tmp_path: Path, upright: bool) -> None:
    path, classes = _labelled(tmp_path / "data", orientation=6, upright=upright)
    image = sk.Image(apply_orientation=True, crop="resize", size=(30, 24))
    (batch,) = sk.Loader(path, 8, columns={"image": image, "labels": sk.LabelMap()}, order="sequential")
    for i, each in enumerate(classes):
        assert (batch["labels"][i] == np.rot90(each, -1)).all()
        assert np.abs(batch["image"][i, ..., 0].astype(int) - batch["labels"][i]).mean() < 3
    if upright:
        with pytest.raises(sk.DataLossError, match="label map is of 24 x 30 pixels, its image of 30 x 24"):
            list(sk.Loader(path, 8, columns={"image": sk.Image(size=(30, 24)), "labels": sk.LabelMap()}))


def test_what_is_no_label_map_is_refused(tmp_path: Path) -> None:
    path, _ = _labelled(tmp_path / "data")
    with pytest.raises(ValueError, match="cannot be decoded as label maps"):
        sk.Loader(path, 8, columns={"image": sk.LabelMap()})
    with pytest.raises(ValueError, match="class numbers are integers"):
        sk.LabelMap(dtype="f32")
    for dtype, fill in (("u8", 256), ("u8", -1), ("i8", 255), ("i64", 1 << 63)):
        with pytest.raises(ValueError, match="does not fit"):
            sk.LabelMap(dtype=dtype, fill=fill)
    with pytest.raises(IndexError, match=r"class \d+, which does not fit the dtype"):
        list(sk.Loader(path, 8, columns={"labels": sk.LabelMap(dtype="i8", fill=0)}))


def test_depths_of_16_bits_keep_all_of_them(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    depth = np.random.default_rng(1).integers(0, 1 << 16, (12, 16)).astype(np.uint16)
    buffer = io.BytesIO()
    image.fromarray(depth).save(buffer, "PNG")
    path = os.fspath(tmp_path / "depth")
    with sk.Writer(path, {"depth": "png"}) as writer:
        writer.write("a", depth=buffer.getvalue())
    for dtype in ("u16", "i32", "i64"):
        (batch,) = sk.Loader(path, 1, columns={"depth": sk.LabelMap(dtype, fill=0)})
        np.testing.assert_array_equal(batch["depth"][0], depth)
    with pytest.raises(ValueError, match="a label map"):
        list(sk.Loader(path, 1, columns={"depth": sk.Image(channels=1)}))
