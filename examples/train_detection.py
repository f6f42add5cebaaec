#!/usr/bin/env python3
"""Trains a small network to find the objects of images, by their boxes and classes.

    examples/train_detection.py DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET has columns image, boxes ([objects, 4]: left, top, width, height) and category. Random crops and flips move the
boxes along; objects that a crop leaves out are left out. A run with --checkpoint goes on where it stood.
"""

import argparse
from pathlib import Path

import torch

import shardkit as sk
from shardkit.torch import Loader

SIZE, CLASSES = 64, 3


def loss_of(model: torch.nn.Module, batch: dict[str, torch.Tensor], counts: torch.Tensor) -> torch.Tensor:
    """Compare what each cell of a grid of 8 x 8 says with the object whose middle lies in it."""
    made = model(batch["image"])  # [samples, 5 + classes, 8, 8]
    boxes, there = batch["boxes"] / SIZE, torch.arange(batch["boxes"].shape[1]) < counts[:, None]
    sample, item = there.nonzero(as_tuple=True)
    box = boxes[sample, item]  # middle and size, from 0 to 1
    x, y = (box[:, :2] * 8).long().clamp(0, 7).unbind(1)
    target = torch.zeros(made.shape[0], 8, 8)
    target[sample, y, x] = 1
    at = made[sample, :, y, x]
    found = torch.nn.functional.binary_cross_entropy_with_logits(made[:, 0], target)
    classes = torch.nn.functional.cross_entropy(at[:, 5:], batch["category"][sample, item])
    return found + torch.nn.functional.l1_loss(at[:, 1:5], box) + classes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    image = sk.Image(crop="random", size=SIZE, flip=0.5, dtype="f32", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    boxes = sk.Boxes("xywh", to="cxcywh", min_area=9, with_columns=["category"])
    loader = Loader(given.dataset, 8, columns={"image": image, "boxes": boxes}, remainder="drop", seed=1)
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(a, b, 4, 2, 1) for a, b in ((3, 16), (16, 32), (32, 5 + CLASSES))]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    begin = 0
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, batch in zip(range(begin, end), batches, strict=False):
        loss = loss_of(model, batch, torch.from_numpy(batch.counts("boxes")))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
