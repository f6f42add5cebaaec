#!/usr/bin/env python3
"""Trains ResNet-50 on a CUDA device, and compares the steps with steps on a batch that is there already.

    bench/gpu_training.py [--device cuda:0] [--steps N] [--output FILE]

Needs the Python package, PyTorch and torchvision. The photographs are made in a temporary folder.
"""
import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torchvision

import shardkit as sk
from shardkit.torch import Loader

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 256


def make(path, count, height=375, width=500):
    """A dataset of smooth pictures with noise, which take about as many bytes as photographs of their size."""
    y, x = np.mgrid[:height, :width]
    with sk.Writer(path, {"image": sk.Encode(quality=90), "label": "i64"}) as writer:
        for i in range(count):
            random = np.random.default_rng(i)
            waves = [np.sin(x / a + y / b + c) for a, b, c in random.uniform(4, 60, (3, 3))]
            pixels = 128 + 60 * np.stack(waves, 2) + random.normal(0, 8, (height, width, 3))
            writer.write(f"{i:06d}", image=pixels.clip(0, 255).astype(np.uint8), label=int(random.integers(1000)))
    files = list(Path(path).rglob("*.shard"))
    return sum(file.stat().st_size for file in files) / count


def batches(loader):
    while True:
        yield from loader


def on_host(batch, device):
    """What a loop does with bytes that torch has copied: normalized floats, channels first."""
    images = batch["image"].to(device, non_blocking=True).permute(0, 3, 1, 2).to(torch.bfloat16)
    mean, deviation = (torch.tensor(each, device=device, dtype=torch.bfloat16).view(3, 1, 1) * 255 for each in (MEAN, DEVIATION))
    return (images - mean) / deviation


def rate(step, source, images_of, steps):
    """Samples per second, after ten steps; and the report's share of waiting."""
    for _ in range(10):
        batch = next(source)
        step(images_of(batch), batch["label"])
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        batch = next(source)
        step(images_of(batch), batch["label"])
    torch.cuda.synchronize()
    return BATCH * steps / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--output")
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(images, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels.to(device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dataset")
        size = make(path, 1024)
        options = {"batch_size": BATCH, "remainder": "drop"}
        ready = {"dtype": "bf16", "mean": MEAN, "std": DEVIATION}

        def columns(**more):
            return {"image": sk.Image(crop="random", size=224, flip=0.5, **more), "label": None}

        resident = {"image": torch.randn(BATCH, 3, 224, 224, device=device, dtype=torch.bfloat16),
                    "label": torch.randint(1000, (BATCH,), device=device)}
        limit = rate(step, iter(lambda: resident, None), lambda batch: batch["image"], given.steps)
        rows = []
        for name, extra, images_of in (
            (f'`device="{given.device}"`: the GPU stage', {"device": device, "columns": columns(**ready)}, lambda batch: batch["image"]),
            ('`sk.Image(dtype="bf16", …)` and `pin_memory=True`', {"pin_memory": True, "columns": columns(**ready)},
             lambda batch: batch["image"].to(device, non_blocking=True)),
            ("u8, `pin_memory=True`, normalized by the loop", {"pin_memory": True, "columns": columns()}, lambda batch: on_host(batch, device)),
            ("u8, normalized by the loop", {"columns": columns()}, lambda batch: on_host(batch, device)),
        ):
            loader = Loader(path, **options, **extra)
            measured = rate(step, batches(loader), images_of, given.steps)
            report = loader.report()
            rows.append(f"| {name} | {measured:,.0f} | {measured / limit:.3f} | {100 * report.wait_share:.2f} % | {report.stage} |")
            print(rows[-1], flush=True)
            del loader
        alone = batches(Loader(path, **options, columns=columns()))
        for _ in range(10):
            next(alone)
        begin = time.perf_counter()
        for _ in range(40):
            next(alone)
        alone = BATCH * 40 / (time.perf_counter() - begin)
    text = "\n".join([
        f"ResNet-50, bf16, batches of {BATCH}, random crops of 224 from JPEGs of 500 x 375 ({size / 1000:.0f} kB each), {given.steps} steps,",
        f"{torch.cuda.get_device_name(device)}, {os.cpu_count()} processors, PyTorch {torch.__version__}. One batch that stays on the device:",
        f"{limit:,.0f} samples/s. The loader alone, without training: {alone:,.0f} samples/s.",
        "",
        "| Loader | Samples/s | Of the batch that stays | Waits | Bounded by |",
        "|---|--:|--:|--:|---|",
        *rows,
    ])
    print(text)
    if given.output:
        Path(given.output).write_text(text + "\n")


if __name__ == "__main__":
    main()
