"""Promises of pack: storage, classes, grouping, what is told and refused; nothing lost."""
import json
import os
import shutil
import tarfile

from support import CliTest, STEP, tiny_bmp, tiny_jpeg, tiny_png


class PackTest(CliTest):
    def hashes(self, dataset):
        return self.shardctl("ls", dataset, "--values-xxh3").stdout

    def test_storage_is_that_of_the_values_or_of_the_option(self):
        os.makedirs(self.path("values"))
        for i in range(50):
            for name, size in (("small", 100), ("large", 3000)):
                with open(self.path("values", f"{i:02}.{name}"), "w", encoding="ascii") as file:
                    file.write(f"{i:02}" * (size // 2))

        def paged(dataset):
            return {column["name"] for column in json.loads(self.shardctl("inspect", "--json", dataset).stdout)["columns"]
                    if column["pages"]}

        codecs = ("--codec", "small=none", "--codec", "large=none")
        self.shardctl("pack", "values", "-o", "chosen", *codecs)
        self.assertEqual(paged("chosen"), {"small"})
        self.assertIn("none+pages", self.shardctl("inspect", "chosen").stdout)
        self.shardctl("pack", "values", "-o", "other", *codecs, "--storage", "small=blob", "--storage", "large=paged")
        self.assertEqual(paged("other"), {"large"})
        self.shardctl("convert", "other", "-o", "back", "--to", "shard", "--storage", "large=blob")
        self.assertEqual(paged("back"), {"small"})
        for dataset in ("chosen", "other", "back"):
            self.shardctl("validate", "--deep", dataset)
            self.assertEqual(self.hashes(dataset), self.hashes("chosen"))
            for column, length in (("small", 100), ("large", 3000)):
                self.assertEqual(self.shardctl("cat", dataset, "--key", "07", "-c", column).stdout, "07" * (length // 2))
            self.shardctl("unpack", dataset, "-o", f"{dataset}.files")
            self.assertEqual(self.tree(f"{dataset}.files"), self.tree("values"))

    def test_classes_are_mixed_unless_by_path(self):
        for i in range(200):
            self.write(f"classes/{i // 20}/{100 + i}.jpg", tiny_jpeg() * 4)
        options = ("--block-size", "2KiB", "--shard-samples", "60")
        self.shardctl("pack", "classes", "-o", "path", "--order", "path", *options)
        self.shardctl("pack", "classes", "-o", "mixed", *options, "-j", "1")
        self.assertEqual(self.keys("path"), sorted(self.keys("mixed")))
        self.assertGreater(len({key.split("/")[0] for key in self.keys("mixed")[:20]}), 5)
        for directory in ("again", "tasks"):
            if directory == "again":
                self.shardctl("pack", "classes", "-o", directory, "--order", "random", *options, "-j", "3")
            else:
                self.shardctl("plan-pack", "classes", "-o", directory, "--tasks", "2", *options)
                for task in ("1/2", "0/2"):
                    self.shardctl("pack", "--task", task, "-o", directory)
                self.shardctl("pack", "--finish", "-o", directory)
            same, other = self.tree("mixed"), self.tree(directory)
            for tree in (same, other):
                tree.pop(".shardkit/job.json")  # has the absolute path of the input, or the one given
            self.assertEqual(same, other)

        clumps = 'path: equal values of column "label" stand together'
        for verb in ("plan", "simulate", "bench"):
            self.assertIn(clumps, self.shardctl(verb, "path", "--batch-size", "10", "--shuffle-buffer", "8KiB").stderr)
            self.assertEqual(self.shardctl(verb, "mixed", "--batch-size", "10", "--shuffle-buffer", "8KiB").stderr, "")
        self.assertEqual(self.shardctl("plan", "path", "--batch-size", "10").stderr, "")
        run = self.shardctl("pack", "classes", "-o", "none", "--from", "files", "--order", "path", code=2)
        self.assertIn("only image folders are listed in another order", run.stderr)

    def dotted_files(self):
        for name in ("a.seg.png", "a.seg.json", "a.jpg", "b.v1.txt", "b.v2.txt", "c", "d.", "sub.d/.hidden", "sub.d/x.key", "sub.d/K.TXT"):
            image = {"png": tiny_png(), "jpg": tiny_jpeg()}.get(name.rpartition(".")[2])
            self.write(f"in/{name}", image or f"content of {name}")

    def keys(self, dataset):
        return [line.split()[1] for line in self.shardctl("ls", dataset).stdout.splitlines()]

    def test_grouping(self):
        self.dotted_files()
        with tarfile.open(self.path("in.tar"), "w") as tar:
            for folder, _, files in sorted(os.walk(self.path("in"))):
                for name in sorted(files):
                    path = os.path.join(folder, name)
                    tar.add(path, os.path.relpath(path, self.path("in")))
        samples = {"first-dot": 7, "last-dot": 9, "none": 10}
        columns = {"first-dot": ["/", "/.", "/key", "TXT", "hidden", "jpg", "key", "seg.json", "seg.png", "v1.txt", "v2.txt"],
                   "last-dot": ["/", "/.", "/key", "TXT", "hidden", "jpg", "json", "key", "png", "txt"], "none": ["file", "key"]}
        self.shardctl("pack", "in", "-o", "default")
        for grouping, count in samples.items():
            with self.subTest(grouping):
                for source in ("in", "in.tar"):
                    out = f"{source}-{grouping}"
                    run = self.shardctl("pack", source, "-o", out, "--group-by", grouping, "--json")
                    warnings = [text[:text.index(": its")] for text in run.json()["warnings"]]  # of sub.d/.hidden
                    self.assertEqual((run.json()["samples"], warnings),
                                     (count, [] if grouping == "none" else [f'{source}: sample "sub.d/"']))
                    found = self.shardctl("inspect", out, "--json").json()
                    self.assertEqual(sorted(column["name"] for column in found["columns"]), columns[grouping])
                    self.shardctl("unpack", out, "-o", f"{out}-files")
                    self.assertEqual(self.tree(f"{out}-files"), self.tree("in"))
                    self.shardctl("convert", out, "-o", f"{out}-mds", "--to", "mds", "--lossy")
                    self.assertEqual(sorted(self.keys(f"{out}-mds")), sorted(self.keys(out)))
        self.assertEqual(self.tree("in-first-dot"), self.tree("default"))
        self.assertEqual(sorted(self.keys("in-none")), sorted(self.tree("in")))
        self.assertIn("a.seg", self.keys("in-last-dot"))
        # Through tars and back: all files that have an extension.
        for name in ("c", "d.", "sub.d/.hidden", "sub.d/K.TXT"):
            os.remove(self.path("in", name))
        for grouping in ("last-dot", "none"):
            self.shardctl("pack", "in", "-o", f"g-{grouping}", "--group-by", grouping)
            self.shardctl("convert", f"g-{grouping}", "-o", f"tars-{grouping}", "--to", "webdataset")
            self.shardctl("convert", f"tars-{grouping}", "-o", f"back-{grouping}", "--to", "shard")
            for source in ("tars", "back"):
                self.shardctl("unpack", f"{source}-{grouping}", "-o", f"{source}-{grouping}-files")
                self.assertEqual(self.tree(f"{source}-{grouping}-files"), self.tree("in"))

    def test_grouping_is_of_files(self):
        self.small_sa1b()
        run = self.shardctl("pack", "sa1b", "-o", "out", "--group-by", "none", code=2)
        self.assertIn("is packed as sa1b, and names are grouped of files only (--from files)", run.stderr)
        self.shardctl("pack", "sa1b", "-o", "out", "--group-by", "none", "--from", "files")
        self.shardctl("pack", "sa1b", "-o", "other", "--group-by", "middle", code=2)

    def test_large_samples_are_told(self):
        for i in range(33):
            self.write(f"in/v1.{i}.txt", str(i))
        for i in range(32):
            self.write(f"in/w.{i}.txt", str(i))
        for jobs in (1, 4):
            run = self.shardctl("pack", "in", "-o", f"out{jobs}", "--json", "-j", jobs)
            text, = run.json()["warnings"]
            self.assertEqual(text, "in: sample \"v1\" has 33 members: is that one sample? Where names have several dots --group-by "
                                   "says how they are divided: first-dot, last-dot or none")
            self.assertEqual(run.stderr, f"shardctl: warning: {text}\n")
        self.assertEqual(self.shardctl("pack", "in", "-o", "last", "--group-by", "last-dot").stderr, "")
        run = self.shardctl("pack", "in", "--dry-run")
        self.assertIn("warning: in: sample \"v1\"", run.stderr)

    def test_bad_sample_fails_and_leaves_nothing(self):
        self.small_sa1b()
        self.write("sa1b/sa_2.json", "{broken")
        run = self.shardctl("pack", "sa1b", "-o", "out", code=1)
        self.assertIn("sa_2", run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertFalse(os.path.exists(self.path("out")))

    def test_skipping_lists_what_is_skipped(self):
        self.small_sa1b()
        self.write("sa1b/sa_2.json", "{broken")
        run = self.shardctl("pack", "sa1b", "-o", "out", "--on-error", "skip", code=4)
        self.assertIn("packed 2 samples", run.stdout)
        self.assertRegex(run.stderr, r"shardctl: skipped sample 1 \(sa_2[.a-z]*\): .*\n")
        self.assertIn("1 sample skipped: 1 ", run.stderr)
        self.assertEqual([line.split()[1] for line in self.shardctl("ls", "out").stdout.splitlines()], ["sa_1", "sa_3"])
        self.shardctl("validate", "--deep", "out")

    def test_dry_run_finds_what_would_be_skipped(self):
        self.small_sa1b()
        self.write("sa1b/sa_2.json", "{broken")
        run = self.shardctl("pack", "sa1b", "--dry-run", "--on-error", "skip", code=4)
        self.assertIn("would pack 2 samples", run.stdout)
        self.assertIn("sa_2", run.stderr)
        self.assertEqual(os.listdir(self.folder), ["sa1b"])

    def test_existing_dataset_is_refused_and_kept(self):
        self.pack_small_files()
        before = self.tree("out")
        run = self.shardctl("pack", "in", "-o", "out", code=2)
        self.assertIn("out", run.stderr)
        self.assertEqual(self.tree("out"), before)

    def test_resuming_what_another_job_has_finished_is_refused(self):
        self.many_files(count=30)
        os.mkdir(self.path("other"))
        self.write("other/a.txt", "other")
        options = ["--shard-samples", "10", "--resume"]
        self.shardctl("pack", "many", "-o", "out", *options)
        before = self.tree("out")
        for words in (["other", *options], ["many", "other", *options], ["many", "--shard-samples", "11", "--resume"],
                      ["many", *options, "--block-size", "16KiB"], ["many", *options, "--codec", "bin=zstd"],
                      ["many", *options, "--shard-size", "1MiB"], ["many", *options, "--on-error", "skip"]):
            with self.subTest(words=words):
                run = self.shardctl("pack", *words, "-o", "out", code=2)
                self.assertIn("out: holds a dataset that another job has made", run.stderr)
                self.assertEqual(self.tree("out"), before)
        # The same input by another path, and other threads, are the same job.
        for words in (["many/"], [self.path("many")], ["./many", "-j", "3"]):
            self.shardctl("pack", *words, "-o", "out", *options)
            self.assertEqual(self.tree("out"), before)
        os.remove(self.path("out/.shardkit/job.json"))
        self.shardctl("pack", "many", "-o", "out", *options, code=2)

    def test_repeated_keys_are_counted(self):
        self.many_files(count=30)
        self.shardctl("pack", "many", "-o", "one")
        self.write("many/sample00000x.bin", "another")
        self.shardctl("pack", "many", "-o", "three")
        self.shardctl("merge", "one", "three", "-o", "both", "--repeated-keys", "keep")
        run = self.shardctl("validate", "both")
        self.assertIn("shardctl: warning: both: 30 samples have a key that an earlier one has", run.stderr)
        self.assertIn("no problem", run.stdout)
        [report] = self.shardctl("validate", "both", "--json").json()["reports"]
        self.assertEqual((report["ok"], report["repeated_keys"], len(report["warnings"])), (True, 30, 6))
        self.assertIn("stands in 2 samples", report["warnings"][1]["message"])

    def test_foreign_files_are_refused_and_kept(self):
        self.small_files()
        self.write("out/precious.txt", "keep me")
        self.shardctl("pack", "in", "-o", "out", code=2)
        self.assertEqual(self.read("out", "precious.txt"), b"keep me")

    def test_output_that_cannot_be_made(self):
        self.small_files()
        self.write("file", "x")
        for output in ("file/out", "file"):
            with self.subTest(output=output):
                run = self.shardctl("pack", "in", "-o", output, code=None)
                self.assertIn(run.code, (2, 3), str(run))
                self.assertIn("file", run.stderr)
        self.assertEqual(self.read("file"), b"x")

    def test_silent_when_piped(self):
        self.many_files(count=200)
        run = self.shardctl("pack", "many", "-o", "out")
        self.assertEqual(run.stderr, "")
        self.assertEqual(len(run.stdout.splitlines()), 2, run.stdout)
        self.assertEqual(self.shardctl("validate", "out").stderr, "")
        self.assertEqual(self.shardctl("unpack", "out", "-o", "again").stderr, "")
        self.assertEqual(self.tree("many"), self.tree("again"))

    LEFTOVERS = {".DS_Store": "Bud1", "Thumbs.db": "x", "cat/desktop.ini": "x", "cat/._1.jpg": b"\0\5\x16\7\0\2\0\0",
                 "__MACOSX/cat/._1.jpg": "x", ".ipynb_checkpoints/1.jpg": "x", "cat/@eaDir/1.jpg": "x"}

    def class_folders(self, name="photos"):
        for path in ("cat/1.jpg", "dog/2.jpg"):
            self.write(f"{name}/{path}", tiny_jpeg())
        return {"source": "imagefolder", "keys": ["cat/1.jpg", "dog/2.jpg"], "classes": ["cat", "dog"]}

    def pack(self, *arguments):
        """What became of the input, and what was said."""
        run = self.shardctl("pack", *arguments, "-o", "packed")
        said = self.shardctl("inspect", "packed", "--json").json()
        found = {"source": said["metadata"]["shardkit.source"],
                 "keys": sorted(entry["key"] for entry in self.shardctl("ls", "packed", "--json").json()["entries"])}
        if "imagefolder.classes" in said["metadata"]:
            found["classes"] = json.loads(said["metadata"]["imagefolder.classes"])
        shutil.rmtree(self.path("packed"))
        return found, run.stderr

    def test_image_folders_pass_over_hidden_files(self):
        expected = self.class_folders()
        self.assertEqual(self.pack("photos"), (expected, ""))
        for name, content in (self.LEFTOVERS | {"cat/.hidden.jpg": "x", ".cache/1.jpg": tiny_jpeg()}).items():
            with self.subTest(name):
                path = self.write(f"photos/{name}", content)
                top = f"photos/{name}" if name.startswith("cat/.") or "/" not in name else (
                    "photos/cat/" + name.split("/")[1] if name.startswith("cat/") else "photos/" + name.split("/")[0])
                said = f"shardctl: warning: passed over 1 hidden file or folder ({top}); --keep-hidden packs it\n"
                for source in ("auto", "imagefolder"):
                    self.assertEqual(self.pack("photos", "--from", source), (expected, said))
                os.remove(path)
                shutil.rmtree(self.path("photos"))
                self.class_folders()
        os.makedirs(self.path("photos/.ipynb_checkpoints"))
        self.assertEqual(self.pack("photos")[0], expected, "an empty folder is no class either")
        self.write("photos/.cache/3.jpg", tiny_jpeg())
        found, said = self.pack("photos", "--keep-hidden")
        self.assertEqual((found["classes"], found["keys"], said),
                         ([".cache", ".ipynb_checkpoints", "cat", "dog"], [".cache/3.jpg", "cat/1.jpg", "dog/2.jpg"], ""))

    def test_what_systems_leave_is_passed_over_by_every_source(self):
        sa1b = self.small_sa1b("sa1b", count=2)
        self.write("texts/cat/a.txt", "x")
        self.write("texts/cat/a.json", "{}")
        for folder, source in ((sa1b, "sa1b"), ("texts", "files")):
            expected, said = self.pack(folder)
            self.assertEqual((expected["source"], said), (source, ""))
            for name, content in self.LEFTOVERS.items():
                self.write(f"{folder}/{name}", content)
            self.write("all.tar", "")
            with tarfile.open(self.path("all.tar"), "w") as tar:
                tar.add(self.path(folder), "mydir" if folder == "texts" else "")
            with self.subTest(folder):
                # The folders __MACOSX, .ipynb_checkpoints and @eaDir count once, and in a tar each file in them.
                more = {**expected, "keys": [f"mydir/{key}" for key in expected["keys"]]} if folder == "texts" else expected
                for given, found, first in ((folder, expected, f"{folder}/.DS_Store"), ("all.tar", more, "all.tar: member '")):
                    packed, said = self.pack(given)
                    self.assertEqual(packed, found)
                    self.assertIn(f"shardctl: warning: passed over 7 hidden files or folders ({first}", said)
                    self.assertTrue(said.endswith(", …); --keep-hidden packs them\n"), said)
                    self.assertEqual(len(said.splitlines()), 1)

    def test_tasks_pass_over_what_packing_at_once_does(self):
        self.class_folders("photos")
        for name, content in self.LEFTOVERS.items():
            self.write(f"photos/{name}", content)
        for options in ((), ("--from", "files", "--keep-hidden", "--type", "jpg=bytes", "--type", "_1.jpg=bytes")):
            self.shardctl("pack", "photos", "-o", "once", *options)
            said = self.shardctl("plan-pack", "photos", "-o", "tasks", "--tasks", "1", *options).stderr
            self.assertEqual(said.count("passed over 7 hidden files or folders"), 0 if options else 1, said)
            self.shardctl("pack", "--task", "0/1", "-o", "tasks")
            self.shardctl("pack", "--finish", "-o", "tasks")
            self.assertEqual(self.hashes("tasks"), self.hashes("once"))
            for name in ("once", "tasks"):
                shutil.rmtree(self.path(name))

    def test_a_resumed_run_keeps_or_passes_over_as_the_first(self):
        self.small_files()
        self.write("in/Thumbs.db", "x")
        self.shardctl("pack", "in", "-o", "out", "--keep-hidden", "--resume")
        self.shardctl("pack", "in", "-o", "out", "--resume", code=2)

    def test_only_apple_double_is_passed_over(self):
        self.write("in/a.txt", "x")
        self.write("in/._a.txt", "no resource fork")
        with tarfile.open(self.path("in.tar"), "w") as tar:
            tar.add(self.path("in"), "d")
        for given, folder in (("in", ""), ("in.tar", "d/")):
            found, said = self.pack(given)
            self.assertEqual(found["keys"], [folder, f"{folder}a"])
            self.assertIn(f'shardctl: warning: {given}: sample "{folder}": its files have names that begin with a dot', said)
        self.assertEqual(self.pack("in", "--group-by", "none")[1], "")

    def test_folders_that_look_like_classes(self):
        expected = self.class_folders()
        for wrong, but in (("cat/notes.txt", "is no image"), ("3.jpg", "lies in none")):
            self.write(f"photos/{wrong}", tiny_jpeg())
            found, said = self.pack("photos")
            self.assertEqual(found["source"], "files")
            self.assertEqual(said, f"shardctl: note: photos: looks like class folders, but photos/{wrong} {but}: it is packed as files, "
                             "without labels; --from imagefolder --on-error skip packs the images with labels (--from files says "
                             "that it is meant)\n")
            self.assertEqual(self.pack("photos", "--from", "files")[1], "")
            os.remove(self.path("photos", wrong))
        self.assertEqual(self.pack("photos"), (expected, ""))
        for name in ("cat/1.txt", "dog/2.txt", "dog/3.jpg"):  # pairs
            self.write(f"photos/{name}", tiny_jpeg())
        self.assertEqual(self.pack("photos")[1], "")

    def test_samples_torn_by_apple_double_are_told(self):
        for name in ("d/a.txt", "d/a.json", "d/._a.json", "d/b.txt"):
            self.write(name, "{}")
        os.mkdir(self.path("tars"))
        for number, names in enumerate((("a.txt", "._a.json", "a.json"), ("b.txt",))):
            with tarfile.open(self.path("tars", f"{number}.tar"), "w") as tar:
                for name in names:
                    tar.add(self.path("d", name), f"d/{name}")
        found, said = self.pack("tars")
        self.assertEqual((found["source"], found["keys"]), ("webdataset", ["d/", "d/a", "d/a", "d/b"]))
        self.assertIn("shardctl: warning: 1 sample has a key that ends in '/': members whose names begin with a dot", said)
        self.assertIn("a key that ends in '/'", self.shardctl("convert", "tars", "-o", "new", "--to", "shard").stderr)

    def test_files_of_many_samples_are_told(self):
        lines = "pack with --from jsonl"
        ways = {"a.jsonl": ("jsonl", lines), "a.jsonl.gz": ("jsonl.gz", lines), "a.csv": ("csv", "pack with --from table"),
                "part.0.parquet": ("parquet", "give sk.pack of Python shardkit.sources.parquet(FILES)"),
                "a.arrow": ("arrow", "give sk.pack of Python datasets.load_from_disk(FOLDER)"),
                "a.tfrecord": ("tfrecord", "give sk.pack of Python shardkit.sources.tfrecord(FILES)"),
                "chunk-0-0.bin": ("bin", "give sk.pack of Python shardkit.sources.litdata(FOLDER)"),
                "1.lance": ("lance", "give sk.pack of Python lance.dataset(FOLDER).scanner().to_reader()"),
                "train.bin": ("bin", "give sk.pack of Python what their own library reads, as dicts"),
                "a.beton": ("beton", "pack the files that they were made from"), "a.zip": ("zip", "pack the zip itself"),
                "data.mdb": ("mdb", "give sk.pack of Python what lmdb reads, as dicts")}
        for number, (name, (ending, way)) in enumerate(ways.items()):
            self.write("in/other.txt", "x")
            os.truncate(self.write(f"in/{name}", "x"), 16 << 20 if name == "train.bin" else 1)
            with tarfile.open(self.path("in.tar"), "w") as tar:
                tar.add(self.path("in"), "")
            with self.subTest(name):
                said = f"files *.{ending} of the input are packed as they are, not the samples in them: to have those, {way}"
                meant = " (--from files says that it is meant)"
                for given, where in (("in", ""), ("in.tar", "" if "--from" in way else ", extracted from the tar")):
                    found, stderr = self.pack(given)
                    self.assertEqual((found["source"], stderr), ("files", f"shardctl: note: {said}{where}{meant}\n"))
                    if number % STEP == 0:
                        self.assertEqual(self.pack(given, "--from", "files")[1], "")
                if number % STEP == 0:
                    run = self.shardctl("plan-pack", "in", "-o", "tasks", "--tasks", "1")
                    self.assertEqual(run.stderr, f"shardctl: note: {said}{meant}\n")
                    shutil.rmtree(self.path("tasks"))
            shutil.rmtree(self.path("in"))
        for name in ("a.jpg.csv", "a.txt", "small.bin", "b.csv", "b.txt"):  # a.jpg.csv and b.csv are parts of samples
            self.write(f"in/{name}", "x")
        self.assertEqual(self.pack("in")[1], "")

    def test_splits_are_no_classes(self):
        for name in ("train/cat/1.jpg", "train/dog/2.jpg", "val/cat/3.jpg"):
            self.write(f"photos/{name}", tiny_jpeg())
        found, said = self.pack("photos")
        self.assertEqual(found["classes"], ["train", "val"])
        self.assertEqual(said, "shardctl: note: photos: the classes are named train, val: are the classes in these folders? Then pack "
                         "each by itself, as photos/train (--from imagefolder says that it is meant)\n")
        self.assertEqual(self.pack("photos", "--from", "imagefolder")[1], "")

    def test_classes_within_one_folder(self):
        for name in ("cat/1.jpg", "dog/2.jpg", "dog/3.jpg"):
            self.write(f"in/photos/{name}", tiny_jpeg())
        keys = ["cat/1.jpg", "dog/2.jpg", "dog/3.jpg"]
        shutil.make_archive(self.path("photos"), "zip", self.path("in"))
        for given in ("in", "photos.zip"):
            found, said = self.pack(given)
            self.assertEqual((found["source"], sorted(found["keys"]), found["classes"]), ("imagefolder", keys, ["cat", "dog"]))
            self.assertEqual(said, f"shardctl: note: {given}: its classes are the folders in {given}/photos "
                                   "(--from files packs the files as they are)\n")
            self.assertEqual(self.pack(given, "--from", "files")[1], "")
        with tarfile.open(self.path("photos.tar"), "w") as tar:
            tar.add(self.path("in"), "")
        found, said = self.pack("photos.tar")
        self.assertEqual((found["source"], sorted(found["keys"])), ("files", [f"photos/{key[:-4]}" for key in keys]))
        note = "its images lie in folders: are these classes? Then {}, to have labels (--from files says that it is meant)\n"
        self.assertEqual(said, "shardctl: note: photos.tar: " + note.format("pack with --from imagefolder"))
        self.assertEqual(self.pack("photos.tar", "--from", "files")[1], "")
        with tarfile.open(self.path("photos.tar.gz"), "w:gz") as tar:
            tar.add(self.path("in"), "")
        self.assertEqual(self.pack("photos.tar.gz")[1], "shardctl: note: photos.tar.gz: " + note.format("extract it and pack the folder"))
        self.write("in/photos/cat/1.json", "{}")  # a sample of two files: no class folders
        with tarfile.open(self.path("pairs.tar"), "w") as tar:
            tar.add(self.path("in"), "")
        for given in ("in", "pairs.tar"):
            found, said = self.pack(given)
            self.assertEqual((found["source"], sorted(found["keys"])), ("files", [f"photos/{key[:-4]}" for key in keys]))
            self.assertEqual(said, "")
        for depth, source in ((4, "imagefolder"), (5, "files")):
            deep = f"deep{depth}/" + "x/" * depth
            self.write(f"{deep}a/1.jpg", tiny_jpeg())
            self.write(f"{deep}b/2.jpg", tiny_jpeg())
            self.assertEqual(self.pack(f"deep{depth}")[0]["source"], source)

    def archives(self, folder):
        """A zip and a tar of the folder."""
        for kind in ("zip", "tar"):
            shutil.make_archive(self.path(folder), kind, self.path(folder))
        return f"{folder}.zip", f"{folder}.tar"

    def test_imagefolder_of_an_archive_of_one_folder(self):
        for name in ("cat/1.jpg", "dog/2.jpg", "dog/deep/3.jpg"):
            self.write(f"in/photos/{name}", tiny_jpeg())
        keys = ["cat/1.jpg", "dog/2.jpg", "dog/deep/3.jpg"]
        def found(given, *words):
            found, said = self.pack(given, "--from", "imagefolder", *words)
            return found["classes"], found["keys"], said
        self.assertEqual(found("in")[:2], (["photos"], [f"photos/{key}" for key in keys]), "the user has named this folder")
        self.shardctl("pack", "in/photos", "-o", "whole", "--from", "imagefolder", "--shard-samples", "1")
        for given in self.archives("in"):
            note = f"shardctl: note: {given}: its classes are the folders in {given}/photos\n"
            self.assertEqual(found(given), (["cat", "dog"], keys, note))
            self.assertEqual(found(given, "--order", "path", "--exclude", "/photos/dog/deep/"),
                             (["cat", "dog"], keys[:2], note + "shardctl: warning: 1 file or folder was left out by --include and --exclude\n"))
            self.assertEqual(found(given, "--include", "photos/cat/*")[:2], (["cat", "dog"], keys[:1]))
            self.write("list", "photos/dog/2.jpg\n./photos/cat/1.jpg\n")
            self.assertEqual(found(given, "--files-from", "list"), (["cat", "dog"], keys[:2], note))
            run = self.shardctl("plan-pack", given, "-o", "tasks", "--from", "imagefolder", "--tasks", "2", "--shard-samples", "1")
            self.assertIn("its classes are the folders in", run.stderr)
            for task in ("1/2", "0/2"):
                self.shardctl("pack", "-o", "tasks", "--task", task)
            self.shardctl("pack", "-o", "tasks", "--finish")
            self.assertEqual(self.dataset("tasks"), self.dataset("whole"))
            shutil.rmtree(self.path("tasks"))
        self.write("in/photos/notes.txt", "x")  # as in a folder of this name
        self.write("in/.DS_Store", "x")
        for given in self.archives("in"):
            run = self.shardctl("pack", given, "-o", "no", "--from", "imagefolder", code=2)
            self.assertIn(f"{given}/photos/notes.txt: lies outside of the class directories", run.stderr)
        self.write("in/photos/4.jpg", tiny_jpeg())  # a class
        os.remove(self.path("in/photos/notes.txt"))
        for given in self.archives("in"):
            self.assertEqual(found(given)[0], ["photos"])
        os.remove(self.path("in/photos/4.jpg"))
        self.write("in/4.jpg", tiny_jpeg())
        for given in self.archives("in"):
            run = self.shardctl("pack", given, "-o", "no", "--from", "imagefolder", code=2)
            self.assertIn(f"{given}/4.jpg: lies outside of the class directories", run.stderr)

    def test_patterns_are_relative_to_the_input(self):
        for name in ("cat/1.jpg", "dog/2.jpg", "dog/3.jpg"):
            self.write(f"in/photos/{name}", tiny_jpeg())
        for given in ("in", self.archives("in")[0]):
            for words in (["--exclude", "photos/dog/3.jpg"], ["--include", "/photos/*/1.jpg", "--include", "photos/dog/2.jpg"]):
                found, _ = self.pack(given, *words)
                self.assertEqual((found["source"], found["keys"]), ("imagefolder", ["cat/1.jpg", "dog/2.jpg"]))

    def test_empty_input(self):
        os.mkdir(self.path("nothing"))
        self.shardctl("pack", "--from", "files", "nothing", "-o", "out", "--allow-empty")
        self.assertEqual(self.shardctl("ls", "out").stdout, "")
        self.assertEqual(self.shardctl("ls", "out", "--json").json()["entries"], [])
        self.assertEqual(self.shardctl("inspect", "out", "--json").json()["samples"], 0)
        self.shardctl("inspect", "out")
        self.shardctl("validate", "out")
        self.shardctl("unpack", "out", "-o", "again")

    def test_merge_of_parts_that_do_not_fit(self):
        self.small_sa1b()
        self.shardctl("pack", "sa1b", "-o", "a")
        self.write("other/x.image", "bytes")
        self.shardctl("pack", "--from", "files", "other", "-o", "b", "--codec", "image=zstd")
        run = self.shardctl("merge", "a", "b", "-o", "out", code=None)
        self.assertIn(run.code, (0, 2), str(run))
        if run.code == 2:
            self.assertFalse(os.path.exists(self.path("out")), str(run))

    def photographs(self, folder="photos"):
        for name in ("a.jpg", "c.jpg", "d.jpg"):
            self.write(f"{folder}/{name}", tiny_jpeg())
        return folder

    def test_a_page_among_photographs_is_named(self):
        self.photographs()
        self.write("photos/b.jpg", b"<!DOCTYPE html>\n<p>404")
        what = ("photos/b.jpg: is named .jpg and is no image of a known format: begins with \"<!DOCTYPE html>\\n\"; remove it, "
                "pack with --on-error skip, or --type jpg=bytes")
        run = self.shardctl("pack", "photos", "-o", "out", code=1)
        self.assertIn(what, run.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        run = self.shardctl("pack", "photos", "-o", "out", "--on-error", "skip", code=4)
        self.assertIn(what, run.stderr)
        self.assertEqual(self.types("out"), {"key": "utf8", "jpg": "jpeg"})
        self.shardctl("pack", "photos", "-o", "bytes", "--type", "jpg=bytes")
        self.assertEqual(self.types("bytes")["jpg"], "bytes")
        self.shardctl("unpack", "bytes", "-o", "again")
        self.assertEqual(self.tree("again"), self.tree("photos"))
        self.shardctl("pack", "photos", "-o", "images", "--type", "jpg=image", "--on-error", "skip", code=4)
        self.assertEqual(self.types("images")["jpg"], "image")

    def test_empty_images_are_refused(self):
        """What a failed download leaves: no source takes it for an image."""
        self.write("in/a.txt", "text")
        self.write("in/b.jpg", "")
        self.write("in/c.jpg", tiny_jpeg())
        with tarfile.open(self.path("in.tar"), "w") as tar:
            for name in ("a.txt", "b.jpg", "c.jpg"):
                tar.add(self.path("in", name), name)
        os.makedirs(self.path("tars"))
        shutil.copy(self.path("in.tar"), self.path("tars/in.tar"))
        what = "an empty file is not an image; remove it, pack with --on-error skip, or --type jpg=bytes"
        for source, where in (("in", "in/b.jpg: "), ("in.tar", "in.tar: member 'b.jpg': "), ("tars", "")):
            with self.subTest(source):
                self.assertIn(where + what if where else what, self.shardctl("pack", source, "-o", "no", code=1).stderr)
                run = self.shardctl("pack", source, "-o", f"{source}-skip", "--on-error", "skip", "--json", code=4)
                self.assertEqual([each["position"] for each in run.json()["skipped"]], [1])
                self.shardctl("pack", source, "-o", f"{source}-bytes", "--type", "jpg=bytes")
                self.assertEqual(self.keys(f"{source}-bytes"), ["a", "b", "c"])
        self.shardctl("pack", "in", "-o", "no", "--type", "jpg=image", code=2)
        self.small_sa1b("pairs")
        self.write("pairs/sa_2.jpg", "")
        self.assertIn("pairs/sa_2.jpg: an empty file is not an image; remove it, or pack with --on-error skip",
                      self.shardctl("pack", "pairs", "-o", "no", code=2).stderr)

    def test_one_netpbm_among_photographs(self):
        for name in ("cat/1.jpg", "cat/2.jpg", "dog/3.jpg"):
            self.write(f"in/{name}", tiny_jpeg())
        self.write("in/dog/4.ppm", b"P6\n1 1\n255\nabc")
        for source in ("imagefolder", "files"):
            run = self.shardctl("pack", "in", "-o", source, "--from", source, "--json")
            [warning] = run.json()["warnings"]
            self.assertEqual(warning, "1 image is in formats that this build does not decode to pixels: their column is of type image")
            self.assertIn("1 image in formats that are not decoded here", self.shardctl("validate", "--deep", source).stdout)
        self.assertEqual(self.types("imagefolder")["image"], "image")
        self.assertIn("PNM", self.shardctl("inspect", "imagefolder", "--key", "dog/4.ppm").stdout)
        self.assertIn("JPEG", self.shardctl("inspect", "imagefolder", "--key", "dog/3.jpg").stdout)

    def test_formats_side_by_side_are_images(self):
        self.photographs()
        self.write("photos/b.jpg", tiny_png())
        self.write("photos/e.ppm", b"P6\n1 1\n255\nabc")
        self.write("photos/f.bmp", tiny_bmp())
        for jobs in (1, 2, 7):
            self.shardctl("pack", "photos", "-o", f"out{jobs}", "-j", jobs)
            self.assertEqual(self.tree(f"out{jobs}"), self.tree("out1"))
        self.assertEqual(self.types("out1"), {"key": "utf8", "jpg": "image", "ppm": "image", "bmp": "image"})
        self.assertEqual(len(self.shardctl("ls", "out1", "--shards", "--json").json()["shards"]), 2)
        self.shardctl("unpack", "out1", "-o", "again")
        self.assertEqual(self.tree("again"), self.tree("photos"))
        run = self.shardctl("validate", "--deep", "out1")
        self.assertIn("every value decoded but 1 image in formats that are not decoded here: no problem", run.stdout)
        self.assertEqual(self.shardctl("validate", "--deep", "--json", "out1").json()["reports"][0]["undecoded_images"], 1)
        self.shardctl("bench", "out1", "--decode", "image:8", "--columns", "jpg", "--steps", "1")
        run = self.shardctl("bench", "out1", "--decode", "image:8", "--columns", "ppm", code=3)
        self.assertRegex(run.stderr, r"out1: sample 4 \(shard 1, block 0\).*\"ppm\": image: PNM is not decoded to pixels")
        self.shardctl("bench", "out1", "--decode", "image:8", "--columns", "bmp", "--steps", "1")
        for sample, text in ((0, "JPEG, 8x8, 1 component"), (1, "PNG, 1x1, 8 bits per channel"), (4, "PNM, 14 B"), (5, "BMP, 2x1, 62 B")):
            self.assertIn(text, self.shardctl("inspect", "out1", "--sample", sample).stdout)
        for sample, column, described in ((4, "ppm", {"format": "PNM"}),
                                          (5, "bmp", {"format": "BMP", "width": 2, "height": 1, "exif_orientation": None})):
            columns = self.shardctl("inspect", "out1", "--sample", sample, "--json").json()["columns"]
            [found] = [each for each in columns if each["name"] == column]
            self.assertEqual({name: found[name] for name in described}, described)

    def test_formats_side_by_side_come_back_from_other_containers(self):
        self.photographs()
        self.write("photos/b.jpg", tiny_png())
        self.write("photos/b.webp", b"RIFF\4\0\0\0WEBP")
        self.shardctl("pack", "photos", "-o", "out")
        self.shardctl("convert", "out", "-o", "tars", "--to", "webdataset")
        self.shardctl("pack", "photos", "-o", "only", "--type", "jpg=image")
        self.shardctl("convert", "only", "-o", "mds", "--to", "mds", "--columns", "jpg")
        self.assertEqual(self.types("mds"), {"key": "utf8", "jpg": "bytes"})
        self.shardctl("convert", "only", "-o", "mds.jpeg", "--to", "mds", "--columns", "jpg", "--encoding", "jpg=jpeg")
        self.assertEqual(self.types("mds.jpeg")["jpg"], "jpeg")
        self.assertEqual(self.types("tars"), {"key": "utf8", "jpg": "jpeg", "webp": "image"})
        for other in ("tars", "mds", "mds.jpeg"):
            self.shardctl("convert", other, "-o", f"{other}.back", "--to", "shard")
            self.assertEqual(self.types(f"{other}.back")["jpg"], "image")
        self.shardctl("unpack", "tars.back", "-o", "again")
        self.assertEqual(self.tree("again"), self.tree("photos"))
        # Without the recorded types, the types are guessed.
        os.remove(self.path("tars", "shardkit.json"))
        self.shardctl("convert", "tars", "-o", "guessed", "--to", "shard")
        self.assertEqual(self.types("guessed"), self.types("out"))
        self.shardctl("bench", "tars", "--decode", "image:8", "--columns", "jpg", "--steps", "1")
        run = self.shardctl("validate", "--deep", "tars", code=1)
        self.assertIn("sample 1, column \"jpg\": JPEG: no signature", run.stderr)
        self.shardctl("pack", "--from", "webdataset", "tars", "-o", "typed", "--type", "jpg=bytes")
        self.assertEqual(self.types("typed")["jpg"], "bytes")

    def types(self, dataset):
        return {column["name"]: column["type"] for column in self.shardctl("inspect", dataset, "--json").json()["columns"]}

    def test_types_of_columns_that_there_are_not(self):
        self.photographs()
        run = self.shardctl("pack", "photos", "-o", "out", "--type", "png=image", code=2)
        self.assertIn("--type png=image: there is no column \"png\"; there is \"jpg\"", run.stderr)
        with tarfile.open(self.path("photos.tar"), "w") as tar:
            tar.add(self.path("photos"), arcname="photos")
        for more in ([], ["--dry-run"]):
            run = self.shardctl("pack", "photos.tar", *(more or ["-o", "out"]), "--type", "png=image", code=2)
            self.assertIn("there is \"jpg\"", run.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        # With a corrected name the job could not resume from these shards, so they are not kept.
        self.shardctl("pack", "photos.tar", "-o", "kept", "--shard-samples", "1", "--type", "png=image", "--resume", code=2)
        self.assertFalse(os.path.exists(self.path("kept")))
        self.assertIn("files are bytes, utf8, json, jpeg, png or image", self.shardctl("pack", "photos", "-o", "out", "--type", "jpg=i32", code=2).stderr)
        self.assertIn("named twice", self.shardctl("pack", "photos", "-o", "out", "--type", "jpg=image", "--type", "jpg=jpeg", code=2).stderr)
