"""The examples of the guides for other frameworks run, one after another; those for a GPU on processors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import shardkit as sk

GUIDES = Path(__file__).resolve().parents[2] / "docs"
ON_PROCESSORS = {
    'device="mixed"': 'device="cpu"',
    'device="cuda"': 'device="cpu"',
    "device_id=0": "device_id=None",
    "nvimgcodec.Decoder()": "nvimgcodec.Decoder(device_id=-99999, backends=[nvimgcodec.Backend(nvimgcodec.CPU_ONLY)])",
}


def examples(guide: str) -> str:
    """Return the blocks of a guide as one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", (GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)
    program = "\n".join(blocks)
    for there, here in ON_PROCESSORS.items():
        program = program.replace(there, here)
    return program


def run_examples(guide: str) -> dict[str, Any]:
    """Run the blocks of a guide; return the names that they leave."""
    names: dict[str, Any] = {}
    exec(compile(examples(guide), guide, "exec"), names)
    return names


def run_alone(*arguments: str) -> str:
    """Run Python where TensorFlow is imported: the process ends when torchvision is, too."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_frameworks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sk.Writer("dataset", {"vector": "f32[4]", "label": "i64"}) as writer:
        for i in range(100):
            writer.write(f"key {i}", vector=np.full(4, i, np.float32), label=i)
    names = run_examples("frameworks.md")
    assert names["trainer"].global_step == 8
    assert sum(len(batch["label"]) for batch in names["dataloader"]) == 100
    assert names["loader"].epoch == 2
    assert sorted(path.name for path in Path("run").iterdir()) == ["checkpoint-5", "checkpoint-8"]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset of JPEGs, 12 of each of two classes, with the number of the class as the red of all pixels."""
    monkeypatch.chdir(tmp_path)
    for i in range(24):
        path = tmp_path / "photos" / "ab"[i % 2] / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", (40 + i, 60), (200 * (i % 2), 0, 0)).save(path)
    sk.pack("photos", "dataset")


@pytest.mark.usefixtures("photos")
def test_decode_on_the_gpu() -> None:
    names = run_examples("decode-on-the-gpu.md")
    pipe = names["training"](checkpoint=names["checkpoint"])
    with pytest.raises(StopIteration):
        pipe.run()  # the checkpoint is that of the end of an epoch
    assert len(names["images"]) == 8
    assert names["batch"]["label"].shape == (8,)
    for image, label in zip(names["images"], names["batch"]["label"], strict=True):
        assert np.abs(np.asarray(image)[..., 0].astype(int) - 200 * label).max() < 4


JAX_RESULTS = """
print(float(loss), float(batch["label"].numpy().mean()) * 200 / 255 / 3, images.shape, loader.epoch)
"""


@pytest.mark.usefixtures("photos")
def test_jax() -> None:
    loss, expected, *others = run_alone("-c", examples("jax.md") + JAX_RESULTS).split(maxsplit=2)
    assert float(loss) == pytest.approx(float(expected), abs=0.01)
    assert others == ["(8, 32, 32, 3) 2\n"]


def test_tensorflow() -> None:
    tests = os.fspath(Path(__file__).with_name("tensorflow_tests.py"))
    assert "passed" in run_alone("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", tests)
