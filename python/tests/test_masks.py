from __future__ import annotations

import pickle

import numpy as np
import pytest

import shardkit as sk


def random_masks(seed: int, count: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, height, width)) < 0.4


def runs(mask: np.ndarray) -> list[int]:
    """COCO's runs, by a way of its own: pixels column by column, beginning with a run of zeros."""
    flat = mask.ravel(order="F").astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat]))).tolist()
    return np.diff([0, *edges, flat.size]).tolist()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (2, 1, 40), (5, 33, 1), (0, 4, 4)])
def test_dense_and_back(shape: tuple[int, int, int]) -> None:
    pixels = random_masks(1, *shape)
    masks = sk.Masks.from_dense(pixels)
    assert len(masks) == shape[0]
    if shape[0] == 0:
        return
    dense = masks.dense()
    assert dense.dtype == np.uint8
    np.testing.assert_array_equal(dense, pixels)
    np.testing.assert_array_equal(masks.area(), pixels.sum((1, 2)))
    unpacked = np.unpackbits(masks.packed(), axis=-1, count=shape[2], bitorder="little")
    np.testing.assert_array_equal(unpacked, pixels)
    np.testing.assert_array_equal(masks.sizes, [shape[1:]] * shape[0])
    for mask, (x, y, width, height) in zip(pixels, masks.boxes().tolist(), strict=True):
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        expected = (0, 0, 0, 0)
        if rows.size:
            expected = (columns[0], rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1)
        assert (x, y, width, height) == expected


def test_coco_in_every_form() -> None:
    pixels = random_masks(2, 4, 13, 17)
    masks = sk.Masks.from_dense(pixels)
    assert sk.Masks.from_coco(masks.coco()) == masks
    as_text = [{**mask, "counts": mask["counts"].decode()} for mask in masks.coco()]
    assert sk.Masks.from_coco(as_text) == masks
    as_runs = [{"size": [13, 17], "counts": runs(mask)} for mask in pixels]
    assert sk.Masks.from_coco(as_runs) == masks
    assert sk.Masks.of(as_runs[0]) == masks[0]


def test_polygons() -> None:
    square, beside = [1, 1, 3, 1, 3, 3, 1, 3], np.array([[4, 0], [5, 0], [5, 4], [4, 4]])
    masks = sk.Masks.from_polygons([[square], [square, beside], []], 4, 6)
    expected = np.zeros((3, 4, 6), np.uint8)
    expected[:2, 1:3, 1:3] = 1
    expected[1, :, 4] = 1
    np.testing.assert_array_equal(masks.dense(), expected)
    assert len(sk.Masks.from_polygons([], 4, 6)) == 0
    with pytest.raises(ValueError, match="mask 1: polygon 0: has 3 numbers"):
        sk.Masks.from_polygons([[square], [[1, 2, 3]]], 4, 6)
    with pytest.raises(ValueError, match="limit of a coordinate"):
        sk.Masks.from_polygons([[[0, 0, 1, 1, float("nan"), 2]]], 4, 6)


def test_polygons_are_those_of_pycocotools() -> None:
    coco = pytest.importorskip("pycocotools.mask")
    random = np.random.default_rng(4)
    shapes = [
        [(random.random(2 * count) * 60 - 10).tolist() for count in random.integers(3, 30, 2)] for _ in range(200)
    ]
    theirs = [coco.merge(coco.frPyObjects(shape, 40, 37)) for shape in shapes]
    assert [mask["counts"] for mask in sk.Masks.from_polygons(shapes, 40, 37).coco()] == [
        mask["counts"] for mask in theirs
    ]


def test_the_same_as_pycocotools() -> None:
    coco = pytest.importorskip("pycocotools.mask")
    pixels = random_masks(3, 5, 21, 34)
    masks = sk.Masks.from_dense(pixels)
    theirs = coco.encode(np.asfortranarray(pixels.transpose(1, 2, 0).astype(np.uint8)))
    assert [mask["counts"] for mask in masks.coco()] == [mask["counts"] for mask in theirs]
    np.testing.assert_array_equal(masks.area(), coco.area(theirs))
    np.testing.assert_array_equal(masks.boxes(), coco.toBbox(theirs))


def test_parts_pickle_and_bad_input() -> None:
    pixels = random_masks(4, 6, 8, 9)
    masks = sk.Masks.from_dense(pixels)
    np.testing.assert_array_equal(masks[2].dense()[0], pixels[2])
    np.testing.assert_array_equal(masks[-1].dense()[0], pixels[5])
    np.testing.assert_array_equal(masks[1:5:2].dense(), pixels[1:5:2])
    assert sum(len(mask) for mask in masks) == 6
    with pytest.raises(IndexError):
        masks[6]
    assert pickle.loads(pickle.dumps(masks)) == masks
    assert masks != sk.Masks.from_dense(pixels[::-1])
    mixed = sk.Masks.from_coco([*masks[0].coco(), *sk.Masks.from_dense(np.ones((2, 2))).coco()])
    with pytest.raises(ValueError, match="differ in size"):
        mixed.dense()
    np.testing.assert_array_equal(mixed[1].dense(), np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match=r"mask 0 is none of COCO: .* 2 instead of 4"):
        sk.Masks.from_coco([{"size": [2, 2], "counts": [1, 1]}])
    with pytest.raises(sk.DataLossError):
        sk.Masks.from_stored(b"nonsense")
