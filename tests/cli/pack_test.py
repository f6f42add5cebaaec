"""What packing promises: the same bytes whatever the threads, parts that merge, nothing lost."""
import json
import os
import tarfile

from support import CliTest, tiny_jpeg


class PackTest(CliTest):
    def hashes(self, dataset):
        return self.shardctl("ls", dataset, "--values-xxh3").stdout

    def test_threads_do_not_change_a_byte(self):
        self.many_files(count=300)
        self.small_files("many/small")
        for jobs in (1, 2, 7):
            self.shardctl("pack", "many", "-o", f"out{jobs}", "-j", jobs, "--shard-size", "256KiB", "--block-size", "32KiB",
                          "--codec", "txt=zstd:5")
        self.assertGreater(len(self.tree("out1")), 4)
        self.assertEqual(self.tree("out1"), self.tree("out2"))
        self.assertEqual(self.tree("out1"), self.tree("out7"))

    def test_threads_do_not_change_sa1b_with_dictionaries(self):
        self.shardctl("synth", "sa1b", "-o", "pairs", "--count", "12", "--width", "160", "--height", "120",
                      "--min-objects", "4", "--max-objects", "9")
        for jobs in (1, 2, 7):
            self.shardctl("pack", "pairs", "-o", f"out{jobs}", "-j", jobs, "--shard-samples", "5", "--block-size", "64KiB",
                          "--dictionary", "masks=16KiB", "--dictionary", "bbox")
        self.assertEqual(self.tree("out1"), self.tree("out2"))
        self.assertEqual(self.tree("out1"), self.tree("out7"))
        self.shardctl("validate", "--deep", "out1")
        self.shardctl("unpack", "out1", "-o", "again")
        self.assertEqual(self.tree("pairs"), self.tree("again"))

    def test_parts_merge_into_the_whole(self):
        self.many_files(count=101)
        self.shardctl("pack", "many", "-o", "whole", "--block-size", "16KiB")
        for count in (1, 2, 3):
            parts = [f"part{count}.{i}" for i in range(count)]
            for i, part in enumerate(parts):
                self.shardctl("pack", "many", "-o", part, "--partition", f"{i}/{count}", "--block-size", "16KiB")
            self.shardctl("index", "--merge", f"merged{count}", *parts)
            self.shardctl("validate", f"merged{count}")
            self.assertEqual(self.hashes(f"merged{count}"), self.hashes("whole"))
        # All of them, each once, in their order.
        for parts, says in ((("part3.0", "part3.2"), "of which part 1/3 is not given"),
                            (("part3.0", "part3.1", "part3.1", "part3.2"), "give each part once"),
                            (("part3.1", "part3.0", "part3.2"), "give them in the order part3.0 part3.1 part3.2"),
                            (("whole", "part1.0"), "holds the same samples as whole/00000000.shard")):
            with self.subTest(parts=parts):
                run = self.shardctl("index", "--merge", "refused", *parts, code=2)
                self.assertIn(says, run.stderr)
                self.assertFalse(os.path.exists(self.path("refused")))

    def test_shard_samples(self):
        self.many_files(count=25)
        self.shardctl("pack", "many", "-o", "out", "--shard-samples", "10")
        shards = self.shardctl("ls", "out", "--shards", "--json").json()["shards"]
        self.assertEqual([shard["samples"] for shard in shards], [10, 10, 5])

    def test_tar_and_directory_hold_the_same(self):
        self.small_sa1b(count=5)
        with tarfile.open(self.path("pairs.tar"), "w") as tar:
            for name in sorted(os.listdir(self.path("sa1b"))):
                tar.add(self.path("sa1b", name), arcname=name)
        self.shardctl("pack", "sa1b", "-o", "from_directory")
        self.shardctl("pack", "pairs.tar", "-o", "from_tar")
        self.assertEqual(sorted(self.hash_sets("from_directory")), sorted(self.hash_sets("from_tar")))

    def hash_sets(self, dataset):
        return [json.dumps(json.loads(line)["columns"]) for line in self.hashes(dataset).splitlines()]

    def test_image_folder(self):
        for name in ("cat/a.jpg", "cat/b.jpg", "dog/c.jpg"):
            self.write(f"classes/{name}", tiny_jpeg() + name.encode())
        run = self.shardctl("pack", "classes", "-o", "out")
        self.assertIn("from imagefolder", run.stdout)
        self.assertEqual(self.shardctl("cat", "out", "--sample", "2", "--column", "label", "--decode").stdout, "1\n")
        self.shardctl("unpack", "out", "-o", "again")
        self.assertEqual(self.tree("classes"), self.tree("again"))

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
        self.assertIn("1 sample skipped", run.stderr)
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
                      ["many", *options, "--shard-size", "1MiB"], ["many", *options, "--on-error", "skip"],
                      ["many", *options, "--partition", "0/2"]):
            with self.subTest(words=words):
                run = self.shardctl("pack", *words, "-o", "out", code=2)
                self.assertIn("out: holds a dataset that another job has made", run.stderr)
                self.assertEqual(self.tree("out"), before)
        # The same input by another path, and other threads, are the same job.
        for words in (["many/"], [self.path("many")], ["./many", "-j", "3"]):
            self.shardctl("pack", *words, "-o", "out", *options)
            self.assertEqual(self.tree("out"), before)
        os.remove(self.path("out/.shardkit-job"))
        self.shardctl("pack", "many", "-o", "out", *options, code=2)

    def test_repeated_keys_are_counted(self):
        self.many_files(count=30)
        self.shardctl("pack", "many", "-o", "one")
        self.write("many/sample00000x.bin", "another")
        self.shardctl("pack", "many", "-o", "three")
        self.shardctl("index", "--merge", "both", "one", "three")
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

    def test_unknown_column(self):
        self.small_files()
        # Columns can turn up with any sample, so that a name without one is known only at the end.
        run = self.shardctl("pack", "in", "-o", "out", "--codec", "nosuch=zstd")
        self.assertIn("note", run.stderr)
        self.assertIn("nosuch", run.stderr)
        self.assertEqual(self.shardctl("pack", "in", "-o", "other", "--codec", "txt=none").stderr, "")

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

    def test_empty_input(self):
        os.mkdir(self.path("nothing"))
        self.shardctl("pack", "--from", "files", "nothing", "-o", "out")
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
        run = self.shardctl("index", "--merge", "out", "a", "b", code=None)
        self.assertIn(run.code, (0, 2), str(run))
        if run.code == 2:
            self.assertFalse(os.path.exists(self.path("out")), str(run))
