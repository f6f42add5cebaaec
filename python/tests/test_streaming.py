"""shardkit.streaming: what programs of MosaicML Streaming get."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import served

import shardkit as sk

pytest.importorskip("torch")

from shardkit.streaming import (
    LocalDataset,
    MDSWriter,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
    merge_index,
    stream,
)


def write(path: Path, count: int, first: int = 0, **options: Any) -> str:
    with MDSWriter(out=str(path), columns={"id": "int", "text": "str"}, **{"size_limit": 400, **options}) as writer:
        for i in range(first, first + count):
            writer.write({"id": i, "text": f"sample {i}"})
    return str(path)


@pytest.fixture
def mds(tmp_path: Path) -> str:
    return write(tmp_path / "mds", 101)


def ids(samples: Iterator[Any] | Any) -> list[int]:
    return [sample["id"] for sample in samples]


def of_ranks(
    monkeypatch: pytest.MonkeyPatch, world: int, workers: int, make: Any, state: Any = None, steps: Any = None
) -> Any:
    """Return what the ranks get, batch by batch, and the state after `steps`."""
    found: list[list[list[int]]] = []
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        dataset = make()
        loader = StreamingDataLoader(dataset, batch_size=dataset.batch_size, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        batches = []
        for batch in loader:
            batches.append(batch["id"].tolist())
            if len(batches) == steps:
                break
        taken = loader.state_dict()
        found.append(batches)
        monkeypatch.delenv("RANK")
        monkeypatch.delenv("WORLD_SIZE")
    return found, taken


def test_arrays_whose_dtype_is_damaged_do_not_hide_other_damage(tmp_path: Path) -> None:
    for part in "ab":
        with MDSWriter(out=str(tmp_path / part), columns={"a": "ndarray", "i": "int"}, size_limit=400) as writer:
            for i in range(20):
                writer.write({"a": np.full(i + 1, i), "i": i})
    shards = sorted((tmp_path / "a").glob("*.mds"))
    assert len(shards) > 3
    for shard in (shards[0], shards[-1]):
        os.truncate(shard, shard.stat().st_size - 1)
    problems = [str(problem) for problem in sk.validate(tmp_path / "a").problems]
    for shard in (shards[0], shards[-1]):
        assert any(shard.name in problem for problem in problems), problems
    assert not any(shards[1].name in problem for problem in problems), problems
    with pytest.raises(sk.DataLossError, match=r"shard\.00000\.mds"):
        merge_index(str(tmp_path))
    assert not (tmp_path / "index.json").exists()
    shards[0].unlink()
    problems = [str(problem) for problem in sk.validate(tmp_path / "a").problems]
    assert any("shard 0 of index.json is missing" in problem for problem in problems), problems
    assert any(shards[-1].name in problem for problem in problems), problems


def test_shards_are_told(tmp_path: Path) -> None:
    counts = [101, 1]
    paths = [write(tmp_path / f"{count}", count, size_limit=1 << 9) for count in counts]
    dataset = StreamingDataset(streams=[Stream(local=path) for path in paths], batch_size=4)
    listed = [json.loads((Path(path) / "index.json").read_bytes())["shards"] for path in paths]
    assert [len(shards) > 1 for shards in listed] == [True, False]
    of_all = [(shard["raw_data"]["basename"], shard["samples"]) for shards in listed for shard in shards]
    assert [(shard.basename, shard.samples) for shard in dataset.shards] == of_all
    assert [len(shard) for shard in dataset.shards] == dataset.samples_per_shard.tolist()
    assert dataset.samples_per_shard.sum() == dataset.num_samples == 102
    assert dataset.num_shards == len(of_all)


def test_samples_come_in_order_and_by_number(mds: str) -> None:
    dataset = StreamingDataset(local=mds, batch_size=4)
    assert ids(dataset) == list(range(101))
    assert len(dataset) == dataset.size == dataset.num_samples == 101
    assert dataset[100] == dataset[-1] == {"id": 100, "text": "sample 100"}
    assert ids(dataset[-3:]) == [98, 99, 100]
    assert ids(dataset[10:2:-3]) == [10, 7, 4]
    assert [ids(two) for two in dataset[[[3, 1], np.array([2])]]] == [[3, 1], [2]]
    for wrong in (101, -102):
        with pytest.raises(IndexError):
            dataset[wrong]


def test_shuffled_epochs_have_each_sample_once_and_repeat_by_seed(mds: str) -> None:
    def epochs(seed: int) -> list[list[int]]:
        dataset = StreamingDataset(local=mds, batch_size=4, shuffle=True, shuffle_seed=seed)
        return [ids(dataset) for _ in range(3)]

    one, again, other = epochs(1), epochs(1), epochs(2)
    assert one == again != other
    assert all(sorted(epoch) == list(range(101)) for epoch in [*one, *other])
    assert one[0] != one[1] != list(range(101))


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_together_have_each_sample_once(
    mds: str, monkeypatch: pytest.MonkeyPatch, world: int, workers: int
) -> None:
    def make() -> StreamingDataset:
        return StreamingDataset(local=mds, batch_size=4, shuffle=True)

    found, _ = of_ranks(monkeypatch, world, workers, make)
    assert {sum(map(len, batches)) for batches in found} == {-(-101 // world)}
    counts = Counter(i for batches in found for batch in batches for i in batch)
    assert sorted(counts) == list(range(101))
    assert counts.total() - 101 < world


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_state_goes_on_with_other_ranks_and_workers(mds: str, monkeypatch: pytest.MonkeyPatch, shuffle: bool) -> None:
    def make(batch_size: int) -> Any:
        return lambda: StreamingDataset(local=mds, batch_size=batch_size, shuffle=shuffle)

    for (world, workers, batch), (then, workers_then, batch_then) in [
        ((1, 0, 4), (2, 2, 2)),
        ((2, 2, 4), (1, 3, 8)),
        ((3, 1, 2), (1, 0, 6)),
        ((2, 0, 3), (4, 0, 1)),
    ]:
        before, state = of_ranks(monkeypatch, world, workers, make(batch), steps=3)
        state = json.loads(json.dumps(state))
        assert state["sample_in_epoch"] == 3 * batch * world
        after, _ = of_ranks(monkeypatch, then, workers_then, make(batch_then), state)
        counts = Counter(i for batches in [*before, *after] for one in batches for i in one)
        assert sorted(counts) == list(range(101))
        assert counts.total() - 101 < then


def test_the_epoch_after_a_resumed_one_is_whole(mds: str) -> None:
    def loader() -> StreamingDataLoader:
        return StreamingDataLoader(StreamingDataset(local=mds, batch_size=8, shuffle=True), batch_size=8, num_workers=2)

    whole = loader()
    epochs = [[batch["id"].tolist() for batch in whole] for _ in range(3)]
    one = loader()
    list(one)
    state = None
    for number, _ in enumerate(one):
        if number == 4:
            state = one.state_dict()
            break
    again = loader()
    assert state is not None
    again.load_state_dict(state)
    assert [batch["id"].tolist() for batch in again] == epochs[1][5:]
    assert [batch["id"].tolist() for batch in again] == epochs[2]
    kept = StreamingDataLoader(again.dataset, batch_size=8, num_workers=2, persistent_workers=True)
    kept.load_state_dict(state | {"epoch": 5, "sample_in_epoch": 96})
    assert [len(batch["id"]) for batch in kept] == [5]
    kept.load_state_dict(state | {"epoch": 7, "sample_in_epoch": 99})  # the workers run already
    assert [len(batch["id"]) for batch in kept] == [2]
    assert again.dataset.next_epoch == 8


def test_a_state_of_other_data_or_of_the_original_is_refused(mds: str, tmp_path: Path) -> None:
    state = StreamingDataset(local=mds, batch_size=1).state_dict(5, True)
    other = StreamingDataset(local=write(tmp_path / "other", 90), batch_size=1)
    with pytest.raises(ValueError, match="give the same data"):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="between two epochs"):
        other.load_state_dict({"epoch": 1, "sample_in_epoch": 5, "num_canonical_nodes": 1, "shuffle_seed": 3})
    other.load_state_dict({"epoch": 4, "sample_in_epoch": 0, "num_canonical_nodes": 1, "shuffle_seed": 3})
    assert len(ids(other)) == 90
    assert other.next_epoch == 5


class Doubled(StreamingDataset):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at)["id"] * 2


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_subclasses_work_also_in_workers(mds: str, start: str) -> None:
    dataset = Doubled(local=mds, batch_size=10)
    assert list(dataset) == list(range(0, 202, 2))
    loader = StreamingDataLoader(dataset, batch_size=10, num_workers=2, multiprocessing_context=start, drop_last=True)
    assert [i for batch in loader for i in batch.tolist()] == list(range(0, 200, 2))
    assert dataset.next_epoch == 2


def test_a_pickled_dataset_goes_on_by_itself(mds: str) -> None:
    dataset = StreamingDataset(local=mds, batch_size=4, shuffle=True, shuffle_block_size=20)
    list(dataset)
    state = dataset.state_dict(8, True)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.state_dict(8, True) == state
    copy.load_state_dict(state)
    assert len(list(copy)) == 93
    assert (copy.next_epoch, dataset.next_epoch) == (1, 1)
    assert ids(copy) == ids(dataset)
    other = StreamingDataset(local=mds, batch_size=4, shuffle=True, shuffle_block_size=20, shuffle_seed=1)
    other.load_state_dict(dataset.state_dict(0, True))
    assert [ids(other), ids(other)] == [ids(copy) for copy.next_epoch in (1, 2)]


def test_a_value_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path / "mds"), columns={"text": "str"}) as writer:
        writer.write({"text": "a"})
        writer.write({"text": b"\xff"})
    dataset = StreamingDataset(local=str(tmp_path / "mds"))
    with pytest.raises(sk.DataLossError, match="mds: sample 1: column text"):
        dataset[1]


@pytest.mark.parametrize("bad", [0, 1, 5, 70, 99])
def test_iterating_gives_all_samples_before_a_bad_one(tmp_path: Path, bad: int) -> None:
    with MDSWriter(out=str(tmp_path / "mds"), columns={"id": "int", "text": "str"}) as writer:
        for i in range(100):
            writer.write({"id": i, "text": b"\xff" if i == bad else str(i)})
    samples = iter(StreamingDataset(local=str(tmp_path / "mds"), shuffle=False, batch_size=1))
    before = list(itertools.islice(samples, bad))
    assert before == [{"id": i, "text": str(i)} for i in range(bad)]
    with pytest.raises(sk.DataLossError, match=f"mds: sample {bad}: column text"):
        next(samples)


@pytest.mark.parametrize("size", [0, 1, 2000, 40000])
def test_iterating_gives_what_indexing_does(tmp_path: Path, size: int) -> None:
    values = [bytes([i]) * (size if i % 3 else i) for i in range(150)]
    with MDSWriter(out=str(tmp_path / "mds"), columns={"id": "int", "value": "bytes"}) as writer:
        for i, value in enumerate(values):
            writer.write({"id": i, "value": value})
    dataset = StreamingDataset(local=str(tmp_path / "mds"), shuffle=True, batch_size=4)
    samples = list(dataset)
    assert sorted(sample["id"] for sample in samples) == list(range(150))
    assert samples == [dataset[sample["id"]] for sample in samples]
    assert all(sample["value"] == values[sample["id"]] for sample in samples)


def rows(samples: list[dict[str, Any]]) -> Any:
    torch = pytest.importorskip("torch")
    numbers = torch.tensor([sample["id"] for sample in samples])
    large = torch.arange(100_000) if samples[0]["id"] % 20 == 0 else numbers.clone()
    return {
        "id": numbers,
        "half": numbers.to(torch.bfloat16),
        "large": large,
        "text": [each["text"] for each in samples],
    }


@pytest.mark.parametrize("collate", [None, rows])
def test_batches_of_workers_are_those_of_the_loop(mds: str, collate: Any) -> None:
    torch = pytest.importorskip("torch")

    def batches(workers: int) -> list[dict[str, Any]]:
        dataset = StreamingDataset(local=mds, batch_size=10)
        loader = StreamingDataLoader(dataset, batch_size=10, num_workers=workers, collate_fn=collate)
        made = list(loader)
        assert loader.num_samples_yielded == 101
        assert collate in (None, loader.collate_fn)
        return made

    for one, other in zip(batches(0), batches(2), strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert type(value) is type(other[name])
            if isinstance(value, torch.Tensor):
                assert value.dtype == other[name].dtype
                assert torch.equal(value, other[name])
                other[name] += 1  # it may be written to
            else:
                assert value == other[name]


def test_replicated_ranks_have_the_same_samples(mds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, state = of_ranks(
        monkeypatch, 4, 0, lambda: StreamingDataset(local=mds, batch_size=5, shuffle=True, replication=2), steps=2
    )
    assert found[0] == found[1] != found[2] == found[3]
    assert state["sample_in_epoch"] == 2 * 5 * 2
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="divisible"):
        StreamingDataset(local=mds, replication=2)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("method", ["balanced", "fixed"])
def test_streams_are_mixed_as_weighted(tmp_path: Path, shuffle: bool, method: str) -> None:
    a, b, c = (write(tmp_path / name, 20, first) for name, first in (("a", 0), ("b", 100), ("c", 200)))

    def epochs(*streams: Stream, **options: Any) -> list[Counter[int]]:
        dataset = StreamingDataset(
            streams=list(streams), batch_size=4, shuffle=shuffle, sampling_method=method, **options
        )
        made = [Counter(ids(dataset)) for _ in range(2)]
        assert all(epoch.total() == dataset.epoch_size == len(dataset) for epoch in made)
        return made

    def of(epoch: Counter[int]) -> list[int]:
        return [sum(n for i, n in epoch.items() if i // 100 == stream) for stream in range(3)]

    plain = epochs(Stream(local=a), Stream(local=b), Stream(local=c))
    assert plain == [Counter([*range(20), *range(100, 120), *range(200, 220)])] * 2
    chosen = epochs(Stream(local=a, choose=50), Stream(local=b, repeat=0.25), Stream(local=c, choose=0))
    assert [of(epoch) for epoch in chosen] == [[50, 5, 0]] * 2
    assert all({epoch[i] for i in range(20)} == {2, 3} for epoch in chosen)
    assert (chosen[0] == chosen[1]) == (method == "fixed")
    shares = epochs(Stream(local=a, proportion=3), Stream(local=b, proportion=1), epoch_size="0.04k")
    assert [of(epoch) for epoch in shares] == [[30, 10, 0]] * 2
    sizes = epochs(Stream(local=a), Stream(local=b), epoch_size=10)
    assert [of(epoch) for epoch in sizes] == [[5, 5, 0]] * 2


@pytest.mark.parametrize("method", ["stratified", "per_stream", "device_per_stream"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_mix_the_streams_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, shuffle: bool
) -> None:
    a, b = write(tmp_path / "a", 40), write(tmp_path / "b", 81, 100)

    def make() -> StreamingDataset:
        streams = [Stream(local=a), Stream(local=b)]
        return StreamingDataset(streams=streams, batch_size=6, shuffle=shuffle, batching_method=method)

    found, _ = of_ranks(monkeypatch, 2, 2, make)
    steps = [[*one, *other] for one, other in zip(*found, strict=True)]
    of_b = [[sum(i >= 100 for i in batch) for batch in batches] for batches in found]
    if method == "stratified":
        assert [one + other for one, other in zip(*of_b, strict=True)] == [8] * 10
    elif method == "per_stream":
        assert sorted(of_b[0]) == [0] * 3 + [6] * 6
        assert of_b[0] == of_b[1]
    else:
        assert {*of_b[0], *of_b[1]} == {0, 6}
    everything = [i for step in steps for i in step]
    assert len(set(everything)) == len(everything) >= 108
    before, state = of_ranks(monkeypatch, 2, 0, make, steps=3)
    after, _ = of_ranks(monkeypatch, 2, 3, make, state)
    assert [one + other for one, other in zip(before, after, strict=True)] == found


def test_what_is_not_here_is_refused_in_one_line(mds: str, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "either"),
        ({"local": mds, "streams": [Stream(local=mds)]}, "either"),
        ({"local": mds, "batching_method": "mine"}, "Invalid batching method"),
        ({"local": mds, "sampling_method": "mine"}, "Invalid sampling method"),
        ({"local": mds, "shuffle_algo": "mine"}, "shuffle_algo"),
        ({"local": mds, "partition_algo": "mine"}, "partition_algo"),
        ({"local": mds, "sampling_granularity": 0}, "sampling_granularity"),
        ({"local": mds, "shuffle_seed": -1}, "shuffle_seed"),
        ({"local": mds, "epoch_size": "5 apples"}, "Unsupported"),
        ({"local": mds, "cache_limit": "many"}, "cache_limit"),
        ({"local": mds, "validate_hash": "sha1"}, "lists none"),
        ({"local": mds, "stream_name": "mine"}, "registry"),
        ({"local": mds, "download_timeout": 0}, "positive"),
        ({"streams": [Stream(local=mds, choose=3)], "epoch_size": 9}, "epoch_size"),
        ({"streams": [Stream(local=mds, proportion=1), Stream(local=mds)]}, "incompatible"),
        ({"streams": [Stream(local=mds, choose=0)]}, "no samples"),
    ]
    for options, said in cases:
        with pytest.raises(ValueError, match=said) as error:
            StreamingDataset(**options)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="batch_size"):
        next(iter(StreamingDataset(local=mds)))
    with pytest.raises(ValueError, match="At most one"):
        Stream(local=mds, choose=1, repeat=1)
    with pytest.raises(RuntimeError, match="No `remote` provided"):
        StreamingDataset(local=str(tmp_path / "nowhere"), batch_size=1)


def test_a_complete_local_copy_serves_a_remote_that_is_gone(mds: str, tmp_path: Path) -> None:
    dataset = StreamingDataset(local=mds, remote="https://localhost:1/gone", batch_size=1)
    assert ids(dataset) == list(range(101))
    assert ids(StreamingDataset(remote=mds, local=str(tmp_path / "unused"), batch_size=1)) == list(range(101))
    split = StreamingDataset(local=os.path.dirname(mds), split="mds", batch_size=1)
    assert len(split) == 101


def test_the_index_of_a_local_copy_is_read_once(mds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    listed = stream.listed_shards

    def counted(folder: str) -> list[dict[str, Any]] | None:
        read.append(folder)
        return listed(folder)

    monkeypatch.setattr(stream, "listed_shards", counted)
    dataset = StreamingDataset(local=mds, remote="https://localhost:1/gone", batch_size=1)
    assert ids(pickle.loads(pickle.dumps(dataset))) == list(range(101))
    assert len(read) == 1


def test_a_url_is_read_ahead_and_kept_in_local(tmp_path: Path) -> None:
    sent: list[int] = []
    mds = str(tmp_path / "mds")
    with MDSWriter(out=mds, columns={"id": "int", "text": "str"}, size_limit="64kb") as writer:
        for i in range(101):
            writer.write({"id": i, "text": f"sample {i} " * 200})
    with served(mds, sent=sent) as url:

        def epoch(workers: int, local: str | None = None) -> list[int]:
            dataset = StreamingDataset(
                remote=url, local=local, shuffle=True, batch_size=8, cache_limit="16mb", predownload=20
            )
            assert dataset[7]["text"] == "sample 7 " * 200
            loader = StreamingDataLoader(dataset, batch_size=8, num_workers=workers)
            return [i for batch in loader for i in batch["id"].tolist()]

        expected = ids(StreamingDataset(local=mds, shuffle=True, batch_size=8))
        assert epoch(0) == expected
        kept = str(tmp_path / "kept")
        try:
            assert epoch(2, kept) == expected
            fetched = sum(sent)
            assert epoch(2, kept) == expected
            assert sum(sent) - fetched < 50_000, "the index, and a byte of each file"
        finally:
            sk.use_cache(None)


def test_shards_of_shardkit_give_the_same_samples(mds: str, tmp_path: Path) -> None:
    sk.convert(mds, tmp_path / "shards")
    of_mds, of_shards = (StreamingDataset(local=str(path), batch_size=1) for path in (mds, tmp_path / "shards"))
    assert list(of_mds) == list(of_shards)
    assert [type(value) for value in of_mds[0].values()] == [type(value) for value in of_shards[0].values()]


VALUES: dict[str, list[Any]] = {
    "bytes": [b"", b"ab"],
    "str": ["", "\u00e4"],
    "int": [-(1 << 63), 5],
    "uint8": [np.uint8(0), np.uint8(255)],
    "int16": [np.int16(-5), np.int16(7)],
    "uint64": [np.uint64((1 << 64) - 1), np.uint64(1)],
    "float16": [np.float16(0.5), np.float16(-2)],
    "float64": [np.float64(0.1), np.float64("inf")],
    "str_int": [10**30, -1],
    "str_float": [0.1, -2.5],
    "str_decimal": [Decimal("0.10"), Decimal("7")],
    "json": [{"a": [1, None]}, "x"],
    "ndarray": [np.arange(6, dtype=np.int16).reshape(2, 3), np.ones(300, np.float32)],
    "ndarray:float32": [np.zeros((1, 2, 3), np.float32), np.ones(5, np.float32)],
    "ndarray:uint8:2,3": [np.zeros((2, 3), np.uint8), np.ones((2, 3), np.uint8)],
}


@pytest.mark.parametrize("compression", [None, "zstd:7"])
def test_values_of_every_encoding_come_back(tmp_path: Path, compression: str | None) -> None:
    hashes = ["sha1", "xxh64"] if compression else None
    options: dict[str, Any] = {"compression": compression, "hashes": hashes}
    with MDSWriter(out=str(tmp_path / "mds"), columns={name: name for name in VALUES}, **options) as writer:
        for i in range(2):
            writer.write({name: values[i] for name, values in VALUES.items()})
    for i, sample in enumerate(StreamingDataset(local=str(tmp_path / "mds"), batch_size=1)):
        for name, values in VALUES.items():
            assert type(sample[name]) is type(values[i]), name
            np.testing.assert_array_equal(sample[name], values[i], err_msg=name)
    # Elsewhere the column is of 64 bits, and validation names what they do not hold.
    (problem,) = sk.validate(tmp_path / "mds", deep=True).problems
    assert re.search(r"sample 0 at byte .* beyond those of 64 bits", problem.message)


def test_a_converted_dataset_gives_the_same_values(tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image")
    picture = images.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))
    values: dict[str, Any] = {
        "str_int": -7,
        "str_float": 0.1,
        "str_decimal": Decimal("0.10"),
        "ndarray": np.arange(6, dtype=np.int16).reshape(2, 3),
        "pil": picture,
        "list[pil]": [picture, picture],
        "list[png]": [picture],
    }
    with MDSWriter(out=str(tmp_path / "mds"), columns={name: name for name in values}) as writer:
        writer.write(values)
    sk.convert(tmp_path / "mds", tmp_path / "data")
    assert {column.name: column.type for column in sk.open(tmp_path / "data").schema} == {
        **{"str_int": "i64", "str_float": "f64", "str_decimal": "utf8", "ndarray": "ndarray"},
        **{"pil": "image", "list[pil]": "bytes", "list[png]": "bytes"},
    }
    for path in (tmp_path / "mds", tmp_path / "data"):
        (sample,) = StreamingDataset(local=str(path), batch_size=1)
        for name, value in values.items():
            assert type(sample[name]) is type(value) or name == "pil", name
            found, given = (
                [*map(np.asarray, each if isinstance(each, list) else [each])] for each in (sample[name], value)
            )
            assert [*map(np.array_equal, found, given)] == [True] * len(given) == [True] * len(found), name
    # And the values of the package are usable as they are.
    assert sk.validate(tmp_path / "mds", deep=True)
    sample = sk.open(tmp_path / "mds")[0]
    assert (sample["str_int"], sample["str_float"], sample["str_decimal"]) == (-7, 0.1, "0.10")
    assert np.array_equal(sample["ndarray"], values["ndarray"])
    for file in (sample["pil"], *sk.image_list(sample["list[pil]"]), *sk.image_list(sample["list[png]"])):
        assert np.array_equal(sk.decode_image(file), np.asarray(picture))


def test_images_come_as_pil(tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image")
    made = images.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))
    encodings = {"pil": "pil", "png": "png", "jpeg": "jpeg", "list": "list[png]"}
    with MDSWriter(out=str(tmp_path / "mds"), columns=encodings) as writer:
        writer.write({"pil": made, "png": made, "jpeg": made, "list": [made, made]})
    sample = StreamingDataset(local=str(tmp_path / "mds"))[0]
    for image in (sample["pil"], sample["png"], *sample["list"]):
        assert np.array_equal(np.asarray(image), np.asarray(made))
    assert sample["jpeg"].size == (8, 8)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_lists_of_images_are_divided(tmp_path: Path, count: int) -> None:
    files = [bytes([65 + i]) * i for i in range(count)]
    stored = np.array([count, *map(len, files)], "<u4").tobytes() + b"".join(files)
    for value in (stored, bytes(4) + stored):
        assert sk.image_list(value) == files
        for damaged in (*(value[:i] for i in range(1, len(value))), value + b"x", b"\xff" * 4 + value[4:]):
            if damaged not in (bytes(4), bytes(8)):  # lists of none
                with pytest.raises(sk.DataLossError, match="which are not those that its sizes say"):
                    sk.image_list(damaged)
    columns = {"id": "int", "array": "jpeg_array", "list": "list[jpeg]"}
    with MDSWriter(out=str(tmp_path / "mds"), columns=columns) as writer:
        for i in range(3):
            writer.write({"id": i, "array": stored, "list": bytes(4) + stored})
    (batch,) = sk.Loader(tmp_path / "mds", 3, columns={"array": sk.image_list, "list": sk.image_list})
    assert list(batch["array"]) == list(batch["list"]) == [files] * 3
    with pytest.raises(ValueError, match=r"each value is a list of image files; shardkit\.image_list divides it"):
        sk.Loader(tmp_path / "mds", 3, columns={"array": sk.Image()})


def test_a_pickled_column_is_left_out_with_a_warning(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path / "mds"), columns={"id": "int", "odd": "bytes"}) as writer:
        writer.write({"id": 7, "odd": b"x"})
    for name in ("index.json", "shard.00000.mds"):
        file = tmp_path / "mds" / name
        file.write_bytes(file.read_bytes().replace(b'"bytes"]', b'"pkl"]  '))
    said = 'column "odd" is pickled.*; it is left out$'
    with pytest.warns(UserWarning, match=said):
        assert sk.open(tmp_path / "mds")[0] == {"id": 7}
    with pytest.warns(UserWarning, match=said):
        (batch,) = sk.Loader(tmp_path / "mds", 1)
    assert batch.columns == ["id"]
    with pytest.warns(UserWarning, match=said):
        assert list(StreamingDataset(local=str(tmp_path / "mds"), batch_size=1)) == [{"id": 7}]
    for warnings in (
        sk.convert(tmp_path / "mds", tmp_path / "data").warnings,
        [each.message for each in sk.validate(tmp_path / "mds").warnings],
    ):
        (warning,) = warnings
        assert re.search(said, warning)
    assert sk.open(tmp_path / "data")[0] == {"id": 7}
    with pytest.raises(NotImplementedError, match="leave it out: --columns id"):
        sk.open(tmp_path / "mds", columns=["odd"])


def test_samples_of_mds_are_numbered(mds: str, tmp_path: Path) -> None:
    expected = [f"{i:012d}" for i in range(101)]
    samples = sk.open(mds)
    assert list(samples.keys()) == expected
    assert samples["000000000100"] == {"id": 100, "text": "sample 100"}
    assert list(sk.open(mds, indices=[3, 70]).keys()) == [expected[3], expected[70]]
    with pytest.raises(KeyError):
        samples["000000000101"]
    for batch in sk.Loader(mds, 8, seed=1):
        assert batch.sample_keys == [expected[i] for i in batch["id"]]
    sk.split(mds, tmp_path / "parts", {"train": 0.8, "test": 0.2}, seed=3)
    parts = [{sample["id"] for sample in sk.open(tmp_path / "parts" / name)} for name in ("train", "test")]
    assert sorted([*parts[0], *parts[1]]) == list(range(101))
    assert len(parts[0]) > 60 > len(parts[1]) > 5
    sk.convert(mds, tmp_path / "data")  # which writes no numbers
    assert sk.open(tmp_path / "data").schema.names == ["id", "text"]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_writing_a_few_samples(tmp_path: Path, count: int) -> None:
    path = write(tmp_path / "mds", count, size_limit="64kb")
    assert len(os.listdir(path)) == 1 + (count > 0)
    if count == 0:
        with pytest.raises((RuntimeError, ValueError)):
            StreamingDataset(local=path, batch_size=1)
    else:
        assert ids(StreamingDataset(local=path, batch_size=2)) == list(range(count))
        with pytest.raises(FileExistsError, match="exist_ok"):
            write(tmp_path / "mds", 1)
        write(tmp_path / "mds", 1, exist_ok=True)
        assert len(LocalDataset(path)) == 1


def test_the_writer_refuses(tmp_path: Path) -> None:
    def made(**options: Any) -> MDSWriter:
        return MDSWriter(**{"out": str(tmp_path / "out"), "columns": {"a": "int8"}, **options})

    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"columns": {"a": "pkl"}}, TypeError, "runs code"),
        ({"columns": {"a": "text"}}, TypeError, "unsupported"),
        ({"compression": "lzma"}, ValueError, "compression"),
        ({"compression": "zstd:23"}, ValueError, "compression"),
        ({"hashes": ["xxh64", "sha1"]}, ValueError, "sorted"),
        ({"hashes": ["crc"]}, ValueError, "Invalid hash"),
        ({"size_limit": 1 << 32}, ValueError, "size_limit"),
        ({"min_workers": 1}, ValueError, "Invalid Writer argument"),
    ]
    for options, error, said in cases:
        with pytest.raises(error, match=said):
            made(**options)
    writer = made()
    for value in (300, 1.5, "x", np.zeros(2)):
        with pytest.raises((ValueError, TypeError)):
            writer.write({"a": value})
    with pytest.raises(KeyError):
        writer.write({})
    writer.finish()
    with pytest.raises(ValueError, match="closed"):
        writer.write({"a": 1})


def test_indexes_are_merged(tmp_path: Path) -> None:
    parts = [write(tmp_path / "all" / str(i), 10, 10 * i) for i in range(3)]
    merge_index(str(tmp_path / "all"))
    assert ids(StreamingDataset(local=str(tmp_path / "all"), batch_size=1)) == list(range(30))
    (tmp_path / "all" / "index.json").unlink()
    merge_index([f"{parts[2]}/index.json", f"{parts[0]}/index.json"], str(tmp_path / "all"))
    assert ids(StreamingDataset(local=str(tmp_path / "all"), batch_size=1)) == [*range(20, 30), *range(10)]
    with pytest.raises(ValueError, match="keep_local"):
        merge_index(parts, str(tmp_path / "all"), keep_local=False)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_no_shared_memory_with_a_name_is_used(mds: str) -> None:
    def in_use() -> list[str]:
        files = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        files = [os.readlink(file) for file in files if os.path.islink(file)]
        return [name for name in [*files, Path("/proc/self/maps").read_text()] if "/dev/shm" in name]

    before = in_use()
    samples = iter(StreamingDataset(local=mds, batch_size=1, shuffle=True))
    next(samples)
    assert in_use() == before
