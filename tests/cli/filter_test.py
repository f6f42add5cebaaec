"""Promises of filter and split: the right samples, whole, with any threads and interruptions; exit codes."""
import json
import os
import shutil

from support import CliTest


class FilterTest(CliTest):
    def filter(self, source, *options, code=0):
        return self.shardctl("filter", source, *options, code=code)

    def keys(self, dataset):
        return [line.split()[-1] for line in self.shardctl("ls", dataset).stdout.splitlines()]

    def selected(self, dataset, where):
        """The keys that are selected; --count has to say how many."""
        shutil.rmtree(self.path("chosen"), ignore_errors=True)
        self.filter(dataset, "--where", where, "-o", "chosen")
        keys = self.keys("chosen")
        self.assertEqual(self.filter(dataset, "--where", where, "--count").stdout, f"{len(keys)}\n")
        return keys

    def test_golden(self):
        self.small_sa1b(count=9)
        self.shardctl("pack", "sa1b", "-o", "out", "--block-size", "2KiB")
        self.pack_small_files("small", "--block-size", "64")
        self.write("keys", "apple\nsub/date\r\n\nnone\n")
        self.golden("filter", [
            self.filter("out", "--where", "image_id > 6", "--count"),
            self.filter("out", "--where", "len(masks) > 1 and mean(area) > 13", "--count", "--json"),
            self.filter("small", "--where", "len(txt) < 20 or starts_with(key, 'sub/')", "-o", "few"),
            self.filter("small", "--where", "txt is null", "-o", "few", code=2),
            self.filter("small", "--keys-from", "keys", "-o", "named"),
            self.filter("out", "--where", "wdth > 6", "--count", code=2),
            self.filter("out", "--where", "width > 6 and key", "--count", code=2),
            self.filter("out", "--where", "width > 6 and (key = \"x\"", "--count", code=2),
            self.filter("out", "--range", "1:3,7:", "--count", "--json"),
            self.shardctl("split", "small", "--into", "train=80%", "--into", "val=0.2", "--seed", "5", "-o", "parts"),
            self.shardctl("split", "small", "--into", "train=80%,val=30%", "-o", "other", code=2),
        ])

    def test_sa1b(self):
        self.small_sa1b(count=9)
        self.shardctl("pack", "sa1b", "-o", "out")
        # Image i has 1 + i % 3 annotations, the k-th with an area of 4 (3 + k).
        self.assertEqual(self.selected("out", "len(masks) = 3"), ["sa_2", "sa_5", "sa_8"])
        self.assertEqual(self.selected("out", "any(area >= 20) or key in ('sa_1')"), ["sa_1", "sa_2", "sa_5", "sa_8"])
        self.assertEqual(self.selected("out", "max(area) < 16 and image_id != 3"), ["sa_6", "sa_9"])
        self.assertEqual(self.selected("out", "source_json is not null and key ~ 'sa_?' and image_id <= 2"), ["sa_1", "sa_2"])
        self.shardctl("unpack", "chosen", "-o", "files")
        self.assertEqual(sorted(self.tree("files")), ["sa_1.jpg", "sa_1.json", "sa_2.jpg", "sa_2.json"])
        for name in self.tree("files"):
            self.assertEqual(self.read("files", name), self.read("sa1b", name))

    def blocks(self, dataset):
        return self.shardctl("inspect", dataset, "--json").json()["blocks"]

    def test_whole_blocks_are_copied(self):
        self.many_files(count=120)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "1KiB", "--shard-samples", "50")
        before = self.blocks("out")
        self.assertLess(10, before)
        self.filter("out", "--range", "0:", "-o", "copy")
        self.shardctl("convert", "out", "-o", "converted", "--to", "shard")
        self.filter("out", "--range", "0:", "--block-size", "64KiB", "-o", "again")
        self.assertEqual((self.blocks("copy"), self.blocks("converted")), (before, before))
        self.assertLess(self.blocks("again"), before)
        for dataset in ("copy", "converted", "again"):
            self.shardctl("validate", "--deep", dataset)
            self.shardctl("unpack", dataset, "-o", f"{dataset}.files")
            self.assertEqual(self.tree(f"{dataset}.files"), self.tree("many"))

    def test_threads_do_not_change_a_byte(self):
        self.many_files(count=200)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "16KiB", "--shard-size", "128KiB")
        for jobs in (1, 2, 5):
            self.filter("out", "--where", "key ~ '*7*'", "-o", f"out{jobs}", "-j", jobs, "--shard-size", "64KiB")
            self.shardctl("split", "out", "--into", "a=70%,b=20%", "-o", f"parts{jobs}", "-j", jobs)
        self.assertEqual(self.tree("out1"), self.tree("out2"))
        self.assertEqual(self.tree("out1"), self.tree("out5"))
        self.assertEqual(self.tree("parts1"), self.tree("parts2"))
        self.assertEqual(self.tree("parts1"), self.tree("parts5"))
        self.assertEqual(self.keys("out1"), [f"{i:06d}" for i in range(200) if "7" in str(i)])

    def test_a_share_stays_when_samples_are_appended(self):
        self.many_files("many", count=100, size=10)
        self.shardctl("pack", "many", "-o", "before")
        self.many_files("many", count=300, size=10)
        self.shardctl("pack", "many", "-o", "after")
        for name in ("before", "after"):
            self.filter(name, "--sample", "25%", "--seed", "3", "-o", f"{name}-share")
            self.shardctl("split", name, "--into", "train=90%,val=10%", "--seed", "3", "-o", f"{name}-parts")
        early = {f"{i:06d}" for i in range(100)}
        self.assertEqual(set(self.keys("after-share")) & early, set(self.keys("before-share")))
        for part in ("train", "val"):
            self.assertEqual(set(self.keys(f"after-parts/{part}")) & early, set(self.keys(f"before-parts/{part}")))
        self.assertEqual(sorted(self.keys("after-parts/train") + self.keys("after-parts/val")), self.keys("after"))

    def test_damage_is_an_error(self):
        self.pack_small_files()
        with open(self.path("out", "00000000.shard"), "r+b") as file:
            file.seek(4096 + 700)
            byte = file.read(1)
            file.seek(4096 + 700)
            file.write(bytes([byte[0] ^ 1]))
        run = self.filter("out", "--range", "0:5", "-o", "new", code=1)
        self.assertIn("checksum", run.stderr)
        self.assertFalse(os.path.exists(self.path("new")))

    def interrupted(self, *words):
        """Sends SIGINT when the first shard exists."""
        def a_shard():
            return any(name.endswith(".shard") for _, _, names in os.walk(self.path("new")) for name in names)

        run = self.interrupt(words, a_shard, output="new")
        self.check_no_crash(run)
        return run

    def test_interruptions(self):
        self.many_files(count=1500)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "8KiB")
        limits = ["--shard-size", "40KiB", "--block-size", "8KiB", "-o", "new"]
        for words in (["filter", "out", "--where", "key != ''", *limits], ["split", "out", "--into", "a=10%,b=90%", *limits]):
            with self.subTest(words=words):
                run = self.interrupted(*words)
                self.assertEqual((run.code, run.stderr), (3, "shardctl: interrupted; nothing was left behind\n"))
                self.assertFalse(os.path.exists(self.path("new")))
                self.shardctl(*words)
                whole = self.tree("new")
                shutil.rmtree(self.path("new"))
                self.interrupted(*words, "--resume")
                self.shardctl(*words, "--resume")
                self.assertEqual(self.tree("new"), whole)
                self.shardctl(*words, "--resume")  # has nothing to do
                shutil.rmtree(self.path("new"))

    def test_another_selection_is_not_resumed(self):
        self.pack_small_files()
        self.filter("out", "--range", "0:3", "-o", "new", "--resume")
        run = self.filter("out", "--range", "0:4", "-o", "new", "--resume", code=2)
        self.assertIn("another job", run.stderr)

    def test_json(self):
        self.pack_small_files()
        document = self.filter("out", "--where", "key >= 'b' and txt is not null", "-o", "new", "--json").json()
        self.assertEqual([document[name] for name in ("input_samples", "selected", "samples", "keys_missing", "shards")],
                         [5, 2, 2, 0, 1])
        parts = self.shardctl("split", "out", "--into", "a=50%,b=50%", "-o", "parts", "--json").json()["parts"]
        self.assertEqual([part["name"] for part in parts], ["a", "b"])
        self.assertEqual(sum(part["samples"] for part in parts), 5)
        self.assertEqual(json.loads(self.read("parts", "a", "dataset.json"))["samples"], parts[0]["samples"])
