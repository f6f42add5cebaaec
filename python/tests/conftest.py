from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import shardkit as sk

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SECONDS = 120


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """A test that hangs ends the program with the places of all threads."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    import faulthandler

    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def value(i: int) -> dict[str, object]:
    """The values of sample i, made of i alone."""
    random = np.random.default_rng(i)
    return {
        "label": i,
        "text": f"text {i}",
        "vector": np.arange(4, dtype=np.float32) + i,
        "array": random.integers(0, 255, (i % 3 + 1, 2), dtype=np.uint8),
        "masks": random.random((i % 4, 9, 11)) > 0.5,
        "blob": None if i % 5 == 0 else random.bytes(1500 + i),
    }


COLUMNS = {
    "label": "i64",
    "text": "utf8",
    "vector": "f32[4]",
    "array": "u8[]",
    "masks": "rle",
    "blob": "bytes?",
}


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """200 samples in several shards and blocks."""
    path = os.fspath(tmp_path_factory.mktemp("data") / "dataset")
    with sk.Writer(path, COLUMNS, block_size="16KiB", shard_samples=70, metadata={"made": "here"}) as writer:
        for i in range(200):
            writer.write(f"key {i}", **value(i))
    return path


@pytest.fixture
def data() -> Path:
    if not DATA.is_dir():
        pytest.skip("shared/data is not there")
    return DATA
