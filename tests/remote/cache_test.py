#!/usr/bin/env python3
"""The cache on local disk, as the command uses it: what it asks the server for, with several processes and through faults.

SHARDCTL names the command.
"""
import concurrent.futures
import contextlib
import http.server
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import unittest

import servers
from fault_proxy import FaultProxy, Faults, KINDS
from support import RemoteTest, taken


class CacheTest(RemoteTest):
    def setUp(self):
        self.cache = tempfile.mkdtemp(prefix="cache-", dir=self.folder)
        self.options = ("--cache", self.cache)

    @contextlib.contextmanager
    def proxied(self, **faults):
        with servers.plain(self.bucket) as origin, FaultProxy(origin, Faults(**faults)) as proxy:
            yield proxy, proxy.origin + "/data"

    def test_the_second_run_asks_for_versions_alone(self):
        stored = sum(os.path.getsize(os.path.join(self.dataset, name)) for name in os.listdir(self.dataset))
        with self.proxied() as (proxy, url):
            self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options), self.local)
            first = sum(request.bytes for request in proxy.requests)
            self.assertLess(first, 1.02 * stored + 32768)
            proxy.requests.clear()
            self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options), self.local)
            again = [request for request in proxy.requests if not request.path.endswith("/dataset.json")]
            self.assertEqual({request.bytes for request in again}, {1})
            self.assertLessEqual(len(again), len(os.listdir(self.dataset)))
            self.assert_unpacks(url, SHARDKIT_CACHE=self.cache)
            report = json.loads(self.run_command("bench", url, "--epochs", 3, "--json", SHARDKIT_CACHE=self.cache))
            self.assertEqual(report["samples"], 720)
            self.assertEqual(report["cache"]["bytes_fetched"], 0)
            self.assertGreater(report["cache"]["bytes_found"], 0.9 * stored)
        self.assertLessEqual(sum(request.bytes for request in proxy.requests), 100_000, "manifests and bytes for versions")

    def test_another_store_or_account_has_another_object(self):
        bytes_of = {"ONE": b"good" * 5000, "TWO": b"evil" * 5000}

        class Store(http.server.BaseHTTPRequestHandler):
            """An object of the same name, size and ETag for everybody, with other bytes for each name of a store or account."""

            def do_GET(self):
                if self.path != "/bucket/x.tar":
                    self.send_error(404)
                    return
                found = re.search("Credential=([A-Z]+)/", self.headers.get("authorization", ""))
                content = bytes_of[found[1] if found else self.server.name]
                first, last = (int(number) for number in re.findall(r"\d+", self.headers["range"]))
                part = content[first:last + 1]
                self.send_response(206)
                for name, value in {"etag": '"1"', "content-length": len(part), "content-range": f"bytes {first}-{last}/{len(content)}"}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(part)

            def log_message(self, *_):
                pass

        def read(origin, **environment):
            return self.run_command("cat", "s3://bucket/x.tar", "--sample", 0, "-c", "txt", *self.options, AWS_ENDPOINT_URL=origin, **environment)[:4]

        for name, letters in bytes_of.items():
            archive = io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w") as tar:
                member = tarfile.TarInfo("a.txt")
                member.size = len(letters)
                tar.addfile(member, io.BytesIO(letters))
            bytes_of[name] = archive.getvalue()
        with servers.http_server(Store, name="ONE") as one, servers.http_server(Store, name="TWO") as two:
            anonymous = {"AWS_NO_SIGN_REQUEST": "1"}
            for _ in range(2):
                self.assertEqual("good", read(one, **anonymous))
                self.assertEqual("evil", read(two, **anonymous))
                self.assertEqual("good", read(one, AWS_ACCESS_KEY_ID="ONE", AWS_SECRET_ACCESS_KEY="K"))
                self.assertEqual("evil", read(one, AWS_ACCESS_KEY_ID="TWO", AWS_SECRET_ACCESS_KEY="K"))

    def test_four_processes_fetch_each_byte_once(self):
        with self.proxied(latency=0.01) as (proxy, url):
            self.run_command("ls", "--values-xxh3", url, "--cache", self.cache + "-alone")
            alone = sum(request.bytes for request in proxy.requests if request.bytes > 1 and "json" not in request.path)
            proxy.requests.clear()
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                reads = [pool.submit(self.run_command, "ls", "--values-xxh3", url, *self.options) for _ in range(4)]
                for read in reads:
                    self.assertEqual(read.result(), self.local)
            together = sum(request.bytes for request in proxy.requests if request.bytes > 1 and "json" not in request.path)
        self.assertLessEqual(together, 1.02 * alone)

    def test_faults(self):
        for seed in range(3):
            with self.subTest(seed=seed), self.proxied(seed=seed, shares=dict.fromkeys(KINDS, 0.03), stall=0.3) as (_, url):
                shutil.rmtree(self.cache)
                for _ in range(2):
                    self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options), self.local)
                report = json.loads(self.run_command("cache", "verify", *self.options, "--json"))
                self.assertEqual(report["damaged"], 0)

    def test_what_arrived_damaged_is_fetched_again_and_replaced(self):
        flips = 0
        for seed in range(3):
            shutil.rmtree(self.cache)
            with self.proxied(seed=seed, shares={"flip": 0.04}) as (proxy, url):
                self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options), self.local)
                flips += sum(request.kind == "flip" for request in proxy.requests)
                proxy.requests.clear()
                self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options), self.local)
                fetched = [request for request in proxy.requests if request.bytes > 1 and not request.path.endswith("/dataset.json")]
                self.assertEqual(fetched, [], "the whole pieces are in the cache now")
        self.assertGreater(flips, 0)

    def test_another_version_is_seen(self):
        moving = os.path.join(self.bucket, "moving")
        self.addCleanup(shutil.rmtree, moving)
        with servers.plain(self.bucket) as origin:
            for count in (240, 200):
                files = os.path.join(self.folder, f"files-{count}")
                self.run_command("synth", "files", "-o", files, "--count", count, "--size", "8KiB", "--seed", count)
                shutil.rmtree(moving, ignore_errors=True)
                self.run_command("pack", files, "-o", moving)
                expected = self.run_command("ls", "--values-xxh3", moving)
                for _ in range(2):
                    self.assertEqual(self.run_command("ls", "--values-xxh3", origin + "/moving", *self.options), expected)

    def test_a_small_limit_is_kept(self):
        with self.proxied() as (_, url):
            for _ in range(3):
                self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options, "--cache-limit", "700KiB"), self.local)
                self.assertLessEqual(taken(self.cache), 700 << 10)
        self.assertGreater(taken(self.cache), 0)

    def test_verbs(self):
        with self.proxied() as (proxy, url):
            self.assertIn("240 samples", self.run_command("cache", "warm", url, *self.options))
            proxy.requests.clear()
            self.assertEqual(self.run_command("ls", "--values-xxh3", url, *self.options), self.local)
            shards = [request.bytes for request in proxy.requests if request.path.endswith(".shard")]
            self.assertEqual(set(shards), {1})
        listed = json.loads(self.run_command("cache", "list", *self.options, "--json"))
        self.assertEqual(listed["bytes"], taken(self.cache))
        self.assertIn(url + "/00000000.shard", [entry["url"] for entry in listed["objects"]])
        self.assertIn(url + "/00000003.shard", self.run_command("cache", "list", *self.options))
        self.assertIn("none damaged", self.run_command("cache", "verify", *self.options))
        line = next(os.path.join(place, names[0]) for place, _, names in os.walk(os.path.join(self.cache, "lines")) if names)
        with open(line, "r+b") as file:
            file.seek(8192 + 100)
            byte = file.read(1)
            file.seek(8192 + 100)
            file.write(bytes([byte[0] ^ 1]))
        self.run_command("cache", "verify", *self.options, code=1)
        self.assertIn("0 objects", self.run_command("cache", "clear", *self.options))
        self.assertEqual(taken(self.cache), 0)

    def test_folders_of_others_are_refused(self):
        os.chmod(self.cache, 0o777)
        with self.proxied() as (_, url):
            self.assertIn("chmod 700", self.run_command("ls", url, *self.options, code=3))


if __name__ == "__main__":
    unittest.main()
