"""The examples of docs/frameworks.md run, one after another."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import shardkit as sk

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sk.Writer("dataset", {"vector": "f32[4]", "label": "i64"}) as writer:
        for i in range(100):
            writer.write(f"key {i}", vector=np.full(4, i, np.float32), label=i)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), names)
    assert names["trainer"].global_step == 8
    assert sum(len(batch["label"]) for batch in names["dataloader"]) == 100
    assert names["loader"].epoch == 2
    assert sorted(path.name for path in Path("run").iterdir()) == ["checkpoint-5", "checkpoint-8"]
