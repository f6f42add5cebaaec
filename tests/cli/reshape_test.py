"""Promises of merge and reshard: all samples, whole, in the right order; what is refused; what threads and interruptions leave."""
import os
import shutil
import signal
import time

from support import CliTest


class ReshapeTest(CliTest):
    def pack_parts(self, count=30):
        self.many_files(count=count)
        names = sorted(os.listdir(self.path("many")))
        for part in (0, 1):
            os.mkdir(self.path(f"files{part}"))
            for name in names[part * count // 2:(part + 1) * count // 2]:
                shutil.copy(self.path("many", name), self.path(f"files{part}", name))
            self.shardctl("pack", f"files{part}", "-o", f"part{part}", "--shard-samples", "4")

    def keys(self, dataset):
        return [line.split()[-1] for line in self.shardctl("ls", dataset).stdout.splitlines()]

    def test_merge_links_what_it_can(self):
        self.pack_parts()
        run = self.shardctl("merge", "part0", "part1", "-o", "all", "--json").json()
        self.assertEqual({name: run[name] for name in ("inputs", "output", "copied", "samples", "shards")},
                         {"inputs": ["part0", "part1"], "output": "all", "copied": False, "samples": 30, "shards": 8})
        self.assertTrue(os.path.samefile(self.path("all/00000004.shard"), self.path("part1/00000000.shard")))
        self.assertEqual(self.keys("all"), self.keys("part0") + self.keys("part1"))
        shutil.rmtree(self.path("part0"))
        self.shardctl("validate", "--deep", "all")
        self.shardctl("unpack", "all", "-o", "again")
        self.assertEqual(self.tree("again"), self.tree("many"))

    def test_merge_copies_datasets_of_any_container(self):
        self.pack_parts()
        self.shardctl("convert", "part1", "-o", "mds", "--to", "mds")
        self.shardctl("convert", "part1", "-o", "tars", "--to", "webdataset")
        for other in ("mds", "tars"):
            refused = self.shardctl("merge", "part0", other, "-o", "out", code=None)
            self.assertIn("merged without copying (--copy)" if other == "mds" else "is a dataset of another container", refused.stderr)
            for jobs in (1, 2, 5):
                self.shardctl("merge", "part0", other, "-o", f"{other}{jobs}", "--copy", "-j", jobs, "--shard-size", "20KiB")
            self.assertEqual(self.tree(f"{other}1"), self.tree(f"{other}2"))
            self.assertEqual(self.tree(f"{other}1"), self.tree(f"{other}5"))
            self.shardctl("validate", "--deep", f"{other}1")
            self.shardctl("unpack", f"{other}1", "-o", f"{other}.files")
            self.assertEqual(self.tree(f"{other}.files"), self.tree("many"))
            self.shardctl("merge", other, "part1", "-o", "out", "--copy", code=2)  # keys of tars are found, too
            self.assertFalse(os.path.exists(self.path("out")))

    def test_without_sync(self):
        self.pack_parts()
        for words in (["pack", "many", "--shard-samples", "4"], ["convert", "part0", "--to", "shard"], ["convert", "part0", "--to", "mds"],
                      ["convert", "part0", "--to", "webdataset"], ["filter", "part0", "--range", "3:"],
                      ["split", "part0", "--into", "a=50%,b=50%"], ["reshard", "part0", "--shard-samples", "7"],
                      ["reshard", "part0", "--shuffle"], ["merge", "part0", "part1", "--copy"]):
            with self.subTest(words=words):
                self.shardctl(*words, "-o", "synced")
                self.shardctl(*words, "-o", "unsynced", "--no-sync")
                self.assertEqual(self.tree("synced"), self.tree("unsynced"))
                for output in ("synced", "unsynced"):
                    shutil.rmtree(self.path(output))
        self.shardctl("merge", "part0", "-o", "out", "--no-sync", code=2)  # nothing is copied
        for part in (["--task", "0/2"], ["--finish"]):
            refused = self.shardctl("convert", "part0", "--to", "shard", "-o", "out", *part, "--no-sync", code=2)
            self.assertIn(f"--no-sync: not with {part[0]}: others take its shards for durable", refused.stderr)

    def test_what_a_dataset_says_of_itself_is_kept(self):
        for name, creator in (("one", "us"), ("two", "them, who=else")):
            self.write(os.path.join(name, f"{name}.txt"), b"text")
            self.shardctl("pack", name, "-o", f"{name}.ds", "--metadata", "license=CC-BY-4.0", "--metadata", f"creator={creator}")

        def said(path):
            metadata = self.shardctl("inspect", path, "--json").json()["metadata"]
            return {name: text for name, text in metadata.items() if not name.startswith("shardkit.")}

        whole = {"license": "CC-BY-4.0", "creator": "them, who=else"}
        self.assertEqual(said("two.ds"), whole)
        self.shardctl("merge", "one.ds", "two.ds", "-o", "merged")
        self.shardctl("merge", "--copy", "one.ds", "two.ds", "-o", "copied")
        for path in ("merged", "copied"):
            self.assertEqual(said(path), {"license": "CC-BY-4.0"})
        for container in ("shard", "mds", "webdataset"):
            self.shardctl("convert", "two.ds", "--to", container, "-o", container)
            self.shardctl("convert", container, "--to", "shard", "-o", f"{container}.back")
            self.assertEqual(said(f"{container}.back"), whole)
        self.shardctl("filter", "two.ds", "-o", "filtered", "--where", "key != ''")
        self.shardctl("reshard", "two.ds", "-o", "resharded")
        for path in ("filtered", "resharded"):
            self.assertEqual(said(path), whole)
        self.shardctl("plan-pack", "two", "-o", "tasks", "--tasks", "1", "--metadata", "license=CC0-1.0")
        self.shardctl("pack", "--task", "0/1", "-o", "tasks")
        self.shardctl("pack", "--finish", "-o", "tasks")
        self.assertEqual(said("tasks"), {"license": "CC0-1.0"})

    def test_reshard(self):
        self.many_files(count=100)
        self.shardctl("pack", "many", "-o", "in", "--block-size", "1KiB")
        run = self.shardctl("reshard", "in", "-o", "out", "--shard-samples", "30", "--json").json()
        self.assertEqual({name: run[name] for name in ("input", "shuffled", "seed", "samples", "shards")},
                         {"input": "in", "shuffled": False, "seed": None, "samples": 100, "shards": 4})
        self.shardctl("reshard", "in", "-o", "large", "--block-size", "1MiB")
        self.assertEqual(self.shardctl("inspect", "large", "--json").json()["blocks"], 1)

    def test_shuffle(self):
        self.many_files(count=100)
        self.shardctl("pack", "many", "-o", "in", "--block-size", "1KiB")
        for number, options in enumerate((["-j", 1], ["-j", 3, "--memory", "3KiB"], ["--memory", "20KiB", "--scratch", "."])):
            run = self.shardctl("reshard", "in", "-o", f"out{number}", "--shuffle", "--seed", 5, "--shard-size", "8KiB", *options)
            self.assertIn("shuffled 100 samples into ", run.stdout)
            self.assertEqual(self.tree(f"out{number}"), self.tree("out0"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["in", "many", "out0", "out1", "out2"])
        self.shardctl("reshard", "in", "-o", "other", "--shuffle")
        self.assertNotEqual(self.keys("other"), self.keys("out0"))
        self.assertIn("--scratch", self.shardctl("reshard", "in", "-o", "s3://bucket/out", "--shuffle", code=2).stderr)

    def test_interruptions(self):
        self.shardctl("synth", "files", "-o", "many", "--count", "3000", "--size", "4KiB")
        self.shardctl("pack", "many", "-o", "in", "--block-size", "16KiB")
        for words in (["reshard", "in", "--shuffle", "--memory", "1MiB"], ["merge", "in", "--copy"]):
            words += ["--shard-size", "1MiB", "-j", "2"]
            self.shardctl(*words, "-o", "whole")
            for number in range(6):
                process = self.start(*words, "-o", "out", *(["--resume"] if number % 2 else []))
                time.sleep(0.02 * number + 0.01)
                process.send_signal(signal.SIGINT if number < 4 else signal.SIGKILL)
                process.communicate(timeout=60)
                if os.path.exists(self.path("out/dataset.json")):
                    self.shardctl("validate", "out")
                elif number in (0, 2):
                    self.assertFalse(os.path.exists(self.path("out")))
                self.shardctl(*words, "-o", "out", "--resume")
                self.assertEqual(self.tree("out"), self.tree("whole"))
                shutil.rmtree(self.path("out"))
            shutil.rmtree(self.path("whole"))
