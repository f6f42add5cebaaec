"""Loaders for a device: an emulated one, or the device that SHARDKIT_TEST_DEVICE names."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

torch = pytest.importorskip("torch")
skt = pytest.importorskip("shardkit.torch")

DEVICE = os.environ.get("SHARDKIT_TEST_DEVICE", "emulated")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pairs of images and masks."""
    folder = tmp_path_factory.mktemp("pairs")
    source, packed = os.fspath(folder / "source"), os.fspath(folder / "packed")
    shardctl = os.environ["SHARDCTL"]
    subprocess.run(
        [shardctl, "synth", "sa1b", "-o", source, "--count", "24", "--width", "96", "--height", "80"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    sk.pack(source, packed)
    return packed


def test_it_delivers_what_a_loader_without_it_delivers(dataset: str) -> None:
    options: dict[str, Any] = {"batch_size": 8, "columns": ["vector", "label", "blob"], "seed": 3}
    plain, staged = skt.Loader(dataset, **options), skt.Loader(dataset, device=DEVICE, **options)
    assert len(plain) == len(staged)
    for expected, batch in zip(plain, staged, strict=True):
        assert batch._batch.device == ("cuda:0" if DEVICE == "cuda" else DEVICE)
        assert (batch.epoch, batch.step, batch.sample_keys) == (expected.epoch, expected.step, expected.sample_keys)
        np.testing.assert_array_equal(batch.samples, expected.samples)
        assert torch.equal(batch["vector"].cpu(), expected["vector"])
        assert torch.equal(batch["label"].cpu(), expected["label"])
        assert batch["label"] is batch["label"]
        assert isinstance(batch["blob"].values, torch.Tensor)
        np.testing.assert_array_equal(batch["blob"].values.cpu().numpy(), expected["blob"].values)
        np.testing.assert_array_equal(batch["blob"].offsets, expected["blob"].offsets)
        np.testing.assert_array_equal(batch.present("vector"), expected.present("vector"))
    assert staged.epoch == 1
    report = staged.report()
    assert report.batches == len(staged)
    assert report.uploaded_bytes > 0
    assert report.peak_device_memory > 0
    assert report.upload.threads == 1
    assert "upload" in report._repr_html_()
    assert plain.report().upload.threads == 0


@pytest.mark.parametrize("device_geometry", [False, True])
def test_images_and_masks_are_made_on_the_device(pairs: str, device_geometry: bool) -> None:
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    image: Any = functools.partial(sk.Image, crop="random", size=48, flip=0.5, scaled_decode=False)
    columns = {"image": image(), "masks": sk.DenseMasks()}
    plain = skt.Loader(pairs, 4, seed=5, columns=columns)
    staged = skt.Loader(
        pairs,
        4,
        seed=5,
        columns=columns | {"image": image(dtype="f32", mean=mean, std=std)},
        device=DEVICE,
        device_geometry=device_geometry,
        pinned_bytes="8MiB",
        device_batches=3,
    )
    for expected, batch in zip(plain, staged, strict=True):
        assert batch["image"].shape == (len(batch), 3, 48, 48)
        reference = (expected["image"].float() / 255 - torch.tensor(mean)) / torch.tensor(std)
        assert torch.allclose(batch["image"].cpu(), reference.permute(0, 3, 1, 2), atol=1e-5)
        np.testing.assert_array_equal(batch["masks"].values.cpu().numpy(), expected["masks"].values)
        np.testing.assert_array_equal(batch["masks"].offsets, expected["masks"].offsets)


def test_its_state_is_that_of_any_loader(dataset: str) -> None:
    def ordinals(batches: Any) -> list[list[int]]:
        return [batch["label"].tolist() for batch in batches]

    options: dict[str, Any] = {"batch_size": 8, "columns": ["label"], "seed": 3}
    whole = ordinals(skt.Loader(dataset, **options))
    loader = skt.Loader(dataset, device=DEVICE, **options)
    begun = ordinals(itertools.islice(loader, 5))
    other = skt.Loader(dataset, device=DEVICE, **options)
    other.load_state_dict(loader.state_dict())
    assert begun + ordinals(other) == whole
    loader.seek(3)
    assert ordinals(loader) == whole[3:]


def test_tensors_keep_their_memory(dataset: str) -> None:
    loader = skt.Loader(dataset, 8, columns=["vector"], device=DEVICE, device_bytes="1MiB")
    kept = [(batch["vector"], batch["vector"].clone()) for batch in loader]
    del loader
    gc.collect()
    assert all(torch.equal(tensor, copy) for tensor, copy in kept)


@pytest.mark.skipif(DEVICE == "emulated", reason="an emulated device has no streams")
def test_work_in_any_stream_sees_the_values(pairs: str) -> None:
    columns = {"image": sk.Image(size=64, scaled_decode=False)}
    expected = [batch["image"].float().mean(dim=(1, 2, 3)) for batch in skt.Loader(pairs, 4, seed=5, columns=columns)]
    much = torch.rand(4096, 4096, device=DEVICE)
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    means = []
    loader = skt.Loader(pairs, 4, seed=5, columns=columns, device=DEVICE, device_bytes="1MiB")
    for batches in loader.epochs(5):
        for batch, stream in zip(batches, itertools.cycle(streams)):
            with torch.cuda.stream(stream):
                image = batch["image"]
                for _ in range(5):
                    much = torch.nn.functional.normalize(much @ much)  # what is queued before, so that this is late
                means.append(image.float().mean(dim=(1, 2, 3)))
                del image, batch  # its memory is for later batches, after the work that is queued here
        for stream in streams:
            torch.cuda.default_stream().wait_stream(stream)
    torch.cuda.synchronize()
    of_first_epoch = zip(means[: len(expected)], expected, strict=True)
    assert all(torch.allclose(mean.cpu(), other, rtol=1e-5) for mean, other in of_first_epoch)
    assert sorted(torch.cat(means).tolist()) == pytest.approx(sorted(torch.cat(expected).tolist() * 5), rel=1e-5)


@pytest.mark.skipif(DEVICE == "emulated", reason="page-locked memory is for a device: SHARDKIT_TEST_DEVICE names one")
def test_pin_memory_pins(dataset: str) -> None:
    batch = next(iter(skt.Loader(dataset, 8, columns=["vector"], pin_memory=True)))
    assert batch["vector"].is_pinned()
    assert batch["vector"].device.type == "cpu"
    # Made by the decoding threads: nothing is copied.
    assert batch["vector"].data_ptr() == batch._batch.column(0)[2].ctypes.data


def test_a_capsule_that_nobody_takes_frees_its_batch(dataset: str) -> None:
    loader = skt.Loader(dataset, 8, columns=["vector"], device=DEVICE)
    batch = next(iter(loader))
    for _ in range(3):
        batch._batch.dlpack(0, 0)
    with pytest.raises(IndexError):
        batch._batch.dlpack(1, 0)
    batch._batch.synchronize()


def test_what_it_cannot_do_is_refused(dataset: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="functions"):
        skt.Loader(dataset, 8, columns={"blob": len}, device=DEVICE)
    with pytest.raises(ValueError, match="are for device="):
        skt.Loader(dataset, 8, columns=["label"], device="cpu", device_geometry=True)
    with pytest.raises(ValueError, match="device_batches"):
        skt.Loader(dataset, 8, columns=["label"], device=DEVICE, device_batches=1)


def test_the_device_follows_a_dataset_that_grows(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "growing")
    for begin, end in ((0, 20), (20, 30)):
        with sk.Writer(path, {"label": "i64"}, append=begin > 0) as writer:
            for i in range(begin, end):
                writer.write(f"key {i}", label=i)
        if begin == 0:
            loader = skt.Loader(path, 5, device=DEVICE, follow=True)
    for total in (20, 30):
        assert sorted(int(i) for batch in loader for i in batch["label"]) == list(range(total))
    assert len(loader) == 6
