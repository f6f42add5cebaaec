"""What pack takes: files chosen by patterns or a list, a number of samples, and zips in place of folders."""
import os
import stat
import struct
import subprocess
import tarfile
import unittest
import zipfile

from support import CliTest, STEP, tiny_jpeg, tiny_png

FILES = {"a/b/one.jpg": tiny_jpeg(), "a/b/one.json": b"{}", "a/two.jpg": tiny_jpeg(16, 8), "a/two.txt": b"two", "c/three.txt": b"3",
         "c/drafts/four.txt": b"4", "five.txt": b"5", "log": b"l"}


class Base(CliTest):
    def setUp(self):
        super().setUp()
        for name, content in FILES.items():
            self.write(f"in/{name}", content)

    def taken(self, *options, source="in", **keywords):
        """The names of the files that a dataset made with these options gives back."""
        self.shardctl("pack", source, "-o", "out", "--from", "files", *options, **keywords)
        self.shardctl("unpack", "out", "-o", "back")
        found = set(self.tree("back"))
        for name in found:
            self.assertEqual(self.read("back", name), FILES[name])
        for name in ("out", "back"):
            subprocess.run(["rm", "-r", self.path(name)], check=True)
        return found

    def tar(self, name="in.tar"):
        with tarfile.open(self.path(name), "w") as tar:
            tar.add(self.path("in"), ".")
        return name

    def zip(self, name="in.zip", method=zipfile.ZIP_DEFLATED, files=None):
        with zipfile.ZipFile(self.path(name), "w", method) as file:
            for member, content in (files or FILES).items():
                file.writestr(member, content)
        return name


class ChooseTest(Base):
    def test_patterns_choose_as_in_gitignore(self):
        jpg, txt = {"a/b/one.jpg", "a/two.jpg"}, {"a/two.txt", "c/three.txt", "c/drafts/four.txt", "five.txt"}
        of_a = {name for name in FILES if name.startswith("a/")}
        cases = [
            (["--include", "*.jpg"], jpg),
            (["--include", "*.jpg", "--include", "*.txt"], jpg | txt),
            (["--include", "*.jpg", "--include", "*.txt", "--exclude", "two.*"], (jpg | txt) - {"a/two.jpg", "a/two.txt"}),
            (["--exclude", "*.txt"], set(FILES) - txt),
            (["--include", "a/"], of_a), (["--include", "/a"], of_a), (["--include", "a"], of_a),
            (["--include", "b/"], {"a/b/one.jpg", "a/b/one.json"}), (["--include", "/a/*.jpg"], {"a/two.jpg"}),
            (["--include", "a/**/*.jpg"], jpg), (["--include", "**/*.jpg"], jpg), (["--include", "a/**"], of_a),
            (["--exclude", "drafts/"], set(FILES) - {"c/drafts/four.txt"}),
            (["--exclude", "log/"], set(FILES)), (["--exclude", "log"], set(FILES) - {"log"}),
            (["--exclude", "/*.txt"], set(FILES) - {"five.txt"}), (["--include", "[af]*.txt"], {"five.txt", "c/drafts/four.txt"}),
            (["--include", "t?o.*"], {"a/two.jpg", "a/two.txt"}), (["--include", "*", "--exclude", "*.j*"], set(FILES) - jpg - {"a/b/one.json"}),
        ]
        archives = self.tar(), self.zip()
        for number, (options, expected) in enumerate(cases):
            for source in ("in", *(archives if number % STEP == 0 else ())):
                with self.subTest(options=options, source=source):
                    self.assertEqual(self.taken(*options, source=source), expected)

    def test_patterns_that_leave_nothing_or_mean_nothing_are_refused(self):
        self.assertIn("in: --include and --exclude leave no file of it; --allow-empty packs no samples",
                      self.shardctl("pack", "in", "-o", "out", "--include", "*.png", code=2).stderr)
        self.assertIn("--include: an empty pattern", self.shardctl("pack", "in", "-o", "out", "--include", "/", code=2).stderr)
        self.assertIn("exclude wins over include", self.shardctl("pack", "in", "-o", "out", "--exclude", "!a", code=2).stderr)
        os.makedirs(self.path("tars"))
        self.tar("tars/in.tar")
        self.assertIn("--include and --exclude choose files", self.shardctl("pack", "tars", "-o", "out", "--include", "*.tar", code=2).stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_warning_counts_what_was_left_out_and_auto_looks_at_the_rest(self):
        for name in ("cat/1.png", "dog/2.png"):
            self.write(f"photos/{name}", tiny_png())
        self.write("photos/dog/list.csv", b"a,b\n")
        run = self.shardctl("pack", "photos", "-o", "out", "--exclude", "*.csv")
        self.assertIn("1 file or folder was left out by --include and --exclude", run.stderr)
        self.assertIn("from imagefolder", run.stdout)

    def test_resuming_and_tasks_keep_the_choice(self):
        expected = {"a/b/one.jpg", "a/two.jpg"}
        for source in ("in", self.tar(), self.zip()):
            with self.subTest(source=source):
                self.shardctl("plan-pack", source, "-o", "out", "--tasks", "2", "--from", "files", "--include", "*.jpg")
                for task in ("0/2", "1/2"):
                    self.shardctl("pack", "-o", "out", "--task", task)
                self.shardctl("pack", "-o", "out", "--finish")
                self.shardctl("unpack", "out", "-o", "back")
                self.assertEqual(set(self.tree("back")), expected)
                self.shardctl("pack", source, "-o", "whole", "--from", "files", "--include", "*.jpg")
                self.assertEqual(self.read("out", "00000000.shard"), self.read("whole", "00000000.shard"))
                for name in ("out", "back", "whole"):
                    subprocess.run(["rm", "-r", self.path(name)], check=True)
        self.shardctl("pack", "in", "-o", "out", "--from", "files", "--include", "*.jpg", "--resume")
        self.shardctl("pack", "in", "-o", "out", "--from", "files", "--include", "*.jpg", "--resume")
        self.shardctl("pack", "in", "-o", "out", "--from", "files", "--include", "*.txt", "--resume", code=2)

    def test_files_of_a_list_are_packed_in_its_order(self):
        order = ["c/three.txt", "./a/two.txt", "a/two.jpg", "a/b/one.jpg", "five.txt"]
        for source in ("in", self.zip()):
            for end, options in (("\n", []), ("\r\n", []), ("\0", ["-0"])):
                with self.subTest(source=source, end=end):
                    text = end.join(order) + end
                    self.write("list", text.encode())
                    self.assertEqual(self.taken("--files-from", "list", *options, source=source),
                                     {name.removeprefix("./") for name in order})
                    with open(self.path("list"), "rb") as listing:
                        self.shardctl("pack", source, "-o", "out", "--files-from", "-", *options, stdin=listing)
                    listed = self.shardctl("ls", "out").stdout.split("\n")
                    self.assertEqual([line.split()[-1] for line in listed if line], ["c/three", "a/two", "a/b/one", "five"])
                    subprocess.run(["rm", "-r", self.path("out")], check=True)

    def test_a_list_in_tasks_and_of_class_folders(self):
        for name in ("cat/1.png", "dog/2.png", "dog/3.png"):
            self.write(f"photos/{name}", tiny_png())
        self.write("list", b"dog/3.png\ncat/1.png\n")
        self.shardctl("pack", "photos", "-o", "out", "--from", "imagefolder", "--files-from", "list")
        rows = self.shardctl("ls", "out").stdout
        self.assertEqual([line.split()[-1] for line in rows.split("\n") if line], ["dog/3.png", "cat/1.png"])
        self.shardctl("plan-pack", "photos", "-o", "parts", "--tasks", "1", "--from", "imagefolder", "--files-from", "list", "--shard-samples", "1")
        self.shardctl("pack", "-o", "parts", "--task", "0/1")
        self.shardctl("pack", "-o", "parts", "--finish")
        self.assertEqual(self.shardctl("ls", "parts").stdout, self.shardctl("ls", "out").stdout)

    def test_names_in_a_list_that_are_none(self):
        cases = [("/etc/passwd", 2, "must be relative to the input"), ("a/../../x", 2, "leads out of the input"), ("a/", 2, "is none of a file"),
                 ("missing.txt", 3, "missing.txt")]
        for name, code, message in cases:
            self.write("list", b"five.txt\n" + name.encode() + b"\n")
            run = self.shardctl("pack", "in", "-o", "out", "--files-from", "list", code=code)
            self.assertIn(message, run.stderr)
        run = self.shardctl("pack", "in", "-o", "out", "--files-from", "list", "--on-error", "skip", code=4)
        self.assertIn("missing.txt", run.stderr)
        self.assertIn("packed 1 sample", run.stdout)
        self.shardctl("pack", "in", "c", "-o", "new", "--files-from", "list", code=2)
        self.shardctl("pack", "in", "-o", "new", "--files-from", "list", "--include", "a", code=2)
        self.shardctl("pack", "in", "-o", "new", "--null", code=2)
        self.shardctl("pack", "in", "-o", "new", "--files-from", "no list", code=3)
        self.write("list", b"five.txt\nlog\nfive.txt\n")
        self.assertIn("occurs twice", self.shardctl("pack", "in", "-o", "new", "--files-from", "list", code=2).stderr)

    def test_limit_stops_after_so_many_samples(self):
        os.makedirs(self.path("tars"))
        self.tar("tars/in.tar")
        # WebDataset passes over the name without a dot.
        for source, most in (("in", 6), (self.tar(), 6), (self.zip(), 6), ("tars", 5)):
            for limit in (1, 3, 5, 6, 100)[::STEP]:
                expected = min(limit, most)
                with self.subTest(source=source, limit=limit):
                    self.shardctl("pack", source, "-o", "out", "--limit", limit)
                    self.assertEqual(self.shardctl("inspect", "out", "--json").json()["samples"], expected)
                    dry = self.shardctl("pack", source, "--dry-run", "--limit", limit, "--json").json()
                    self.assertEqual(dry["samples"], expected)
                    subprocess.run(["rm", "-r", self.path("out")], check=True)
        self.shardctl("pack", "in", "-o", "out", "--limit", "1", "--resume", code=2)
        self.shardctl("pack", "in", "-o", "out", "--limit", "0", code=2)

    def test_what_cannot_be_read_names_the_way_on_and_is_skipped(self):
        os.symlink("nowhere", self.path("in/lost.txt"))
        run = self.shardctl("pack", "in", "-o", "out", code=3)
        self.assertIn("lost.txt: a symbolic link to a file that does not exist; --on-error skip leaves the sample out", run.stderr)
        run = self.shardctl("pack", "in", "-o", "out", "--on-error", "skip", code=4)
        self.assertIn("packed 6 samples", run.stdout)
        self.assertIn("lost.txt", run.stderr)
        self.shardctl("pack", "in", "-o", "other", "--exclude", "lost.*")

    @unittest.skipIf(os.geteuid() == 0, "root may list every folder")
    def test_a_folder_that_may_not_be_listed_is_a_sample_that_fails(self):
        self.check_forbidden({})

    @unittest.skipUnless(os.geteuid() == 0, "only root may become somebody else")
    def test_a_folder_that_may_not_be_listed_is_a_sample_that_fails_for_others(self):
        os.chmod(self.folder, 0o777)
        self.check_forbidden({"user": 65534, "group": 65534, "extra_groups": []})

    def check_forbidden(self, who):
        self.write("in/lost+found/x.txt", b"x")
        os.chmod(self.path("in/lost+found"), 0)
        self.addCleanup(os.chmod, self.path("in/lost+found"), 0o700)
        run = self.shardctl("pack", "in", "-o", "out", code=3, **who)
        self.assertIn("in/lost+found: the folder may not be listed; --exclude leaves it out, --on-error skip goes on", run.stderr)
        run = self.shardctl("pack", "in", "-o", "out", "--on-error", "skip", code=4, **who)
        self.assertIn("packed 6 samples", run.stdout)
        self.assertIn("1 sample skipped: 1 forbidden", run.stderr)
        self.shardctl("pack", "in", "-o", "other", "--exclude", "lost+found/", **who)
        self.shardctl("plan-pack", "in", "-o", "tasks", "--tasks", "1", "--on-error", "skip", **who)
        self.assertIn("1 sample skipped: 1 forbidden", self.shardctl("pack", "-o", "tasks", "--task", "0/1", **who).stderr)
        self.shardctl("pack", "-o", "tasks", "--finish", code=4, **who)


class ZipTest(Base):
    def test_a_zip_is_packed_as_the_folder_is(self):
        self.shardctl("pack", "in", "-o", "folder", "--from", "files")
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for jobs in (1, 3):
                with self.subTest(method=method, jobs=jobs):
                    self.shardctl("pack", self.zip(method=method), "-o", "out", "--from", "files", "-j", jobs)
                    self.assertEqual(self.read("out", "00000000.shard"), self.read("folder", "00000000.shard"))
                    subprocess.run(["rm", "-r", self.path("out")], check=True)

    def test_kinds_are_found_in_zips(self):
        photos = {"cat/1.png": tiny_png(), "dog/2.jpg": tiny_jpeg(), "__MACOSX/cat/._1.png": b"\0\5\26\7", "cat/.DS_Store": b"x"}
        run = self.shardctl("pack", self.zip("photos.zip", files=photos), "-o", "out")
        self.assertIn("packed 2 samples", run.stdout)
        self.assertIn("from imagefolder", run.stdout)
        self.small_sa1b("sa1b", count=3)
        pairs = {name: self.read("sa1b", name) for name in sorted(os.listdir(self.path("sa1b")))}
        self.assertIn("from sa1b", self.shardctl("pack", self.zip("pairs.zip", files=pairs), "-o", "out2").stdout)
        self.shardctl("pack", "sa1b", "-o", "plain")
        self.assertEqual(self.read("out2", "00000000.shard"), self.read("plain", "00000000.shard"))
        # Tars in a zip are read there, too.
        tar = self.read(self.tar())
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            run = self.shardctl("pack", self.zip(f"tars{method}.zip", method, {"1.tar": tar, "2.tar": tar}), "-o", f"tars{method}")
            self.assertIn("packed 10 samples", run.stdout)
            self.assertIn("from webdataset", run.stdout)

    def test_large_members_are_streamed(self):
        large = {"large.bin": os.urandom(1 << 20) * 20, "zeros.bin": bytes(20 << 20), "small.txt": b"s"}
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.shardctl("pack", self.zip(f"{method}.zip", method, large), "-o", f"out{method}")
            self.shardctl("unpack", f"out{method}", "-o", f"back{method}")
            self.assertEqual({name: self.read(f"back{method}", name) for name in large}, large)

    def test_names_are_utf_8_or_cp437(self):
        # As zipfile writes them, and without the mark, as macOS does.
        files = {"größe/ä.txt": b"1", "日本.txt": b"2"}
        self.zip("utf8.zip", files=files)
        self.write("unmarked.zip", self.without_utf8_flag(self.read("utf8.zip")))
        for name in ("utf8.zip", "unmarked.zip"):
            self.shardctl("pack", name, "-o", f"{name}.out")
            self.shardctl("unpack", f"{name}.out", "-o", f"{name}.back")
            self.assertEqual(set(self.tree(f"{name}.back")), set(files))
        self.zip("plain.zip", files={"gr__e.txt": b"3"})
        self.write("old.zip", self.read("plain.zip").replace(b"gr__e", "größe".encode("cp437")))
        self.shardctl("pack", "old.zip", "-o", "old")
        self.assertIn("größe", self.shardctl("ls", "old").stdout)

    def test_backslashes_of_windows_divide_names(self):
        for system, names in ((0, {"a/b/c.txt", "d.txt"}), (3, {"a\\b\\c.txt", "d.txt"})):
            with zipfile.ZipFile(self.path("in.zip"), "w") as file:
                for name in ("a\\b\\c.txt", "d.txt"):
                    info = zipfile.ZipInfo(name)
                    info.create_system = system
                    file.writestr(info, name)
            self.shardctl("pack", "in.zip", "-o", f"out{system}")
            self.shardctl("unpack", f"out{system}", "-o", f"back{system}")
            self.assertEqual(set(self.tree(f"back{system}")), names)
        with zipfile.ZipFile(self.path("out.zip"), "w") as file:
            info = zipfile.ZipInfo("..\\evil.txt")
            info.create_system = 0
            file.writestr(info, "x")
        self.assertIn("leads out of the zip", self.shardctl("pack", "out.zip", "-o", "new", code=2).stderr)

    @staticmethod
    def without_utf8_flag(content):
        out = bytearray(content)
        for signature, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            at = content.find(signature)
            while at >= 0:
                flags, = struct.unpack_from("<H", out, at + place)
                struct.pack_into("<H", out, at + place, flags & ~0x800)
                at = content.find(signature, at + 1)
        return bytes(out)

    def test_zip64_links_comments_and_empty_zips(self):
        with zipfile.ZipFile(self.path("odd.zip"), "w") as file:
            file.comment = b"c" * 60000
            with file.open(zipfile.ZipInfo("a/big.txt"), "w", force_zip64=True) as member:
                member.write(b"big")
            link = zipfile.ZipInfo("b/link.txt")
            link.create_system = 3
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(link, "../a/big.txt")
            file.writestr("empty/", b"")
        self.shardctl("pack", "odd.zip", "-o", "out", "--from", "files")
        self.shardctl("unpack", "out", "-o", "back")
        self.assertEqual({name: self.read("back", name) for name in self.tree("back")}, {"a/big.txt": b"big", "b/link.txt": b"big"})
        self.assertIn("a symbolic link, which is not followed", self.shardctl("pack", "odd.zip", "-o", "new", "--from", "files", "--no-follow", code=2).stderr)
        with zipfile.ZipFile(self.path("empty.zip"), "w"):
            pass
        self.assertIn("there are no files in it", self.shardctl("pack", "empty.zip", "-o", "new", code=2).stderr)
        with zipfile.ZipFile(self.path("dangling.zip"), "w") as file:
            file.writestr(link, "../../a/big.txt")
        self.shardctl("pack", "dangling.zip", "-o", "new", code=3)

    def test_zips_that_cannot_be_read_are_refused(self):
        self.zip()
        content = self.read("in.zip")
        at = content.find(b"PK\1\2")
        encrypted = bytearray(content)
        encrypted[at + 8] |= 1
        method = bytearray(content)
        method[at + 10:at + 12] = struct.pack("<H", 9)
        cases = [
            (bytes(encrypted), 2, "is encrypted: unzip it with its password and pack the folder"),
            (bytes(method), 2, "is compressed by another method than deflate: unzip it and pack the folder"),
            (content[:len(content) // 2], 1, "has no central directory: it was cut off or damaged"),
            (b"no zip", 2, "neither a directory nor a tar or zip"),
        ]
        for i, (bad, code, message) in enumerate(cases):
            self.write("bad.zip", bad)
            with self.subTest(case=i):
                self.assertIn(message, self.shardctl("pack", "bad.zip", "-o", "out", "--from", "files", code=code).stderr)
        with zipfile.ZipFile(self.path("out.zip"), "w") as file:
            file.writestr("../x.txt", b"x")
        self.assertIn("leads out of the zip", self.shardctl("pack", "out.zip", "-o", "out", code=2).stderr)
        self.zip("twice.zip", files={"a.txt": b"1", "b.txt": b"2"})
        self.write("twice.zip", self.read("twice.zip").replace(b"b.txt", b"a.txt"))
        self.assertIn("has two members of the name 'a.txt'", self.shardctl("pack", "twice.zip", "-o", "out", code=2).stderr)

    def test_a_flipped_byte_is_noticed_or_harmless(self):
        small = {"a.txt": b"some text, " * 5, "b.json": b'{"b": 1}'}
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.zip("small.zip", method, small)
            content = self.read("small.zip")
            for at in range(0, len(content), 3 * STEP):
                bad = bytearray(content)
                bad[at] ^= 0x41
                self.write("bad.zip", bytes(bad))
                run = self.shardctl("pack", "bad.zip", "-o", "out", "--from", "files", code=None)
                self.assertIn(run.code, (0, 1, 2, 3), at)
                if run.code == 0:
                    self.shardctl("unpack", "out", "-o", "back")
                    found = {name: self.read("back", name) for name in self.tree("back")}
                    # A name has no checksum; what a member holds does.
                    self.assertEqual(sorted(found.values()), sorted(small.values()), at)
                    subprocess.run(["rm", "-r", self.path("out"), self.path("back")], check=True)

