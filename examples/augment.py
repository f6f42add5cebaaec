#!/usr/bin/env python3
"""Reads a dataset of images through an augmentation of one's own, ahead of the loop, and compares what it takes.

    examples/augment.py DATASET [--workers N] [--kind thread|process] [--batches N]

A line for each batch has its step and a number of its pixels: the same for any workers, kinds and restarts.
"""

import argparse

import numpy as np
import numpy.typing as npt

import shardkit as sk

Pixels = npt.NDArray[np.uint8]


def color_jitter(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Change brightness and contrast. NumPy gives the lock up; a loop of Python's own would want processes."""
    light, contrast = rng.uniform(0.7, 1.3, 2)
    changed = (pixels.astype(np.float32) - 128) * contrast + 128 * light
    return np.clip(changed, 0, 255).astype(np.uint8)


def cutout(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Blacken a square."""
    height, width, _ = pixels.shape
    y, x = rng.integers(height - 16), rng.integers(width - 16)
    pixels[y : y + 16, x : x + 16] = 0
    return pixels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", default="thread")
    parser.add_argument("--batches", type=int, default=100)
    given = parser.parse_args()
    image = [sk.Image(crop="random", size=64, flip=0.5), color_jitter, cutout]
    loader = sk.Loader(
        given.dataset, 4, seed=1, columns={"image": image}, workers=given.workers, worker_kind=given.kind
    )
    for batch, _ in zip(loader, range(given.batches), strict=False):
        print(batch.step, f"{batch['image'].astype(np.float64).mean():.6f}")
    print(loader.report())


if __name__ == "__main__":
    main()
