"""Promises of pack --append: one step, nothing lost, keys that are there, two appenders at once."""
import os
import signal
import time

import support
from support import CliTest


class AppendTest(CliTest):
    def samples(self, folder, begin, end, column="txt"):
        for i in range(begin, end):
            self.write(f"{folder}/{1000 + i}.{column}", f"value {i}")

    def setUp(self):
        super().setUp()
        self.samples("first", 0, 20)
        self.shardctl("pack", "first", "-o", "data", "--shard-samples", "8")

    def test_appends_and_says_what_there_is(self):
        self.samples("second", 20, 35)
        run = self.shardctl("pack", "second", "-o", "data", "--append", "--shard-samples", "8")
        self.assertEqual(run.stdout.splitlines()[:2],
                         ["appended 15 samples from files", "generation 2: 35 samples (2 columns) in 5 shards, 5 blocks"])
        self.samples("first", 20, 35)
        self.shardctl("unpack", "data", "-o", "files")
        self.assertEqual(self.tree("files"), self.tree("first"))
        self.samples("third", 34, 36)
        report = self.shardctl("pack", "third", "-o", "data", "--append", "--existing-keys", "skip", "--json").json()
        self.assertEqual([report[name] for name in ("samples", "samples_this_run", "samples_existing", "generation")],
                         [36, 1, 1, 3])
        self.shardctl("validate", "--deep", "data")

    def test_metadata_stay_those_of_the_dataset(self):
        self.shardctl("pack", "first", "-o", "named", "--metadata", "name=one")
        self.samples("second", 20, 22)
        for given, says in (("name=two", 'the dataset says "one"'), ("license=CC0", "the dataset has none of this name")):
            self.assertIn(says, self.shardctl("pack", "second", "-o", "named", "--append", "--metadata", given, code=2).stderr)
        self.shardctl("pack", "second", "-o", "named", "--append", "--metadata", "name=one")
        self.assertEqual(self.shardctl("inspect", "named", "--json").json()["metadata"]["name"], "one")

    def test_segment_of_another_dataset(self):
        """Its length and its counts are right: only its checksum says that it is another's."""
        for i in range(20):
            self.write(f"other/{2000 + i}.txt", f"value {i}")
        self.samples("second", 20, 35)
        self.samples("third", 3, 4)
        self.shardctl("pack", "other", "-o", "others", "--shard-samples", "8")
        self.shardctl("pack", "second", "-o", "seconds")
        self.shardctl("pack", "third", "-o", "thirds")
        self.assertEqual(len(self.read("others", "dataset.segment")), len(self.read("data", "dataset.segment")))
        self.write("data/dataset.segment", self.read("others", "dataset.segment"))
        self.shardctl("merge", "data", "seconds", "-o", "merged")
        self.assertIn("1003", self.shardctl("merge", "data", "thirds", "-o", "twice", code=2).stderr)
        self.assertIn("1003", self.shardctl("pack", "third", "-o", "data", "--append", code=2).stderr)
        self.shardctl("pack", "second", "-o", "data", "--append")
        self.shardctl("compact", "data")
        for dataset in ("merged", "data"):
            self.shardctl("validate", "--deep", dataset)
            self.assertEqual(self.shardctl("cat", dataset, "--key", "1003", "-c", "txt").stdout, "value 3")

    def test_segment_of_a_later_version(self):
        try:
            import xxhash
        except ImportError:
            self.skipTest("python3-xxhash is not installed")
        segment = self.read("data", "dataset.segment")
        tail = bytearray(segment[-64:])
        tail[4] = 2
        tail[48:56] = xxhash.xxh3_64_intdigest(bytes(tail[:48])).to_bytes(8, "little")
        self.write("data/dataset.segment", segment[:-64] + bytes(tail))
        self.assertIn("version 2", self.shardctl("validate", "data", code=1).stderr)
        self.samples("second", 20, 22)
        self.shardctl("pack", "second", "-o", "seconds")
        self.shardctl("merge", "data", "seconds", "-o", "merged")
        self.shardctl("validate", "merged")

    def test_every_segment_is_validated(self):
        self.samples("second", 20, 35)
        self.shardctl("pack", "second", "-o", "data", "--append")
        os.remove(self.path("data", "dataset.segment"))
        damaged = bytearray(self.read("data", "dataset-2.segment"))
        damaged[20] ^= 1
        self.write("data/dataset-2.segment", bytes(damaged))
        [report] = self.shardctl("validate", "data", "--json", code=1).json()["reports"]
        self.assertEqual([os.path.basename(problem["path"]) for problem in report["problems"]],
                         ["dataset.segment", "dataset-2.segment"])

    def test_index_keeps_what_is_right(self):
        self.samples("second", 20, 35)
        self.shardctl("pack", "second", "-o", "data", "--append")
        self.shardctl("compact", "data")
        self.shardctl("rm", "data", "--range", "0:1")
        before = self.tree("data")
        self.assertIn("dataset-3.segment", before)
        self.shardctl("index", "data")
        self.assertEqual(self.tree("data"), before)
        os.remove(self.path("data", "dataset-3.segment"))
        self.shardctl("index", "data")
        self.assertEqual(self.tree("data"), before)

    def test_history_and_earlier_generations(self):
        self.samples("second", 20, 35)
        self.shardctl("pack", "second", "-o", "data", "--append", "--shard-samples", "8")
        self.shardctl("compact", "data")
        lines = self.shardctl("history", "data").stdout.splitlines()
        self.assertRegex(lines[0], r"^1  create: 20 samples, 2 columns, 3 shards, 1 segment, ")
        self.assertRegex(lines[1], r"^2  append \(samples 15; shards 2\): 35 samples, 2 columns, 5 shards, 2 segments, ")
        self.assertRegex(lines[2], r"^3  compact: 35 samples, 2 columns, 5 shards, 1 segment, ")
        generations = self.shardctl("history", "--json", "data").json()["generations"]
        self.assertEqual([(each["operation"], each["samples"], each["arguments"]) for each in generations],
                         [("create", 20, {}), ("append", 35, {"samples": ["15"], "shards": ["2"]}), ("compact", 35, {})])
        self.assertEqual(len(self.shardctl("ls", "data", "--at", "1").stdout.splitlines()), 20)
        self.assertEqual(self.shardctl("inspect", "data", "--at", "1", "--json").json()["samples"], 20)
        self.assertEqual(self.shardctl("cat", "data", "--at", "2", "--key", "1030", "-c", "txt").stdout, "value 30")
        self.shardctl("cat", "data", "--at", "1", "--key", "1030", "-c", "txt", code=1)
        self.shardctl("unpack", "data", "--at", "1", "-o", "files")
        self.assertEqual(self.tree("files"), self.tree("first"))
        self.shardctl("convert", "data", "--at", "1", "--to", "shard", "-o", "copy")
        self.assertEqual(self.shardctl("inspect", "copy", "--json").json()["samples"], 20)
        run = self.shardctl("ls", "data", "--at", "4", code=3)
        self.assertEqual(run.stderr, "shardctl: data: has no generation 4: the newest is 3\n")
        run = self.shardctl("ls", "data/00000000.shard", "--at", "1", code=2)
        self.assertIn("has no generations", run.stderr)

    def test_converts_into_a_dataset_that_is_there(self):
        self.samples("second", 20, 30)
        self.shardctl("pack", "second", "-o", "mine")
        run = self.shardctl("convert", "mine", "-o", "data", "--to", "shard", "--append")
        self.assertIn("appended 10 samples from mine\ngeneration 2: 30 samples", run.stdout)
        self.assertEqual(self.shardctl("cat", "data", "--key", "1025", "-c", "txt").stdout, "value 25")
        run = self.shardctl("convert", "mine", "-o", "data", "--to", "shard", "--append", code=2)
        self.assertIn("data: has the keys of 10 samples already: \"1020\", \"1021\", \"1022\", …;", run.stderr)

    def test_what_is_refused_leaves_the_dataset(self):
        before = self.tree("data")
        self.samples("again", 19, 25)
        run = self.shardctl("pack", "again", "-o", "data", "--append", code=2)
        self.assertEqual(run.stderr, "shardctl: data: has the key of 1 sample already: \"1019\"; nothing was appended; "
                                     "--existing-keys skip leaves them out, add stores them\n")
        self.samples("other", 30, 31)
        run = self.shardctl("pack", "other", "-o", "data", "--append", "--codec", "txt=none", code=2)
        self.assertIn("column \"txt\" has codec zstd there", run.stderr)
        self.shardctl("pack", "other", "-o", "missing", "--append", code=3)
        for options, words in ((["--existing-keys", "add"], "--existing-keys: only with --append"),
                               (["--append", "--resume"], "--resume: not with --append"),
                               (["--append", "--dry-run"], "--dry-run: not with --append")):
            run = self.shardctl("pack", "other", "-o", "data", *options, code=2)
            self.assertIn(words, run.stderr)
        self.assertIn("--append: only for --to shard",
                      self.shardctl("convert", "data", "-o", "new", "--to", "mds", "--append", code=2).stderr)
        self.assertEqual(self.tree("data"), before)
        self.shardctl("pack", "again", "-o", "data", "--append", "--existing-keys", "add")
        self.assertEqual(self.shardctl("cat", "data", "--sample", "20", "-c", "key").stdout, "1019")

    def test_two_at_once_lose_nothing(self):
        wanted = 20
        for round_number in range(5):
            processes = []
            for side in ("a", "b"):
                begin = 100 + 100 * round_number + (50 if side == "b" else 0)
                self.samples(f"{side}{round_number}", begin, begin + 40)
                processes.append(self.start("pack", f"{side}{round_number}", "-o", "data", "--append"))
            for process in processes:
                out, err = process.communicate(timeout=support.TIMEOUT)
                self.check_no_crash(support.Run(["pack"], process.returncode, out, err))
                if process.returncode == 0:
                    wanted += 40
                else:
                    self.assertEqual(process.returncode, 3, err)
                    self.assertRegex(err.decode(), "another run is writing a dataset there; wait until it ends|start again")
        self.assertGreaterEqual(wanted, 20 + 5 * 40)
        self.assertEqual(self.shardctl("inspect", "--json", "data").json()["samples"], wanted)
        self.shardctl("validate", "--deep", "data")

    def test_interrupted_it_leaves_the_dataset(self):
        self.samples("many", 100, 1600)
        before = self.tree("data")
        process = self.start("pack", "many", "-o", "data", "--append", "--shard-samples", "10", "--block-size", "1KiB")
        deadline = time.monotonic() + 60
        while len(os.listdir(self.path("data"))) < len(before) + 5 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0:
            self.skipTest("it ended before the signal came")
        self.assertEqual((process.returncode, err), (3, b"shardctl: interrupted; the dataset is as it was\n"))
        self.assertEqual(self.tree("data"), before)

    def test_diff_says_what_distinguishes_two(self):
        self.shardctl("pack", "first", "-o", "same", "--shard-samples", "5")
        run = self.shardctl("diff", "data", "same")
        self.assertEqual(run.stdout, "20 samples in both: no difference\n")
        self.write("first/1003.txt", "other")
        self.write("first/1020.cls", "1")
        self.shardctl("pack", "first", "-o", "other")
        run = self.shardctl("diff", "data", "other", code=1)
        self.assertEqual(run.stdout, "only in other: column \"cls\"\nonly in other: 1 sample: 1020\n"
                                     "column \"txt\": 1 value differs: 1003\n20 samples in both\n")
        report = self.shardctl("diff", "data", "other", "--column", "txt", "--examples", "0", "--json", code=1).json()
        self.assertEqual((report["same"], report["matched"], report["columns_only_b"]), (False, 20, []))
        self.assertEqual(report["columns"], [{"count": 1, "examples": [], "name": "txt"}])
        self.samples("second", 20, 25)
        self.shardctl("pack", "second", "-o", "data", "--append")
        run = self.shardctl("diff", "--at-a", "1", "data", "data", code=1)
        self.assertEqual(run.stdout, "only in data: 5 samples: 1020, 1021, 1022, 1023, 1024\n"
                                     "20 samples in both, 20 of them in the same shards\n")
        self.shardctl("diff", "data", "missing", code=3)
        self.shardctl("diff", "data", code=2)
        self.shardctl("diff", "data", "same", "--column", "nothing", code=1)
