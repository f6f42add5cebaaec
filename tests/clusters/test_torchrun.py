"""examples/cluster/train.py under torchrun, by hand with pytest: needs torch 2 or later.

After ranks were started again, gloo does not always come up; the timeout ends that, and they are started once more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shardkit as sk

pytest.importorskip("torch", minversion="2.0")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def start_torchrun(*arguments: object) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        "--max_restarts",
        "5",
    ]
    command += [
        str(EXAMPLES / "cluster" / "train.py"),
        *map(str, arguments),
        "--checkpoint-every",
        "1",
        "--classes",
        "2",
        "--timeout",
        "30",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True
    )


def ranks_of(parent: int) -> list[int]:
    command = ["ps", "-ww", "--ppid", str(parent), "-o", "pid=", "-o", "args="]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in found if "train.py" in line]


def test_ranks_of_torchrun_that_die_go_on_exactly(tmp_path: Path) -> None:
    shardctl = os.environ.get("SHARDCTL", "shardctl")
    synth = [shardctl, "synth", "sa1b", "-o", tmp_path / "pairs", "--count", "16", "--width", "96", "--height", "96"]
    subprocess.run(synth, check=True, capture_output=True)
    for number, image in enumerate(sorted((tmp_path / "pairs").rglob("*.jpg"))):
        (tmp_path / "classes" / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        image.rename(tmp_path / "classes" / f"class{number % 2}" / image.name)
    sk.pack(tmp_path / "classes", tmp_path / "dataset", kind="imagefolder", max_block_samples=4)

    def losses(checkpoint: Path, kills: list[int]) -> dict[int, float]:
        process = start_torchrun(tmp_path / "dataset", checkpoint, "--steps", 200, "--batch-size", 4)
        found: dict[int, float] = {}
        assert process.stdout is not None
        for line in process.stdout:
            _, step, _, loss = line.split()
            assert found.setdefault(int(step), float(loss)) == pytest.approx(float(loss), rel=1e-3)
            if kills and int(step) >= kills[0]:
                kills.pop(0)
                os.kill(ranks_of(process.pid)[len(kills) % 2], signal.SIGKILL)
        assert process.wait(timeout=60) == 0
        assert not kills
        return found

    whole = losses(tmp_path / "whole", [])
    assert sorted(whole) == list(range(1, 201))
    assert losses(tmp_path / "killed", [40, 110]) == pytest.approx(whole, rel=1e-3)
