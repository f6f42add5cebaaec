#!/usr/bin/env python3
"""SA-1B pairs through the loader: images equal Pillow's (that is, libjpeg-turbo's) and masks equal pycocotools', pixel for pixel.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build, SHARDKIT_TEST_DATA the folder with real data.
"""

import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

try:
    import numpy
except ImportError:
    numpy = None
try:
    from PIL import Image
except ImportError:
    Image = None
try:
    from pycocotools import mask as coco
except ImportError:
    coco = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(os.environ.get("SHARDKIT_TEST_DATA", os.path.join(ROOT, "..", "shared", "data")), "sa1b")
DUMP = os.path.join(os.environ.get("SHARDKIT_BUILD_DIR", "build"), "tests", "unit", "loader", "dump_batches")


def counts_of(text):
    """The runs of COCO's compressed text: six bits per character, signed. From the fourth run on, the run two before is added."""
    counts = []
    position = 0
    while position < len(text):
        value = shift = 0
        more = True
        while more:
            bits = ord(text[position]) - 48
            value |= (bits & 31) << shift
            shift += 5
            more = bool(bits & 32)
            position += 1
        if bits & 16:
            value -= 1 << shift
        if len(counts) > 2:
            value += counts[-2]
        counts.append(value)
    return counts


def decode(segmentation):
    """The dense mask, by definition: columns from left to right, each from top to bottom, alternating runs of 0 and 1."""
    height, width = segmentation["size"]
    counts = counts_of(segmentation["counts"])
    values = numpy.arange(len(counts), dtype=numpy.uint8) & 1
    return numpy.repeat(values, counts).reshape(width, height).T


class RealDataTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not glob.glob(os.path.join(DATA, "sa_*.jpg")):
            raise unittest.SkipTest(f"no real data: {DATA} has no SA-1B pairs")
        if numpy is None:
            raise unittest.SkipTest("python3-numpy is not installed")
        cls.folder = tempfile.mkdtemp(prefix="shardkit-loader-")
        cls.dataset = os.path.join(cls.folder, "dataset")
        subprocess.run([os.environ.get("SHARDCTL", "shardctl"), "pack", DATA, "-o", cls.dataset], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def samples(self, order, threads):
        """(key, image, masks) of each sample, one at a time, because all together are gigabytes."""
        process = subprocess.Popen([DUMP, self.dataset, order, str(threads)], stdout=subprocess.PIPE)

        def array(shape):
            size = int(numpy.prod(shape, dtype=numpy.int64))
            data = process.stdout.read(size)
            self.assertEqual(len(data), size)
            return numpy.frombuffer(data, numpy.uint8).reshape(shape)

        try:
            keys = []
            for line in iter(process.stdout.readline, b""):
                head = json.loads(line)
                keys.append(head["key"])
                yield head["key"], array(head["image"]), (array(size) for size in head["masks"])
        finally:
            process.stdout.close()
            status = process.wait()
        self.assertEqual(status, 0)
        expected = [os.path.basename(path)[:-len(".jpg")] for path in glob.glob(os.path.join(DATA, "sa_*.jpg"))]
        self.assertEqual(sorted(keys), sorted(expected))

    def annotations(self, key):
        with open(os.path.join(DATA, f"{key}.json"), encoding="utf-8") as file:
            return json.load(file)["annotations"]

    def compare(self, order, threads, expected_image, expected_mask):
        for key, image, masks in self.samples(order, threads):
            if expected_image is not None:
                self.assertTrue(numpy.array_equal(image, expected_image(os.path.join(DATA, f"{key}.jpg"))), key)
            annotations = self.annotations(key)
            seen = 0
            for mask in masks:
                if expected_mask is not None:
                    theirs = expected_mask(annotations[seen]["segmentation"])
                    self.assertTrue(numpy.array_equal(mask, theirs), f"{key}, mask {seen}")
                seen += 1
            self.assertEqual(seen, len(annotations))
            self.assertGreater(seen, 0)

    def test_images_are_those_of_pillow(self):
        if Image is None:
            self.skipTest("python3-pil is not installed")

        def pillow(path):
            with Image.open(path) as image:
                return numpy.asarray(image.convert("RGB"))
        self.compare("shuffled", 2, pillow, None)

    def test_masks_are_what_the_text_says(self):
        self.compare("sequential", 1, None, decode)

    def test_masks_are_those_of_pycocotools(self):
        if coco is None:
            self.skipTest("pycocotools is not installed")
        self.compare("shuffled", 3, None, coco.decode)


if __name__ == "__main__":
    unittest.main()
