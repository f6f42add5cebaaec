#!/usr/bin/env python3
"""shardctl convert --to webdataset: its tars in webdataset, tarfile and with the rules of DALI's indexer.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build. Skips itself when the package `webdataset` is missing.
"""
import glob
import io
import json
import os
import tarfile
import unittest

import mds_values
from support import InteropTest

try:
    import numpy
    import webdataset
except ImportError as error:
    MISSING = f"needs the package webdataset: {error}"
else:
    MISSING = None


def key_and_extension(name):
    """DALI's indexer: the key is the part before the first dot of the base name."""
    folder, base = os.path.split(name)
    dot = base.find(".", 1)
    return (os.path.join(folder, base[:dot]), base[dot + 1:]) if dot >= 0 else (os.path.join(folder, base), "")


def grouped(path):
    """Samples as DALI's indexer groups them, [(key, {extension: (offset, size)})]: regular files that are not hidden, a new sample
    when the key changes."""
    samples = []
    with tarfile.open(path) as tar:
        for member in tar:
            key, extension = key_and_extension(member.name)
            if not member.isreg() or os.path.basename(member.name).startswith("."):
                continue
            if not samples or samples[-1][0] != key:
                samples.append((key, {}))
            assert extension not in samples[-1][1], member.name
            samples[-1][1][extension] = (member.offset_data, member.size)
    return samples


@unittest.skipIf(MISSING, MISSING)
class ConvertWebDatasetTest(InteropTest):
    EXTENSIONS = ["jpg", "cls", "json", "seg.png", "txt", "a-b_c", "0", "with space", "\u00e4\u6f22"]

    def make_native(self, seed, count=80):
        """A dataset packed from files: its path and its samples in order, (key, {extension: bytes})."""
        chance = mds_values.seeded(seed)
        samples = {}
        for i in range(count):
            key = chance.choice(["{:06d}", "dir/{}", "a.b/c.d/{}", "\u00fc\U0001f389/{}", "with space/{} x", "{}" + "y" * 120,
                                 "deep/" * 30 + "{}"]).format(i)
            values = {name: chance.randbytes(chance.choice([0, 1, 511, 512, 513, 5000]))
                      for name in chance.sample(self.EXTENSIONS, chance.randint(1, 4))}
            samples[key] = values
            for name, value in values.items():
                path = self.path("files", f"{key}.{name}")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(value)
        self.shardctl("pack", "--from", "files", self.path("files"), "-o", self.path("native"), "--type", "jpg=bytes", "--type",
                      "seg.png=bytes")
        listed = json.loads(self.shardctl("ls", "--long", "--json", self.path("native")))["entries"]
        self.assertEqual(sorted(entry["key"] for entry in listed), sorted(samples))
        return self.path("native"), [(entry["key"], samples[entry["key"]]) for entry in listed]

    def tars(self, path):
        return sorted(glob.glob(os.path.join(path, "*.tar")))

    def theirs(self, path):
        """The samples that webdataset reads, not decoded."""
        return [(sample["__key__"], {name: value for name, value in sample.items() if not name.startswith("__")})
                for sample in webdataset.WebDataset(self.tars(path), shardshuffle=False, empty_check=False)]

    def test_webdataset_reads_it(self):
        native, samples = self.make_native(1)
        for name, options in {"one": [], "by-number": ["--shard-samples", 17], "by-size": ["--shard-size", 60000]}.items():
            ours = self.convert(native, name, "webdataset", *options)
            self.assertEqual(len(self.tars(ours)) > 1, bool(options))
            self.assertEqual(self.theirs(ours), samples)
            if name == "by-size":
                # The end of a tar fills its last record of 10 KiB.
                self.assertLessEqual(max(map(os.path.getsize, self.tars(ours))), 61440)

    def test_members(self):
        """Plain tars: regular files in the order of samples and columns, all with the same owner, mode and time; always the same tar."""
        native, samples = self.make_native(2)
        ours = self.convert(native, "tars", "webdataset", "--shard-samples", 30)
        members = []
        for path in self.tars(ours):
            with tarfile.open(path) as tar:
                for member in tar:
                    self.assertTrue(member.isreg())
                    self.assertEqual((member.uid, member.gid, member.mtime, member.mode), (0, 0, 0, 0o644))
                    members.append((member.name, tar.extractfile(member).read()))
            self.assertEqual(os.path.getsize(path) % 512, 0)
        order = [column["name"] for column in self.columns(native)]
        self.assertEqual(members, [(f"{key}.{name}", values[name]) for key, values in samples
                                   for name in sorted(values, key=order.index)])

    def test_rules_of_dali(self):
        native, samples = self.make_native(3)
        ours = self.convert(native, "tars", "webdataset", "--shard-samples", 30)
        found = []
        for path in self.tars(ours):
            with open(path, "rb") as file:
                content = file.read()
            found += [(key, {name: content[offset:offset + size] for name, (offset, size) in values.items()})
                      for key, values in grouped(path)]
            self.assertTrue(all(offset % 512 == 0 for _, values in grouped(path) for offset, _ in values.values()))
        self.assertEqual(found, samples)

    def test_values_of_every_type_as_webdataset_decodes_them(self):
        if mds_values.MISSING:
            self.skipTest(mds_values.MISSING)
        chance = mds_values.seeded(5)
        columns = {"key": "str", "photo": "jpeg", "drawing.png": "png", "caption": "str", "meta": "json", "raw": "bytes", "n": "int64",
                   "small": "uint8", "half": "float16", "real": "float64", "box": "ndarray:float32:2,3", "any": "ndarray:int16"}
        samples = mds_values.random_samples(chance, columns, 40)
        for i, sample in enumerate(samples):
            sample["key"] = f"k/{i:03}"
        source = mds_values.write(self.path("theirs"), columns, samples)
        ours = self.convert(source, "tars", "webdataset", "--shard-samples", 25)
        dataset = webdataset.WebDataset(self.tars(ours), shardshuffle=False).decode("pil")
        found = list(dataset)
        self.assertEqual(len(found), len(samples))
        for got, sample in zip(found, samples):
            self.assertEqual(got["__key__"], sample["key"])
            self.assertEqual(got["caption.txt"], sample["caption"])
            self.assertEqual(got["meta.json"], sample["meta"])
            self.assertEqual(got["raw"], sample["raw"])
            self.assertTrue(mds_values.same(got["drawing.png"], sample["drawing.png"]))
            self.assertEqual(numpy.asarray(got["photo.jpg"]).shape, numpy.asarray(sample["photo"]).shape)
            for name in ("n", "small", "half", "real"):
                self.assertEqual(got[f"{name}.npy"].dtype, numpy.dtype(columns[name]))
                self.assertEqual(got[f"{name}.npy"].shape, ())
                self.assertEqual(got[f"{name}.npy"].tobytes(), mds_values.stored(columns[name], sample[name]))
            for name in ("box", "any"):
                self.assertEqual(got[f"{name}.npy"].dtype, sample[name].dtype)
                self.assertEqual(got[f"{name}.npy"].shape, sample[name].shape)
                self.assertEqual(got[f"{name}.npy"].tobytes(), sample[name].tobytes())

    def test_index_beside_tars(self):
        native, _ = self.make_native(6)
        with_index = self.convert(native, "with", "webdataset", "--shard-samples", 30)
        without = self.convert(native, "without", "webdataset", "--shard-samples", 30, "--no-index")
        self.assert_same_files(with_index, without, "*.tar")
        self.assertFalse(glob.glob(os.path.join(without, "*.shardidx")))
        self.assertEqual(self.hashes(with_index), self.hashes(without))
        # The index is the one that `shardctl index` makes.
        self.shardctl("index", without)
        self.assert_same_files(with_index, without, "*.shardidx")

    def test_sa1b(self):
        self.shardctl("synth", "sa1b", "-o", self.path("pairs"), "--count", 6, "--width", 320, "--height", 240)
        self.shardctl("pack", self.path("pairs"), "-o", self.path("native"))
        ours = self.convert(self.path("native"), "tars", "webdataset", "--shard-samples", 4)
        count = 0
        for key, values in self.theirs(ours):
            self.assertEqual(sorted(values), ["jpg", "json"])
            for name, value in values.items():
                with open(self.path("pairs", f"{key}.{name}"), "rb") as file:
                    self.assertEqual(value, file.read())
                    count += 1
        self.assertEqual(count, len(os.listdir(self.path("pairs"))))
        self.assert_same_dataset(self.convert(ours, "again", "shard"), self.path("native"))

    def test_what_cannot_be_read_back_is_refused(self):
        """Upper-case letters, which other programs change to lower case. Keys with a dot, which they would divide, are escaped."""
        if mds_values.MISSING:
            self.skipTest(mds_values.MISSING)
        source = mds_values.write(self.path("dotted"), {"key": "str", "raw": "bytes"}, [{"key": "a.b", "raw": b""}])
        ours = self.convert(source, "escaped", "webdataset")
        self.assertEqual(self.theirs(ours), [("a%2Eb", {"raw": b""})])
        self.assert_same_dataset(self.convert(ours, "back", "shard"), self.convert(source, "native", "shard"))
        source = mds_values.write(self.path("upper"), {"Raw": "bytes"}, [{"Raw": b"x"}])
        self.assertIn("--lossy", self.refused(source, "-o", self.path("out"), "--to", "webdataset"))
        ours = self.convert(source, "lossy", "webdataset", "--lossy")
        self.assertEqual(self.theirs(ours), [("000000000000", {"raw": b"x"})])

    def test_compressed_tars_of_others(self):
        """Tars compressed by webdataset's own writer, converted to plain tars: the same samples."""
        path = self.path("their.tar.gz")
        chance = mds_values.seeded(12)
        with webdataset.TarWriter(path, encoder=False, compress=True) as writer:
            for i in range(30):
                writer.write({"__key__": f"{i:03}", "bin": chance.randbytes(100), "txt": b"words"})
        expected = [(sample["__key__"], sample["bin"], sample["txt"]) for sample in webdataset.WebDataset(path, shardshuffle=False)]
        ours = self.convert(path, "tars", "webdataset")
        self.assertEqual([(key, values["bin"], values["txt"]) for key, values in self.theirs(ours)], expected)
        with tarfile.open(fileobj=io.BytesIO(open(self.tars(ours)[0], "rb").read())) as tar:
            self.assertEqual(len(tar.getmembers()), 60)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # webdataset leaves its files open
