"""Reading values back: cat, unpack, the read modes, and standard output that fails."""
import base64
import json
import os
import pty
import shutil
import subprocess
import tarfile

import support
from support import ROOT, CliTest, annotation, tiny_jpeg


class CatTest(CliTest):
    def test_values_are_the_files(self):
        self.pack_small_files()
        for key, column in [("apple", "txt"), ("apple", "json"), ("sub/cherry", "jpg"), ("sub/date", "bin"),
                            ("zucchini", "txt")]:
            with self.subTest(key=key, column=column):
                file = self.read("in", f"{key}.{column}")
                self.assertEqual(self.shardctl("cat", "out", "--key", key, "--column", column).out, file)
                self.shardctl("cat", "out", "--key", key, "-c", column, "-o", "value")
                self.assertEqual(self.read("value"), file)
        self.assertFalse([name for name in os.listdir(self.folder) if "tmp" in name])

    def test_ways_of_reading_agree(self):
        self.many_files(count=40)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "20000")
        listing = self.shardctl("ls", "out", "--values-xxh3").stdout
        for mode in ("auto", "buffered", "mmap", "direct"):
            with self.subTest(mode=mode):
                run = self.shardctl("ls", "out", "--values-xxh3", "--io", mode)
                self.assertEqual(run.stdout, listing)
                # Only one note is allowed.
                self.assertRegex(run.stderr, r"\A(shardctl: note: .*\n)?\Z")
                self.assertEqual(self.shardctl("cat", "out", "--sample", "17", "-c", "bin", "--io", mode).out,
                                 self.read("many", "000017.bin"))
                self.shardctl("validate", "out", "--io", mode)

    def test_absent_value(self):
        self.pack_small_files()
        run = self.shardctl("cat", "out", "--key", "banana", "--column", "json", code=1)
        self.assertIn("no value", run.stderr)
        self.assertEqual(run.out, b"")
        self.shardctl("cat", "out", "--key", "banana", "--column", "json", "-o", "value", code=1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["in", "out"])

    def test_what_is_not_there(self):
        self.pack_small_files()
        self.assertIn("plum", self.shardctl("cat", "out", "--key", "plum", "-c", "txt", code=1).stderr)
        self.assertIn("sample 5", self.shardctl("cat", "out", "--sample", "5", "-c", "txt", code=1).stderr)
        run = self.shardctl("cat", "out", "--sample", "0", "-c", "nosuch", code=1)
        self.assertIn("nosuch", run.stderr)
        self.assertIn("txt", run.stderr)  # the existing columns

    def test_output_file_is_replaced_whole(self):
        self.pack_small_files()
        self.write("value", "old")
        os.symlink("value", self.path("link"))
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "link")
        self.assertEqual(self.read("value"), b"An apple.\n")
        self.assertTrue(os.path.islink(self.path("link")))
        self.shardctl("cat", "out", "--key", "plum", "-c", "txt", "-o", "value", code=1)
        self.assertEqual(self.read("value"), b"An apple.\n")
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "in", code=2)
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "no/such/folder", code=3)

    def test_output_to_a_device_leaves_the_device(self):
        self.pack_small_files()
        self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))
        self.assertIn("No space", self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "/dev/full", code=3).stderr)

    def test_output_to_a_pipe(self):
        self.pack_small_files()
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(["cat", self.path("pipe")], stdout=subprocess.PIPE) as reader:
            self.shardctl("cat", "out", "--key", "apple", "-c", "txt", "-o", "pipe")
            self.assertEqual(reader.communicate()[0], b"An apple.\n")

    def test_decode(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "out")
        masks = self.shardctl("cat", "out", "--key", "sa_2", "-c", "masks", "--decode").json()
        self.assertEqual(masks, [annotation(0, 16, 24, k, 2 * k, 3 + k, 4)["segmentation"] for k in range(3)])
        bbox = self.shardctl("cat", "out", "--key", "sa_2", "-c", "bbox", "--decode").json()
        self.assertEqual((bbox["shape"], bbox["data"]), ([3, 4], [0, 0, 3, 4, 1, 2, 4, 4, 2, 4, 5, 4]))
        self.assertEqual(self.shardctl("cat", "out", "--key", "sa_3", "-c", "image_id", "--decode").stdout, "3\n")
        self.assertEqual(self.shardctl("cat", "out", "--key", "sa_3", "-c", "image", "--decode").out, tiny_jpeg(24, 16))
        self.shardctl("cat", "out", "--key", "sa_2", "-c", "masks", "--decode", "-o", "masks.json")
        self.assertEqual(json.loads(self.read("masks.json")), masks)

    def test_large_value(self):
        value = os.urandom(1 << 20) * 40
        self.write("in/large.bin", value)
        self.write("in/small.bin", "x")
        self.shardctl("pack", "in", "-o", "out")
        self.assertEqual(self.shardctl("cat", "out", "--key", "large", "-c", "bin").out, value)
        self.shardctl("unpack", "out", "-o", "again")
        self.assertEqual(self.tree("in"), self.tree("again"))

    def test_binary_is_kept_from_terminals(self):
        self.pack_small_files()
        for column, options, code in [("jpg", [], 2), ("jpg", ["--force"], 0), ("json", [], 0)]:
            with self.subTest(column=column, options=options):
                ours, theirs = pty.openpty()
                done = subprocess.run([support.SHARDCTL, "cat", "out", "--key", "sub/cherry", "-c", column, *options],
                                      cwd=self.folder, stdout=theirs, stderr=subprocess.PIPE, check=False, timeout=60)
                os.close(theirs)
                os.close(ours)
                self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(b"", done.stderr)


class LaterVersionsTest(CliTest):
    """Columns of types and codecs that this version does not know; numbers that few programs have."""

    def golden_shard(self, name):
        shutil.copy(os.path.join(ROOT, "format-spec", "golden", "valid", name + ".shard"), self.path(name + ".shard"))
        with open(os.path.join(ROOT, "format-spec", "golden", "valid", name + ".json"), encoding="utf-8") as file:
            return json.load(file)

    def columns(self, path):
        """Of `inspect`, what the manifest says of them, too."""
        keys = ("name", "type", "dtype", "shape", "value_size", "codec", "nullable", "metadata")
        return {column["name"]: {key: column[key] for key in keys if key in column}
                for column in self.shardctl("inspect", path, "--json").json()["columns"]}

    def wanted(self, twin):
        """What `columns` gives of a twin: names of types and codecs, or their numbers."""
        columns = {}
        for column in twin["columns"]:
            named = {key: column.get(key, column[f"{key}_number"]) for key in ("type", "dtype", "codec") if f"{key}_number" in column}
            columns[column["name"]] = named | {key: column[key] for key in ("name", "shape", "value_size", "nullable", "metadata")
                                               if key in column}
        return columns

    def test_types(self):
        twin = self.golden_shard("unknown-type")
        wanted = self.wanted(twin)
        self.assertEqual(self.columns("unknown-type.shard"), wanted)
        self.assertIn("type 77 of 3 bytes", self.shardctl("inspect", "unknown-type.shard").stdout)
        for ordinal, sample in enumerate(twin["samples"]):
            for name in ("fixed", "inline", "blob", "elements", "arrays"):
                decode = ["--decode"] if ordinal else []
                run = self.shardctl("cat", "unknown-type.shard", "--sample", str(ordinal), "--column", name, *decode,
                                    code=1 if sample[name] is None else 0)
                if sample[name] is not None:
                    self.assertEqual(run.out, base64.b64decode(sample[name]["base64"]))
        self.shardctl("inspect", "unknown-type.shard", "--sample", "2")
        self.shardctl("unpack", "unknown-type.shard", "-o", "files")
        with open(self.path("files", "k2.elements"), "rb") as file:
            self.assertEqual(file.read(), base64.b64decode(twin["samples"][2]["elements"]["base64"]))
        # The shard's own copy and, through a container that has only bytes, the way back keep the number and all else.
        self.shardctl("convert", "unknown-type.shard", "--to", "shard", "-o", "copy")
        self.shardctl("convert", "unknown-type.shard", "--to", "webdataset", "-o", "tars")
        self.shardctl("convert", "tars", "--to", "shard", "-o", "back")
        for path in ("copy", "back"):
            self.assertEqual(self.columns(path), wanted)
            self.shardctl("validate", path, "--deep")
        hashes = [self.shardctl("ls", "--values-xxh3", path).out for path in ("unknown-type.shard", "copy", "back")]
        self.assertEqual(hashes, hashes[:1] * 3)

    def test_codecs(self):
        twin = self.golden_shard("unknown-codec")
        shard = "unknown-codec.shard"
        self.assertEqual({name: column["codec"] for name, column in self.columns(shard).items()},
                         {name: column["codec"] for name, column in self.wanted(twin).items()})
        run = self.shardctl("validate", shard)
        self.assertEqual(run.stderr.count("warning"), 5)
        self.assertIn('column "fixed" has codec 200', run.stderr)
        self.assertEqual(self.shardctl("cat", shard, "--sample", "1", "--column", "data").out,
                         base64.b64decode(twin["samples"][1]["data"]["base64"]))
        for command in (["cat", shard, "--sample", "0", "--column", "blob"], ["unpack", shard, "-o", "files"],
                        ["convert", shard, "--to", "shard", "-o", "copy"]):
            run = self.shardctl(*command, code=3)
            self.assertRegex(run.stderr, r'column "\w+" has codec \d+, which this version does not know: leave the column out')
        for option in ("--long", "--values-xxh3"):
            run = self.shardctl("ls", option, shard)
            self.assertEqual(len(run.stderr.splitlines()), 5)
            self.assertIn('note: column "fixed" has codec 200, which this version does not know: it is left out', run.stderr)
        self.assertEqual([list(json.loads(line)["columns"]) for line in run.stdout.splitlines()],
                         [[name for name in sample if name != "fixed"] for sample in twin["samples"]])
        for arguments in (["--sample", "0"], ["--block", "1"]):
            self.assertEqual([column["name"] for column in self.shardctl("inspect", shard, *arguments, "--json").json()["columns"]],
                             [column["name"] for column in twin["columns"]])
        self.shardctl("convert", shard, "--to", "shard", "--columns", "key,data", "-o", "some")
        self.shardctl("validate", "some", "--deep")
        self.assertEqual(self.shardctl("repair", shard, "-o", "again.shard").stderr.count("its chunks are copied"), 5)
        self.shardctl("validate", "again.shard")

    def test_numbers(self):
        self.golden_shard("numbers")
        for column, ordinal, text in (("f8e4m3", 5, "0.1015625"), ("f8e4m3", 3, "-0"), ("f8e5m2", 1, "-inf"), ("f8e5m2", 4, "nan"),
                                      ("complex64", 0, "1.5-2j"), ("complex128", 1, "0+1j"), ("timestamp_ns", 3, "1700000000"),
                                      ("matrix", 2, '{"dtype":"complex64","shape":[1,2],"data":["2-2j","0+0.5j"]}')):
            run = self.shardctl("cat", "numbers.shard", "--sample", str(ordinal), "--column", column, "--decode")
            self.assertEqual(run.stdout, text + "\n")
        self.shardctl("convert", "numbers.shard", "--to", "webdataset", "-o", "tars")
        self.shardctl("convert", "tars", "--to", "shard", "-o", "back")
        self.assertEqual(self.columns("back"), self.columns("numbers.shard"))
        times = ["timestamp_s", "timestamp_ms", "timestamp_us", "timestamp_ns", "days"]
        self.shardctl("convert", "numbers.shard", "--to", "mds", "--columns", ",".join(times), "-o", "mds")
        self.assertEqual({column["type"] for column in self.columns("mds").values()}, {"i64", "ndarray", "utf8"} - {"utf8"})
        self.shardctl("convert", "mds", "--to", "shard", "-o", "from_mds")
        self.assertEqual({name: column["type"] for name, column in self.columns("from_mds").items() if name != "days"},
                         {name: name for name in times[:-1]})
        for column in ("f8e4m3", "complex64", "matrix", "scales"):
            run = self.shardctl("convert", "numbers.shard", "--to", "mds", "--columns", column, "-o", "refused", code=2)
            self.assertIn("MDS has no", run.stderr)

    def test_column_metadata(self):
        twin = self.golden_shard("column-metadata")
        self.assertEqual([column.get("metadata") for column in self.columns("column-metadata.shard").values()],
                         [column["metadata"] for column in twin["columns"]])
        text = self.shardctl("inspect", "column-metadata.shard").stdout
        self.assertIn("\nmetadata of column image:\n  größe: µm\n  media_type: image/webp\n", text)


class StandardOutputTest(CliTest):
    def test_full_disk(self):
        self.pack_small_files()
        for words in (["ls", "out"], ["inspect", "out"], ["--help"], ["ls", "--json", "out"], ["--version"],
                      ["cat", "out", "--sample", "0", "-c", "txt"], ["validate", "out"], ["pack", "in", "-o", "more"]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                done = subprocess.run([support.SHARDCTL, *words], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                      check=False, timeout=60)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(b"standard output: write failed: No space left", done.stderr)
        self.shardctl("validate", "more")

    def test_reader_that_leaves(self):
        self.many_files(count=3000, size=10)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB")
        for words in (["ls", "out"], ["ls", "--values-xxh3", "out"], ["ls", "--json", "out"]):
            with self.subTest(words=words):
                process = self.start(*words)
                process.stdout.read(10)
                process.stdout.close()
                self.assertEqual(process.wait(60), 0)
                self.assertEqual(process.stderr.read(), b"")

    def test_closed(self):
        self.pack_small_files()
        done = subprocess.run(f"exec '{support.SHARDCTL}' ls out >&-", shell=True, cwd=self.folder, check=False,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)


class UnpackTest(CliTest):
    def test_directory_that_is_not_empty(self):
        self.pack_small_files()
        self.write("again/precious", "keep me")
        run = self.shardctl("unpack", "out", "-o", "again", code=None)
        self.assertIn(run.code, (2, 3), str(run))
        self.assertIn("again", run.stderr)
        self.assertEqual(self.tree("again"), {"precious": self.tree("again")["precious"]})

    def test_outputs_that_are_no_directory(self):
        self.pack_small_files()
        os.mkfifo(self.path("pipe"))
        os.symlink("nowhere", self.path("dangling"))
        for output in ("/dev/null", "/dev/null/x", "pipe", "dangling"):
            with self.subTest(output=output):
                run = self.shardctl("unpack", "out", "-o", output, code=2)
                self.assertIn(output.removesuffix("/x"), run.stderr)
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_names_that_leave_the_directory(self):
        for name in ("../up.txt", "/absolute.txt", "a/../../up.txt", "a//b.txt"):
            with self.subTest(name=name), tarfile.open(self.path("in.tar"), "w") as tar:
                for member in ("good.txt", name):
                    tar.addfile(tarfile.TarInfo(member))
            run = self.shardctl("unpack", "in.tar", "-o", "deep/again", code=1)
            self.assertIn("sample 1: will not be unpacked", run.stderr)
            self.assertEqual([found for found in self.tree(".") if "up" in found or "good" in found], [])

    def test_names_longer_than_file_systems_take(self):
        with tarfile.open(self.path("in.tar"), "w", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(tarfile.TarInfo("x" * 300 + ".txt"))
        run = self.shardctl("unpack", "in.tar", "-o", "again", code=3)
        self.assertIn("at most 255", run.stderr)
        self.assertFalse(os.path.exists(self.path("again")))

    def test_ranges(self):
        self.pack_small_files()
        keys = [line.split()[1] for line in self.shardctl("ls", "out").stdout.splitlines()]
        for text, chosen in [(":", keys), ("0:5", keys), (":2", keys[:2]), ("3:", keys[3:]), ("1:3", keys[1:3]), ("2:2", []),
                             ("4:1000", keys[4:])]:
            with self.subTest(range=text):
                folder = "range-" + text.replace(":", "-")
                self.shardctl("unpack", "out", "-o", folder, "--samples", text)
                found = {name.split(".")[0] for name in (self.tree(folder) if os.path.exists(self.path(folder)) else ())}
                self.assertEqual(found, set(chosen))
