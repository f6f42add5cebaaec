#!/usr/bin/env python3
"""Trains a small network to tell the class of each pixel, from label maps that are PNGs.

    examples/train_segmentation.py DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET has columns image and labels (PNG of gray class numbers, or with a palette). Crops and flips are those of the
image, no class is blended, and what is padded is 255, which the loss ignores. With --checkpoint a run goes on.
"""

import argparse
from pathlib import Path

import torch

import shardkit as sk
from shardkit.torch import Loader

SIZE, CLASSES = 64, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    image = sk.Image(crop="random", size=SIZE, flip=0.5, dtype="f32", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    columns = {"image": image, "labels": sk.LabelMap("i64", fill=255)}
    loader = Loader(given.dataset, 8, columns=columns, as_tuple=("image", "labels"), remainder="drop", seed=1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, CLASSES, 3, padding=1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = 0
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, (images, labels) in zip(range(begin, end), batches, strict=False):
        loss = torch.nn.functional.cross_entropy(model(images), labels, ignore_index=255)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
