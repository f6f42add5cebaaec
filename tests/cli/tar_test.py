"""Tars as other programs write them: keys that come again."""
import io
import os
import shutil
import tarfile

from support import CliTest


class TarTest(CliTest):
    def tar(self, name, members, **options):
        """Members are pairs of a name and bytes, or a tarfile.TarInfo, such as a link."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with tarfile.open(self.path(name), "w", **options) as tar:
            for member in members:
                if isinstance(member, tarfile.TarInfo):
                    tar.addfile(member)
                    continue
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
        return name

    def keys(self, dataset):
        return [entry["key"] for entry in self.shardctl("ls", dataset, "--json").json()["entries"]]

    def test_keys_that_come_again_in_another_tar(self):
        self.tar("tars/a.tar", [("1.txt", b"one"), ("2.txt", b"two")])
        self.tar("tars/b.tar", [("1.txt", b"uno"), ("3.txt", b"tre"), ("2.txt", b"due")])
        self.shardctl("pack", "tars", "-o", "packed")
        self.shardctl("convert", "packed", "-o", "again", "--to", "webdataset")
        self.shardctl("validate", "--deep", "again")
        self.assertEqual(self.keys("again"), ["1", "2", "1", "3", "2"])
        self.assertEqual(len([name for name in os.listdir(self.path("again")) if name.endswith(".tar")]), 2)
        for source in ("tars", "packed", "again"):
            for jobs in (1, 4):
                run = self.shardctl("unpack", source, "-o", "no", "-j", jobs, code=3)
                self.assertIn("--by-shard gives the files of each shard a folder, --on-error skip leaves the later sample out",
                              run.stderr)
                run = self.shardctl("unpack", source, "-o", "some", "-j", jobs, "--on-error", "skip", "--json", code=4)
                self.assertEqual([(each["position"], each["key"]) for each in run.json()["skipped"]], [(2, "1"), (4, "2")])
                self.assertEqual({name: self.read("some", name) for name in os.listdir(self.path("some"))},
                                 {"1.txt": b"one", "2.txt": b"two", "3.txt": b"tre"})
                shutil.rmtree(self.path("some"))
        self.shardctl("unpack", "tars", "-o", "parts", "--by-shard")
        self.assertEqual(sorted(self.tree("parts")), ["00000000/1.txt", "00000000/2.txt", "00000001/1.txt", "00000001/2.txt",
                                                      "00000001/3.txt"])
        self.assertEqual(self.read("parts", "00000001", "2.txt"), b"due")
