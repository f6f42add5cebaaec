#!/usr/bin/python3
"""Runs examples/train: a run in pieces gets the same samples and model as an uninterrupted one.

The variables SHARDCTL and SHARDKIT_BUILD_DIR say where the command and the build folder are. Standard library only.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SHARDCTL = os.path.abspath(os.environ["SHARDCTL"])
TRAIN = os.path.join(os.path.abspath(os.environ["SHARDKIT_BUILD_DIR"]), "examples", "train")
PICTURES = 43  # 5 batches of 8, and 3 more


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="train-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        for words in (["synth", "sa1b", "-o", "pairs", "--count", str(PICTURES), "--width", "96", "--height", "72",
                       "--min-objects", "1", "--max-objects", "2"], ["pack", "pairs", "-o", "data", "--block-size", "16KiB"]):
            subprocess.run([SHARDCTL, *words], cwd=cls.folder, check=True, stdout=subprocess.DEVNULL, timeout=60)

    def train(self, *words, code=0, **environment):
        done = subprocess.run([TRAIN, *map(str, words)], cwd=self.folder, env=dict(os.environ, **environment), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done.stdout.decode().splitlines(), done.stderr.decode()

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_whole_run(self):
        lines, errors = self.train("data", "whole", 3)
        self.assertEqual([re.sub(r"-?\d+\.\d{6}$", "L", line) for line in lines],
                         [f"epoch {epoch}, {left} steps to go: 8 samples, loss L" for epoch in range(3)
                          for left in (5, 4, 3, 2, 1)])
        self.assertGreater(len({line.rsplit(" ", 1)[1] for line in lines}), 10)
        self.assertIn("train: bounded by ", errors)
        self.assertRegex(self.read("whole"), r'^0x1\.\w+p\+\d+\n\{"epoch":3,"position":0,"plan":"[0-9a-f]{16}","generations":\[1\]\}\n$')
        # No work is left.
        self.assertEqual(self.train("data", "whole", 3)[0], [])

    def test_in_pieces(self):
        whole, _ = self.train("data", "reference", 3)
        pieces = []
        for steps in (0, 1, 3, 4, 6, 99):
            pieces += self.train("data", "pieces", 3, steps)[0]
        self.assertEqual(pieces, whole)
        self.assertEqual(self.read("pieces"), self.read("reference"))

    def test_at_another_world_size(self):
        self.train("data", "start", 2, 2)
        alone = self.train("data", shutil.copy(os.path.join(self.folder, "start"), os.path.join(self.folder, "alone")), 2)[0]
        counts = []
        for rank in range(3):
            lines, _ = self.train("data", shutil.copy(os.path.join(self.folder, "start"),
                                                      os.path.join(self.folder, f"rank{rank}")), 2,
                                  RANK=str(rank), WORLD_SIZE="3")
            self.assertEqual([line.split(":")[0] for line in lines], [line.split(":")[0] for line in alone])
            counts.append([int(line.split(": ")[1].split(" samples")[0]) for line in lines])
            self.assertLessEqual(set(counts[-1]), {2, 3})
            self.assertEqual(self.read(f"rank{rank}").splitlines()[1], self.read("alone").splitlines()[1])
        self.assertEqual([sum(step) for step in zip(*counts)], [8] * len(alone))

    def test_chosen_and_balanced_samples(self):
        lines = self.train("data", "chosen", 2, 99, "image_id < 20")[0]
        self.assertEqual(len(lines), 2 * 2)  # 20 samples an epoch, in steps of 8, and no rest
        pieces = [line for steps in (1, 2, 99) for line in self.train("data", "balanced", 2, steps, "image_id < 20", "image_id")[0]]
        self.assertEqual(pieces, self.train("data", "at once", 2, 99, "image_id < 20", "image_id")[0])
        self.assertIn("another plan", self.train("data", "balanced", 3, 1, "image_id < 21", "image_id", code=1)[1])
        self.assertEqual(self.train("data", "all", 1, 99, "")[0], self.train("data", "plain", 1)[0])
        self.assertIn("at character 1", self.train("data", "none", 1, 1, "< 20", code=1)[1])

    def test_errors(self):
        for words, says in (([], "usage"), (["missing", "x"], "missing: "), (["pairs", "x"], "is no dataset"),
                            (["data", "no/such/folder/x"], "cannot be written")):
            with self.subTest(words=words):
                self.assertIn(says, self.train(*words, code=1)[1])
        for text, says in (("0x1p+0\n", "cut short"), ("0x1p+0\n{}\n", "epoch"),
                           ('0x1p+0\n{"epoch":0,"position":8,"plan":"0123456789abcdef"}\n', "another plan")):
            with open(os.path.join(self.folder, "bad"), "w", encoding="utf-8") as file:
                file.write(text)
            with self.subTest(checkpoint=text):
                self.assertIn(says, self.train("data", "bad", code=1)[1])
                self.assertEqual(self.read("bad"), text)


if __name__ == "__main__":
    unittest.main()
