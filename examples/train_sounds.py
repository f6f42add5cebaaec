#!/usr/bin/env python3
"""Trains a classifier of sounds on windows of recordings, WAV or FLAC.

    examples/train_sounds.py DATASET [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET has columns audio (bytes: mono files that libsndfile reads) and label. Each epoch takes a window of 4,096
values from another place of a recording. With --checkpoint a run goes on where it stood.
"""

import argparse
import io
from pathlib import Path

import numpy as np
import soundfile
import torch

import shardkit as sk
from shardkit.torch import Loader

WINDOW, BINS, CLASSES = 4096, 512, 3


def window(stored: bytes, rng: np.random.Generator) -> np.ndarray:
    """Return values from -1 to 1, float32 [WINDOW], of a file in memory; of long ones, open_value reads parts."""
    with soundfile.SoundFile(io.BytesIO(stored)) as sound:
        sound.seek(int(rng.integers(sound.frames - WINDOW + 1)))
        return sound.read(WINDOW, dtype="float32")


def spectrum(sounds: torch.Tensor) -> torch.Tensor:
    """Return how loud each pitch is in the middle of a window, [samples, BINS]."""
    parts = torch.stft(sounds, 2 * BINS, window=torch.hann_window(2 * BINS), return_complex=True)
    return parts.abs().mean(2)[:, :BINS].add(1e-3).log()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    columns = {"audio": sk.Raw(window), "label": None}
    loader = Loader(given.dataset, 8, columns=columns, as_tuple=("audio", "label"), seed=1)
    torch.manual_seed(1)
    model = torch.nn.Linear(BINS, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    begin = 0
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, (sounds, labels) in zip(range(begin, end), batches, strict=False):
        loss = torch.nn.functional.cross_entropy(model(spectrum(torch.as_tensor(sounds))), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
