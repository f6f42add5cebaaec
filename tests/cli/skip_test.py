"""--on-error skip with damaged input: the lost samples and the messages."""
import io
import os
import shutil
import struct
import subprocess
import tarfile

from support import CliTest, tiny_jpeg


class SkipTest(CliTest):
    def flip(self, name, place, mask=16):
        content = bytearray(self.read(*name.split("/")))
        content[place] ^= mask
        self.write(name, bytes(content))

    def flip_value(self, name, value):
        place = self.read(*name.split("/")).find(value)
        self.assertGreater(place, 0)
        self.flip(name, place + 99)

    def lost(self, run):
        return [(each["position"], each["key"]) for each in run.json()["skipped"]]

    def skip(self, verb, *arguments, code=4):
        return self.shardctl(verb, *arguments, "--on-error", "skip", "--json", code=code)

    # ---- a damaged value costs only its sample ----

    def forty(self):
        self.many_files(count=40)
        self.shardctl("pack", "many", "-o", "shard", "--block-size", "16KiB")

    def check_only_21(self, source):
        for to in ("shard", "webdataset", "mds"):
            self.shardctl("convert", source, "-o", f"fails-{to}", "--to", to, code=1)
            run = self.skip("convert", source, "-o", f"to-{to}", "--to", to)
            self.assertEqual(self.lost(run), [(21, "000021")])
            self.assertIn("skipped sample 21 (000021): ", run.stderr)
            self.assertEqual(run.json()["samples"], 39)
            self.shardctl("unpack", f"to-{to}", "-o", f"files-{to}")
            expected = {name: content for name, content in self.tree("many").items() if name != "000021.bin"}
            self.assertEqual(self.tree(f"files-{to}"), expected)
        self.shardctl("unpack", source, "-o", "files", code=1)
        self.assertFalse(os.path.exists(self.path("files")))
        run = self.skip("unpack", source, "-o", "files")
        self.assertEqual(self.lost(run), [(21, "000021")])
        self.assertEqual((run.json()["samples"], run.json()["files"]), (39, 39))
        self.assertEqual(self.tree("files"), expected)
        run = self.skip("unpack", source, "-o", "some", "--samples", "20:22")
        self.assertEqual((self.lost(run), os.listdir(self.path("some"))), ([(21, "000021")], ["000020.bin"]))

    def test_value_of_a_shard(self):
        self.forty()
        self.flip_value("shard/00000000.shard", self.read("many", "000021.bin"))
        self.check_only_21("shard")

    def test_value_of_an_indexed_tar(self):
        self.forty()
        self.shardctl("convert", "shard", "-o", "tars", "--to", "webdataset")
        self.flip_value("tars/000000.tar", self.read("many", "000021.bin"))
        self.check_only_21("tars")

    def test_sample_of_mds(self):
        self.forty()
        self.shardctl("convert", "shard", "-o", "mds", "--to", "mds")
        sample = struct.unpack_from("<I", self.read("mds", "shard.00000.mds"), 4 + 4 * 21)[0]
        self.flip("mds/shard.00000.mds", sample + 1)  # a length: the key and the values can no longer be separated
        for to in ("shard", "webdataset", "mds"):
            self.assertEqual(self.lost(self.skip("convert", "mds", "-o", f"to-{to}", "--to", to)), [(21, "")])
        self.assertEqual(self.lost(self.skip("unpack", "mds", "-o", "files")), [(21, "")])
        self.assertEqual(len(self.tree("files")), 39)

    def test_large_blocks_are_left_out_whole(self):
        """A block too large for memory is copied value by value. The partial copy of a damaged value is removed."""
        for i in range(3):
            self.write(f"in/{i}.bin", os.urandom(24 << 20))
            self.write(f"in/{i}.aux", b"x" * 100)
        self.shardctl("pack", "in", "-o", "out", "--block-size", "90MiB", "--codec", "bin=none")
        self.flip_value("out/00000000.shard", self.read("in", "1.bin")[-200:])
        self.assertEqual(self.lost(self.skip("unpack", "out", "-o", "files")), [(1, "1")])
        self.assertEqual(sorted(os.listdir(self.path("files"))), ["0.aux", "0.bin", "2.aux", "2.bin"])

    def test_shard_that_cannot_be_opened(self):
        self.many_files(count=12)
        self.shardctl("pack", "many", "-o", "out", "--shard-samples", "4")
        os.truncate(self.path("out", "00000001.shard"), 1000)
        for name, arguments in (("convert", ["--to", "shard"]), ("unpack", [])):
            run = self.skip(name, "out", "-o", name, *arguments)
            self.assertEqual([position for position, _ in self.lost(run)], [4, 5, 6, 7])
            self.assertRegex(run.stderr, r"^shardctl: skipped samples 4 to 7: .*00000001\.shard.*\nshardctl: 4 samples skipped: 4 damaged\n$")
        self.shardctl("convert", "out", "-o", "mds", "--to", "mds", "--shard-samples", "4", "--on-error", "skip", code=4)
        os.truncate(self.path("mds", "shard.00001.mds"), 1000)
        self.assertEqual([p for p, _ in self.lost(self.skip("convert", "mds", "-o", "b", "--to", "shard"))], [4, 5, 6, 7])

    # ---- a tar that was cut off does not stop the others ----

    def tar(self, name, numbers, extensions=("txt", "json")):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        places = []
        with tarfile.open(self.path(name), "w") as tar:
            for number in numbers:
                for extension in extensions:
                    info = tarfile.TarInfo(f"k{number}.{extension}")
                    text = ('{"n": %d}' % number if extension == "json" else "text of %d " % number * 100).encode()
                    info.size = len(text)
                    places.append(tar.offset)
                    tar.addfile(info, io.BytesIO(text))
        return places

    def three_tars(self, cut):
        """Four samples each. `cut` truncates the second tar in its third sample. The third file is empty."""
        self.tar("tars/a.tar", range(4))
        places = self.tar("tars/b.tar", range(4, 8))
        os.truncate(self.path("tars/b.tar"), cut(places))
        self.write("tars/c.tar", b"")
        self.tar("tars/d.tar", range(12, 16))

    KEPT = [0, 1, 2, 3, 4, 5, 12, 13, 14, 15]

    def check_tars(self, run, output, first):
        self.assertEqual(self.lost(run), [(6, first), (7, "c.tar")])
        self.assertRegex(run.stderr, r"b\.tar: .*; 2 samples before it can be read\n")
        self.assertRegex(run.stderr, r"c\.tar: .*; 0 samples before it can be read\n")
        self.assertEqual(run.json()["samples"], len(self.KEPT))
        keys = [line.split()[1] for line in self.shardctl("ls", output).stdout.splitlines()]
        self.assertEqual(keys, [f"k{number}" for number in self.KEPT])

    def test_cut_tars(self):
        # In the data of the sample's first member, in the data of its last, in a header, and between its members.
        for number, cut in enumerate([lambda p: p[4] + 600, lambda p: p[5] + 515, lambda p: p[5] + 100, lambda p: p[5]]):
            with self.subTest(number):
                self.three_tars(cut)
                self.shardctl("convert", "tars", "-o", f"fails{number}", "--to", "shard", code=1)
                for to in ("shard", "webdataset", "mds"):
                    for jobs in (1, 4):
                        run = self.skip("convert", "tars", "-o", f"{to}{number}-{jobs}", "--to", to, "-j", jobs)
                        self.check_tars(run, f"{to}{number}-{jobs}", "k6")
                    one, four = self.tree(f"{to}{number}-1"), self.tree(f"{to}{number}-4")
                    self.assertEqual(one, four)
                run = self.skip("pack", "--from", "webdataset", "tars", "-o", f"pack{number}")
                self.check_tars(run, f"pack{number}", "k6")
                run = self.skip("unpack", "tars", "-o", f"files{number}")
                self.assertEqual([key for _, key in self.lost(run)], ["k6", "c.tar"])
                self.assertEqual(sorted(os.listdir(self.path(f"files{number}"))),
                                 sorted(f"k{n}.{e}" for n in self.KEPT for e in ("txt", "json")))
                tars = [f"tars/{name}.tar" for name in "abcd"]
                self.shardctl("pack", *tars, "-o", f"files-fail{number}", code=None)
                for jobs in (1, 4):
                    run = self.skip("pack", *tars, "-o", f"files-{number}-{jobs}", "-j", jobs)
                    self.check_tars(run, f"files-{number}-{jobs}", "k6")
                self.assertEqual(self.tree(f"files-{number}-1"), self.tree(f"files-{number}-4"))

    # ---- nor does a link, where none is to be followed ----

    def test_symbolic_links(self):
        self.write("in/a.txt", b"a")
        self.write("private.txt", b"private")
        self.write("elsewhere/c.txt", b"c")
        os.symlink("../private.txt", self.path("in/b.txt"))
        run = self.shardctl("pack", "in", "-o", "one")
        self.assertIn("warning: followed 1 symbolic link (in/b.txt); --no-follow refuses it\n", run.stderr)
        os.symlink("../elsewhere", self.path("in/d"))
        run = self.shardctl("pack", "in", "-o", "all")
        self.assertIn("warning: followed 2 symbolic links (in/b.txt, …); --no-follow refuses them\n", run.stderr)
        self.assertEqual(self.shardctl("ls", "all").stdout, "0  a\n1  b\n2  d/c\n")
        run = self.shardctl("pack", "in", "-o", "none", "--no-follow", code=2)
        self.assertIn("in/b.txt: a symbolic link, which is not followed (--no-follow)", run.stderr)
        self.assertFalse(os.path.exists(self.path("none")))
        run = self.shardctl("pack", "in", "-o", "files", "--no-follow", "--on-error", "skip", code=4)
        self.assertEqual(self.shardctl("ls", "files").stdout, "0  a\n")
        self.assertNotIn("warning", run.stderr)
        # A folder of classes that is a link is not a class without images.
        for name in ("classes/cat/a.jpg", "dogs/b.jpg"):
            self.write(name, tiny_jpeg())
        os.symlink("../dogs", self.path("classes/dog"))
        self.shardctl("pack", "--from", "imagefolder", "classes", "-o", "followed")
        run = self.shardctl("pack", "--from", "imagefolder", "classes", "-o", "refused", "--no-follow", code=2)
        self.assertIn("classes/dog", run.stderr)

    # ---- nor does a member that cannot be taken ----

    def odd_tar(self):
        """Samples 0 to 9, and in between a key and an extension that are not UTF-8, an extension with a line feed, a member
        twice, and a sparse one."""
        with tarfile.open(self.path("odd.tar"), "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
            def add(name, text):
                info = tarfile.TarInfo(name)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
            for number in range(10):
                add(f"k{number}.txt", f"text {number}")
                add(f"k{number}.json", "{}")
                if number == 2:
                    add("caf\xe9.txt", "x")
                    add("caf\xe9.json", "{}")
                if number == 3:
                    add("b.txt", "x")
                    add("b.\xe9", "x")
                    add("b.json", "{}")
                if number == 4:
                    add("c.txt", "x")
                    add("c.li\nne", "x")
                if number == 5:
                    for name in ("d.txt", "d.txt", "d.json", "d.only"):
                        add(name, "{}")
                if number == 9:
                    self.hole(tar)
        return [f"k{number}" for number in range(10)]

    def hole(self, tar):
        with open(self.path("s.txt"), "wb") as file:
            file.write(b"x" * 4096)
            file.truncate(1 << 20)
        subprocess.run(["tar", "--sparse", "-cf", self.path("sparse.tar"), "-C", self.folder, "s.txt"], check=True)
        tar.fileobj.write(self.read("sparse.tar")[:512 + 4096])  # a header with the map of the holes, and the data

    def test_members_that_cannot_be_taken(self):
        kept = self.odd_tar()
        lost = ["caf\ufffd", "b", "c", "d", "s"]
        reasons = ["its key is not UTF-8", "a column name is not valid UTF-8", "a column name has a NUL or a line feed",
                   "two members with the extension", "is sparse"]
        for verb, options in (("pack", ["--from", "webdataset"]), ("convert", ["--to", "shard"]),
                              ("convert", ["--to", "webdataset"]), ("unpack", [])):
            with self.subTest(verb, options=options):
                run = self.shardctl(verb, "odd.tar", "-o", "out", *options, code=1)
                self.assertIn("caf", run.stderr)
                self.assertFalse(os.path.exists(self.path("out")))
                for jobs in ("1", "4"):
                    run = self.skip(verb, "odd.tar", "-o", f"out{jobs}", *options, "-j", jobs)
                    self.assertEqual([each["key"] for each in run.json()["skipped"]], lost)
                    for reason in reasons:
                        self.assertIn(reason, run.stderr)
                    self.assertEqual(run.json()["samples"], len(kept))
                self.assertEqual(self.tree("out1"), self.tree("out4"))
                if verb != "unpack":
                    listed = self.shardctl("ls", "out1").stdout.split("\n")
                    self.assertEqual([line.split("  ")[-1] for line in listed if line], kept)
                    columns = [column["name"] for column in self.shardctl("columns", "out1", "--json").json()["columns"]]
                    self.assertEqual(columns, ["key", "txt", "json"])
                for name in ("out1", "out4"):
                    shutil.rmtree(self.path(name))
        self.shardctl("ls", "odd.tar", code=1)
        self.shardctl("validate", "odd.tar", code=1)

    def test_cut_tar_of_its_own_index(self):
        places = self.tar("tars/a.tar", range(4))
        self.shardctl("index", "tars/a.tar")
        os.truncate(self.path("tars/a.tar"), places[5])
        run = self.skip("convert", "tars", "-o", "out", "--to", "shard")
        self.assertEqual(self.lost(run), [(2, "k2")])
        # An index of another tar does not mean that the tar is damaged.
        self.tar("tars/a.tar", range(5))
        self.shardctl("convert", "tars", "-o", "other", "--to", "shard", "--on-error", "skip", code=1)

    def test_tasks_over_lost_samples_make_the_whole(self):
        self.three_tars(lambda p: p[5])
        options = ("tars", "--to", "shard", "--on-error", "skip", "--shard-samples", "2")
        whole = self.shardctl("convert", *options, "-o", "whole", "--json", code=4)
        for part in range(3):
            self.shardctl("convert", *options, "-o", "tasks", "--task", f"{part}/3")
        run = self.shardctl("convert", *options, "-o", "tasks", "--finish", "--json", code=4)
        self.assertEqual(self.lost(run), [(6, "k6"), (7, "c.tar")])
        self.assertEqual(self.lost(whole), self.lost(run))
        self.assertEqual(self.tree("tasks"), self.tree("whole"))
        keys = [line.split()[1] for line in self.shardctl("ls", "tasks").stdout.splitlines()]
        self.assertEqual(keys, [f"k{number}" for number in self.KEPT])

    def test_cut_compressed_tar(self):
        self.tar("tars/a.tar", range(4))
        with tarfile.open(self.path("tars/b.tar.gz"), "w:gz") as tar:
            for number in range(4, 40):
                info = tarfile.TarInfo(f"k{number:02}.bin")
                info.size = 5000
                tar.addfile(info, io.BytesIO(os.urandom(5000)))
        os.truncate(self.path("tars/b.tar.gz"), os.path.getsize(self.path("tars/b.tar.gz")) // 2)
        run = self.skip("convert", "tars", "-o", "out", "--to", "shard")
        (position, key), = self.lost(run)
        self.assertGreater(position, 10)
        self.assertRegex(run.stderr, r"b\.tar\.gz: .*; %d samples before it can be read\n" % (position - 4))
        self.assertEqual(key, f"k{position:02}")
        self.assertEqual(run.json()["samples"], position)

    def test_lost_samples_of_sa1b(self):
        self.small_sa1b(count=9)
        for name, numbers in (("a", (1, 2, 3)), ("b", (4, 5, 6)), ("d", (7, 8, 9))):
            with tarfile.open(self.path(f"{name}.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
                for number in numbers:
                    for extension in ("jpg", "json"):
                        if (number, extension) == (6, "jpg"):
                            cut = tar.offset + 520
                        tar.add(self.path(f"sa1b/sa_{number}.{extension}"), f"./sa_{number}.{extension}")
        os.truncate(self.path("b.tar"), cut)
        self.write("c.tar", b"")
        for jobs in (1, 4):
            run = self.skip("pack", "a.tar", "b.tar", "c.tar", "d.tar", "-o", f"out{jobs}", "-j", jobs)
            self.assertEqual((run.json()["source"], run.json()["samples"]), ("sa1b", 8))
            self.assertEqual(self.lost(run), [(5, "sa_6.jpg"), (6, "c.tar")])
            self.assertRegex(run.stderr, r"b\.tar: .*; 2 samples before it can be read\n")
        self.assertEqual(self.tree("out1"), self.tree("out4"))

    # ---- repair ----

    def test_repair_says_what_to_do_instead(self):
        self.many_files(count=8)
        self.shardctl("pack", "many", "-o", "out")
        for to, shard in (("webdataset", "000000.tar"), ("mds", "shard.00000.mds")):
            self.shardctl("convert", "out", "-o", to, "--to", to)
            for path, what in ((to, "a dataset"), (f"{to}/{shard}", "a shard")):
                run = self.shardctl("repair", path, "-o", "fixed", code=2)
                advice = f"shardctl convert {path} -o OUT --to {to} --on-error skip"
                self.assertEqual(run.stderr, f"shardctl: {path}: is {what} of {to}, which has no blocks to recover: take over the "
                                             f"samples that can be read with {advice}\n")
                self.assertFalse(os.path.exists(self.path("fixed")))
            self.shardctl(*advice.replace("OUT", f"fixed-{to}").split()[1:])
            self.shardctl("unpack", f"fixed-{to}", "-o", f"files-{to}")
            self.assertEqual(self.tree(f"files-{to}"), self.tree("many"))
