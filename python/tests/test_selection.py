from __future__ import annotations

from pathlib import Path

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


def test_split(dataset: Path, tmp_path: Path) -> None:
    made = sk.split(dataset, tmp_path / "parts", {"train": 0.75, "val": 0.25}, seed=1)
    assert list(made) == ["train", "val"]
    train, val = keys(tmp_path / "parts/train"), keys(tmp_path / "parts/val")
    assert (len(train), len(val)) == (made["train"].samples, made["val"].samples)
    assert sorted(train + val) == sorted(keys(dataset))


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
    anew = sk.filter(tmp_path / "blocks", tmp_path / "anew", ranges=[(0, 200)], keep_blocks=False)
    assert sk.convert(tmp_path / "blocks", tmp_path / "converted").blocks == kept.blocks > anew.blocks == 1
    sized = sk.filter(tmp_path / "blocks", tmp_path / "sized", ranges=[(0, 200)], block_size="4MiB")
    assert sized.blocks == 1  # which is what block_size is by default
    assert keys(tmp_path / "kept") == keys(dataset)
    assert sk.validate(tmp_path / "kept", deep=True)
