"""Promises of columns: values at their samples, shards untouched, all or nothing; exit codes."""
import json
import os

from support import CliTest


class ColumnsTest(CliTest):
    def columns(self, *arguments, code=0):
        return self.shardctl("columns", *arguments, code=code)

    def rows(self, name, rows):
        self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

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
