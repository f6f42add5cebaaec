"""examples/quickstart_images.py under torchrun, by hand with pytest: needs torch 2 or later.

After ranks were started again, gloo does not always come up; the timeout ends that, and they are started once more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
    command += [str(EXAMPLES / "quickstart_images.py"), *map(str, arguments), "--every", "1", "--timeout", "30"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True
    )


def ranks_of(parent: int) -> list[int]:
    command = ["ps", "-ww", "--ppid", str(parent), "-o", "pid=", "-o", "args="]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in found if "quickstart_images.py" in line]


def test_ranks_of_torchrun_that_die_go_on_exactly(tmp_path: Path) -> None:
    def losses(folder: Path, kills: list[int]) -> dict[int, float]:
        process = start_torchrun("--out", folder, "--epochs", 9)  # of 22 steps
        found: dict[int, float] = {}
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("step "):
                continue
            step, loss = int(line.split()[1][:-1]), float(line.split()[3][:-1])
            assert found.setdefault(step, loss) == pytest.approx(loss, rel=1e-3)
            if kills and step >= kills[0]:
                kills.pop(0)
                os.kill(ranks_of(process.pid)[len(kills) % 2], signal.SIGKILL)
        assert process.wait(timeout=60) == 0
        assert not kills
        return found

    whole = losses(tmp_path / "whole", [])
    assert sorted(whole) == list(range(1, 9 * 22 + 1))
    assert losses(tmp_path / "killed", [40, 110]) == pytest.approx(whole, rel=1e-3)
