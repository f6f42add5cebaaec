"""Recovering damaged shards and datasets: the recovered samples, the reported losses, exit codes."""
import os
import signal
import subprocess
import time

import support
from support import CliTest


class RepairTest(CliTest):
    def setUp(self):
        super().setUp()
        self.many_files("in", count=60)
        self.shardctl("pack", "in", "-o", "out", "--shard-samples", "30", "--block-size", "16KiB")
        self.shards = sorted(name for name in os.listdir(self.path("out")) if name.endswith(".shard"))

    def overwrite(self, name, offset, content):
        with open(self.path(name), "r+b") as file:
            file.seek(offset)
            file.write(content)

    def damage_value(self, key):
        """Overwrites the middle of one sample's file; returns its shard."""
        content = self.read("in", f"{key}.bin")
        for shard in self.shards:
            place = self.read("out", shard).find(content)
            if place >= 0:
                self.overwrite(f"out/{shard}", place + len(content) // 2, b"\xee\xee")
                return f"out/{shard}"
        raise AssertionError(key)

    def keys(self, path):
        return [entry["key"] for entry in self.shardctl("ls", path, "--json").json()["entries"]]

    def test_undamaged(self):
        shard = f"out/{self.shards[0]}"
        run = self.shardctl("repair", shard, "-o", "copy.shard")
        self.assertEqual(run.stderr, "")
        self.assertIn("recovered 30 samples, none lost", run.stdout)
        self.assertEqual(self.read("copy.shard"), self.read(shard))
        self.shardctl("repair", "out", "-o", "again")
        self.assertEqual(self.tree("again"), self.dataset("out"))

    def test_damaged_value_and_mending_the_dataset(self):
        shard = self.damage_value("000040")
        document = self.shardctl("repair", shard, "-o", "fixed.shard", "--json", code=4).json()
        [loss] = document["losses"]
        self.assertIn("000040", loss["keys"])
        self.assertEqual(loss["columns"], ["bin"])
        self.assertEqual(loss["samples"], document["samples_lost"])
        self.assertEqual(document["samples_recovered"] + document["samples_lost"], 30)
        self.assertFalse(document["lossless"])
        os.replace(self.path("fixed.shard"), self.path(shard))
        self.shardctl("validate", "out", code=1)
        self.shardctl("index", "out")
        self.shardctl("validate", "--deep", "out")
        self.assertEqual(self.keys("out"), [f"{i:06}" for i in range(60) if f"{i:06}" not in loss["keys"]])

    def test_keep_samples(self):
        shard = self.damage_value("000040")
        run = self.shardctl("repair", shard, "-o", "fixed.shard", "--keep-samples", code=4)
        self.assertIn('lost sample 10 (key "000040")', run.stderr)
        self.assertIn("recovered 29 samples, 1 lost", run.stdout)
        self.shardctl("validate", "--deep", "fixed.shard")
        self.assertEqual(self.keys("fixed.shard"), [f"{i:06}" for i in range(30, 60) if i != 40])

    def test_cut_short(self):
        shard = f"out/{self.shards[1]}"
        whole = self.read(shard)
        for length in (len(whole) - 1, len(whole) * 2 // 3, 12000):
            with self.subTest(length=length):
                self.write("cut.shard", whole[:length])
                run = self.shardctl("repair", "cut.shard", "-o", "fixed.shard", "--json", code=None)
                document = run.json()
                self.assertEqual(run.code, 0 if document["lossless"] else 4 if document["output"] else 1, str(run))
                self.assertEqual(document["lossless"], length == len(whole) - 1)
                if document["output"]:
                    self.shardctl("validate", "--deep", "fixed.shard")
                    self.assertEqual(self.keys("fixed.shard"), [f"{i:06}" for i in range(30, 30 + document["samples_recovered"])])
                    os.remove(self.path("fixed.shard"))

    def test_header_gone(self):
        shard = f"out/{self.shards[1]}"
        whole = self.read(shard)
        self.overwrite(shard, 0, bytes(64))
        run = self.shardctl("repair", shard, "-o", "fixed.shard")
        self.assertIn("its copy in the footer", run.stderr)
        self.assertEqual(self.read("fixed.shard"), whole)
        os.remove(self.path("fixed.shard"))
        self.overwrite(shard, whole.rindex(b"\x89SHK"), bytes(64))  # and the copy
        # The manifest beside the shard gives the columns, and the id confirms them.
        self.shardctl("repair", shard, "-o", "fixed.shard")
        self.assertEqual(self.read("fixed.shard"), whole)
        os.rename(self.path(shard), self.path("lone.shard"))
        run = self.shardctl("repair", "lone.shard", "-o", "other.shard", code=1)
        self.assertIn("--schema-from", run.stderr)
        self.assertFalse(os.path.exists(self.path("other.shard")))
        for source in ("out", "out/dataset.json", f"out/{self.shards[0]}"):
            with self.subTest(source=source):
                self.shardctl("repair", "lone.shard", "-o", "other.shard", "--schema-from", source)
                self.assertEqual(self.read("other.shard"), whole)
                os.remove(self.path("other.shard"))
        self.shardctl("repair", "lone.shard", "-o", "other.shard", "--schema-from", "in/000000.bin", code=2)
        self.shardctl("repair", "lone.shard", "-o", "other.shard", "--schema-from", "missing", code=3)

    def test_nothing_left(self):
        self.write("noise.shard", os.urandom(20000))
        self.shardctl("repair", "noise.shard", "-o", "fixed.shard", code=1)
        shard = f"out/{self.shards[0]}"
        self.write("head.shard", self.read(shard)[:5000])
        run = self.shardctl("repair", "head.shard", "-o", "fixed.shard", code=1)
        self.assertIn("nothing could be recovered", run.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("fixed")])

    def test_dataset(self):
        self.damage_value("000010")
        os.remove(self.path("out", self.shards[1]))
        run = self.shardctl("repair", "out", "-o", "mended", code=4)
        self.assertIn("the shard is missing", run.stderr)
        self.assertIn("2 of 2 shards damaged", run.stdout)
        self.shardctl("validate", "--deep", "mended")
        document = self.shardctl("repair", "out", "-o", "twice", "--json", code=4).json()
        self.assertEqual([shard["output"] is not None for shard in document["shards"]], [True, False])
        self.assertEqual(document["samples_recovered"] + document["samples_lost"], 60)
        self.assertEqual(self.tree("mended"), self.tree("twice"))
        self.shardctl("repair", "in", "-o", "third", code=3)
        self.assertFalse(os.path.exists(self.path("third")))

    def test_losses_are_listed_up_to_a_hundred(self):
        self.shardctl("synth", "files", "-o", "many", "--count", "260", "--size", "100")
        self.shardctl("pack", "many", "-o", "small", "--block-size", "64")
        shard = "small/" + next(name for name in os.listdir(self.path("small")) if name.endswith(".shard"))
        size = os.path.getsize(self.path(shard))
        offset = 4096
        blocks = self.shardctl("inspect", shard, "--json").json()["blocks"]
        self.assertGreater(blocks, 250)
        for _ in range(0, blocks, 2):
            self.overwrite(shard, offset, b"\0" * 400)  # a header, which the footer has too, and chunks behind it
            offset += 2 * 4096
        self.assertLess(offset, size + 8192)
        run = self.shardctl("repair", shard, "-o", "fixed.shard", code=4)
        self.assertEqual(run.stderr.count(": lost sample"), 100)
        self.assertIn("more losses", run.stderr)
        os.remove(self.path("fixed.shard"))
        document = self.shardctl("repair", shard, "-o", "fixed.shard", "--json", code=4).json()
        self.assertEqual(len(document["losses"]), (blocks + 1) // 2)

    def test_outputs_are_never_written_over(self):
        shard = f"out/{self.shards[0]}"
        self.write("there", "content")
        os.symlink(self.path(shard), self.path("link.shard"))
        self.shardctl("repair", shard, "-o", "there", code=2)
        self.shardctl("repair", shard, "-o", shard, code=2)
        self.shardctl("repair", "link.shard", "-o", shard, code=2)
        self.shardctl("repair", "out", "-o", "out", code=2)
        self.assertEqual(self.read("there"), b"content")
        self.shardctl("validate", "out")

    def test_interrupted(self):
        self.shardctl("synth", "files", "-o", "large", "--count", "300", "--size", "1MiB")
        self.shardctl("pack", "large", "-o", "big")
        shard = next(name for name in os.listdir(self.path("big")) if name.endswith(".shard"))
        process = subprocess.Popen([support.SHARDCTL, "repair", f"big/{shard}", "-o", "fixed.shard"], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and not os.path.exists(self.path("fixed.shard.tmp")):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1].decode()
        self.assertIn(process.returncode, (0, 3), error)
        self.assertFalse(os.path.exists(self.path("fixed.shard.tmp")))
        self.assertEqual(os.path.exists(self.path("fixed.shard")), process.returncode == 0)
        if process.returncode == 3:
            self.assertIn("interrupted", error)

    def test_transcript(self):
        shard = f"out/{self.shards[1]}"
        self.damage_value("000040")
        self.overwrite(shard, os.path.getsize(self.path(shard)) - 4, b"ruin")
        self.write("cut.shard", self.read("out", self.shards[0])[:30000])
        self.golden("repair", [
            self.shardctl("repair", shard, "-o", "fixed.shard", code=4),
            self.shardctl("repair", shard, "-o", "fixed.shard", code=2),
            self.shardctl("repair", shard, "-o", "fixed-2.shard", "--json", code=4),
            self.shardctl("repair", "cut.shard", "-o", "fixed-3.shard", code=4),
            self.shardctl("repair", "cut.shard", "-o", "fixed-4.shard", "--keep-samples", code=4),
            self.shardctl("repair", "out", "-o", "mended", code=4),
            self.shardctl("repair", "missing", "-o", "none", code=3),
        ])
