"""Tars as other programs write them: names with ./, links, end marks between members, keys that come again."""
import gzip
import io
import json
import os
import random
import shutil
import subprocess
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

    @staticmethod
    def link(name, target, kind=tarfile.LNKTYPE):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info

    def compress(self, name):
        content = self.read(*name.split("/"))
        self.write(name + ".gz", gzip.compress(content))
        os.remove(self.path(name))

    def keys(self, dataset):
        return [entry["key"] for entry in self.shardctl("ls", dataset, "--json").json()["entries"]]

    def ways(self, source):
        """Packed as files, packed as WebDataset, and converted to all containers."""
        self.shardctl("pack", source, "-o", "as-files", "--from", "files")
        self.shardctl("pack", source, "-o", "as-webdataset", "--from", "webdataset")
        for to in ("shard", "mds", "webdataset"):
            self.shardctl("convert", source, "-o", f"to-{to}", "--to", to, *(["--lossy"] if to == "mds" else []))
        return ["as-files", "as-webdataset", "to-shard", "to-mds", "to-webdataset"]

    # ---- patterns ----

    def test_a_pattern_names_several_tars_as_one_dataset(self):
        for i in range(12):
            self.tar(f"d{i % 2}/x-{i:02}.tar", [(f"{i:02}.txt", b"%d" % i)])
        self.tar("d0/deep/er/x-90.tar", [("90.txt", b"90")])
        self.write("d0/x-notes.txt", "no tar")
        even = [f"{i:02}" for i in range(0, 12, 2)]
        odd = [f"{i:02}" for i in range(1, 12, 2)]
        for pattern, keys in (
            ("d0/x-{00..10..2}.tar", even),
            ("d0/x-{10..00..2}.tar", ["10", "08", "06", "04", "02", "00"]),
            ("d0/x-{00,10}.tar", ["00", "10"]),
            ("d{1..0}/x-0[0-3].tar", ["01", "03", "00", "02"]),
            ("d{0,1/}/x-0?.tar".replace("1/", "1"), even[:5] + odd[:5]),
            ("{d1/x-01,d0/x-{02..04..2}}.tar", ["01", "02", "04"]),
            ("d0/x-*", even),
            ("*/x-1*.tar", ["10", "11"]),
            ("**/x-*0.tar", ["90", "00", "10"]),
            ("d0/**", ["90", *even]),
            ("d0/**/er/*.tar", ["90"]),
            (self.path("d0", "x-{00..02..2}.tar"), ["00", "02"]),
            ("{" + ",".join(f"d{i % 2}/x-{i:02}.tar" for i in list(range(12)) * 3) + "}", [f"{i:02}" for i in range(12)] * 3),
        ):
            with self.subTest(pattern[:40]):
                self.assertEqual(self.keys(pattern), keys)
        self.assertEqual(self.shardctl("cat", "d?/*.tar", "--key", "07", "--column", "txt").stdout, "7")
        self.shardctl("validate", "--deep", "d?/*.tar")
        self.shardctl("convert", "d{0,1}/*.tar", "-o", "all", "--to", "shard")
        self.assertEqual(self.keys("all"), even + odd)

    def test_a_pattern_is_no_file_that_is_there(self):
        for name in ("x-{1..2}.tar", "[a].tar", "a,b.tar", "back\\slash*.tar"):
            self.tar(name, [("k.txt", b"here")])
            self.assertEqual(self.keys(name), ["k"])
        self.assertEqual(self.keys("{a\\,b,x-\\{1..2\\}}.tar"), ["k", "k"])
        self.assertEqual(self.keys("x-\\{*.tar"), ["k"])
        os.symlink(".", self.path("loop"))
        self.assertEqual(len(self.keys("**/a,*.tar")), 1)
        for pattern, message in (("y*.tar", "no tar, shard or dataset fits"), ("x-{3..4}.tar", "x-3.tar"), ("{a", "{a"), ("{}", "{}"), ("{1..x}.tar", "1..x"),
                                 ("none/*/x.tar", "no tar, shard or dataset fits")):
            with self.subTest(pattern):
                self.assertIn(message, self.shardctl("ls", pattern, code=3).stderr)
        self.assertIn("more than", self.shardctl("ls", "{0..9999999}.tar", code=3).stderr)
        self.assertIn("more than", self.shardctl("ls", "{a,b}" * 25 + ".tar", code=3).stderr)

    # ---- names ----

    def test_names_with_dot_slash(self):
        """tar -cf x.tar -C folder ."""
        for name, content in (("1.txt", "one"), ("1.json", "{}"), ("2.txt", "two"), ("d/3.txt", "three"), ("d/3.jpg", tiny_jpeg())):
            self.write(f"in/{name}", content)
        subprocess.run(["tar", "--sort=name", "-cf", self.path("x.tar"), "-C", self.path("in"), "."], check=True)
        self.assertEqual(self.keys("x.tar"), ["1", "2", "d/3"])
        self.assertEqual(self.shardctl("cat", "x.tar", "--key", "d/3", "--column", "txt").stdout, "three")
        self.shardctl("validate", "--deep", "x.tar")
        for name in ["x.tar", *self.ways("x.tar")]:
            with self.subTest(name):
                self.assertEqual(self.keys(name), ["1", "2", "d/3"])
                if name == "to-mds":
                    continue  # absent values have become empty ones
                self.shardctl("unpack", name, "-o", f"{name}-back")
                self.assertEqual(self.tree(f"{name}-back"), self.tree("in"))
        self.shardctl("index", "x.tar")
        self.assertEqual(self.keys("x.tar"), ["1", "2", "d/3"])
        self.shardctl("validate", "x.tar")

    def test_what_goes_in_comes_out(self):
        """Random names and values, as files, in tars of several forms, through all containers and back."""
        for seed in range(6):
            with self.subTest(seed=seed):
                chance = random.Random(seed)
                stems = [chance.choice(["", "d/", "d.x/", "a b/"]) + chance.choice(["k", "é", "K", "k-1", "k 2", "%"]) + str(i)
                         for i in range(12)]
                members = []
                for stem in sorted(set(stems)):
                    for ending in chance.sample(["txt", "json", "png", "seg.png", "bin", "cls"], chance.randint(1, 4)):
                        content = {"json": b"[1]", "png": tiny_png(), "seg.png": tiny_png()}.get(ending)
                        members.append((f"{stem}.{ending}", content or chance.randbytes(chance.choice([0, 1, 511, 512, 2000])).hex().encode()))
                for name, content in members:
                    self.write(f"in{seed}/{name}", content)
                prefix = chance.choice(["", "./"])
                form = chance.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
                tar = self.tar(f"x{seed}.tar", [(prefix + name, content) for name, content in members], format=form)
                if chance.random() < 0.5:
                    self.compress(tar)
                    tar += ".gz"
                for name in (tar, f"in{seed}"):
                    self.shardctl("pack", name, "-o", f"{name}-packed", "--from", "files")
                    sources = [f"{name}-packed"]
                    if name == tar:
                        self.shardctl("convert", name, "-o", f"{name}-shard", "--to", "shard")
                        sources += [tar, f"{name}-shard"]
                    for source in sources:
                        self.shardctl("convert", source, "-o", f"{source}-tars", "--to", "webdataset")
                        self.shardctl("convert", f"{source}-tars", "-o", f"{source}-again", "--to", "shard")
                        for each in (source, f"{source}-tars", f"{source}-again"):
                            self.shardctl("validate", "--deep", each)
                            self.shardctl("unpack", each, "-o", f"{each}-back")
                            self.assertEqual(self.tree(f"{each}-back"), self.tree(f"in{seed}"), each)

    def test_torn_samples_are_told(self):
        self.tar("torn/x.tar", [("0.a", b"1"), ("1.a", b"2"), ("0.b", b"3"), ("1.b", b"4")])
        self.tar("torn/y.tar", [("0.a", b"5"), ("0.b", b"6")])  # of another tar: meant
        for words in (["pack", "torn", "-o", "p"], ["convert", "torn", "-o", "c", "--to", "webdataset"],
                      ["pack", "torn", "-o", "q", "-j", "3"]):
            run = self.shardctl(*words, "--json")
            [warning] = run.json()["warnings"]
            self.assertIn("2 samples have a key that an earlier one of the same tar has, which had ended", warning)

    # ---- links and end marks ----

    def linked(self):
        return [("a.bin", b"A" * 3000), ("a.json", b"{}"), self.link("b.bin", "a.bin"), ("b.json", b"[]"),
                ("d/c.json", b"1"), self.link("d/c.bin", "../a.bin", tarfile.SYMTYPE), self.link("e.bin", "./d/c.bin"),
                ("e.json", b"2"), ("f.bin", b"F"), ("f.json", b"3")]

    def check_linked(self, source):
        expected = {f"{key}.bin": b"A" * 3000 for key in ("a", "b", "d/c", "e")} | {"f.bin": b"F"}
        for key, text in (("a", "{}"), ("b", "[]"), ("d/c", "1"), ("e", "2"), ("f", "3")):
            expected[f"{key}.json"] = text
        for name, content in expected.items():
            self.write(f"expected/{name}", content)
        self.shardctl("validate", "--deep", source)
        for io_mode in ("buffered", "mmap", "direct"):
            lines = self.shardctl("ls", source, "--values-xxh3", "--io", io_mode).stdout.splitlines()
            self.assertEqual(len({json.dumps(json.loads(line)["columns"]["bin"]) for line in lines}), 2, io_mode)
        self.assertEqual(self.shardctl("cat", source, "--key", "d/c", "--column", "bin").out, b"A" * 3000)
        for name in [source, *self.ways(source)]:
            self.shardctl("unpack", name, "-o", "back")
            self.assertEqual(self.tree("back"), self.tree("expected"), name)
            shutil.rmtree(self.path("back"))

    def test_links_are_the_files_that_they_lead_to(self):
        self.check_linked(self.tar("x.tar", self.linked()))
        run = self.shardctl("index", "x.tar", code=2)
        self.assertIn("x.tar: has 3 members that are links to earlier ones", run.stderr)

    def test_links_of_a_compressed_tar(self):
        self.compress(self.tar("x.tar", self.linked()))
        self.check_linked("x.tar.gz")

    def test_other_links_are_told(self):
        self.tar("tars/x.tar", [("a.bin", b"A"), self.link("a.txt", "/etc/passwd", tarfile.SYMTYPE),
                                self.link("a.cls", "../out", tarfile.SYMTYPE), self.link("a.x", "b.bin"), ("b.bin", b"B")])
        for words in (["pack", "tars", "-o", "p"], ["convert", "tars", "-o", "c", "--to", "shard"]):
            [warning] = self.shardctl(*words, "--json").json()["warnings"]
            self.assertIn("passed over 3 members that are no files (tars/x.tar: member 'a.txt' at byte 1024, …)", warning)
        self.assertIn("member \"a.txt\" at byte 1024: is a link that leads to no file before it",
                      self.shardctl("validate", "tars", code=1).stderr)
        self.assertIn("is a link that leads to no file before it", self.shardctl("index", "tars/x.tar").stderr)
        self.assertIn("a symbolic link to no file before it", self.shardctl("pack", "tars/x.tar", "-o", "q", "--from", "files",
                                                                            code=2).stderr)

    # ---- tars as folders ----

    def test_a_tar_of_class_folders_is_the_folder_that_it_would_become(self):
        empty = tarfile.TarInfo("./ant/")
        empty.type = tarfile.DIRTYPE
        self.tar("in.tar", [empty, ("./dog/a.jpg", b"older"), ("./dog/a.jpg", tiny_jpeg()), ("dog//b.jpg", tiny_png()), ("/cat/deep/c.jpg", tiny_jpeg()),
                            ("dog/._a.jpg", b"\x00\x05\x16\x07"), ("cat/.hidden.jpg", b"no picture"), self.link("cat/d.jpg", "dog//b.jpg")])
        self.write("in/dog/a.jpg", tiny_jpeg())
        self.write("in/dog/b.jpg", tiny_png())
        self.write("in/cat/deep/c.jpg", tiny_jpeg())
        self.write("in/cat/d.jpg", tiny_png())
        os.mkdir(self.path("in/ant"))
        for words in ([], ["--order", "path", "-j", "3"], ["--exclude", "b.jpg"]):
            for given in ("in", "in.tar"):
                self.shardctl("pack", given, "-o", f"{given}.out", "--from", "imagefolder", *words)
            self.assertEqual(self.dataset("in.tar.out"), self.dataset("in.out"))
            self.assertEqual(self.keys("in.out")[:1], self.keys("in.tar.out")[:1])
            for given in ("in", "in.tar"):
                shutil.rmtree(self.path(f"{given}.out"))
        self.shardctl("pack", "in", "-o", "whole", "--from", "imagefolder", "--shard-samples", "2")
        self.shardctl("plan-pack", "in.tar", "-o", "tasks", "--from", "imagefolder", "--tasks", "2", "--shard-samples", "2")
        for task in ("1/2", "0/2"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), self.dataset("whole"))

    def test_tars_that_are_no_folders(self):
        picture = ("cat/a.jpg", tiny_jpeg())
        whole = self.read(self.tar("whole.tar", [picture]))
        self.write("cut.tar", whole[:600])
        self.write("more.tar", whole + b"not a tar" * 100)
        self.write("unnamed", whole)
        self.tar("out.tar", [picture, ("cat/../../b.jpg", tiny_jpeg())])
        self.tar("link.tar", [picture, self.link("cat/b.jpg", "/etc/passwd", tarfile.SYMTYPE)])
        self.tar("both.tar", [picture, ("cat", b"a file")])
        with open(self.path("holes"), "wb") as file:
            file.truncate(1 << 20)
        subprocess.run(["tar", "--sparse", "-C", self.folder, "-cf", self.path("sparse.tar"), "holes"], check=True)
        for name, code, said in (("cut.tar", 1, "cut.tar: "), ("unnamed", 2, "unnamed: neither a directory nor a tar (*.tar) or zip (*.zip)"),
                                 ("more.tar", 2, "behind the end mark there is more, which is no tar and is not read: extract it"),
                                 ("out.tar", 2, "out.tar: member 'cat/../../b.jpg' has a name that leads out of the tar: extract it"),
                                 ("both.tar", 2, "both.tar: has two members of the name 'cat'; extract it and give the folder"),
                                 ("link.tar", 2, "link.tar/cat/b.jpg: "), ("sparse.tar", 3, "sparse.tar: member 'holes': a sparse member of 1048576 bytes")):
            with self.subTest(name):
                self.assertIn(said, self.shardctl("pack", name, "-o", "none", "--from", "imagefolder", code=code).stderr)

    def test_tars_that_were_joined(self):
        for ending in ("", ".gz"):
            one = self.tar("one.tar", [(f"{i}.txt", b"x" * i) for i in range(30)])
            two = self.tar("two.tar", [(f"{i}.txt", b"y" * i) for i in range(30, 50)], format=tarfile.PAX_FORMAT)
            if ending:
                self.compress(one)
                self.compress(two)
            joined = f"j{ending or '.plain'}/x.tar{ending}"
            self.write(joined, self.read(one + ending) + self.read(two + ending))
            with self.subTest(joined):
                keys = [str(i) for i in range(50)]
                self.assertEqual(self.keys(joined), keys)
                run = self.shardctl("validate", "--deep", joined, code=1)
                self.assertIn("member \"30.txt\" at byte", run.stderr)
                self.assertIn("an end mark lies before it", run.stderr)
                for number, words in enumerate((["pack", joined, "--from", "files"], ["pack", joined, "--from", "webdataset"],
                                                ["convert", joined, "--to", "shard"])):
                    out = f"out{number}{ending}"
                    [warning] = self.shardctl(*words, "-o", out, "--json").json()["warnings"]
                    self.assertIn("member '30.txt'", warning)
                    self.assertIn("an end mark lies before it", warning)
                    self.assertEqual(self.keys(out), keys)

    def test_what_is_behind_a_tar_and_is_none_is_told(self):
        one = self.read(self.tar("1.tar", [("1.txt", b"1")]))
        for name, content in (("whole", one + b"\0" * 700), ("more", one + b"\0" * 2048 + b"not a tar" * 100),
                              ("cut", one + self.read(self.tar("2.tar", [("2.txt", b"2")]))[:300]),
                              ("lone", one[:1024] + b"\0" * 512 + b"not a tar" * 100)):
            self.write(f"{name}.tar", content)
            for number, words in enumerate((["convert", "--to", "shard"], ["pack", "--from", "files"], ["pack", "--from", "webdataset"])):
                out = f"{name}{number}"
                warnings = self.shardctl(*words, f"{name}.tar", "-o", out, "--json").json()["warnings"]
                self.assertEqual(warnings, [] if name == "whole" else [
                    f"{name}.tar: at byte 1024: behind the end mark there is more, which is no tar and is not read"])
                self.assertEqual(self.keys(out), ["1"])
            self.assertEqual(self.keys(f"{name}.tar"), ["1"])
            self.shardctl("validate", f"{name}.tar", code=0 if name == "whole" else 1)

    def test_indexes_of_other_programs_do_not_hide_members(self):
        self.tar("links.tar", self.linked())
        self.write("joined.tar", self.read(self.tar("1.tar", [("1.txt", b"1")])) + self.read(self.tar("2.tar", [("2.txt", b"2")])))
        for name, dali in (("links.tar", "member 'b.bin' at byte 4608: is a link, which DALI leaves out"),
                           ("joined.tar", "member '2.txt' at byte 1024: lies behind an end mark, where DALI stops")):
            self.assertIn(dali, self.shardctl("index", "--dali", name, code=2).stderr)
        # What wds2idx makes of it is not read.
        self.write("joined.idx", "v1.2 1\ntxt 512 1 1.txt\n")
        self.assertEqual(len(self.shardctl("ls", "joined.tar").stdout.splitlines()), 2)

    # ---- keys that come again ----

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
                self.assertIn("give the files of each shard a folder (--by-shard), or skip errors (--on-error skip), which leaves the later sample out",
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

    # ---- absent values in MDS ----

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

    def test_frames_that_are_skipped_may_stand_first(self):
        """As pzstd writes."""
        import zstandard

        self.tar("plain.tar", [("a.txt", b"a"), ("b.txt", b"b")])
        skipped = bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"size" + bytes.fromhex("5f2a4d18") + bytes(4)
        content = self.read("plain.tar")
        frames = [skipped + zstandard.ZstdCompressor().compress(part) for part in (content[:700], content[700:])]
        self.write("frames.tar.zst", b"".join(frames))
        expected = self.shardctl("ls", "plain.tar", "--values-xxh3").stdout
        self.assertEqual(self.shardctl("ls", "frames.tar.zst", "--values-xxh3").stdout, expected)
        self.shardctl("validate", "frames.tar.zst")
        self.shardctl("pack", "frames.tar.zst", "-o", "out")
        self.assertEqual([line.split()[-1] for line in self.shardctl("ls", "out").stdout.splitlines()], ["a", "b"])
        # Skipped frames without end, and in front of what is no archive.
        self.write("endless.tar.zst", (bytes.fromhex("502a4d18") + bytes(4)) * 5000)
        self.write("long.tar.zst", bytes.fromhex("502a4d18ffffffff"))
        self.write("other.tar.zst", skipped + content)
        for name in ("endless.tar.zst", "long.tar.zst", "other.tar.zst"):
            self.shardctl("ls", name, code=1)

    def test_other_files_are_named(self):
        for magic, what in ((gzip.compress(b"x"), "compressed by gzip"), (b"PK\3\4", "a zip: shardctl pack"), (b"PAR1", "Parquet"), (b"\x28\xb5\x2f\xfd", "zstd")):
            self.write("data", magic + bytes(100))
            for verb in ("ls", "inspect", "validate"):
                self.assertIn("this is not a shard, but a", self.shardctl(verb, "data", code=1).stderr)
                self.assertIn(what, self.shardctl(verb, "data", code=1).stderr)
