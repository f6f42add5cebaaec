"""Batches of shardkit.torch: tensors in all of their columns."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import shardkit as sk

torch = pytest.importorskip("torch")
skt = pytest.importorskip("shardkit.torch")
DataLoader = torch.utils.data.DataLoader


def test_values_of_different_sizes_are_tensors(every_type: str, tmp_path: Path) -> None:
    names = ["bf16[]", "i16[]", "f8e4m3[]", "bytes"]
    schema = sk.open(every_type).schema.names
    columns = [name for name in names if name in schema]
    assert "bytes" in columns
    (plain,) = sk.Loader(every_type, 100, columns=columns, order="sequential")
    (batch,) = skt.Loader(every_type, 100, columns=columns, order="sequential")
    for name in columns:
        assert isinstance(batch[name].values, torch.Tensor)
        assert batch[name].to_list()[0] is not None
        np.testing.assert_array_equal(
            batch[name].values.float().numpy(), np.asarray(plain[name].values).astype(np.float32), name
        )
        padded = batch[name].to_padded(7)
        assert isinstance(padded, torch.Tensor)
        np.testing.assert_array_equal(padded.float().numpy(), plain[name].to_padded(7).astype(np.float32), name)
    path = os.fspath(tmp_path / "masks")
    with sk.Writer(path, {"image": sk.Encode(), "masks": "rle"}) as writer:
        for i in range(4):
            masks = np.random.default_rng(i).integers(0, 2, (i, 10, 12), np.uint8)
            writer.write(str(i), image=np.zeros((10, 12, 3), np.uint8), masks=masks)
    image, dense = sk.Image(size=(5, 6)), sk.DenseMasks(pad_masks=True)
    for kind in (dense, sk.DenseMasks(), sk.PackedMasks()):
        wanted = {"image": image, "masks": kind}
        (plain,), (batch,) = (make(path, 4, columns=wanted, order="sequential") for make in (sk.Loader, skt.Loader))
        assert isinstance(batch["masks"].values, torch.Tensor)
        for got, had in zip(batch["masks"], plain["masks"], strict=True):
            np.testing.assert_array_equal(got.numpy(), had)
    (runs,) = skt.Loader(path, 4, columns=["masks"], order="sequential")
    assert [len(each) for each in runs["masks"]] == [0, 1, 2, 3]


def test_no_token_of_different_sizes_becomes_negative(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "tokens")
    with sk.Writer(path, {"tokens": "u16[]", "small": "bf16[]", "data": "bytes"}) as writer:
        for i in range(4):
            writer.write(str(i), tokens=[50256, i], small=np.full(i, 1.5, np.float32), data=bytes([i]) * i)
    (batch,) = skt.Loader(path, 4, order="sequential")
    assert [tokens.tolist() for tokens in batch["tokens"]] == [[50256, i] for i in range(4)]
    assert batch["small"].values.dtype == torch.bfloat16
    assert [numbers.float().tolist() for numbers in batch["small"]] == [[1.5] * i for i in range(4)]
    assert batch["data"].to_list() == [bytes([i]) * i for i in range(4)]
    assert batch["tokens"].to_padded(7).shape == (4, 2)


def test_arrays_of_one_shape_on_a_device(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "arrays")
    pixels = np.random.default_rng(1).integers(0, 255, (5, 6, 8, 3), np.uint8)
    with sk.Writer(path, {"image": "u8[6,8,3]"}) as writer:
        for i in range(5):
            writer.write(str(i), image=pixels[i])
    for options in ({"dtype": "f32", "mean": (0.5, 0.5, 0.5)}, {"layout": "chw"}):
        (host,) = skt.Loader(path, 5, columns={"image": sk.Image(**options)})
        assert host["image"].shape == (5, 3, 6, 8)
        with pytest.raises(ValueError, match="for arrays of one shape, too"):
            skt.Loader(path, 5, columns={"image": sk.Image(**options)}, device="emulated")
        for geometry in (False, True):
            columns = {"image": sk.Image(size=(6, 8), **options)}
            (device,) = skt.Loader(path, 5, columns=columns, device="emulated", device_geometry=geometry)
            assert torch.equal(device["image"], host["image"])


def test_batches_move_and_are_pinned(dataset: str) -> None:
    columns = ["label", "vector", "blob"]
    batch = next(iter(skt.Loader(dataset, 8, columns=columns)))
    moved = batch.to("meta")
    assert moved["vector"].device.type == "meta"
    assert moved["blob"].values.device.type == "meta"
    assert batch["vector"].device.type == "cpu"
    assert moved.to("meta") is moved
    assert len(moved) == len(batch)
    assert batch.to("cpu") is batch
    assert moved.sample_keys == batch.sample_keys
    wrapped = DataLoader(skt.Loader(dataset, 8, columns=columns), batch_size=None, pin_memory=torch.cuda.is_available())
    assert [len(each) for each in wrapped] == [len(each) for each in skt.Loader(dataset, 8, columns=columns)]
    assert batch.pin_memory().columns == columns
    emulated = next(iter(skt.Loader(dataset, 8, columns=["vector"], device="emulated")))
    with pytest.raises(ValueError, match="move its tensors"):
        emulated.to("meta")
    assert emulated.to("cpu") is emulated
