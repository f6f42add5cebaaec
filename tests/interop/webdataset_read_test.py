#!/usr/bin/env python3
"""Compares Shardkit with the webdataset package: tars of its writers, and the samples of its reader.

    tests/interop/webdataset_read_test.py [--shardctl PATH] [--data DIR] [unittest's options]

Needs `webdataset` (pip install webdataset); without it everything is skipped. The command comes from --shardctl, the variable
SHARDCTL or build/tools/shardctl; real tars from --data, SHARDKIT_TEST_DATA or ../shared/data beside the repository.
"""
import argparse
import glob
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

try:
    import webdataset
except ImportError:
    webdataset = None

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARDCTL = os.environ.get("SHARDCTL") or os.path.join(ROOT, "build", "tools", "shardctl")
DATA = os.environ.get("SHARDKIT_TEST_DATA") or os.path.join(os.path.dirname(ROOT), "shared", "data")


def column(extension):
    """The name of an extension's column."""
    return {"": "/.", "key": "/key"}.get(extension, extension)


@unittest.skipUnless(webdataset, "needs the package webdataset")
class WebDatasetRead(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shardkit-interop-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def shardctl(self, *arguments, code=0):
        done = subprocess.run([SHARDCTL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stderr.decode(errors='replace')}")
        return done.stdout

    @staticmethod
    def theirs(tars):
        """Samples as webdataset groups them, not decoded: (key, {column: bytes}), keys without ./ in front as we read them."""
        dataset = webdataset.WebDataset(tars, shardshuffle=False, empty_check=False)
        return [(sample["__key__"].removeprefix("./"), {column(name): value for name, value in sample.items() if not name.startswith("__")})
                for sample in dataset]

    def ours(self, path):
        """The same from shardctl: keys and lengths from ls, hashes of every value from ls --values-xxh3."""
        entries = json.loads(self.shardctl("ls", "--long", "--json", path))["entries"]
        return [(entry["key"], {name: length for name, length in entry["lengths"].items() if name != "key" and length is not None})
                for entry in entries]

    def check(self, path, tars, values=20):
        theirs = self.theirs(tars)
        self.assertEqual(self.ours(path), [(key, {name: len(value) for name, value in columns.items()}) for key, columns in theirs])
        for ordinal in random.Random(5).sample(range(len(theirs)), min(values, len(theirs))):
            for name, value in theirs[ordinal][1].items():
                self.assertEqual(self.shardctl("cat", path, "--sample", ordinal, "--column", name), value, (ordinal, name))
        # Hashes of every value, if Python has the same hash library.
        try:
            import xxhash
        except ImportError:
            return len(theirs)
        hashes = [json.loads(line)["columns"] for line in self.shardctl("ls", "--values-xxh3", path).splitlines()]
        for ordinal, (_, columns) in enumerate(theirs):
            found = {name: value for name, value in hashes[ordinal].items() if value is not None and name != "key"}
            self.assertEqual(found, {name: xxhash.xxh3_64_hexdigest(value) for name, value in columns.items()}, ordinal)
        return len(theirs)

    def samples(self, count, seed):
        """Random samples with odd names that their writers accept."""
        chooser = random.Random(seed)
        extensions = ["jpg", "cls", "json", "seg.png", "TXT", "Mixed.Case", "a-b_c", "0", "with space", "\u00e4\u6f22", "key", "x" * 90]
        for i in range(count):
            key = chooser.choice(["{:06d}", "dir/{}", "a.b/c.d/{}", "./{}", "\u00fc\U0001f389/{}", "with space/{} x", "{}" + "y" * 120,
                                  "deep/" * 30 + "{}", "-{}", "__{}"]).format(i)
            chosen = chooser.sample(extensions, chooser.randint(1, 4))
            yield {"__key__": key, **{name: chooser.randbytes(chooser.choice([0, 1, 511, 512, 513, 5000])) for name in chosen}}

    def write(self, target, samples, **options):
        with webdataset.TarWriter(target, encoder=False, **options) as writer:
            for sample in samples:
                writer.write(sample)

    def test_tar_writer(self):
        for seed in range(3):
            path = self.path(f"{seed}.tar")
            written = list(self.samples(100, seed))
            self.write(path, written)
            self.assertEqual(self.check(path, path), 100)
            # Compares not only with webdataset's reader, but also with the writer's input.
            expected = [(sample["__key__"].removeprefix("./"), {column(name.lower()): len(value) for name, value in sample.items() if name != "__key__"})
                        for sample in written]
            self.assertEqual(self.ours(path), expected)
            # The same with the index.
            self.shardctl("index", path)
            self.assertEqual(self.check(path, path), 100)

    def test_compressed_tar_writer(self):
        path = self.path("c.tar.gz")
        self.write(path, self.samples(60, 7), compress=True)
        with open(path, "rb") as file:
            self.assertEqual(file.read(2), b"\x1f\x8b")
        self.assertEqual(self.check(path, path, values=4), 60)

    def test_shard_writer(self):
        with webdataset.ShardWriter(self.path("s-%04d.tar"), maxcount=17, verbose=0, encoder=False) as writer:
            for sample in self.samples(100, 11):
                writer.write(sample)
        tars = sorted(glob.glob(self.path("s-*.tar")))
        self.assertEqual(len(tars), 6)
        self.assertEqual(self.check(self.folder, tars), 100)
        answer = json.loads(self.shardctl("index", self.folder, "--json"))
        self.assertEqual([entry["samples"] for entry in answer["tars"]], [17] * 5 + [15])
        self.assertEqual(self.check(self.folder, tars), 100)

    def test_members_that_are_passed_over(self):
        """Tars as other tools write them: folders, hidden files, metadata, links, repeated samples, all formats."""
        names = ["d/", "d/a.x", "d/b", ".c.x", "__m__", "__m__/a.x", "d/a.y", "d/.h.x", "d/a.", "__k__.json", "a.b/c", "a..b", "e.x", "d/a.x",
                 "f/" * 60 + "a.x", "__a.b__/c.d", "d/__k__/a.json", "./e.x", "\u00e4.\u00d6"]
        for number, form in enumerate([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]):
            path = self.path(f"{number}.tar")
            with tarfile.open(path, "w", format=form) as tar:
                for i, name in enumerate(names):
                    info = tarfile.TarInfo(name)
                    if name.endswith("/"):
                        info.type = tarfile.DIRTYPE
                        tar.addfile(info)
                    else:
                        content = str(i).encode() * i
                        info.size = len(content)
                        tar.addfile(info, io.BytesIO(content))
                link = tarfile.TarInfo("d/a.link")
                link.type, link.linkname = tarfile.SYMTYPE, "a.x"
                tar.addfile(link)
                hard = tarfile.TarInfo("d/a.hard")
                hard.type, hard.linkname = tarfile.LNKTYPE, "d/a.x"
                tar.addfile(hard)
            # webdataset also changes letters outside ASCII to lower case.
            theirs = [(key, {name.replace("\u00f6", "\u00d6"): len(value) for name, value in columns.items()})
                      for key, columns in self.theirs(path)]
            self.assertGreater(len(theirs), 8)
            # We follow links to members before them.
            length = len(str(names.index("d/a.x", 2))) * names.index("d/a.x", 2)
            self.assertEqual(self.ours(path), [*theirs, ("d/a", {"link": length, "hard": length})])

    def test_an_extension_twice_is_an_error_for_both(self):
        path = self.path("twice.tar")
        with tarfile.open(path, "w") as tar:
            for name in ("a.x", "a.X"):
                tar.addfile(tarfile.TarInfo(name))
        with self.assertRaises(ValueError):
            self.theirs(path)
        self.shardctl("ls", path, code=1)

    def test_indexes_for_dali_name_the_members(self):
        """Positions and names as in Python's tarfile, samples as in webdataset; with and without the index."""
        chance = random.Random(8)
        for number, form in enumerate([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]):
            path = self.path(f"{number}.tar")
            with tarfile.open(path, "w", format=form) as tar:
                for key in range(50):
                    folder = "long/" * chance.choice([0, 1, 25])
                    for extension in chance.sample(["jpg", "JSON", "a.b.cls", "\u00e4"], chance.randint(1, 4)):
                        info = tarfile.TarInfo(f"{folder}{key}.{extension}")
                        info.size = chance.choice([0, 1, 511, 512, 513, 40000])
                        tar.addfile(info, io.BytesIO(chance.randbytes(info.size)))
            before = self.ours(path)
            self.shardctl("index", "--dali", path)
            with open(path[:-3] + "idx", encoding="utf-8") as file:
                lines = [line.split(" ") for line in file.read().splitlines()]
            self.assertEqual(lines[0], ["v1.2", str(len(self.theirs(path)))])
            found = [tuple(line[i:i + 4]) for line in lines[1:] for i in range(0, len(line), 4)]
            with tarfile.open(path) as tar:
                self.assertEqual(found, [(member.name.rpartition("/")[2].partition(".")[2], str(member.offset_data), str(member.size), member.name)
                                         for member in tar])
            self.assertEqual(self.ours(path), before)
            self.check(path, path)
            self.shardctl("validate", path)

    def test_genuine_tars(self):
        tars = sorted(glob.glob(os.path.join(DATA, "webdataset", "*", "*.tar*")))
        if not tars:
            self.skipTest("no test data: set SHARDKIT_TEST_DATA to the folder that has webdataset/")
        for path in tars:
            with self.subTest(path):
                self.assertGreater(self.check(path, path, values=5), 0)


def main():
    global SHARDCTL, DATA
    parser = argparse.ArgumentParser(description="Shardkit against webdataset.", add_help=False)
    parser.add_argument("--shardctl", default=SHARDCTL)
    parser.add_argument("--data", default=DATA)
    arguments, rest = parser.parse_known_args()
    SHARDCTL, DATA = os.path.abspath(arguments.shardctl), arguments.data
    unittest.main(argv=sys.argv[:1] + rest, warnings="ignore")  # webdataset leaves its files open


if __name__ == "__main__":
    main()
