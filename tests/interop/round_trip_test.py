#!/usr/bin/env python3
"""Samples that go through all three containers come back the same: shardctl convert, with datasets that other programs wrote.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build, SHARDKIT_TEST_DATA the folder with real data.
"""
import glob
import json
import os
import unittest

import mds_values
from mds_values import MISSING
from support import DATA, ROUNDS, InteropTest


@unittest.skipIf(MISSING, MISSING)
class RoundTripTest(InteropTest):
    def round_trip(self, native, name, *options):
        """Shard, MDS, WebDataset, shard, and the reverse: equal at every step where columns have the same names."""
        mds = self.convert(native, f"{name}.mds", "mds", "--shard-size", 20000, *options)
        tars = self.convert(mds, f"{name}.tars", "webdataset", "--shard-samples", 23, *options)
        self.assert_same_dataset(self.convert(tars, f"{name}.back", "shard"), native)
        tars = self.convert(native, f"{name}.tars-first", "webdataset", "--shard-size", 100000, *options)
        mds = self.convert(tars, f"{name}.mds-second", "mds", *options)
        self.assert_same_dataset(self.convert(mds, f"{name}.back-again", "shard"), native)
        self.shardctl("validate", tars)
        self.shardctl("validate", mds)

    def test_random_columns(self):
        for seed in range(ROUNDS // 2):
            chance = mds_values.seeded(seed)
            columns = mds_values.random_columns(chance, names=("z", "a", "\u00fc", "with space", "xy"))
            if chance.random() < 0.5:
                columns["key"] = "str"
            samples = mds_values.random_samples(chance, columns, chance.choice([1, 2, 30, 100]))
            for i, sample in enumerate(samples):
                sample.update({"key": f"{chance.choice(['', 'd/', 'd.e/f/'])}{i}"} if "key" in columns else {})
            with self.subTest(seed=seed, columns=columns):
                source = mds_values.write(self.path(str(seed)), columns, samples)
                native = self.convert(source, f"{seed}.shard", "shard")
                self.assertEqual(self.hashes(native), mds_values.expected_hashes(columns, samples))
                self.round_trip(native, f"{seed}")

    def test_packed_files(self):
        chance = mds_values.seeded(2)
        for i in range(100):
            os.makedirs(self.path("files", "d" * (i % 3 + 1)), exist_ok=True)
            for extension in ("bin", "txt", "json", "seg.raw"):
                content = {"txt": f"w\u00f6rter {i}".encode(), "json": json.dumps({"i": i}).encode()}.get(extension)
                with open(self.path("files", "d" * (i % 3 + 1), f"{i:03}.{extension}"), "wb") as file:
                    file.write(content or chance.randbytes(chance.choice([0, 1, 5000])))
        self.shardctl("pack", "--from", "files", self.path("files"), "-o", self.path("native"))
        self.round_trip(self.path("native"), "files")
        # Back to files.
        self.shardctl("unpack", self.path("files.back"), "-o", self.path("again"))
        self.assertEqual(sorted(os.listdir(self.path("files"))), sorted(os.listdir(self.path("again"))))
        for folder in os.listdir(self.path("files")):
            self.assert_same_files(self.path("again", folder), self.path("files", folder))

    def test_genuine_datasets(self):
        indexes = sorted(glob.glob(os.path.join(DATA, "mds", "*", "**", "index.json"), recursive=True))
        tars = sorted(glob.glob(os.path.join(DATA, "webdataset", "*", "*.tar*")))
        if not indexes and not tars:
            self.skipTest("no test data: set SHARDKIT_TEST_DATA to the folder that has mds/ and webdataset/")
        for i, source in enumerate([os.path.dirname(path) for path in indexes] + tars):
            with self.subTest(source):
                if not json.loads(self.shardctl("inspect", "--json", source))["columns"]:
                    self.assertIn("has no shards, and so no columns", self.refused(source, "-o", self.path(f"{i}.shard"), "--to", "shard"))
                    continue
                native = self.convert(source, f"{i}.shard", "shard")
                listed = self.hashes(source)
                found = self.hashes(native)
                self.assertEqual([{name: value for name, value in sample.items() if name != "key"} for sample in found],
                                 [{name: value for name, value in sample.items() if name != "key"} for sample in listed])
                tars = self.convert(native, f"{i}.tars", "webdataset", "--lossy")
                self.assertEqual(len(self.hashes(tars)), len(listed))
                mds = self.convert(native, f"{i}.mds", "mds", "--lossy")
                self.assertEqual(len(self.hashes(mds)), len(listed))


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # streaming leaves its files open
