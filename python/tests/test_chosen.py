"""Some of the samples: of a dataset that is opened, and of the epochs of a loader."""

from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

COUNT = 240


def label_of(i: int) -> int | None:
    """Return 2, which is rare, 1, 0, or none."""
    return None if i % 40 == 39 else 2 if i % 48 == 5 else int(i % 12 == 1)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = os.fspath(tmp_path_factory.mktemp("chosen") / "data")
    columns = {"label": sk.Column("label", "i64", nullable=True), "score": "f32", "text": "utf8"}
    with sk.Writer(path, columns, shard_samples=60, max_block_samples=8) as writer:
        for i in range(COUNT):
            writer.write(f"key {i}", label=label_of(i), score=float(i), text=f"text {i}" * (i % 3 + 1))
    return path


def ordinals(loader: Any) -> list[int]:
    """Return the ordinals of an epoch, by the values of its samples."""
    taken = []
    for batch in loader:
        np.testing.assert_array_equal(batch["score"], batch.ordinals)
        assert batch.sample_keys == [f"key {i}" for i in batch.ordinals]
        taken += batch.ordinals.tolist()
    return taken


SOME = [3, 4, 5, 60, 119, 120, 239]
CHOICES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "a condition": ({"where": "label == 2"}, [i for i in range(COUNT) if label_of(i) == 2]),
    "ordinals": ({"indices": SOME[::-1]}, SOME),
    "an array": ({"indices": np.array(SOME, np.uint16)}, SOME),
    "a tuple": ({"indices": tuple(SOME)}, SOME),
    "a range": ({"indices": range(10, 30, 3)}, list(range(10, 30, 3))),
    "a slice": ({"indices": slice(-5, None)}, list(range(235, 240))),
    "a mask": ({"indices": np.isin(np.arange(COUNT), SOME)}, SOME),
    "a list of bools": ({"indices": [i in SOME for i in range(COUNT)]}, SOME),
    "keys": ({"indices": [f"key {i}" for i in SOME]}, SOME),
    "one": ({"indices": [239]}, [239]),
    "all": ({"indices": range(COUNT)}, list(range(COUNT))),
    "both": ({"where": "score >= 100", "indices": SOME}, [119, 120, 239]),
    "both, keys": ({"where": "score < 100", "indices": [f"key {i}" for i in SOME]}, [3, 4, 5, 60]),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_dataset_of_some_samples(labelled: str, choice: str) -> None:
    given, expected = CHOICES[choice]
    whole, some = sk.open(labelled), sk.open(labelled, **given)
    assert len(some) == len(expected)
    assert [sample["score"] for sample in some] == expected
    assert [some[i] for i in range(len(some))] == [whole[i] for i in expected]
    assert some[-1] == whole[expected[-1]]
    assert list(some.keys()) == [f"key {i}" for i in expected]
    assert some[f"key {expected[0]}"] == whole[expected[0]]
    assert some.find(f"key {expected[-1]}") == len(expected) - 1
    with pytest.raises(IndexError):
        some[len(expected)]
    if len(expected) < COUNT:
        other = next(i for i in range(COUNT) if i not in expected)
        assert f"key {other}" not in some
    # Block by block.
    blocks = list(some.scan(threads=2, blocks_ahead=COUNT))
    assert sum(map(len, blocks)) == len(expected)
    assert [block.first_sample for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    assert np.concatenate([block["score"] for block in blocks]).tolist() == expected
    assert [text for block in blocks for text in block["text"]] == [whole[i]["text"] for i in expected]
    for block in blocks:
        assert block["text"].to_list() == [block.value("text", i) for i in range(len(block))]
        assert block["text"].sizes.tolist() == [len(text) for text in block["text"]]
        labels = [label_of(int(i)) for i in block["score"]]
        assert block.present("label").tolist() == [label is not None for label in labels]
    assert len(blocks) == len({(i // 60, i % 60 // 8) for i in expected})
    copy = pickle.loads(pickle.dumps(some))
    assert [sample["score"] for sample in copy] == expected


@pytest.mark.parametrize("choice", CHOICES)
def test_a_loader_of_some_samples(labelled: str, choice: str) -> None:
    given, expected = CHOICES[choice]
    options: dict[str, Any] = {"batch_size": 4, "columns": ["score"], "seed": 3}
    loader = sk.Loader(labelled, **given, **options)
    assert loader.samples_per_epoch == len(expected)
    assert sorted(ordinals(loader)) == expected
    other = sk.Loader(sk.LoaderDataset(labelled, **given), **options)
    assert sorted(ordinals(other)) == expected
    assert ordinals(other) == ordinals(loader)  # of the second epoch
    plan = sk.plan(sk.LoaderDataset(labelled, **given), 4, seed=3)
    assert sorted(np.concatenate(list(plan.epoch(0)))[:, 1].tolist()) == expected


def test_files_of_keys_and_ordinals(labelled: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("key 7\n\nkey 3\r\n")
    assert [sample["score"] for sample in sk.open(labelled, indices=keys)] == [3, 7]
    np.save(tmp_path / "some.npy", np.array([9, 2]))
    assert sorted(ordinals(sk.Loader(labelled, 2, indices=os.fspath(tmp_path / "some.npy")))) == [2, 9]
    with pytest.raises(FileNotFoundError):
        sk.open(labelled, indices="missing.txt")


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"where": " "}, ValueError, "the condition is empty"),
    ({"where": "lable == 1"}, ValueError, "lable"),
    ({"where": 3}, TypeError, "where=3"),
    ({"indices": []}, ValueError, "no sample is chosen"),
    ({"indices": np.zeros(COUNT, bool)}, ValueError, "no sample is chosen"),
    ({"indices": np.ones(COUNT - 1, bool)}, ValueError, "a mask of 239 samples"),
    ({"indices": [1, 240]}, IndexError, "there is no sample 240"),
    ({"indices": [-1, 1]}, IndexError, "there is no sample -1"),
    ({"indices": [1, 2, 1]}, ValueError, "1 occurs twice"),
    ({"indices": [1.5]}, TypeError, "give ordinals"),
    ({"indices": 3}, TypeError, "give ordinals"),
    ({"indices": np.zeros((2, 2), int)}, TypeError, "one dimension"),
    ({"indices": ["key 1", "nothing"]}, Exception, "1 of the keys"),
    ({"indices": ["key 1", 2]}, TypeError, "give ordinals"),
]


@pytest.mark.parametrize(("given", "error", "message"), WRONG)
def test_what_is_refused(labelled: str, given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sk.open(labelled, **given)
    with pytest.raises(error, match=message):
        sk.Loader(labelled, 2, **given)


def test_what_loaders_refuse(labelled: str) -> None:
    def refused(message: str, dataset: Any = labelled, **options: Any) -> None:
        with pytest.raises((ValueError, TypeError), match=message):
            sk.Loader(dataset, 4, **options)

    refused("no sample is chosen", where="score > 1000")
    refused("cannot be balanced", balance="score")
    refused("give one of the two", balance="label", weights=np.ones(COUNT))
    refused("2 weights for 240", weights=[1, 2])
    refused("weights", weights=[[1.0]])
    refused("the weight of sample 2 is -1", weights=[1, 1, -1] + [1] * 237)
    refused("replacement is about", replacement=False)
    refused("without replacement", weights=[0, 1] * 120, replacement=False)
    refused("of which dataset", [labelled, labelled], where="label == 1")
    refused("give one of the two", sk.LoaderDataset(labelled, where="label == 1"), where="label == 2")
    with pytest.raises(IndexError, match="lable"):
        sk.Loader(labelled, 4, balance="lable")


def test_limits_hold_for_what_is_chosen(labelled: str) -> None:
    """The columns of a condition are read within the limits that the loader has."""
    for choice in ({"where": "text ~ '*9'"}, {"balance": "text"}):
        with pytest.raises(MemoryError, match="decompress"):
            sk.Loader(labelled, 4, columns=["score"], max_decompression=1, **choice)
        assert sk.Loader(labelled, 4, columns=["score"], max_decompression=1 << 20, **choice).samples_per_epoch > 0
    with pytest.raises(ValueError, match="leave skip_lost_samples out"):
        sk.open(labelled, where="score < 3", skip_lost_samples=True)


def test_a_dataset_that_is_empty_by_condition(labelled: str) -> None:
    none = sk.open(labelled, where="score > 1000")
    assert len(none) == 0
    assert list(none) == []
    assert list(none.keys()) == []
    assert list(none.scan()) == []


def test_values_come_equally_often(labelled: str) -> None:
    loader = sk.Loader(labelled, 12, columns=["score", "label"], balance="label", seed=5)
    drawn: collections.Counter[int | None] = collections.Counter()
    for epoch in loader.epochs(12):
        copies = set()
        for batch in epoch:
            drawn.update(label_of(int(i)) for i in batch.ordinals)
            copies |= {tuple(place) for place in batch.samples[:, [2, 4]].tolist()}
        assert len(copies) == COUNT, "copies of a sample are told apart"
    assert set(drawn) == {0, 1, 2}
    assert all(abs(times - 12 * COUNT / 3) < 40 for times in drawn.values())
    report = loader.report()
    assert report.balance_notes == [
        f'{labelled}: 3 values of column "label", of 5 to 209 samples each; 6 samples without one are left out'
    ]
    assert "balanced" in str(report)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_the_same_at_any_world_size_and_after_a_resume(labelled: str, world_size: int) -> None:
    options: dict[str, Any] = {
        "columns": ["score"],
        "where": "score < 200",
        "weights": np.arange(COUNT) % 7,
        "seed": 8,
        "uneven": True,
        "empty_batches": True,
    }

    def places(loader: Any) -> list[tuple[int, ...]]:
        return [tuple(place) for batch in loader for place in batch.samples[:, [3, 2, 4]].tolist()]

    alone = sk.Loader(labelled, global_batch_size=6, rank=0, world_size=1, **options)
    whole = sorted(places(alone))
    state: dict[str, Any] = {}
    begun = []
    for rank in range(world_size):
        loader = sk.Loader(labelled, global_batch_size=6, rank=rank, world_size=world_size, **options)
        batches = iter(loader)
        begun += places(next(batches) for _ in range(3))
        state = loader.state_dict()
    rest = sk.Loader(labelled, global_batch_size=6, rank=0, world_size=1, **options)
    rest.load_state_dict(state)
    assert sorted(begun + places(rest)) == whole
    other = sk.Loader(
        labelled, global_batch_size=6, rank=0, world_size=1, **options | {"weights": np.arange(COUNT) % 6}
    )
    with pytest.raises(ValueError, match="another plan"):
        other.load_state_dict(state)


def drawn_numbers(value: Any, rng: np.random.Generator) -> float:
    """Return a number that copies of a sample must not share."""
    return float(rng.random())


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_copies_draw_numbers_of_their_own(labelled: str, kind: str) -> None:
    weights = np.zeros(COUNT)
    weights[[7, 100]] = 1
    loader = sk.Loader(
        labelled, 8, columns={"score": sk.Map(drawn_numbers)}, weights=weights, worker_kind=kind, workers=2, seed=1
    )
    numbers = {
        (int(ordinal), int(copy)): float(value)
        for batch in loader
        for (ordinal, copy), value in zip(batch.samples[:, [2, 4]], batch["score"], strict=True)
    }
    assert len(numbers) == COUNT
    assert len(set(numbers.values())) == COUNT


def test_without_replacement(labelled: str) -> None:
    weights = np.ones(COUNT)
    weights[:20] = 100
    dataset = sk.LoaderDataset(labelled, choose=40, weights=weights, replacement=False)
    for epoch in sk.Loader(dataset, 8, columns=["score"]).epochs(3):
        taken = ordinals(epoch)
        assert len(set(taken)) == len(taken) == 40
        assert set(range(20)) < set(taken)


def test_of_torch(labelled: str) -> None:
    torch = pytest.importorskip("torch")
    import shardkit.torch as skt

    mask = torch.zeros(COUNT, dtype=torch.bool)
    mask[SOME] = True
    assert sorted(ordinals(skt.Loader(labelled, 2, columns=["score"], indices=mask))) == SOME
    assert sorted(float(sample["score"]) for sample in skt.IterableDataset(labelled, where="score < 3")) == [0, 1, 2]
    assert [float(sample["score"]) for sample in skt.Dataset(labelled, indices=torch.tensor(SOME))] == SOME


@pytest.mark.parametrize("where", [None, "score >= 100"])
def test_whole_columns(labelled: str, where: str | None) -> None:
    dataset = sk.open(labelled, where=where)
    begin = 0 if where is None else 100
    assert dataset.column("score").tolist() == list(range(begin, COUNT))
    assert dataset.column("label").tolist() == [label_of(i) or 0 for i in range(begin, COUNT)]
    assert dataset.column("text") == [sample["text"] for sample in dataset]
    assert dataset.column("key")[0] == f"key {begin}"
    with pytest.raises(KeyError, match="there is no column 'lable'"):
        dataset.column("lable")
    # Weights by hand.
    counts = np.bincount(dataset.column("label"))
    weights = np.zeros(COUNT)
    weights[begin:] = 1 / counts[dataset.column("label")]
    assert sum(map(len, sk.Loader(labelled, 4, where=where, weights=weights))) == COUNT - begin


def test_classes(tmp_path: Path) -> None:
    names = {"class_names": '["cat", "dog"]'}
    for i, columns in enumerate(
        ({"label": sk.column("label", "i64", metadata=names), "other": "i64"}, {"label": "i64", "other": "i64"})
    ):
        path = os.fspath(tmp_path / str(i))
        with sk.Writer(path, columns) as writer:
            writer.write("a", label=1, other=3)
        dataset = sk.open(path)
        if i == 0:
            assert dataset.classes == dataset.schema["label"].class_names == ["cat", "dog"]
            assert dataset.class_to_idx == {"cat": 0, "dog": 1}
        else:
            assert dataset.schema["label"].class_names == []
            with pytest.raises(ValueError, match="0 columns have class names"):
                _ = dataset.classes


def test_what_is_shown(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "data")
    columns = {
        "image": sk.Encode("jpeg?"),
        "masks": "rle",
        "label": "i64",
        "text": "utf8?",
        "big": "f32[20]",
        "raw": "bytes",
    }
    masks = np.zeros((2, 30, 40), np.uint8)
    masks[0, :10], masks[1, 20:] = 1, 1
    with sk.Writer(path, columns) as writer:
        for i in range(9):
            writer.write(
                f"key {i}",
                image=np.zeros((30, 40, 3), np.uint8) if i != 1 else None,
                masks=sk.Masks.from_dense(masks if i != 2 else masks[:0]),
                label=i,
                text="<b>" * i + "x" * 100 if i != 3 else None,
                big=np.zeros(20, np.float32),
                raw=b"12345",
            )
    dataset = sk.open(path)
    assert repr(dataset) == (
        f"<shardkit.Dataset {path!r}: 9 samples of key: utf8, image: jpeg?, masks: rle, label: i64, text: utf8?, "
        "big: f32[20], raw: bytes; 1 shard>"
    )
    page = dataset._repr_html_()
    assert page.count("<tr>") == 7, "a head, and six samples"
    assert page.count('<img alt="" width="40" height="30" src="data:image/jpeg;base64,') == 5 + 5
    assert "2 masks" in page
    assert "0 masks" in page
    assert "<b>" not in page
    assert "5 bytes" in page
    assert "float32 [20]" in page
    assert "0 samples" in sk.open(path, where="label > 10")._repr_html_()
    (batch,) = sk.Loader(path, 9, columns={"big": None, "text": None, "raw": sk.Views(), "label": sk.Map(float)})
    assert repr(batch) == "<batch of 9 samples: big f32[9, 20], text utf8, raw bytes, label float64[9]>"
    damaged = os.fspath(tmp_path / "damaged")
    with sk.Writer(damaged, {"image": "jpeg"}) as writer:
        writer.write("a", image=b"\xff\xd8\xff no picture")
    assert "<img" not in sk.open(damaged)._repr_html_()


def test_ragged_values_are_padded(labelled: str, tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "data")
    shapes = [(2, 3), (0, 3), (4, 1), (1, 5)]
    with sk.Writer(path, {"array": "i32[]", "bytes": "bytes"}) as writer:
        for i, shape in enumerate(shapes):
            writer.write(str(i), array=np.arange(np.prod(shape), dtype=np.int32).reshape(shape), bytes=b"x" * i)
    (batch,) = sk.Loader(path, 4, order="sequential")
    padded = batch["array"].to_padded(-1)
    assert padded.shape == (4, 4, 5)
    for i, (height, width) in enumerate(shapes):
        np.testing.assert_array_equal(padded[i, :height, :width].ravel(), np.arange(height * width))
        assert np.all(padded[i, height:] == -1)
        assert np.all(padded[i, :, width:] == -1)
    assert batch["bytes"].to_padded().tolist() == [[0] * 3, [120, 0, 0], [120, 120, 0], [120] * 3]
