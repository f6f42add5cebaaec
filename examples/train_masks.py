#!/usr/bin/env python3
"""Trains a small network to find the mask around a point of an image, as SAM is prompted.

    examples/train_masks.py DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET has columns image, masks and point_coords, as `shardctl pack` makes of SA-1B's pairs. Each step takes one mask
of each image, another one in every epoch, with its point. With --checkpoint a run goes on.
"""

import argparse
from pathlib import Path

import torch

import shardkit as sk
from shardkit.torch import Batch, Loader

SIZE = 64


def given_and_wanted(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images with a fourth plane, which is bright around the point, and the masks."""
    there = torch.from_numpy(batch.counts("masks") > 0)
    points = batch["point_coords"][there].reshape(-1, 2, 1, 1)  # x and y, in pixels of the crop
    places = torch.arange(SIZE) + 0.5
    distance = (places - points[:, 0]).square() + (places[:, None] - points[:, 1]).square()
    images = torch.cat([batch["image"][there], torch.exp(-distance / 50)[:, None]], dim=1)
    return images, batch["masks"].values[there, 0].float()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    image = sk.Image(crop="longest", size=SIZE, flip=0.5, dtype="f32", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    masks = sk.DenseMasks(most=1, choose="random", pad_masks=True, with_columns=["point_coords"])
    columns = {"image": image, "masks": masks, "point_coords": sk.Points()}
    loader = Loader(given.dataset, 4, columns=columns, remainder="drop", seed=1)
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(4, 16, 5, padding=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 5, padding=2)]
    model = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Conv2d(16, 1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    begin = 0
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, batch in zip(range(begin, end), batches, strict=False):
        images, wanted = given_and_wanted(batch)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(images)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
