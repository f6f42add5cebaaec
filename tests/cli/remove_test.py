"""Promises of rm and compact: samples are gone for every reader, and with --purge their bytes, too."""

import os

from support import CliTest


class RemoveTest(CliTest):
    def setUp(self):
        super().setUp()
        for i in range(20):
            self.write(f"in/{i:02}.txt", f"text {i}, with a word of its own: {'abcdefghij'[i % 10] * 5}{i}".encode())
        self.shardctl("pack", "in", "-o", "data", "--shard-samples", "5", "--block-size", "100",
                      "--codec", "txt=none")

    def names(self, path="data", *options):
        return [entry["key"] for entry in self.shardctl("ls", path, "--json", *options).json()["entries"]]

    def test_remove_by_keys_and_where(self):
        every = self.names()
        self.write("keys", "\n".join([every[3], every[19], "no such key"]).encode())
        run = self.shardctl("rm", "data", "--keys-from", "keys")
        self.assertIn("removed 2 samples of data: 18 samples left, generation 2", run.stdout)
        self.assertIn("1 key of keys is of no sample", run.stderr)
        left = [key for key in every if key not in (every[3], every[19])]
        self.assertEqual(self.names(), left)
        self.assertEqual(self.names("data", "--at", "1"), every)
        document = self.shardctl("rm", "data", "--where", f'key = "{left[0]}"', "--json").json()
        self.assertEqual(document, {"path": "data", "removed": 1, "keys_missing": 0, "samples": 17,
                                    "removed_in_all": 3, "generation": 3})
        self.shardctl("rm", "data", "--range", "0:2")
        self.assertEqual(self.names(), left[3:])
        self.shardctl("cat", "data", "--key", every[3], "--column", "txt", code=1)
        self.shardctl("validate", "data")
        self.shardctl("unpack", "data", "-o", "out")
        self.assertEqual(len(os.listdir(self.path("out"))), 15)
        before = self.tree("data")
        self.assertIn("removed 0 samples", self.shardctl("rm", "data", "--where", 'key = "none"').stdout)
        self.assertEqual(self.tree("data"), before)

    def test_counts_are_the_same_everywhere(self):
        every = self.names()
        self.shardctl("rm", "data", "--range", "4:7")
        self.write("rows.ndjson", "".join(f'{{"key": "{key}", "score": {i}}}\n' for i, key in enumerate(every)))
        self.shardctl("columns", "add", "data", "--from", "rows.ndjson", "--key", "key")
        self.assertIn("data: 17 samples (and 3 removed), 4 shards and 1 column file, ", self.shardctl("validate", "data").stdout)
        [report] = self.shardctl("validate", "data", "--json").json()["reports"]
        inspected = self.shardctl("inspect", "data", "--json").json()
        history = self.shardctl("history", "data", "--json").json()["generations"][-1]
        self.assertEqual(report["removed_samples"], 3)
        self.assertEqual(report["column_files"], 1)
        for name in ("samples", "shards", "bytes"):
            self.assertEqual({report[name], inspected[name], history[name]}, {report[name]}, name)
        self.assertEqual((report["samples"], report["blocks"]), (17, inspected["blocks"]))
        self.assertIn("dataset of 17 samples (and 3 removed, counted below), ", self.shardctl("inspect", "data").stdout)
        for column in inspected["columns"]:
            self.assertEqual(column["present"] + column["absent"], 20, column)
        parts = [self.shardctl("validate", "data", "--task", f"{i}/3", "--json").json()["reports"][0] for i in range(3)]
        for name in ("samples", "removed_samples", "shards", "blocks", "column_files", "bytes"):
            self.assertEqual(sum(part[name] for part in parts), report[name], name)

    def test_purge_leaves_nothing(self):
        every = self.names()
        self.write("keys", every[7].encode())
        self.shardctl("rm", "data", "--keys-from", "keys")
        run = self.shardctl("compact", "data", "--purge")
        self.assertIn("rewrote 1 shard, dropped 1 removed sample; deleted", run.stdout)
        self.assertEqual(self.names(), every[:7] + every[8:])
        for name in self.tree("data"):
            self.assertNotIn(b"hhhhh7", self.read("data", name), name)
        self.shardctl("validate", "--deep", "data")
        self.assertEqual(sorted(name for name in os.listdir(self.path("data")) if name.endswith(".shard")),
                         ["00000000.shard", "00000002.shard", "00000003.shard", "00000004.shard"])
        self.shardctl("pack", "--append", "in", "-o", "data", "--existing-keys", "skip")
        self.assertEqual(self.names(), every[:7] + every[8:] + [every[7]])

    def test_refusals(self):
        self.assertIn("nothing says which samples", self.shardctl("rm", "data", code=2).stderr)
        self.shardctl("rm", "data", "--where", "nothing > 3", code=2)
        self.write("none", b"\n")
        self.assertIn("none: has no keys", self.shardctl("rm", "data", "--keys-from", "none", code=2).stderr)
        self.shardctl("rm", "missing", "--range", "0:1", code=3)
        self.shardctl("rm", "in", "--range", "0:1", code=3)


