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
    sk.pack(["a", "b"], path, threads=2, shard_size="256MiB", stream_above="1GiB", follow_links=False)
    sk.pack([{"label": 1}], path, columns={"label": "i64"}, key="name", keep_on_cancel=True)
    sk.convert(path, "mds", to="mds", compression="zstd", hashes=["sha1"], sync=False)
    sk.filter(path, "few", where="label < 3", keep_blocks=False, block_size=1 << 20)
    sk.reshard(path, "mixed", shuffle=3, shuffle_memory="1GiB", scratch="tmp", threads=2)
    sk.unpack(path, "files", first_sample=3, by_shard=True)
    checked = sk.validate(path, deep=True, mode="direct", max_problems=3)
    sk.diff(path, "few", generation_a=1)
    sk.repair(path, "whole", max_keys=10, sync=False)
    sk.simulate(path, 8, nodes=2, latency=0.01, order="window")
    with sk.Writer("new", {"label": "i64?"}, shard_samples=100, metadata={"a": "b"}) as writer:
        writer.write("key", label=None)
    mixed = [sk.LoaderDataset("a", proportion={0: 1.0, 3: 0.5}), sk.LoaderDataset("b", proportion=0.5)]
    crop = sk.Image(crop="window", size=32, padding=4, jitter=(0.4, 0.4, 0.4, 0.1), interpolation="bicubic")
    sk.Loader(mixed, columns={"image": crop}, missing="absent")
    print(bool(checked))
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
    'sk.Loader("a", missing="none")',
    'sk.Image(interpolation="lanczos")',
    'sk.pack("a", "b", thread=3)',
    'sk.filter("a", "b", keep_block=True)',
    'sk.validate("a", mode="map")',
    'sk.reshard("a", "b", shuffle_memroy=3)',
    'sk.simulate("a", node=3)',
    'sk.Writer("a", {"b": "i64"}, shard_sise=3)',
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
