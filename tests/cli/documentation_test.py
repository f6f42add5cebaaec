"""The manual and the completions have what the help has. README.md and docs/ show valid commands."""
import os
import re
import shlex
import shutil
import subprocess
import sys

import support
from support import CliTest

sys.path.insert(0, os.path.join(support.ROOT, "tests", "docs"))
import documents

VERBS = ["pack", "plan-pack", "index", "diff", "history", "ls", "inspect", "view", "report", "cat", "validate", "repair", "unpack", "columns", "columns add", "columns drop", "columns rename", "columns set", "convert", "filter", "split", "merge", "rm", "compact", "reshard", "plan", "simulate", "bench", "cache", "uploads", "synth sa1b", "synth files"]
TOOLS = os.path.join(support.ROOT, "tools")
MANUAL = os.path.join(os.path.dirname(support.SHARDCTL), "shardctl.1")


class DocumentationTest(CliTest):
    def options(self, verb):
        """Long options of a verb, as its help lists them."""
        text = self.shardctl(*verb.split(), "--help").stdout
        options = re.findall(r"^  (?:-\w,|   ) (--[a-z0-9-]+)", text, re.MULTILINE)
        self.assertIn("--help", options)
        return options

    def test_help_has_summary_options_and_examples(self):
        for verb in VERBS + ["synth"]:
            with self.subTest(verb=verb):
                lines = self.shardctl(*verb.split(), "--help").stdout.splitlines()
                self.assertTrue(lines[0].startswith(f"shardctl {verb} - "), lines[0])
                for heading in ("Options:", "Examples:"):
                    self.assertIn(heading, lines)
                self.assertLessEqual(max(map(len, lines)), 120)
        listed = re.findall(r"^  ([a-z-]+) {2,}", self.shardctl("--help").stdout, re.MULTILINE)
        self.assertEqual(listed, ["pack", "plan-pack", "index", "diff", "history", "ls", "inspect", "view", "report", "cat", "validate", "repair", "unpack", "columns", "convert", "filter", "split", "merge", "rm", "compact", "reshard", "plan", "simulate", "bench", "cache", "uploads", "synth"])

    def test_manual_has_every_command_and_option(self):
        with open(MANUAL, encoding="utf-8") as file:
            page = re.sub(r"\\f[BIR]", "", file.read().replace("\\-", "-"))
        sections = dict(re.findall(r'^\.SH "?([A-Z0-9 -]+)"?\n(.*?)(?=^\.SH |\Z)', page, re.MULTILINE | re.DOTALL))
        self.assertEqual([verb for verb in map(str.lower, sections) if verb in VERBS], sorted(VERBS, key=VERBS.index))
        for verb in VERBS:
            self.assertIn(f"shardctl {verb} ", sections["SYNOPSIS"])
            for option in self.options(verb):
                if option != "--help":
                    with self.subTest(verb=verb, option=option):
                        self.assertRegex(sections[verb.upper()], re.escape(option) + r"\b")
        self.assertRegex(sections["OPTIONS"], r"--help\b(.|\n)*--version\b")

    def test_manual_has_no_errors(self):
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        done = subprocess.run(["man", "-l", "--warnings", MANUAL], check=False,
                              env=dict(os.environ, MANROFFSEQ="", LC_ALL="C.UTF-8", MANWIDTH="100"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if done.returncode != 0:
            self.skipTest(f"man cannot run here: {done.stderr.decode()[:200]}")
        self.assertEqual(done.stderr.decode(), "")
        # As the help has them: roff has taken none of their characters for its own.
        shown = done.stdout.decode()
        for line in ("put this many samples in each shard", "  masks, masks:KIND              masks to pixels", "diff <(shardctl ls --values-xxh3 a) <(shardctl ls --values-xxh3 b)", '{"id": "a/001", "score": 0.73}'):
            self.assertIn(line, shown)

    def test_bash_completion(self):
        script = os.path.join(TOOLS, "completions", "shardctl.bash")
        for verb in VERBS:
            with self.subTest(verb=verb):
                self.assertEqual(sorted(self.complete(script, *verb.split(), "--")), sorted(self.options(verb)))
        self.assertEqual(self.complete(script, "in"), ["index", "inspect"])
        self.assertEqual(self.complete(script, "--"), ["--help", "--version"])
        self.assertEqual(self.complete(script, "synth", "sa"), ["sa1b"])
        self.assertEqual(self.complete(script, "columns", "d"), ["drop"])
        self.assertEqual(self.complete(script, "cache", "v"), ["verify"])
        self.assertEqual(self.complete(script, "plan", "--order", "s"), ["sequential", "shuffled"])
        self.assertEqual(self.complete(script, "pack", "--from", "im"), ["imagefolder"])
        self.assertEqual(self.complete(script, "bench", "--decode", "m"), ["masks"])
        self.assertEqual(self.complete(script, "pack", "--shard-size", "o"), [])
        self.pack_small_files()
        self.assertEqual(self.complete(script, "cat", "out", "--column", "j"), ["jpg", "json"])
        self.assertEqual(self.complete(script, "cat", "o"), ["out"])
        self.assertEqual(self.complete(script, "columns", "o"), ["out"])
        self.assertEqual(self.complete(script, "pack", "-o", "ou"), ["out"])

    def complete(self, script, *words):
        shell = (f"source '{script}'; COMP_WORDS=('{support.SHARDCTL}' {' '.join(words)}); COMP_CWORD={len(words)}; _shardctl 2>/dev/null;"
                 'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", shell], cwd=self.folder, check=True, stdout=subprocess.PIPE, timeout=60)
        return sorted(done.stdout.decode().split())

    def test_completions_say_what_a_word_means(self):
        self.assertIn("cat\twrite one value to standard output or a file\n", self.shardctl("complete", "").stdout)
        self.assertRegex(self.shardctl("complete", "cat", "--").stdout, r"(?m)^--column\t\w+")

    def test_zsh_and_fish_completion(self):
        for shell, name in (("zsh", "_shardctl"), ("fish", "shardctl.fish")):
            if shutil.which(shell) is not None:
                subprocess.run([shell, "-n", os.path.join(TOOLS, "completions", name)], check=True, timeout=60)
        if shutil.which("fish") is not None:
            script = (f"source {TOOLS}/completions/shardctl.fish; set PATH {os.path.dirname(support.SHARDCTL)} $PATH;"
                      "complete -C 'shardctl plan --order s'; complete -C 'shardctl in'")
            done = subprocess.run(["fish", "--no-config", "-c", script], cwd=self.folder, check=True, stdout=subprocess.PIPE, timeout=60)
            self.assertEqual([line.split("\t")[0] for line in done.stdout.decode().splitlines()],
                             ["sequential", "shuffled", "index", "inspect"])

    def documented(self):
        """(document, line, words) of each call of shardctl that README.md and docs/ show."""
        for name in documents.NAMES:
            for line, command in documents.commands(name):
                for call in re.findall(r"(?<![-\w.])shardctl ((?:'[^']*'|[^|&;<>()'])*)", command):
                    yield name, line, shlex.split(call)

    def test_documented_commands_are_understood(self):
        calls = list(self.documented())
        self.assertLess(20, len(calls))
        for name, line, words in calls:
            with self.subTest(document=name, line=line, words=words):
                # The inputs do not exist, so the commands fail, but never with a usage error.
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)
                if words[:2] == ["synth", "sa1b"]:
                    words = words + ["--width", "64", "--height", "48", "--max-objects", "1", "--min-objects", "1"]
                self.assertNotEqual(self.shardctl(*words, code=None).code, 2)

    def test_tour(self):
        self.check_output(next(text for _, text in documents.blocks("README.md", "console") if "synth sa1b" in text))

    def test_life(self):
        photos = os.path.join(support.DATA, "photos")
        if not os.path.isdir(photos):
            self.skipTest(f"no real data: {photos} is missing")
        names = sorted(os.listdir(photos))
        for folder, chosen in (("monday", names[:24]), ("tuesday", names[24:36])):
            os.mkdir(self.path(folder))
            for name in chosen:
                shutil.copyfile(os.path.join(photos, name), self.path(folder, name))
        for _, block in documents.blocks("docs/life.md", "console"):
            self.check_output(block)

    def check_output(self, block):
        """A document shows the real output, except times and sizes (they depend on zstd); "…" stands for omitted text."""
        def plain(text):
            return re.sub(r" +", " ", re.sub(r"~?\b\d+\.\d+(?: [MK]iB)?|~?\b\d+ B\b", "N", text))

        path = f"{os.path.dirname(support.SHARDCTL)}:{os.environ['PATH']}"
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            with self.subTest(command=command):
                done = subprocess.run(["bash", "-c", command], cwd=self.folder, stdin=subprocess.DEVNULL, check=False,
                                      env=dict(os.environ, PATH=path, LC_ALL="C.UTF-8"), timeout=support.TIMEOUT,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                pattern = "".join("(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*")
                                  for line in plain(shown).splitlines(keepends=True))
                self.assertRegex(plain(done.stdout.decode()), rf"\A{pattern}\Z")

    def test_documented_options_exist(self):
        options = {verb: self.options(verb) for verb in VERBS}
        every = {option for known in options.values() for option in known} | {"--version"}
        for name in documents.NAMES:
            text = re.sub(r"^```.*?^```$", "", documents.read(name), flags=re.MULTILINE | re.DOTALL)
            for code in re.findall(r"`([^`\n]+)`", text):
                call = re.match(r"shardctl ([a-z0-9 ]*[a-z0-9])?", code)
                verb = next((verb for verb in VERBS if call and f"{call[1]} ".startswith(verb + " ")), None)
                known = options.get(verb, every)
                if call or code.startswith("--"):
                    for option in re.findall(r"(?<!\S)--[a-z0-9-]+", code):
                        self.assertIn(option, known, f"{name}: {code}")
