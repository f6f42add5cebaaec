"""Many threads of one process: the same values as one has, with Python's lock and in a free-threaded Python."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

THREADS = 8
COUNT = 240


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("threads") / "pictures")
    random = np.random.default_rng(1)
    columns = {"image": sk.Encode(), "text": "utf8", "meta": "json", "vector": "f32[8]", "label": "i64"}
    with sk.Writer(path, columns, max_block_samples=16) as writer:
        for i in range(COUNT):
            pixels = random.integers(0, 255, (24, 32, 3), np.uint8)
            vector = np.full(8, i, np.float32)
            writer.write(f"k{i}", image=pixels, text=f"text {i}", meta={"i": [i]}, vector=vector, label=i % 7)
    return path


def together(work: Callable[[int], Any]) -> list[Any]:
    """Return what the work of each thread returns."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


def test_the_extension_leaves_python_without_its_lock() -> None:
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has a lock")
    assert os.environ.get("PYTHON_GIL") or not sys._is_gil_enabled()  # type: ignore[attr-defined]


def test_one_dataset(pictures: str) -> None:
    dataset = sk.open(pictures)

    def read(thread: int) -> bool:
        order = np.random.default_rng(thread).permutation(COUNT)
        for i in order.tolist():
            sample = dataset[i]
            assert (sample["text"], sample["meta"], sample["label"]) == (f"text {i}", {"i": [i]}, i % 7)
            assert (sample["vector"] == i).all()
            assert dataset.find(f"k{i}") == i
        texts = [text for block in dataset.scan(threads=2) for text in block["text"]]
        return texts == [f"text {i}" for i in range(COUNT)]

    assert all(together(read))


def augment(pixels: Any, rng: np.random.Generator) -> Any:
    total = 0
    for row in pixels.tolist():  # holds the lock, where there is one
        total += sum(map(sum, row))
    return np.array([total, rng.integers(1 << 30)])


@pytest.mark.parametrize("workers", [0, 3])
def test_loaders_with_functions(pictures: str, workers: int) -> None:
    columns = {"image": [sk.Image(crop="random", size=12), augment], "text": str.upper, "label": None}

    def read(thread: int) -> list[Any]:
        loader = sk.Loader(pictures, 16, columns=columns, seed=5, workers=workers, decode_threads=2)
        made = []
        for epoch in loader.epochs(2):
            for batch in epoch:
                made.append((batch["image"].tolist(), batch["text"], batch["label"].tolist(), batch.sample_keys))
        assert loader.report().samples == 2 * COUNT
        return made

    first, *others = together(read)
    assert len(first) == 2 * COUNT // 16
    assert all(other == first for other in others)


def test_jobs(pictures: str, tmp_path: Path) -> None:
    def work(thread: int) -> list[str]:
        path = tmp_path / f"{thread}"
        sk.filter(pictures, path, where=f"label = {thread % 7}", threads=2)
        assert sk.validate(path, deep=True)
        with sk.Writer(tmp_path / f"copy {thread}", {"text": "utf8"}) as writer:
            for sample in sk.open(path, ["text"]):
                writer.write(sample["text"], text=sample["text"])
        return [sample["text"] for sample in sk.open(tmp_path / f"copy {thread}", ["text"])]

    for thread, texts in enumerate(together(work)):
        assert texts == [f"text {i}" for i in range(COUNT) if i % 7 == thread % 7]


def test_one_batch(pictures: str) -> None:
    (batch,) = sk.Loader(pictures, COUNT, columns=["text", "meta", "vector"], order="sequential")

    def read(thread: int) -> Any:
        return list(batch["text"]), batch["meta"], batch["vector"].sum(), batch.sample_keys, repr(batch)

    first, *others = together(read)
    assert first[0] == [f"text {i}" for i in range(COUNT)]
    assert all(other == first for other in others)
