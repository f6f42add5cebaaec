"""Images turned by quarters and mirrored, and what belongs to them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

Image = pytest.importorskip("PIL.Image")
COUNT, HEIGHT, WIDTH = 10, 12, 20
TURNS = {"flip": 0.5, "vertical_flip": 0.5, "rotate90": True}


def pixels(i: int) -> np.ndarray[Any, Any]:
    """Return an image with one pixel of 255 in its red plane."""
    made = np.random.default_rng(i).integers(0, 250, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    y, x = (int(place) for place in np.random.default_rng(50 + i).integers(0, (HEIGHT, WIDTH)))
    made[y, x, 0] = 255
    return made


def png(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "png")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("turns") / "data")
    columns = {"image": "png", "labels": "png", "masks": "rle", "boxes": "i32[]", "points": "f32[]"}
    with sk.Writer(path, columns) as writer:
        for i in range(COUNT):
            image = pixels(i)
            ((y, x),) = np.argwhere(image[..., 0] == 255)
            writer.write(
                str(i),
                image=png(image),
                labels=png(image[..., 0]),
                masks=(image[..., 1] > 128)[None],
                boxes=np.array([[x, y, 1, 1]], np.int32),
                points=np.array([[x + 0.5, y + 0.5]], np.float32),
            )
    return path


def all_turns(image: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    return [np.rot90(each, k) for each in (image, image[:, ::-1]) for k in range(4)]


KINDS = {
    "labels": sk.LabelMap(),
    "masks": sk.DenseMasks(),
    "boxes": sk.Boxes("xywh", to="xywh"),
    "points": sk.Points(),
}


@pytest.mark.parametrize(
    ("options", "ways"),
    [(TURNS, 8), ({"rotate90": True}, 4), ({"vertical_flip": 0.5}, 2), ({"vertical_flip": 1.0}, 1), ({"flip": 0.5}, 2)],
)
def test_all_that_lies_on_an_image_turns_with_it(path: str, options: Any, ways: int) -> None:
    columns = {"image": sk.Image(**options), **KINDS}
    loader = sk.Loader(path, COUNT, columns=columns, seed=4)
    counts: dict[int, int] = {}
    for _ in range(60):
        for batch in loader:
            for k, i in enumerate(batch.ordinals.tolist()):
                image = batch["image"][k]
                (way,) = [n for n, each in enumerate(all_turns(pixels(i))) if np.array_equal(each, image)]
                counts[way] = counts.get(way, 0) + 1
                assert np.array_equal(batch["labels"][k].reshape(image.shape[:2]), image[..., 0])
                (mask,) = batch["masks"][k]
                assert np.array_equal(mask.reshape(image.shape[:2]), image[..., 1] > 128)
                ((y, x),) = np.argwhere(image[..., 0] == 255)
                assert batch["boxes"][k].tolist() == [[x, y, 1, 1]]
                assert batch["points"][k].tolist() == [[x + 0.5, y + 0.5]]
    assert len(counts) == ways
    if options == {"vertical_flip": 1.0}:
        assert np.array_equal(all_turns(pixels(0))[next(iter(counts))], pixels(0)[::-1])
    for count in counts.values():
        assert abs(count - 600 / ways) < 5 * (600 / ways) ** 0.5


@pytest.mark.parametrize("crop", ["random", "center", "resize", "longest"])
def test_crops_stay_what_they_are_without_turns(path: str, crop: Any) -> None:
    def images(**options: Any) -> list[Any]:
        kinds = {"image": sk.Image(crop=crop, size=8, **options), "labels": sk.LabelMap(), "points": sk.Points()}
        loader = sk.Loader(path, COUNT, columns=kinds, seed=4)
        return [(batch["image"].copy(), batch["points"].copy()) for _ in range(3) for batch in loader]

    plain, mirrored = images(), images(vertical_flip=0.0, rotate90=False)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(plain, mirrored, strict=True))
    turned = images(**TURNS)
    assert not all(np.array_equal(a[0], b[0]) for a, b in zip(plain, turned, strict=True))
    assert all(a[0].shape == b[0].shape for a, b in zip(plain, turned, strict=True))


def test_views_turn_by_themselves(path: str) -> None:
    view = sk.Image(source="image", own_geometry=True, **TURNS)
    same = 0
    for batch in sk.Loader(path, COUNT, columns={"a": view, "b": view}):
        for k, i in enumerate(batch.ordinals.tolist()):
            ways = [
                next(n for n, each in enumerate(all_turns(pixels(i))) if np.array_equal(each, batch[name][k]))
                for name in ("a", "b")
            ]
            same += ways[0] == ways[1]
    assert same < COUNT


def test_after_exif(tmp_path: Path) -> None:
    upright = np.zeros((16, 32, 3), np.uint8)
    upright[:8, :8] = 255  # upper left
    with sk.Writer(tmp_path / "data", {"image": "jpeg"}) as writer:
        for orientation, stored in {
            1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
            5: upright.transpose(1, 0, 2), 6: np.rot90(upright, 1), 7: np.rot90(upright, 2).transpose(1, 0, 2),
            8: np.rot90(upright, 3),
        }.items():  # fmt: skip
            exif = Image.Exif()
            exif[0x112] = orientation
            buffer = io.BytesIO()
            Image.fromarray(np.ascontiguousarray(stored)).save(buffer, "jpeg", exif=exif, quality=95)
            writer.write(str(orientation), image=buffer.getvalue())
    for options, possible in (
        ({}, [upright]),
        ({"vertical_flip": 1.0}, [upright[::-1]]),
        ({"rotate90": True}, [np.rot90(upright, k) for k in range(4)]),
        (TURNS, all_turns(upright)),
    ):
        for batch in sk.Loader(tmp_path / "data", 4, columns={"image": sk.Image(apply_orientation=True, **options)}):
            for image in batch["image"]:
                assert any(
                    each.shape == image.shape and np.abs(each - image.astype(int)).max() < 40 for each in possible
                )


def test_on_a_device(path: str) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    columns = {
        "image": sk.Image(crop="random", size=16, scaled_decode=False, **TURNS),
        "masks": sk.DenseMasks(),
        "boxes": sk.Boxes(),
    }
    host = skt.Loader(path, 4, columns=columns, seed=3)
    there = skt.Loader(path, 4, columns=columns, seed=3, device="emulated", device_geometry=True)
    for one, other in zip(host, there, strict=True):
        assert torch.equal(one["image"], other["image"])
        assert one["masks"].values.tolist() == other["masks"].values.tolist()
        assert torch.equal(one["boxes"], other["boxes"])


def test_what_is_refused() -> None:
    for name, value in (("vertical_flip", 1.5), ("vertical_flip", True), ("rotate90", 0.5)):
        with pytest.raises((TypeError, ValueError), match=name):
            sk.Image(**{name: value})  # type: ignore[arg-type]
