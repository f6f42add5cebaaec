"""Wrong words on the command line: exit code 2, a message that names the word, no effects."""
import os

from support import CliTest

SIZES = {
    "1": 1, "1B": 1, "4KiB": 4096, "4 KiB": 4096, "4kib": 4096, "4KB": 4000, "4kB": 4000, "1MB": 10**6,
    "1MiB": 2**20, "2GB": 2 * 10**9, "2GiB": 2**31, "1TB": 10**12, "1TiB": 2**40, "0.5KiB": 512, "1.5GiB": 3 * 2**29,
    "1.25KB": 1250, "1.000B": 1, "18446744073709551615": 2**64 - 1, "007": 7,
}
NO_SIZES = ["", "-1", "+1", "1.5", "1.5B", "0.3KiB", "1.2345KB", ".5KiB", "1.KiB", "KiB", "1K", "1M", "1PiB", "1e3", "0x10",
            "1 2", "1  KiB", " 1", "1KiB ", "18446744073709551616", "16777216TiB", "99999999999999999999", "1,5KiB", "∞"]


class UsageTest(CliTest):
    def usage_error(self, *arguments, says):
        run = self.shardctl(*arguments, code=2)
        self.assertEqual(run.stdout, "", str(run))
        self.assertIn(says, run.stderr, str(run))
        self.assertTrue(run.stderr.startswith("shardctl"), str(run))
        self.assertFalse(os.path.exists(self.path("out")), f"{run}\nmade its output all the same")

    def test_unknown_commands(self):
        for verb in ("mend", "Pack", "pac", "--json", "-x", ""):
            with self.subTest(verb=verb):
                self.usage_error(verb, "x", says="unknown command" if verb == "mend" else "shardctl")
        self.usage_error(says="a command is missing")

    def test_unknown_options(self):
        for verb in ("pack", "index", "ls", "inspect", "cat", "validate", "repair", "unpack", "convert", "filter", "split", "merge", "reshard", "plan", "bench",
                     "synth sa1b", "synth files"):
            with self.subTest(verb=verb):
                self.usage_error(*verb.split(), "x", "-o", "out", "--nonsense", says="--nonsense" if "index" not in verb
                                 and verb not in ("ls", "inspect", "validate", "plan", "bench") else "unknown option")

    def test_options_given_twice(self):
        self.usage_error("pack", "in", "-o", "out", "-o", "out", says="--output is given more than once")
        self.usage_error("pack", "in", "-o", "out", "--json", "--json", says="--json is given more than once")
        self.usage_error("pack", "in", "-o", "out", "-j", "1", "--jobs=2", says="--jobs is given more than once")
        self.usage_error("ls", "x", "--limit", "1", "--limit", "1", says="--limit is given more than once")
        self.usage_error("pack", "in", "-o", "out", "--codec", "a=none", "--codec", "a=zstd", says="named twice")

    def test_values_missing_or_wrong(self):
        for words, says in [
                (["pack", "in", "-o"], "the value is missing"), (["pack", "in", "--output="], "the value is missing"),
                (["pack", "in", "-o", ""], "must not be empty"), (["pack", "in"], "-o OUT is missing"),
                (["pack", "-o", "out"], "INPUT is missing"), (["pack", "", "-o", "out"], "must not be empty"),
                (["pack", "in", "-o", "out", "--file", "=image"], "is not COLUMN or COLUMN=NAME"),
                (["pack", "in", "-o", "out", "--file", "a", "--root", "x", "--root", "y"], "--root is given more than once"),
                (["ls"], "PATH is missing"), (["ls", "a", "b"], 'unexpected argument "b"'),
                (["unpack", "x"], "-o DIR is missing"), (["cat", "x", "--sample", "0"], "--column is missing"),
                (["repair", "x"], "-o OUT is missing"), (["repair", "-o", "out"], "PATH is missing"),
                (["cat", "x", "--column", "c"], "--sample or --key is missing"),
                (["cat", "x", "--column", "c", "--sample", "0", "--key", "k"], "cannot be combined"),
                (["inspect", "x", "--sample", "0", "--key", "k"], "cannot be combined"),
                (["inspect", "x", "--sample", "0", "--block", "0"], "at once"),
                (["ls", "x", "--shards", "--long"], "cannot be combined"),
                (["ls", "x", "--values-xxh3", "--json"], "cannot be combined"),
                (["pack", "in", "-o", "out", "--json=no"], "takes no value"),
                (["filter", "x", "-o", "out"], "nothing says which samples"),
                (["filter", "x", "--where", "a = 1"], "-o OUT is missing, or --count"),
                (["filter", "x", "--count", "--where", "a = 1", "-o", "out"], "-o: not with --count"),
                (["filter", "x", "--count", "--sample", "0%"], "give a share as 10% or 0.1"),
                (["filter", "x", "--count", "--sample", "101%"], "--sample: "),
                (["filter", "x", "--count", "--where", "a = 1", "--seed", "1"], "--seed: only with --sample"),
                (["filter", "x", "--count", "--range", "3:1"], "--range: "),
                (["filter", "x", "--count", "--range", ","], "--range: is empty"),
                (["split", "x", "-o", "out"], "--into is missing"), (["split", "x", "--into", "a=1%"], "-o DIR is missing"),
                (["split", "x", "-o", "out", "--into", "train"], "is not NAME=SHARE"),
                (["split", "x", "-o", "out", "--into", "train=all"], "give a share"),
                (["synth"], "missing"), (["synth", "mds"], "is not one of sa1b, files"),
                (["synth", "files"], "-o DIR is missing"), (["merge", "-o", "out"], "DATASET is missing"),
                (["merge", "x"], "-o OUT is missing"), (["merge", "x", "-o", "out", "--resume"], "--resume: only with --copy"),
                (["merge", "x", "-o", "out", "--repeated-keys", "drop"], "--repeated-keys"),
                (["reshard", "x"], "-o OUT is missing"), (["reshard", "x", "y", "-o", "out"], "unexpected argument"),
                (["reshard", "x", "-o", "out", "--seed", "1"], "--seed: only with --shuffle"),
                (["reshard", "x", "-o", "out", "--scratch", "."], "--scratch: only with --shuffle"),
                (["reshard", "x", "-o", "out", "--block-size", "0"], "--block-size: must not be 0")]:
            with self.subTest(words=words):
                self.usage_error(*words, says=says)

    def test_numbers_out_of_range(self):
        for option, value in [("--jobs", "0"), ("--jobs", "-1"), ("--jobs", "1025"), ("--jobs", "two"), ("--jobs", "1.0"),
                              ("--shard-samples", "0"), ("--shard-samples", "4294967296"), ("--block-size", "0"),
                              ("--shard-size", "0"), ("--codec", "a"), ("--codec", "=none"),
                              ("--codec", "a=lz4"), ("--codec", "a=zstd:0"), ("--codec", "a=zstd:23"),
                              ("--codec", "a=none:3"), ("--dictionary", "a=0"), ("--dictionary", "a=2MiB"),
                              ("--dictionary", "=4KiB"), ("--storage", "a"), ("--storage", "=blob"), ("--storage", "a=fixed"),
                              ("--metadata", "license"), ("--metadata", "=x"), ("--metadata", "shardkit.source=x"),
                              ("--on-error", "ignore")]:
            with self.subTest(option=option, value=value):
                self.usage_error("pack", "in", "-o", "out", f"{option}={value}", says=option)
        for value in ("2", "2/2", "0/0", "-1/2", "1/2/3"):
            with self.subTest(task=value):
                self.usage_error("pack", "-o", "out", f"--task={value}", says="--task")
                self.usage_error("convert", "in", "-o", "out", "--to", "shard", f"--task={value}", says="--task")
                self.usage_error("validate", "in", f"--task={value}", says="--task")
        self.usage_error("plan-pack", "in", "-o", "out", says="--tasks is missing")
        self.usage_error("plan-pack", "in", "-o", "out", "--tasks", "0", says="--tasks")

    def test_tasks_take_everything_else_from_the_plan(self):
        for words, says in [(["--task", "0/2", "in"], "the plan in OUT names the inputs"),
                            (["--finish", "in"], "the plan in OUT names the inputs"), (["--finish", "--task", "0/2"], "not with"),
                            (["--task", "0/2", "--block-size", "1MiB"], "--block-size: not with --task"),
                            (["--finish", "--on-error", "skip"], "--on-error: not with --finish")]:
            with self.subTest(words=words):
                self.usage_error("pack", "-o", "out", *words, says=says)

    def test_unknown_sources_list_those_there_are(self):
        self.usage_error("pack", "in", "-o", "out", "--from", "ffcv", says="auto, files, imagefolder, sa1b, coco, jsonl, table, webdataset, mds")

    def test_sizes(self):
        # The size of the generated file shows how the text was parsed. Sizes too large for that must only be accepted.
        for text, size in SIZES.items():
            if size > 2**21:
                continue
            with self.subTest(text=text):
                folder = f"sized-{len(os.listdir(self.folder))}"
                self.shardctl("synth", "files", "--count", 1, "--size", text, "-o", folder)
                made = [os.path.join(at, name) for at, _, names in os.walk(self.path(folder)) for name in names]
                self.assertEqual([os.path.getsize(path) for path in made], [size])
        for text, size in SIZES.items():
            if size > 2**21:
                with self.subTest(text=text):
                    self.shardctl("pack", "missing", "-o", "out", "--shard-size", text, code=3)

    def test_no_sizes(self):
        for text in NO_SIZES:
            with self.subTest(text=text):
                self.usage_error("pack", "in", "-o", "out", f"--shard-size={text}", says="--shard-size")

    def test_ranges(self):
        for text in ("3", "3:2", "a:b", "-1:2", "1:2:3", "1-2", "0x1:2"):
            with self.subTest(text=text):
                self.usage_error("unpack", "x", "-o", "out", "--samples", text, says="--samples")

    def test_words_behind_two_dashes_are_arguments(self):
        run = self.shardctl("ls", "--", "--limit", code=3)
        self.assertIn("--limit", run.stderr)

    def test_paths_that_look_like_lists(self):
        os.rename(self.path(self.pack_small_files()), self.path("[a,b]"))
        self.assertEqual(len(self.shardctl("ls", "[a,b]").stdout.splitlines()), 5)

    def test_control_characters_in_messages_are_escaped(self):
        run = self.shardctl("ls", "no\x1b[31m\nsuch", code=3)
        self.assertNotIn("\x1b", run.stderr)
        self.assertIn("no\\x1b[31m\\nsuch", run.stderr)

    def test_version(self):
        lines = self.shardctl("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^shardctl \d+\.\d+\.\d+$")
        for library in ("zstd", "xxhash", "simdjson", "libarchive", "abseil"):
            self.assertRegex(lines[1], rf"\b{library} \d")
