"""Masks of COCO's annotations: those of pycocotools' annToRLE, to the bit. Skips itself when pycocotools is missing."""
import json
import os
import random
import unittest

from support import STEP, InteropTest

try:
    import numpy as np
    from PIL import Image
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

    def test_segments_are_those_of_panopticapi(self):
        """Ids as its rgb2id makes them of the pixels, masks as pycocotools encodes them."""
        rng = np.random.default_rng(0)
        document = {"images": [], "annotations": []}
        masks = []
        os.makedirs(self.path("images/pngs"))
        for number, (height, width) in enumerate(SIZES * 3):
            with open(self.path(f"images/{number}.ppm"), "wb") as file:
                file.write(b"P6 1 1 255 abc")
            names = rng.integers(0, 1 << 24, rng.choice([1, 9, 200]))
            blocks = names[rng.integers(0, len(names), (height // 7 + 1, width // 5 + 1))]
            drawn = np.where(rng.random((height, width)) < 0.1, 0, np.kron(blocks, np.ones((7, 5), int))[:height, :width])
            png = self.path(f"images/pngs/{number}.png")
            Image.fromarray(np.stack([drawn & 255, drawn >> 8 & 255, drawn >> 16], 2).astype(np.uint8)).save(png)
            color = np.array(Image.open(png), dtype=np.uint32)
            ids = color[:, :, 0] + 256 * color[:, :, 1] + 256 * 256 * color[:, :, 2]
            listed = [int(segment) for segment in rng.permutation(np.setdiff1d(ids, [0]))]
            document["images"].append({"id": number, "file_name": f"{number}.ppm", "height": height, "width": width})
            document["annotations"].append({"image_id": number, "file_name": f"{number}.png", "segments_info": [{"id": segment} for segment in listed]})
            masks.append([coco.encode(np.asfortranarray(ids == segment, np.uint8))["counts"].decode() for segment in listed])
        with open(self.path("panoptic.json"), "w", encoding="utf-8") as file:
            json.dump(document, file)
        self.shardctl("pack", self.path("panoptic.json"), self.path("images"), "-o", self.path("out"))
        for number, (image, counts) in enumerate(zip(document["images"], masks, strict=True)):
            found = json.loads(self.shardctl("cat", self.path("out"), "--key", str(number), "--column", "masks", "--decode"))
            self.assertEqual(found, [{"size": [image["height"], image["width"]], "counts": text} for text in counts])


if __name__ == "__main__":
    unittest.main()
