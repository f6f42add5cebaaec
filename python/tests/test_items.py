"""Which masks and boxes of a sample a batch has, and what goes along with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardkit as sk

COUNT, HEIGHT, WIDTH = 24, 48, 64


def boxes_of(i: int) -> list[tuple[int, int, int, int]]:
    """Return i % 7 boxes of different areas, as left, top, width and height."""
    random = np.random.default_rng(100 + i)
    made: dict[int, tuple[int, int, int, int]] = {}
    while len(made) < i % 7:
        width, height = (int(side) for side in random.integers(4, 24, 2))
        place = int(random.integers(WIDTH - width)), int(random.integers(HEIGHT - height))
        made.setdefault(width * height, (*place, width, height))
    return list(made.values())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("items") / "data")
    columns = {"image": sk.Encode(), "masks": "rle", "boxes": "i32[]", "number": "i64[]", "points": "f32[]"}
    with sk.Writer(path, columns, max_block_samples=5) as writer:
        for i in range(COUNT):
            boxes = boxes_of(i)
            masks = np.zeros((len(boxes), HEIGHT, WIDTH), np.uint8)
            for mask, (x, y, w, h) in zip(masks, boxes, strict=True):
                mask[y : y + h, x : x + w] = 1
            array = np.array(boxes, np.int32).reshape(-1, 4)
            writer.write(
                f"k{i}",
                image=np.full((HEIGHT, WIDTH, 3), i, np.uint8),
                masks=masks,
                boxes=array,
                number=np.arange(len(boxes)),
                points=(array[:, :2] + array[:, 2:] / 2).astype(np.float32),
            )
    return path


def chosen(choose: str, most: int, i: int) -> list[int]:
    areas = [w * h for _, _, w, h in boxes_of(i)]
    order = range(len(areas)) if choose == "first" else np.argsort([-area for area in areas], kind="stable").tolist()
    return sorted(list(order)[:most])


ALONG = ["boxes", "number", "points"]


def epochs(path: str, columns: dict[str, Any], count: int = 1, **options: Any) -> list[dict[int, dict[str, Any]]]:
    """Return of each epoch, of each sample, the items that a batch has, column by column."""
    made = []
    loader = sk.Loader(path, 5, columns=columns, seed=3, **options)
    for _ in range(count):
        samples: dict[int, dict[str, Any]] = {}
        for batch in loader:
            counts = {name: batch.counts(name).tolist() for name in columns if name not in ("image", "view")}
            assert len({tuple(each) for each in counts.values()}) == 1, counts
            for k, i in enumerate(batch.ordinals.tolist()):
                samples[i] = {name: batch[name][k][: counts[name][k]] for name in counts}
        made.append(samples)
    return made


@pytest.mark.parametrize("kind", [sk.DenseMasks, sk.PackedMasks])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("choose", ["first", "largest", "random"])
def test_masks_choose(path: str, kind: Any, pad: bool, choose: Any) -> None:
    size = {"size": (HEIGHT, WIDTH), "crop": "resize"} if pad else {}
    columns = {
        "image": sk.Image(**size),
        "masks": kind(pad_masks=pad, most=3, choose=choose, with_columns=ALONG),
        "boxes": sk.Boxes(to="xywh", min_area=2000),  # which does not count
        "points": sk.Points(),
    }
    columns["number"] = None
    columns = {name: columns[name] for name in ("image", "masks", *ALONG)}
    loaders = epochs(path, columns, 12) if choose == "random" else epochs(path, columns)
    seen: set[tuple[int, ...]] = set()
    for samples in loaders:
        for i, items in samples.items():
            boxes, numbers = boxes_of(i), items["number"].tolist()
            if choose == "random":
                assert numbers == sorted(set(numbers))
                assert len(numbers) == min(len(boxes), 3)
                if i == 6:
                    seen.add(tuple(numbers))
            else:
                assert numbers == chosen(choose, 3, i)
            assert [tuple(box) for box in items["boxes"].tolist()] == [boxes[number] for number in numbers]
            masks = np.array(items["masks"])
            if kind is sk.PackedMasks:
                masks = np.unpackbits(masks, axis=-1, bitorder="little")[..., :WIDTH] if len(numbers) else masks
            for mask, number, point in zip(masks, numbers, items["points"].tolist(), strict=True):
                x, y, w, h = boxes[number]
                assert mask.sum() == w * h
                assert mask[y : y + h, x : x + w].all()
                assert point == [x + w / 2, y + h / 2]
    if choose == "random":
        assert len(seen) > 5  # of the 20 ways to take 3 of 6
        again = epochs(path, columns, 2, decode_threads=3)
        assert repr(again) == repr(loaders[:2])


@pytest.mark.parametrize("most", [0, 2])
@pytest.mark.parametrize("pad", [False, True])
def test_masks_go_along_with_boxes(path: str, most: int, pad: bool) -> None:
    columns = {
        "image": sk.Image(crop="random", size=32, scale=(0.2, 0.6), flip=0.5),
        "boxes": sk.Boxes(
            min_area=20, most=most, choose="largest" if most else "first", with_columns=["masks", "number"]
        ),
        "masks": sk.DenseMasks(pad_masks=pad),
        "number": None,
    }
    left_out = 0
    for samples in epochs(path, columns, 3):
        for i, items in samples.items():
            left_out += len(boxes_of(i)) - len(items["number"])
            for box, mask in zip(items["boxes"], items["masks"], strict=True):
                rows, places = mask.any(axis=1).nonzero()[0], mask.any(axis=0).nonzero()[0]
                assert len(rows) > 0
                seen = [places[0], rows[0], places[-1] + 1, rows[-1] + 1]
                assert np.abs(box - seen).max() < 1.01, (i, box, seen)
    assert left_out > 20


def test_runs_and_devices(path: str) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    columns = {
        "image": sk.Image(crop="random", size=32),
        "masks": sk.DenseMasks(pad_masks=True, most=2, choose="random", with_columns=["number"]),
        "number": None,
    }
    host = skt.Loader(path, 5, columns=columns, seed=3)
    there = skt.Loader(path, 5, columns=columns, seed=3, device="emulated", device_geometry=True)
    for one, other in zip(host, there, strict=True):
        assert torch.equal(one["number"], other["number"])
        assert one["masks"].offsets.tolist() == other["masks"].offsets.tolist()
        assert one["masks"].values.tolist() == other["masks"].values.tolist()
    deferred = {**columns, "masks": sk.DenseMasks(deferred=True, most=2, choose="largest", with_columns=["number"])}
    deferred["image"] = sk.Image()
    for batch in sk.Loader(path, 5, columns=deferred):
        for k, i in enumerate(batch.ordinals.tolist()):
            numbers = batch["number"][k][: batch.counts("number")[k]].tolist()
            assert numbers == chosen("largest", 2, i)
            areas = [w * h for _, _, w, h in boxes_of(i)]
            assert batch["masks"][k].area().tolist() == [areas[number] for number in numbers]


def test_what_is_refused(path: str) -> None:
    image = sk.Image()
    for make, message in (
        (lambda: sk.DenseMasks(choose="random"), "without `most` there is nothing to choose"),
        (lambda: sk.Boxes(most=2, along="masks"), "leave most and with_columns out"),
        (lambda: sk.DenseMasks(most=2, choose="best"), "choose='best'"),  # type: ignore[arg-type]
        (lambda: sk.DenseMasks(with_columns="boxes"), "give a list"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            make()
    for columns, message in (
        ({"image": image, "masks": sk.DenseMasks(along="number"), "number": None}, "no column of boxes or masks"),
        ({"image": image, "masks": sk.DenseMasks(along="boxes"), "boxes": sk.Boxes(along="masks")}, "goes along with"),
        ({"image": image, "masks": sk.DenseMasks(with_columns=["image"])}, "cannot lose the entries"),
        ({"masks": sk.DenseMasks(most=1, with_columns=["boxes"]), "boxes": sk.Boxes()}, "none is among the columns"),
    ):
        with pytest.raises(ValueError, match=message):
            sk.Loader(path, columns=columns)  # type: ignore[arg-type]


def test_other_numbers_of_items_are_bad_samples(tmp_path: Any) -> None:
    with sk.Writer(tmp_path / "data", {"masks": "rle", "score": "f32[]"}) as writer:
        writer.write("a", masks=np.ones((2, 4, 4), bool), score=np.ones(3, np.float32))
        writer.write("b", masks=np.ones((3, 4, 4), bool), score=np.ones(3, np.float32))
    columns = {"masks": sk.DenseMasks(most=2, with_columns=["score"]), "score": None}
    with pytest.raises(ValueError, match=r'sample 0 .* has 3 items, and column "masks" 2'):
        list(sk.Loader(tmp_path / "data", 2, columns=columns))
    (batch,) = sk.Loader(tmp_path / "data", 2, columns=columns, bad_samples="skip")
    assert batch.counts("score").tolist() == batch.counts("masks").tolist() == [2]


def test_absent_values_have_no_items(tmp_path: Any) -> None:
    with sk.Writer(tmp_path / "data", {"masks": "rle", "score": "f32[]?"}) as writer:
        writer.write("a", masks=np.ones((3, 4, 4), bool), score=None)
        writer.write("b", masks=np.ones((1, 4, 4), bool), score=np.ones(1, np.float32))
        writer.write("c", masks=np.zeros((0, 4, 4), bool), score=None)
    columns = {"masks": sk.DenseMasks(most=2, with_columns=["score"]), "score": None}
    (batch,) = sk.Loader(tmp_path / "data", 3, columns=columns, order="sequential")
    assert batch.counts("masks").tolist() == [2, 1, 0]
    assert batch.counts("score").tolist() == [0, 1, 0]
    assert batch.present("score").tolist() == [False, True, False]
