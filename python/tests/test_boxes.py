"""Boxes, points and what belongs to them, through the geometry of their image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

COUNT = 18
HEIGHT, WIDTH = 60, 84
FORMATS = ("xywh", "xyxy", "cxcywh")


def objects(i: int) -> list[tuple[int, int, int, int]]:
    """Return boxes of whole pixels, as left, top, width and height; of every sixth sample none."""
    random = np.random.default_rng(i)
    made = []
    for _ in range(i % 6):
        width, height = int(random.integers(3, 40)), int(random.integers(3, 30))
        made.append((int(random.integers(0, WIDTH - width)), int(random.integers(0, HEIGHT - height)), width, height))
    return made


def as_format(boxes: Any, form: str) -> np.ndarray[Any, Any]:
    x, y, w, h = np.asarray(boxes, np.float64).reshape(-1, 4).T
    made = {"xywh": (x, y, w, h), "xyxy": (x, y, x + w, y + h), "cxcywh": (x + w / 2, y + h / 2, w, h)}[form]
    return np.stack(made, axis=1)


@pytest.fixture(scope="module")
def detection(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images with boxes in three formats, masks that fill them, classes, and points at their middles."""
    path = os.fspath(tmp_path_factory.mktemp("boxes") / "data")
    columns = {
        "image": sk.Encode(quality=95),
        "masks": "rle",
        "xywh": "i32[]",
        "xyxy": "f64[]",
        "cxcywh": "f32[]",
        "category": "i64[]",
        "points": "f32[]",
        "keypoints": "f32[]",
    }
    with sk.Writer(path, columns, max_block_samples=4) as writer:
        for i in range(COUNT):
            boxes = objects(i)
            masks = np.zeros((len(boxes), HEIGHT, WIDTH), np.uint8)
            for mask, (x, y, w, h) in zip(masks, boxes, strict=True):
                mask[y : y + h, x : x + w] = 1
            middles = as_format(boxes, "cxcywh")[:, :2]
            corners = np.concatenate(
                [as_format(boxes, "xyxy").reshape(-1, 2, 2), np.full((len(boxes), 2, 1), 2)], axis=2
            )
            writer.write(
                f"key {i}",
                image=np.random.default_rng(i).integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8),
                masks=sk.Masks.from_dense(masks),
                xywh=as_format(boxes, "xywh").astype(np.int32),
                xyxy=as_format(boxes, "xyxy"),
                cxcywh=as_format(boxes, "cxcywh").astype(np.float32),
                category=100 * i + np.arange(len(boxes)),
                points=middles.astype(np.float32),
                keypoints=corners.astype(np.float32),
            )
    return path


GEOMETRIES: dict[str, dict[str, Any]] = {
    "native": {},
    "random": {"crop": "random", "size": 50, "flip": 0.5},
    "random, wide": {"crop": "random", "size": (30, 70), "flip": 0.5},
    "center": {"crop": "center", "size": 40, "flip": 0.5},
    "resize": {"crop": "resize", "size": (90, 40)},
    "longest": {"crop": "longest", "size": 64},
}


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_boxes_are_where_their_masks_are(detection: str, geometry: str) -> None:
    columns = {
        "image": sk.Image(**GEOMETRIES[geometry]),
        "masks": sk.DenseMasks(),
        "xywh": sk.Boxes("xywh", min_area=0, with_columns=["category"]),
        "points": sk.Points(),
    }
    moved = 0
    for batch in sk.Loader(detection, 5, columns=columns, seed=2):
        assert batch["xywh"].dtype == np.float32
        assert batch["xywh"].shape[2] == 4
        for i, ordinal in enumerate(batch.ordinals.tolist()):
            boxes = objects(ordinal)
            count = batch.counts("xywh")[i]
            assert count == batch.counts("category")[i] == batch.counts("points")[i] == len(boxes)
            assert batch["category"][i, :count].tolist() == [100 * ordinal + k for k in range(count)]
            assert not batch["xywh"][i, count:].any()
            for k, mask in enumerate(batch["masks"][i] if count else ()):
                left, top, right, bottom = batch["xywh"][i, k]
                rows, seen = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
                if len(rows) == 0:
                    assert (right - left < 2.5) or (bottom - top < 2.5), (
                        "what a crop leaves out has no area, or hardly one"
                    )
                    continue
                # A pixel of the output is in the mask when its middle is.
                expected = np.array([seen[0], rows[0], seen[-1] + 1, rows[-1] + 1])
                step = np.maximum(1, np.array([right - left, bottom - top] * 2) / np.array(boxes[k][2:] * 2))
                assert np.all(np.abs(expected - [left, top, right, bottom]) <= step / 2 + 0.51)
                moved += 1
    assert moved > 15


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("form", FORMATS)
def test_formats(detection: str, form: str, to: str) -> None:
    loader = sk.Loader(
        detection, 4, columns={"image": sk.Image(), form: sk.Boxes(form, to=to, padding=-1)}, order="sequential"
    )
    for batch in loader:
        for i, ordinal in enumerate(batch.ordinals.tolist()):
            count = batch.counts(form)[i]
            np.testing.assert_allclose(batch[form][i, :count], as_format(objects(ordinal), to), atol=1e-4)
            assert np.all(batch[form][i, count:] == -1)


def test_what_a_crop_leaves_out(detection: str) -> None:
    def boxes(**options: Any) -> tuple[Any, Any]:
        columns = {
            "image": sk.Image(crop="random", size=32, flip=0.5),
            "xywh": sk.Boxes("xywh", with_columns=["category", "points", "keypoints"], **options),
            "points": sk.Points(),
            "keypoints": sk.Points(padding=-5),
        }
        (batch,) = sk.Loader(detection, COUNT, columns=columns, seed=9, order="sequential")
        return batch, batch.counts("xywh")

    every, all_counts = boxes(min_area=0, clip=False)
    assert all_counts.tolist() == [len(objects(i)) for i in range(COUNT)]
    some, counts = boxes(min_area=30)
    assert 0 < counts.sum() < all_counts.sum()
    for i in range(COUNT):
        whole = every["xywh"][i, : all_counts[i]]
        seen = np.clip(whole, 0, 32)
        area = (seen[:, 2] - seen[:, 0]) * (seen[:, 3] - seen[:, 1])
        kept = np.flatnonzero(area >= 30)
        assert counts[i] == len(kept)
        np.testing.assert_allclose(some["xywh"][i, : counts[i]], seen[kept], atol=1e-4)
        assert some["category"][i, : counts[i]].tolist() == [100 * i + k for k in kept]
        np.testing.assert_array_equal(some["points"][i, : counts[i]], every["points"][i, : all_counts[i]][kept])
        np.testing.assert_array_equal(some["keypoints"][i, : counts[i]], every["keypoints"][i, : all_counts[i]][kept])
        assert np.all(some["keypoints"][i, counts[i] :] == -5)
        # Corners of the box, as two points; flips change their sides.
        corners = every["keypoints"][i, : all_counts[i]]
        np.testing.assert_allclose(np.sort(corners[:, :, 0], axis=1), whole[:, [0, 2]], atol=1e-3)
        np.testing.assert_allclose(np.sort(corners[:, :, 1], axis=1), whole[:, [1, 3]], atol=1e-3)
        assert np.all(corners[:, :, 2] == 2), "what is behind x and y stays"
    unclipped, again = boxes(min_area=30, clip=False)
    assert again.tolist() == counts.tolist()
    assert np.abs(unclipped["xywh"]).max() > 32


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations(tmp_path: Path, orientation: int) -> None:
    """Boxes on the upright picture are used as they are; those on the stored one turn with it."""
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif[0x0112] = orientation
    picture = tmp_path / "picture.jpg"
    image.fromarray(np.zeros((40, 60, 3), np.uint8)).save(picture, exif=exif)
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"image": "jpeg", "boxes": "f32[]"}) as writer:
        writer.write("a", image=picture.read_bytes(), boxes=np.array([[5, 10, 20, 8]], np.float32))

    def box(**options: Any) -> list[float]:
        loader = sk.Loader(
            path,
            1,
            columns={"image": sk.Image(apply_orientation=True), "boxes": sk.Boxes("xywh", to="xywh", **options)},
        )
        (batch,) = loader
        return [float(value) for value in batch["boxes"][0, 0]]

    assert box() == [5, 10, 20, 8]
    turned = {
        1: [5, 10, 20, 8],
        2: [35, 10, 20, 8],
        3: [35, 22, 20, 8],
        4: [5, 22, 20, 8],
        5: [10, 5, 8, 20],
        6: [22, 5, 8, 20],
        7: [22, 35, 8, 20],
        8: [10, 35, 8, 20],
    }
    assert box(upright=False) == turned[orientation]
    # Where the image is not turned, boxes on the upright picture would lie elsewhere.
    columns = {"image": sk.Image(), "boxes": sk.Boxes("xywh", to="xywh")}
    if orientation == 1:
        assert len(list(sk.Loader(path, 1, columns=columns))) == 1
    else:
        with pytest.raises(ValueError, match="turned by its EXIF orientation"):
            list(sk.Loader(path, 1, columns=columns))
    (batch,) = sk.Loader(path, 1, columns={**columns, "boxes": sk.Boxes("xywh", to="xywh", upright=False)})
    assert batch["boxes"][0, 0].tolist() == [5, 10, 20, 8]


def test_functions_get_the_items_of_a_sample(detection: str) -> None:
    columns = {
        "image": sk.Image(),
        "xywh": [sk.Boxes("xywh"), len],
        "category": [sk.Items(), sk.Map(list, collate="list")],
    }
    for batch in sk.Loader(detection, 4, columns=columns):
        assert batch["xywh"].tolist() == [len(objects(i)) for i in batch.ordinals]
        assert [len(each) for each in batch["category"]] == [len(objects(i)) for i in batch.ordinals]


def test_tensors_and_devices(detection: str) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    columns = {"image": sk.Image(crop="random", size=32), "xywh": sk.Boxes("xywh", with_columns=["category"])}
    host, emulated = (
        list(skt.Loader(detection, 5, columns=columns, seed=4, device=device)) for device in ("host", "emulated")
    )
    for a, b in zip(host, emulated, strict=True):
        assert isinstance(a["xywh"], torch.Tensor)
        for name in ("xywh", "category"):
            assert torch.equal(a[name], b[name])
            assert a.counts(name).tolist() == b.counts(name).tolist()


def test_as_torchvision_has_them(detection: str) -> None:
    """Crops, flips and sizes of torchvision's own boxes, at the place that the loader has drawn."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision.tv_tensors")
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    columns = {
        "image": sk.Image(crop="random", size=(48, 40), flip=0.5, deferred=True),
        "xywh": sk.Boxes("xywh", min_area=1),
    }
    for batch in sk.Loader(detection, 6, columns=columns, seed=3):
        for i, (ordinal, place) in enumerate(zip(batch.ordinals.tolist(), batch.geometries("image"), strict=True)):
            boxes = tv_tensors.BoundingBoxes(
                torch.tensor(objects(ordinal), dtype=torch.float64).reshape(-1, 4),
                format="XYWH",
                canvas_size=(HEIGHT, WIDTH),
            )
            box = [int(place[name]) for name in ("source_y", "source_x", "source_height", "source_width")]
            boxes = v2.functional.resized_crop(boxes, *box, size=[48, 40])
            if place["flip"]:
                boxes = v2.functional.horizontal_flip(boxes)
            boxes = v2.functional.clamp_bounding_boxes(
                v2.functional.convert_bounding_box_format(boxes, new_format="XYXY")
            )
            wide, high = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
            expected = boxes[wide * high >= 1].numpy()
            np.testing.assert_allclose(batch["xywh"][i, : batch.counts("xywh")[i]], expected, atol=0.02)


WRONG: list[tuple[Any, str]] = [
    ({"xywh": sk.Boxes()}, "lie on an image"),
    ({"image": sk.Image(), "masks": sk.Boxes()}, "cannot be decoded as boxes"),
    ({"image": sk.Image(), "xywh": sk.Boxes(with_columns=["image"])}, "cannot lose the entries"),
    ({"image": sk.Image(), "xywh": sk.Boxes(with_columns=["nothing"])}, "nothing"),
    ({"image": sk.Image(), "points": sk.Points(along="xywh")}, "which is no column of boxes"),
    ({"image": sk.Image(), "image2": sk.Items()}, "image2"),
    ({"image": sk.Image(), "category": sk.Points()}, "points have two numbers"),
    ({"image": sk.Image(), "points": sk.Boxes()}, "a box has four numbers, not 2"),
    ({"image": sk.Image(), "points": sk.Items(padding=1 << 40), "xywh": sk.Items(padding=1 << 40)}, "does not fit i32"),
]


@pytest.mark.parametrize(("columns", "message"), WRONG)
def test_what_is_refused(detection: str, columns: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        list(sk.Loader(detection, 4, columns=columns))


def test_padding_that_a_type_cannot_have(tmp_path: Path) -> None:
    for kind in ("f16", "bf16", "u8", "bool"):
        path = os.fspath(tmp_path / kind)
        with sk.Writer(path, {"array": f"{kind}[]"}) as writer:
            for i in range(2):
                writer.write(
                    str(i),
                    array=np.ones(i + 1, {"f16": np.float16, "bf16": np.uint16}.get(kind, kind.replace("u8", "uint8"))),
                )
        with pytest.raises(ValueError, match=f"a padding of -1 does not fit {kind}"):
            sk.Loader(path, 2, columns={"array": sk.Items(padding=-1)})
        (batch,) = sk.Loader(path, 2, columns={"array": sk.Items()}, order="sequential")
        assert batch["array"].shape == (2, 2)
        assert not batch["array"][0, 1]


def test_arguments() -> None:
    for make, message in (
        (lambda: sk.Boxes("xyhw"), "give one of xywh"),
        (lambda: sk.Boxes(to="corners"), "give one of xywh"),
        (lambda: sk.Boxes(min_area=-1), "min_area"),
        (lambda: sk.Boxes(with_columns="category"), "give a list"),
        (lambda: sk.Points(padding=1 << 64), "64 bits"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            make()


def test_other_numbers_of_entries_make_a_bad_sample(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "data")
    with sk.Writer(path, {"image": sk.Encode(), "boxes": "f32[]", "category": "i64[]"}) as writer:
        for i, classes in enumerate(([1, 2], [3], [])):
            pixels = np.zeros((20, 20, 3), np.uint8)
            boxes = np.tile(np.array([2, 2, 9, 9], np.float32), (2 if i < 2 else 0, 1))
            writer.write(str(i), image=pixels, boxes=boxes, category=np.array(classes, np.int64))
    columns = {"image": sk.Image(), "boxes": sk.Boxes(with_columns=["category"])}
    with pytest.raises(ValueError, match='has 1 items, and column "boxes" 2'):
        list(sk.Loader(path, 3, columns=columns, order="sequential"))
    (batch,) = sk.Loader(path, 3, columns=columns, order="sequential", bad_samples="skip")
    assert batch.ordinals.tolist() == [0, 2]
    assert batch["category"].tolist() == [[1, 2], [0, 0]]
    assert batch.counts("boxes").tolist() == [2, 0]
