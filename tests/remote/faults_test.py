#!/usr/bin/env python3
"""Under every fault between the server and the command, what is read is what lies there, or the error says which request failed and how.

SHARDCTL names the command.
"""
import contextlib
import gzip
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest
import zipfile

import servers
from fault_proxy import FaultProxy, Faults, KINDS
from support import RemoteTest

HASTE = {"SHARDKIT_TEST_HASTE": "1"}  # the delays before further attempts, and what is a stall, are a tenth


class FaultsTest(RemoteTest):
    """A web server behind the proxy."""

    @contextlib.contextmanager
    def proxied(self, **faults):
        """The proxy, and the dataset's URL behind it."""
        with servers.plain(self.bucket) as origin, FaultProxy(origin, Faults(**faults)) as proxy:
            yield proxy, proxy.origin + "/data"

    def assert_reads(self, url):
        """Every verb that reads samples gives what the local dataset gives."""
        self.assertEqual(self.run_command("ls", "--values-xxh3", url), self.local)
        value = ("--sample", 7, "--column", "key")
        self.assertEqual(self.run_command("cat", url, *value), self.run_command("cat", self.dataset, *value))
        self.assert_unpacks(url)
        report = json.loads(self.run_command("bench", url, "--epochs", 2, "--memory", "1MiB", "--json"))
        self.assertEqual(report["samples"], 480)

    def test_each_fault_in_one_of_ten_requests(self):
        for kind in KINDS:
            with self.subTest(kind), self.proxied(seed=1, shares={kind: 0.1}, stall=0.3) as (proxy, url):
                self.assert_reads(url)
                self.assertIn(kind, {request.kind for request in proxy.requests}, "no fault happened")

    def test_all_faults_at_once(self):
        for seed in range(2):
            with self.subTest(seed=seed), self.proxied(seed=seed, shares=dict.fromkeys(KINDS, 0.03), stall=0.3, latency=0.002) as (_, url):
                self.assert_reads(url)

    def test_latency_and_a_slow_line(self):
        for faults in ({"latency": 0.05}, {"latency": 0.005, "bandwidth": 2e6}):
            with self.subTest(**faults), self.proxied(**faults) as (_, url):
                self.assert_unpacks(url)
                report = json.loads(self.run_command("bench", url, "--json", "--steps", 4))
                self.assertEqual(report["samples"], 240)

    def test_archives_are_packed_from_where_they_are(self):
        archives = {"files.tar": "w", "files.tar.gz": "w:gz", "stored.zip": zipfile.ZIP_STORED, "deflated.zip": zipfile.ZIP_DEFLATED}
        for name, how in archives.items():
            with tarfile.open(os.path.join(self.bucket, name), how) if "tar" in name else zipfile.ZipFile(os.path.join(self.bucket, name), "w", how) as file:
                for place, _, members in os.walk(self.files):
                    for member in members:
                        path = os.path.join(place, member)
                        (file.add if "tar" in name else file.write)(path, os.path.relpath(path, self.files))
        lines = b"".join(b'{"key": "%d", "text": "%s"}\n' % (i, b"line " * i) for i in range(300))
        for name, content in (("rows.jsonl", lines), ("rows.jsonl.gz", gzip.compress(lines[:9000]) + gzip.compress(lines[9000:]))):
            with open(os.path.join(self.bucket, name), "wb") as file:
                file.write(content)
        # Flipped bytes are not noticed in every part of a tar or a zip, and a server of files must know ranges.
        kinds = [kind for kind in KINDS if kind not in ("flip", "whole")]
        for faults in ({}, {"seed": 3, "shares": dict.fromkeys(kinds, 0.03), "stall": 0.3}):
            for name in [*archives, "rows.jsonl", "rows.jsonl.gz"]:
                with self.subTest(archive=name, **faults), self.proxied(**faults) as (proxy, _), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                    self.run_command("pack", f"{proxy.origin}/{name}", "-o", os.path.join(folder, "remote"))
                    if name.endswith(".zip") and not faults:
                        # The central directory, and one request for each member: all are small.
                        self.assertLess(len(proxy.requests), 2 * 240 + 20)
                    self.run_command("pack", os.path.join(self.bucket, name), "-o", os.path.join(folder, "local"))
                    self.assertEqual(self.run_command("ls", "--values-xxh3", os.path.join(folder, "remote")),
                                     self.run_command("ls", "--values-xxh3", os.path.join(folder, "local")))
                    if name not in archives:
                        continue
                    self.run_command("unpack", os.path.join(folder, "remote"), "-o", os.path.join(folder, "out"))
                    self.assertEqual(subprocess.run(["diff", "-r", self.files, os.path.join(folder, "out")], check=False).returncode, 0)

    def test_shards_are_validated_one_by_one(self):
        shards = sorted(name for name in os.listdir(self.dataset) if name.endswith(".shard"))
        with self.proxied(seed=2, shares=dict.fromkeys(KINDS, 0.03), stall=0.3) as (_, url):
            self.run_command("validate", *(f"{url}/{name}" for name in shards))

    def test_what_stays_broken_is_named(self):
        for kind, code, status in (("slow_down", 3, 503), ("cut", 1, None)):
            with self.subTest(kind), self.proxied(shares={kind: 1}) as (_, url):
                message = self.run_command("inspect", url, code=code, **HASTE)
                self.assert_says(message, url, status)
                self.assertIn("after 8 attempts", message)

    def test_what_is_damaged_at_the_server_is_named(self):
        damaged = os.path.join(self.bucket, "damaged")
        shutil.copytree(self.dataset, damaged)
        self.addCleanup(shutil.rmtree, damaged)
        with open(os.path.join(damaged, "00000002.shard"), "r+b") as file:
            file.seek(60000)
            byte = file.read(1)
            file.seek(60000)
            file.write(bytes([byte[0] ^ 1]))
        with self.proxied() as (proxy, url):
            message = self.run_command("unpack", proxy.origin + "/damaged", "-o", os.path.join(self.folder, "out"), code=1)
            self.assertRegex(message, r"/damaged/00000002\.shard: block 1 .* at byte \d+")

    def test_an_object_that_changes_is_no_mixture(self):
        for after in (1, 3, 7):
            with self.subTest(after=after), self.proxied(change_after=after) as (_, url):
                message = self.run_command("ls", "--values-xxh3", url, code=3)
                if after > 1:  # otherwise two ranges asked for at once are of different objects
                    self.assert_says(message, url, 412)
                self.assertIn("the object has changed since it was opened", message)

    def test_a_server_without_ranges(self):
        with self.proxied(shares={"whole": 1}) as (_, url):
            self.assert_reads(url)  # its files are small enough
        large = os.path.join(self.bucket, "large")
        self.run_command("pack", self.files, "-o", large)
        self.addCleanup(shutil.rmtree, large)
        with self.proxied(shares={"whole": 1}) as (proxy, _):
            message = self.run_command("ls", "--values-xxh3", proxy.origin + "/large", code=3)
            self.assertRegex(message, r"/large/00000000\.shard, bytes \d+-\d+: the server sends the whole object")

    def test_a_stall_without_end_is_left_behind(self):
        # The server never ends them. Two of the seconds for which nothing came are waited for, in place of twenty.
        with self.proxied(seed=1, shares={"stall": 0.02}, stall=1000) as (proxy, url):
            self.assertEqual(self.run_command("ls", "--values-xxh3", url, **HASTE), self.local)
            self.assertIn("stall", {request.kind for request in proxy.requests})


class ThreadsTest(RemoteTest):
    def test_several_commands_at_once(self):
        results = []
        with servers.plain(self.bucket) as origin, FaultProxy(origin, Faults(shares=dict.fromkeys(KINDS, 0.03), stall=0.3)) as proxy:
            threads = [threading.Thread(target=lambda: results.append(self.run_command("ls", "--values-xxh3", proxy.origin + "/data")))
                       for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(results, [self.local] * 4)


if __name__ == "__main__":
    unittest.main()
