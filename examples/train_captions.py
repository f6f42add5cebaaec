#!/usr/bin/env python3
"""Trains two small networks to tell which caption belongs to which image, as CLIP is trained.

    examples/train_captions.py DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET has columns image and captions (utf8[], lists of texts). Each epoch takes one of the captions of an image,
another one each time, as tokens of one length. With --checkpoint a run goes on.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import shardkit as sk
from shardkit.torch import Loader

SIZE, CONTEXT, WIDTH = 32, 40, 64


def tokens_of(caption: str) -> np.ndarray:
    """Return the bytes of a text, cut or filled with 0 to CONTEXT."""
    return np.frombuffer(caption.encode()[:CONTEXT].ljust(CONTEXT, b"\0"), np.uint8).astype(np.int64)


class Model(torch.nn.Module):
    """What it makes of an image and of its caption is alike."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 4, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 8 * 8, WIDTH)
        )
        self.text = torch.nn.Sequential(
            torch.nn.Embedding(256, 16), torch.nn.Flatten(), torch.nn.Linear(16 * CONTEXT, WIDTH)
        )

    def forward(self, images: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the loss: each image is most like its own caption, and each caption like its image."""
        image, text = (torch.nn.functional.normalize(each) for each in (self.picture(images), self.text(tokens)))
        alike = 10 * image @ text.T
        own = torch.arange(len(images))
        return torch.nn.functional.cross_entropy(alike, own) + torch.nn.functional.cross_entropy(alike.T, own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    image = sk.Image(crop="random", size=SIZE, scale=(0.5, 1.0), interpolation="bicubic", dtype="f32")
    columns = {"image": image, "captions": [sk.Choice(), tokens_of]}
    loader = Loader(given.dataset, 16, columns=columns, as_tuple=("image", "captions"), remainder="drop", seed=1)
    torch.manual_seed(1)
    model, begin = Model(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, (images, tokens) in zip(range(begin, end), batches, strict=False):
        loss = model(images, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
