"""Mixup and cutmix against their formulas; tests/frameworks compares them with torchvision's and timm's."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardkit as sk

torch = pytest.importorskip("torch")

from shardkit.torch import Loader, augment  # noqa: E402

CLASSES = 7
KINDS = [("uint8", "hwc"), ("uint8", "chw"), ("float32", "chw"), ("float16", "chw"), ("float64", "hwc")]


def batch_of(
    count: int, dtype: str = "uint8", layout: str = "hwc", height: int = 12, width: int = 17
) -> tuple[Any, Any]:
    """Images of which no two have a pixel of the same value at the same place."""
    random = np.random.default_rng(count)
    images = np.arange(count)[:, None, None, None] * 40 + random.integers(0, 40, (count, height, width, 3))
    images = images if layout == "hwc" else images.transpose(0, 3, 1, 2)
    labels = torch.from_numpy(random.integers(0, CLASSES, count))
    return torch.from_numpy(np.ascontiguousarray(images)).to(getattr(torch, dtype)), labels


def seeded(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


def one_hot(labels: Any) -> Any:
    return torch.nn.functional.one_hot(labels, CLASSES).float()


@pytest.mark.parametrize(("dtype", "layout"), KINDS)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_mixup_is_its_formula(count: int, dtype: str, layout: str) -> None:
    images, _ = batch_of(count, dtype, layout)
    labels = torch.arange(count)
    before = images.clone()
    mixed, soft = augment.mixup(images, labels, 0.8, CLASSES, generator=seeded(3))
    assert torch.equal(images, before)
    assert (mixed.dtype, mixed.shape, mixed.device) == (images.dtype, images.shape, images.device)
    assert soft.dtype == torch.float32
    share = soft[0, 0].item()
    assert share == 1 if count == 1 else 0 < share < 1
    torch.testing.assert_close(soft, one_hot(labels) * share + one_hot(labels.roll(1)) * (1 - share))
    torch.testing.assert_close(soft.sum(1), torch.ones(count))
    wanted = images.double() * share + images.roll(1, 0).double() * (1 - share)
    tolerance = {"uint8": 0.501, "float16": 0.3, "float32": 1e-3, "float64": 1e-3}[dtype]
    assert (mixed.double() - wanted).abs().max() <= tolerance


@pytest.mark.parametrize(("dtype", "layout"), KINDS)
def test_cutmix_takes_a_box_whose_area_is_the_share(dtype: str, layout: str) -> None:
    shares = []
    for count, seed in itertools.product((2, 5), range(30)):
        images, labels = batch_of(count, dtype, layout)
        labels = torch.arange(count)
        mixed, soft = augment.cutmix(images, labels, 1.0, CLASSES, generator=seeded(seed), layout=layout)
        assert (mixed.dtype, mixed.shape) == (images.dtype, images.shape)
        channels = -1 if layout == "hwc" else 1
        from_other = (mixed != images).any(channels)
        taken = (mixed == images.roll(1, 0)).all(channels)
        assert torch.equal(from_other, taken)
        assert (from_other == from_other[0]).all()  # one box for the batch
        rows, columns = (from_other[0].any(axis).nonzero()[:, 0] for axis in (1, 0))
        assert from_other[0].sum() == len(rows) * len(columns)
        share = 1 - from_other[0].double().mean().item()
        assert soft[1, 1].item() == pytest.approx(share, abs=1e-6)
        assert soft[1, 0].item() == pytest.approx(1 - share, abs=1e-6)
        shares.append(share)
    assert min(shares) < 0.5
    assert max(shares) > 0.8


def test_without_a_layout_it_is_that_of_the_loader() -> None:
    for dtype, layout in (("uint8", "hwc"), ("float32", "chw")):
        images, labels = batch_of(5, dtype, layout)
        ours, _ = augment.cutmix(images, labels, 1.0, CLASSES, generator=seeded(1))
        named, _ = augment.cutmix(images, labels, 1.0, CLASSES, generator=seeded(1), layout=layout)
        assert torch.equal(ours, named)
        assert not torch.equal(ours, images)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_alpha_of_zero_mixes_nothing(count: int) -> None:
    images, labels = batch_of(count)
    for mix in (augment.mixup, augment.cutmix):
        mixed, soft = mix(images, labels, 0, CLASSES, 0.1)
        assert torch.equal(mixed, images)
        torch.testing.assert_close(soft, one_hot(labels) * 0.9 + 0.1 / CLASSES)
    mixed, soft = augment.Mixup(1.0, 1.0, prob=0, num_classes=CLASSES, label_smoothing=0)(images, labels)
    assert torch.equal(mixed, images)
    assert torch.equal(soft, one_hot(labels))


def test_a_generator_says_what_is_made() -> None:
    images, labels = batch_of(5)
    mix = augment.Mixup(0.8, 1.0, mode="elem", num_classes=CLASSES)
    first, again, other = (mix(images, labels, generator=seeded(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    torch.manual_seed(5)
    first = mix(images, labels)
    torch.manual_seed(5)
    assert torch.equal(first[0], mix(images, labels)[0])


def test_either_is_chosen_as_often_as_asked_for() -> None:
    images, labels = batch_of(2, "float32", "chw")
    kinds = {"none": 0, "cut": 0, "mixed": 0}
    mix = augment.Mixup(1.0, 1.0, prob=0.75, switch_prob=1 / 3, num_classes=CLASSES)
    for seed in range(400):
        mixed, _ = mix(images, labels, generator=seeded(seed))
        changed = mixed != images
        kinds[
            "none"
            if not changed.any()
            else "cut"
            if torch.equal(mixed[changed], images.roll(1, 0)[changed])
            else "mixed"
        ] += 1
    assert kinds["mixed"] == pytest.approx(200, abs=40)
    # Some boxes are too small for a pixel.
    assert kinds["cut"] == pytest.approx(100, abs=40)


def test_each_sample_has_its_own_share() -> None:
    images, labels = batch_of(5, "float32", "chw")
    labels = torch.arange(5)
    mixed, soft = augment.Mixup(0.8, 1.0, mode="elem", label_smoothing=0, num_classes=CLASSES)(
        images, labels, generator=seeded(4)
    )
    shares = soft[labels, labels]
    assert len(shares.unique()) == 5
    torch.testing.assert_close(soft.sum(1), torch.ones(5))
    for i, share in enumerate(shares.tolist()):
        changed = (mixed[i] != images[i]).double().mean().item()
        wanted = images[i] * share + images[i - 1] * (1 - share)
        cut = changed == pytest.approx(1 - share, abs=1e-6)
        assert cut or torch.allclose(mixed[i], wanted, atol=1e-3)


def test_labels_may_be_shares_already() -> None:
    images, labels = batch_of(5)
    whole = augment.cutmix(images, labels, 1.0, CLASSES, 0.2, generator=seeded(1))
    shares = augment.cutmix(images, one_hot(labels), 1.0, None, 0.2, generator=seeded(1))
    assert all(torch.equal(a, b) for a, b in zip(whole, shares, strict=True))


def test_what_is_refused() -> None:
    images, labels = batch_of(5)
    with pytest.raises(ValueError, match="num_classes"):
        augment.mixup(images, labels)
    with pytest.raises(ValueError, match="of one batch"):
        augment.mixup(images[0], labels, 1.0, CLASSES)
    with pytest.raises(ValueError, match="of one batch"):
        augment.mixup(images, labels[:4], 1.0, CLASSES)
    for options in ({"mixup_alpha": -1}, {"prob": 1.5}, {"label_smoothing": -0.1}, {"mode": "pair"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            augment.Mixup(**options)


def test_batches_are_mixed_alike_when_a_run_goes_on(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "pictures")
    with sk.Writer(path, {"image": "u8[8,9,3]", "label": "i64"}, max_block_samples=4) as writer:
        for i in range(30):
            writer.write(
                str(i), image=np.random.default_rng(i).integers(0, 255, (8, 9, 3), np.uint8), label=i % CLASSES
            )
    mix = augment.Mixup(0.8, 1.0, num_classes=CLASSES)

    def mixed(batch: Any) -> Any:
        return mix(batch["image"], batch["label"], generator=augment.generator(batch, seed=3))

    def loader() -> Any:
        return Loader(path, 7, columns={"image": None, "label": None}, seed=1, batch_function=mixed)

    whole = [batch for epoch in loader().epochs(2) for batch in epoch]
    assert [len(images) for images, _ in whole] == [7, 7, 7, 7, 2] * 2
    assert not torch.equal(whole[0][0], whole[5][0])
    first = loader()
    begun = [batch for _, batch in zip(range(3), first, strict=False)]
    second = loader()
    second.load_state_dict(first.state_dict())
    rest = [batch for epoch in second.epochs(2) for batch in epoch]
    for (a, b), (c, d) in zip(begun + rest, whole, strict=False):
        assert torch.equal(a, c)
        assert torch.equal(b, d)
    assert len(begun + rest) >= 8
