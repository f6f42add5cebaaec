#!/usr/bin/env python3
"""Trains an encoder without labels: two views of an image are to have like codes, and others not (SimCLR's loss).

    examples/train_views.py DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET has a column image. Each view has a crop and a flip of its own. With --checkpoint a run goes on where it stood.
"""

import argparse
from pathlib import Path

import torch

import shardkit as sk
from shardkit.torch import Loader


def contrast(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return how badly the views of an image find each other among all of the batch."""
    codes = torch.nn.functional.normalize(torch.cat([a, b]), dim=1)
    alike = codes @ codes.T / 0.2
    alike.fill_diagonal_(-1e9)
    count = len(a)
    return torch.nn.functional.cross_entropy(alike, torch.arange(2 * count).roll(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    view = sk.Image(source="image", crop="random", size=32, scale=(0.4, 1), flip=0.5, dtype="f32", own_geometry=True)
    loader = Loader(given.dataset, 12, columns={"a": view, "b": view}, as_tuple=("a", "b"), remainder="drop", seed=1)
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(3, 16, 4, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 64, 16)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begin = 0
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, (a, b) in zip(range(begin, end), batches, strict=False):
        loss = contrast(model(a), model(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
