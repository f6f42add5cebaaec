#!/usr/bin/env python3
"""Kills `shardctl pack` again and again. Whatever is left, no incomplete dataset looks complete, and a later run
finishes with the same bytes.

SHARDCTL names the program. SHARDKIT_KILLS (100) is the number of kills.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SHARDCTL = os.environ.get("SHARDCTL", "shardctl")
KILLS = int(os.environ.get("SHARDKIT_KILLS", "100"))
SAMPLES = 1500
SEED = 20240607
JOB = ".shardkit/job.json"
LOCK = ".shardkit/lock"


def make_tree(directory):
    """Two files per sample, a few hundred bytes each."""
    generator = random.Random(SEED)
    for i in range(SAMPLES):
        folder = directory / f"{i // 200:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"s{i:05}.bin").write_bytes(generator.randbytes(generator.randrange(50, 400)))
        (folder / f"s{i:05}.txt").write_text(f"sample {i}\n" * generator.randrange(5))


def digests(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class KillTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # In memory if possible. A kill loses no written data, so the disk does not matter, and its flushes would take
        # nearly all of the time. SHARDKIT_KILL_DIR chooses another place.
        place = os.environ.get("SHARDKIT_KILL_DIR") or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardkit-kill-", dir=place))
        cls.input = cls.folder / "in"
        make_tree(cls.input)
        cls.undisturbed = cls.folder / "undisturbed"
        times = []
        for _ in range(3):
            shutil.rmtree(cls.undisturbed, ignore_errors=True)
            start = time.monotonic()
            result = subprocess.run(cls.command(cls.undisturbed), capture_output=True, text=True)
            times.append(time.monotonic() - start)
            if result.returncode != 0:
                raise RuntimeError(f"pack failed: {result.returncode} {result.stderr}")
        cls.duration = sorted(times)[1]
        cls.expected = digests(cls.undisturbed)
        assert len(cls.expected) > 50, "many shards are wanted"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def command(cls, output, *more, threads=2):
        return [
            SHARDCTL, "pack", "--from", "files", str(cls.input), "-o", str(output), "--shard-samples", "20",
            "--block-size", "1KiB", "-j", str(threads), *more,
        ]  # fmt: skip

    def run_pack(self, output, *more, code=0):
        result = subprocess.run(self.command(output, *more), capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def interrupt(self, output, delay, number, *more):
        """Starts packing and sends the signal after `delay` seconds, or when the file `delay` exists.

        Returns the exit code and stderr.
        """
        process = subprocess.Popen(self.command(output, *more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if isinstance(delay, pathlib.Path):
            while not delay.exists() and process.poll() is None:
                time.sleep(0.0005)
        else:
            time.sleep(delay)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors

    def check_nothing_or_whole(self, output):
        """True when there is a dataset."""
        if not (output / "dataset.json").exists():
            return False
        result = subprocess.run([SHARDCTL, "validate", str(output)], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads((output / "dataset.json").read_text())["samples"], SAMPLES)
        return True

    def moments(self, count, salt):
        """Random times spread over the whole run and a little beyond, one in each slice."""
        generator = random.Random(SEED + salt)
        return [(i + generator.random()) / count * self.duration * 1.1 for i in range(count)]

    def test_sigkill(self):
        output = self.folder / "out"
        midway = taken_up = 0
        for i, delay in enumerate(self.moments(KILLS, 1)):
            with self.subTest(kill=i, delay=delay):
                shutil.rmtree(output, ignore_errors=True)
                code, errors = self.interrupt(output, delay, signal.SIGKILL)
                self.assertIn(code, (0, -signal.SIGKILL), errors)
                whole = self.check_nothing_or_whole(output)
                if code == 0:
                    self.assertTrue(whole)
                shards = sorted(output.glob("*.shard")) if output.exists() else []
                midway += bool(shards) and not whole
                if i % 4 == 3 and not whole:
                    # Without --resume, the leftovers are removed.
                    self.run_pack(output)
                else:
                    # The first shard is not written again, because it was finished.
                    before = os.stat(shards[0]).st_ino if len(shards) > 1 else None
                    self.run_pack(output, "--resume")
                    if before is not None:
                        self.assertEqual(os.stat(shards[0]).st_ino, before)
                        taken_up += 1
                self.assertEqual(digests(output), self.expected)
        # Many kills must hit the middle of a run, or nothing was tested. Their number depends on the machine's other work.
        self.assertGreater(midway, KILLS // 10)
        self.assertGreater(taken_up, KILLS // 20)

    def test_killed_again_and_again(self):
        output = self.folder / "again"
        generator = random.Random(SEED + 2)
        for _ in range(8):
            self.interrupt(output, self.duration * generator.uniform(0.2, 0.7), signal.SIGKILL, "--resume")
            self.check_nothing_or_whole(output)
        self.run_pack(output, "--resume")
        self.assertEqual(digests(output), self.expected)

    def test_signals_that_ask_to_stop(self):
        stopped = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            for delay in self.moments(8, number):
                with self.subTest(signal=number, delay=delay):
                    output = self.folder / f"asked-{number}"
                    shutil.rmtree(output, ignore_errors=True)
                    code, errors = self.interrupt(output, delay, number)
                    if code == 0:
                        self.assertEqual(digests(output), self.expected)
                        continue
                    # Before the program handles signals, they end it in the usual way.
                    if code != -number:
                        self.assertEqual(code, 3, errors)
                        self.assertIn("interrupted", errors)
                        stopped += 1
                    self.assertFalse(output.exists(), list(output.glob("*")) if output.exists() else None)
        self.assertGreater(stopped, 0)

    def test_with_resume_a_signal_keeps_what_is_finished(self):
        output = self.folder / "kept"
        kept = 0
        for count in (1, 10, 25, 40, 55, 70):
            with self.subTest(shards=count):
                shutil.rmtree(output, ignore_errors=True)
                code, errors = self.interrupt(output, output / f"{count:08}.shard", signal.SIGTERM, "--resume")
                self.assertIn(code, (0, 3, -signal.SIGTERM), errors)
                kept += code == 3 and any(output.glob("*.shard"))
                self.assertFalse(list(output.glob("*.tmp")))
                self.run_pack(output, "--resume")
                self.assertEqual(digests(output), self.expected)
        self.assertGreater(kept, 1)

    def test_two_packers_on_one_output(self):
        output = self.folder / "two"
        # The first process is stopped in the middle, so that it cannot finish.
        for _ in range(20):
            first = subprocess.Popen(self.command(output), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and not (output / "00000000.shard").exists() and first.poll() is None:
                time.sleep(0.0005)
            first.send_signal(signal.SIGSTOP)
            if first.poll() is None and (output / JOB).exists() and not (output / "dataset.json").exists():
                break
            first.send_signal(signal.SIGCONT)
            first.communicate(timeout=60)
            shutil.rmtree(output, ignore_errors=True)
        else:
            self.fail("the packer is always done before it can be stopped")
        try:
            for more in ([], ["--resume"]):
                second = self.run_pack(output, *more, code=3)
                self.assertIn("another run", second.stderr)
        finally:
            first.send_signal(signal.SIGCONT)
            _, errors = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 0, errors)
        self.assertEqual(digests(output), self.expected)
        third = subprocess.run(self.command(output), capture_output=True, text=True)
        self.assertNotEqual(third.returncode, 0)
        self.assertIn("already holds a dataset", third.stderr)
        self.assertFalse((output / LOCK).exists())

    def test_many_packers_at_once(self):
        """Only one writes at a time. None removes another's shards as leftovers."""
        output = self.folder / "many"
        for _ in range(3):
            shutil.rmtree(output, ignore_errors=True)
            processes = []
            for i in range(6):
                more = ["--resume"] if i % 2 else []
                processes.append(
                    subprocess.Popen(
                        self.command(output, *more, threads=1), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
                    )
                )
                time.sleep(self.duration / 4)
            codes = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
            self.assertIn(0, [code for _, code in codes], codes)
            self.assertEqual(digests(output), self.expected, codes)


if __name__ == "__main__":
    if shutil.which(SHARDCTL) is None:
        sys.exit(f"{SHARDCTL} is no program; set SHARDCTL")
    unittest.main(verbosity=2)
