"""Indexes of other programs: DALI (for tars), and MDS."""
import io
import json
import os
import struct
import tarfile

from support import CliTest


def tar_of(members, form=tarfile.USTAR_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def mds_shard(texts):
    """A shard of MDS with one column of text."""
    header = json.dumps({"column_encodings": ["str"], "column_names": ["text"], "column_sizes": [None], "compression": None,
                         "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2}, sort_keys=True).encode()
    samples = [struct.pack("<I", len(text)) + text for text in texts]
    offsets = [4 + 4 * (len(samples) + 1) + len(header)]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    return struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets) + header + b"".join(samples)


def mds_entry(shard, samples, basename="shard.00000.mds"):
    return {"column_encodings": ["str"], "column_names": ["text"], "column_sizes": [None], "compression": None, "format": "mds",
            "hashes": [], "raw_data": {"basename": basename, "bytes": len(shard), "hashes": {}}, "samples": samples,
            "size_limit": 1 << 26, "version": 2, "zip_data": None}


class TarIndexes(CliTest):
    MEMBERS = [("a.jpg", b"j" * 700), ("a.cls", b"1"), ("README", b"r"), ("b.jpg", b"k"), ("b.cls", b"2")]

    def setUp(self):
        super().setUp()
        self.write("tars/one.tar", tar_of(self.MEMBERS))
        self.write("tars/two.tar", tar_of([("c.jpg", b"l"), ("c.cls", b"3")]))

    def test_an_index_of_a_tar_is_a_shard(self):
        self.shardctl("index", "tars")
        index = "tars/one.tar.shardidx"
        self.assertIn("no problem", self.shardctl("validate", "--deep", index).stdout)
        self.assertEqual([line.split()[1] for line in self.shardctl("ls", index).stdout.splitlines()], ["a", "b"])
        columns = self.shardctl("inspect", index, "--json").json()["columns"]
        self.assertEqual([column["name"] for column in columns], ["key", "column", "offset", "length", "xxh3"])
        offsets = self.shardctl("cat", index, "--key", "a", "-c", "offset").out
        self.assertEqual(struct.unpack("<2Q", offsets[-16:]), (512, 2048))

    def test_dali(self):
        run = self.shardctl("index", "--dali", "tars")
        self.assertEqual(self.read("tars", "one.idx"), b"v1.2 3\njpg 512 700 a.jpg cls 2048 1 a.cls\nREADME 3072 1 README\n"
                                                       b"jpg 4096 1 b.jpg cls 5120 1 b.cls\n")
        self.assertEqual(self.read("tars", "two.idx"), b"v1.2 1\njpg 512 1 c.jpg cls 1536 1 c.cls\n")
        self.assertIn('member "README", byte 2560: is no part of a sample, but is one for DALI', run.stderr)
        report = self.shardctl("index", "--dali", "tars/two.tar", "--json").json()
        self.assertEqual([(tar["index"], tar["samples"], tar["values"]) for tar in report["tars"]], [("tars/two.idx", 1, 2)])
        self.assertEqual(self.shardctl("cat", "tars", "--key", "b", "-c", "cls").out, b"2")
        self.assertIn("no problem", self.shardctl("validate", "tars").stdout)
        self.assertEqual(len(self.shardctl("ls", "tars").stdout.splitlines()), 3)

    def test_dali_refusals(self):
        self.write("space.tar", tar_of([("a b.jpg", b"")]))
        self.assertIn("white space", self.shardctl("index", "--dali", "space.tar", code=2).stderr)
        self.assertIn("is no tar", self.shardctl("index", "--dali", self.write("file", b""), code=2).stderr)
        os.mkdir(self.path("empty"))
        self.assertIn("holds no tar", self.shardctl("index", "--dali", "empty", code=3).stderr)
        self.shardctl("index", "--dali", "missing.tar", code=3)


class MdsFolders(CliTest):
    def setUp(self):
        super().setUp()
        for folder, texts in {"b": [b"three"], "a": [b"one", b"two"]}.items():
            shard = mds_shard(texts)
            self.write(f"out/{folder}/shard.00000.mds", shard)
            self.write(f"out/{folder}/index.json", json.dumps({"shards": [mds_entry(shard, len(texts))], "version": 2}, sort_keys=True))

    def values(self, path):
        count = self.shardctl("inspect", path, "--json").json()["samples"]
        return [self.shardctl("cat", path, "--sample", i, "-c", "text").out for i in range(count)]

    def test_a_shard_alone_and_folders(self):
        self.assertEqual(self.values("out/a/shard.00000.mds"), [b"one", b"two"])
        os.remove(self.path("out", "a", "index.json"))
        self.assertEqual(self.values("out/a/shard.00000.mds"), [b"one", b"two"])
        run = self.shardctl("ls", "out", code=1)
        self.assertIn("out/a: has MDS shards, but no index.json", run.stderr)

    def test_merging(self):
        self.assertEqual(self.values("out"), [b"one", b"two", b"three"])
        run = self.shardctl("merge", "out/b", "out/a", "-o", "out")
        self.assertTrue(run.stdout.startswith("merged 2 datasets into out: 3 samples in 2 shards"), run.stdout)
        expected = [mds_entry(mds_shard(texts), len(texts), f"{folder}/shard.00000.mds")
                    for folder, texts in (("b", [b"three"]), ("a", [b"one", b"two"]))]
        self.assertEqual(self.read("out", "index.json").decode(), '{"version": 2, "shards": ' + json.dumps(expected, sort_keys=True) + "}")
        self.assertEqual(self.values("out"), [b"three", b"one", b"two"])
        self.assertEqual(self.shardctl("merge", "out/a", "-o", "out", "--json").json()["samples"], 2)
        self.assertIn("does not lie below", self.shardctl("merge", "out/a", "-o", "elsewhere", code=2).stderr)
        os.remove(self.path("out", "a", "shard.00000.mds"))
        self.assertIn("out/a/shard.00000.mds: the shard is in index.json", self.shardctl("merge", "out/a", "-o", "out", code=3).stderr)
