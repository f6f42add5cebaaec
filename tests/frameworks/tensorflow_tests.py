"""TensorFlow's datasets from a loader, in a process of their own: the same batches, and from a step on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import shardkit as sk

COUNT = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tensorflow") / "dataset"
    with sk.Writer(path, {"number": "i64", "vector": "f32[4000]", "bytes": "bytes"}, max_block_samples=7) as writer:
        for i in range(COUNT):
            writer.write(f"key {i}", number=i, vector=np.full(4000, i), bytes=bytes([i]) * i)
    return path


def as_texts(batch: sk.Batch) -> dict[str, object]:
    return {"number": batch["number"], "vector": batch["vector"], "bytes": batch["bytes"].to_list()}


def tensors(loader: sk.Loader) -> tf.data.Dataset:
    types = {
        "number": tf.TensorSpec([None], tf.int64),
        "vector": tf.TensorSpec([None, 4000], tf.float32),
        "bytes": tf.TensorSpec([None], tf.string),
    }
    return tf.data.Dataset.from_generator(lambda: loader, output_signature=types).prefetch(3)


@pytest.mark.parametrize("size", [1, 8])
def test_batches_are_those_of_the_loader_and_stay(path: Path, size: int) -> None:
    dataset = tensors(sk.Loader(path, size, seed=1, batch_function=as_texts))
    kept = [batch for _ in range(3) for batch in dataset]
    loader = sk.Loader(path, size, seed=1, columns=["number"])
    expected = [batch["number"].tolist() for _ in range(3) for batch in loader]
    assert [batch["number"].numpy().tolist() for batch in kept] == expected
    for batch in kept:
        for number, vector, text in zip(batch["number"].numpy(), batch["vector"], batch["bytes"].numpy(), strict=True):
            np.testing.assert_array_equal(vector, np.full(4000, number))
            assert text == bytes([number]) * number


def test_it_goes_on_at_a_step(path: Path) -> None:
    loader = sk.Loader(path, 8, seed=1, columns=["number"])
    expected = [[batch["number"].tolist() for batch in loader] for _ in range(2)]
    for epoch, step in [(0, 0), (0, 3), (1, 0), (1, 6)]:
        resumed = sk.Loader(path, 8, seed=1, batch_function=as_texts)
        resumed.set_epoch(epoch)
        resumed.seek(step)
        assert [batch["number"].numpy().tolist() for batch in tensors(resumed)] == expected[epoch][step:]
