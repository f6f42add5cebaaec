#!/usr/bin/env python3
"""Trains two small networks to tell which caption belongs to which image, as CLIP is trained.

    examples/quickstart_image_text.py [PAIRS...] [--out FOLDER] [--steps N] [--every N]

PAIRS are COCO's captions and the place of its images (captions_val2017.json val2017.zip), or a dataset with the columns
image and captions (lists of texts). Without them, pictures of two colors are drawn. FOLDER gets the dataset and a
checkpoint, with which the same command again goes on. Each epoch takes one of the captions of an image, another one
each time.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import shardkit as sk
from shardkit.torch import Loader

SIZE, CONTEXT, WIDTH, BATCH = 32, 40, 64, 16
COLORS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "gray": (120, 120, 120)}


def tokens_of(caption: str) -> np.ndarray:
    """Return the bytes of a text, cut or filled with 0 to CONTEXT: put your tokenizer here."""
    return np.frombuffer(caption.encode()[:CONTEXT].ljust(CONTEXT, b"\0"), np.uint8).astype(np.int64)


def colors(count: int = 256) -> Iterator[dict[str, object]]:
    """Draw pictures of two colors, with three captions each."""
    for i in range(count):
        random = np.random.default_rng(i)
        left, right = random.choice(list(COLORS), 2)
        pixels = np.full((40, 48, 3), COLORS[left]) + random.integers(-20, 20, (40, 48, 3))
        pixels[:, 24:] += np.subtract(COLORS[right], COLORS[left])
        captions = [f"{left} beside {right}", f"{right} follows {left}", f"at the left {left}, else {right}"]
        yield {"image": pixels.astype(np.uint8), "captions": captions}


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="*")
    parser.add_argument("--out", type=Path, default=Path("quickstart-image-text"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next")
    given = parser.parse_args()

    given.out.mkdir(parents=True, exist_ok=True)
    data, saved = given.out / "dataset", given.out / "checkpoint.pt"
    if given.pairs and (given.pairs[0] / "dataset.json").exists():
        data = given.pairs[0]
    elif not (data / "dataset.json").exists():
        columns = {} if given.pairs else {"columns": {"image": sk.Encode("jpeg"), "captions": "utf8[]"}}
        print(sk.pack(given.pairs or colors(), data, **columns))
    image = sk.Image(crop="random", size=SIZE, scale=(0.5, 1.0), interpolation="bicubic", dtype="f32")
    columns = {"image": image, "captions": [sk.Choice(), tokens_of]}
    loader = Loader(data, BATCH, columns=columns, as_tuple=("image", "captions"), remainder="drop", seed=1)
    torch.manual_seed(1)
    model, begin = Model(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    if saved.exists():
        state = torch.load(saved)
        begin = state["step"]
        for name, part in parts.items():
            part.load_state_dict(state[name])

    batches = (batch for epoch in loader.epochs(1 << 30) for batch in epoch)
    start = time.perf_counter()
    for step, (images, tokens) in zip(range(begin + 1, given.steps + 1), batches, strict=False):
        loss = model(images, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        speed = (step - begin) * BATCH / (time.perf_counter() - start)
        print(f"step {step}: loss {loss.item():.6f}, {speed:.0f} pairs/s", flush=True)
        if step % given.every == 0 or step == given.steps:
            torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, f"{saved}.tmp")
            os.replace(f"{saved}.tmp", saved)  # always a whole one


if __name__ == "__main__":
    main()
