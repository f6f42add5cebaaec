from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    columns = {"n": "i64", "scores": "f32[]"}
    rows = ({"key": f"k{i}", "n": i, "scores": np.linspace(0, i, 1 + i % 4, dtype=np.float32)} for i in range(200))
    sk.pack(rows, tmp_path / "in", columns=columns)
    return tmp_path / "in"


def keys(path: Path) -> list[str]:
    dataset = sk.open(path)
    return [dataset[i]["key"] for i in range(len(dataset))]


def test_filter(dataset: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = sk.filter(
        dataset,
        tmp_path / "out",
        where="n % 2 = 1 and max(scores) > 100",
        ranges=[(0, 150)],
        threads=2,
        progress=lambda done, total: calls.append((done, total)),
    )
    expected = [f"k{i}" for i in range(101, 150, 2)]
    assert keys(tmp_path / "out") == expected
    assert (report.samples, report.selection.samples, report.selection.selected) == (25, 200, 25)
    assert calls[-1] == (25, 25)
    assert sk.count(dataset, where="n % 2 = 1 and max(scores) > 100", ranges=[(0, 150)]) == 25
    assert sk.validate(tmp_path / "out", deep=True)


def test_keys_and_shares(dataset: Path, tmp_path: Path) -> None:
    report = sk.filter(dataset, tmp_path / "named", keys=(f"k{i}" for i in (7, 3, 500)))
    assert keys(tmp_path / "named") == ["k3", "k7"]
    assert report.selection.keys_missing == 1
    xxhash = pytest.importorskip("xxhash")
    chosen = [f"k{i}" for i in range(200) if xxhash.xxh3_64_intdigest(f"k{i}".encode(), 5) < 0.3 * 2**64]
    sk.filter(dataset, tmp_path / "some", sample=0.3, seed=5)
    assert keys(tmp_path / "some") == chosen


def test_mistakes(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at character 5, `m`: there is no column"):
        sk.filter(dataset, tmp_path / "out", where="n > m")
    with pytest.raises(ValueError, match="a share lies between"):
        sk.count(dataset, sample=2)
    with pytest.raises(ValueError, match="exceed 100% together"):
        sk.split(dataset, tmp_path / "out", {"a": 0.9, "b": 0.2})
    with pytest.raises(TypeError, match="no option colour"):
        sk.filter(dataset, tmp_path / "out", where="n > 1", colour=1)
    with pytest.raises(TypeError, match=r"keys=.*give a list"):
        sk.count(dataset, keys="k1")
    for nothing in ({}, {"where": ""}, {"where": None, "ranges": []}):
        with pytest.raises(ValueError, match=r"nothing says which samples|the condition is empty"):
            sk.remove(dataset, **nothing)
    assert len(keys(dataset)) == 200
    assert not (tmp_path / "out").exists()


def test_reshard(dataset: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = sk.reshard(
        dataset, tmp_path / "smaller", shard_samples=60, progress=lambda done, total: calls.append((done, total))
    )
    assert (report.samples, report.shards) == (200, 4)
    assert calls[-1] == (200, 200)
    assert keys(tmp_path / "smaller") == keys(dataset)
    sk.reshard(dataset, tmp_path / "shuffled", shuffle=7, threads=2)
    (tmp_path / "scratch").mkdir()
    scratch = tmp_path / "scratch"
    sk.reshard(dataset, tmp_path / "again", shuffle=7, shuffle_memory="2KiB", scratch=str(scratch))
    assert keys(tmp_path / "again") == keys(tmp_path / "shuffled") != keys(dataset)
    assert sorted(keys(tmp_path / "again")) == sorted(keys(dataset))
    assert not list(scratch.iterdir())
    xxhash = pytest.importorskip("xxhash")
    order = sorted(range(200), key=lambda i: xxhash.xxh3_64_intdigest(i.to_bytes(8, "little"), 7))
    assert keys(tmp_path / "again") == [f"k{i}" for i in order]


def test_whole_blocks_are_copied(dataset: Path, tmp_path: Path) -> None:
    sk.convert(dataset, tmp_path / "blocks", block_size=2000)
    kept = sk.filter(tmp_path / "blocks", tmp_path / "kept", ranges=[(0, 200)])
    again = sk.filter(tmp_path / "blocks", tmp_path / "again", ranges=[(0, 200)], keep_blocks=False)
    assert sk.convert(tmp_path / "blocks", tmp_path / "converted").blocks == kept.blocks > again.blocks == 1
    sized = sk.filter(tmp_path / "blocks", tmp_path / "sized", ranges=[(0, 200)], block_size="4MiB")
    assert sized.blocks == 1  # which is what block_size is by default
    assert keys(tmp_path / "kept") == keys(dataset)
    assert sk.validate(tmp_path / "kept", deep=True)


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


def test_by_reference(dataset: Path, tmp_path: Path) -> None:
    sk.reshard(dataset, tmp_path / "base", shard_samples=30)
    sk.remove(tmp_path / "base", ranges=[(5, 9)])
    before = files(tmp_path / "base")
    copy = sk.filter(tmp_path / "base", tmp_path / "copy", where="n % 3 = 1")
    made = sk.filter(tmp_path / "base", tmp_path / "some", where="n % 3 = 1", by_reference=True, threads=2)
    assert (made.samples, made.selection) == (copy.samples, copy.selection)
    assert not list((tmp_path / "some").glob("*.shard"))
    parts = sk.split(tmp_path / "base", tmp_path / "parts", {"train": 0.75, "val": 0.25}, seed=1, by_reference=True)
    assert list(parts) == ["train", "val"]
    assert sum(part.samples for part in parts.values()) == len(sk.open(tmp_path / "base"))
    calls: list[tuple[int, int]] = []
    sources = [tmp_path / "parts/val", tmp_path / "some"]
    with pytest.raises(ValueError, match=r"stands in|holds the same samples"):
        sk.merge(sources, tmp_path / "both", by_reference=True)
    both = sk.merge(
        sources,
        tmp_path / "both",
        by_reference=True,
        keep_repeated_keys=True,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert both.samples == len(sk.open(tmp_path / "both")) < calls[-1][0] == calls[-1][1]
    sk.compact(tmp_path / "both", purge=True, fold=True)
    assert files(tmp_path / "base") == before
    shutil.rmtree(tmp_path / "base")
    assert sk.validate(tmp_path / "both", deep=True)
    report = sk.validate(tmp_path / "some")
    assert not report
    assert 'in base "base", which was changed, purged or moved' in report.problems[0].message
    assert f'base "base" ({tmp_path / "base"}): its manifest cannot be read' in report.warnings[0].message


def test_by_reference_mistakes(dataset: Path, tmp_path: Path) -> None:
    for options in ({"shard_size": "1MiB"}, {"keep_blocks": False}, {"keep_on_cancel": True}):
        for call in (
            lambda **options: sk.filter(dataset, tmp_path / "out", where="n > 1", by_reference=True, **options),
            lambda **options: sk.split(dataset, tmp_path / "out", {"a": 1}, by_reference=True, **options),
        ):
            with pytest.raises(ValueError, match=f"{next(iter(options))} is for copies; by_reference=True writes no"):
                call(**options)
    with pytest.raises(ValueError, match="shard_size is for copy=True"):
        sk.merge([dataset], tmp_path / "out", by_reference=True, shard_size="1MiB")
    with pytest.raises(ValueError, match="by_reference: not with copy"):
        sk.merge([dataset], tmp_path / "out", by_reference=True, copy=True)
    assert not (tmp_path / "out").exists()


def test_training_by_reference(dataset: Path, tmp_path: Path) -> None:
    """In file order as over a copy of the samples, and shuffled as over a dataset that has lost the others."""

    def batches(path: Path, **options: Any) -> list[tuple[list[str], list[int]]]:
        loader = sk.Loader(path, 8, columns=["n", "scores"], **options)
        return [(batch.sample_keys, batch["n"].tolist()) for _ in range(2) for batch in loader]

    sk.convert(dataset, tmp_path / "base", shard_samples=50, block_size=400)
    shutil.copytree(tmp_path / "base", tmp_path / "lost")
    sk.remove(tmp_path / "lost", where="n % 4 = 1")
    for name, by_reference in (("copy", False), ("mine", True)):
        sk.filter(tmp_path / "base", tmp_path / name, where="n % 4 != 1", by_reference=by_reference)
    assert batches(tmp_path / "mine", order="sequential") == batches(tmp_path / "copy", order="sequential")
    shuffled = batches(tmp_path / "mine", seed=3)
    assert shuffled == batches(tmp_path / "lost", seed=3)
    assert len(shuffled) == 38
    assert sorted(n for _, numbers in shuffled for n in numbers) == sorted(2 * [n for n in range(200) if n % 4 != 1])


@pytest.fixture
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHARDKIT_ALLOW_BASES", "")
    sk.allow_bases()
    yield
    sk.allow_bases()


def _length(path: str) -> int:
    return len(sk.open(path))


def _number(arguments: tuple[sk.Dataset, int]) -> int:
    samples, i = arguments
    return int(samples[i]["n"])


@pytest.mark.usefixtures("nothing_allowed")
def test_bases_out_of_reach(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "a/b/c/mine"
    sk.filter(dataset, mine, ranges=[(50, 60)], by_reference=True)

    def refused(*prefixes: str | Path) -> None:
        sk.allow_bases(*prefixes)
        for opens in (sk.open, lambda path: sk.Loader(path, 2), sk.validate, sk.history):
            with pytest.raises(PermissionError, match=rf'base "in" lies at "{dataset}", out of reach .*AllowBases'):
                opens(mine)

    refused()
    refused(tmp_path / "i", f"{dataset}s", "s3://")
    for prefixes in ([dataset], [tmp_path / "i", tmp_path], ["s3://", f"{tmp_path}/in/"]):
        sk.allow_bases(*prefixes)
        samples = sk.open(mine)
        assert [sample["n"] for sample in samples] == list(range(50, 60))
        assert sum(len(batch) for batch in sk.Loader(mine, 3)) == 10
    refused()
    assert samples[3]["n"] == 53, "what is open stays open"
    monkeypatch.chdir(tmp_path)
    sk.allow_bases("in")
    monkeypatch.chdir("/")
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.map(_length, [os.fspath(mine)]) == [10]
            assert pool.map(_number, [(samples, 3)]) == [53]
    with pytest.raises(ValueError, match="a prefix cannot have a comma"):
        sk.allow_bases("/a,/b")


@pytest.mark.usefixtures("nothing_allowed")
def test_workers_of_torch_open_bases_out_of_reach(dataset: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    skt = pytest.importorskip("shardkit.torch")
    mine = tmp_path / "a/b/c/mine"
    sk.filter(dataset, mine, ranges=[(50, 60)], by_reference=True)
    sk.allow_bases(dataset)
    for samples in (skt.Dataset(mine, ["n"]), skt.IterableDataset(mine, columns=["n"], seed=1)):
        loader = torch.utils.data.DataLoader(samples, batch_size=4, num_workers=1)
        assert sorted(int(n) for batch in loader for n in batch["n"]) == list(range(50, 60))
