#!/usr/bin/env python3
"""shardctl convert --to mds, compared with mosaicml-streaming: the same files as MDSWriter's, and the peer reads them.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build. Skips itself when the package `streaming` is missing.
"""
import json
import os
import unittest

import mds_values
from mds_values import MISSING, stored
from support import ROUNDS, InteropTest

if MISSING is None:
    import zstandard
    from streaming import StreamingDataset
    from streaming.base.format.mds.encodings import mds_decode
    from streaming.base.format.mds.reader import MDSReader

SIZES = [2000, 10000, 65536, 1 << 26]
HASHES = [[], ["sha1"], ["md5", "xxh64"], ["sha256", "xxh128", "xxh3_64"], ["blake2b", "sha3_256", "sha512"]]
TEXT = "{:05d} \u00fc \U0001f389"


def hash_options(hashes):
    return ["--hash", ",".join(hashes)] if hashes else []


def parse_index(path):
    with open(os.path.join(path, "index.json"), encoding="utf-8") as file:
        return json.load(file)


@unittest.skipIf(MISSING, MISSING)
class ConvertMdsTest(InteropTest):
    def theirs(self, name, columns, samples, **options):
        return mds_values.write(self.path(name), columns, samples, **options)

    def make_native(self, chance, count=60):
        """A dataset packed from files, and its samples as MDSWriter takes them."""
        extensions = {"bin": "bytes", "txt": "str", "a.b.dat": "bytes"}
        samples = []
        for i in range(count):
            key = f"{chance.choice(['', 'deep/er/', chr(0xfc) + '/'])}{i:04d}"
            sample = {"key": key, "bin": chance.randbytes(chance.choice([0, 1, 100, 3000])), "a.b.dat": b"\xff" + chance.randbytes(50),
                      "txt": TEXT.format(i) * chance.randint(0, 4)}
            os.makedirs(os.path.dirname(self.path("files", key)), exist_ok=True)
            for extension in extensions:
                value = sample[extension]
                with open(self.path("files", f"{key}.{extension}"), "wb") as file:
                    file.write(value if isinstance(value, bytes) else value.encode())
            samples.append(sample)
        self.shardctl("pack", "--from", "files", self.path("files"), "-o", self.path("native"))
        samples.sort(key=lambda sample: sample["key"].encode())
        listed = json.loads(self.shardctl("ls", "--long", "--json", self.path("native")))["entries"]
        self.assertEqual([entry["key"] for entry in listed], [sample["key"] for sample in samples])
        return self.path("native"), {"key": "str", **extensions}, samples

    def check_readers(self, path, columns, samples):
        """The peer's readers read our files: in order, at random, and compared with our own figures."""
        readers = [MDSReader.from_json(path, None, shard) for shard in parse_index(path)["shards"]]
        found = [{name: bytes(value) for name, value in self.raw(reader, i).items()} for reader in readers for i in range(reader.size)]
        self.assertEqual(len(found), len(samples))
        for got, sample in zip(found, samples):
            self.assertEqual(got, {name: mds_values.mds_encode(encoding, sample[name]) for name, encoding in columns.items()})
        self.assertEqual(self.hashes(path), mds_values.expected_hashes(columns, samples))

    @staticmethod
    def raw(reader, index):
        """A sample's values as the peer extracts them, before decoding."""
        data = reader.get_sample_data(index)
        sizes, position = [], 0
        for size in reader.column_sizes:
            if size:
                sizes.append(size)
            else:
                sizes.append(int.from_bytes(data[position:position + 4], "little"))
                position += 4
        values = {}
        for name, size in zip(reader.column_names, sizes):
            values[name] = data[position:position + size]
            position += size
        return values

    def test_packed_files_become_the_files_of_their_writer(self):
        for seed, size in enumerate(SIZES):
            chance = mds_values.seeded(seed)
            hashes = HASHES[seed % len(HASHES)]
            self.folder = self.path(str(size))
            os.mkdir(self.folder)
            native, columns, samples = self.make_native(chance)
            theirs = self.theirs("theirs", columns, samples, size_limit=size, hashes=hashes)
            ours = self.convert(native, "ours", "mds", "--shard-size", size, *hash_options(hashes))
            self.assert_same_files(ours, theirs, "*.mds")
            self.assert_same_files(ours, theirs, "index.json")
            self.check_readers(ours, columns, samples)

    def test_their_datasets_come_back_as_the_same_files(self):
        """MDS, shard, MDS: random columns of every encoding, sizes and hashes."""
        for seed in range(ROUNDS):
            chance = mds_values.seeded(seed)
            columns = mds_values.random_columns(chance)
            samples = mds_values.random_samples(chance, columns, chance.choice([1, 2, 30, 100]))
            size, hashes = chance.choice(SIZES), chance.choice(HASHES)
            with self.subTest(seed=seed, columns=columns, size=size, hashes=hashes):
                theirs = self.theirs(f"{seed}.theirs", columns, samples, size_limit=size, hashes=hashes)
                shard = self.convert(theirs, f"{seed}.shard", "shard")
                self.assertEqual(self.hashes(shard), self.hashes(theirs))
                for source, name in ((shard, "ours"), (theirs, "directly")):
                    ours = self.convert(source, f"{seed}.{name}", "mds", "--shard-size", size, *hash_options(hashes))
                    self.assert_same_files(ours, theirs, "*.mds")
                    self.assert_same_files(ours, theirs, "index.json")

    def test_compressed(self):
        """The decompressed files are the same, their index says so, and the peer reads them."""
        for compression in ("zstd", "zstd:1", "zstd:19"):
            chance = mds_values.seeded(7)
            columns = {"text": "str", "data": "bytes", "n": "int64"}
            samples = mds_values.random_samples(chance, columns, 50)
            name = compression.replace(":", "-")
            theirs = self.theirs(f"{name}.theirs", columns, samples, size_limit=10000, hashes=["sha1", "xxh64"], compression=compression)
            ours = self.convert(theirs, f"{name}.ours", "mds", "--shard-size", 10000, "--hash", "sha1,xxh64",
                                "--compression", compression)
            index, expected = parse_index(ours), parse_index(theirs)
            for shard, wanted in zip(index["shards"], expected["shards"]):
                with open(os.path.join(ours, shard["zip_data"]["basename"]), "rb") as file:
                    compressed = file.read()
                self.assertEqual(shard["zip_data"]["bytes"], len(compressed))
                with open(os.path.join(theirs, wanted["zip_data"]["basename"]), "rb") as file:
                    self.assertEqual(zstandard.decompress(compressed), zstandard.decompress(file.read()))
                self.assertEqual(shard["zip_data"]["basename"], wanted["zip_data"]["basename"])
                self.assertEqual(list(shard["zip_data"]["hashes"]), list(wanted["zip_data"]["hashes"]))
                # These depend on the version of the zstd library.
                shard["zip_data"] = wanted["zip_data"] = None
            self.assertEqual(index, expected)
            self.assertFalse([entry for entry in os.listdir(ours) if entry.endswith(".mds")])
            self.shardctl("validate", "--deep", ours)
            self.check_streaming(ours, columns, samples)

    def check_streaming(self, path, columns, samples):
        """StreamingDataset, local, validating hashes; by index and in order."""
        dataset = StreamingDataset(local=path, shuffle=False, batch_size=1, validate_hash="sha1")
        self.assertEqual(len(dataset), len(samples))
        order = list(range(len(samples)))
        mds_values.seeded(3).shuffle(order)
        for i in order:
            for name, encoding in columns.items():
                expected = mds_decode(encoding, mds_values.mds_encode(encoding, samples[i][name]))
                self.assertTrue(mds_values.same(dataset[i][name], expected), (i, name))
        self.assertEqual([sample["n"] for sample in dataset], [sample["n"] for sample in samples])
        return dataset

    def test_streaming_dataset_reads_every_type(self):
        chance = mds_values.seeded(11)
        columns = {f"{i:02}": encoding for i, encoding in enumerate(mds_values.encodings(chance))}
        columns["n"] = "int64"
        samples = mds_values.random_samples(chance, columns, 40)
        shard = self.convert(self.theirs("theirs", columns, samples), "shard", "shard")
        ours = self.convert(shard, "ours", "mds", "--shard-size", 65536, "--hash", "sha1")
        self.assertGreater(len(parse_index(ours)["shards"]), 1)
        dataset = self.check_streaming(ours, columns, samples)
        # Some random accesses.
        for i in chance.sample(range(len(samples)), 5):
            for name, encoding in columns.items():
                data = self.shardctl("cat", ours, "--sample", i, "--column", name, "--force")
                self.assertEqual(data, stored(encoding, samples[i][name]))
                decoded = mds_values.decoded(encoding, data)
                if decoded is not None:
                    self.assertTrue(mds_values.same(decoded, dataset[i][name]), (i, name))

    def test_encodings_that_are_asked_for(self):
        """Encodings that store the same bytes as the type's own encoding."""
        chance = mds_values.seeded(5)
        columns = {"label": "int", "number": "str_int", "price": "str_decimal", "ratio": "str_float", "views": "list[jpeg]", "raw": "pil",
                   "old": "jpeg_array", "any": "ndarray"}
        samples = mds_values.random_samples(chance, columns, 30)
        plain = {"label": "int64", "number": "str", "price": "str", "ratio": "str", "views": "bytes", "raw": "bytes", "old": "bytes",
                 "any": "bytes"}
        untold = [{name: mds_values.mds_encode(columns[name], sample[name]) if plain[name] == "bytes"
                   else sample[name] if name == "label" else str(sample[name]) for name in plain} for sample in samples]
        theirs = self.theirs("theirs", columns, samples, size_limit=10000)
        source = self.convert(self.theirs("plain", plain, untold), "shard", "shard")
        # Without --encoding, the types' own encodings are used.
        own = parse_index(self.convert(source, "own", "mds"))["shards"][0]
        self.assertEqual(dict(zip(own["column_names"], own["column_encodings"])), plain)
        told = [option for name, encoding in columns.items() for option in ("--encoding", f"{name}={encoding}")]
        ours = self.convert(source, "ours", "mds", "--shard-size", 10000, *told)
        self.assert_same_files(ours, theirs, "*.mds")
        self.assert_same_files(ours, theirs, "index.json")
        self.assertIn("label", self.refused(source, "-o", self.path("bad"), "--to", "mds", "--encoding", "label=int32"))

    def test_chosen_columns(self):
        chance = mds_values.seeded(6)
        columns = {"b": "bytes", "a": "str", "n": "int32"}
        samples = mds_values.random_samples(chance, columns, 20)
        source = self.convert(self.theirs("all", columns, samples), "shard", "shard")
        theirs = self.theirs("theirs", {"n": "int32", "a": "str"}, samples)
        self.assert_same_files(self.convert(source, "ours", "mds", "--columns", "n,a"), theirs, "shard.*")

    def test_threads_make_no_difference(self):
        chance = mds_values.seeded(8)
        columns = {"b": "bytes", "a": "str", "n": "int32"}
        source = self.theirs("theirs", columns, mds_values.random_samples(chance, columns, 300))
        for to, options in (("mds", ["--shard-size", 5000, "--hash", "sha1", "--compression", "zstd"]), ("shard", ["--shard-samples", 40]),
                            ("webdataset", ["--shard-samples", 40])):
            one = self.convert(source, f"{to}.1", to, "-j", 1, *options)
            self.assert_same_files(self.convert(source, f"{to}.2", to, "-j", 2, *options), one)

    def test_a_first_sample_larger_than_a_shard(self):
        """MDSWriter closes a shard without samples before it."""
        columns = {"b": "bytes"}
        samples = [{"b": bytes([i]) * 5000} for i in range(4)]
        theirs = self.theirs("theirs", columns, samples, size_limit=1000)
        self.assertEqual(parse_index(theirs)["shards"][0]["samples"], 0)
        shard = self.convert(theirs, "shard", "shard")
        ours = self.convert(shard, "ours", "mds", "--shard-size", 1000)
        self.assert_same_files(ours, theirs, "*.mds")
        self.assert_same_files(ours, theirs, "index.json")


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # streaming leaves its files open
