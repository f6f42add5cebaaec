from __future__ import annotations

import concurrent.futures
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import COLUMNS, EVERY_TYPE, identical, value

import shardkit as sk


def check(sample: dict[str, object], i: int) -> None:
    expected = value(i)
    assert sample["key"] == f"key {i}"
    assert sample["label"] == i
    assert isinstance(sample["label"], np.int64)
    assert sample["text"] == expected["text"]
    for name in ("vector", "array"):
        assert isinstance(sample[name], np.ndarray)
        np.testing.assert_array_equal(sample[name], expected[name])
        assert sample[name].dtype == expected[name].dtype  # type: ignore[attr-defined]
        assert sample[name].flags.writeable  # type: ignore[attr-defined]
    assert isinstance(sample["masks"], sk.Masks)
    if i % 4:
        np.testing.assert_array_equal(sample["masks"].dense(), expected["masks"])
    else:
        assert len(sample["masks"]) == 0
    assert sample["blob"] == expected["blob"]


def test_by_ordinal(dataset: str) -> None:
    samples = sk.open(dataset)
    assert len(samples) == 200
    for i in (0, 1, 69, 70, 199, 5):
        check(samples[i], i)
    check(samples[-1], 199)
    check(samples[np.int64(7)], 7)
    for sample, i in zip(samples[10:20:3], range(10, 20, 3), strict=True):
        check(sample, i)
    for sample, i in zip(samples[[150, 3, -200]], [150, 3, 0], strict=True):
        check(sample, i)
    for i in (200, -201, 10**12):
        with pytest.raises(IndexError, match="200"):
            samples[i]


def test_by_key(dataset: str) -> None:
    samples = sk.open(dataset)
    check(samples["key 123"], 123)
    assert samples.find("key 5") == 5
    assert samples.find("nothing") is None
    assert "key 0" in samples
    assert "nothing" not in samples
    with pytest.raises(KeyError, match="nothing"):
        samples["nothing"]
    assert list(samples.keys()) == [f"key {i}" for i in range(200)]


def test_what_is_an_index(dataset: str) -> None:
    samples = sk.open(dataset)
    mask = np.arange(200) % 67 == 3
    several: list[Any] = [mask, mask.tolist(), np.flatnonzero(mask), [3, b"key 70", "key 137"], (3, np.uint8(70), 137)]
    one: list[Any] = [3, np.int64(3), np.uint8(3), np.array(3), b"key 3", "key 3"]
    wrong: list[Any] = [True, np.True_, 3.0, np.float64(3), np.array(3.0), None, {3}, {3: 3}, iter([3]), 3 + 0j]
    wrong += [bytearray(b"key 3"), np.array([[3]]), [3.0], [True, 3], [None], np.array([3.0]), [[3]], object()]
    try:
        import torch
    except ImportError:
        pass
    else:
        several += [torch.from_numpy(mask), torch.tensor([3, 70, 137])]
        one.append(torch.tensor(3))
        wrong += [torch.tensor(True), torch.tensor(3.0), torch.tensor([[3]]), torch.tensor([0.5])]
    for index in several:
        for sample, i in zip(samples[index], (3, 70, 137), strict=True):
            check(sample, i)
    for index in one:
        check(samples[index], 3)
    for index in wrong:
        with pytest.raises(TypeError, match=r"neither|one dimension"):
            samples[index]
    assert samples[[]] == samples[np.array([], int)] == samples[np.zeros(200, bool)] == []
    for mask in (np.ones(3, bool), [True] * 201):
        with pytest.raises(IndexError, match=rf"a mask of {len(mask)} samples; it has 200"):
            samples[mask]
    (batch,) = sk.Loader(dataset, 200, columns=["blob", "masks"])
    block = next(samples.scan())
    for several in (batch["blob"], batch["masks"], block["text"], samples[3]["masks"]):
        for index in (True, np.True_, 1.0, b"k", [1], np.array([True, False])):
            with pytest.raises(TypeError):
                several[index]
    (keys,) = {tuple(batch["key"]) for batch in sk.Loader(dataset, 200, columns=["key"])}
    assert [sample["key"] for sample in samples[list(keys)]] == list(keys)
    assert samples.find(b"key 5") == 5
    assert b"key 5" in samples
    for missing in (b"nothing", b"\xff", "\ud800"):
        assert missing not in samples
        with pytest.raises(KeyError):
            samples[missing]


def test_iteration(dataset: str) -> None:
    for i, sample in enumerate(sk.open(dataset)):
        check(sample, i)
    assert i == 199


def test_columns_and_schema(dataset: str) -> None:
    samples = sk.open(dataset, columns=["text", "label"])
    assert list(samples[3]) == ["text", "label"]
    assert samples.schema.names == ["text", "label"]
    assert samples.all_columns.names == ["key", *COLUMNS]
    assert samples.all_columns["vector"].dtype == "f32"
    assert samples.all_columns["vector"].shape == [4]
    assert samples.all_columns["blob"].nullable
    assert samples.all_columns.key == "key"
    assert samples.metadata["made"] == "here"
    assert samples.container == "shard"
    assert samples.shard_count == 3
    with pytest.raises(IndexError, match="missing"):
        sk.open(dataset, columns=["missing"])


def test_scan_gives_the_same(dataset: str) -> None:
    samples = sk.open(dataset)
    for threads in (0, 1, 3):
        seen = 0
        for block in samples.scan(threads=threads):
            assert block.first_sample == seen
            np.testing.assert_array_equal(block["label"], np.arange(seen, seen + len(block)))
            for i in range(len(block)):
                expected = value(seen + i)
                np.testing.assert_array_equal(block["vector"][i], expected["vector"])
                np.testing.assert_array_equal(block["array"][i], expected["array"])
                assert block["blob"][i] == expected["blob"]
                assert block.present("blob")[i] == (expected["blob"] is not None)
                assert block["blob"].sizes[i] == len(expected["blob"] or b"")  # type: ignore[arg-type, union-attr]
            seen += len(block)
        assert seen == 200


def test_all_values_of_a_block_are_those_taken_one_by_one(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "dataset")
    with sk.Writer(path, {"blob": "bytes?", "text": "utf8", "array": "u8[]"}, block_size="1GiB") as writer:
        for i in range(300):
            blob = None if i % 7 == 0 else bytes([i % 256]) * (200_000 if i == 40 else 1000 + i)
            writer.write(f"key {i}", blob=blob, text=f"text {i}", array=np.full((i % 4, 2), i % 256, np.uint8))
    (block,) = sk.open(path).scan()
    for name in ("blob", "text", "array"):
        every = list(block[name])
        assert len(every) == 300
        for i in (0, 1, 39, 40, 41, 255, 299):
            np.testing.assert_array_equal(every[i], block[name][i])
    assert every[5].flags.writeable
    assert [i for i, value in enumerate(block["blob"]) if value is None] == list(range(0, 300, 7))


def test_scan_of_a_part(dataset: str) -> None:
    blocks = list(sk.open(dataset).scan(first_sample=100, end_sample=101))
    assert len(blocks) == 1
    assert blocks[0].first_sample <= 100 < blocks[0].first_sample + len(blocks[0])


def test_arrays_lie_in_the_block_and_keep_it(dataset: str) -> None:
    scan = sk.open(dataset, columns=["vector", "blob"]).scan()
    block = next(scan)
    vectors, view = block["vector"], block["blob"].view(1)
    assert isinstance(vectors, np.ndarray)
    assert view is not None
    assert not vectors.flags.owndata
    assert not vectors.flags.writeable
    again = block["vector"]
    assert isinstance(again, np.ndarray)
    assert vectors.ctypes.data == again.ctypes.data
    copies = vectors.copy(), view.copy()
    del block, again
    for _ in range(3):  # with the block held, others are read into other memory
        next(scan)
    del scan
    gc.collect()
    np.testing.assert_array_equal(vectors, copies[0])
    np.testing.assert_array_equal(view, copies[1])


def test_memory_goes_back_when_the_last_array_dies(dataset: str) -> None:
    scan = sk.open(dataset, columns=["label"]).scan(blocks_ahead=1)
    kept = [next(scan)["label"], next(scan)["label"]]
    with pytest.raises(ValueError, match="block"):
        next(scan)
    scan = sk.open(dataset, columns=["label"]).scan(blocks_ahead=1)
    for _ in range(4):
        kept = [next(scan)["label"]]
    assert len(kept) == 1


def test_many_threads(dataset: str) -> None:
    samples = sk.open(dataset)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i, sample in zip(list(range(200)) * 3, pool.map(lambda i: samples[i], list(range(200)) * 3), strict=True):
            check(sample, i)


def test_errors_name_what_is_wrong(dataset: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere") as missing:
        sk.open(os.fspath(tmp_path / "nowhere"))
    assert (missing.value.path, missing.value.sample) == (os.fspath(tmp_path / "nowhere"), None)
    shard = next(Path(dataset).glob("*.shard"))
    damaged = tmp_path / shard.name
    content = bytearray(shard.read_bytes())
    content[len(content) // 3] ^= 1
    damaged.write_bytes(content)
    samples = sk.open(os.fspath(damaged))
    with pytest.raises(sk.DataLossError, match=shard.name):
        list(samples)
    assert issubclass(sk.DataLossError, OSError)


def test_other_containers(dataset: str, tmp_path: Path) -> None:
    for container in ("mds", "webdataset"):
        path = tmp_path / container
        sk.convert(dataset, path, to=container, columns=["key", "text", "blob"], lossy=container == "mds")
        samples = sk.open(os.fspath(path))
        assert samples.container == container
        assert len(samples) == 200
        assert samples[7]["blob"] == value(7)["blob"]


def test_real_pairs(data: Path, tmp_path: Path) -> None:
    report = sk.pack(data / "sa1b", tmp_path / "pairs")
    assert report.samples > 0
    samples = sk.open(os.fspath(tmp_path / "pairs"))
    for sample in samples:
        assert sample["image"] == (data / "sa1b" / f"{sample['key']}.jpg").read_bytes()
        np.testing.assert_array_equal(sample["masks"].area(), sample["area"])
        image = sk.decode_image(sample["image"], size=(120, 160))
        assert image.shape == (120, 160, 3)


KINDS = [kind + end for kind in EVERY_TYPE for end in ("", "?")]


def test_every_type_has_one_meaning(every_type: str) -> None:
    """What is absent is None, and what is there has one type, wherever a sample is had."""
    samples = sk.open(every_type)
    reference = samples[:]
    blocks = list(samples.scan(threads=1, blocks_ahead=4))
    ways: dict[str, list[dict[str, Any]]] = {
        "iteration": list(samples),
        "list": samples[list(range(8))],
        "key": [samples[f"k{i}"] for i in range(8)],
        "value of a block": [
            {name: block.value(name, i) for name in KINDS} for block in blocks for i in range(len(block))
        ],
        "functions": [
            {name: values[i][0] for name, values in dict(batch).items()}
            for batch in sk.Loader(
                every_type, 3, order="sequential", columns={name: lambda each: [each] for name in KINDS}
            )
            for i in range(len(batch))
        ],
    }
    for name in KINDS:
        given = [EVERY_TYPE[name.rstrip("?")](i) for i in range(8)]
        absent = [name.endswith("?") and (i + list(EVERY_TYPE).index(name[:-1])) % 3 == 0 for i in range(8)]
        assert [sample[name] is None for sample in reference] == absent
        for gone, sample, wanted in zip(absent, reference, given, strict=True):
            if not gone and name.startswith(("utf8", "i", "f3", "f6", "u")) and "mage" not in name:
                np.testing.assert_array_equal(sample[name], wanted)
        for way, found in ways.items():
            for i in range(8):
                assert identical(found[i][name], reference[i][name]), (way, name, i)
        for batch in sk.Loader(every_type, 3, order="sequential", columns=[name]):
            column = batch[name]
            for i, ordinal in enumerate(batch.ordinals):
                assert batch.present(name)[i] == (not absent[ordinal])
                if not isinstance(column, np.ndarray):
                    assert (column[i] is None) == absent[ordinal]
                    assert [each is None for each in column[:]] == [absent[o] for o in batch.ordinals]


def test_samples_for_torch_have_the_same_meaning(every_type: str) -> None:
    skt = pytest.importorskip("shardkit.torch")
    reference = sk.open(every_type)[:]

    def same(found: Any, wanted: Any) -> bool:
        return identical(found[()] if isinstance(wanted, np.uint64) else found, wanted)

    made = {
        "Dataset": skt.Dataset(every_type),
        "IterableDataset": skt.IterableDataset(every_type, order="sequential", chunk=3),
        "by names": skt.IterableDataset(every_type, order="sequential", columns=KINDS),
        "Stored": skt.IterableDataset(every_type, order="sequential", columns=dict.fromkeys(KINDS, sk.Stored())),
    }
    for way, samples in made.items():
        for i, (found, wanted) in enumerate(zip(samples, reference, strict=way != "Dataset")):
            assert found.keys() == wanted.keys()
            for name in wanted:
                assert same(found[name], wanted[name]), (way, name, i)
            if i == 7:
                break
    with pytest.raises(ValueError, match="column i32: rows of tokens are of whole batches"):
        skt.IterableDataset(every_type, columns={"i32": sk.Tokens()})
    gray = sk.Image(size=4, channels=1)
    for decoded in (
        {"jpeg?": sk.Image(size=4), "bytes?": sk.Views(), "image?": gray},
        {"rle?": sk.DenseMasks()},
        {"rle?": sk.PackedMasks()},
    ):
        made["decoded"] = skt.IterableDataset(every_type, order="sequential", columns=decoded)
        for found, wanted in zip(made["decoded"], reference, strict=True):
            assert {name: found[name] is None for name in decoded} == {name: wanted[name] is None for name in decoded}
            assert found.get("jpeg?") is None or found["jpeg?"].shape == (4, 4, 3)


def test_samples_for_torch_without_keys(tmp_path: Path) -> None:
    skt = pytest.importorskip("shardkit.torch")
    with sk.Writer(os.fspath(tmp_path / "own"), {"key": "i64"}, key="id") as writer:
        writer.write("a", key=3)
    assert list(skt.IterableDataset(os.fspath(tmp_path / "own"))) == [{"key": 3}]
    sk.convert(tmp_path / "own", tmp_path / "none", key_column="", columns=["key"])
    assert list(skt.IterableDataset(os.fspath(tmp_path / "none"))) == [{"key": 3}]
    with sk.Writer(os.fspath(tmp_path / "keys"), {"n": "i64"}, key="id") as writer:
        writer.write("a", n=3)
    assert list(skt.IterableDataset(os.fspath(tmp_path / "keys"))) == [{"n": 3, "key": "a"}]
    assert list(skt.IterableDataset(os.fspath(tmp_path / "keys"), keys=False)) == [{"n": 3}]
    sk.convert(tmp_path / "keys", tmp_path / "without", key_column="", columns=["n"])
    assert list(skt.IterableDataset(os.fspath(tmp_path / "without"))) == [{"n": 3}]
