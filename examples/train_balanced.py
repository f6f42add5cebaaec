#!/usr/bin/env python3
"""Trains a classifier on classes of very different sizes, which come equally often, and goes on where it stood.

    examples/train_balanced.py DATASET [--where CONDITION] [--epochs N] [--checkpoint FILE]

DATASET has images and integer labels, as `sk.pack` makes of class folders. Run by torchrun, each rank takes its part; a
checkpoint of any number of ranks goes on with any other. A line for each epoch has the samples of each class.
"""

import argparse
import collections
from pathlib import Path

import torch

import shardkit as sk
from shardkit.torch import Loader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--where", help="train on these samples alone, as 'label < 10'")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path)
    given = parser.parse_args()
    image = sk.Image(crop="random", size=32, flip=0.5, dtype="f32", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    loader = Loader(
        given.dataset,
        global_batch_size=8,  # the same steps at any world size
        columns={"image": image, "label": None},
        where=given.where,
        balance="label",
        remainder="pad",
        as_tuple=("image", "label"),
    )
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=4), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    model(torch.zeros(1, 3, 32, 32))  # which makes the last layer
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if given.checkpoint is not None and given.checkpoint.exists():
        state = torch.load(given.checkpoint)
        model.load_state_dict(state["model"])
        loader.load_state_dict(state["loader"])
    for batches in loader.epochs(given.epochs):
        taken: collections.Counter[int] = collections.Counter()
        for images, labels in batches:
            loss = torch.nn.functional.cross_entropy(model(images), labels.long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            taken.update(labels.tolist())
            if given.checkpoint is not None:
                torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, given.checkpoint)
        print(f"epoch {loader.epoch - 1}: loss {loss.item():.4f}, of each class", dict(sorted(taken.items())))


if __name__ == "__main__":
    main()
