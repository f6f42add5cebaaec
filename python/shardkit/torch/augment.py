"""Mixup and cutmix of a batch's images and labels.

Each sample is mixed with the one before it in the batch, the first with the last: a shuffled batch is random pairs.
Images keep their shape, type and device (uint8 is rounded), and the given tensors are not changed. Labels, integers
``[samples]`` or shares ``[samples, classes]``, become shares, float32, as torch's ``cross_entropy`` takes them.
"""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch

from shardkit import functions
from shardkit._numbers import Array
from shardkit._options import checked
from shardkit.batch import Batch

_Pair = tuple[torch.Tensor, torch.Tensor]


def generator(batch: Batch, seed: int) -> torch.Generator:
    """Return random numbers made of `seed`, the batch's epoch and its place there: the same when a run resumes."""
    seeds = functions.generator(seed, batch.epoch, 0, int(batch.samples[:1, 3].sum()), 0, "shardkit.torch.augment")
    return torch.Generator().manual_seed(int(seeds.integers(1 << 63)))


def mixup(
    images: torch.Tensor,
    labels: torch.Tensor,
    alpha: float = 1.0,
    num_classes: int | None = None,
    label_smoothing: float = 0.0,
    *,
    generator: torch.Generator | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels blended with a share from Beta(alpha, alpha), one for the batch.

    The parameters are those of `Mixup`.
    """
    mix = Mixup(alpha, 0.0, label_smoothing=label_smoothing, num_classes=num_classes)
    return mix(images, labels, generator=generator)


def cutmix(
    images: torch.Tensor,
    labels: torch.Tensor,
    alpha: float = 1.0,
    num_classes: int | None = None,
    label_smoothing: float = 0.0,
    *,
    generator: torch.Generator | None = None,
    layout: Literal["hwc", "chw"] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images with a box of the other image, and labels with its area as that image's share.

    The parameters are those of `Mixup`. Edges of the image cut the box off, and the share is of the area that is left.
    """
    mix = Mixup(0.0, alpha, label_smoothing=label_smoothing, num_classes=num_classes, layout=layout)
    return mix(images, labels, generator=generator)


@checked
@dataclass(frozen=True)
class Mixup:
    """`mixup` or `cutmix`, one of them chosen for each batch, with names and defaults of timm's class.

    Parameters
    ----------
    mixup_alpha, cutmix_alpha : float
        Of the Beta distributions of the shares; 0 is without the one or the other.
    prob : float
        Of mixing at all.
    switch_prob : float
        Of cutmix, where both are given.
    mode : str
        ``"batch"``: one choice and one share for the batch; ``"elem"``: for each sample.
    label_smoothing : float
        The part of each label that all classes share, 0 to 1.
    num_classes : int
        Of labels that are integers, which need it.
    layout : str
        Of images, for the boxes: ``"hwc"``, [samples, height, width, channels], or ``"chw"``. By default, as
        `shardkit.Image` makes them: hwc for uint8, chw for others.
    """

    mixup_alpha: float = 1.0
    cutmix_alpha: float = 0.0
    _: KW_ONLY
    prob: float = 1.0
    switch_prob: float = 0.5
    mode: Literal["batch", "elem"] = "batch"
    label_smoothing: float = 0.1
    num_classes: int | None = None
    layout: Literal["hwc", "chw"] | None = None

    def __post_init__(self) -> None:
        for name in ("mixup_alpha", "cutmix_alpha", "prob", "switch_prob", "label_smoothing"):
            value, most = getattr(self, name), sys.maxsize if name.endswith("alpha") else 1
            if not 0 <= value <= most:
                raise ValueError(f"{name}={value!r}: give a number from 0{' to 1' if most == 1 else ''}, as 0.2")

    def __call__(
        self, images: torch.Tensor, labels: torch.Tensor, *, generator: torch.Generator | None = None
    ) -> _Pair:
        """Return the mixed images and their labels. Random numbers are those of `generator`, by default torch's own."""
        if images.ndim != 4 or len(labels) != len(images):
            raise ValueError(f"{list(images.shape)} and {list(labels.shape)} are no images and labels of one batch")
        device = None if generator is None else generator.device
        rng = np.random.default_rng(int(torch.randint(1 << 62, (), generator=generator, device=device)))
        count = len(images) if self.mode == "elem" else 1
        cut = (rng.random(count) < (self.switch_prob if self.mixup_alpha > 0 else 1)) & (self.cutmix_alpha > 0)
        mixed, boxed = (rng.beta(a, a, count) if a > 0 else 1 for a in (self.mixup_alpha, self.cutmix_alpha))
        share = np.where(rng.random(count) < self.prob, np.where(cut, boxed, mixed), 1.0)
        return self._mixed(images, labels, share, cut, rng.random((2, count)))

    def _mixed(self, images: torch.Tensor, labels: torch.Tensor, share: Any, cut: Any, center: Any) -> _Pair:
        # Each sample keeps its share, and where it is cut, its box has the center, from 0 to 1 of height and width.
        def there(numbers: Array, *shape: int) -> torch.Tensor:
            return torch.from_numpy(numbers).to(images.device).view(-1, *shape)

        def within(axis: int) -> torch.Tensor:
            place = torch.arange(sides[axis].item(), device=images.device)
            return (place >= there(begin[axis], 1)) & (place < there(end[axis], 1))

        other, made = images.roll(1, 0), images
        if np.any(~cut & (share < 1)):
            exact = images if images.is_floating_point() else images.float()
            part = there(np.where(cut, 1, share), 1, 1, 1).to(exact.dtype)
            made = exact * part + other * (1 - part)
            made = made if images.is_floating_point() else made.round().to(images.dtype)
        if np.any(cut & (share < 1)):
            hwc = (self.layout or ("hwc" if images.dtype == torch.uint8 else "chw")) == "hwc"
            sides = np.array(images.shape[1:3] if hwc else images.shape[2:])[:, None]
            size = (sides * np.sqrt(np.where(cut, 1 - share, 0))).astype(np.int64)
            begin = (sides * center).astype(np.int64) - size // 2
            begin, end = begin.clip(0, sides), (begin + size).clip(0, sides)
            share = np.where(cut, 1 - (end - begin).prod(0) / sides.prod(), share)
            inside = within(0)[:, :, None] & within(1)[:, None, :]
            made = torch.where(inside[..., None] if hwc else inside[:, None], other, made)
        if labels.ndim == 1:
            if self.num_classes is None:
                raise ValueError("num_classes: give the number of classes, of labels that are integers")
            labels = torch.nn.functional.one_hot(labels.long(), self.num_classes)
        labels = labels.float() * (1 - self.label_smoothing) + self.label_smoothing / labels.shape[1]
        own = there(share, 1).float()
        return made, labels * own + labels.roll(1, 0) * (1 - own)
