from __future__ import annotations

import gc
import json
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import identical, value
from test_process import in_child

import shardkit as sk
from shardkit._ranks import _RANKS, _WORLD_SIZES

SAMPLES = 200


def ordinals(batches: Iterator[sk.Batch]) -> list[int]:
    return [int(i) for batch in batches for i in batch.ordinals]


def test_an_epoch_has_every_sample_once_and_its_values(dataset: str) -> None:
    loader = sk.Loader(dataset, 32, seed=3)
    assert len(loader) == 7
    seen = []
    for batch in loader:
        assert batch.epoch == 0
        assert batch.columns == ["label", "text", "vector", "array", "masks", "blob"]
        for i, label in enumerate(batch["label"]):
            expected = value(int(label))
            assert batch.sample_keys[i] == f"key {label}"
            assert batch["text"][i] == expected["text"]
            np.testing.assert_array_equal(batch["vector"][i], expected["vector"])
            np.testing.assert_array_equal(batch["array"][i], expected["array"])
            if label % 4:
                np.testing.assert_array_equal(batch["masks"][i].dense(), expected["masks"])
            else:
                assert len(batch["masks"][i]) == 0
            assert batch["blob"].to_list()[i] == expected["blob"]
            assert batch.present("blob")[i] == (expected["blob"] is not None)
        seen += batch["label"].tolist()
        np.testing.assert_array_equal(batch.ordinals, batch["label"])
    assert sorted(seen) == list(range(SAMPLES))
    assert seen != sorted(seen)
    report = loader.report()
    assert (report.batches, report.samples, report.skipped) == (7, SAMPLES, 0)
    assert "bounded by" in str(report)


def test_epochs_differ_and_follow_the_plan(dataset: str) -> None:
    loader = sk.Loader(dataset, 32, seed=3)
    plan = sk.plan(dataset, 32, seed=3)
    assert len(plan) == len(loader)
    epochs = [ordinals(loader) for _ in range(3)]
    assert loader.epoch == 3
    assert epochs[0] != epochs[1] != epochs[2]
    for number, epoch in enumerate(epochs):
        assert epoch == [i for step in plan.epoch(number) for i in step[:, 1].tolist()]
    assert [len(list(loader)) for loader in [sk.Loader(dataset, 64, remainder="drop")]] == [3]
    for epoch in (0, 1):
        ranked = [list(plan.epoch(epoch, rank=rank, world_size=3)) for rank in range(3)]
        together = sorted(i for steps in ranked for step in steps for i in step[:, 1].tolist())
        assert together == list(range(SAMPLES))


def test_arrays_alias_the_memory_of_the_batch(dataset: str) -> None:
    loader = sk.Loader(dataset, 8, columns=["vector"])
    batch = next(iter(loader))
    vectors = batch["vector"]
    assert vectors is batch["vector"]
    assert vectors.flags.writeable
    assert not vectors.flags.owndata
    assert vectors.ctypes.data % 4096 == 0
    copy = np.from_dlpack(vectors)
    assert copy.ctypes.data == vectors.ctypes.data
    vectors[0] = 7
    assert copy[0, 0] == 7


def test_memory_is_used_again_when_the_last_array_dies(dataset: str) -> None:
    loader = sk.Loader(dataset, 8, columns=["vector"], memory_bytes="1MiB", shuffle_buffer_bytes=100_000)
    places = set()
    for _ in range(40):
        for batch in loader:
            places.add(batch["vector"].ctypes.data)
            del batch
    assert len(places) < 300  # of 1,000 batches
    kept = []
    expected = []
    for batch in loader:
        kept.append(batch["vector"])
        expected.append(batch["vector"].copy())
        del batch
    gc.collect()
    assert len({array.ctypes.data for array in kept}) == len(kept)
    for array, copy in zip(kept, expected, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_arrays_kept_and_dropped_at_random_leak_nothing(dataset: str) -> None:
    loader = sk.Loader(
        dataset, 16, columns=["vector", "blob", "masks"], memory_bytes="16MiB", shuffle_buffer_bytes=1 << 20
    )
    random.seed(1)
    kept: list[object] = []

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = 0
    for epoch in range(100):
        for batch in loader:
            kept += [batch["vector"], batch["blob"][0], batch["masks"].values]
            while len(kept) > 30:
                kept.pop(random.randrange(len(kept)))
        if epoch == 20:
            before = resident()
    assert resident() - before < 16 << 20


@pytest.mark.parametrize("stop", [0, 1, 3, 6, 7, 10, 13])
def test_states_resume_at_any_world_size(dataset: str, stop: int) -> None:
    """Steps of several runs at 1, 2, 3, 5 and 1 ranks are those of one uninterrupted run."""
    reference = []
    loader = sk.Loader(dataset, 30, seed=7)
    for _ in range(4):
        reference += [sorted(batch.ordinals.tolist()) for batch in loader]
    steps: list[list[int]] = []
    state = sk.Loader(dataset, 30, seed=7).state_dict()
    for world_size in (1, 2, 3, 5, 1):
        loaders = [
            sk.Loader(dataset, global_batch_size=30, seed=7, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for each in loaders:
            each.load_state_dict(json.loads(json.dumps(state)))
        runs = [iter_forever(each) for each in loaders]
        for _ in range(max(stop, 1)):
            parts = [next(run) for run in runs]
            steps.append(sorted(i for part in parts for i in part.ordinals.tolist()))
        states = [each.state_dict() for each in loaders]
        assert all(each == states[0] for each in states)
        state = states[stop % world_size]
        assert len(json.dumps(state)) < 1024
        if len(steps) + max(stop, 1) > len(reference):
            break
    assert steps == reference[: len(steps)]


def iter_forever(loader: sk.Loader) -> Iterator[sk.Batch]:
    while True:
        yield from loader


def test_epochs_runs_what_remains(dataset: str) -> None:
    whole = [ordinals(epoch) for epoch in sk.Loader(dataset, 30, seed=7).epochs(3)]
    assert [sorted(epoch) for epoch in whole] == [list(range(SAMPLES))] * 3
    first = sk.Loader(dataset, 30, seed=7)
    for i, _ in enumerate(iter_forever(first)):
        if i == 9:
            break
    again = sk.Loader(dataset, 30, seed=7)
    again.load_state_dict(first.state_dict())
    rest = [ordinals(epoch) for epoch in again.epochs(3)]
    assert rest == [whole[1][90:], whole[2]]
    assert list(again.epochs(3)) == []


def test_states_of_other_runs_are_refused(dataset: str) -> None:
    state = sk.Loader(dataset, 8, seed=1).state_dict()
    with pytest.raises(ValueError, match="another plan"):
        sk.Loader(dataset, 8, seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match="version"):
        sk.Loader(dataset, 8, seed=1).load_state_dict({})
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(sk.Loader(dataset, 8))


def test_functions_take_the_place_of_values(dataset: str) -> None:
    def length(blob: bytes | None) -> int:
        return -1 if blob is None else len(blob)

    loader = sk.Loader(
        dataset,
        16,
        columns={"label": int, "blob": length, "text": str.upper, "vector": lambda vector: 2 * vector},
        batch_function=lambda batch: {**batch, "doubled": 2 * batch["label"]},
    )
    for batch in loader:
        expected = [value(int(i)) for i in batch["label"]]
        assert batch["blob"].tolist() == [length(each["blob"]) for each in expected]  # type: ignore[arg-type]
        assert batch["text"] == [f"TEXT {i}" for i in batch["label"]]
        np.testing.assert_array_equal(batch["vector"], [2 * each["vector"] for each in expected])  # type: ignore[operator]
        np.testing.assert_array_equal(batch["doubled"], 2 * batch["label"])
    with pytest.raises(TypeError, match=r"column blob: give Views\(\.\.\.\), not the class"):
        sk.Loader(dataset, columns={"blob": sk.Views})
    with pytest.raises(IndexError, match="nothing"):
        sk.Loader(dataset, columns={"nothing": length})


def test_functions_get_the_values_of_open(every_type: str) -> None:
    samples = sk.open(every_type)
    names = [name for name in samples.schema.names if name != "key"]
    loader = sk.Loader([every_type, every_type], 4, columns={name: lambda each: [each] for name in names})
    for batch in loader:
        for name in names:
            for ordinal, (got,) in zip(batch.ordinals, batch[name], strict=True):
                assert identical(got, samples[int(ordinal)][name]), name


def test_mixtures_views_and_options(dataset: str) -> None:
    parts = [sk.LoaderDataset(dataset, proportion=3), sk.LoaderDataset(dataset, proportion=1)]
    loader = sk.Loader(parts, 10, columns={"blob": sk.Views()}, epoch_samples=100, lanes=1, order="window")
    counts = np.zeros(2, int)
    for batch in loader:
        counts += np.bincount(batch.samples[:, 0], minlength=2)
        for ordinal, view in zip(batch.ordinals, batch["blob"], strict=True):
            expected = value(int(ordinal))["blob"]
            assert (view is None) == (expected is None)
            assert view is None or (view.tobytes() == expected and not view.flags.owndata)
    assert counts.tolist() == [75, 25]
    for options, error in (
        ({"colour": 1}, TypeError),
        ({"order": "random"}, ValueError),
        ({"rank": 2, "world_size": 2}, ValueError),
        ({"columns": ["missing"]}, IndexError),
    ):
        with pytest.raises(error):
            sk.Loader(dataset, 10, **options)


VARIABLES = [*_RANKS, *_WORLD_SIZES, "SLURM_JOB_ID", "SLURM_STEP_ID"]
SLURM = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
PMI = {"PMI_RANK": "0", "PMI_SIZE": "4"}


@pytest.mark.parametrize(
    ("variables", "arguments", "expected"),
    [
        ({}, {}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "4"}, {}, (1, 4)),
        ({"RANK": "3", "WORLD_SIZE": "4"} | SLURM | OPEN_MPI, {}, (3, 4)),
        (SLURM, {}, (2, 4)),
        (SLURM | {"WORLD_SIZE": "4"}, {}, (2, 4)),
        (SLURM | {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"} | OPEN_MPI, {}, (2, 4)),
        (SLURM | {"SLURM_JOB_ID": "7"}, {}, (0, 1)),  # the script of sbatch, before srun
        (SLURM | {"SLURM_JOB_ID": "7"} | OPEN_MPI, {}, (1, 4)),  # which calls mpirun
        ({"SLURM_NTASKS": "4"}, {}, (0, 1)),  # a shell of salloc
        (OPEN_MPI, {}, (1, 4)),
        (PMI, {}, (0, 4)),
        ({"RANK": "", "WORLD_SIZE": " "}, {}, (0, 1)),
        ({"WORLD_SIZE": "1"}, {}, (0, 1)),
        ({"RANK": "0", "WORLD_SIZE": "4"}, {"rank": 0, "world_size": 1}, (0, 1)),
        ({"RANK": "0", "WORLD_SIZE": "4"}, {"rank": 3}, (3, 4)),
        ({}, {"rank": 0}, (0, 1)),
        ({}, {"rank": np.int64(1), "world_size": 2}, (1, 2)),
        ({"WORLD_SIZE": "4"}, {}, "WORLD_SIZE is 4, and nothing says which rank"),
        ({"RANK": "0"}, {}, "RANK is 0, and nothing says of how many"),
        ({"RANK": "x", "WORLD_SIZE": "4"}, {}, "RANK is 'x', and no number"),
        ({}, {"rank": 1}, "rank is 1, and nothing says of how many"),
        ({}, {"world_size": 4}, "world_size is 4, and nothing says which rank"),
        ({}, {"rank": 0, "world_size": 0}, "there is at least one rank"),
        ({}, {"rank": 1.0, "world_size": 2}, "rank=1.0: give a number"),
        ({}, {"rank": "0"}, "rank='0': give a number"),
        ({}, {"rank": 4, "world_size": 4}, "rank 4 of 4"),
        ({"RANK": "5", "WORLD_SIZE": "4"}, {}, "rank 5 of 4"),
    ],
)
def test_ranks(
    dataset: str,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    arguments: dict[str, Any],
    expected: tuple[int, int] | str,
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    if isinstance(expected, str):
        with pytest.raises((ValueError, TypeError), match=re.escape(expected)):
            sk.Loader(dataset, global_batch_size=32, **arguments)
        return
    loader = sk.Loader(dataset, global_batch_size=32, **arguments)
    assert (loader.rank, loader.world_size) == expected
    assert len(next(iter(loader))) == 32 // expected[1]


def test_ranks_are_logged_once(dataset: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    caplog.set_level("INFO", "shardkit")
    loader = sk.Loader(dataset, 4)
    assert (loader.batch_size, loader.global_batch_size) == (4, 32)
    list(loader)
    sk.Loader(dataset, global_batch_size=30, uneven=True)
    sk.Loader(dataset, 32, rank=0, world_size=1)
    assert caplog.messages == [
        "steps of 32 samples over 8 ranks: 4 each",
        "steps of 30 samples over 8 ranks: 3 to 4 each",
    ]


def test_batches_are_those_of_a_rank(dataset: str) -> None:
    """Training at another world size says that its steps have become others."""
    loaders = [sk.Loader(dataset, 5, rank=rank, world_size=4, seed=1) for rank in range(4)]
    together = sk.Loader(dataset, global_batch_size=20, rank=0, world_size=1, seed=1)
    for step, *parts in zip(together, *loaders, strict=True):
        assert [len(part) for part in parts] == [5] * 4 or len(step) < 20
        assert sorted(i for part in parts for i in part.ordinals) == sorted(step.ordinals)
    assert "steps of 20" in repr(loaders[0])
    batches = iter(loaders[0])
    next(batches)
    state = loaders[0].state_dict()
    with pytest.warns(UserWarning, match=r"steps had 20 samples .* now have 10, 5 on each of 2: global_batch_size=20"):
        sk.Loader(dataset, 5, rank=0, world_size=2, seed=1).load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sk.Loader(dataset, 10, rank=0, world_size=2, seed=1).load_state_dict(state)
        sk.Loader(dataset, global_batch_size=20, rank=0, world_size=2, seed=1).load_state_dict(state)
        sk.Loader(dataset, global_batch_size=40, rank=0, world_size=2, seed=1).load_state_dict(
            state
        )  # as it was asked for
    for options, message in (
        ({"batch_size": 2, "global_batch_size": 4}, "give one of the two"),
        ({"global_batch_size": 0}, "batches have samples"),
        ({"batch_size": 3, "uneven": True}, "uneven is for a global_batch_size"),
        ({"global_batch_size": 9, "rank": 0, "world_size": 2}, "give 10, or uneven=True"),
    ):
        with pytest.raises(ValueError, match=message):
            sk.Loader(dataset, **options)  # type: ignore[arg-type]


def test_damage_names_the_sample_or_is_skipped(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "out")
    with sk.Writer(path, {"blob": "bytes"}, storage={"blob": "blob"}) as writer:
        for i in range(20):
            writer.write(f"{i:02d}", blob=bytes([i]) * 2000)
    shard = next(Path(path).glob("*.shard"))
    content = bytearray(shard.read_bytes())
    content[content.index(bytes([7]) * 2000) + 5] ^= 1
    shard.write_bytes(content)
    with pytest.raises(sk.DataLossError, match=shard.name) as damage:
        list(sk.Loader(path, 4))
    assert (damage.value.shard, damage.value.block, damage.value.sample, damage.value.column) == (0, 0, 7, "blob")
    with pytest.raises(sk.DataLossError) as damage:
        sk.open(path)[7]
    assert (damage.value.shard, damage.value.sample, damage.value.column) == (0, 7, "blob")
    with pytest.raises(sk.DataLossError) as damage:
        list(sk.open(path).scan())
    assert (damage.value.path, damage.value.shard, damage.value.block) == (os.fspath(shard), 0, 0)
    assert damage.value.sample is None
    skipped = [each for batch in sk.Loader(path, 4, bad_samples="skip") for each in batch.skipped]
    assert [each[1] for each in skipped] == [7]


def test_real_images_and_masks(data: Path, tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "pairs")
    sk.pack(data / "sa1b", path)
    columns = {"image": sk.Image(crop="random", size=64, flip=0.5), "masks": sk.PackedMasks(), "image_id": None}
    loader = sk.Loader(path, 2, seed=1, columns=columns)
    images = {}
    for batch in loader:
        assert batch["image"].shape == (len(batch), 64, 64, 3)
        for i, image_id in enumerate(batch["image_id"].tolist()):
            images[image_id] = batch["image"][i].copy()
            assert batch["masks"][i].shape[1:] == (64, 8)
    again = sk.Loader(path, 3, seed=1, columns=columns, decode_threads=1)
    for batch in again:
        for image, image_id in zip(batch["image"], batch["image_id"].tolist(), strict=True):
            np.testing.assert_array_equal(image, images[image_id])
    with pytest.raises(ValueError, match="crop"):
        sk.Loader(path, 2, columns={"image": sk.Image(crop="center", size=(3, 4))})


def test_deferred_columns_say_what_is_to_be_done(data: Path, tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "pairs")
    sk.pack(data / "sa1b", path)
    stored = next(iter(sk.Loader(path, 1, order="sequential", columns={"image": sk.Image()})))["image"]
    height, width, _ = stored.shape[1:] if isinstance(stored, np.ndarray) else stored[0].shape

    def first(deferred: bool, spec: type[sk.DenseMasks] | type[sk.PackedMasks]) -> sk.Batch:
        image = sk.Image(crop="resize", size=(height, width), flip=1.0, deferred=deferred)
        columns = {"image": image, "masks": spec(deferred=deferred)}
        batch: sk.Batch = next(iter(sk.Loader(path, 1, order="sequential", columns=columns)))
        return batch

    now = first(False, sk.DenseMasks)
    for spec in (sk.DenseMasks, sk.PackedMasks):
        later = first(True, spec)
        np.testing.assert_array_equal(later["image"][0][:, ::-1], now["image"][0])
        np.testing.assert_array_equal(later["masks"][0].dense()[:, :, ::-1], now["masks"][0])
        geometry = later.geometries("image")[0]
        sizes = (width, height, 1, 0, 0, width, height, width, height, 0, 0, width, height, 1)
        assert geometry.item() == now.geometries("image")[0].item() == sizes
        assert later.geometries("masks").tolist() == [sizes] * len(now["masks"][0])


def test_a_loader_of_the_parent_says_so_in_the_child(dataset: str) -> None:
    loader = sk.Loader(dataset, 8)
    batches = iter(loader)
    kept = next(batches)["vector"]
    scan = sk.open(dataset).scan(threads=2)
    block = next(scan)

    def use() -> None:
        with pytest.raises(RuntimeError, match="forked"):
            next(batches)
        with pytest.raises(RuntimeError, match="forked"):
            loader.state_dict()
        nonlocal kept, block
        kept = block = None  # type: ignore[assignment]
        gc.collect()
        assert len(ordinals(sk.Loader(dataset, 8))) == SAMPLES

    for _ in range(5):
        assert in_child(use) == 0
    assert len(next(batches)) == 8
    # A child that ends as a program does, with everything destroyed.
    code = f"""
import os, shardkit as sk
loader = sk.Loader({dataset!r}, 8); batches = iter(loader); batch = next(batches)
if os.fork() == 0:
    raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
next(batches)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class InterruptedAfter:
    """A loader of the library in which Ctrl-C comes right after it has given out a batch."""

    def __init__(self, library: object) -> None:
        self._library = library

    def __getattr__(self, name: str) -> object:
        return getattr(self._library, name)

    def next(self) -> object:
        self._library.next()  # type: ignore[attr-defined]
        raise KeyboardInterrupt


@pytest.mark.parametrize("taken", [0, 3, 6])
def test_a_batch_that_the_loop_did_not_get_is_not_counted(dataset: str, taken: int) -> None:
    whole = [ordinals(epoch) for epoch in sk.Loader(dataset, 30, seed=7).epochs(2)]
    loader = sk.Loader(dataset, 30, seed=7)
    batches = iter(loader)
    for _ in range(taken):
        next(batches)
    state, left = loader.state_dict(), loader.steps_left
    source = loader._running[0]
    source._loader = InterruptedAfter(source._loader)  # type: ignore[assignment]
    batches = loader._rest_of_epoch()
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert (loader.state_dict(), loader.steps_left, loader.epoch) == (state, left, 0)
    resumed = sk.Loader(dataset, 30, seed=7)
    resumed.load_state_dict(loader.state_dict())
    assert ordinals(resumed) == whole[0][30 * taken :]
    # The same loader: the epoch starts again, as after a break, also where its last batch is lost.
    assert ordinals(loader) == whole[0]
    assert ordinals(loader) == whole[1]


def test_ctrl_c_ends_a_wait_and_loses_no_batch(dataset: str) -> None:
    code = f"""
import itertools, os, shardkit as sk, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it
loader = sk.Loader({dataset!r}, 8, seed=2)
steps, interrupted, ready = [], 0, threading.Event()
def interrupt():
    for i in itertools.count():
        ready.wait()
        ready.clear()
        threading.Event().wait(i % 50 / 10000)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
while interrupted < 150:
    seen, batch = [], None
    try:
        ready.set()
        while True:
            for batch in loader:
                if not seen or seen[-1] is not batch:
                    seen.append(batch)
    except KeyboardInterrupt:  # the next one comes only after ready.set()
        interrupted += 1
        if batch is not None and (not seen or seen[-1] is not batch):
            seen.append(batch)
        steps += [(each.epoch, each.ordinals.tolist()) for each in seen]
        loader.load_state_dict(loader.state_dict())
signal.signal(signal.SIGINT, signal.SIG_IGN)
again = sk.Loader({dataset!r}, 8, seed=2)
batches = itertools.chain.from_iterable(again for _ in itertools.count())
for i, (epoch, step) in enumerate(steps):
    assert (epoch, step) == (i // len(again), next(batches).ordinals.tolist()), i
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_simulation_of_datasets_and_of_numbers(dataset: str) -> None:
    report = sk.simulate(dataset, 16, latency=0.01, epochs=2, shuffle_buffer_bytes="1MiB")
    assert [epoch.samples for epoch in report.epochs] == [sk.plan(dataset, 16).samples_per_epoch] * 2
    assert report.bound == "latency"
    assert report.epochs[0].samples_per_second > 0
    assert report.epochs[0].wait_share == pytest.approx(1)
    numbers = sk.DatasetNumbers(100_000, "100KB", shards=10)
    described = sk.simulate(numbers, 1024, nodes=2, ranks_per_node=8, step_seconds=1.0, steps=10)
    assert (described.ranks, described.epochs[0].samples, described.bound) == (16, 10240, "training")
    with pytest.raises(ValueError, match="step_seconds"):
        sk.simulate(numbers, step_seconds=-1.0)
    with pytest.raises(TypeError, match="step_time"):
        sk.simulate(numbers, step_time=1.0)


def grow(path: str, begin: int, end: int) -> None:
    with sk.Writer(path, {"label": "i64"}, block_size="4KiB", append=begin > 0) as writer:
        for i in range(begin, end):
            writer.write(f"key {i}", label=i)


def labels(batches: Iterator[sk.Batch]) -> list[int]:
    return sorted(int(i) for batch in batches for i in batch["label"])


def test_a_loader_that_follows_sees_new_samples_at_the_next_epoch(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "growing")
    grow(path, 0, 40)
    loader = sk.Loader(path, 8, follow=True)
    stays = sk.Loader(path, 8)
    batches = iter(loader)
    seen = next(batches)["label"].tolist()
    inside = loader.state_dict()
    grow(path, 40, 64)
    assert sorted(seen + labels(batches)) == list(range(40))
    assert (len(loader), loader.steps_left, loader.samples_per_epoch) == (8, 8, 64)
    assert labels(iter(loader)) == list(range(64))
    assert labels(iter(stays)) == labels(iter(stays)) == list(range(40))

    # Inside an epoch it goes on with what that epoch began with, and follows again after it.
    grow(path, 64, 80)
    resumed = sk.Loader(path, 8, follow=True)
    resumed.load_state_dict(inside)
    assert sorted(seen + labels(iter(resumed))) == list(range(40))
    assert labels(iter(resumed)) == list(range(80))
    grow(path, 80, 88)
    resumed.set_epoch(2)
    assert labels(iter(resumed)) == list(range(80)), "it has looked at the end of the epoch before"
    assert labels(iter(resumed)) == list(range(88))

    # Without `follow`, the state of an earlier generation is refused, or goes on in that generation.
    with pytest.raises(ValueError, match="the cursor is of generation 1 of the dataset, and this is generation 4"):
        sk.Loader(path, 8).load_state_dict(inside)
    earlier = sk.Loader(sk.LoaderDataset(path, generation=1), 8)
    earlier.load_state_dict(inside)
    assert sorted(seen + labels(iter(earlier))) == list(range(40))


def test_ranks_that_follow_have_to_agree(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "growing")
    grow(path, 0, 40)
    with pytest.raises(ValueError, match=r"2 ranks look at different moments.*shardkit.torch.agree"):
        sk.Loader(path, 8, rank=0, world_size=2, follow=True)
    with pytest.raises(ValueError, match="one has a `generation`"):
        sk.Loader(sk.LoaderDataset(path, generation=1), 8, follow=True)
    # The second rank looks after the append, the first before it: both have what the first sees.
    seen: list[list[int]] = []
    least: list[int] = []

    def first(newest: list[int]) -> list[int]:
        seen.append(newest)
        least[:] = newest
        return newest

    ranks = [
        sk.Loader(path, 4, rank=rank, world_size=2, follow=(first, lambda newest: least)[rank]) for rank in range(2)
    ]
    assert sorted(labels(iter(ranks[0])) + labels(iter(ranks[1]))) == list(range(40))
    there = 40
    for total, grown in ((40, 64), (40, 72), (64, 80)):
        epoch = labels(iter(ranks[0]))
        grow(path, there, grown)
        there = grown
        assert sorted(epoch + labels(iter(ranks[1]))) == list(range(total))
    assert seen == [[1], [1], [1], [2], [3]]
