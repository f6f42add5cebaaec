"""Masks of COCO's annotations: those of pycocotools' annToRLE, to the bit. Skips itself when pycocotools is missing."""
import json
import os
import random
import unittest

from support import STEP, InteropTest

try:
    import numpy as np
    from pycocotools import mask as coco
except ImportError as error:
    MISSING = f"needs the package pycocotools: {error}"
else:
    MISSING = None

# Of each size of images. SHARDKIT_TEST_STEP=1, as in tests/nightly, makes 50,000, most of several polygons.
ANNOTATIONS = 10_000 if STEP == 1 else 300
SIZES = [(1, 1), (3, 7), (40, 30), (37, 200), (480, 640)]


def polygon(rng, height, width):
    """Corners of every kind: on and beside the grid of a fifth of a pixel, outside of the image, repeated, on a curve."""
    count = int(rng.choice([3, 4, 7, 20, 60]))
    corners = rng.random((count, 2)) * [width, height]
    kind = rng.integers(6)
    if kind == 0:
        corners = np.round(corners)
    elif kind == 1:
        corners = np.round(corners, 2)
    elif kind == 2:
        corners = corners * 3 - [width, height]
    elif kind == 3:
        corners = np.round(corners * 5) / 5 + 0.1
    elif kind == 4:
        corners = np.round(np.repeat(corners, rng.integers(1, 3, count), 0) * 2 - 2)
    return [float(number) for number in corners.reshape(-1)]


def segmentation(rng, height, width):
    form = rng.integers(8)
    if form < 6:
        return [polygon(rng, height, width) for _ in range(rng.choice([1, 1, 2, 4]))]
    dense = np.asfortranarray(rng.random((height, width)) < rng.random()).astype(np.uint8)
    rle = coco.encode(dense)
    if form == 6:
        return {"size": [height, width], "counts": rle["counts"].decode()}
    flat = dense.ravel(order="F")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat]).astype(np.int8)))
    return {"size": [height, width], "counts": [int(run) for run in np.diff([0, *edges, flat.size])]}


def ann_to_rle(value, height, width):
    """As pycocotools.coco.COCO.annToRLE, whose module needs matplotlib."""
    if isinstance(value, list):
        return coco.merge(coco.frPyObjects(value, height, width))
    return coco.frPyObjects(value, height, width) if isinstance(value["counts"], list) else value


@unittest.skipIf(MISSING, MISSING)
class CocoTest(InteropTest):
    def test_masks_are_those_of_pycocotools(self):
        for number, (height, width) in enumerate(SIZES):
            with self.subTest(height=height, width=width):
                rng = np.random.default_rng(number)
                values = [segmentation(rng, height, width) for _ in range(ANNOTATIONS)]
                folder = self.path(f"images{number}")
                os.mkdir(folder)
                with open(os.path.join(folder, "a.ppm"), "wb") as file:
                    file.write(b"P6 1 1 255 abc")
                document = {"images": [{"id": 1, "file_name": "a.ppm", "height": height, "width": width}],
                            "annotations": [{"id": i, "image_id": 1, "segmentation": value} for i, value in enumerate(values)]}
                random.Random(number).shuffle(document["annotations"])
                with open(self.path(f"{number}.json"), "w", encoding="utf-8") as file:
                    json.dump(document, file)
                self.shardctl("pack", self.path(f"{number}.json"), folder, "-o", self.path(f"out{number}"))
                masks = json.loads(self.shardctl("cat", self.path(f"out{number}"), "--key", "a", "--column", "masks", "--decode"))
                for annotation, mask in zip(document["annotations"], masks, strict=True):
                    theirs = ann_to_rle(annotation["segmentation"], height, width)["counts"]
                    theirs = theirs.decode() if isinstance(theirs, bytes) else theirs
                    self.assertEqual(mask, {"size": [height, width], "counts": theirs}, annotation)


if __name__ == "__main__":
    unittest.main()
