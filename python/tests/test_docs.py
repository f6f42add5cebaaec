from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import JPEG, served

import shardkit as sk

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    "README.md",
    "docs/columns.md",
    "docs/life.md",
    "docs/remote.md",
    "docs/reshape.md",
    "docs/select.md",
    "docs/train-python.md",
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of Python of a document, one after another.

    `pairs` holds three pairs, and behind `url` is the dataset made of them. `photos`, of README.md, has two classes.
    """
    if name == "README.md":
        pytest.importorskip("torch")
    pairs = tmp_path / "pairs-of-files"
    subprocess.run(
        [os.environ.get("SHARDCTL", "shardctl"), "synth", "sa1b", "-o", pairs, "--count", "3"],
        check=True,
        capture_output=True,
    )
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    for i in range(48 if name == "README.md" else 0):
        photo = tmp_path / "photos" / ("cat" if i % 3 else "dog") / f"{i}.jpg"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(JPEG)
    sk.pack(pairs, tmp_path / "served")
    with served(os.fspath(tmp_path / "served")) as url:
        names: dict[str, object] = {"pairs": pairs, "url": url, "train": lambda images, labels: None}
        for block in blocks:
            exec(compile(block, name, "exec"), names)
