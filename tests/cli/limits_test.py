"""--max-decompression: each verb that has it refuses larger data and names the limit. A higher limit succeeds."""
import os

from support import CliTest


class DecompressionTest(CliTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("in"))
        self.write("in/one.txt", b"x" * (1 << 20))
        self.shardctl("pack", "in", "-o", "out", "--codec", "txt=zstd")
        self.shard = next(name for name in os.listdir(self.path("out")) if name.endswith(".shard"))
        self.assertLess(os.path.getsize(self.path("out", self.shard)), 65536)

    def check(self, *arguments, remove=None):
        run = self.shardctl(*arguments, "--max-decompression", "1KiB", code=None)
        self.assertNotEqual(run.code, 0, str(run))
        self.assertIn("limit", run.stderr)
        self.assertIn("--max-decompression", run.stderr)
        if remove is not None:
            self.assertFalse(os.path.exists(self.path(remove)), remove)
        self.shardctl(*arguments, "--max-decompression", "2MiB")

    def test_verbs_that_read(self):
        self.check("cat", "out", "--sample", "0", "-c", "txt")
        self.check("ls", "out", "--values-xxh3")
        self.check("validate", "out")
        self.check("inspect", "out", "--sample", "0")
        self.check("bench", "out")

    def test_verbs_that_write(self):
        self.check("unpack", "out", "-o", "files", remove="files")
        self.assertEqual(self.read("files", "one.txt"), b"x" * (1 << 20))
        self.check("convert", "out", "-o", "tars", "--to", "webdataset", remove="tars")
        self.check("repair", f"out/{self.shard}", "-o", "fixed.shard", remove="fixed.shard")

    def test_a_compressed_tar(self):
        import tarfile
        with tarfile.open(self.path("in.tar.gz"), "w:gz") as tar:
            tar.add(self.path("in", "one.txt"), "one.txt")
        self.check("pack", "in.tar.gz", "-o", "packed", remove="packed")
        self.check("unpack", "in.tar.gz", "-o", "unpacked", remove="unpacked")
        self.check("convert", "in.tar.gz", "-o", "converted", "--to", "shard", remove="converted")
        self.check("cat", "in.tar.gz", "--sample", "0", "-c", "txt")
