"""Promises of convert: samples come back, with any threads, parts and interruptions; exit codes."""
import json
import os
import re
import shutil
import signal
import tarfile

import support
from support import CliTest, tiny_jpeg


class ConvertTest(CliTest):
    def convert(self, source, output, to, *options, code=0):
        return self.shardctl("convert", source, "-o", output, "--to", to, *options, code=code)

    def values(self, dataset):
        return self.shardctl("ls", dataset, "--values-xxh3").stdout

    def test_an_absent_value_of_an_unknown_type_becomes_an_empty_one(self):
        os.makedirs(self.path("later"))
        shutil.copy(os.path.join(support.ROOT, "format-spec", "golden", "valid", "unknown-type.shard"), self.path("later"))
        self.shardctl("index", "later")
        columns = ["--columns", "key,fixed"]
        self.assertIn("--lossy stores an empty one", self.convert("later", "mds", "mds", *columns, code=2).stderr)
        self.assertFalse(os.path.exists(self.path("mds")))
        self.convert("later", "mds", "mds", *columns, "--lossy")
        value = lambda dataset, sample: self.shardctl("cat", dataset, "--sample", sample, "-c", "fixed").out
        self.assertEqual([value("mds", sample) for sample in "012"], [value("later", "0"), b"", value("later", "2")])

    def pack_texts(self, count=5):
        for i in range(count):
            self.write(f"texts/{i}.txt", f"text {i}")
        self.shardctl("pack", "texts", "-o", "out")
        return count

    def test_a_pickled_column_of_mds_is_left_out(self):
        self.pack_texts()
        self.convert("out", "mds", "mds")
        for name in ("index.json", "shard.00000.mds"):
            self.write(f"mds/{name}", self.read("mds", name).replace(b'"str"], "column_names": ["key", "txt"]', b'"pkl"], "column_names": ["key", "txt"]'))
        said = 'mds/index.json: column "txt" is pickled; unpickling runs code that the file brings along, so it is never done'
        for command in ("inspect", "ls"):
            self.assertEqual(self.shardctl(command, "mds").stderr, f"shardctl: note: {said}; it is left out\n")
        for command in (["convert", "mds", "--to", "shard", "-o", "left"], ["validate", "mds"]):
            self.assertIn(f"shardctl: warning: {said}; it is left out\n", self.shardctl(*command).stderr)
        self.assertEqual([column["name"] for column in self.shardctl("inspect", "left", "--json").json()["columns"]], ["key"])
        for command in (["cat", "mds", "--sample", "0", "-c", "txt"], ["convert", "mds", "--to", "shard", "--columns", "txt", "-o", "no"]):
            self.assertIn(f"{said}; leave it out: --columns key ", self.shardctl(*command, code=None).stderr)

    def test_samples_without_keys_are_numbered(self):
        count = self.pack_texts()
        self.convert("out", "mds", "mds", "--key", "", "--columns", "txt")
        value = lambda *sample: self.shardctl("cat", "mds", *sample, "-c", "txt").out
        for i in range(count):
            self.assertEqual(value("--key", f"{i:012}"), value("--sample", i))
        self.assertIn("no sample has the key", self.shardctl("cat", "mds", "--key", f"{count:012}", "-c", "txt", code=1).stderr)
        self.shardctl("split", "mds", "--into", "a=50%,b=50%", "-o", "parts")
        parts = [self.shardctl("inspect", f"parts/{part}", "--json").json() for part in "ab"]
        self.assertEqual(sum(part["samples"] for part in parts), count)
        self.assertEqual([column["name"] for column in parts[0]["columns"]], ["txt"])

    def test_sa1b_through_all(self):
        self.small_sa1b(count=5)
        self.shardctl("pack", "sa1b", "-o", "out")
        self.convert("out", "mds", "mds", "--compression", "zstd:3", "--shard-samples", "2")
        self.convert("mds", "tars", "webdataset", "--shard-samples", "3")
        self.convert("tars", "back", "shard")
        self.assertEqual(self.dataset("back"), self.dataset("out"))
        # The intermediate datasets have the usual files.
        self.assertEqual(sorted(self.dataset("mds")), ["index.json"] + [f"shard.0000{i}.mds.zstd" for i in range(3)] +
                         ["shardkit.json"])
        with tarfile.open(self.path("tars", "000000.tar")) as tar:
            self.assertEqual(tar.getnames(), [f"sa_{i}.{kind}" for i in (1, 2, 3) for kind in ("jpg", "json")])
            for member in tar:
                self.assertEqual((member.mode, member.uid, member.gid, member.mtime), (0o644, 0, 0, 0))
                self.assertEqual(tar.extractfile(member).read(), self.read("sa1b", member.name))

    def test_tasks_are_the_whole(self):
        self.many_files(count=50)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "16KiB")
        for to in ("shard", "webdataset", "mds"):
            if to != "shard":
                self.convert("out", to, to, "--shard-size", "40KiB")
            source = "out" if to == "shard" else to
            options = ("--shard-size", "40KiB", "--columns", "key,bin")
            self.convert(source, f"whole-{to}", "shard", *options)
            self.assertGreater(len(self.tree(f"whole-{to}")), 4)
            for tasks in (3, 1, 40)[::support.STEP]:
                name = f"{to}-{tasks}"
                with self.subTest(name):
                    for i in range(tasks):
                        run = self.convert(source, name, "shard", *options, "--task", f"{i}/{tasks}", "--json")
                    self.assertEqual((run.json()["task"], run.json()["tasks"]), (tasks - 1, tasks))
                    run = self.convert(source, name, "shard", *options, "--finish", "--json")
                    self.assertEqual((run.json()["samples"], run.json()["samples_this_run"]), (50, 50))
                    self.assertEqual(self.tree(name), self.tree(f"whole-{to}"))
                    # Late copies of tasks, and finishing again.
                    self.convert(source, name, "shard", *options, "--task", f"0/{tasks}")
                    self.convert(source, name, "shard", *options, "--finish")
                    self.assertEqual(self.tree(name), self.tree(f"whole-{to}"))

    def test_tasks_that_are_not_of_one_job(self):
        self.many_files(count=50)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "16KiB")
        self.convert("out", "new", "shard", "--finish", code=3)
        self.convert("out", "new", "shard", "--shard-size", "40KiB", "--task", "1/2")
        run = self.convert("out", "new", "shard", "--shard-size", "40KiB", "--finish", code=2)
        self.assertIn("units are missing (0", run.stderr)
        for words in (["--task", "0/2"], ["--finish"]):
            run = self.convert("out", "new", "shard", *words, code=2)
            self.assertIn("another input or with other options", run.stderr)
        self.write("taken/x", "x")
        self.assertIn("is not empty", self.convert("out", "taken", "shard", "--task", "0/2", code=2).stderr)
        self.convert("out", "whole", "shard")
        for words in (["--task", "0/2"], ["--finish"]):
            run = self.convert("out", "whole", "shard", "--shard-size", "40KiB", *words, code=2)
            self.assertIn("holds a dataset that another job made", run.stderr)
        # Whose manifest was lost is not made of the same tasks again: samples may have been appended.
        os.remove(self.path("whole/dataset.json"))
        before = self.tree("whole")
        for words in (["--task", "0/2"], ["--finish"], []):
            self.assertIn("is not empty", self.convert("out", "whole", "shard", *words, code=2).stderr)
            self.assertEqual(self.tree("whole"), before)

    def test_index_of_tars(self):
        self.many_files(count=3)
        self.shardctl("pack", "many", "-o", "out")
        self.convert("out", "tars", "webdataset")
        written = self.tree("tars")
        self.assertIn("000000.tar.shardidx", written)
        self.shardctl("index", "tars/000000.tar")
        self.assertEqual(self.tree("tars"), written)
        self.convert("out", "bare", "webdataset", "--no-index")
        self.assertNotIn("000000.tar.shardidx", self.tree("bare"))
        self.assertEqual(self.tree("bare")["000000.tar"], written["000000.tar"])

    def test_chosen_columns_key_and_encodings(self):
        self.pack_small_files()
        self.convert("out", "few", "mds", "--columns", "txt", "--key", "", "--lossy", "--encoding", "txt=str_decimal")
        shard = json.loads(self.read("few", "index.json"))["shards"][0]
        self.assertEqual((shard["column_names"], shard["column_encodings"]), (["txt"], ["str_decimal"]))
        self.convert("few", "numbered", "webdataset")
        self.assertEqual(self.shardctl("ls", "numbered").stdout.splitlines()[4].split()[-1], "000000000004")
        self.convert("out", "none", "mds", "--key", "missing", code=1)
        self.convert("out", "none", "mds", "--columns", "missing", code=1)

    # ---- what goes wrong ----

    def usage_error(self, *options, says):
        before = sorted(os.listdir(self.folder))
        run = self.shardctl("convert", *options, code=2)
        self.assertEqual(run.stdout, "", str(run))
        self.assertIn(says, run.stderr, str(run))
        self.assertTrue(run.stderr.startswith("shardctl"), str(run))
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_usage(self):
        self.pack_small_files()
        for options, says in [
                (["out", "-o", "new"], "--to is missing"), (["out", "--to", "mds"], "-o OUT is missing"),
                (["-o", "new", "--to", "mds"], "IN is missing"), (["out", "out", "-o", "new", "--to", "mds"], "unexpected argument"),
                (["out", "-o", "new", "--to", "tar"], "is not one of shard, webdataset, mds"),
                (["out", "-o", "new", "--to", "parquet"], "for batch in stream: file.write_batch(batch)"),
                (["out", "-o", "new", "--to=parquet"], "these lines of Python write it")]:
            with self.subTest(options=options):
                self.usage_error(*options, says=says)
        for to, options, says in [
                ("mds", ["--block-size", "1KiB"], "--block-size: only for --to shard"),
                ("webdataset", ["--codec", "txt=none"], "--codec: only for --to shard"),
                ("shard", ["--compression", "zstd"], "--compression: only for --to mds"),
                ("webdataset", ["--hash", "md5"], "--hash: only for --to mds"),
                ("shard", ["--encoding", "txt=str"], "--encoding: only for --to mds"),
                ("mds", ["--no-index"], "--no-index: only for --to webdataset"),
                ("mds", ["--shard-size", "0"], "--shard-size: must not be 0"),
                ("mds", ["--shard-size", "x"], "--shard-size"), ("mds", ["--shard-size", "4GiB"], "at most 4294967295"),
                ("mds", ["--shard-samples", "0"], "--shard-samples"), ("shard", ["--block-size", "0"], "--block-size: must not be 0"),
                ("mds", ["--encoding", "txt"], "is not COLUMN=ENCODING"), ("mds", ["--encoding", "=str"], "is not COLUMN=ENCODING"),
                ("mds", ["--encoding", "txt="], "is not COLUMN=ENCODING"),
                ("mds", ["--encoding", "txt=str", "--encoding", "txt=json"], "is named twice"),
                ("mds", ["--lossy", "--encoding", "txt=pkl"], "is pickled"), 
                ("mds", ["--encoding", "txt=int"], "another type"), ("mds", ["--compression", "gz"], "MDS is written with"),
                ("mds", ["--compression", "zstd:99"], "MDS is written with"), ("mds", ["--hash", "crc"], "\"crc\" is not known"),
                ("shard", ["--task", "1/1"], "--task"), ("mds", ["--task", "0/1"], "--task: only for --to shard"),
                ("mds", ["--finish"], "--finish: only for --to shard"), ("shard", ["--finish", "--resume"], "--resume: not with --finish"),
                ("shard", ["--finish", "--task", "0/1"], "not with --task"), ("shard", ["--task", "0/1", "--dry-run"], "--dry-run: not with"), ("mds", ["--jobs", "0"], "--jobs"),
                ("mds", ["--on-error", "stop"], "--on-error"), ("shard", ["--codec", "txt=lz4"], "--codec"),
                ("mds", ["--key", "jpg"], "a key is of type utf8")]:
            with self.subTest(to=to, options=options):
                self.usage_error("out", "-o", "new", "--to", to, *options, says=says)

    def test_inputs_and_outputs_that_do_not_do(self):
        self.pack_small_files()
        self.convert("missing", "new", "mds", code=3)
        self.convert("in", "new", "mds", code=3)
        self.convert("out", "out", "mds", code=2)  # into itself
        self.convert("out", "out", "shard", code=2)
        self.write("taken/file", "x")
        run = self.convert("out", "taken", "mds", "--lossy", code=2)
        self.assertIn("is not empty", run.stderr)
        self.assertEqual(os.listdir(self.path("taken")), ["file"])
        self.assertFalse(os.path.exists(self.path("new")))

    def damage(self):
        """A dataset of 40 files in blocks of four. One bit of one block is flipped."""
        self.many_files(count=40)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "16KiB")
        path = self.path("out", "00000000.shard")
        content = bytearray(self.read("out", "00000000.shard"))
        place = content.find(self.read("many", "000021.bin"))
        self.assertGreater(place, 0)
        content[place + 99] ^= 16
        with open(path, "wb") as file:
            file.write(content)

    def test_damaged_input(self):
        self.damage()
        for to in ("shard", "webdataset", "mds"):
            run = self.convert("out", to, to, code=1)
            self.assertIn("out", run.stderr)
            self.assertFalse(os.path.exists(self.path(to)))
            run = self.convert("out", to, to, "--on-error", "skip", "--json", code=4)
            skipped = [each["position"] for each in run.json()["skipped"]]
            self.assertIn(21, skipped)
            self.assertLess(len(skipped), 10)
            self.assertEqual(run.json()["samples"], 40 - len(skipped))
            told = []
            for first, last in re.findall(r"skipped samples? (\d+)(?: to (\d+))?", run.stderr):
                told += range(int(first), int(last or first) + 1)
            self.assertEqual(told, skipped)

    def test_keys_survive_mds(self):
        self.pack_small_files()
        self.convert("out", "mds", "mds", "--lossy")
        names = [line.split()[1] for line in self.shardctl("ls", "out").stdout.splitlines()]
        for path in ("mds", "mds/index.json", "mds/shard.00000.mds"):
            self.assertEqual([line.split()[1] for line in self.shardctl("ls", path).stdout.splitlines()], names)
            run = self.shardctl("cat", path, "--key", "sub/cherry", "--column", "jpg")
            self.assertEqual(run.out, self.read("in", "sub", "cherry.jpg"))
        self.shardctl("cat", "mds", "--key", "sub/none", "--column", "jpg", code=None)
        self.many_files(count=6)
        self.shardctl("pack", "many", "-o", "whole")
        self.convert("whole", "whole-mds", "mds")
        self.shardctl("unpack", "whole-mds", "-o", "again")
        self.assertEqual(self.tree("again"), self.tree("many"))
        # --key can choose another column as the key, or none.
        self.convert("whole", "none", "mds", "--key", "")
        self.assertEqual(self.shardctl("inspect", "none", "--json").json()["columns"][1]["key"], False)

    def test_image_folders_keep_their_keys(self):
        names = ["cat/a.jpg", "cat/a.png", "cat/b.v1.JPEG", "cat/b.v2.JPEG", "cat/50%2E.jpg", "dog.x/sub.d/.hidden.jpg", "dog.x/c.JPG"]
        for i, name in enumerate(names):
            self.write(f"in/{name}", tiny_jpeg() + bytes([i]))
        self.shardctl("pack", "--from", "imagefolder", "in", "-o", "out", "--keep-hidden")
        self.convert("out", "tars", "webdataset")
        with tarfile.open(self.path("tars", "000000.tar")) as tar:
            members = tar.getnames()
        self.assertIn("cat/b%2Ev1%2EJPEG.image.jpg", members)
        self.assertIn("cat/50%252E%2Ejpg.class_name.txt", members)
        self.convert("tars", "back", "shard")
        self.assertEqual(self.shardctl("ls", "back", "--values-xxh3").out, self.shardctl("ls", "out", "--values-xxh3").out)
        self.convert("tars", "tars2", "webdataset")
        self.assertEqual(self.dataset("tars2"), self.dataset("tars"))
        self.convert("tars", "mds", "mds")
        for source in ("out", "tars", "tars/000000.tar", "back", "mds"):
            keys = [line.split()[1] for line in self.shardctl("ls", source).stdout.splitlines()]
            self.assertEqual(sorted(keys), sorted(names))
            column = "image.jpg" if source.startswith("tars") else "image"
            for i, name in enumerate(names):
                self.assertEqual(self.shardctl("cat", source, "--key", name, "--column", column).out, tiny_jpeg() + bytes([i]))
            files = "files-" + source.replace("/", "-")
            self.shardctl("unpack", source, "-o", files)
            self.assertEqual(self.tree(files), self.tree("in"))

    def test_dry_run_writes_nothing(self):
        self.damage()
        run = self.shardctl("convert", "out", "--to", "mds", "--dry-run", "--on-error", "skip", code=4)
        self.assertIn("nothing was written", run.stdout)
        self.shardctl("convert", "out", "-o", "new", "--to", "mds", "--dry-run", code=1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["many", "out"])

    def test_json(self):
        self.pack_small_files()
        document = self.convert("out", "mds", "mds", "--lossy", "--json").json()
        self.assertEqual(set(document), {"input", "output", "container", "dry_run", "samples", "samples_this_run", "value_bytes",
                                         "bytes", "shards", "columns", "skipped", "warnings", "seconds"})
        self.assertEqual((document["input"], document["output"], document["container"], document["dry_run"]),
                         ("out", "mds", "mds", False))
        self.assertEqual((document["samples"], document["samples_this_run"], document["shards"]), (5, 5, 1))
        self.assertEqual(document["bytes"], os.path.getsize(self.path("mds", "shard.00000.mds")))
        document = self.shardctl("convert", "out", "--to", "webdataset", "--dry-run", "--json").json()
        self.assertEqual((document["output"], document["dry_run"], document["samples"]), (None, True, 5))


class ConvertInterruptTest(CliTest):
    OPTIONS = ["--shard-samples", "10"]

    def setUp(self):
        super().setUp()
        self.many_files(count=1500)
        self.shardctl("pack", "many", "-o", "in", "--block-size", "64KiB")

    def shards(self):
        try:
            return sum(name.endswith((".mds", ".tar", ".shard")) for name in os.listdir(self.path("out")))
        except FileNotFoundError:
            return 0

    def interrupt_convert(self, number, to, after, *options):
        words = ["convert", "in", "-o", "out", "--to", to, *self.OPTIONS, *options]
        return self.interrupt(words, lambda: self.shards() >= after, number)

    def test_ctrl_c_leaves_nothing(self):
        for to in ("shard", "mds", "webdataset"):
            with self.subTest(to=to):
                run = self.interrupt_convert(signal.SIGINT, to, 3)
                self.assertEqual((run.code, run.stdout), (3, ""), str(run))
                self.assertEqual(run.stderr, "shardctl: interrupted; nothing was left behind\n")
                self.assertEqual(sorted(os.listdir(self.folder)), ["in", "many"])

    def refused_when_finished(self, to):
        """A finished output belongs to its input and options, in any working directory."""
        before = self.tree("out")
        own = ["--to", to, *self.OPTIONS, "--resume"]
        support.shutil.copytree(self.path("in"), self.path("copy"))
        for words in (["copy", "-o", "out", *own], ["in", "-o", "out", "--to", to, "--shard-samples", "11", "--resume"],
                      ["in", "-o", "out", *own, "--on-error", "skip"]):
            run = self.shardctl("convert", *words, code=2)
            self.assertIn("out: holds a dataset that another job has made", run.stderr)
            self.assertEqual(self.tree("out"), before)
        support.shutil.rmtree(self.path("copy"))
        self.shardctl("convert", self.path("in") + "/", "-o", "out", *own)
        self.assertEqual(self.tree("out"), before)

    def test_resume_goes_on(self):
        for to in ("shard", "mds", "webdataset"):
            self.shardctl("convert", "in", "-o", f"whole.{to}", "--to", to, *self.OPTIONS)
            for number in (signal.SIGINT, signal.SIGKILL):
                with self.subTest(to=to, signal=number.name):
                    run = self.interrupt_convert(number, to, 5, "--resume")
                    if number == signal.SIGINT:
                        self.assertEqual(run.code, 3, str(run))
                        self.assertEqual(run.stderr,
                                         "shardctl: interrupted; finished shards are kept, run again with --resume\n")
                    self.assertGreaterEqual(self.shards(), 5)
                    run = self.shardctl("convert", "in", "-o", "out", "--to", to, "--shard-samples", "11", "--resume", code=2)
                    self.assertIn("was begun with other input or options", run.stderr)
                    run = self.shardctl("convert", "in", "-o", "out", "--to", to, *self.OPTIONS, "--resume", "-j", "2")
                    self.assertIn("converted 1500 samples", run.stdout)
                    self.assertIn("in this run", run.stdout)
                    self.assertEqual(self.tree("out"), self.tree(f"whole.{to}"))
                    run = self.shardctl("convert", "in", "-o", "out", "--to", to, *self.OPTIONS, "--resume", "--json")
                    self.assertEqual((run.json()["samples"], run.json()["samples_this_run"]), (1500, 0))
                    self.refused_when_finished(to)
                    support.shutil.rmtree(self.path("out"))
