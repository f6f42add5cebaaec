"""Several datasets: proportions that change over epochs, and columns that some of them do not have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

SIZES = {"web": 60, "books": 30, "code": 20}
COLUMNS = {
    "web": {"text": "utf8", "quality": "f32", "masks": "rle?"},
    "books": {"text": "utf8", "title": "utf8"},
    "code": {"stars": "i64", "text": "utf8"},
}


def row(name: str, i: int) -> dict[str, Any]:
    """Return what sample `i` of a dataset has."""
    every: dict[str, Any] = {
        "text": f"{name} {i}",
        "quality": i / 8,
        "masks": None if i % 3 else np.ones((2, 3, 4), np.uint8),
        "title": f"title {i}",
        "stars": 100 + i,
    }
    return {column: every[column] for column in COLUMNS[name]}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Datasets with other columns each."""
    folder = tmp_path_factory.mktemp("mixtures")
    paths = {name: os.fspath(folder / name) for name in SIZES}
    for name, size in SIZES.items():
        with sk.Writer(paths[name], COLUMNS[name], max_block_samples=4) as writer:
            for i in range(size):
                writer.write(f"{name} {i}", **row(name, i))
    return paths


def mixed(parts: dict[str, str], **proportions: Any) -> list[sk.LoaderDataset]:
    return [sk.LoaderDataset(parts[name], proportion=share) for name, share in proportions.items()]


def test_proportions_change_over_epochs(parts: dict[str, str]) -> None:
    datasets = mixed(parts, web={0: 1, 2: 0.5}, books={0: 0, 2: 0.25, 3: 0.5}, code={0: 0, 2: 0.25, 3: 0})
    options: dict[str, Any] = {"columns": ["text"], "epoch_samples": 40, "seed": 3}
    expected = [[40, 0, 0], [40, 0, 0], [20, 10, 10], [20, 20, 0], [20, 20, 0]]

    def epochs(loader: sk.Loader, count: int) -> list[list[tuple[int, str]]]:
        return [
            [
                (int(sample[0]), text)
                for batch in loader
                for sample, text in zip(batch.samples, batch["text"], strict=True)
            ]
            for _ in range(count)
        ]

    loader = sk.Loader(datasets, 8, **options)
    assert len(loader) == 5
    whole = epochs(loader, 5)
    for samples, counts in zip(whole, expected, strict=True):
        assert np.bincount([dataset for dataset, _ in samples], minlength=3).tolist() == counts
        assert all(text.split()[0] == list(SIZES)[dataset] for dataset, text in samples)
    # In the middle of epoch 2, at two ranks: the state is that of the schedule.
    loader.set_epoch(2)
    batches = iter(loader)
    taken = [text for _ in range(2) for text in next(batches)["text"]]
    state = loader.state_dict()
    ranks = [sk.Loader(datasets, global_batch_size=8, rank=r, world_size=2, **options) for r in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    rest = [text for rank in ranks for batch in rank for text in batch["text"]]
    assert sorted(taken + rest) == sorted(text for _, text in whole[2])
    assert sorted(text for rank in ranks for _, text in epochs(rank, 1)[0]) == sorted(text for _, text in whole[3])
    plan = sk.plan(datasets, 8, epoch_samples=40, seed=3)
    assert [step[:, 0].tolist() for step in plan.epoch(2)] == [
        [dataset for dataset, _ in whole[2][at : at + 8]] for at in range(0, 40, 8)
    ]
    other = mixed(parts, web={0: 1, 3: 0.5}, books={0: 0, 2: 0.25, 3: 0.5}, code={0: 0, 2: 0.25, 3: 0})
    with pytest.raises(ValueError, match="another plan"):
        sk.Loader(other, 8, **options).load_state_dict(state)


@pytest.mark.parametrize("share", [{}, {1: 0.5}, {0: 0}, {0: "a"}, {"0": 0.5}, {0: 0.5, 1: -1}, {0: 0.5, -1: 1}])
def test_schedules_that_are_none(parts: dict[str, str], share: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="proportion"):
        sk.Loader(mixed(parts, web=share, books=1), 8, columns=["text"])


def test_a_schedule_is_for_all_datasets(parts: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has no proportion, but others have"):
        sk.Loader(mixed(parts, web={0: 1, 1: 0.5}, books=0), 8, columns=["text"])
    with pytest.raises(ValueError, match="all proportions of epoch 3 are 0"):
        sk.Loader(mixed(parts, web={0: 1, 3: 0}, books={0: 1, 2: 0}), 8, columns=["text"])


@pytest.mark.parametrize("columns", [None, ["stars", "title", "quality", "text", "masks"]])
def test_columns_that_some_lack_are_absent(parts: dict[str, str], columns: list[str] | None) -> None:
    with pytest.raises((ValueError, IndexError)):
        sk.Loader(list(parts.values()), 16, columns=["stars", "text"])
    loader = sk.Loader(list(parts.values()), 16, columns=columns, missing="absent", seed=1)
    seen = 0
    for batch in loader:
        assert sorted(batch.keys()) == ["masks", "quality", "stars", "text", "title"]
        for i, (dataset, key) in enumerate(zip(batch.samples[:, 0], batch.sample_keys, strict=True)):
            name, number = key.split()
            assert list(SIZES)[dataset] == name
            wanted = row(name, int(number))
            for column in ("masks", "quality", "stars", "text", "title"):
                there = wanted.get(column) is not None
                assert batch.present(column)[i] == there
                if column == "masks":
                    assert not there or (batch["masks"][i].dense() == wanted["masks"]).all()
                elif there:
                    assert batch[column][i] == wanted[column]
                elif column in ("text", "title"):
                    assert batch[column][i] is None
                else:
                    assert batch[column][i] == 0
            seen += 1
    assert seen == sum(SIZES.values())


def test_functions_get_none_for_what_is_absent(parts: dict[str, str]) -> None:
    def described(sample: dict[str, Any]) -> dict[str, Any]:
        return {"described": f"{sample['text']}: {sample['title']}, {sample['stars']}"}

    loader = sk.Loader(
        list(parts.values()), 16, columns=["text", "title", "stars"], missing="absent", transform=described
    )
    made = sorted(text for batch in loader for text in batch["described"])
    expected = []
    for name, size in SIZES.items():
        for i in range(size):
            wanted = row(name, i)
            expected.append(f"{wanted['text']}: {wanted.get('title')}, {wanted.get('stars')}")
    assert made == sorted(expected)


def test_damage_where_a_column_is_absent(parts: dict[str, str], tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "books"
    shutil.copytree(parts["books"], copy)
    (shard,) = copy.glob("*.shard")
    data = bytearray(shard.read_bytes())
    at = data.index(b"title 7")
    data[at] ^= 1
    shard.write_bytes(data)
    datasets = [parts["code"], os.fspath(copy)]
    options: dict[str, Any] = {"columns": ["stars", "title"], "missing": "absent", "order": "sequential"}
    with pytest.raises(sk.DataLossError):
        list(sk.Loader(datasets, 10, **options))
    batches = list(sk.Loader(datasets, 10, bad_samples="skip", **options))
    titles = [title for batch in batches for title in batch["title"] if title is not None]
    assert set(titles) < {f"title {i}" for i in range(SIZES["books"])}
    stars = [
        int(number)
        for batch in batches
        for number, there in zip(batch["stars"], batch.present("stars"), strict=True)
        if there
    ]
    assert sorted(stars) == [100 + i for i in range(SIZES["code"])]
    assert sum(len(batch.skipped) for batch in batches) + len(titles) == SIZES["books"]


def test_a_column_that_no_dataset_has(parts: dict[str, str]) -> None:
    with pytest.raises(IndexError, match='none of the 3 datasets has a column "nothing"'):
        sk.Loader(list(parts.values()), 8, columns=["text", "nothing"], missing="absent")
    with pytest.raises(ValueError, match="code: has none of the columns"):
        sk.Loader(list(parts.values()), 8, columns=["title", "quality"], missing="absent")
    with pytest.raises(ValueError, match="missing"):
        sk.Loader(list(parts.values()), 8, missing="skip")  # type: ignore[arg-type]


def test_columns_that_cannot_be_read_do_not_matter(parts: dict[str, str], tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming")
    mds = os.fspath(tmp_path / "mds")
    with streaming.MDSWriter(out=mds, columns={"text": "str", "odd": "pkl"}) as writer:
        writer.write({"text": "a", "odd": {1}})
    loader = sk.Loader([mds, parts["code"]], 30, columns=["text", "stars"], missing="absent")
    assert sum(len(batch) for batch in loader) == SIZES["code"] + 1


def test_errors_name_the_column_and_both_datasets(parts: dict[str, str], tmp_path: Path) -> None:
    paths = []
    for name, columns in (("lacks", {"y": "i64"}), ("has", {"x": "f32"}), ("other", {"x": "i64"})):
        paths.append(os.fspath(tmp_path / name))
        with sk.Writer(paths[-1], columns) as writer:
            writer.write("a", **dict.fromkeys(columns, 1))
    with pytest.raises(ValueError, match=r'other: column "x" is of another type or shape than in .*has;'):
        sk.Loader(paths, 3, missing="absent")
    with pytest.raises(ValueError, match=r'other: column "x" is of another type or shape than in .*has;'):
        sk.Loader(paths[1:], 3)
    (batch,) = sk.Loader(paths[:2], 3, columns=["key", "x"], missing="absent")
    assert sorted(batch["key"]) == ["a", "a"]
    assert batch.present("x").sum() == 1


def test_schedules_of_numpy(parts: dict[str, str]) -> None:
    share = {np.int64(0): np.float32(1), np.int64(1): np.float32(0.5)}
    loader = sk.Loader(mixed(parts, web=share, books={0: 0, 1: 0.5}), 8, columns=["text"], epoch_samples=8)
    for expected in (8, 4):
        (batch,) = loader
        assert sum(text.startswith("web") for text in batch["text"]) == expected
