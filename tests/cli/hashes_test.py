"""Hashes of whole files in an index: every verb that reads compares them, unless an option forbids it."""
import os
import random

from support import CliTest


class HashesTest(CliTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("in"))
        self.write("in/one.txt", b"sound")
        self.write("in/two.txt", b"whole")
        # With this much noise, a compressor stores the text unchanged.
        for name in ("one", "two"):
            self.write(f"in/{name}.bin", random.Random(name).randbytes(1000))
        self.shardctl("pack", "in", "-o", "out")

    def refused(self, *arguments, output=None):
        run = self.shardctl(*arguments, code=1)
        self.assertRegex(run.stderr, self.message)
        self.assertIn("--no-verify-hashes", run.stderr)
        if output is not None:
            self.assertFalse(os.path.exists(self.path(output)), output)
        return self.shardctl(*arguments, "--no-verify-hashes")

    def check_verbs(self, dataset, kind):
        """For a dataset in which "whole" was changed to "while"."""
        text = lambda output: self.shardctl("cat", output, "--sample", "1", "-c", "txt").out
        self.refused("convert", dataset, "-o", "converted", "--to", "shard", output="converted")
        self.assertEqual(text("converted"), b"while")
        self.refused("convert", dataset, "-o", "tars", "--to", "webdataset", output="tars")
        self.refused("pack", dataset, "--from", kind, "-o", "packed", output="packed")
        self.assertEqual(text("packed"), b"while")
        self.refused("unpack", dataset, "-o", "files", output="files")
        self.refused("cat", dataset, "--sample", "1", "-c", "txt", "-o", "value", output="value")
        self.assertEqual(self.read("value"), b"while")
        self.assertEqual(self.refused("cat", dataset, "--sample", "1", "-c", "txt", "--io", "mmap").out, b"while")
        self.refused("ls", dataset, "--values-xxh3")
        self.refused("inspect", dataset, "--sample", "1")
        self.refused("bench", dataset)
        self.refused("plan", dataset, "--label", "txt")
        self.assertRegex(self.shardctl("validate", dataset, code=1).stderr, self.message)

    def damage(self, name):
        content = self.read(name)
        self.assertEqual(content.count(b"whole"), 1)
        self.write(name, content.replace(b"whole", b"while"))

    def test_shard_of_mds(self):
        self.shardctl("convert", "out", "-o", "mds", "--to", "mds", "--hash", "xxh64")
        self.damage("mds/shard.00000.mds")
        self.message = r"mds/shard\.00000\.mds: xxh64 is [0-9a-f]{16}, but index\.json says [0-9a-f]{16}: .*get it again"
        self.check_verbs("mds", "mds")

    def test_compressed_shard_of_mds(self):
        self.shardctl("convert", "out", "-o", "mds", "--to", "mds", "--hash", "xxh3_64", "--compression", "zstd")
        self.damage("mds/shard.00000.mds.zstd")
        self.message = r"mds/shard\.00000\.mds\.zstd: xxh3_64 is [0-9a-f]{16}, but index\.json says [0-9a-f]{16}: "
        self.check_verbs("mds", "mds")
