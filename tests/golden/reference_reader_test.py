#!/usr/bin/python3
"""Compares the reference reader with the golden files, and the golden files with their generator.

    /usr/bin/python3 tests/golden/reference_reader_test.py
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = os.path.join(HERE, "..", "..", "format-spec")
GOLDEN = os.path.join(SPEC, "golden")
sys.path[:0] = [SPEC, GOLDEN]

import changed_datasets  # noqa: E402
import make_golden  # noqa: E402
import make_hex_example  # noqa: E402
import reference_reader  # noqa: E402
import writer  # noqa: E402
from reference_values import scalars  # noqa: E402
from reference_reader import Shard, ShardError, read_shard, recover, shard_json  # noqa: E402
from reference_dataset import Dataset, dataset_json, read_dataset  # noqa: E402
from reference_manifest import Base  # noqa: E402

LEVELS = ("open", "read", "validate", "deep")
ZSTD_MADE = {"valid/key-pages.shard", "valid/zstd.shard", "valid/dictionary.shard", "valid/trained-dictionary.shard"}


def load(path):
    with open(path, "rb") as file:
        return file.read()


def store(path, data):
    with open(path, "wb") as file:
        file.write(data)


def load_twin(name):
    twin, samples = json.loads(load(f"{GOLDEN}/valid/{name}.json")), []
    for sample in twin["samples"]:
        samples += samples[-1:] * sample if isinstance(sample, int) else [sample]
    return twin | {"samples": samples}


def recover_bytes(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return recover(file.name)


def names(kind, suffix):
    return sorted(name.removesuffix(suffix) for name in os.listdir(os.path.join(GOLDEN, kind)) if name.endswith(suffix))


def operations(path):
    """Level and operation, in the order in which a user calls them."""
    dataset = os.path.isdir(path)
    opened = []

    def open_():
        opened.append(read_dataset(path) if dataset else read_shard(path))
        if dataset and opened[0].index_problem:  # the samples can be read without the index: for these files that counts as noticing
            raise opened[0].index_problem
    yield "open", open_

    def read():
        source = opened[0]
        for s in range(len(source.shards)) if dataset else [None]:
            shard = source.shard(s) if dataset else source
            for k in range(shard.block_count):
                source.read(s, k) if dataset else shard.read_known(k)
        if dataset:
            for index in source.indexes:
                for number in range(index.page_count):
                    _, data = index.page(number)
                    for block in index.blocks_of(number, data):
                        for blob in range(len(index.names(block))):
                            index.record(block, data, blob, 0)
    yield "read", read
    yield "validate", lambda: opened[0].validate()
    yield "deep", lambda: opened[0].validate(deep=True)


def first_error(path):
    for level, operation in operations(path):
        try:
            operation()
        except ShardError as error:
            return level, error
    return None, None


class Valid(unittest.TestCase):
    maxDiff = None

    def test_shards_equal_their_twins(self):
        for name in names("valid", ".shard"):
            with self.subTest(name):
                shard = read_shard(f"{GOLDEN}/valid/{name}.shard")
                shard.validate(deep=True)
                self.assertEqual(json.loads(json.dumps(shard_json(shard))), load_twin(name))

    def test_random_access(self):
        shard = read_shard(f"{GOLDEN}/valid/many-blocks.shard")
        in_order = list(shard.samples())
        for ordinal in (22, 0, 11, 3, 12, 1):
            self.assertEqual(shard.sample(ordinal), in_order[ordinal])
            self.assertEqual(shard.find(in_order[ordinal]["Schlüssel"]), ordinal)
        self.assertIsNone(shard.find("größe/99"))
        self.assertRaises(IndexError, shard.sample, 23)
        shard = read_shard(f"{GOLDEN}/valid/duplicate-keys.shard")
        self.assertEqual((shard.find("a"), shard.find("b")), (0, 1))

    def test_values_as_plain_python(self):
        sample = read_shard(f"{GOLDEN}/valid/every-type.shard").sample(1)
        self.assertEqual(sample["image"].nested(), [[[1, 2, 3]], [[4, 5, 6]]])
        self.assertEqual(sample["boxes"].nested(), [[0.5, 1.5, -2.0, 4.25]])
        self.assertEqual((sample["f16"], sample["bf16"], sample["i64"], sample["bool"]), (-3.0, -3.0, -2, True))

    def test_every_f8e4m3_is_that_of_the_table(self):
        for bits in range(256):
            self.assertEqual(repr(scalars(29, bytes([bits]))[0]), writer.E4M3[bits])

    def test_zeros_keep_their_signs(self):
        found = read_shard(f"{GOLDEN}/valid/signed-zeros.shard").statistics["x"]
        self.assertEqual((str(found.minimum), str(found.maximum)), ("-0.0", "0.0"))

    def test_projections_are_the_samples_columns(self):
        for name in names("valid", ".shard"):
            shard = read_shard(f"{GOLDEN}/valid/{name}.shard")
            self.assertEqual(shard.block_headers() is None, name in ("without-block-headers", "only-needed-sections"), name)
            for c, column in enumerate(shard.columns):
                if column.codec > 1:
                    with self.assertRaisesRegex(ShardError, f"unknown codec {column.codec}"):
                        list(shard.project([column.name]))
                    self.assertRaises(ShardError, shard.sample, 0)
                    continue
                wanted = [repr(data.value(i)) for k in range(shard.block_count) for data in [shard.block(k).column(c)]
                          for i in range(data.block.sample_count)]
                self.assertEqual([repr(sample[column.name]) for sample in shard.project([column.name])], wanted, (name, column.name))

    def test_projections_need_no_block_header(self):
        data = bytearray(load(f"{GOLDEN}/valid/many-blocks.shard"))
        whole = Shard(memoryview(bytes(data)))
        for entry in whole.directory:
            data[entry.offset:entry.offset + 64 * 5] = bytes(64 * 5)
        shard = Shard(memoryview(bytes(data)))
        self.assertEqual(list(shard.project(["note"])), list(whole.project(["note"])))
        self.assertRaises(ShardError, shard.sample, 0)

    def test_ranges_tell_which_blocks_to_skip(self):
        ranges = read_shard(f"{GOLDEN}/valid/block-ranges.shard").block_ranges
        self.assertEqual([k for k, block in enumerate(ranges) if block["time"].minimum <= 1500 <= block["time"].maximum], [2])
        self.assertEqual([block["score"] for block in ranges],
                         [(2, -2.5, 0.5), (2, -0.0, 0.0), (2, None, None), (3, float("-inf"), float("inf")), (1, 1.5, 1.5)])
        self.assertEqual([block["count"].present_count for block in ranges], [0, 0, 1, 3, 1])
        self.assertIsNone(read_shard(f"{GOLDEN}/valid/without-block-ranges.shard").block_ranges)

    def test_datasets_equal_their_twins(self):
        for name in (*make_golden.DATASETS, *make_golden.CHANGED):
            with self.subTest(name):
                dataset = read_dataset(f"{GOLDEN}/valid/{name}")
                dataset.validate(deep=True)
                twin = json.loads(load(f"{GOLDEN}/valid/{name}.json"))
                self.assertEqual(json.loads(json.dumps(dataset_json(dataset))), twin)
                key = next((column.name for column in dataset.columns if column.key), None)
                for ordinal, sample in enumerate(twin["samples"] if key else ()):
                    self.assertEqual(dataset.find(sample[key]), ordinal)

    def test_blobs_through_the_index(self):
        for path, count in (("two-shards", 8), ("segments", 3)):
            dataset = read_dataset(f"{GOLDEN}/valid/{path}")
            for ordinal in range(count):
                sample = dataset.sample(ordinal)
                for name in (column.name for column in dataset.columns if column.is_indexed):
                    wanted = sample[name].encode() if isinstance(sample[name], str) else sample[name]
                    self.assertEqual(dataset.read_blob(ordinal, name), wanted, (ordinal, name))
        unknown = read_dataset(f"{GOLDEN}/valid/unknown-numbers")
        for ordinal, name in ((0, "scan"), (1, "scan"), (1, "data")):
            self.assertEqual(unknown.read_blob(ordinal, name), bytes(unknown.raw_sample(ordinal)[name]))
        self.assertEqual([index.layouts for index in unknown.indexes], [[[b"scan", b"data"]]])

    def test_column_files_and_removed_samples(self):
        dataset = read_dataset(f"{GOLDEN}/valid/column-files")
        samples = list(dataset.samples())
        self.assertEqual([sample["key"] for sample in samples], ["k0", "k4", "k1", "k6", "k7"])
        self.assertEqual([dataset.find(sample["key"]) for sample in samples], list(range(5)))
        self.assertIsNone(dataset.find("k2"))
        for ordinal, sample in enumerate(samples):
            self.assertEqual(dataset.read_blob(ordinal, "data"), sample["data"])
            self.assertEqual(dataset.read_blob(ordinal, "caption"), sample["caption"])
        self.assertRaises(IndexError, dataset.sample, 5)

    def test_bases(self):
        dataset = read_dataset(f"{GOLDEN}/valid/bases")
        wanted = read_dataset(f"{GOLDEN}/valid/segments").sample(1)["data"]
        self.assertEqual([dataset.read_blob(ordinal, "data") for ordinal in range(2)], [None, wanted])
        with tempfile.TemporaryDirectory() as directory:
            for name, base, inner in (("bases", "segments", "small"), ("bases-columns", "compacted-columns", "c"),
                                      ("bases-columns", "tiny", "t")):
                shutil.copytree(f"{GOLDEN}/valid/{name}", f"{directory}/{name}", dirs_exist_ok=True)
                with self.assertRaisesRegex(ShardError, f"base '{inner}', ../{base}.* is missing"):
                    list(read_dataset(f"{directory}/{name}").samples())
                shutil.copytree(f"{GOLDEN}/valid/{base}", f"{directory}/{base}")
                # A copy of the base as the folder of its name makes a whole dataset.
                shutil.copytree(f"{GOLDEN}/valid/{base}", f"{directory}/{name}/{inner}")
            for name in ("bases", "bases-columns"):
                twin = json.loads(load(f"{GOLDEN}/valid/{name}.json"))
                self.assertEqual(dataset_json(read_dataset(f"{directory}/{name}")), twin)
                fields = json.loads(load(f"{directory}/{name}/dataset.json")) | {"features": []}
                del fields["bases"], fields["checksum"], twin["bases"]
                store(f"{directory}/{name}/dataset.json", writer.manifest_text(fields.items()))
                self.assertEqual(dataset_json(read_dataset(f"{directory}/{name}")), twin)

    def test_renamed_columns(self):
        dataset = read_dataset(f"{GOLDEN}/valid/renamed-columns")
        samples = list(dataset.samples())
        self.assertEqual([(sample["left"], sample["right"]) for sample in samples], [(10 + i, i) for i in range(5)])
        self.assertEqual([dataset.find(sample["id"]) for sample in samples], list(range(5)))
        for ordinal, sample in enumerate(samples):
            self.assertEqual(dataset.read_blob(ordinal, "remark"), sample["remark"].encode())

    def test_recovery_of_a_whole_shard_finds_every_block(self):
        for name in names("valid", ".shard"):
            path = f"{GOLDEN}/valid/{name}.shard"
            shard = read_shard(path)
            self.assertEqual([block.offset for block in recover(path)[1]], [entry.offset for entry in shard.directory])
            data = load(path)
            lost = bytes(shard.header.length) + data[shard.header.length:]
            if 7 in shard.sections:
                self.assertEqual(recover_bytes(lost)[0], shard.header)
            else:
                self.assertRaises(ShardError, recover_bytes, lost)


class Invalid(unittest.TestCase):
    def check_error(self, level, error, wanted):
        self.assertIsNotNone(error, "no error")
        self.assertLessEqual(LEVELS.index(level), LEVELS.index(wanted["found_by"]), error)
        self.assertEqual(error.kind, wanted["class"], error)
        for fragment in wanted["contains"]:
            self.assertIn(fragment, str(error).lower())

    def test_each_raises_its_error(self):
        for name in names("invalid", ".error.json"):
            with self.subTest(name):
                wanted = json.loads(load(f"{GOLDEN}/invalid/{name}.error.json"))
                path = f"{GOLDEN}/invalid/{name}"
                level, error = first_error(path if os.path.isdir(path) else path + ".shard")
                self.check_error(level, error, wanted)
                if wanted["offset"] is not None:
                    self.assertEqual(error.offset, wanted["offset"], error)
                if "recovered" in wanted:
                    self.assertEqual([dict(first_sample=block.first_sample, sample_count=block.sample_count)
                                      for block in recover(path + ".shard")[1]], wanted["recovered"])

    def test_each_defect_of_bases_raises_its_error(self):
        cases, base = {}, changed_datasets.BASE
        defects = [(key, None) for key in base]  # the key is missing
        defects += [("name", value) for value in ("", ".", "a\0", "x" * 256, 1)]
        defects += [("location", value) for value in ("x" * 4097, "gs://b/c#d", 1)]
        defects += [("generation", "1"), ("generation", (1 << 62) + 1), ("checksum", "0" * 15), ("checksum", "A" * 16)]
        for key, value in defects:
            row = {name: other for name, other in (base | {key: value}).items() if other is not None}
            files = {"/dataset.json": changed_datasets.with_bases(bases=[row])}
            cases[f"{key} {value!r:.9}"] = files, make_golden.make_invalid.error("open", ["manifest", key])
        for name, (files, wanted) in cases.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                for path, data in files.items():
                    store(directory + path, data)
                level, error = first_error(directory)
                self.check_error(level, error, wanted)

    def test_reach_of_a_dataset(self):
        out = dict.fromkeys(("../../other", "../../data2/x", "/", "/data2", "s3://b/x"))
        found = {"..": "/data", "../": "/data", "../../data": "/data", "../x": "/data/x", "x": "/data/ds/x", "/data/x/y": "/data/x/y",
                 "//data/./x/": "/data/x", "../../data/x": "/data/x", "../../../../data/x": "/data/x",
                 "/elsewhere/../data/x": "/data/x", "../what?": "/data/what?", "../a@b": "/data/a@b"}
        at_root = {"x": "/ds/x", "../ds/x": "/ds/x", "../x": None, "/x": None, "..": None}
        deep = {"../../x": "/a/x", "../..": "/a", "../../../x": None, "../../../ab": None}
        for directory, wanted in (("/data/ds", out | found), ("/ds", at_root), ("/a/b/ds", deep)):
            reader = Dataset.__new__(Dataset)
            reader.directory = directory
            for location, path in wanted.items():
                with self.subTest(f"{location} from {directory}"):
                    base = Base("b", location, 1, "0" * 16)
                    if path is None:
                        with self.assertRaisesRegex(ShardError, "base 'b': .*out of reach") as refused:
                            reader.folder(base)
                        self.assertEqual(refused.exception.kind, "PermissionDenied")
                    else:
                        self.assertEqual(reader.folder(base), path)

    def test_no_blob_through_the_index_of_an_exchanged_shard(self):
        with self.assertRaisesRegex(ShardError, "not the one in the manifest"):
            read_dataset(f"{GOLDEN}/invalid/dataset-shard-swapped").read_blob(0, "key")

    def test_pages_that_are_not_full_are_read(self):
        shard = read_shard(f"{GOLDEN}/invalid/page-not-full.shard")
        self.assertEqual([sample["p"] for sample in shard.samples()], [b"first", b"second", b"", None, b"last"])

    def test_a_dataset_is_read_without_its_index(self):
        with_index = read_dataset(f"{GOLDEN}/invalid/dataset-index-places-begin")
        for name in ("missing", "of-others", "cut-short", "tail-flipped", "root-flipped"):
            dataset = read_dataset(f"{GOLDEN}/invalid/dataset-segment-file-{name}")
            self.assertIsNotNone(dataset.index_problem)
            self.assertEqual(dataset_json(dataset)["samples"], dataset_json(with_index)["samples"])
            with self.assertRaises(ShardError):
                dataset.read_blob(0, "key")

    def test_every_flipped_bit_is_found(self):
        data = bytearray(load(f"{GOLDEN}/valid/one-sample.shard"))
        for bit in range(8 * len(data)):
            data[bit // 8] ^= 1 << bit % 8
            with self.assertRaises(ShardError, msg=f"bit {bit % 8} of byte {bit // 8}"):
                Shard(memoryview(bytes(data))).validate(deep=True)
            data[bit // 8] ^= 1 << bit % 8

    def test_a_flipped_bit_of_each_byte_of_ranges_is_found_behind_right_checksums(self):
        whole = make_golden.block_ranges()
        begin, end = whole.at["section 6"], whole.at["section 5"]
        for bit in (8 * byte + byte % 8 for byte in range(end - begin)):
            flipped = make_golden.block_ranges(hook=lambda name, data: make_golden.make_invalid.patch(
                data, bit // 8, bytes([data[bit // 8] ^ 1 << bit % 8])) if name == "section 6" else data).data
            with self.assertRaises(ShardError, msg=f"bit {bit % 8} of byte {bit // 8}"):
                Shard(memoryview(flipped)).validate()

    def test_every_truncation_is_found(self):
        data = load(f"{GOLDEN}/valid/one-sample.shard")
        for length in range(len(data)):
            with self.assertRaises(ShardError, msg=f"{length} bytes"):
                Shard(memoryview(data[:length]))

    def test_every_flipped_bit_of_a_dataset_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            for source, name in (("two-shards", "a.shard"), ("two-shards", "dataset.json"), ("two-shards", "dataset.segment"),
                                 ("sha256", "dataset.json"), ("column-files", "dataset.json"), ("column-files", "dataset-6.removed"),
                                 ("column-files", "dataset-4.columns")):
                copy = f"{directory}/{source}"
                shutil.copytree(f"{GOLDEN}/valid/{source}", copy, dirs_exist_ok=True)
                data = bytearray(load(f"{copy}/{name}"))
                for byte in range(0, len(data), 97 if name.endswith((".shard", ".columns")) else 1):
                    data[byte] ^= 1 << byte % 8
                    with open(f"{copy}/{name}", "wb") as file:
                        file.write(data)
                    with self.assertRaises(ShardError, msg=f"{source}/{name}: byte {byte}"):
                        read_dataset(copy).validate()
                    data[byte] ^= 1 << byte % 8


class Generator(unittest.TestCase):
    def test_reproduces_the_committed_files(self):
        made = make_golden.all_files()
        on_disk = {os.path.relpath(os.path.join(folder, name), GOLDEN)
                   for kind in ("valid", "invalid") for folder, _, files in os.walk(os.path.join(GOLDEN, kind)) for name in files}
        self.assertEqual(on_disk, set(made))
        for path, data in made.items():
            committed = load(os.path.join(GOLDEN, path))
            if data != committed and path.endswith(".shard") and path in ZSTD_MADE:
                # Another version of libzstd may compress differently: then compare the decompressed contents.
                self.assertEqual(list(Shard(memoryview(data)).samples()), list(Shard(memoryview(committed)).samples()), path)
            elif not path.removesuffix(".json") + ".shard" in ZSTD_MADE:
                self.assertEqual(data, committed, path)

    def test_file_names_them(self):
        if shutil.which("file") is None:
            self.skipTest("file(1) is not installed")
        for name, words in (("one-sample.shard", "Shardkit shard, version 1.0"), ("tiny/dataset.json", "Shardkit dataset manifest, version 1"),
                            ("tiny/dataset.segment", "Shardkit table")):
            run = subprocess.run(["file", "-b", "-e", "json", "-m", os.path.join(SPEC, "magic"), f"{GOLDEN}/valid/{name}"],
                                 capture_output=True, text=True, check=True)
            self.assertEqual(run.stdout.strip(), words)

    def test_hex_examples_are_those_of_the_files(self):
        with open(os.path.join(SPEC, "bytes.md"), encoding="utf-8") as file:
            self.assertEqual(make_hex_example.page(), file.read(), "run format-spec/golden/make_hex_example.py")

    def test_table_of_errors_is_that_of_the_generator(self):
        with open(os.path.join(GOLDEN, "README.md"), encoding="utf-8") as file:
            self.assertTrue(file.read().endswith(make_golden.make_invalid_dataset.table()), "see make_golden.py --table")

    def test_all_together_are_small(self):
        total = sum(len(data) for data in make_golden.all_files().values())
        self.assertLess(total, 1_265_000)


class CommandLine(unittest.TestCase):
    def run_reader(self, *arguments):
        out = subprocess.run([sys.executable, os.path.join(SPEC, "reference_reader.py"), *arguments], capture_output=True,
                             text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"})
        return out.returncode, out.stdout, out.stderr

    def test_prints_the_twin(self):
        for name in ("one-sample.shard", "two-shards"):
            code, out, err = self.run_reader(f"{GOLDEN}/valid/{name}", "--json")
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(json.loads(out), json.loads(load(f"{GOLDEN}/valid/{name.removesuffix('.shard')}.json")))

    def test_sample_and_hashes(self):
        code, out, _ = self.run_reader(f"{GOLDEN}/valid/two-shards", "--sample", "6")
        self.assertEqual((code, json.loads(out)["key"]), (0, "second/1"))
        code, out, _ = self.run_reader(f"{GOLDEN}/valid/two-shards", "--values-xxh3")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([line["sample"] for line in lines], list(range(8)))
        self.assertEqual(list(lines[7]["columns"]), ["key", "image", "text", "label", "extra"])
        self.assertIsNone(lines[7]["columns"]["image"])
        self.assertEqual(lines[7]["columns"]["key"], f"{reference_reader.xxh3(b'second/2'):016x}")

    def test_errors(self):
        code, out, err = self.run_reader(f"{GOLDEN}/invalid/flip-values-chunk.shard", "--verify-only")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("values chunk checksum", err)
        self.assertEqual(self.run_reader(f"{GOLDEN}/valid/one-sample.shard", "--verify-only"), (0, "", ""))
        self.assertEqual(self.run_reader(f"{GOLDEN}/valid/one-sample.shard", "--sample", "1")[0], 2)
        self.assertEqual(self.run_reader(f"{GOLDEN}/no-such.shard")[0], 3)


if __name__ == "__main__":
    unittest.main()
