"""Promises of filter and split: what they say, damage, interruptions; exit codes."""
import json
import os
import shutil

from support import CliTest


class FilterTest(CliTest):
    def filter(self, source, *options, code=0):
        return self.shardctl("filter", source, *options, code=code)

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
