from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shardkit as sk

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_masks_are_learnt_and_training_resumes_exactly(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pairs = tmp_path / "pairs"
    subprocess.run(
        [os.environ.get("SHARDCTL", "shardctl"), "synth", "sa1b", "-o", pairs, "--count", "10"],
        check=True,
        capture_output=True,
    )
    sk.pack(pairs, tmp_path / "dataset")

    def train(*options: object) -> list[str]:
        command = [sys.executable, EXAMPLES / "train_masks.py", tmp_path / "dataset", *map(str, options)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100, env=environment)
        return done.stdout.splitlines()

    whole = train("--steps", 24)
    losses = [float(line.split()[-1]) for line in whole]
    assert len(losses) == 24
    assert sum(losses[-6:]) < 0.97 * sum(losses[:6])
    parts = []
    for steps in (5, 7, 100):
        parts += train("--steps", 24, "--checkpoint", tmp_path / "checkpoint", "--stop-after", steps)
    assert parts == whole
