"""Tables: rows of CSV, TSV and JSON, each a sample, and the files that they name."""
import bz2
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import shutil
import struct
import tarfile
import zipfile

from support import CliTest, tiny_jpeg, tiny_png

NAMES = ["a", "text", "count", "score", "ok"]


def made(count):
    """Rows that need quotes in every way."""
    texts = ["plain", "with, comma", 'with "quotes"', "two\nlines", "ü\r\nß", '"', "", " spaces ", "tab\there", "'", "a\\b"]
    return [{"a": f"{i:04}", "text": texts[i % len(texts)], "count": str(i - 2), "score": str(i / 4),
             "ok": "true" if i % 3 else "False"} for i in range(count)]


def csv_text(rows, names=None, **how):
    out = io.StringIO()
    writer = csv.DictWriter(out, names or list(rows[0]), **how)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


class TableTest(CliTest):
    def types(self, dataset):
        return {column["name"]: column["type"] for column in self.shardctl("inspect", dataset, "--json").json()["columns"]}

    def keys(self, dataset):
        return [entry["key"] for entry in self.shardctl("ls", dataset, "--json").json()["entries"]]

    def value(self, dataset, sample, column):
        """None, bytes, or a number."""
        out = f"{dataset}.{sample}.value"
        run = self.shardctl("cat", dataset, "--sample", sample, "--column", column, "-o", out, code=None)
        if run.code != 0:
            self.assertIn("no value", run.stderr)
            return None
        content = self.read(out)
        os.unlink(self.path(out))
        if self.known is None:
            self.known = self.types(dataset)
        form = {"i64": "<q", "f64": "<d", "bool": "?", "i16": "<h", "f32": "<f"}.get(self.known[column])
        return content if form is None else struct.unpack(form, content)[0]

    def files(self, count, folder="images"):
        """Alternating JPEG and PNG, and a mask for each."""
        for i in range(count):
            self.write(f"{folder}/{i:04}.{'png' if i % 2 else 'jpg'}", tiny_png() if i % 2 else tiny_jpeg(8 + i, 8))
            self.write(f"{folder}/masks/{i:04}.png", tiny_png())
        return [{"id": f"k{i}", "image_path": f"{folder}/{i:04}.{'png' if i % 2 else 'jpg'}", "mask": f"./{folder}/masks/{i:04}.png", "label": str(i)}
                for i in range(count)]

    def packed(self, *words, code=0):
        shutil.rmtree(self.path("out"), ignore_errors=True)
        self.known = None
        return self.shardctl("pack", *words, "-o", "out", code=code)

    def test_rows_of_all_sizes(self):
        for count in (0, 1, 2, 5, 1000):
            rows = made(count)
            for dialect, ending in (({}, "csv"), ({"lineterminator": "\n"}, "csv"), ({"delimiter": "\t"}, "tsv"),
                                    ({"quoting": csv.QUOTE_ALL}, "csv")):
                with self.subTest(count=count, ending=ending, dialect=dialect):
                    self.write(f"rows.{ending}", csv_text(rows, NAMES, **dialect))
                    self.assertIn(f"packed {count} sample{'' if count == 1 else 's'} (6 columns) from table", self.packed(f"rows.{ending}").stdout)
                    found = self.types("out")
                    if count > 0:
                        self.assertEqual(found, {"key": "utf8", "a": "utf8", "text": "utf8", "count": "i64", "score": "f64", "ok": "bool"})
                    self.shardctl("unpack", "out", "-o", "back")
                    lines = self.lines_of(rows, dialect)
                    tree = self.tree("back")
                    self.assertEqual(self.keys("out"), [f"rows.{ending}: line {line}" for line in lines])
                    for line, row in zip(lines, rows):
                        key = f"rows.{ending}: line {line}"
                        self.assertEqual(self.read("back", f"{key}.a").decode(), row["a"])
                        self.assertEqual(f"{key}.text" in tree, row["text"] != "")
                        if row["text"]:
                            self.assertEqual(self.read("back", f"{key}.text").decode(), row["text"])
                    for i in {0, count - 1} if 0 < count else ():
                        self.assertEqual((self.value("out", i, "count"), self.value("out", i, "score"), self.value("out", i, "ok")),
                                         (i - 2, i / 4, i % 3 != 0))
                    shutil.rmtree(self.path("back"))

    @staticmethod
    def lines_of(rows, dialect):
        """The line in which each row begins."""
        lines, line = [], 2
        for row in rows:
            lines.append(line)
            line += 1 + row["text"].count("\n")
        return lines

    def test_what_is_no_csv_is_refused_by_its_line(self):
        for content, says in ((b"", "bad.csv: is empty: the first line of CSV names the columns"),
                              (b"a,,b\n1,2,3\n", "bad.csv: line 1: column 2 has no name"), (b"a,b,a\n", 'bad.csv: line 1: column "a" occurs twice'),
                              (b'a,"b\nc"\n', "bad.csv: line 1: a column name has a NUL or a line feed"),
                              (b"c," * 70000 + b"c\n", "bad.csv: line 1: names 70001 columns"),
                              (b"a;b\n1;2\n", 'bad.csv: line 1: names one column, "a;b": values are separated by commas'),
                              (b"a\tb\n1\t2\n", "bad.csv: line 1: names one column"),
                              (b"a,b\n1,2\n\n1,2,3\n", "bad.csv: line 4: has 3 values, and the first line names 2 columns"),
                              (b"a,b\n1\n", "bad.csv: line 2: has 1 value, and the first line names 2 columns"),
                              (b'a,b\n1,"2\n3\n', "bad.csv: line 2: a quote opens value 2, and none closes it"),
                              (b'a,b\n1,"2"3\n', "bad.csv: line 2: value 2 goes on behind its closing quote"),
                              (b"a,b\n1,2\r3\n", "bad.csv: line 2: value 2 has a carriage return"),
                              (b"a,b\r1,2\r", "bad.csv: line 1: value 2 has a carriage return"),
                              ("a,b\n1,ü\n".encode("latin1"), "bad.csv: line 2: is not UTF-8"),
                              ("a,b\n".encode("utf-16"), "bad.csv: line 1: is not UTF-8")):
            with self.subTest(content=content):
                self.write("bad.csv", content)
                self.assertIn(says, self.packed("bad.csv", code=2).stderr)
        self.write("bad.csv", b'a,b\n1,2\n3\n"4"x,4\n5,"6""\n7"\n\xff,8\n9,x"y"\n')
        run = self.packed("bad.csv", "--on-error", "skip", code=4)
        for line in (3, 4, 7):
            self.assertIn(f"bad.csv: line {line}: ", run.stderr)
        self.assertIn("3 samples skipped", run.stderr)
        self.assertEqual(self.keys("out"), [f"bad.csv: line {line}" for line in (2, 5, 8)])
        self.assertEqual([self.value("out", i, "b") for i in range(3)], [b"2", b'6"\n7', b'x"y"'])

    def test_types(self):
        cells = {"i": ["1", "-2", "", "0"], "f": ["1", "2.5", "", "-1e3"], "n": ["nan", "1", "-inf", ""], "b": ["TRUE", "false", "", "True"],
                 "zero": ["007", "1", "2", "3"], "plus": ["+1", "2", "3", "4"], "mixed": ["1", "x", "true", "2.5"], "empty": [""] * 4,
                 "large": [str(2**63), "1", "2", "3"], "huge": [str(2**70), "1", "-1", ""], "space": [" 1", "2", "3", "4"],
                 "json": ['{"a": 1}', "[1]", "2", '"x"']}
        rows = [{name: cells[name][i] for name in cells} for i in range(4)]
        self.write("rows.csv", b"\xef\xbb\xbf" + csv_text(rows))
        self.packed("rows.csv")
        self.assertEqual(self.types("out"), {"key": "utf8", "i": "i64", "f": "f64", "n": "f64", "b": "bool", "zero": "utf8", "plus": "utf8",
                                             "mixed": "utf8", "empty": "utf8",
                                             "large": "u64", "huge": "utf8", "space": "utf8", "json": "utf8"})
        for name in ("zero", "plus", "mixed", "empty", "huge", "space", "json"):
            for i in range(4):
                self.assertEqual(self.value("out", i, name), cells[name][i].encode() or None, (name, i))
        self.assertEqual([self.value("out", i, "i") for i in range(4)], [1, -2, None, 0])
        self.assertEqual([self.value("out", i, "f") for i in range(4)], [1, 2.5, None, -1000])
        self.assertEqual([self.value("out", i, "b") for i in range(4)], [True, False, None, True])
        self.assertTrue(math.isnan(self.value("out", 0, "n")))
        self.assertEqual([self.value("out", i, "n") for i in (1, 2, 3)], [1, -math.inf, None])
        self.packed("rows.csv", "--type", "i=i16", "--type", "f=f32", "--type", "json=json", "--type", "zero=utf8", "--type", "mixed=utf8",
                    "--type", "later=i64")
        self.assertEqual([self.value("out", i, "i") for i in range(4)], [1, -2, None, 0])
        self.assertEqual(json.loads(self.value("out", 0, "json")), {"a": 1})
        self.assertIn("later", self.types("out"))
        self.assertIn("values of JSON cannot be made that", self.packed("rows.csv", "--type", "i=jpeg", code=2).stderr)
        self.assertIn('rows.csv: line 3: column "mixed": is a text, which is no i64', self.packed("rows.csv", "--type", "mixed=i64", code=2).stderr)
        self.assertIn("is an integer that i8 cannot hold", self.packed("rows.csv", "--type", "large=i8", code=2).stderr)
        self.write("flags.csv", "f\n1\n0\n")
        self.packed("flags.csv", "--type", "f=bool")
        self.assertEqual([self.value("out", i, "f") for i in range(2)], [True, False])

    def test_values_that_do_not_fit_behind_the_first_rows(self):
        self.write("rows.csv", "n,s\n" + "1,a\n" * 256 + "2.5,b\nx,c\n3,4\n")
        self.assertIn('rows.csv: line 258: column "n": is a number with a fraction, which is no i64; --on-error skip',
                      self.packed("rows.csv", code=2).stderr)
        run = self.packed("rows.csv", "--on-error", "skip", code=4)
        self.assertIn('rows.csv: line 259: column "n": is a text, which is no i64', run.stderr)
        self.assertIn("packed 257 samples", run.stdout)
        self.packed("rows.csv", "--type", "n=utf8")
        self.assertEqual(self.value("out", 256, "n"), b"2.5")

    def test_compressed_tables_zips_and_threads_give_the_same(self):
        content = csv_text(made(600))
        self.write("rows.csv", content)
        self.packed("rows.csv", "--key", "a")
        expected = self.shardctl("ls", "out", "--values-xxh3").stdout
        for ending, compressed in {"gz": gzip.compress(content[:9999]) + gzip.compress(content[9999:]), "bz2": bz2.compress(content),
                                   "xz": lzma.compress(content)}.items():
            self.write(f"rows.csv.{ending}", compressed)
            for jobs in (1, 3):
                with self.subTest(ending=ending, jobs=jobs):
                    self.packed(f"rows.csv.{ending}", "--key", "a", "-j", jobs)
                    self.assertEqual(self.shardctl("ls", "out", "--values-xxh3").stdout, expected)
        self.write("folder/x/rows.csv", content)
        with zipfile.ZipFile(self.path("rows.zip"), "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("x/rows.csv", content)
        for source in ("folder", "rows.zip"):
            self.packed(source, "--from", "table", "--key", "a")
            self.assertEqual(self.shardctl("ls", "out", "--values-xxh3").stdout, expected)
        self.write("cut.csv.gz", gzip.compress(content)[:-20])
        self.assertIn("cut.csv.gz", self.packed("cut.csv.gz", code=1).stderr)

    def test_files_that_rows_name(self):
        for count in (1, 2, 5, 300):
            rows = self.files(count)
            self.write("list.csv", csv_text(rows))
            with self.subTest(count=count):
                run = self.packed("list.csv", "--file", "image_path=image", "--file", "mask")
                self.assertIn("(6 columns) from table", run.stdout)
                self.assertEqual(self.types("out"), {"key": "utf8", "id": "utf8", "image_path": "utf8",
                                                     "image": "jpeg" if count == 1 else "image", "mask": "png", "label": "i64"})
                self.assertEqual(self.keys("out"), [row["image_path"].rsplit(".", 1)[0] for row in rows])
                for i in {0, count // 2, count - 1}:
                    self.assertEqual(self.value("out", i, "image"), self.read(rows[i]["image_path"]))
                    self.assertEqual(self.value("out", i, "image_path").decode(), rows[i]["image_path"])
                    self.assertEqual(self.value("out", i, "mask"), self.read(rows[i]["mask"]))
                    self.assertEqual(self.value("out", i, "label"), i)
        self.shardctl("validate", "--deep", "out")
        self.packed("list.csv", "--file", "image_path", "--key", "id")
        self.assertEqual(self.keys("out"), [row["id"] for row in rows])
        self.assertEqual(self.types("out")["image_path"], "image")
        self.write("list.jsonl", "".join(json.dumps({**row, "label": int(row["label"])}) + "\n" for row in rows))
        expected = self.shardctl("ls", "out", "--values-xxh3").stdout
        self.packed("list.jsonl", "--file", "image_path", "--key", "id")
        self.assertEqual(self.shardctl("ls", "out", "--values-xxh3").stdout, expected)

    def test_roots(self):
        rows = [{**row, "image_path": row["image_path"].removeprefix("images/")} for row in self.files(5)]
        self.write("list.csv", csv_text(rows))
        with zipfile.ZipFile(self.path("images.zip"), "w") as file:
            for row in rows:
                file.write(self.path("images", row["image_path"]), row["image_path"])
                file.write(self.path("images", row["image_path"]), f"deep/er/{row['image_path']}")
        with tarfile.open(self.path("images.tar"), "w") as file:
            file.add(self.path("images"), ".")
            file.add(self.path("images"), "deep/er")
        expected = None
        for root in ("images", "images/", self.path("images"), "images.zip", "images.zip/deep/er", "images.tar", "images.tar/deep/er/"):
            with self.subTest(root=root):
                self.packed("list.csv", "--file", "image_path", "--root", root)
                found = self.shardctl("ls", "out", "--values-xxh3").stdout
                expected = expected or found
                self.assertEqual(found, expected)
                self.assertEqual(self.value("out", 3, "image_path"), tiny_png())
        self.write("absolute.csv", csv_text([{**row, "image_path": self.path("images", row["image_path"])} for row in rows]))
        self.packed("absolute.csv", "--file", "image_path", "--root", self.path("images"))
        self.assertEqual(self.keys("out"), [row["image_path"][:-4] for row in rows])
        self.packed("absolute.csv", "--file", "image_path", "--root", "/")
        self.assertEqual(self.keys("out")[0], self.path("images/0000")[1:])
        self.assertIn("lies outside of", self.packed("absolute.csv", "--file", "image_path", code=2).stderr)
        self.write("files.tar", b"x")
        self.assertIn("files.tar: not a tar file", self.packed("list.csv", "--file", "image_path", "--root", "files.tar", code=2).stderr)
        self.assertIn("--root list.csv: neither a folder nor a tar or zip",
                      self.packed("list.csv", "--file", "image_path", "--root", "list.csv", code=2).stderr)
        self.packed("list.csv", "--file", "image_path", "--root", "nowhere", code=3)
        self.assertIn("--root: only with --file", self.packed("list.csv", "--from", "table", "--root", "images", code=2).stderr)

    def test_files_that_cannot_be_read_are_named_and_skipped(self):
        self.files(3)
        self.write("secret.jpg", tiny_jpeg())
        self.write("images/page.jpg", b"<html>")
        os.mkdir(self.path("images/folder"))
        os.mkfifo(self.path("images/pipe"))
        os.symlink("0000.jpg", self.path("images/link.jpg"))
        bad = {"missing.jpg": "missing.jpg", "../secret.jpg": "lies outside of", "a/../../secret.jpg": "lies outside of",
               self.path("secret.jpg"): "lies outside of",
               "s3://bucket/x.jpg": "lies outside of", "page.jpg": "is no image of a known format", "folder": "is a folder",
               "folder/": "is no name of a file",
               "pipe": "not a regular file", "": 'has no key, and no "f" that names a file'}
        self.write("images/list.csv", csv_text([{"f": "0000.jpg", "n": "0"}, *({"f": name, "n": "1"} for name in bad), {"f": "0001.png", "n": "2"}]))
        run = self.packed("images/list.csv", "--file", "f", "--on-error", "skip", code=4)
        self.assertIn(f"{len(bad)} samples skipped", run.stderr)
        said = [line for line in run.stderr.splitlines() if "skipped sample" in line]
        for line, (number, (name, says)) in zip(said, enumerate(bad.items(), 3), strict=True):
            self.assertIn(f"images/list.csv: line {number}: ", line)
            self.assertIn(says, line, name)
        self.assertEqual(self.keys("out"), ["0000", "0001"])
        self.assertIn("images/list.csv: line 3: ", self.packed("images/list.csv", "--file", "f", code=3).stderr)
        self.write("images/list.csv", "f,n\n0000.jpg,1\nlink.jpg,2\n")
        self.packed("images/list.csv", "--file", "f")
        self.assertEqual(self.value("out", 1, "f"), tiny_jpeg())
        self.assertIn("images/link.jpg: a symbolic link, which is not followed",
                      self.packed("images/list.csv", "--file", "f", "--no-follow", code=2).stderr)
        # A column that is no key may name nothing.
        self.write("images/list.csv", "f,mask\n0000.jpg,\n0001.png,masks/0001.png\n")
        self.packed("images/list.csv", "--file", "f", "--file", "mask")
        self.assertEqual([self.value("out", i, "mask") for i in range(2)], [None, tiny_png()])

    def test_keys(self):
        rows = self.files(3)
        self.write("list.csv", csv_text([*rows, rows[1]]))
        run = self.packed("list.csv", "--file", "image_path", code=2)
        self.assertIn('list.csv: line 5: the key "images/0001" occurs twice, first for list.csv: line 3', run.stderr)
        self.assertIn('the key "k1" occurs twice', self.packed("list.csv", "--key", "id", code=2).stderr)
        run = self.packed("list.csv", "--file", "image_path", "--on-error", "skip")
        self.assertIn("1 sample has the key of another one", run.stderr)
        self.assertIn('no row has the key, "x"', self.packed("list.csv", "--key", "x", code=3).stderr)
        self.assertIn('no row has the column "x", which --file names', self.packed("list.csv", "--file", "x", code=3).stderr)
        self.write("keys.csv", "key,id,n\nx,,1\n,b,2\n")
        self.packed("keys.csv")
        self.assertEqual(self.keys("out"), ["x", "keys.csv: line 3"])
        self.assertIn('keys.csv: line 2: has no key, "id"', self.packed("keys.csv", "--key", "id", code=2).stderr)
        self.write("names.csv", "f,g\nimages/0000.jpg,a.b/.hidden\nimages/masks/0001.png,x\n")
        self.packed("names.csv", "--key", "f", "--file", "f=image")
        self.assertEqual(self.keys("out"), ["images/0000.jpg", "images/masks/0001.png"])
        self.assertIn('another column "f"', self.packed("names.csv", "--key", "f", "--file", "f", code=2).stderr)
        self.assertIn('another column "g"', self.packed("names.csv", "--file", "f=g", code=2).stderr)

    def test_types_of_files(self):
        rows = self.files(2)
        self.write("list.csv", csv_text(rows))
        self.packed("list.csv", "--file", "image_path=image", "--type", "image=bytes", "--type", "label=f32")
        self.assertEqual((self.types("out")["image"], self.types("out")["label"]), ("bytes", "f32"))
        self.assertIn("files are bytes, utf8, json, jpeg, png or image",
                      self.packed("list.csv", "--file", "image_path", "--type", "image_path=i64", code=2).stderr)
        self.assertIn("cannot be of type jpeg", self.packed("list.csv", "--file", "image_path", "--type", "image_path=jpeg", code=2).stderr)

    def test_the_order_is_that_of_the_table(self):
        rows = self.files(40)
        order = rows[::-1][::3] + rows[::5]
        rows = list({row["id"]: row for row in order}.values())
        self.write("list.csv", csv_text(rows))
        self.packed("list.csv", "--file", "image_path", "-j", 3)
        self.assertEqual(self.keys("out"), [row["image_path"][:-4] for row in rows])

    def test_shards_end_by_the_bytes_of_files(self):
        for i in range(10):
            self.write(f"big/{i}.bin", bytes(10000))
        self.write("list.csv", "f\n" + "".join(f"big/{i}.bin\n" for i in range(10)))
        self.packed("list.csv", "--file", "f", "--shard-size", "25KB")
        self.assertEqual(self.shardctl("inspect", "out", "--json").json()["shards"], 4)

    def test_tasks_and_resuming(self):
        for part in range(3):
            rows = self.files(60, f"in/p{part}")
            self.write(f"in/{part}.csv", csv_text([{**row, "image_path": row["image_path"].removeprefix("in/"),
                                                    "n": row["label"] if part else "0.5"} for row in rows]))
        words = ["in", "--from", "table", "--file", "image_path=image", "--shard-samples", "25"]
        self.packed(*words)
        self.assertEqual(self.types("out")["n"], "f64")
        self.assertEqual(self.shardctl("plan-pack", *words, "-o", "tasks", "--tasks", "2", "--json").json()["units"], 3)
        for task in ("1/2", "0/2"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), self.dataset("out"))
        self.assertEqual(self.shardctl("plan-pack", "in/0.csv", "-o", "one", "--tasks", "2").stderr,
                         "shardctl: note: there are fewer units than tasks, so some tasks have nothing to do: a table or tar is one unit, so "
                         "divide a long one\n")
        whole = self.dataset("out")
        again = ["pack", *words[:-1], "5", "-o", "out", "--resume"]
        shutil.rmtree(self.path("out"))
        self.stop_at(rows[50]["image_path"], again)
        self.assertIn("begun with other input or options", self.shardctl(*again[:5], "mask=image", *again[6:], code=2).stderr)
        self.shardctl(*again)
        self.shardctl("pack", *words[:-1], "5", "-o", "other")
        self.assertEqual(self.dataset("out"), self.dataset("other"))
        self.assertNotEqual(self.dataset("out"), whole)

    def stop_at(self, name, words):
        """Runs a command that keeps its finished shards, while the file is missing."""
        content = self.read(name)
        os.unlink(self.path(name))
        self.assertIn(name, self.shardctl(*words, code=3).stderr)
        self.assertTrue(any(path.endswith(".shard") for path in self.tree("out")))
        self.write(name, content)

    def test_a_file_that_changed_stops_resuming(self):
        rows = self.files(60)
        self.write("list.csv", csv_text(rows))
        again = ["pack", "list.csv", "--file", "image_path", "--shard-samples", "5", "-o", "out", "--resume"]
        self.stop_at(rows[50]["image_path"], again)
        self.write(rows[1]["image_path"], tiny_png() + b"more")
        self.assertIn("was begun with another input", self.shardctl(*again, code=None).stderr)

    def test_metadata_of_hugging_face(self):
        for split in ("train", "test"):
            self.files(2, f"hf/{split}")
            self.write(f"hf/{split}/metadata.csv", 'depth_file_name,file_name,text\nmasks/0000.png,0000.jpg,"a, b"\nmasks/0001.png,0001.png,\n')
        self.assertIn("packed 4 samples (6 columns) from table", self.packed("hf").stdout)
        self.assertEqual(self.types("out"), {"key": "utf8", "file_name": "utf8", "image": "image", "text": "utf8",
                                             "depth_file_name": "utf8", "depth": "png"})
        self.assertEqual(self.keys("out"), ["test/0000", "test/0001", "train/0000", "train/0001"])
        self.assertEqual([self.value("out", 2, name) for name in ("image", "text", "depth")], [tiny_jpeg(), b"a, b", tiny_png()])
        whole = self.dataset("out")
        for words in (["--from", "table"], ["-j", "3"]):
            self.packed("hf", *words)
            self.assertEqual(self.dataset("out"), whole)
        self.shardctl("plan-pack", "hf", "-o", "tasks", "--tasks", "2")
        for task in ("1/2", "0/2"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), whole)
        with zipfile.ZipFile(self.path("hf.zip"), "w") as file:
            for name in self.tree("hf"):
                file.write(self.path("hf", name), name)
        self.packed("hf.zip")
        self.assertEqual(self.keys("out"), ["test/0000", "test/0001", "train/0000", "train/0001"])
        self.packed("hf/train")
        self.assertEqual(self.keys("out"), ["0000", "0001"])
        self.write("more/metadata.csv", "file_name,other_file_name\n,a.txt\n")
        self.write("more/a.txt", "x")
        self.assertIn('more/metadata.csv: line 2: has no key, and no "file_name"', self.packed("hf", "more", code=2).stderr)
        self.write("more/metadata.csv", "file_name,other_file_name,key\n,a.txt,k\n")
        self.packed("hf", "more")
        self.assertEqual((self.keys("out")[-1], self.value("out", 4, "other")), ("k", b"x"))
        os.unlink(self.path("hf/train/metadata.csv"))
        self.write("hf/train/metadata.jsonl", '{"file_name": "0001.png", "objects": {"bbox": [[1, 2]]}}\n')
        self.packed("hf/train")
        self.assertEqual(self.types("out"), {"key": "utf8", "file_name": "utf8", "image": "png", "objects": "json"})
        self.write("sounds/metadata.csv", "file_name,text\na.wav,x\n")
        self.write("sounds/a.wav", b"RIFF")
        self.packed("sounds")
        self.assertEqual(self.types("out"), {"key": "utf8", "file_name": "utf8", "file": "bytes", "text": "utf8"})

    def test_lists_of_files_are_refused_with_the_way(self):
        self.write("in/a.jpg", tiny_jpeg())
        for name in ("file_names", "page_file_names"):
            self.write("in/metadata.jsonl", json.dumps({"file_name": "a.jpg", name: ["a.jpg", "b.jpg"]}) + "\n")
            for words in (["in"], ["in", "--from", "table"]):
                error = self.packed(*words, code=2).stderr
                self.assertIn(f'in/metadata.jsonl: column "{name}" names several files in a row', error)
                self.assertIn("docs/recipes.md, Several images in a sample", error)
            self.packed("in", "--from", "files")
            self.packed("in/metadata.jsonl", "--from", "table")
            self.assertEqual(self.types("out")[name], "json")
            shutil.copytree(self.path("in"), self.path("parts/train"), dirs_exist_ok=True)
            self.write("parts/test/c.jpg", tiny_jpeg())  # has no metadata
            self.assertIn(f'parts/train/metadata.jsonl: column "{name}" names several', self.packed("parts", code=2).stderr)
        self.write("in/metadata.jsonl", '{"file_name": "a.jpg", "file_names": "a.jpg"}\n')  # a text is no list
        self.packed("in")
        self.assertEqual(self.types("out")["file_names"], "utf8")

    @staticmethod
    def parquet(*names):
        """The end of a Parquet file: a schema with the names, each behind its length."""
        schema = b"".join(bytes([len(name)]) + name.encode() for name in ("schema", *names))
        return b"PAR1" + schema + len(schema).to_bytes(4, "little") + b"PAR1"

    def test_metadata_in_parquet_is_refused_with_the_way(self):
        way = "give sk.pack the rows as in docs/recipes.md, Images with a metadata.parquet"
        note = "shardctl: note: files *.parquet of the input are packed as they are, not the samples in them: to have those, "
        for place in ("", "train/"):
            for names in (["file_name"], ["label", "depth_file_name"], ["file_names"], ["page_file_names"]):
                shutil.rmtree(self.path("in"), ignore_errors=True)
                self.write(f"in/{place}a.jpg", tiny_jpeg())
                self.write(f"in/{place}metadata.parquet", self.parquet(*names))
                for kind in ("zip", "tar"):
                    shutil.make_archive(self.path("in"), kind, self.path("in"))
                for words in (["in"], ["in.zip"], *([each, "--from", "table"] for each in ("in", "in.zip", "in.tar"))):
                    with self.subTest(words=words, place=place, names=names):
                        self.assertIn(f"shardctl: {words[0]}/{place}metadata.parquet: names files, as Hugging Face's metadata does, and "
                                      f"Parquet is read by Python alone: {way}; --from files packs the files as they are\n",
                                      self.packed(*words, code=2).stderr)
                self.assertEqual(self.packed("in.tar").stderr, f"{note}{way}, extracted from the tar (--from files says that it is meant)\n")
                self.assertEqual(self.packed("in", "--from", "files").stderr, "")
        for folder in ("test", "validation"):  # a folder without metadata, before and behind it
            self.write(f"in/{folder}/b.jpg", tiny_jpeg())
            self.assertIn("shardctl: in/train/metadata.parquet: names files", self.packed("in", code=2).stderr)
            shutil.rmtree(self.path("in", folder))
        for i in range(64):  # classes
            self.write(f"in/{i}/b.jpg", tiny_jpeg())
        self.assertIn("sources.parquet(FILES)", self.packed("in").stderr)
        shutil.rmtree(self.path("in"))
        self.write("in/a.jpg", tiny_jpeg())
        whole = self.parquet("file_name")
        for content in (self.parquet("profile_name"), self.parquet(), b"", b"PAR1", whole[:-1], whole[:-5] + b"\xffPAR1"):
            self.write("in/metadata.parquet", content)
            shutil.make_archive(self.path("in"), "tar", self.path("in"))
            for given in ("in", "in.tar"):
                with self.subTest(given=given, content=content):
                    self.assertIn("give sk.pack of Python shardkit.sources.parquet(FILES)", self.packed(given).stderr)
        self.write("in/metadata.parquet", whole)
        self.write("in/metadata.csv", "file_name\na.jpg\n")  # which one?
        self.assertIn("from files", self.packed("in").stdout)
        self.assertIn("from table", self.packed("in", "--exclude", "*.parquet").stdout)

    def test_metadata_that_names_no_files_is_a_file(self):
        for content in (b"name,text\na.jpg,b\n", b"", b"\xff\xfe", b"file_name,file_name\n", b"_file_name\nx\n"):
            shutil.rmtree(self.path("in"), ignore_errors=True)
            self.write("in/a.jpg", tiny_jpeg())
            self.write("in/metadata.csv", content)
            with self.subTest(content=content):
                self.assertIn("from files", self.packed("in").stdout)
                self.assertEqual(self.keys("out"), ["a", "metadata"])
        self.write("in/metadata.csv", "file_name\na.jpg\n")
        self.assertIn("from files", self.packed("in", "--from", "files").stdout)
        self.assertIn("packed 1 sample (3 columns) from table", self.packed("in").stdout)
        self.assertIn("from files", self.packed("in", "--exclude", "metadata.csv").stdout)
        self.write("in/metadata.jsonl", '{"file_name": "a.jpg"}\n')  # which one?
        self.assertIn("from files", self.packed("in").stdout)
        # Folders without metadata would be lost.
        self.write("splits/train/metadata.csv", "file_name\na.jpg\n")
        self.write("splits/train/a.jpg", tiny_jpeg())
        self.write("splits/test/b.jpg", tiny_jpeg())
        self.assertNotIn("from table", self.packed("splits").stdout)

    def test_what_is_a_table(self):
        self.write("rows.csv", "a\n1\n")
        self.write("rows.jsonl", '{"a": 2}\n')
        self.packed("rows.csv", "rows.jsonl")
        self.assertEqual([self.value("out", i, "a") for i in range(2)], [1, 2])
        self.write("list.parquet", b"PAR1")
        for words in ([], ["--from", "table"]):
            self.assertIn('list.parquet: Parquet is read by the Python package: shardkit.pack(shardkit.sources.parquet("list.parquet"), OUT)',
                          self.packed("list.parquet", *words, code=2).stderr)
        self.write("list.txt", b"a\n")
        self.assertIn("tables are files *.csv", self.packed("list.txt", "--from", "table", code=2).stderr)
        self.assertIn("is not of lines of JSON: --from table", self.packed("rows.csv", "--from", "jsonl", code=2).stderr)
        self.write("files/a.txt", b"a")
        self.write("files/b.csv", b"a")
        self.assertIn("pack with --from table", self.packed("files").stderr)  # a folder of CSV may be one of samples
        self.assertIn("only tables name files", self.packed("files", "--from", "files", "--file", "a", code=2).stderr)
        self.assertIn("has no files *.csv", self.packed("files", "--from", "table", "--exclude", "*.csv", code=2).stderr)
        self.assertIn("not by --files-from", self.packed("files", "--from", "table", "--files-from", "list.txt", code=2).stderr)
        for file in ("=a", "a=", ""):
            self.assertIn("--file", self.packed("rows.csv", "--file", file, code=2).stderr)
        self.write("equal.csv", "a=b\nfiles/a.txt\n")
        self.packed("equal.csv", "--file", "a=b")
        self.assertEqual(self.value("out", 0, "a=b"), b"a")
        self.packed("equal.csv", "--file", "a=b=c")
        self.assertEqual(self.value("out", 0, "c"), b"a")
        self.assertIsNone(re.search("table", self.packed("files", "--from", "files").stderr))
