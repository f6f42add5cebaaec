"""Files of lines of JSON: each line a sample, each member a column."""
import bz2
import gzip
import json
import lzma
import os
import re
import struct
import subprocess
import zipfile

from support import CliTest

ROWS = [{"key": f"k{i:03}", "text": f"text {i} ü", "score": i / 4, "count": i, "ok": i % 2 == 0, "meta": {"n": [i]}, "none": None if i % 3 else "x"}
        for i in range(600)]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


class JsonlTest(CliTest):
    def rows(self, dataset, *columns):
        """The samples as {column: text}."""
        found = []
        self.shardctl("unpack", dataset, "-o", f"{dataset}.files")
        tree = sorted(self.tree(f"{dataset}.files"))
        for key in dict.fromkeys(name.split(".")[0] for name in tree):
            row = {}
            for column in columns:
                name = next((name for name in tree if name.startswith(f"{key}.{column}.") or name == f"{key}.{column}"), None)
                content = None if name is None else self.read(f"{dataset}.files", name)
                row[column] = None if content is None else self.number(content) if name.endswith(".npy") else content.decode()
            found.append((key, row))
        return found

    @staticmethod
    def number(npy):
        """The text of the one number of a NumPy file."""
        kind = re.search(rb"'descr': '.(..)'", npy)[1].decode()
        value, = struct.unpack({"i8": "<q", "f8": "<d", "b1": "?"}[kind], npy[-int(kind[1]):])
        return json.dumps(value)

    def test_rows_become_samples(self):
        self.write("rows.jsonl", lines(ROWS))
        run = self.shardctl("pack", "rows.jsonl", "-o", "out")
        self.assertIn("packed 600 samples (7 columns) from jsonl", run.stdout)
        inspected = self.shardctl("inspect", "out", "--json").json()
        self.assertEqual({column["name"]: column["type"] for column in inspected["columns"]},
                         {"key": "utf8", "text": "utf8", "score": "f64", "count": "i64", "ok": "bool", "meta": "json", "none": "utf8"})
        for (key, row), given in zip(self.rows("out", "text", "score", "count", "ok", "meta", "none"), ROWS, strict=True):
            self.assertEqual(key, given["key"])
            self.assertEqual(row["text"], given["text"])
            self.assertEqual(json.loads(row["score"]), given["score"])
            self.assertEqual(json.loads(row["count"]), given["count"])
            self.assertEqual(json.loads(row["ok"]), given["ok"])
            self.assertEqual(json.loads(row["meta"]), given["meta"])
            self.assertEqual(row["none"], given["none"])
        self.shardctl("validate", "--deep", "out")

    def test_compressed_files_folders_zips_and_threads_give_the_same(self):
        self.write("rows.jsonl", lines(ROWS))
        self.shardctl("pack", "rows.jsonl", "-o", "plain")
        expected = self.shardctl("ls", "plain", "--values-xxh3").stdout
        content = lines(ROWS)
        packed = {"gz": gzip.compress(content[:9999]) + gzip.compress(content[9999:]), "bz2": bz2.compress(content), "xz": lzma.compress(content)}
        for ending, compressed in packed.items():
            self.write(f"rows.jsonl.{ending}", compressed)
        self.write("folder/a/rows.jsonl", content)
        with zipfile.ZipFile(self.path("rows.zip"), "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a/rows.jsonl", content)
        for source in [f"rows.jsonl.{ending}" for ending in packed] + ["folder", "rows.zip"]:
            for jobs in (1, 3):
                with self.subTest(source=source, jobs=jobs):
                    self.assertIn("from jsonl", self.shardctl("pack", source, "-o", "out", "-j", jobs).stdout)
                    self.assertEqual(self.shardctl("ls", "out", "--values-xxh3").stdout, expected)
                    subprocess.run(["rm", "-r", self.path("out")], check=True)

    def test_tasks_and_resuming(self):
        for i in range(3):
            self.write(f"in/{i}.jsonl", lines([{**row, "key": f"{i}-{row['key']}"} for row in ROWS]))
        self.shardctl("pack", "in", "-o", "whole", "--shard-samples", "250")
        plan = self.shardctl("plan-pack", "in", "-o", "tasks", "--tasks", "2", "--shard-samples", "250", "--json").json()
        self.assertEqual(plan["units"], 3)
        for task in ("1/2", "0/2"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), self.dataset("whole"))
        last = self.read("in/2.jsonl")
        self.write("in/2.jsonl", last + b"{\n")
        self.assertIn("line 601", self.shardctl("pack", "in", "-o", "out", "--shard-samples", "50", "--resume", code=2).stderr)
        self.assertTrue(os.path.exists(self.path("out/00000000_00003.shard")))
        self.write("in/2.jsonl", last)
        self.shardctl("pack", "in", "-o", "out", "--shard-samples", "50", "--resume")
        self.shardctl("pack", "in", "-o", "other", "--shard-samples", "50")
        self.assertEqual(self.dataset("out"), self.dataset("other"))

    def test_keys(self):
        rows = [{"id": 7, "t": "a"}, {"id": 2**63, "t": "b"}, {"id": "x", "t": "c"}]
        self.write("rows.jsonl", lines(rows))
        self.shardctl("pack", "rows.jsonl", "-o", "out", "--key", "id")
        self.assertEqual([line.split()[-1] for line in self.shardctl("ls", "out").stdout.splitlines()], ["7", str(2**63), "x"])
        self.shardctl("pack", "rows.jsonl", "-o", "plain", "--type", "id=json")
        self.assertIn("rows.jsonl: line 2", self.shardctl("ls", "plain").stdout)
        self.assertIn('no row has the key, "name"', self.shardctl("pack", "rows.jsonl", "-o", "new", "--key", "name", code=3).stderr)
        self.write("bad.jsonl", lines([{"id": 1, "t": "a"}, {"t": "b"}, {"id": 1.5}, {"id": 1}]))
        run = self.shardctl("pack", "bad.jsonl", "-o", "new", "--key", "id", code=2)
        self.assertIn('bad.jsonl: line 2: has no key, "id"; --on-error skip leaves the sample out', run.stderr)
        run = self.shardctl("pack", "bad.jsonl", "-o", "new", "--key", "id", "--on-error", "skip", code=4)
        self.assertIn("line 3", run.stderr)
        self.shardctl("pack", "in", "-o", "new", "--key", "id", code=3)
        self.write("files/a.txt", b"a")
        self.assertIn("only lines of JSON have a key", self.shardctl("pack", "files", "-o", "new", "--key", "id", code=2).stderr)

    def test_bad_lines_are_named_and_skipped(self):
        rows = ['{"key": "a", "n": 1}', '{"key": "b", "n": ', "[1]", '{"key": "c", "n": "text"}', '{"key": "d", "n": 2, "n": 3}', "", "  \r",
                '{"key": "e", "new": 1}', '{"key": "f", "n": 9}']
        self.write("rows.jsonl", "\n".join(rows[:1] + ['{"key": "x%d", "n": 0}' % i for i in range(256)] + rows[1:]).encode())
        self.shardctl("pack", "rows.jsonl", "-o", "out", code=2)
        run = self.shardctl("pack", "rows.jsonl", "-o", "out", "--on-error", "skip", code=4)
        for number, what in ((258, "rows.jsonl: line 258"), (259, "is not an object"), (260, 'column "n": is a text, which is no i64'), (261, 'column "n"'),
                             (264, 'column "new": no row before it had this column')):
            self.assertIn(f"line {number}", run.stderr)
            self.assertIn(what, run.stderr)
        self.assertIn("5 samples skipped: 5 refused", run.stderr)
        self.assertIn("packed 258 samples", run.stdout)

    def test_types(self):
        self.write("rows.jsonl", lines([{"key": "a", "n": 1, "v": 1.5}, {"key": "b", "n": 2, "v": None}]))
        self.shardctl("pack", "rows.jsonl", "-o", "out", "--type", "n=i16", "--type", "v=f32", "--type", "later=utf8")
        inspected = self.shardctl("inspect", "out", "--json").json()
        self.assertEqual({column["name"]: column["type"] for column in inspected["columns"]}, {"key": "utf8", "n": "i16", "v": "f32", "later": "utf8"})
        self.assertIn("values of JSON cannot be made that", self.shardctl("pack", "rows.jsonl", "-o", "new", "--type", "n=jpeg", code=2).stderr)
        self.write("mixed.jsonl", lines([{"key": "a", "n": 1}, {"key": "b", "n": "x"}]))
        self.assertIn('column "n" of the first 2 rows (--type n=TYPE): has values of several kinds', self.shardctl("pack", "mixed.jsonl", "-o", "new", code=2).stderr)
        self.shardctl("pack", "mixed.jsonl", "-o", "new", "--type", "n=json")
        self.write("files/a.txt", b"a")
        self.assertIn("files are bytes, utf8, json, jpeg, png or image", self.shardctl("pack", "files", "-o", "other", "--type", "txt=i64", code=2).stderr)
        # Also where the kind is found: a folder of tars is a WebDataset.
        self.shardctl("pack", "files", "-o", "packed")
        self.shardctl("convert", "packed", "-o", "tars", "--to", "webdataset")
        run = self.shardctl("pack", "tars", "-o", "other", "--type", "txt=i64", code=2)
        self.assertIn("files are bytes, utf8, json, jpeg, png or image", run.stderr)

    def test_empty_files_and_folders(self):
        self.write("empty.jsonl", b"")
        self.shardctl("pack", "empty.jsonl", "-o", "out")
        self.assertEqual(self.shardctl("inspect", "out", "--json").json()["samples"], 0)
        self.write("other/a.txt", b"a")
        self.assertIn("has no files *.jsonl or *.ndjson", self.shardctl("pack", "other", "--from", "jsonl", "-o", "new", code=2).stderr)
        self.write("cut.jsonl.gz", gzip.compress(lines(ROWS))[:-20])
        self.assertIn("cut.jsonl.gz", self.shardctl("pack", "cut.jsonl.gz", "-o", "new", code=1).stderr)
