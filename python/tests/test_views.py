"""Several views of one image, and what belongs to each."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import shardkit as sk


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images with a bright square each, its mask, its box and its middle."""
    path = os.fspath(tmp_path_factory.mktemp("views") / "data")
    columns = {"image": sk.Encode(quality=95), "masks": "rle", "boxes": "i32[]", "middle": "f32[]", "label": "i64"}
    with sk.Writer(path, columns) as writer:
        for i in range(12):
            left, top = np.random.default_rng(i).integers(0, 50, 2)
            pixels = np.zeros((80, 90, 3), np.uint8)
            pixels[top : top + 30, left : left + 30] = 255
            writer.write(
                f"{i}",
                image=pixels,
                masks=sk.Masks.from_dense((pixels[None, :, :, 0] > 0).astype(np.uint8)),
                boxes=np.array([[left, top, 30, 30]], np.int32),
                middle=np.array([[left + 15, top + 15]], np.float32),
                label=i,
            )
    return path


def views(**more: Any) -> dict[str, Any]:
    return {
        "a": sk.Image(source="image", crop="random", size=48, flip=0.5, own_geometry=True, **more),
        "b": sk.Image(source="image", crop="random", size=(32, 40), flip=0.5, own_geometry=True, **more),
        "masks_a": sk.DenseMasks(source="masks", of="a"),
        "masks_b": sk.DenseMasks(source="masks", of="b"),
        "boxes_a": sk.Boxes("xywh", source="boxes", of="a", min_area=0),
        "boxes_b": sk.Boxes("xywh", source="boxes", of="b", min_area=0),
        "middle_b": sk.Points(source="middle", of="b"),
        "label": None,
    }


def test_each_view_has_its_own_crop_and_what_belongs_to_it(squares: str) -> None:
    loader = sk.Loader(squares, 5, columns=views(), seed=2)
    differ = 0
    for batch in loader:
        assert batch["a"].shape == (len(batch), 48, 48, 3)
        assert batch["b"].shape == (len(batch), 32, 40, 3)
        assert batch["label"].tolist() == batch.ordinals.tolist()
        for name in "ab":
            for i in range(len(batch)):
                mask = batch[f"masks_{name}"][i][0]
                bright = batch[name][i, :, :, 0] > 127
                assert np.mean(mask != bright) < 0.06, "the mask lies on the square of its own view"
                left, top, right, bottom = batch[f"boxes_{name}"][i, 0]
                assert abs(mask.sum() - (right - left) * (bottom - top)) < 0.15 * mask.size
        left, top, right, bottom = batch["boxes_b"][:, 0].T
        inside = (left > 0.5) & (right < 39.5) & (top > 0.5) & (bottom < 31.5)
        middles = np.stack([(left + right) / 2, (top + bottom) / 2], axis=1)
        np.testing.assert_allclose(batch["middle_b"][inside, 0], middles[inside], atol=0.01)
        shares = [batch[f"masks_{name}"].values.mean(axis=(1, 2)) for name in "ab"]
        differ += int(np.sum(np.abs(shares[0] - shares[1]) > 0.02))
    assert differ > 6


def test_a_view_does_not_depend_on_the_others(squares: str) -> None:
    def pixels(columns: dict[str, Any], name: str, **options: Any) -> Any:
        return np.concatenate(
            [batch[name].copy() for batch in sk.Loader(squares, 4, columns=columns, seed=3, **options)]
        )

    alone = pixels({"b": views()["b"]}, "b")
    np.testing.assert_array_equal(pixels(views(), "b"), alone)
    np.testing.assert_array_equal(pixels(dict(reversed(views().items())), "b", decode_threads=3), alone)
    ranked = [pixels(views(), "b", rank=rank, world_size=2, order="sequential") for rank in range(2)]
    np.testing.assert_array_equal(
        np.sort(np.concatenate(ranked), axis=0), np.sort(pixels(views(), "b", order="sequential"), axis=0)
    )
    # The same stored image, shared geometry, in two types.
    image = {"crop": "random", "size": 32}
    both = {
        "u8": sk.Image(source="image", **image),
        "f32": sk.Image(source="image", dtype="f32", layout="chw", **image),
    }
    (batch,) = sk.Loader(squares, 12, columns=both)
    np.testing.assert_allclose(batch["f32"], batch["u8"].transpose(0, 3, 1, 2) / 255, atol=1e-6)


def test_columns_under_other_names(squares: str) -> None:
    columns = {
        "picture": sk.Image(source="image", size=20),
        "places": sk.Items(source="boxes"),
        "image": sk.Image(size=20),
    }
    (batch,) = sk.Loader(squares, 12, columns=columns)
    np.testing.assert_array_equal(batch["picture"], batch["image"])
    assert batch["places"].shape == (12, 1, 4)
    assert batch["places"].dtype == np.int32


@pytest.mark.parametrize("first", ["image", "pixels"])
def test_the_stored_bytes_beside_their_pixels(tmp_path: Any, first: str) -> None:
    path = os.fspath(tmp_path / "data")
    pictures = [np.random.default_rng(i).integers(0, 255, (200, 300, 3), np.uint8) for i in range(6)]
    with sk.Writer(path, {"image": sk.Encode()}, storage={"image": "blob"}) as writer:
        for i, picture in enumerate(pictures):
            writer.write(f"{i}", image=picture)
    both = {"image": None, "pixels": sk.Image(source="image")}
    columns = {first: both[first], **both}
    for _ in range(2):  # from the page cache, the second time at the latest
        for batch in sk.Loader(path, 2, columns=columns, order="sequential"):
            for i, ordinal in enumerate(batch.ordinals.tolist()):
                stored = sk.open(path)[ordinal]["image"]
                assert bytes(batch["image"][i]) == stored
                np.testing.assert_array_equal(batch["pixels"][i], sk.decode_image(stored))


@pytest.mark.parametrize("device_geometry", [False, True])
def test_views_on_a_device(squares: str, device_geometry: bool) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    device = os.environ.get("SHARDKIT_TEST_DEVICE", "emulated")
    given = {"columns": views(scaled_decode=False), "seed": 5}
    host, other = (
        skt.Loader(squares, 4, **given),
        skt.Loader(squares, 4, device=device, device_geometry=device_geometry, **given),
    )
    for a, b in zip(host, other, strict=True):
        for name in ("a", "b", "boxes_a", "boxes_b", "middle_b"):
            assert torch.equal(a[name], b[name].cpu()), name
        for name in ("masks_a", "masks_b"):
            np.testing.assert_array_equal(a[name].values, b[name].values.cpu().numpy())


def test_what_is_refused(squares: str) -> None:
    image = {"crop": "random", "size": 32, "source": "image"}
    for columns, message in (
        ({"a": sk.Image(**image), "b": sk.Image(**{**image, "size": 48})}, "own_geometry=True"),
        ({"a": sk.Image(**image), "masks": sk.DenseMasks(of="label"), "label": None}, "which is no image"),
        ({"a": sk.Image(**image), "masks": sk.DenseMasks(of="b")}, "which is no image"),
        ({"a": sk.Image(source="picture")}, "picture"),
        ({"a": sk.Image(source="label")}, "cannot be decoded as images"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            sk.Loader(squares, 4, columns=columns)  # type: ignore[arg-type]


def test_points_go_along_with_the_boxes_of_their_view(squares: str) -> None:
    columns = {**views(), "boxes_b": sk.Boxes("xywh", source="boxes", of="b", with_columns=["middle"])}
    columns |= {"middle": sk.Points(), "boxes_a": None, "middle_b": None}
    del columns["boxes_a"], columns["middle_b"]
    for batch in sk.Loader(squares, 4, columns=columns, seed=2):
        for i, count in enumerate(batch.counts("boxes_b")):
            for k in range(count):
                left, top, right, bottom = batch["boxes_b"][i, k]
                x, y = batch["middle"][i, k]
                if left > 0.5 and right < 39.5 and top > 0.5 and bottom < 31.5:
                    np.testing.assert_allclose([x, y], [(left + right) / 2, (top + bottom) / 2], atol=0.01)


def test_a_geometry_that_nothing_has(squares: str) -> None:
    geometry = sk.Geometry(kind="center_crop", width=8, height=8)
    with pytest.raises(ValueError, match="without own_geometry, and there are none"):
        sk.Loader(squares, 4, columns=views(), geometry=geometry)
