"""Datasets of torch as rows of `shardkit.pack`, with and without workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shardkit as sk

torch = pytest.importorskip("torch", reason="the package torch is not installed")
data = pytest.importorskip("torch.utils.data")


class MapStyle(data.Dataset):  # type: ignore[misc]
    def __init__(self, count: int, fails_at: int = -1) -> None:
        self.count, self.fails_at = count, fails_at

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[bytes, int, Any]:
        if i == self.fails_at:
            raise FileNotFoundError(f"photo {i} is gone")
        return b"%d" % i, i, torch.arange(3) + i


class Stream(data.IterableDataset):  # type: ignore[misc]
    def __init__(self, rows: MapStyle) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return (self.rows[i] for i in range(len(self.rows)))


def row(sample: tuple[bytes, int, Any]) -> dict[str, Any]:
    blob, label, vector = sample
    return {"blob": blob, "label": label, "vector": vector}


def check(dataset: Path, count: int) -> None:
    samples = list(sk.open(dataset))
    assert [sample["label"] for sample in samples] == list(range(count))
    for i, sample in enumerate(samples):
        assert sample["key"] == f"{i:012d}"
        assert sample["blob"] == b"%d" % i
        assert sample["vector"].tolist() == [i, i + 1, i + 2]


@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_all_samples_come_in_their_order(tmp_path: Path, count: int) -> None:
    for workers in (0, 2):
        loader = data.DataLoader(MapStyle(count), batch_size=None, num_workers=workers, collate_fn=row)
        assert sk.pack(loader, tmp_path / f"map{workers}").samples == count
        check(tmp_path / f"map{workers}", count)
    for workers in (0, 1):
        loader = data.DataLoader(Stream(MapStyle(count)), batch_size=None, num_workers=workers, collate_fn=row)
        assert sk.pack(loader, tmp_path / f"stream{workers}").samples == count
        check(tmp_path / f"stream{workers}", count)


def test_dicts_need_no_loader(tmp_path: Path) -> None:
    class Rows(MapStyle):
        def __getitem__(self, i: int) -> Any:
            return row(super().__getitem__(i))

    sk.pack(Rows(300), tmp_path / "threads", threads=4)
    check(tmp_path / "threads", 300)
    sk.pack(Stream(Rows(300)), tmp_path / "stream")
    check(tmp_path / "stream", 300)
    with pytest.raises(ValueError, match="row 0: a dict from column to value is wanted, not tuple"):
        sk.pack(MapStyle(3), tmp_path / "tuples")


@pytest.mark.parametrize("workers", [0, 2])
def test_no_samples(tmp_path: Path, workers: int) -> None:
    for rows in (MapStyle(0), Stream(MapStyle(0))):
        loader = data.DataLoader(rows, batch_size=None, num_workers=workers, collate_fn=row)
        with pytest.raises(ValueError, match="there are no rows"):
            sk.pack(loader, tmp_path / "out")


@pytest.mark.parametrize("fails_at", [0, 3, 700])
def test_an_error_of_a_worker_is_told_and_nothing_stays(tmp_path: Path, fails_at: int) -> None:
    rows = MapStyle(1000, fails_at)
    for given, worker in ((rows, fails_at % 2), (Stream(rows), 0)):
        workers = 2 if given is rows else 1
        loader = data.DataLoader(given, batch_size=None, num_workers=workers, collate_fn=row)
        message = rf"(?s)DataLoader worker process {worker}.*photo {fails_at} is gone"
        with pytest.raises(FileNotFoundError, match=message):
            sk.pack(loader, tmp_path / "out")
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
