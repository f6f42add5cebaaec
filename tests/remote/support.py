"""Shared by the tests of this folder: the command under a deadline, and a dataset of many small requests."""
import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SHARDKIT_BUILD_DIR", os.path.join(ROOT, "build"))
SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", os.path.join(BUILD, "tools", "shardctl")))
SECONDS = 100  # no command takes longer, whatever the server does
_OWN = ("AWS_", "GOOGLE_", "GS_", "HF_", "STORAGE_", "SSL_CERT", "CURL_CA")
# No proxy, and nobody's credentials.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(_OWN) and not name.lower().endswith("_proxy")}
ENVIRONMENT["AWS_SHARED_CREDENTIALS_FILE"] = ENVIRONMENT["AWS_CONFIG_FILE"] = os.devnull


def shardctl(*arguments, **environment):
    """The finished command."""
    return subprocess.run([SHARDCTL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=SECONDS, check=False, env={**ENVIRONMENT, **environment})


def taken(folder):
    """Bytes that the lines of a cache take on disk, while nobody takes or gives back any: the lock is that of lib/remote/cache/disk_cache.cc."""
    total = 0
    with open(os.path.join(folder, "usage"), "r+b") as usage:
        fcntl.fcntl(usage, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        for place, _, names in os.walk(os.path.join(folder, "lines")):
            total += sum(os.stat(os.path.join(place, name)).st_blocks * 512 for name in names)
    return total


class RemoteTest(unittest.TestCase):
    """`files` are packed in `served`/bucket/data: 240 samples, 60 blocks, six shards."""

    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shardkit-remote-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.files, cls.served = os.path.join(cls.folder, "files"), os.path.join(cls.folder, "served")
        cls.bucket = os.path.join(cls.served, "bucket")
        cls.dataset = os.path.join(cls.bucket, "data")
        for command in (("synth", "files", "-o", cls.files, "--count", 240, "--size", "8KiB"),
                        ("pack", cls.files, "-o", cls.dataset, "--shard-size", "400KiB", "--block-size", "32KiB")):
            done = shardctl(*command)
            assert done.returncode == 0, done.stderr
        cls.local = shardctl("ls", "--values-xxh3", cls.dataset).stdout

    def run_command(self, *arguments, code=0, **environment):
        """stdout of a command that must succeed, or stderr of one that must end with another code."""
        done = shardctl(*arguments, **environment)
        self.assertEqual(done.returncode, code, f"shardctl {arguments}: {done.stderr}")
        for secret in ("SECRETKEY", "signature", "Bearer"):
            self.assertNotIn(secret, done.stderr)
        return done.stderr if code else done.stdout

    def assert_unpacks(self, url, **environment):
        """What `unpack` writes is what was packed."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            self.run_command("unpack", url, "-o", os.path.join(folder, "out"), **environment)
            self.assertEqual(subprocess.run(["diff", "-r", self.files, os.path.join(folder, "out")], check=False).returncode, 0)

    def assert_says(self, message, url, status=None):
        """The message of a request that failed names its URL, range, status and identity."""
        self.assertRegex(message, re.escape(url) + r"[^ ]*, bytes \d+-\d+: ")
        if status is not None:
            self.assertRegex(message, rf"status {status}\b.*\(request id proxy-[0-9a-f]+\)")


if __name__ == "__main__":
    sys.exit("the tests are in *_test.py")
