"""Trains a small network to find what is masked in images, and goes on exactly where it was stopped.

    python examples/train_masks.py DATASET [--steps 40] [--checkpoint FILE] [--stop-after N]

DATASET has the columns `image` and `masks`, as `shardctl pack` makes of SA-1B's pairs. Prints the loss of each step.
With a checkpoint that exists, it goes on from there: the losses are those of a run that was never stopped.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch

import shardkit as sk
from shardkit.torch import Loader

SIDE = 64


def foreground(masks: sk.BatchMasks) -> torch.Tensor:
    """Return [samples, 1, SIDE, SIDE]: 1 where any mask of the sample is."""
    planes = np.zeros((len(masks), SIDE, SIDE), np.float32)
    for plane, packed in zip(planes, masks, strict=True):
        if len(packed):
            together = np.bitwise_or.reduce(packed, axis=0)
            plane[:] = np.unpackbits(together, axis=-1, count=SIDE, bitorder="little")
    return torch.from_numpy(planes)[:, None]


def network() -> torch.nn.Module:
    """Return three convolutions from RGB to one plane."""
    layers = [torch.nn.Conv2d(3, 16, 5, padding=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 5, padding=2)]
    return torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Conv2d(16, 1, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--checkpoint")
    parser.add_argument("--stop-after", type=int, default=None, help="steps of this run")
    arguments = parser.parse_args()

    torch.manual_seed(1)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    columns = {"image": sk.Image(crop="random", size=SIDE, flip=0.5), "masks": sk.PackedMasks()}
    loader = Loader(arguments.dataset, batch_size=4, seed=1, columns=columns)
    step = 0
    if arguments.checkpoint and os.path.exists(arguments.checkpoint):
        # A checkpoint of somebody else must not run code. What torch 1 reads so has no numbers.
        state = torch.load(arguments.checkpoint, weights_only=torch.__version__[0] != "1")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]

    end = arguments.steps if arguments.stop_after is None else min(arguments.steps, step + arguments.stop_after)
    while step < end:
        for batch in loader:
            images = batch["image"].permute(0, 3, 1, 2).float() / 255
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(images), foreground(batch["masks"]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: loss {loss.item():.9f}", flush=True)
            if step == end:
                break
    if arguments.checkpoint:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "loader": loader.state_dict(),
            "step": step,
        }
        torch.save(state, arguments.checkpoint)


if __name__ == "__main__":
    main()
