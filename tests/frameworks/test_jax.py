"""JAX takes the arrays of batches without a copy, processes make one array of a step, and Grain reads a dataset."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import absl.flags
import grain
import jax
import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
from harness import free_port

import shardkit as sk

COUNT = 50
TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "f16", "f32", "bool"]

# One of two processes: each has half of the devices.
RANK = """
import json, sys
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
import shardkit as sk

path, address, rank = sys.argv[1:]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, 2, int(rank))
sharding = NamedSharding(jax.make_mesh((jax.device_count(),), ("batch",)), PartitionSpec("batch"))
loader = sk.Loader(path, global_batch_size=8, seed=1, columns=["number"], rank=jax.process_index(),
                   world_size=jax.process_count(), remainder="drop")
steps = []
for batch in loader:
    numbers = jax.make_array_from_process_local_data(sharding, batch["number"])
    assert numbers.shape == (8,) and len(numbers.addressable_shards) == 2
    steps.append(int(jax.jit(lambda x: (x ** 2).sum())(numbers)))
print(json.dumps(steps))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("jax") / "dataset")
    with sk.Writer(path, {"number": "i32", **{kind: f"{kind}[3, 5]" for kind in TYPES}}, max_block_samples=7) as writer:
        for i in range(COUNT):
            writer.write(f"key {i}", number=i, **{kind: np.full((3, 5), i % 2) for kind in TYPES})
    return path


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_arrays_lie_in_the_memory_of_the_batch(path: str, kind: str, size: int) -> None:
    for batch in sk.Loader(path, size, columns=["number", kind]):
        array = jnp.from_dlpack(batch[kind])
        assert array.unsafe_buffer_pointer() == batch[kind].ctypes.data
        assert array.dtype == batch[kind].dtype
        np.testing.assert_array_equal(jnp.from_dlpack(batch[kind][1:]), batch[kind][1:])  # copied
        np.testing.assert_array_equal(np.asarray(array)[:, 2, 4], batch["number"] % 2)


def test_bf16_by_device_put(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (9, 9, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    sk.pack([{"image": (tmp_path / "a.png").read_bytes()}] * 4, tmp_path / "dataset", columns={"image": "png"})
    [batch] = sk.Loader(tmp_path / "dataset", 4, columns={"image": sk.Image(size=9, dtype="bf16")})
    array = jax.device_put(batch["image"])
    assert array.unsafe_buffer_pointer() == batch["image"].ctypes.data
    assert array.dtype == jnp.bfloat16


def test_jax_keeps_the_memory_of_a_batch_and_gives_it_back(tmp_path: Path) -> None:
    with sk.Writer(tmp_path / "dataset", {"vector": "f32[50000]"}, max_block_samples=4) as writer:
        for i in range(COUNT):
            writer.write(f"key {i}", vector=np.full(50000, i))
    loader = sk.Loader(tmp_path / "dataset", 2, order="sequential")
    kept = [jnp.from_dlpack(batch["vector"]) for batch in loader]
    places = {array.unsafe_buffer_pointer() for array in kept}
    assert len(places) == len(kept)
    for batch in loader:
        assert batch["vector"].ctypes.data not in places
    assert [array[:, -1].tolist() for array in kept] == [[i, i + 1] for i in range(0, COUNT, 2)]
    del kept
    seen = [jnp.from_dlpack(batch["vector"]).unsafe_buffer_pointer() for _ in range(4) for batch in loader]
    assert len(set(seen)) < len(seen) / 2


def test_two_processes_make_one_array_of_a_step(path: str) -> None:
    address = f"localhost:{free_port()}"
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, path, address, str(rank)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    loader = sk.Loader(path, 8, seed=1, columns=["number"], remainder="drop")
    expected = [int((batch["number"] ** 2).sum()) for batch in loader]
    assert [json.loads(output.splitlines()[-1]) for output, _ in outputs] == [expected, expected]


def test_grain_reads_a_dataset_by_number(path: str) -> None:
    dataset = sk.open(path, columns=["number"])
    assert isinstance(dataset, grain.sources.RandomAccessDataSource)
    batches = grain.MapDataset.source(dataset).seed(1).shuffle().batch(8).to_iter_dataset()
    whole = [batch["number"].tolist() for batch in batches]
    assert sorted(itertools.chain(*whole)) == list(range(COUNT)) != list(itertools.chain(*whole))
    iterator = iter(batches)
    for step in range(len(whole)):
        resumed = iter(batches)
        resumed.set_state(iterator.get_state())
        assert [batch["number"].tolist() for batch in resumed] == whole[step:]
        next(iterator)


def test_grain_goes_on_with_its_processes_and_refuses_another_dataset(path: str) -> None:
    if not absl.flags.FLAGS.is_parsed():
        absl.flags.FLAGS.mark_as_parsed()  # which Grain's processes ask for

    def load(columns: list[str]) -> Any:
        sampler = grain.samplers.IndexSampler(COUNT, shuffle=True, seed=1, num_epochs=1)
        return iter(grain.DataLoader(data_source=sk.open(path, columns=columns), sampler=sampler, worker_count=1))

    iterator = load(["number"])
    begun = [int(next(iterator)["number"]) for _ in range(COUNT // 3)]
    state = iterator.get_state()
    resumed = load(["number"])
    resumed.set_state(state)
    rest = [int(sample["number"]) for sample in resumed]
    assert [int(sample["number"]) for sample in iterator] == rest
    assert sorted(begun + rest) == list(range(COUNT))
    with pytest.raises(ValueError, match="data source"):
        load(["number", "i32"]).set_state(state)
