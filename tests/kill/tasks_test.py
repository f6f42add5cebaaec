#!/usr/bin/env python3
"""Kills tasks of packing and converting at random, and runs copies of them at once. The dataset is the one that is made at once, byte for
byte, and nothing else is left.

SHARDCTL names the program. SHARDKIT_TASK_KILLS (200) is the number of kills.
"""

import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL", "shardctl"))
KILLS = int(os.environ.get("SHARDKIT_TASK_KILLS", "200"))
SEED = 20261123
OPTIONS = ["--shard-size", "64KiB", "--block-size", "8KiB"]
TASKS = 5


def make_tree(directory):
    generator = random.Random(SEED)
    for i in range(3000):
        folder = directory / f"{i // 500:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"s{i:05}.bin").write_bytes(generator.randbytes(generator.randrange(200, 3000)))


def tree(directory):
    """Every file, with the hash of its bytes, and every folder."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in directory.rglob("*")
    }


class TasksTest(unittest.TestCase):
    def setUp(self):
        # As in kill_test: the flushes of a disk would take most of the time.
        place = os.environ.get("SHARDKIT_KILL_DIR") or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardkit-tasks-", dir=place))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.generator = random.Random(SEED)
        make_tree(self.folder / "in")
        self.run_one("pack", "in", "-o", "whole", *OPTIONS, "-j", "2")
        self.expected = tree(self.folder / "whole")
        self.assertGreater(len(self.expected), 50)

    def start(self, *words):
        return subprocess.Popen([SHARDCTL, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_one(self, *words, code=0):
        process = self.start(*words)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, f"{words}: {errors}")
        return errors

    def disturb(self, kills, command, finish, duration):
        """Runs tasks, two or three at a time and perhaps the same ones, and kills most of them, until `kills` were hit in their midst."""
        hit = tries = 0
        while hit < kills:
            tries += 1
            self.assertLess(tries, 50 * kills, "tasks end too early to be killed")
            processes = [self.start(*command(self.generator.randrange(TASKS))) for _ in range(self.generator.randrange(1, 4))]
            if self.generator.random() < 0.2:
                processes.append(self.start(*finish))
            for process in processes:
                time.sleep(self.generator.random() * duration / TASKS)
                process.send_signal(self.generator.choice((signal.SIGKILL, signal.SIGTERM)))
            for process in processes:
                _, errors = process.communicate(timeout=60)
                self.assertIn(process.returncode, (0, 2, 3, -signal.SIGKILL, -signal.SIGTERM), errors)
                if process.returncode == 2:
                    self.assertIn("units are missing", errors)
                hit += process.returncode not in (0, 2)
            if (self.folder / "out" / "dataset.json").exists():
                return hit
        return hit

    def test_tasks(self):
        kills = rounds = 0
        generator = self.generator
        while kills < KILLS:
            with self.subTest(round=rounds):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                plan = ("plan-pack", "in", "-o", "out", *OPTIONS, "--tasks", str(TASKS))
                for _ in range(generator.randrange(3)):
                    process = self.start(*plan)
                    time.sleep(generator.random() * 0.05)
                    process.kill()
                    _, errors = process.communicate(timeout=60)
                    kills += process.returncode != 0
                if not (self.folder / "out/.shardkit/job.json").exists():
                    self.run_one(*plan)
                finish = ("pack", "--finish", "-o", "out")
                kills += self.disturb(KILLS // 8, lambda task: ("pack", "--task", f"{task}/{TASKS}", "-o", "out"), finish, 0.2)
                for task in range(7):
                    self.run_one("pack", "--task", f"{task}/7", "-o", "out", "-j", "2")
                process = self.start(*finish)
                time.sleep(generator.random() * 0.03)
                process.kill()
                process.communicate(timeout=60)
                self.run_one(*finish)
                self.assertEqual(tree(self.folder / "out"), self.expected)
                rounds += 1
        self.assertGreater(rounds, 2)

    def test_converting(self):
        options = ("convert", "whole", "-o", "out", "--to", "shard", *OPTIONS, "--codec", "bin=zstd")
        self.run_one(*options[:3], "converted", *options[4:])
        finish = (*options, "--finish")
        self.disturb(KILLS // 8, lambda task: (*options, "--task", f"{task}/{TASKS}"), finish, 0.2)
        for task in range(TASKS):
            self.run_one(*options, "--task", f"{task}/{TASKS}")
        self.run_one(*finish)
        self.assertEqual(tree(self.folder / "out"), tree(self.folder / "converted"))


if __name__ == "__main__":
    unittest.main()
