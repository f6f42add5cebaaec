from __future__ import annotations

import os

import pytest

import shardkit as sk
from harness import SAMPLES


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("data") / "dataset")
    with sk.Writer(path, {"label": "i64"}, max_block_samples=4, shard_samples=70) as writer:
        for i in range(SAMPLES):
            writer.write(f"key {i}", label=i)
    return path
