"""Shared by the tests of this folder: the command, a folder for each test, and datasets as the command lists them."""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SHARDKIT_BUILD_DIR", os.path.join(ROOT, "build"))
SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", os.path.join(BUILD, "tools", "shardctl")))
DATA = os.environ.get("SHARDKIT_TEST_DATA") or os.path.join(os.path.dirname(ROOT), "shared", "data")
# The number of datasets with random columns in each test that makes some.
STEP = int(os.environ.get("SHARDKIT_TEST_STEP", "1"))  # one of so many cases is taken: tests/support/effort.h
ROUNDS = max(40 // STEP, 1)  # datasets with random columns


class InteropTest(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shardkit-interop-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def shardctl(self, *arguments, code=0):
        """stdout of a command that must succeed, or stderr (as text) of a command that must end with another code."""
        done = subprocess.run([SHARDCTL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        self.assertEqual(done.returncode, code, f"shardctl {arguments}: {done.stderr.decode(errors='replace')}")
        return done.stderr.decode() if code else done.stdout

    def convert(self, source, name, to, *options):
        """The path of the dataset `name` that a conversion makes."""
        self.shardctl("convert", source, "-o", self.path(name), "--to", to, *options)
        return self.path(name)

    def refused(self, *arguments):
        """The message of a conversion without an exact counterpart: neither a crash nor a failure of the machine."""
        done = subprocess.run([SHARDCTL, "convert", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300, check=False)
        self.assertIn(done.returncode, (1, 2), done.stderr)
        return done.stderr

    def hashes(self, path):
        """XXH3 of every value, {column: hex or None} for each sample."""
        return [json.loads(line)["columns"] for line in self.shardctl("ls", "--values-xxh3", path).splitlines()]

    def columns(self, path):
        """Name, type, nullability of every column, and which is the key."""
        document = json.loads(self.shardctl("inspect", "--json", path))
        return [{field: column.get(field) for field in ("name", "type", "nullable", "key")} for column in document["columns"]]

    def assert_same_dataset(self, one, other):
        self.assertEqual(self.columns(one), self.columns(other))
        self.assertEqual(self.hashes(one), self.hashes(other))

    def assert_same_files(self, one, other, pattern="*"):
        """Compares the files of two directories whose names match the pattern."""
        names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(one, pattern)))
        self.assertEqual(names, sorted(os.path.basename(path) for path in glob.glob(os.path.join(other, pattern))))
        self.assertTrue(names)
        for name in names:
            with open(os.path.join(one, name), "rb") as file, open(os.path.join(other, name), "rb") as second:
                content, expected = file.read(), second.read()
            if content != expected:
                at = next((i for i, (a, b) in enumerate(zip(content, expected)) if a != b), min(len(content), len(expected)))
                self.fail(f"{one}/{name}: differs from {other} at byte {at} of {len(content)} and {len(expected)}: "
                          f"{content[max(0, at - 40):at + 40]!r} {expected[max(0, at - 40):at + 40]!r}")
