"""shardkit.torch.augment against timm and torchvision, with the same shares and boxes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import timm.data.mixup
import torch
from torchvision.transforms import v2

from shardkit.torch import augment

CLASSES, HEIGHT, WIDTH = 7, 12, 17
SHARES = (0.0, 0.3, 0.77, 1.0)


def batch_of(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(count)
    images = torch.rand((count, 3, HEIGHT, WIDTH), generator=random)
    return images, torch.randint(CLASSES, (count,), generator=random)


def ours(
    batch: tuple[torch.Tensor, torch.Tensor], smoothing: float, share: float, cut: bool, y: int, x: int
) -> tuple[torch.Tensor, ...]:
    mix = augment.Mixup(1.0, 1.0, num_classes=CLASSES, label_smoothing=smoothing)
    center = np.array([[(y + 0.5) / HEIGHT], [(x + 0.5) / WIDTH]])
    return mix._mixed(*batch, np.array([share]), np.array([cut]), center)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("cut", [False, True])
def test_as_timm(monkeypatch: pytest.MonkeyPatch, share: float, cut: bool) -> None:
    batch = batch_of(2)  # of which each has the other, by timm's reversal of the batch, too
    for y, x in itertools.product((0, 5, HEIGHT - 1), (0, 9, WIDTH - 1)):
        theirs = timm.data.mixup.Mixup(1.0, 1.0, num_classes=CLASSES)
        monkeypatch.setattr(theirs, "_params_per_batch", lambda: (share, cut))
        centers = iter((y, x))
        with monkeypatch.context() as patched:
            patched.setattr(np.random, "randint", lambda *_, centers=centers, **__: next(centers))
            wanted = theirs(batch[0].clone(), batch[1])
        for a, b in zip(ours(batch, 0.1, share, cut, y, x), wanted, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("share", SHARES)
def test_mixup_as_torchvision(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    batch = batch_of(5)
    theirs = v2.MixUp(alpha=1.0, num_classes=CLASSES)
    monkeypatch.setattr(theirs, "make_params", lambda _: {"lam": share})
    for a, b in zip(ours(batch, 0.0, share, False, 0, 0), theirs(*batch), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("share", SHARES)
def test_a_box_as_torchvision(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    batch = batch_of(5)
    theirs = v2.CutMix(alpha=1.0, num_classes=CLASSES)
    side = np.sqrt(1 - share)
    top, left = (max(0, c - int(side * n) // 2) for c, n in ((5, HEIGHT), (9, WIDTH)))
    bottom, right = (min(n, c - int(side * n) // 2 + int(side * n)) for c, n in ((5, HEIGHT), (9, WIDTH)))
    own = 1 - (bottom - top) * (right - left) / (HEIGHT * WIDTH)
    monkeypatch.setattr(theirs, "make_params", lambda _: {"box": (left, top, right, bottom), "lam_adjusted": own})
    for a, b in zip(ours(batch, 0.0, share, True, 5, 9), theirs(*batch), strict=True):
        torch.testing.assert_close(a, b)
