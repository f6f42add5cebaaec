"""Names of files that are not UTF-8: packed as text in a given encoding or escaped, and given back by unpack."""
import io
import json
import os
import subprocess
import tarfile
import zipfile

from support import CliTest, tiny_jpeg

# 联通 in GBK is UTF-8 by chance; the second byte of 丂 (81 40) and of 乗 (81 5c) are ASCII.
CHINESE = ["图片/一.txt", "图片/二.标签.txt", "联通.txt", "丂乗.txt", "plain.txt"]


class NamesTest(CliTest):
    def write_bytes(self, folder, name, content):
        path = os.path.join(os.fsencode(self.path(folder)), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def tree_bytes(self, name):
        root = os.fsencode(self.path(name))
        found = {}
        for folder, _, files in os.walk(root):
            for file in files:
                path = os.path.join(folder, file)
                with open(path, "rb") as opened:
                    found[os.path.relpath(path, root)] = opened.read()
        return found

    def encoded(self, encoding, names=CHINESE):
        files = {name.encode(encoding): name.encode() for name in names}
        for name, content in files.items():
            self.write_bytes("in", name, content)
        return files

    def tar(self, name, files, **options):
        with tarfile.open(self.path(name), "w", errors="surrogateescape", **options) as tar:
            for member, content in files.items():
                info = tarfile.TarInfo(member.decode("utf-8", "surrogateescape"))
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

    def names(self, dataset):
        """What ls lists, and the files that unpack writes."""
        self.shardctl("unpack", dataset, "-o", "back", "--by-shard")
        back = {name.split(b"/", 1)[1]: content for name, content in self.tree_bytes("back").items()}
        subprocess.run(["rm", "-r", self.path("back")], check=True)
        listed = self.shardctl("ls", dataset).stdout
        return listed, back

    def test_encodings_come_back_byte_by_byte(self):
        for encoding, names in (("gbk", CHINESE), ("euc-jp", ["日本/一.txt", "plain.txt"]), ("koi8-r", ["Москва.txt"]), ("latin1", ["größe/é.ß"]),
                                ("shift_jis", ["表/ソ.txt", "a\\b/日~.txt"]), ("gb18030", ["图/𠀀.txt"])):
            with self.subTest(encoding=encoding):
                files = self.encoded(encoding, names)
                self.shardctl("pack", "in", "-o", "out", "--names", encoding, "--group-by", "last-dot")
                listed, back = self.names("out")
                self.assertEqual(back, files)
                for name in names:
                    if "~" in name:
                        continue  # an overline in this encoding
                    self.assertIn(name.rsplit(".", 1)[0], listed)
                self.assertEqual(self.shardctl("inspect", "out", "--json").json()["metadata"]["shardkit.names"], encoding)
                self.shardctl("validate", "--deep", "out")
                self.tar("in.tar", files, format=tarfile.GNU_FORMAT)
                self.shardctl("pack", "in.tar", "-o", "tarred", "--names", encoding, "--group-by", "last-dot")
                self.assertEqual(self.names("tarred")[1], files)
                subprocess.run(["rm", "-r", self.path("tarred")], check=True)
                subprocess.run(["rm", "-r", self.path("out"), self.path("in")], check=True)

    def test_folders_tars_and_zips_agree(self):
        files = self.encoded("gbk")
        self.tar("old.tar", files, format=tarfile.GNU_FORMAT)
        self.tar("raw.tar.gz", files, format=tarfile.USTAR_FORMAT)
        self.tar("pax.tar", {name.decode("gbk").encode(): content for name, content in files.items()}, format=tarfile.PAX_FORMAT)
        with zipfile.ZipFile(self.path("new.zip"), "w") as file:
            for member, content in files.items():
                file.writestr(member.decode("gbk"), content)
        expected = sorted(CHINESE)
        for source in ("in", "old.tar", "raw.tar.gz", "pax.tar", "new.zip"):
            with self.subTest(source=source):
                self.shardctl("pack", source, "-o", "out", "--names", "gbk", "--group-by", "none")
                listed, back = self.names("out")
                self.assertEqual(back, files)
                self.assertEqual(sorted(name for name in expected if name in listed), expected)
                subprocess.run(["rm", "-r", self.path("out")], check=True)

    def test_zips_without_the_mark(self):
        name = "图片.txt".encode("gbk")
        with zipfile.ZipFile(self.path("plain.zip"), "w") as file:
            file.writestr("x" * (len(name) - 4) + ".txt", b"1")
        self.write("old.zip", self.read("plain.zip").replace(b"x" * (len(name) - 4), name[:-4]))
        self.shardctl("pack", "old.zip", "-o", "out", "--names", "gbk")
        listed, back = self.names("out")
        self.assertIn("图片", listed)
        self.assertEqual(back, {name: b"1"})

    def test_escape_keeps_every_byte(self):
        files = {bytes([0x80 + i % 0x80, 0x41 + i % 26]) + b"%d.t%%xt" % i: b"%d" % i for i in range(128)}
        files |= {"größe/日本.txt".encode(): b"utf8", b"100%/\xff\xfe.\xe9t\xe9": b"latin", b"a%41.txt": b"percent"}
        for name, content in files.items():
            self.write_bytes("in", name, content)
        self.tar("in.tar", files, format=tarfile.GNU_FORMAT)
        for source in ("in", "in.tar"):
            with self.subTest(source=source):
                self.shardctl("pack", source, "-o", "out", "--names", "escape")
                listed, back = self.names("out")
                self.assertEqual(back, files)
                self.assertIn("größe/日本", listed)
                self.assertIn("100%25/%ff%fe", listed)
                self.assertIn("a%2541", listed)
                subprocess.run(["rm", "-r", self.path("out")], check=True)

    def test_what_has_no_text_is_a_sample_that_fails(self):
        self.encoded("gbk")
        self.write_bytes("in", b"odd\xff.txt", b"odd")
        self.tar("in.tar", self.tree_bytes("in"), format=tarfile.GNU_FORMAT)
        for source in ("in", "in.tar"):
            with self.subTest(source=source):
                run = self.shardctl("pack", source, "-o", "out", "--names", "gbk", "--group-by", "none", code=2)
                self.assertIn("--names escape", run.stderr)
                self.shardctl("pack", source, "-o", "out", "--names", "gbk", "--group-by", "none", "--on-error", "skip", code=4)
                self.assertEqual(self.names("out")[1], {name.encode("gbk"): name.encode() for name in CHINESE})
                subprocess.run(["rm", "-r", self.path("out")], check=True)
        # Without the option, names that are not UTF-8 fail, and say so.
        run = self.shardctl("pack", "in", "-o", "out", "--group-by", "none", code=2)
        self.assertIn("--names", run.stderr)

    def test_unknown_encodings_and_kinds_are_refused(self):
        self.encoded("gbk")
        for encoding in ("klingon", "utf-16", "UTF-7", "iso-2022-jp", "gbk//translit", "utf-8"):
            with self.subTest(encoding=encoding):
                self.assertIn(f"--names {encoding}", self.shardctl("pack", "in", "-o", "out", "--names", encoding, code=2).stderr)
        self.write("rows.jsonl", b'{"key": "a"}\n')
        self.assertIn("--names is for files", self.shardctl("pack", "rows.jsonl", "-o", "out", "--names", "gbk", code=2).stderr)
        self.write("rows.csv", b"key,text\na,b\n")
        self.assertIn("--names is for files", self.shardctl("pack", "rows.csv", "-o", "out", "--names", "gbk", code=2).stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_pairs_and_inputs_within_inputs(self):
        self.small_sa1b()
        os.makedirs(os.path.join(os.fsencode(self.path("pairs")), "图".encode("gbk")))
        os.rename(self.path("sa1b"), os.path.join(os.fsencode(self.path("pairs")), "图/sa1b".encode("gbk")))
        files = self.tree_bytes("pairs")
        self.assertIn("from sa1b", self.shardctl("pack", "pairs", "-o", "out", "--names", "gbk").stdout)
        listed, back = self.names("out")
        self.assertEqual(back, files)
        self.assertIn("图/sa1b/", listed)
        # The second input's own path is not text.
        self.write_bytes("outer", "外/内/a.txt".encode("gbk"), b"1")
        inner = os.fsdecode("outer/外".encode("gbk"))
        run = self.shardctl("pack", "outer", inner, "-o", "both", "--names", "gbk", "--from", "files")
        self.assertIn("packed 2 samples", run.stdout)
        self.assertEqual(self.names("both")[1], {"外/内/a.txt".encode("gbk"): b"1", "内/a.txt".encode("gbk"): b"1"})

    def test_choosing_lists_classes_tasks_and_resuming(self):
        files = self.encoded("gbk")
        self.shardctl("pack", "in", "-o", "out", "--names", "gbk", "--from", "files", "--include", "图片/", "--group-by", "last-dot")
        self.assertEqual(set(self.names("out")[1]), {name for name in files if b"/" in name})
        self.write("list", b"\n".join(["联通.txt".encode("gbk"), "图片/二.标签.txt".encode("gbk"), b"plain.txt"]))
        self.shardctl("pack", "in", "-o", "listed", "--names", "gbk", "--files-from", "list", "--group-by", "none")
        self.assertEqual(len(self.names("listed")[1]), 3)
        for i, name in enumerate(["猫/1.jpg", "猫/2.jpg", "狗/1.jpg"]):
            self.write_bytes("classes", name.encode("gbk"), tiny_jpeg(8 + i, 8))
        self.shardctl("pack", "classes", "-o", "classified", "--names", "gbk")
        column = next(c for c in self.shardctl("inspect", "classified", "--json").json()["columns"] if c["name"] == "label")
        self.assertEqual(json.loads(column["metadata"]["class_names"]), ["狗", "猫"])
        self.assertEqual(set(self.names("classified")[1]), {name.encode("gbk") for name in ["猫/1.jpg", "猫/2.jpg", "狗/1.jpg"]})
        options = ("--names", "gbk", "--shard-samples", "2", "--group-by", "last-dot")
        self.shardctl("pack", "in", "-o", "whole", *options)
        self.shardctl("plan-pack", "in", "-o", "tasks", "--tasks", "2", *options)
        for task in ("1/2", "0/2"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), self.dataset("whole"))
        self.shardctl("convert", "whole", "-o", "copy", "--to", "shard")
        self.assertEqual(self.names("copy")[1], files)
