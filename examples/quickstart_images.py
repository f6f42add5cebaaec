#!/usr/bin/env python3
"""Trains a classifier on pictures and validates it after each epoch. The same command again goes on where it stopped.

    examples/quickstart_images.py [PHOTOS] [--out FOLDER] [--epochs N] [--batch-size N] [--every N]
    torchrun --nproc_per_node 8 examples/quickstart_images.py PHOTOS --out FOLDER

PHOTOS is a folder of class folders, or a dataset that was made of one; without it, pictures of stripes are drawn.
FOLDER, which all nodes see, gets the dataset and a checkpoint. Every tenth picture is for validation. After a kill or
the loss of a node the run goes on in mid-epoch, with any number of ranks that divides the batch.
"""

import argparse
import datetime
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import shardkit as sk
from shardkit.torch import Loader

SIDE = 32


def stripes(count: int = 600) -> Iterator[dict[str, object]]:
    """Draw pictures of three classes: stripes across, along, and both, of any color."""
    for i in range(count):
        random = np.random.default_rng(i)
        wave = np.sin(np.arange(48) * random.uniform(0.6, 1.2) + random.uniform(0, 6))
        plane = (wave[:, None] + 0 * wave, wave + 0 * wave[:, None], wave[:, None] * wave)[i % 3]
        pixels = 128 + plane[..., None] * random.uniform(-100, 100, 3) + random.normal(0, 10, (48, 48, 3))
        yield {"image": pixels.clip(0, 255).astype(np.uint8), "label": i % 3}


def network(classes: int) -> torch.nn.Module:
    """Return three convolutions, the mean over the image, and a classifier: put your own here."""
    layers: list[torch.nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 32)):
        layers += [torch.nn.Conv2d(before, after, 3, stride=2, padding=1), torch.nn.ReLU()]
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, classes)]
    return torch.nn.Sequential(*layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("quickstart-images"))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=24, help="of all ranks together")
    parser.add_argument("--every", type=int, default=5, help="steps from one line and checkpoint to the next")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that ranks wait for each other")
    given = parser.parse_args()

    cuda, rank, ranks = torch.cuda.is_available(), int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
    if ranks > 1:  # ranks that wait for a dead one fail after the timeout, and torchrun starts all again
        timeout = datetime.timedelta(seconds=given.timeout)
        distributed.init_process_group("nccl" if cuda else "gloo", timeout=timeout)

    def total(value: float) -> float:
        """Return the sum over the ranks."""
        value_of_all = torch.tensor(value, device=device)
        if ranks > 1:
            distributed.all_reduce(value_of_all)
        return value_of_all.item()

    given.out.mkdir(parents=True, exist_ok=True)
    data = given.photos if given.photos and (given.photos / "dataset.json").exists() else given.out / "dataset"
    if rank == 0 and not (data / "dataset.json").exists():
        columns = {} if given.photos else {"columns": {"image": sk.Encode("jpeg"), "label": "i64"}}
        print(sk.pack(given.photos or stripes(), data, **columns))
    total(0)  # the others wait for the dataset
    labels = sk.open(data).column("label")
    held = np.arange(len(labels)) % 10 == 0
    pixels = {"size": SIDE, "dtype": "f32", "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    random = {"image": sk.Image(crop="random", scale=(0.3, 1), flip=0.5, **pixels), "label": None}
    center = {"image": sk.Image(crop="center", **pixels), "label": None}
    options = {"global_batch_size": given.batch_size, "as_tuple": ("image", "label"), "device": device}
    loader = Loader(data, columns=random, indices=~held, remainder="drop", seed=1, **options)
    validation = Loader(data, columns=center, indices=held, order="sequential", empty_batches=True, **options)

    torch.manual_seed(1)
    model, step = network(int(labels.max()) + 1).to(device), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    saved = given.out / "checkpoint.pt"
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    if saved.exists():
        state = torch.load(saved, map_location=device)
        step = state["step"]
        for name, part in parts.items():  # the loader's state is of any rank, for any number of ranks
            part.load_state_dict(state[name])
    parallel = DistributedDataParallel(model) if ranks > 1 else model

    def save() -> None:
        torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, f"{saved}.tmp")
        os.replace(f"{saved}.tmp", saved)  # always a whole one

    for batches in loader.epochs(given.epochs):
        begun, before = time.perf_counter(), step
        for images, found in batches:
            loss = functional.cross_entropy(parallel(images), found.long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % given.every == 0:
                mean = total(loss.item() / ranks)
                speed = (step - before) * given.batch_size / (time.perf_counter() - begun)
                if rank == 0:
                    print(f"step {step}: loss {mean:.6f}, {speed:.0f} images/s", flush=True)
                    save()
                begun, before = time.perf_counter(), step
        with torch.inference_mode():
            right = sum((model(images).argmax(dim=1) == found).sum() for images, found in validation)
        share = total(int(right)) / held.sum()
        if rank == 0:
            print(f"epoch {loader.epoch - 1}: accuracy {share:.4f}", flush=True)
            save()


if __name__ == "__main__":
    main()
