"""Exact transcripts of whole sessions."""
import io
import os
import shutil
import tarfile

from support import CliTest


class GoldenTest(CliTest):
    def test_help(self):
        words = [[], ["pack"], ["plan-pack"], ["index"], ["ls"], ["inspect"], ["view"], ["report"], ["cat"], ["validate"], ["repair"], ["unpack"], ["convert"], ["filter"], ["split"], ["merge"], ["rm"], ["compact"], ["reshard"], ["plan"],
                 ["simulate"], ["bench"], ["cache"], ["uploads"], ["synth"], ["synth", "sa1b"], ["synth", "files"]]
        self.golden("help", [self.shardctl(*verb, "--help") for verb in words])

    def test_pack_files(self):
        self.small_files()
        plain = self.plain_codecs("key", "txt", "json")
        self.golden("pack_files", [
            self.shardctl("pack", "in", "-o", "none", "--dry-run"),
            self.shardctl("pack", "in", "-o", "out", *plain),
            self.shardctl("pack", "in", "-o", "out", *plain, code=2),
            self.shardctl("ls", "out"),
            self.shardctl("validate", "out", "--deep"),
        ])

    def test_list(self):
        self.pack_small_files("out", "--shard-samples", "2")
        self.golden("ls", [
            self.shardctl("ls", "out"),
            self.shardctl("ls", "out", "--offset", "1", "--limit", "2"),
            self.shardctl("ls", "out", "--offset", "5"),
            self.shardctl("ls", "out", "--limit", "0"),
            self.shardctl("ls", "out", "--long"),
            self.shardctl("ls", "out", "--shards"),
            self.shardctl("ls", "out", "--values-xxh3"),
            self.shardctl("ls", "out", "--json", "--limit", "2"),
            self.shardctl("ls", "out", "--json", "--long", "--limit", "1"),
            self.shardctl("ls", "out", "--json", "--shards"),
            self.shardctl("ls", "out", "--json", "--limit", "0"),
        ])

    def test_inspect(self):
        self.pack_small_files("out", "--shard-samples", "2")
        shard = sorted(name for name in os.listdir(self.path("out")) if name.endswith(".shard"))[0]
        self.golden("inspect", [
            self.shardctl("inspect", "out"),
            self.shardctl("inspect", "out", "--json"),
            self.shardctl("inspect", f"out/{shard}"),
            self.shardctl("inspect", "out", "--shard", "1"),
            self.shardctl("inspect", "out", "--shard", "1", "--block", "0"),
            self.shardctl("inspect", "out", "--shard", "1", "--block", "0", "--json"),
            self.shardctl("inspect", "out", "--sample", "2"),
            self.shardctl("inspect", "out", "--key", "sub/date"),
            self.shardctl("inspect", "out", "--key", "sub/date", "--json"),
            self.shardctl("inspect", "out", "--key", "plum", code=1),
            self.shardctl("inspect", "out", "--sample", "5", code=1),
            self.shardctl("inspect", "out", "--shard", "3", code=1),
            self.shardctl("inspect", "out", "--block", "1", code=1),
        ])

    def test_sa1b(self):
        self.small_sa1b()
        columns = ["key", "image_id", "width", "height", "file_name", "masks", "annotation_id", "area", "bbox",
                   "predicted_iou", "stability_score", "crop_box", "point_coords", "source_json"]
        runs = [self.shardctl("pack", "sa1b", "-o", "out", *self.plain_codecs(*columns))]
        runs += [self.shardctl("inspect", "out"), self.shardctl("inspect", "out", "--key", "sa_2"),
                 self.shardctl("inspect", "out", "--key", "sa_2", "--json")]
        for column in ("masks", "bbox", "image_id", "file_name", "predicted_iou", "area"):
            runs.append(self.shardctl("cat", "out", "--sample", "1", "--column", column, "--decode"))
        self.golden("sa1b", runs)

    def test_index_and_merge(self):
        self.pack_small_files("a")
        for part in ("b0", "b1"):
            self.write(f"in-{part}/{part}.txt", f"text of {part}")
            self.shardctl("pack", f"in-{part}", "-o", part, *self.plain_codecs("key", "txt"))
        os.remove(self.path("a", "dataset.segment"))
        self.write("plain.txt", "text")
        self.write("some.tar", "tar")
        shard = next(name for name in os.listdir(self.path("a")) if name.endswith(".shard"))
        self.golden("index", [
            self.shardctl("index", "a"),
            self.shardctl("index", "a", "b0", "--json"),
            self.shardctl("merge", "b0", "b1", "-o", "b"),
            self.shardctl("merge", "b0", "b0", "-o", "c", code=2),
            self.shardctl("merge", "b0", "b1", "-o", "b", code=2),
            self.shardctl("index", f"a/{shard}", code=2),
            self.shardctl("index", "some.tar", code=1),
            self.shardctl("index", "missing", code=3),
        ])

    def test_index_of_tars(self):
        for name, members in {"one": ["a.txt", "a.cls", "b.txt"], "two": ["c.txt", "d.txt", "c.cls"]}.items():
            os.makedirs(self.path("tars"), exist_ok=True)
            with tarfile.open(self.path("tars", name + ".tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
                for i, member in enumerate(members):
                    content = (member * (i + 1)).encode()
                    info = tarfile.TarInfo(member)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        runs = [self.shardctl("ls", "tars", "--long"), self.shardctl("index", "tars/one.tar"),
                self.shardctl("index", "tars", "--json"), self.shardctl("cat", "tars", "--key", "d", "--column", "txt")]
        with open(self.path("tars", "one.tar"), "ab") as tar:
            tar.write(bytes(512))
        runs += [self.shardctl("ls", "tars", code=1), self.shardctl("index", "tars/one.tar", "tars/none.tar", code=3)]
        shutil.copy(self.path("tars", "two.tar"), self.path("cut.tar"))
        os.truncate(self.path("cut.tar"), 1500)
        runs += [self.shardctl("ls", "cut.tar", code=1), self.shardctl("index", "cut.tar", code=1)]
        # A bit of the only page: the tar opens, but nothing in it can be read.
        with open(self.path("tars", "two.tar.shardidx"), "r+b") as index:
            index.seek(400)
            byte = index.read(1)[0]
            index.seek(400)
            index.write(bytes([byte ^ 1]))
        runs += [self.shardctl("ls", "tars/two.tar", code=1),
                 self.shardctl("cat", "tars", "--sample", "0", "--column", "txt"),
                 self.shardctl("cat", "tars", "--sample", "3", "--column", "txt", code=1),
                 self.shardctl("validate", "tars", code=1)]
        self.golden("index_tars", runs)

    def test_unpack(self):
        self.pack_small_files()
        self.golden("unpack", [
            self.shardctl("unpack", "out", "-o", "again"),
            self.shardctl("unpack", "out", "-o", "again", code=None),
            self.shardctl("unpack", "out", "-o", "json", "--json"),
            self.shardctl("unpack", "out", "-o", "few", "--samples", "1:3"),
            self.shardctl("unpack", "out", "-o", "none", "--samples", "5:"),
        ])
        self.assertEqual(self.tree("in"), self.tree("again"))

    def test_convert(self):
        self.small_files()
        self.shardctl("pack", "in", "-o", "out")
        columns = ("--columns", "txt,json")
        self.golden("convert", [
            self.shardctl("convert", "out", "-o", "tars", "--to", "webdataset"),
            self.shardctl("ls", "tars", "--long"),
            self.shardctl("convert", "out", "-o", "mds", "--to", "mds", code=2),
            self.shardctl("convert", "out", "-o", "mds", "--to", "mds", "--lossy", "--shard-samples", "2", "--hash", "xxh64"),
            self.shardctl("ls", "mds"),
            self.shardctl("convert", "out", "-o", "mds", "--to", "mds", code=2),
            self.shardctl("convert", "tars", "-o", "few", "--to", "mds", *columns, "--on-error", "skip", code=4),
            self.shardctl("convert", "out", "--to", "mds", *columns, "--on-error", "skip", "--dry-run", "--json", code=4),
            self.shardctl("convert", "tars", "-o", "again", "--to", "shard", *self.plain_codecs("key", "txt", "json"), "--json"),
            self.shardctl("convert", "tars", "-o", "again", "--to", "shard", *self.plain_codecs("key", "txt", "json"), "--resume"),
            self.shardctl("convert", "tars", "-o", "again", "--to", "shard", "--resume", code=2),
        ])

    def test_synth(self):
        self.golden("synth", [
            self.shardctl("synth", "files", "-o", "f", "--count", "3", "--size", "1KiB"),
            self.shardctl("synth", "files", "-o", "f", "--count", "3", "--size", "1KiB", code=2),
            self.shardctl("synth", "files", "-o", "f", "--count", "3", "--size", "1KiB", "--overwrite", "--json"),
            self.shardctl("synth", "files", "-o", "t", "--count", "1", "--content", "text", "--extension", "txt",
                          "--per-directory", "0", "--size", "100"),
            self.shardctl("synth", "sa1b", "-o", "s", "--width", "64", code=2),
        ])

    def test_plan(self):
        self.pack_small_files("out", "--shard-samples", "2")
        self.shardctl("pack", "in", "-o", "other", *self.plain_codecs("key", "txt", "json"))
        cursor = self.shardctl("plan", "out", "--batch-size", "2", "--steps", "1", "--json").json()["cursor"]
        self.golden("plan", [
            self.shardctl("plan", "out", "--batch-size", "2"),
            self.shardctl("plan", "out", "--batch-size", "2", "--json"),
            self.shardctl("plan", "out", "--batch-size", "2", "--seed", "1", "--epoch", "3", "--remainder", "pad",
                          "--world-size", "2", "--rank", "1"),
            self.shardctl("plan", "out", "--batch-size", "2", "--cursor", cursor, "--json"),
            self.shardctl("plan", "out", "--order", "sequential", "--label", "json", "--from-step", "1"),
            self.shardctl("plan", "out", "other", "--proportion", "3,1", "--epoch-samples", "20", "--steps", "1"),
            self.shardctl("plan", "out", "--cursor", cursor, "--seed", "1", code=2),
            self.shardctl("plan", "out", "--cursor", "{}", code=2),
            self.shardctl("plan", "out", "other", "--repeat", "2", code=2),
            self.shardctl("plan", "out", "--label", "colour", code=1),
        ])

    def test_missing_inputs(self):
        self.write("folder/file", "x")
        self.write("text", "this is no shard, however long it may be" * 10)
        self.write("short", "x")
        self.write("empty", "")
        runs = []
        for path in ("missing", "folder", "text", "short", "empty"):
            for words in (["ls"], ["inspect"], ["cat", "--sample", "0", "--column", "c"], ["validate"]):
                runs.append(self.shardctl(words[0], path, *words[1:], code=None))
            runs.append(self.shardctl("unpack", path, "-o", "out", code=None))
            runs.append(self.shardctl("plan", path, code=None))
            runs.append(self.shardctl("bench", path, code=None))
        runs.append(self.shardctl("pack", "missing", "-o", "out", code=3))
        runs.append(self.shardctl("pack", "folder", "missing", "-o", "out", code=3))
        runs.append(self.shardctl("pack", "--from", "sa1b", "folder", "-o", "out", code=None))
        runs.append(self.shardctl("pack", "--from", "imagefolder", "text", "-o", "out", code=None))
        runs.append(self.shardctl("pack", "folder", "-o", "folder/out", code=2))
        runs.append(self.shardctl("pack", "folder", "-o", "text", code=None))
        self.assertEqual(sorted(os.listdir(self.folder)), ["empty", "folder", "short", "text"])
        for run in runs:
            self.assertNotEqual(run.code, 0, str(run))
        self.golden("missing_inputs", runs)
