"""Promises of columns: values at their samples, shards untouched, all or nothing; exit codes."""
import json
import os
import struct

from support import CliTest


class ColumnsTest(CliTest):
    def columns(self, *arguments, code=0):
        return self.shardctl("columns", *arguments, code=code)

    def rows(self, name, rows):
        self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def values(self, dataset, column, keys):
        """The stored values; None where there is none."""
        found = []
        for key in keys:
            run = self.shardctl("cat", dataset, "--key", key, "--column", column, code=None)
            found.append(run.out if run.code == 0 else None)
        return found

    def test_golden(self):
        self.pack_small_files("small", "--block-size", "64")
        self.rows("scores.ndjson", [{"id": "apple", "score": 0.5}, {"id": "sub/date", "score": 1, "note": "soft"},
                                    {"id": "kiwi", "score": 2}])
        self.rows("twice.ndjson", [{"id": "apple", "n": 1}, {"id": "apple", "n": 2}])
        self.write("broken.ndjson", '{"id": "apple"}\n{"id": \n')
        self.write("table.parquet", "PAR1")
        self.golden("columns", [
            self.columns("small"),
            self.columns("add", "small", "--from", "scores.ndjson", "--key", "id", "--type", "score=f32", "--json", code=None),
            self.columns("rename", "small", "txt=words", "score=points"),
            self.columns("set", "small", "points", "--class-names", "bad,good", "unit=stars"),
            self.columns("small"),
            self.columns("drop", "small", "note"),
            self.columns("small", "--json"),
            self.shardctl("history", "small"),
            self.columns("add", "small", "--from", "scores.ndjson", code=2),
            self.columns("add", "small", "--from", "twice.ndjson", "--key", "id", code=2),
            self.columns("add", "small", "--from", "broken.ndjson", "--key", "id", code=2),
            self.columns("add", "small", "--from", "table.parquet", code=2),
            self.columns("add", "small", "--from", "scores.ndjson", "--key", "nothing", code=None),
            self.columns("drop", "small", "note", code=1),
            self.columns("drop", "small", "key", code=2),
            self.columns("rename", "small", "words=points", code=2),
            self.columns("set", "small", "words", code=2),
            self.columns("set", "small", "words", "class_names=a", code=2),
            self.columns("drop", os.path.join("small", "00000000.shard"), "words", code=2),
            self.columns("add", "small", code=2),
            self.columns("missing", code=None),
        ])

    def test_the_shards_stay_and_every_reader_sees_the_values(self):
        self.many_files(count=200, size=10)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "128", "--shard-size", "400")
        shards = {name: data for name, data in self.tree("out").items() if name.endswith(".shard")}
        self.assertGreater(len(shards), 2)
        keys = [f"{i:06d}" for i in range(200)]
        self.rows("rows", [{"k": key, "v": i} for i, key in reversed(list(enumerate(keys))) if i % 3 == 0])
        report = self.columns("add", "out", "--from", "rows", "--key", "k", "--json").json()
        self.assertEqual((report["matched"], report["unmatched"], report["files"]), (67, 0, 1))
        tree = self.tree("out")
        self.assertEqual({name: tree[name] for name in shards}, shards)
        expected = [struct.pack("<q", i) if i % 3 == 0 else None for i in range(0, 200, 7)]
        self.assertEqual(self.values("out", "v", keys[::7]), expected)
        self.assertEqual(self.shardctl("filter", "out", "--where", "v >= 150", "--count").stdout, "17\n")
        self.shardctl("convert", "out", "-o", "copy", "--to", "shard")
        self.assertEqual(self.values("copy", "v", keys[::7]), expected)
        self.shardctl("validate", "out", "--deep")
        # From the copy by key, under another name, and by order.
        self.columns("rename", "copy", "v=w")
        self.columns("add", "out", "--from", "copy", "--key", "key", "--columns", "w")
        self.columns("add", "out", "--from", "copy", "--columns", "w")
        self.assertEqual(self.values("out", "w", keys[::7]), expected)
        listed = self.columns("out", "--json").json()
        self.assertEqual({c["name"]: (c["stored_name"], c["column_files"]) for c in listed["columns"]},
                         {"key": ("key", []), "bin": ("bin", []), "v": ("v", ["dataset-2.columns"]), "w": ("w@4", ["dataset-4.columns"])})

    def test_threads_do_not_change_a_byte(self):
        self.many_files(count=300, size=10)
        self.rows("rows", [{"k": f"{i:06d}", "v": "x" * (20000 + i)} for i in range(300)])
        for jobs in (1, 3):
            self.shardctl("pack", "many", "-o", f"out{jobs}", "--block-size", "128")
            self.columns("add", f"out{jobs}", "--from", "rows", "--key", "k", "-j", jobs)
        self.assertEqual(self.tree("out1"), self.tree("out3"))

    def test_an_earlier_generation_keeps_its_columns(self):
        self.pack_small_files("small")
        self.columns("drop", "small", "txt")
        self.assertNotIn("txt", self.shardctl("inspect", "small").stdout)
        self.assertIn("txt", self.shardctl("inspect", "small", "--at", "1").stdout)

    def test_killed_at_any_time(self):
        self.many_files(count=400, size=10)
        self.shardctl("pack", "many", "-o", "out", "--block-size", "128")
        self.rows("rows", [{"k": f"{i:06d}", "v": i} for i in range(400)])
        for delay in (0.0, 0.005, 0.01, 0.02, 0.04):
            process = self.start("columns", "add", "out", "--from", "rows", "--key", "k")
            try:
                process.wait(delay)
            except Exception:  # noqa: BLE001: whatever it is doing now
                process.kill()
            process.wait()
            names = [column["name"] for column in self.columns("out", "--json").json()["columns"]]
            self.assertIn(names, (["key", "bin"], ["key", "bin", "v"]))
            self.shardctl("validate", "out")
        self.columns("add", "out", "--from", "rows", "--key", "k")
        self.assertEqual([name for name in self.tree("out") if name.endswith((".tmp", ".change", ".lock"))], [])
        named = {name for column in self.columns("out", "--json").json()["columns"] for name in column["column_files"]}
        self.assertTrue(all(os.path.isfile(self.path("out", name)) for name in named))
