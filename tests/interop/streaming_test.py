#!/usr/bin/env python3
"""shardkit.streaming and mosaicml-streaming: what one writes, the other reads, value by value.

SHARDKIT_BUILD_DIR names the build, whose Python package runs in a process of its own. Needs an interpreter with the
package `streaming`, and skips itself otherwise.
"""
import filecmp
import os
import pickle
import random
import subprocess
import unittest

import mds_values
from mds_values import MISSING, encodings, same, value
from support import BUILD, InteropTest

if MISSING is None:
    from PIL import Image
    from streaming import LocalDataset, StreamingDataset
    from streaming.base.format.mds.encodings import mds_decode, mds_encode
    from streaming.base.util import merge_index

PYTHON = os.path.join(BUILD, "python-venv", "bin", "python")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
WRITE = """
import pickle, sys
from shardkit.streaming import MDSWriter
samples, several = pickle.load(open(sys.argv[1], "rb"))
for options in several:
    with MDSWriter(**options) as writer:
        for sample in samples:
            writer.write(sample)
"""
READ = """
import pickle, sys
from shardkit.streaming import StreamingDataset
found = [list(StreamingDataset(local=path, batch_size=1)) for path in sys.argv[2:]]
pickle.dump(found, open(sys.argv[1], "wb"))
"""
MERGE = """
import sys
from shardkit.streaming import merge_index
merge_index(sys.argv[1])
"""
NEEDED = "import shardkit.streaming, PIL"


def runs(program, *arguments):
    done = subprocess.run([PYTHON, "-B", "-c", program, *arguments], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    return done.returncode, done.stderr


def pixels(item):
    if isinstance(item, list):
        return [pixels(each) for each in item]
    return (item.mode, item.size, item.tobytes()) if isinstance(item, Image.Image) else item


@unittest.skipIf(MISSING, MISSING)
class StreamingTest(InteropTest):
    def setUp(self):
        super().setUp()
        code, error = runs(NEEDED) if os.path.exists(PYTHON) else (1, "it is not built")
        if code != 0:
            self.skipTest(f"needs the package shardkit with torch and PIL: {error.strip().splitlines()[-1]}")
        chance = random.Random(5)
        self.columns = {f"{i:02} {encoding}": encoding for i, encoding in enumerate(encodings(chance))}
        self.samples = [{name: value(chance, encoding) for name, encoding in self.columns.items()} for _ in range(30)]

    def run_here(self, program, *arguments):
        code, error = runs(program, *arguments)
        self.assertEqual(code, 0, error)

    def assert_same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for i, (one, other) in enumerate(zip(found, expected)):
            self.assertEqual(one.keys(), other.keys())
            for name in one:
                self.assertTrue(same(pixels(one[name]), pixels(other[name])), f"sample {i}, {name}")

    def test_what_is_written_here_is_read_there(self):
        options = [{"compression": compression, "hashes": hashes, "size_limit": 100000}
                   for compression in (None, "zstd:3") for hashes in ([], ["sha1", "xxh3_64"])]
        ours = [self.path(f"ours-{i}") for i in range(len(options))]
        with open(self.path("samples"), "wb") as file:
            pickle.dump((self.samples, [{**each, "columns": self.columns, "out": out} for each, out in zip(options, ours)]), file)
        self.run_here(WRITE, self.path("samples"))
        for i, each in enumerate(options):
            theirs = mds_values.write(self.path(f"theirs-{i}"), self.columns, self.samples, **each)
            files = sorted(os.listdir(theirs))
            self.assertEqual(sorted(set(os.listdir(ours[i])) - {"shardkit.json", ".shardkit"}), files)
            self.assertGreater(len(files), 2)
            if each["compression"] is None:
                self.assertEqual(filecmp.cmpfiles(ours[i], theirs, files, shallow=False)[0], files)
            dataset = StreamingDataset(local=ours[i], batch_size=1)
            self.assert_same([dataset[sample] for sample in range(len(self.samples))], self.decoded())

    def test_what_is_written_there_is_read_here(self):
        options = {"size_limit": 100000, "hashes": ["sha1", "xxh64"]}
        paths = [mds_values.write(self.path(f"of-{compression}"), self.columns, self.samples, compression=compression, **options)
                 for compression in (None, "zstd:7", "gz", "bz2", "br:3", "snappy")]
        self.run_here(READ, self.path("found"), *paths)
        with open(self.path("found"), "rb") as file:
            for found in pickle.load(file):
                self.assert_same(found, self.decoded())

    def decoded(self):
        return [{name: mds_decode(encoding, mds_encode(encoding, sample[name])) for name, encoding in self.columns.items()}
                for sample in self.samples]

    def test_indexes_are_merged_alike(self):
        for side in ("ours", "theirs"):
            for i in range(3):
                mds_values.write(self.path(side, str(i)), self.columns, self.samples[10 * i: 10 * i + 10], size_limit=100000)
        self.run_here(MERGE, self.path("ours"))
        merge_index(self.path("theirs"))
        self.assert_same(list(LocalDataset(self.path("ours"))), self.in_order(LocalDataset(self.path("theirs"))))

    def in_order(self, dataset):
        """Their merged index has the folders in the order in which the file system lists them."""
        found = list(dataset)
        names = [os.path.basename(os.path.dirname(shard.raw_data.basename)) for shard in dataset.shards for _ in range(shard.samples)]
        return [sample for _, sample in sorted(zip(names, found), key=lambda pair: pair[0])]


if __name__ == "__main__":
    unittest.main()
