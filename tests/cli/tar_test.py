"""What other containers say differently: keys that come again, absent values."""
import io
import json
import os
import shutil
import tarfile

from support import CliTest, tiny_jpeg, tiny_png


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

    def test_absent_values_in_mds_can_be_read(self):
        for name, content in (("1.json", "{}"), ("1.png", tiny_png()), ("1.txt", "a"), ("2.txt", "b"), ("3.jpg", tiny_jpeg()),
                              ("3.txt", "c"), ("3.cls", "7")):
            self.write(f"in/{name}", content)
        self.shardctl("pack", "in", "-o", "data")
        run = self.shardctl("convert", "data", "-o", "mds", "--to", "mds", "--lossy", "--json")
        [warning] = run.json()["warnings"]
        self.assertEqual(warning, "8 absent values are stored as empty, for MDS has no absent values; encoding bytes takes them in "
                                  'columns "jpg", "json", "png"')
        index = json.loads(self.read("mds", "index.json"))["shards"][0]
        encodings = dict(zip(index["column_names"], index["column_encodings"]))
        self.assertEqual(encodings, {"cls": "str", "jpg": "bytes", "json": "bytes", "key": "str", "png": "bytes", "txt": "str"})
        self.shardctl("validate", "--deep", "mds")
        for to in ("shard", "webdataset"):  # with types again, and without the empty ones
            self.shardctl("convert", "mds", "-o", f"back-{to}", "--to", to)
            self.shardctl("validate", "--deep", f"back-{to}")
            self.shardctl("unpack", f"back-{to}", "-o", f"files-{to}")
            tree = self.tree(f"files-{to}")
            self.assertEqual({name: tree[name] for name in self.tree("in")}, self.tree("in"))
            self.assertEqual(set(tree) - set(self.tree("in")), {"1.cls", "2.cls"})
        self.shardctl("convert", "mds", "-o", "mds2", "--to", "mds")
        self.assertEqual(self.read("mds2", "shard.00000.mds"), self.read("mds", "shard.00000.mds"))
        # Without absent values the encodings are those of the types.
        self.write("whole/1.json", "{}")
        self.shardctl("pack", "whole", "-o", "whole.data")
        self.shardctl("convert", "whole.data", "-o", "whole.mds", "--to", "mds", "--lossy")
        self.assertIn('"json"', json.dumps(json.loads(self.read("whole.mds", "index.json"))["shards"][0]["column_encodings"]))
