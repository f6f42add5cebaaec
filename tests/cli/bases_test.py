"""Promises of --by-reference: the samples of a copy, not a byte of a base changed, and nothing opened out of reach."""
import json
import os
import shutil

from support import CliTest, ENVIRONMENT

ENTRY = {"input", "output", "by_reference", "samples", "bytes", "shards", "seconds"}
SELECTION = {"input_samples", "selected", "blocks", "blocks_read", "blocks_skipped"}


class BasesTest(CliTest):
    """"plain" has 24 samples in 4 shards. "grown" has lost some of them, with a whole shard, and has got a column, which in "changed" is another."""

    def setUp(self):
        super().setUp()
        for i in range(24):
            self.write(f"in/{i:02}.txt", f"text {i} {'abcdefghij'[i % 10] * 40}")
        for i in range(30, 36):
            self.write(f"more/{i}.txt", f"text {i}")
        self.write("rows", "".join(f'{{"id": "{i:02}", "score": {i}}}\n' for i in range(40) if i % 3))
        self.write("notes", "".join(f'{{"id": "{i:02}", "note": "note {i}", "score": {-i}}}\n' for i in range(0, 40, 2)))
        self.pack("in", "plain", "--codec", "txt=none")
        shutil.copytree(self.path("plain"), self.path("grown"))
        for words in (["columns", "add", "grown", "--from", "rows", "--key", "id"], ["rm", "grown", "--range", "1:3,6:12"]):
            self.shardctl(*words)
        shutil.copytree(self.path("grown"), self.path("changed"))
        for words in (["columns", "add", "changed", "--from", "notes", "--key", "id", "--columns", "score"], ["columns", "rename", "changed", "txt=words"]):
            self.shardctl(*words)
        self.bases = {name: self.tree(name) for name in ("plain", "grown", "changed")}

    def pack(self, source, output, *options):
        self.shardctl("pack", source, "-o", output, "--shard-samples", "6", "--block-size", "100", *options)

    def assert_bases_unchanged(self, message=None):
        self.assertEqual({name: self.tree(name) for name in self.bases}, self.bases, message)

    def seen(self, dataset, *options):
        """What readers see: columns, and the values of all samples in order."""
        return self.columns(dataset), self.shardctl("ls", dataset, "--values-xxh3", *options).stdout

    def columns(self, dataset):
        return [(column["name"], column["type"]) for column in self.shardctl("columns", dataset, "--json").json()["columns"]]

    def bases_of(self, dataset, *options):
        return {base["name"]: base["path"] for base in self.shardctl("inspect", dataset, "--json", *options).json()["bases"]}

    def assert_same(self, made, copy, message=None):
        self.assertEqual(self.seen(made), self.seen(copy), message)
        self.shardctl("diff", made, copy)
        self.shardctl("validate", "--deep", made)

    def check_parts(self, words, parts, message):
        """Runs the command with and without --by-reference."""
        shutil.rmtree(self.path("out"), ignore_errors=True)
        shutil.rmtree(self.path("copy"), ignore_errors=True)
        copy = self.shardctl(*words, "-o", "copy", "--json").json()
        made = self.shardctl(*words, "-o", "out", "--json", "--by-reference").json()
        for part in parts:
            self.assertEqual([name for name in self.tree(f"out{part}") if name.endswith((".shard", ".columns"))], [], message)
            self.assert_same(f"out{part}", f"copy{part}", message)
        self.assert_bases_unchanged(message)
        return made, copy

    def test_filter_and_split(self):
        for words, samples, shards in ((["--where", "key = 'none'"], 0, 0), (["--range", "3:5,13:"], 13, 3)):
            with self.subTest(words=words):
                made, copy = self.check_parts(["filter", "plain", *words], [""], words)
                self.assertEqual(set(made), ENTRY | SELECTION | {"keys_missing"})
                self.assertEqual({**made, "by_reference": False}, {**copy, "output": "out", **{
                    name: made[name] for name in ("bytes", "shards", "seconds")}})
                self.assertTrue(made["by_reference"])
                self.assertEqual((made["samples"], made["shards"]), (samples, shards))
                self.assertEqual(self.bases_of("out"), {"plain": self.path("plain")} if samples else {})
        made, copy = self.check_parts(["split", "changed", "--into", "a=40%,b=30%,c=30%"], ["/a", "/b", "/c"], "split")
        self.assertEqual([part["samples"] for part in made["parts"]], [part["samples"] for part in copy["parts"]])
        self.assertEqual(set(made) - ENTRY - SELECTION, {"parts", "seed"})

    def test_merging(self):
        self.pack("more", "other", "--codec", "txt=none")
        for inputs, keep in ((["plain", "other"], False), (["plain", "grown", "plain"], True)):
            with self.subTest(inputs=inputs):
                if keep:
                    refused = self.shardctl("merge", *inputs, "-o", "none", "--by-reference", code=2)
                    self.assertRegex(refused.stderr, "holds the same samples|stands in")
                    self.assertFalse(os.path.exists(self.path("none")))
                words = ["merge", *inputs, *(["--repeated-keys", "keep"] if keep else [])]
                made, _ = self.check_parts(words, [""], inputs)
                self.assertEqual((set(made), made["by_reference"], made["copied"]),
                                 (ENTRY - {"input"} | {"inputs", "copied", "blocks"}, True, False))
                self.assertEqual(set(self.bases_of("out").values()), {self.path(name) for name in inputs})
        document = self.shardctl("inspect", "out", "--json").json()
        self.assertEqual([set(base) for base in document["bases"]], [{"name", "location", "path", "generation"}] * 3)
        self.assertEqual({base["location"] for base in document["bases"]}, {"../plain", "../grown"})
        self.assertIn(f"refers to grown: {self.path('grown')}, generation 3\n", self.shardctl("inspect", "out").stdout)
        self.assertEqual(self.shardctl("inspect", "plain", "--json").json()["bases"], [])
        self.shardctl("convert", "plain", "-o", "mds", "--to", "mds")
        for words in (["merge", "mds"], ["filter", "mds", "--range", "1:"], ["split", "mds", "--into", "a=50%"]):
            self.shardctl(*words, "-o", "none", "--by-reference", code=3)
            self.assertFalse(os.path.exists(self.path("none")))

    def test_bases_of_bases_are_named_themselves(self):
        self.shardctl("filter", "plain", "-o", "first", "--range", "3:", "--by-reference")
        self.shardctl("filter", "first", "-o", "second", "--range", "6:", "--by-reference")
        self.assertEqual(self.bases_of("second"), {"plain": self.path("plain")})
        self.shardctl("columns", "add", "first", "--from", "rows", "--key", "id")
        self.shardctl("merge", "first", "-o", "deep/third", "--by-reference")
        self.assertEqual(self.bases_of("deep/third"), {"plain": self.path("plain"), "first": self.path("first")})
        expected = self.seen("second")
        self.assert_same("deep/third", "first")
        # Another folder with the name of a base, and a column file of its own beside that of a base.
        os.mkdir(self.path("deep", "third", "plain"))
        self.shardctl("columns", "add", "deep/third", "--from", "notes", "--key", "id", "--columns", "note")
        self.shardctl("columns", "add", "first", "--from", "notes", "--key", "id", "--columns", "note")
        self.assert_same("deep/third", "first")
        shutil.rmtree(self.path("first"))
        self.assertEqual(self.seen("second"), expected)
        self.assertIn('in base "first"', self.shardctl("ls", "deep/third", "--values-xxh3", code=3).stderr)
        self.assert_bases_unchanged()

    def test_both_moved_together(self):
        for name, output in (("near", "group/mine"), ("far", "group/one/two/mine")):
            shutil.copytree(self.path("changed"), self.path(name, "group", "base"))
            self.shardctl("merge", f"{name}/group/base", "-o", f"{name}/{output}", "--by-reference")
            os.rename(self.path(name), self.path("moved"))
            if name == "near":
                self.assert_same(f"moved/{output}", "changed")
                os.rename(self.path("moved"), self.path("gone"))
            else:  # out of reach, which has an absolute location
                self.assertIn(f'"{self.path(name)}/group/base", out of reach', self.shardctl("ls", f"moved/{output}", code=3).stderr)

    def test_a_dataset_of_its_own_again(self):
        self.shardctl("filter", "changed", "-o", "mine", "--range", "2:14", "--by-reference")
        self.shardctl("filter", "changed", "-o", "copy", "--range", "2:14")
        self.shardctl("convert", "mine", "--to", "shard", "-o", "whole")
        self.shardctl("merge", "mine", "-o", "linked")
        self.shardctl("merge", "mine", "-o", "copied", "--copy")
        shutil.rmtree(self.path("changed"))
        for name in ("whole", "linked", "copied"):
            self.assertEqual(self.bases_of(name), {})
            self.assert_same(name, "copy")
        self.shardctl("validate", "mine", code=1)

    def test_a_base_that_changed_is_named(self):
        self.shardctl("merge", "changed", "-o", "mine", "--by-reference")
        whole, seen = self.shardctl("validate", "mine", "--json").json()["reports"][0], self.seen("mine")
        self.assertEqual(whole["warnings"], [])
        place = f'base "changed" ({self.path("changed")})'

        def warned():
            [report] = self.shardctl("validate", "mine", "--json", code=None).json()["reports"]
            return report, "".join(warning["message"] for warning in report["warnings"])

        # What readers see is what it was, and a purge takes it away.
        self.shardctl("rm", "changed", "--range", "0:1")
        report, warning = warned()
        self.assertEqual((report["ok"], self.seen("mine")), (True, seen))
        self.assertIn(f"{place}: has generation 6 now, and this dataset was made of 5", warning)
        self.shardctl("compact", "changed", "--purge")
        report, warning = warned()
        self.assertFalse(report["ok"])
        self.assertIn(f"{place}: has generation 7 now", warning)
        messages = "".join(problem["message"] for problem in report["problems"])
        self.assertIn('in base "changed", which was changed, purged or moved', messages)
        self.shardctl("cat", "mine", "--key", "00", "--column", "words", code=3)
        # Another dataset in its place, whose files have the names that are listed.
        for name in os.listdir(self.path("in")):
            self.write(f"in/{name}", f"another {name}")
        shutil.rmtree(self.path("changed"))
        self.pack("in", "changed")
        report, warning = warned()
        self.assertIn(f"{place}: is another dataset than it was", warning)
        run = self.shardctl("cat", "mine", "--key", "00", "--column", "words", code=1)
        self.assertRegex(run.stderr, r'changed/00000000\.shard: is not shard 0 .*in base "changed"')
        os.rename(self.path("changed"), self.path("elsewhere"))
        report, warning = warned()
        self.assertIn(f"{place}: its manifest cannot be read", warning)
        run = self.shardctl("cat", "mine", "--key", "00", "--column", "words", code=3)
        self.assertIn(f"{self.path('changed')}/00000000.shard: ", run.stderr)
        self.assertIn('in base "changed", which was changed, purged or moved', run.stderr)

    def test_errors_name_the_base(self):
        shutil.copytree(self.path("grown"), self.path("b"))
        self.shardctl("merge", "b", "-o", "mine", "--by-reference")
        for name, damage, words in [
                ("dataset-2.columns", lambda path: os.truncate(path, 90), ["cat", "IN", "--sample", "1", "--column", "score"]),
                ("00000000.shard", os.remove, ["index", "IN"]), ("00000000.shard", os.remove, ["merge", "IN", "-o", "out"]),
                ("00000000.shard", os.remove, ["repair", "IN", "-o", "out"])]:
            with self.subTest(words=words):
                shutil.copy(self.path("b", name), self.path("kept"))
                damage(self.path("b", name))
                run = self.shardctl(*["mine" if word == "IN" else word for word in words], code=None)
                self.assertNotEqual(run.code, 0)
                self.assertIn('in base "b"', run.stdout + run.stderr)
                shutil.rmtree(self.path("out"), ignore_errors=True)
                shutil.copy(self.path("kept"), self.path("b", name))

    def test_index_keeps_columns_that_no_shard_has(self):
        self.write("labelled/90.txt", "text")
        self.write("labelled/90.cls", "7")
        self.shardctl("pack", "labelled", "-o", "plain", "--append", "--codec", "txt=none")
        self.shardctl("filter", "plain", "-o", "mine", "--range", "0:1", "--by-reference")
        before = self.seen("mine"), self.shardctl("columns", "mine").stdout
        self.assertIn("cls", before[1])
        self.shardctl("index", "mine")
        self.assertEqual((self.seen("mine"), self.shardctl("columns", "mine").stdout), before)

    def environment(self, value):
        return {"env": dict(ENVIRONMENT, SHARDKIT_ALLOW_BASES=value)}

    def test_out_of_reach(self):
        os.makedirs(self.path("far", "abc"))
        os.rename(self.path("plain"), self.path("far", "abc", "base"))
        self.bases.clear()
        base = self.path("far", "abc", "base")
        self.shardctl("filter", "far/abc/base", "-o", "x/y/mine", "--range", "2:9", "--by-reference")
        self.assertEqual(json.loads(self.read("x/y/mine/dataset.json"))["bases"][0]["location"], base)
        self.shardctl("filter", "far/abc/base", "-o", "x/near", "--range", "2:9", "--by-reference")
        expected = self.seen("x/near")[1]
        for words in (["ls", "x/y/mine"], ["ls", "mine"]):
            run = self.shardctl(*words, code=3, cwd=self.path("x/y") if words[1] == "mine" else self.folder)
            for part in ('base "base"', f'"{base}"', "--allow-base", "SHARDKIT_ALLOW_BASES", "x/y/mine" if words[1] != "mine" else "mine"):
                self.assertIn(part, run.stderr)
        near = self.path("far", "ab")
        for allowed, prefixes in [
                (True, [base]), (True, [base + "/"]), (True, [self.path("far")]), (True, ["/"]), (True, ["far"]), (True, ["x/../far/abc/."]),
                (True, [self.path("x", "y") + "/../../far"]), (True, [near, "s3://bucket", self.path("far", "abc")]), (True, ["/none", "."]),
                (False, [near]), (False, [base + "/00000000.shard"]), (False, [base + "s"]), (False, [self.path("fa")]), (False, ["s3://"]),
                (False, [self.path("far") + "/../x"]), (False, [near, "http://far", "/dev/null"])]:
            with self.subTest(prefixes=prefixes):
                code = 0 if allowed else 3
                options = [word for prefix in prefixes for word in ("--allow-base", prefix)]
                runs = [self.shardctl("ls", "x/y/mine", "--values-xxh3", *options, code=code),
                        self.shardctl("ls", "x/y/mine", "--values-xxh3", code=code, **self.environment(",".join(prefixes))),
                        self.shardctl("ls", "x/y/mine", "--values-xxh3", *options[2:], code=code, **self.environment(prefixes[0]))]
                self.assertEqual([run.stdout for run in runs], [expected if allowed else ""] * 3)
        self.shardctl("ls", "x/y/mine", code=3, **self.environment(""))
        # It is not taken for a folder of files.
        self.assertIn("--allow-base", self.shardctl("pack", "x/y/mine", "-o", "out", code=3).stderr)
        # Every verb that opens the dataset takes it, or refuses the dataset, and a refusal leaves nothing.
        before = self.tree("x")
        for words in [["inspect", "IN"], ["cat", "IN", "--key", "03", "--column", "txt"], ["validate", "IN"], ["unpack", "IN", "-o", "out"],
                      ["convert", "IN", "-o", "out", "--to", "shard"], ["filter", "IN", "--count", "--range", "1:"],
                      ["filter", "IN", "-o", "out", "--range", "1:", "--by-reference"], ["split", "IN", "-o", "out", "--into", "a=50%"],
                      ["merge", "IN", "-o", "out"], ["merge", "IN", "-o", "out", "--by-reference"], ["reshard", "IN", "-o", "out"],
                      ["columns", "IN"], ["history", "IN"], ["diff", "IN", "x/near"], ["plan", "IN"], ["bench", "IN"], ["simulate", "IN"],
                      ["report", "IN", "-o", "out"], ["columns", "add", "IN", "--from", "rows", "--key", "id"], ["columns", "drop", "IN", "score"],
                      ["rm", "IN", "--range", "0:1"], ["index", "IN"], ["repair", "IN", "-o", "out"], ["pack", "more", "--append", "-o", "IN"], ["compact", "IN", "--purge"]]:
            with self.subTest(words=words):
                words = ["x/y/mine" if word == "IN" else word for word in words]
                run = self.shardctl(*words, code=3)
                self.assertIn("--allow-base", run.stderr)
                self.assertEqual((self.tree("x"), os.path.exists(self.path("out"))), (before, False))
                self.shardctl(*words, "--allow-base", self.path("far"), code=1 if words[0] == "diff" and self.tree("x") != before else 0)
                before = self.tree("x")
                shutil.rmtree(self.path("out"), ignore_errors=True)
                if os.path.isfile(self.path("out")):
                    os.remove(self.path("out"))

    def test_mistakes(self):
        for words, says in [
                (["merge", "plain", "-o", "out", "--by-reference", "--copy"], "--by-reference: not with --copy"),
                (["merge", "plain", "-o", "out", "--by-reference", "--shard-size", "1MiB"], "--shard-size: only with --copy"),
                (["filter", "plain", "-o", "out", "--range", "1:", "--by-reference", "--shard-size", "1MiB"], "--shard-size: not with --by-reference"),
                (["filter", "plain", "-o", "out", "--range", "1:", "--by-reference", "--resume"], "--resume: not with --by-reference"),
                (["filter", "plain", "--count", "--range", "1:", "--by-reference"], "--count: not with --by-reference"),
                (["split", "plain", "-o", "out", "--into", "a=1%", "--by-reference", "--block-size", "1MiB"], "--block-size: not with --by-reference"),
                (["split", "plain", "-o", "out", "--into", "a=1%", "--by-reference", "--resume"], "--resume: not with --by-reference"),
                (["ls", "plain", "--allow-base", ""], "must not be empty"), (["ls", "plain", "--allow-base", "a,b"], "cannot have a comma"), (["ls", "plain", "--allow-base"], "the value is missing")]:
            with self.subTest(words=words):
                self.assertIn(says, self.shardctl(*words, code=2).stderr)
                self.assertFalse(os.path.exists(self.path("out")))
        # What no location says, or leads elsewhere by its letters.
        os.makedirs(self.path("real", "deep"))
        shutil.copytree(self.path("plain"), self.path("real", "base"))
        os.symlink(self.path("real", "deep"), self.path("link"))
        odd = os.fsdecode(os.fsencode(self.folder) + b"/b\xff")
        shutil.copytree(self.path("plain"), odd)
        for base, says in ((self.path("link") + "/../base", "where it is not"), (odd, "not UTF-8")):
            run = self.shardctl("merge", base, "-o", "out", "--by-reference", code=2)
            self.assertIn(says, run.stderr)
            self.assertFalse(os.path.exists(self.path("out")))
        # Through a link the new dataset says where the base is, however it is opened.
        self.shardctl("filter", "plain", "-o", "link/mine", "--range", "1:", "--by-reference")
        self.assertEqual(self.shardctl("ls", "real/deep/mine", "--values-xxh3", "--allow-base", self.folder).stdout, self.seen("link/mine")[1])
        self.shardctl("filter", "plain", "-o", "changed", "--range", "1:", "--by-reference", code=2)
        self.shardctl("filter", "plain", "-o", "plain/inside", "--range", "1:", "--by-reference", code=2)
        self.shardctl("filter", "none", "-o", "out", "--range", "1:", "--by-reference", code=3)
        self.assertEqual([name for name in os.listdir(self.folder) if name == "out"], [])
        self.assert_bases_unchanged()
