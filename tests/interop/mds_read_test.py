#!/usr/bin/env python3
"""Datasets written by mosaicml-streaming's MDSWriter, read by shardctl: every value of every sample.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build. Runs with an interpreter that has the package `streaming`, and skips
itself elsewhere. SHARDKIT_INTEROP_ROUNDS says how many datasets of random columns are made (default: 40).
"""

import decimal
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

try:
    import numpy
    import xxhash
    from PIL import Image
    from streaming import MDSWriter
    from streaming.base.format.mds.encodings import get_mds_encodings, mds_decode, mds_encode
    from streaming.base.util import merge_index
except ImportError as error:
    MISSING = f"needs the package mosaicml-streaming: {error}"
else:
    MISSING = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SHARDKIT_BUILD_DIR", os.path.join(ROOT, "build"))
SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", os.path.join(BUILD, "tools", "shardctl")))
ROUNDS = int(os.environ.get("SHARDKIT_INTEROP_ROUNDS", "40"))

SCALARS = {"int": "<q", "uint8": "<B", "uint16": "<H", "uint32": "<I", "uint64": "<Q", "int8": "<b", "int16": "<h",
           "int32": "<i", "int64": "<q", "float16": "<e", "float32": "<f", "float64": "<d"}
ELEMENTS = ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
TEXTS = ["", "plain", "übergroß", "数据", "😀 emoji", "line\nbreak \"quoted\"", "\0null"]
PICTURES = ["jpeg", "png", "pil"]
LISTS = ["list[jpeg]", "list[png]", "list[pil]"]
COMPRESSIONS = [None, "zstd", "zstd:7", "gz", "gz:5", "bz2", "bz2:1", "br", "br:3", "snappy"]
HASHES = [[], ["sha1"], ["md5", "xxh64"], ["sha256", "xxh128", "xxh3_64"]]


def picture(chance):
    shape = (chance.randint(1, 20), chance.randint(1, 20), 3)
    return Image.fromarray(numpy.random.default_rng(chance.random().hex().encode()[3]).integers(0, 256, shape, numpy.uint8))


def array(chance, dtype, shape=None):
    if shape is None:
        shape = [chance.choice([1, 2, 3, 300]) if i == 0 else chance.randint(1, 3) for i in range(chance.randint(1, 5))]
    count = int(numpy.prod(shape))
    return numpy.frombuffer(chance.randbytes(count * numpy.dtype(dtype).itemsize), dtype).reshape(shape)


def value(chance, encoding):
    """Something to be written under an encoding."""
    if encoding == "bytes":
        return chance.randbytes(chance.choice([0, 1, 10, 1000]))
    if encoding == "str":
        return chance.choice(TEXTS) * chance.randint(0, 3)
    if encoding in SCALARS:
        letter = SCALARS[encoding][1]
        if letter in "efd":
            return struct.unpack(SCALARS[encoding], struct.pack(SCALARS[encoding], chance.uniform(-1000, 1000)))[0]
        bits = 8 * struct.calcsize(SCALARS[encoding])
        number = chance.getrandbits(bits)
        return number - (1 << (bits - 1)) if letter in "bhiq" else number
    if encoding == "str_int":
        return chance.getrandbits(200) - (1 << 199)
    if encoding == "str_float":
        return chance.uniform(-1e300, 1e300)
    if encoding == "str_decimal":
        return decimal.Decimal(chance.getrandbits(100)) / 1000
    if encoding == "json":
        return {"list": [1, 2.5, None, chance.choice(TEXTS)], "deep": {"b": True}}
    if encoding in PICTURES:
        return picture(chance)
    if encoding in LISTS:
        return [picture(chance) for _ in range(chance.randint(0, 3))]
    if encoding in ("jpeg_array", "jpegarray"):
        return [mds_encode("jpeg", picture(chance)) for _ in range(chance.randint(1, 3))]
    kind = encoding.split(":")
    if len(kind) == 3:
        return array(chance, kind[1], [int(size) for size in kind[2].split(",")])
    return array(chance, kind[1] if len(kind) == 2 else chance.choice(ELEMENTS))


def stored(encoding, item):
    """The bytes that Shardkit says the value has, made without it."""
    if encoding in SCALARS:
        return struct.pack(SCALARS[encoding], item)
    if encoding.startswith("ndarray:"):
        data = item.tobytes()
        if encoding.count(":") == 2:
            return data
        return struct.pack(f"<{1 + item.ndim}Q", item.ndim, *item.shape) + data + bytes(-len(data) % 8)
    if encoding in ("bytes",):
        return item
    if encoding in ("str", "str_int", "str_float", "str_decimal"):
        return str(item).encode()
    return mds_encode(encoding, item)


def same(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Image.Image) or isinstance(one, numpy.ndarray):
        return numpy.array_equal(numpy.asarray(one), numpy.asarray(other)) or numpy.asarray(one).tobytes() == numpy.asarray(other).tobytes()
    return one == other


def encodings(chance):
    names = sorted(get_mds_encodings() - {"pkl"})
    names += [f"ndarray:{dtype}" for dtype in ELEMENTS]
    names += [f"ndarray:{dtype}:{chance.randint(1, 4)},{chance.randint(1, 4)}" for dtype in ELEMENTS]
    return names


@unittest.skipIf(MISSING, MISSING)
class MdsReadTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shardkit-mds-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def shardctl(self, *arguments, code=0):
        done = subprocess.run([SHARDCTL, *map(str, arguments)], capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, f"shardctl {arguments}: {done.stderr.decode()}")
        return done.stderr.decode() if code else done.stdout

    def write(self, name, columns, samples, **options):
        path = os.path.join(self.folder, name)
        with MDSWriter(out=path, columns=columns, **options) as writer:
            for sample in samples:
                writer.write(sample)
        return path

    def compare(self, path, columns, samples, chance):
        document = json.loads(self.shardctl("inspect", "--json", path))
        self.assertEqual(document["samples"], len(samples))
        for mode in ("buffered", "mmap"):
            lines = self.shardctl("ls", "--values-xxh3", "--io", mode, path).decode().splitlines()
            self.assertEqual(len(lines), len(samples))
            for i, (line, sample) in enumerate(zip(lines, samples)):
                expected = {name: xxhash.xxh3_64_hexdigest(stored(encoding, sample[name]))
                            for name, encoding in columns.items()}
                self.assertEqual(json.loads(line), {"sample": i, "columns": expected}, f"{path}: {columns}")
        # Some of them through the peer's own decoder.
        for i in chance.sample(range(len(samples)), min(3, len(samples))):
            for name, encoding in columns.items():
                found = self.shardctl("cat", path, "--sample", i, "--column", name, "--force")
                self.assertEqual(found, stored(encoding, samples[i][name]))
                if encoding.startswith("ndarray:") and encoding.count(":") == 1:
                    decoded = json.loads(self.shardctl("cat", path, "--sample", i, "--column", name, "--decode"))
                    self.assertIsNotNone(decoded)
                    continue
                written = mds_decode(encoding, mds_encode(encoding, samples[i][name]))
                self.assertTrue(same(mds_decode(encoding, found), written), f"{name} of sample {i}: {encoding}")

    def test_every_encoding(self):
        chance = random.Random(1)
        for compression in COMPRESSIONS:
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
            names = chance.sample(encodings(chance), chance.randint(1, 8))
            columns = {chance.choice(["z", "a", "Ü", "with space", "x.y"]) + str(i): encoding for i, encoding in enumerate(names)}
            samples = [{name: value(chance, encoding) for name, encoding in columns.items()}
                       for _ in range(chance.choice([1, 2, 30, 200]))]
            path = self.write(str(seed), columns, samples, compression=chance.choice(COMPRESSIONS), hashes=chance.choice(HASHES),
                              size_limit=chance.choice([None, 2000, "10kb", 1 << 26]))
            self.compare(path, columns, samples, chance)

    def test_bytes_under_any_encoding(self):
        columns = {"a": "str", "b": "json", "c": "jpeg", "d": "int", "e": "str_int"}
        samples = [{"a": b"\xff\xfe", "b": b"{not json", "c": b"no picture", "d": b"8 bytes.", "e": b""}]
        path = self.write("raw", columns, samples)
        for name, payload in samples[0].items():
            self.assertEqual(self.shardctl("cat", path, "--sample", 0, "--column", name, "--force"), payload)

    def test_pickle_is_refused(self):
        columns = {"code": "pkl", "id": "int"}
        path = self.write("pickle", columns, [{"code": {"any": "thing"}, "id": i} for i in range(5)])
        self.assertIn('column "code" is pickled', self.shardctl("ls", path, code=3))
        self.assertIn('column "code" is pickled', self.shardctl("cat", path, "--sample", 0, "--column", "code", code=3))
        self.assertEqual(self.shardctl("cat", path, "--sample", 3, "--column", "id", "--force"), struct.pack("<q", 3))

    def test_no_samples(self):
        path = self.write("empty", {"a": "int"}, [])
        self.assertEqual(json.loads(self.shardctl("ls", "--json", path))["samples"], 0)

    def test_folders_and_merged_indexes(self):
        """Parts as jobs write them: opened as one, each shard alone, and merged as the package merges them."""
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
            self.shardctl("index", "--merge", root, *order)
            with open(os.path.join(root, "index.json"), "rb") as file:
                ours = file.read()
            os.remove(os.path.join(root, "index.json"))
            merge_index([os.path.join(part, "index.json") for part in order], root)
            with open(os.path.join(root, "index.json"), "rb") as file:
                self.assertEqual(ours, file.read())
            self.compare(root, columns, samples[40:] + samples[:40], random.Random(5))


if __name__ == "__main__":
    unittest.main()
