#!/usr/bin/env python3
"""Trains a network to tell the class of short clips from videos, of which only the parts with the clips are read.

    examples/train_clips.py DATASET [--decoder torchcodec|pyav] [--steps N] [--checkpoint FILE] [--stop-after N]

DATASET, local or a URL, has columns key, video (bytes: files that FFmpeg reads) and label. Each epoch takes a clip of 8
frames from another place of a video. With --checkpoint a run goes on where it stood.
"""

import argparse
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

import shardkit as sk
from shardkit.torch import Loader

FRAMES, CLASSES = 8, 2


def by_torchcodec(file: BinaryIO, rng: np.random.Generator) -> np.ndarray:
    """Return a clip, uint8 [frames, 3, height, width]."""
    from torchcodec.decoders import VideoDecoder

    # "exact" would read the whole file, to count its frames. The threads of the loader are enough.
    video = VideoDecoder(file, seek_mode="approximate", num_ffmpeg_threads=1)
    begin = int(rng.integers(len(video) - FRAMES + 1))
    return video.get_frames_in_range(begin, begin + FRAMES).data.numpy()


def by_pyav(file: BinaryIO, rng: np.random.Generator) -> np.ndarray:
    """Return the same with PyAV, by times in place of numbers of frames."""
    import av

    with av.open(file) as container:
        stream = container.streams.video[0]
        step = 1 / (stream.average_rate * stream.time_base)  # of the times of frames
        begin = int(rng.integers(stream.frames - FRAMES + 1)) * step + (stream.start_time or 0)
        container.seek(int(begin), stream=stream)  # to a key frame before it
        frames = (frame for frame in container.decode(stream) if frame.pts >= begin)
        clip = [frame.to_ndarray(format="rgb24") for frame, _ in zip(frames, range(FRAMES), strict=False)]
    return np.stack(clip).transpose(0, 3, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--decoder", choices=("torchcodec", "pyav"), default="torchcodec")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--stop-after", type=int, default=1 << 30)
    given = parser.parse_args()
    videos = sk.open(given.dataset, ["video"])
    decode = by_torchcodec if given.decoder == "torchcodec" else by_pyav

    def with_clip(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        with videos.open_value(sample["key"], "video") as file:
            return {"clip": decode(file, rng), "label": sample["label"]}

    # The loader reads keys and labels, and calls with_clip ahead of the loop, on threads.
    columns = ["key", "label"]
    loader = Loader(given.dataset, 8, columns=columns, transform=with_clip, as_tuple=("clip", "label"), seed=1)
    torch.manual_seed(1)
    layers = [torch.nn.LazyConv3d(16, 5, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool3d(1), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(16, CLASSES))
    model(torch.zeros(1, 3, FRAMES, 32, 32))  # so that all weights have their sizes
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    begin = 0
    if given.checkpoint and given.checkpoint.exists():
        begin, weights, optimizer_state, state = torch.load(given.checkpoint)
        model.load_state_dict(weights)
        optimizer.load_state_dict(optimizer_state)
        loader.load_state_dict(state)
    end = min(given.steps, begin + given.stop_after)
    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    for step, (clips, labels) in zip(range(begin, end), batches, strict=False):
        clips = torch.as_tensor(clips).transpose(1, 2).float() / 127.5 - 1
        loss = torch.nn.functional.cross_entropy(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.6f}")
    if given.checkpoint:
        torch.save((end, model.state_dict(), optimizer.state_dict(), loader.state_dict()), given.checkpoint)


if __name__ == "__main__":
    main()
