"""What type checkers see of programs: those that are right pass mypy --strict, and a wrong word or option is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shardkit as sk

RIGHT = """
import numpy as np

import shardkit as sk


def jitter(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # type: ignore[type-arg]
    return pixels


def train(path: str) -> None:
    loader = sk.Loader(
        path,
        batch_size=8,
        columns={
            "image": [sk.Image(crop="random", size=224, dtype="f32", layout="chw"), jitter],
            "masks": sk.PackedMasks(),
            "tokens": sk.Tokens(context=128, mode="concat"),
            "captions": sk.Choice(),
            "label": None,
        },
        where="label < 3",
        balance="label",
        order="window",
        remainder="drop",
        shuffle_buffer_bytes="64MiB",
        mode="mapped",
        verify="first",
        worker_kind="process",
        bad_samples="skip",
        collate="pad",
    )
    for epoch in loader.epochs(2):
        for batch in epoch:
            batch["image"]
    state: dict[str, object] = loader.state_dict()
    loader.load_state_dict(state)
    steps: int = len(loader)
    dataset = sk.open(path, ["label"], indices=[1, 2])
    sample: dict[str, object] = dataset[0]
    order = sk.plan(path, 8, order="sequential", remainder="pad")
    print(steps, sample, len(order), loader.report(), loader.metrics()["samples"])
"""

WRONG = [
    'sk.Loader("a", order="shufled")',
    'sk.Loader("a", batchsize=3)',
    'sk.Loader("a", shuffle=True)',
    'sk.Loader("a", remainder="dropped")',
    'sk.Loader("a", verify="always")',
    'sk.Loader("a", worker_kind="fibre")',
    'sk.Loader("a", memory_bytes=None)',
    'sk.Loader("a", columns={"b": 3})',
    'sk.Tokens(128, "best")',
    'sk.open("a", mode="map")',
    'sk.plan("a", order="none")',
    'sk.LoaderDataset("a", choose="b")',
]


def found(program: Path) -> str:
    """Return what mypy has to say."""
    pytest.importorskip("mypy")
    environment = {**os.environ, "MYPYPATH": str(Path(sk.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(program.parent), str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=300)
    return done.stdout + done.stderr


def test_a_program_that_is_right(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(RIGHT)
    said = found(program)
    assert "Success: no issues found" in said, said


def test_programs_that_are_wrong(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import shardkit as sk\n" + "\n".join(WRONG) + "\n")
    said = found(program)
    lines = {int(number) for number in re.findall(r"program\.py:(\d+): error", said)}
    assert lines == set(range(2, 2 + len(WRONG))), said
