from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk
from shardkit._epochs import Epochs

torch = pytest.importorskip("torch")
skt = pytest.importorskip("shardkit.torch")
DataLoader = torch.utils.data.DataLoader
SAMPLES = 200


def test_tensors_lie_in_the_memory_of_the_batch(dataset: str) -> None:
    loader = skt.Loader(dataset, 8, columns=["vector", "label", "blob"])
    for batch in loader:
        assert isinstance(batch["vector"], torch.Tensor)
        assert batch["vector"].dtype == torch.float32
        assert batch["label"].dtype == torch.int64
        assert batch["vector"].data_ptr() % 4096 == 0
        assert batch["vector"] is batch["vector"]
        assert isinstance(batch["blob"], sk.Ragged)
        np.testing.assert_array_equal(batch["label"].numpy(), batch.ordinals)
    tensor = batch["vector"]
    values = tensor.clone()
    del batch, loader
    assert torch.equal(tensor, values)


def test_types_that_numpy_lacks(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "types")
    with sk.Writer(path, {"half": "bf16", "bits": "u16[2]", "flag": "bool"}) as writer:
        writer.write("a", half=1.5, bits=np.array([1, 65535], "u2"), flag=True)
    batch = next(iter(skt.Loader(path, 1)))
    assert batch["half"].dtype == torch.bfloat16
    assert batch["half"].tolist() == [1.5]
    assert batch["bits"].numpy().view("u2").tolist() == [[1, 65535]]
    assert batch["flag"].tolist() == [True]


def test_map_style(dataset: str) -> None:
    samples = skt.Dataset(dataset, ["label", "vector"], transform=lambda sample: (sample["label"], sample["vector"]))
    for workers in (0, 2):
        seen = [
            label for labels, _ in DataLoader(samples, batch_size=16, num_workers=workers) for label in labels.tolist()
        ]
        assert seen == list(range(SAMPLES))


def labels(batch: Any) -> list[int]:
    return [int(i) for i in batch["label"]]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable_has_each_sample_once(dataset: str, workers: int) -> None:
    seen: list[int] = []
    for rank in range(2):
        part = skt.IterableDataset(dataset, columns=["label"], chunk=7, seed=1, rank=rank, world_size=2)
        before = len(seen)
        for batch in DataLoader(part, batch_size=5, num_workers=workers):
            seen += labels(batch)
        assert len(seen) - before == len(part)
    assert sorted(seen) == list(range(SAMPLES))


@pytest.mark.parametrize("world_size", [1, 3, 7])
def test_iterable_has_a_length_that_holds_for_any_workers(dataset: str, world_size: int) -> None:
    for options in ({}, {"where": "label < 61"}, {"balance": "label"}, {"indices": [5, 9, 11]}):
        parts = [
            skt.IterableDataset(dataset, columns=["label"], rank=rank, world_size=world_size, chunk=4, **options)
            for rank in range(world_size)
        ]
        lengths = [len(part) for part in parts]
        assert max(lengths) - min(lengths) <= 1
        for workers in (0, 2) if world_size == 3 else (0,):
            loaders = [DataLoader(part, batch_size=4, num_workers=workers) for part in parts]
            assert [sum(len(labels(batch)) for batch in loader) for loader in loaders] == lengths
    for remainder in ("drop", "pad"):
        with pytest.raises(TypeError, match="number of workers"):
            len(skt.IterableDataset(dataset, remainder=remainder))


def test_iterable_gives_none_for_absent_values(every_type: str) -> None:
    columns = {"jpeg?": sk.Image(size=2), "png?": sk.Image(size=2), "i64?": sk.Stored(), "i32[3]?": sk.Stored()}
    stored = {sample["key"]: sample for sample in sk.open(every_type)}
    absent = 0
    for sample in skt.IterableDataset(every_type, columns=columns, seed=1, rank=0, world_size=1):
        for name in columns:
            assert (sample[name] is None) == (stored[sample["key"]][name] is None), name
            absent += sample[name] is None
    assert absent > len(columns)


def test_iterable_resumes_after_any_sample(dataset: str) -> None:
    def make() -> Any:
        return skt.IterableDataset(dataset, columns=["label"], chunk=16, seed=2)

    whole = [int(sample["label"]) for _ in range(1) for sample in make()]
    assert sorted(whole) == list(range(SAMPLES))
    for stop in (0, 1, 15, 16, 17, 100, 199, 200):
        first = make()
        run = iter(first)
        got = [int(next(run)["label"]) for _ in range(stop)]
        again = make()
        again.load_state_dict(json.loads(json.dumps(first.state_dict())))
        rest = [int(sample["label"]) for sample in again]
        assert got + rest == whole


def epoch_of(loader: Any, most: int = 10**9) -> list[int]:
    return list(itertools.chain.from_iterable(labels(batch) for batch in itertools.islice(loader, most)))


def loaders(dataset: str, how: str, stateful: bool) -> Any:
    """What makes a DataLoader over a dataset, as a pair with that dataset."""
    workers, *rest = how.split()
    options: dict[str, Any] = {"num_workers": int(workers)}
    if "persistent" in rest:
        options["persistent_workers"] = True
    if "spawn" in rest:
        options["multiprocessing_context"] = "spawn"
    kind = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader if stateful else DataLoader

    def make() -> tuple[Any, Any]:
        samples = skt.IterableDataset(dataset, columns=["label"], chunk=8, seed=4)
        return samples, kind(samples, batch_size=6, **options)

    return make


HOW = ["0", "1", "2", "1 persistent", "2 persistent", "2 spawn", "2 spawn persistent"]


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("how", HOW)
def test_each_iteration_is_the_next_epoch(dataset: str, how: str, stateful: bool) -> None:
    if stateful and how == "2 spawn":
        pytest.skip("slow, and as the others")
    make = loaders(dataset, how, stateful)
    samples, loader = make()
    epochs = []
    for _ in range(2 if "spawn" in how else 3):
        torch.manual_seed(0)  # so that torch gives the workers of each iteration the same seeds
        epochs.append(epoch_of(loader))
    assert all(sorted(epoch) == list(range(SAMPLES)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == len(epochs)
    samples.set_epoch(1)
    assert epoch_of(loader) == epochs[1]
    if "spawn" in how:
        return
    assert epoch_of(loader) == epochs[2]
    samples, loader = make()
    samples.set_epoch(1)
    assert epoch_of(loader, 2) == epochs[1][:12]
    assert epoch_of(loader) == epochs[2]


@pytest.mark.parametrize("how", ["0", "2", "2 persistent"])
@pytest.mark.parametrize("stop", [1, 20, 34, 35, 40])
def test_a_stateful_loader_goes_on_in_the_epochs(dataset: str, how: str, stop: int) -> None:
    make = loaders(dataset, how, True)
    _, loader = make()
    whole = [[labels(batch) for batch in loader] for _ in range(3)]
    assert len(whole[0]) in (34, 35)
    _, loader = make()
    run = iter(loader)
    got = [batch for _ in range(stop) if (batch := next(run, None)) is not None]
    state = loader.state_dict()
    _, again = make()
    again.load_state_dict(state)
    if stop <= len(whole[0]):
        assert [labels(batch) for batch in got] + [labels(batch) for batch in again] == whole[0]
    assert [[labels(batch) for batch in again] for _ in range(2)] == whole[1:]


def test_epochs_before_workers_and_in_copies(dataset: str) -> None:
    make = loaders(dataset, "2", False)
    whole = [epoch_of(loader) for _, loader in [make()] * 4]
    samples, loader = make()
    next(iter(samples))
    assert epoch_of(loader) == whole[1]
    copies = [copy.deepcopy(samples), pickle.loads(pickle.dumps(samples)), copy.copy(samples)]
    assert epoch_of(loader) == whole[2]
    assert len(list(samples)) == SAMPLES
    for each in copies:
        assert epoch_of(DataLoader(each, batch_size=6, num_workers=2)) == whole[2]
    first, second = iter(samples), iter(samples)
    next(first)
    next(second)
    with pytest.raises(RuntimeError, match="iterated again"):
        next(first)


def test_the_workers_of_an_iteration_agree(dataset: str) -> None:
    """Also where one of them is late, or never came."""
    epochs = Epochs(5)
    assert [epochs.begin([7, 0], worker) for worker in (1, 0)] == [5, 5]
    assert [epochs.begin([7, 0], worker) for worker in (0, 1)] == [6, 6], "of the same seed"
    assert epochs.begin([8, 0], 1) == 7
    assert epochs.begin([9, 0], 0) == 8
    assert epochs.begin([8, 0], 0) == 7
    assert [epochs.begin([9, 1], worker, 3) for worker in (0, 1)] == [3, 3]
    assert epochs.following == 4
    epochs.following = 11
    for _ in range(100):
        epochs.begin([1, 1], 0)
    assert epochs.copied().following == epochs.following == 111


def test_sampler_and_epochs(dataset: str) -> None:
    loader = skt.Loader(dataset, 50, seed=1)
    first = [batch.ordinals.tolist() for batch in loader]
    loader.sampler.set_epoch(0)
    assert [batch.ordinals.tolist() for batch in loader] == first
    loader.sampler.set_epoch(1)
    assert [batch.ordinals.tolist() for batch in loader] != first
    state = loader.state_dict()
    loader.load_state_dict(state)
    loader.sampler.set_epoch(2)
    assert len(list(loader)) == 4
    # What has a sampler is asked for this as well, by Lightning of what it validates with.
    assert loader.batch_sampler is None


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("every", [1, 4])
def test_stateful_dataloader(dataset: str, workers: int, every: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def make() -> Any:
        part = skt.IterableDataset(dataset, columns=["label"], chunk=8, seed=4)
        return stateful(part, batch_size=6, num_workers=workers, snapshot_every_n_steps=every)

    whole = [labels(batch) for batch in make()]
    assert sorted(i for batch in whole for i in batch) == list(range(SAMPLES))
    for stop in (1, 5, 17):
        loader = make()
        run = iter(loader)
        got = [labels(next(run)) for _ in range(stop)]
        state = loader.state_dict()
        del run, loader
        again = make()
        again.load_state_dict(state)
        assert got + [labels(batch) for batch in again] == whole


def test_node(dataset: str) -> None:
    nodes = pytest.importorskip("torchdata.nodes")

    def make() -> Any:
        return nodes.Loader(skt.Node(skt.Loader(dataset, 30, seed=3)))

    reference = sk.Loader(dataset, 30, seed=3)
    whole = [batch.ordinals.tolist() for _ in range(2) for batch in reference]
    for stop in (1, 6, 7, 9):
        loader = make()
        got, state = [], None
        for batch in forever(loader):
            got.append(batch.ordinals.tolist())
            if len(got) == stop:
                state = loader.state_dict()
                break
        again = make()
        again.load_state_dict(state)
        for batch in forever(again):
            got.append(batch.ordinals.tolist())
            if len(got) == len(whole):
                break
        assert got == whole


def forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


# Arguments: rank, world size, store of gloo, dataset, state or "", steps, the step before which it is killed or -1, and
# whether it joins the others.
RANK = """
import sys, json, os, signal
rank, world, store, path, state, steps, death, joins = sys.argv[1:]
import shardkit as sk
if joins == "joins":
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank), world_size=int(world))
    loader = sk.Loader(path, global_batch_size=24, seed=7)
else:
    loader = sk.Loader(path, global_batch_size=24, seed=7, rank=int(rank), world_size=int(world))
assert (loader.rank, loader.world_size) == (int(rank), int(world))
if state:
    loader.load_state_dict(json.loads(state))
seen, states = [], [loader.state_dict()]
while len(seen) < int(steps):
    for batch in loader:
        if len(seen) == int(death):
            os.kill(os.getpid(), signal.SIGKILL)
        seen.append(batch.ordinals.tolist())
        states.append(loader.state_dict())
        print(json.dumps([seen, states]), flush=True)
        if len(seen) == int(steps):
            break
if joins == "joins":
    # All have as many steps: a rank with fewer would leave the others waiting here.
    import torch
    count = torch.tensor([len(seen)])
    dist.all_reduce(count)
    assert int(count) == int(steps) * int(world)
"""


def start_rank(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RANK, *(str(argument) for argument in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end_rank(child: subprocess.Popen[str], code: int = 0) -> Any:
    lines = child.communicate(timeout=120)[0].splitlines()
    assert child.returncode == code
    return json.loads(lines[-1])


def test_processes_with_gloo(dataset: str, tmp_path: Path) -> None:
    """The same samples in each step at any number of ranks, which changes in mid-epoch; one rank's state is enough."""
    reference = sk.Loader(dataset, 24, seed=7)
    whole = [sorted(batch.ordinals.tolist()) for _ in range(3) for batch in reference]
    state, steps = "", []
    for number, world in enumerate((2, 4, 3)):
        children = [
            start_rank(rank, world, tmp_path / f"store{number}", dataset, state, 5, -1, "joins")
            for rank in range(world)
        ]
        results = [end_rank(child) for child in children]
        steps += [sorted(i for seen, _ in results for i in seen[step]) for step in range(5)]
        state = json.dumps(results[number][1][-1])
    assert steps == whole[:15]


# Arguments: rank, store of gloo, dataset. Prints the labels of each of three epochs; waits before each for a line.
FOLLOWER = """
import sys, json
rank, store, path = sys.argv[1:]
import torch.distributed as dist
import shardkit.torch as skt
dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank), world_size=2)
loader = skt.Loader(path, 8, follow=skt.agree)
for epoch in range(3):
    input()
    print(json.dumps([int(label) for batch in loader for label in batch["label"]]), flush=True)
"""


def test_ranks_that_follow_agree_with_gloo(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "growing")
    for begin, end in ((0, 40), (40, 64)):
        with sk.Writer(path, {"label": "i64"}, block_size="4KiB", append=begin > 0) as writer:
            for i in range(begin, end):
                writer.write(f"key {i}", label=i)
        if begin == 0:
            children = [
                subprocess.Popen(
                    [sys.executable, "-c", FOLLOWER, str(rank), os.fspath(tmp_path / "store"), path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for rank in range(2)
            ]
        for child in children:
            assert child.stdin is not None
            print("\n" if begin > 0 else "", file=child.stdin, flush=True)
    # Each looks before or after the dataset grew; both have the same, and the last epoch has what was there before it.
    outputs = [child.communicate(timeout=100)[0].splitlines() for child in children]
    epochs = [sorted(json.loads(outputs[0][epoch]) + json.loads(outputs[1][epoch])) for epoch in range(3)]
    assert epochs[2] == list(range(64))
    assert all(epoch in (list(range(40)), list(range(64))) for epoch in epochs)


BEFORE_THE_GROUP = """
import sys, pickle
rank, store, path = sys.argv[1:]
import shardkit as sk, shardkit.torch as skt
import torch.distributed as dist
from torch.utils.data import DataLoader
made = [sk.Loader(path, 8), skt.Loader(path, 8), skt.IterableDataset(path)]
for how in ("fork", "spawn"):
    made.append(DataLoader(skt.IterableDataset(path), num_workers=1, multiprocessing_context=how))
whole = [sk.Loader(path, 8, rank=0, world_size=1), skt.IterableDataset(path, rank=0, world_size=1)]
dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank), world_size=2)
for each in made:
    try:
        next(iter(each))
    except RuntimeError as error:
        assert "torch.distributed has 2 ranks, and this was made for 1" in str(error), error
    else:
        raise AssertionError(each)
assert sum(len(batch) for batch in whole[0]) == sum(1 for _ in whole[1]) == 200
assert sum(len(batch) for batch in sk.Loader(path, 8)) == sum(1 for _ in skt.IterableDataset(path)) == 100
"""


def test_what_is_made_before_the_process_group(dataset: str, tmp_path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", BEFORE_THE_GROUP, str(rank), os.fspath(tmp_path / "store"), dataset])
        for rank in range(2)
    ]
    assert [child.wait(100) for child in children] == [0, 0]


def test_a_rank_that_dies_goes_on_by_the_state_of_another(dataset: str) -> None:
    reference = sk.Loader(dataset, 24, seed=7)
    whole = [sorted(batch.ordinals.tolist()) for _ in range(2) for batch in reference]
    children = [start_rank(rank, 4, "", dataset, "", 12, 7 if rank == 2 else -1, "alone") for rank in range(4)]
    results = [end_rank(child, -signal.SIGKILL if rank == 2 else 0) for rank, child in enumerate(children)]
    assert len(results[2][0]) == 7
    again = end_rank(start_rank(2, 4, "", dataset, json.dumps(results[0][1][7]), 5, -1, "alone"))
    results[2][0] += again[0]
    for step in range(12):
        assert sorted(i for seen, _ in results for i in seen[step]) == whole[step]


def test_a_batch_that_ranks_do_not_divide(dataset: str) -> None:
    with pytest.raises(ValueError, match=r"global_batch_size 32 .* 3 ranks: give 33, or uneven=True"):
        skt.Loader(dataset, global_batch_size=32, rank=0, world_size=3)
    whole = [sorted(batch.ordinals.tolist()) for batch in sk.Loader(dataset, 32, seed=6)]
    loaders = [
        skt.Loader(dataset, global_batch_size=32, seed=6, rank=rank, world_size=3, uneven=True) for rank in range(3)
    ]
    sizes = set()
    for expected, *parts in zip(whole, *loaders, strict=True):
        lengths = sorted(len(part) for part in parts)
        assert lengths[-1] - lengths[0] <= 1
        sizes.add(tuple(lengths))
        assert sorted(i for part in parts for i in part.ordinals.tolist()) == expected
    assert (10, 11, 11) in sizes
    padded = [skt.Loader(dataset, 10, rank=rank, world_size=3, remainder="pad") for rank in range(3)]
    seen: set[int] = set()
    for batches in zip(*padded, strict=True):
        for batch in batches:
            assert len(batch) == len(batch.padding) == 10
            assert batch.padding.dtype == bool
            assert seen.isdisjoint(batch.ordinals[~batch.padding].tolist())
            seen.update(batch.ordinals[~batch.padding].tolist())
    assert len(seen) == len(sk.open(dataset))


def test_each_rank_has_a_sample_of_each_step(dataset: str) -> None:
    samples = len(sk.open(dataset))
    with pytest.raises(ValueError, match=r"batch of 2 over 3 ranks"):
        sk.Loader(dataset, global_batch_size=2, rank=0, world_size=3, uneven=True)
    batch = next(size for size in range(3, samples, 3) if 0 < samples % size < 3)
    with pytest.raises(ValueError, match=r"the last step .* drop or pad the remainder"):
        sk.Loader(dataset, global_batch_size=batch, rank=2, world_size=3)
    allowed = [
        sk.Loader(dataset, global_batch_size=batch, rank=rank, world_size=3, empty_batches=True) for rank in range(3)
    ]
    assert sum(len(batch) for loader in allowed for batch in loader) == samples
    for remainder in ("drop", "pad"):
        loaders = [
            sk.Loader(dataset, global_batch_size=batch, rank=rank, world_size=3, remainder=remainder)
            for rank in range(3)
        ]
        assert len({len(loader) for loader in loaders}) == 1
        assert min(len(batch) for loader in loaders for batch in loader) > 0


def test_seek_reads_nothing_of_what_it_skips(dataset: str) -> None:
    whole = [[batch.ordinals.tolist() for batch in loader] for loader in [sk.Loader(dataset, 30, seed=8)] * 2]
    loader = sk.Loader(dataset, 30, seed=8)
    loader.set_epoch(1)
    loader.seek(5)
    assert [batch.ordinals.tolist() for batch in loader] == whole[1][5:]
    assert loader.report().batches == 2
    for step in (-1, 7):
        with pytest.raises(ValueError, match="steps 0 to 6"):
            loader.seek(step)


def test_data_loader_over_whole_batches(dataset: str) -> None:
    whole = [batch.ordinals.tolist() for batch in sk.Loader(dataset, 30, seed=9)]
    loader = DataLoader(skt.Loader(dataset, 30, seed=9), batch_size=None)
    assert len(loader) == len(whole)
    assert [batch.ordinals.tolist() for batch in loader] == whole


def test_a_state_within_an_epoch_that_a_trainer_has_not_ended(dataset: str) -> None:
    """As Composer asks for it: state_dict(samples of the epoch so far, True)."""
    first = skt.Loader(dataset, 50, seed=1)
    assert len(list(first)) == 4
    again = skt.Loader(dataset, 50, seed=1)
    again.load_state_dict(first.state_dict(200, True))
    assert list(again) == []
    assert {batch.epoch for batch in again} == {1}
    again.load_state_dict(first.state_dict(0, True))
    assert {batch.epoch for batch in again} == {1}


def test_steps_of_an_epoch_by_number(dataset: str) -> None:
    epochs = [[batch.ordinals.tolist() for batch in loader] for loader in [sk.Loader(dataset, 30, seed=2)] * 2]
    delivered = []
    steps = skt.StepLoader(
        skt.Loader(dataset, 30, seed=2, workers=0, batch_function=lambda batch: delivered.append(1) or batch)
    )
    assert [[batch.ordinals.tolist() for batch in steps] for _ in range(2)] == epochs
    steps.set_epoch(1)
    delivered.clear()
    assert [steps.dataset[step].ordinals.tolist() for step in (4, 5, 2)] == [epochs[1][step] for step in (4, 5, 2)]
    assert len(delivered) == 3


def test_the_state_of_another_part_is_refused(dataset: str) -> None:
    def make(world_size: int) -> Any:
        return skt.IterableDataset(dataset, columns=["label"], rank=0, world_size=world_size)

    first = make(1)
    next(iter(first))
    again = make(2)
    again.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="part 0 of 1, and this is part 0 of 2"):
        next(iter(again))


def test_options_that_samples_do_not_have(dataset: str) -> None:
    for options, message in (
        ({"num_workers": 2}, "there is no option num_workers: give nothing, or workers"),
        ({"ordr": "window"}, "did you mean order"),
        ({"follow": True}, "there is no option follow; those of SampleLoaderOptions are"),
        ({"batch_size": 2}, "samples come one by one"),
    ):
        with pytest.raises(TypeError, match=message):
            skt.IterableDataset(dataset, **options)  # type: ignore[arg-type]
