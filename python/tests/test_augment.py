"""Crops with padding, letterboxes, changes of colors, erasing, interpolation, and images that are stored as arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

Array = np.ndarray[Any, Any]
SIDE = 32
COUNT = 60


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Array]:
    """Small photographs as arrays: smooth, in bright colors."""
    path = os.fspath(tmp_path_factory.mktemp("augment") / "cifar")
    random = np.random.default_rng(1)
    coarse = random.integers(0, 256, (COUNT, 5, 5, 3)).astype(np.uint8)
    images = np.repeat(np.repeat(coarse, 7, 1), 7, 2)[:, 2 : 2 + SIDE, 1 : 1 + SIDE]
    with sk.Writer(path, {"image": f"u8[{SIDE},{SIDE},3]", "label": "i64"}, max_block_samples=16) as writer:
        for i in range(COUNT):
            writer.write(str(i), image=images[i], label=i % 10)
    return path, images


def only(path: str, image: sk.Image, **options: Any) -> Array:
    """Return the images of all samples in order."""
    (batch,) = sk.Loader(path, COUNT, columns={"image": image}, order="sequential", **options)
    return np.array(batch["image"])


def test_arrays_are_images(cifar: tuple[str, Array], tmp_path: Path) -> None:
    path, images = cifar
    np.testing.assert_array_equal(only(path, sk.Image()), images)
    floats = only(path, sk.Image(dtype="f32", mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)))
    wanted = (images / 255 - np.array((0.5, 0.4, 0.3))) / np.array((0.2, 0.3, 0.4))
    np.testing.assert_allclose(floats, wanted.transpose(0, 3, 1, 2), atol=1e-5)
    gray = only(path, sk.Image(channels=1))
    np.testing.assert_allclose(gray[..., 0], images @ np.array((0.299, 0.587, 0.114)), atol=0.6)
    # The same as of files without loss.
    image = pytest.importorskip("PIL.Image")
    import io

    files = os.fspath(tmp_path / "png")
    with sk.Writer(files, {"image": "png"}, max_block_samples=16) as writer:
        for i in range(COUNT):
            buffer = io.BytesIO()
            image.fromarray(images[i]).save(buffer, "PNG")
            writer.write(str(i), image=buffer.getvalue())
    for options in (
        {"crop": "random", "size": 20, "flip": 0.5, "rotate90": True},
        {"crop": "window", "size": (40, 24), "padding": 5, "zoom": (0.5, 2.0), "vertical_flip": 0.5},
        {"crop": "center", "resize": 40, "size": 36, "interpolation": "bicubic"},
        {"crop": "letterbox", "size": (30, 50), "channels": 1},
    ):
        np.testing.assert_array_equal(only(path, sk.Image(**options)), only(files, sk.Image(**options)), str(options))


@pytest.mark.parametrize("kind", ["u8[]", "u8[6,8]", "u8[6,8,1]"])
def test_gray_arrays(tmp_path: Path, kind: str) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8, *([1] if kind.endswith(",1]") else []))
    with sk.Writer(os.fspath(tmp_path / "gray"), {"image": kind}) as writer:
        writer.write("a", image=pixels)
    (batch,) = sk.Loader(os.fspath(tmp_path / "gray"), 1, columns={"image": sk.Image(size=(6, 8))})
    assert (batch["image"][0] == pixels.reshape(6, 8, 1)).all()


@pytest.mark.parametrize(
    ("kind", "shape", "error"),
    [
        ("u8[3,6,8]", (3, 6, 8), "cannot be decoded as images"),
        ("f32[6,8,3]", (6, 8, 3), "cannot be decoded as images"),
        ("u8[]", (3, 6, 8), "an array of 3 x 6 x 8 is no image"),
        ("u8[]", (6, 0, 3), "an image of 0 x 6 pixels"),
    ],
)
def test_arrays_that_are_no_images(tmp_path: Path, kind: str, shape: tuple[int, ...], error: str) -> None:
    path = os.fspath(tmp_path / "none")
    with sk.Writer(path, {"image": kind}) as writer:
        writer.write("a", image=np.zeros(shape, kind[0] + "4" if kind[0] == "f" else np.uint8))
    with pytest.raises((ValueError, sk.DataLossError), match=error):
        list(sk.Loader(path, 1, columns={"image": sk.Image(size=4)}))


def test_window_is_a_crop_of_the_padded_image(cifar: tuple[str, Array]) -> None:
    path, images = cifar
    fill = (9, 8, 7)
    image = sk.Image(crop="window", size=SIDE, padding=4, flip=0.5, fill=fill)
    loader = sk.Loader(path, COUNT, columns={"image": image}, order="sequential")
    places = set()
    for _ in range(3):
        (batch,) = loader
        for before, after in zip(images, batch["image"], strict=True):
            padded = np.full((SIDE + 8, SIDE + 8, 3), fill, np.uint8)
            padded[4:-4, 4:-4] = before
            found = [
                (y, x, flip)
                for y in range(9)
                for x in range(9)
                for flip in (1, -1)
                if (padded[y : y + SIDE, x : x + SIDE][:, ::flip] == after).all()
            ]
            assert found
            places.update(found)
    assert len(places) > 100  # of 162


def _plain(value: Any) -> Array:
    """Return the numbers of an array, a tensor, or of masks of either."""
    return np.asarray(value if hasattr(value, "shape") else value.values)


@pytest.mark.parametrize(
    "options",
    [
        {"crop": "window", "size": (40, 48), "padding": 6, "flip": 0.5, "vertical_flip": 0.5},
        {"crop": "window", "size": 40, "flip": 0.5, "rotate90": True},
        {"crop": "letterbox", "size": (96, 120), "flip": 0.5},
        {"crop": "longest", "size": 96, "flip": 0.5},
    ],
)
def test_what_lies_on_an_image_moves_with_it(tmp_path: Path, options: dict[str, Any]) -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    path = os.fspath(tmp_path / "data")
    random = np.random.default_rng(5)
    columns = {"image": "u8[48,36,3]", "labels": "png", "masks": "rle", "boxes": "i32[]"}
    with sk.Writer(path, columns) as writer:
        for i in range(20):
            x, y = random.integers(0, 20), random.integers(0, 30)
            w, h = random.integers(4, 16), random.integers(4, 18)
            mask = np.zeros((48, 36), np.uint8)
            mask[y : y + h, x : x + w] = 1
            buffer = io.BytesIO()
            image.fromarray(mask * 7).save(buffer, "PNG")
            pixels = np.repeat(mask[:, :, None] * 255, 3, 2)
            writer.write(str(i), image=pixels, labels=buffer.getvalue(), masks=mask[None], boxes=[[x, y, w, h]])
    wanted = {
        "image": sk.Image(**options),
        "labels": sk.LabelMap(fill=0),
        "masks": sk.DenseMasks(pad_masks=True),
        "boxes": sk.Boxes(min_area=0),
    }
    (batch,) = sk.Loader(path, 20, columns=wanted, order="sequential")
    loader = pytest.importorskip("shardkit.torch").Loader
    (emulated,) = loader(path, 20, columns=wanted, order="sequential", device="emulated", device_geometry=True)
    geometries = batch.geometries("image")
    for i in range(20):
        seen = batch["image"][i][..., 0] > 127
        np.testing.assert_array_equal(seen, batch["labels"][i] == 7)
        np.testing.assert_array_equal(seen, batch["masks"][i][0] == 1)
        left, top, right, bottom = batch["boxes"][i, 0]
        ys, xs = np.nonzero(seen)
        if not len(ys):
            assert (right - left) * (bottom - top) < 1
            continue
        assert np.abs(np.array([left, top, right, bottom]) - [xs[0], ys[0], xs[-1] + 1, ys[-1] + 1]).max() <= 1.01
        place = geometries[i]
        assert place["content_left"] <= left
        assert right <= place["content_left"] + place["content_width"]
    for name in wanted:
        np.testing.assert_array_equal(_plain(emulated[name]), _plain(batch[name]), name)
    assert (emulated.geometries("image") == geometries).all()


def _nearest(after: Array, candidates: list[Array]) -> int:
    """Return how far `after` is from the candidate that is nearest to it."""
    return min(int(np.abs(after.astype(int) - each).max()) for each in candidates)


def test_colors_change_as_in_pillow(cifar: tuple[str, Array]) -> None:
    image = pytest.importorskip("PIL.Image")
    enhance = pytest.importorskip("PIL.ImageEnhance")
    path, images = cifar
    for part, kind in enumerate((enhance.Brightness, enhance.Contrast, enhance.Color)):
        jitter = [0.0] * 4
        jitter[part] = 0.4
        made = only(path, sk.Image(jitter=tuple(jitter)))
        changed = 0
        for before, after in zip(images[:8], made[:8], strict=True):
            enhancer = kind(image.fromarray(before))
            candidates = [np.asarray(enhancer.enhance(f)).astype(int) for f in np.arange(0.59, 1.41, 0.001)]
            # Half a step of the factors away from one, of 255.
            assert _nearest(after, candidates) <= 2, kind
            changed += not (before == after).all()
        assert changed >= 7
    gray = only(path, sk.Image(grayscale=1.0))
    for before, after in zip(images, gray, strict=True):
        np.testing.assert_array_equal(after[..., 1], np.asarray(image.fromarray(before).convert("L")))
        assert (after == after[..., :1]).all()
    kept = only(path, sk.Image(grayscale=0.3))
    assert 5 <= sum((after == after[..., :1]).all() for after in kept) <= 35


def test_hue_turns_as_in_torchvision(cifar: tuple[str, Array]) -> None:
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchvision.transforms.functional")
    path, images = cifar
    made = only(path, sk.Image(jitter=(0, 0, 0, 0.1)))
    for before, after in zip(images[:6], made[:6], strict=True):
        pixels = torch.from_numpy(before.transpose(2, 0, 1).copy())
        candidates = [
            functional.adjust_hue(pixels, turn).numpy().transpose(1, 2, 0).astype(int)
            for turn in np.arange(-0.1, 0.1005, 0.0005)
        ]
        assert _nearest(after, candidates) <= 3
        assert (before.max(2) == after.max(2)).all()
    part = only(path, sk.Image(jitter=(0.4, 0.4, 0.4, 0.1), jitter_probability=0.25))
    assert 30 <= sum((before == after).all() for before, after in zip(images, part, strict=True)) <= 58


def test_erased_pixels_are_the_mean(cifar: tuple[str, Array]) -> None:
    path, _ = cifar
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    whole = only(path, sk.Image(dtype="f32", mean=mean, std=std))
    made = only(path, sk.Image(dtype="f32", mean=mean, std=std, erasing=0.5))
    boxes = 0
    for before, after in zip(whole, made, strict=True):
        ys, xs = np.nonzero((before != after).any(0))
        if len(ys):
            box = after[:, ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
            assert np.abs(box).max() < 0.01
            boxes += 1
    assert 15 <= boxes <= 45
    black = only(path, sk.Image(erasing=1.0))
    assert all((after == 0).all(2).sum() >= SIDE * SIDE * 0.01 for after in black)


def test_bicubic_is_pillows(cifar: tuple[str, Array]) -> None:
    image = pytest.importorskip("PIL.Image")
    path, images = cifar
    for size in ((20, 24), (224, 224), (48, 20)):
        made = only(path, sk.Image(size=size, interpolation="bicubic"))
        for before, after in zip(images[:5], made[:5], strict=True):
            wanted = image.fromarray(before).resize(size[::-1], image.Resampling.BICUBIC)
            np.testing.assert_array_equal(after, np.asarray(wanted))


# The same for any threads, ranks and resumes, and other changes in each epoch, view and copy.
def test_changes_depend_on_the_sample_alone(cifar: tuple[str, Array]) -> None:
    path, _ = cifar
    image = sk.Image(
        crop="window", size=SIDE, padding=4, zoom=(0.8, 1.2), jitter=(0.4, 0.4, 0.4, 0.1), grayscale=0.2, erasing=0.25
    )

    def read(**options: Any) -> dict[tuple[int, int], bytes]:
        loader = sk.Loader(path, columns={"image": image}, seed=3, **options)
        return {
            (epoch, int(ordinal)): batch["image"][i].tobytes()
            for epoch in range(2)
            for batch in loader
            for i, ordinal in enumerate(batch.ordinals)
        }

    one = read(batch_size=7, decode_threads=1)
    assert len(one) == 2 * COUNT
    assert one == read(batch_size=16, decode_threads=3)
    ranks = [read(global_batch_size=12, rank=rank, world_size=2) for rank in range(2)]
    assert one == ranks[0] | ranks[1]
    assert sum(one[0, i] == one[1, i] for i in range(COUNT)) == 0
    views = {name: sk.Image(source="image", jitter=(0.4, 0, 0, 0), own_geometry=True) for name in "ab"}
    (batch,) = sk.Loader(path, COUNT, columns=views)
    assert (batch["a"] != batch["b"]).any()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"crop": "center", "size": 8, "padding": 4}, "padding is what"),
        ({"crop": "window", "size": 8, "padding": 8}, "padding is below both sides"),
        ({"crop": "window", "size": 8, "zoom": (0.0, 1.0)}, "zooms 0 < min"),
        ({"crop": "window", "size": 8, "zoom": 2}, "zoom=2: give the least"),
        ({"crop": "random", "size": 8, "zoom": (0.5, 1.0)}, "zoom is for crop"),
        ({"crop": "window"}, "needs a size"),
        ({"interpolation": "lanczos"}, "interpolation"),
        ({"jitter": (0.4, 0.4)}, "jitter="),
        ({"jitter": (0.4, 0.4, 0.4, 0.6)}, "a hue up to 0.5"),
        ({"jitter": (-0.1, 0, 0, 0)}, "jitter="),
        ({"jitter": 0.4}, "jitter="),
        ({"jitter_probability": 0.5}, "there is none"),
        ({"channels": 1, "jitter": (0.4, 0.4, 0.4, 0)}, "gray has no saturation"),
        ({"channels": 1, "grayscale": 0.5}, "these are gray"),
        ({"grayscale": True}, "grayscale=True: give a probability"),
        ({"erasing": 1.5}, "erasing=1.5: give a probability"),
        ({"erasing": 0.5, "deferred": True}, "deferred images come as stored"),
    ],
)
def test_refused(cifar: tuple[str, Array], options: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        only(cifar[0], sk.Image(**options))


def test_device_geometry_changes_no_pixels(cifar: tuple[str, Array]) -> None:
    loader = pytest.importorskip("shardkit.torch").Loader
    columns = {"image": sk.Image(size=8, grayscale=0.5)}
    with pytest.raises(ValueError, match="with device_geometry have none to change"):
        loader(cifar[0], 8, columns=columns, device="emulated", device_geometry=True)
    (host,) = sk.Loader(cifar[0], COUNT, columns=columns)
    (device,) = loader(cifar[0], COUNT, columns=columns, device="emulated")
    np.testing.assert_array_equal(device["image"].numpy(), host["image"])
