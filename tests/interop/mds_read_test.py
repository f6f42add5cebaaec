#!/usr/bin/env python3
"""Datasets written by mosaicml-streaming's MDSWriter, read by shardctl: every value of every sample.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build. Needs an interpreter with the package `streaming`, and skips
itself otherwise. SHARDKIT_TEST_STEP is as in tests/support/effort.h.
"""
import io
import json
import os
import random
import struct
import unittest

import mds_values
from mds_values import MISSING, encodings, same, stored, value
from support import ROUNDS, STEP, InteropTest

if MISSING is None:
    import numpy
    from PIL import Image
    from streaming.base.format.mds.encodings import mds_decode, mds_encode
    from streaming.base.util import merge_index


@unittest.skipIf(MISSING, MISSING)
class MdsReadTest(InteropTest):
    def write(self, name, columns, samples, **options):
        return mds_values.write(self.path(name), columns, samples, **options)

    def compare(self, path, columns, samples, chance):
        document = json.loads(self.shardctl("inspect", "--json", path))
        self.assertEqual(document["samples"], len(samples))
        for mode in ("buffered", "mmap"):
            lines = self.shardctl("ls", "--values-xxh3", "--io", mode, path).splitlines()
            found = [json.loads(line) for line in lines]
            expected = mds_values.expected_hashes(columns, samples)
            self.assertEqual(found, [{"sample": i, "columns": hashes} for i, hashes in enumerate(expected)], f"{path}: {columns}")
        # Some samples through the peer's own decoder.
        for i in chance.sample(range(len(samples)), min(3, len(samples))):
            for name, encoding in columns.items():
                found = self.shardctl("cat", path, "--sample", i, "--column", name, "--force")
                self.assertEqual(found, stored(encoding, samples[i][name]))
                decoded = mds_values.decoded(encoding, found)
                if decoded is None:
                    self.assertIsNotNone(json.loads(self.shardctl("cat", path, "--sample", i, "--column", name, "--decode")))
                    continue
                written = mds_decode(encoding, mds_encode(encoding, samples[i][name]))
                self.assertTrue(same(decoded, written), f"{name} of sample {i}: {encoding}")

    def test_every_encoding(self):
        chance = random.Random(1)
        for compression in mds_values.COMPRESSIONS[::STEP]:
            columns = {f"{i:02} {encoding}": encoding for i, encoding in enumerate(encodings(chance))}
            samples = [{name: value(chance, encoding) for name, encoding in columns.items()} for _ in range(30)]
            name = (compression or "none").replace(":", "_")
            path = self.write(name, columns, samples, compression=compression, size_limit=100000, hashes=["sha1", "xxh64"])
            with open(os.path.join(path, "index.json"), encoding="utf-8") as index:
                self.assertGreater(len(json.load(index)["shards"]), 1)
            self.compare(path, columns, samples, chance)

    def test_random_columns(self):
        for seed in range(ROUNDS):
            chance = random.Random(seed)
            columns = mds_values.random_columns(chance, names=("z", "a", "Ü", "with space", "x.y"))
            samples = mds_values.random_samples(chance, columns, chance.choice([1, 2, 30, 200]))
            path = self.write(str(seed), columns, samples, compression=chance.choice(mds_values.COMPRESSIONS), hashes=chance.choice(mds_values.HASHES),
                              size_limit=chance.choice([None, 2000, "10kb", 1 << 26]))
            self.compare(path, columns, samples, chance)

    def test_bytes_under_any_encoding(self):
        columns = {"a": "str", "b": "json", "c": "jpeg", "d": "int", "e": "str_decimal"}
        samples = [{"a": b"\xff\xfe", "b": b"{not json", "c": b"no picture", "d": b"8 bytes.", "e": b""}]
        path = self.write("raw", columns, samples)
        for name, payload in samples[0].items():
            self.assertEqual(self.shardctl("cat", path, "--sample", 0, "--column", name, "--force"), payload)

    def test_pixels_of_every_mode(self):
        """As the peer's decoder gives them, from a shard, too; and the same bytes written as MDS again."""
        for mode in ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "LAB", "I;16", "I", "F"):
            chance = random.Random(mode)
            images = [Image.frombytes(mode, (width, 3), chance.randbytes(len(Image.new(mode, (width, 3)).tobytes())))
                      for width in (1, 2, 17)]
            path = self.write(f"of {mode}", {"image": "pil"}, [{"image": image} for image in images])
            shard = self.convert(path, f"{mode}.shard", "shard")
            self.assert_same_files(self.convert(shard, f"{mode}.again", "mds"), path, "*.mds")
            for source in (path, shard):
                for i, image in enumerate(images):
                    found = Image.open(io.BytesIO(self.shardctl("cat", source, "--sample", i, "--column", "image", "--force")))
                    self.assertEqual((found.mode, found.size), ("L" if mode == "P" else mode, image.size))
                    self.assertEqual(found.tobytes(), image.tobytes(), mode)
            if mode not in ("I", "F"):
                self.shardctl("validate", "--deep", path)

    def test_pickle_is_left_out(self):
        columns = {"code": "pkl", "id": "int"}
        path = self.write("pickle", columns, [{"code": {"any": "thing"}, "id": i} for i in range(5)])
        self.assertEqual([column["name"] for column in self.columns(path)], ["id"])
        self.assertEqual([column["name"] for column in self.columns(self.convert(path, "shard", "shard"))], ["id"])
        self.assertIn('column "code" is pickled', self.shardctl("cat", path, "--sample", 0, "--column", "code", code=3))
        self.assertEqual(self.shardctl("cat", path, "--sample", 3, "--column", "id", "--force"), struct.pack("<q", 3))

    def test_no_samples(self):
        path = self.write("empty", {"a": "int"}, [])
        self.assertEqual(json.loads(self.shardctl("ls", "--json", path))["samples"], 0)

    def test_folders_and_merged_indexes(self):
        """Parts as jobs write them: opened as one dataset, each shard alone, and merged as the package merges them."""
        columns = {"id": "int", "text": "str", "array": "ndarray:uint8"}
        for compression, hashes in [(None, []), ("zstd:3", ["sha1", "xxh64"])]:
            root = os.path.join(self.folder, f"root{compression}")
            samples, parts = [], []
            for part, count in [("10", 40), ("9", 0), ("9\u00e4", 25)]:
                rows = [{"id": len(samples) + i, "text": "\u00e9" * i, "array": numpy.arange(i + 1, dtype=numpy.uint8)} for i in range(count)]
                parts.append(self.write(os.path.join(root, part), columns, rows, compression=compression, hashes=hashes, size_limit=2000))
                samples += rows
            self.compare(root, columns, samples, random.Random(3))
            if compression is None:
                first = 0
                for number in range(len([name for name in os.listdir(parts[0]) if name.endswith(".mds")])):
                    shard = os.path.join(parts[0], f"shard.{number:05}.mds")
                    count = json.loads(self.shardctl("inspect", "--json", shard))["samples"]
                    self.compare(shard, columns, samples[first:first + count], random.Random(4))
                    first += count
                self.assertEqual(first, 40)
            order = [parts[2], parts[0], parts[1]]
            self.shardctl("merge", *order, "-o", root)
            with open(os.path.join(root, "index.json"), "rb") as file:
                ours = file.read()
            os.remove(os.path.join(root, "index.json"))
            merge_index([os.path.join(part, "index.json") for part in order], root)
            with open(os.path.join(root, "index.json"), "rb") as file:
                self.assertEqual(ours, file.read())
            self.compare(root, columns, samples[40:] + samples[:40], random.Random(5))


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # streaming leaves its files open
