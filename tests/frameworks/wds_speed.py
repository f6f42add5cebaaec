"""Measures `shardkit.wds` beside webdataset on the same tars, and prints samples per second, the best of several runs.

    tests/frameworks/wds_speed.py [SAMPLES]

Needs webdataset 1.0.2, torch and Pillow.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import webdataset

from shardkit import wds

RUNS = 3


def written(folder: str, samples: int) -> str:
    """Write tars of JPEGs of 256 x 256 pixels and classes; their pattern."""
    chance = np.random.default_rng(0)
    files = []
    for _ in range(64):
        small = PIL.Image.fromarray(chance.integers(0, 255, (12, 16, 3), np.uint8))
        stream = io.BytesIO()
        small.resize((256, 256)).save(stream, "JPEG", quality=90)
        files.append(stream.getvalue())
    with wds.ShardWriter(Path(folder, "x-%03d.tar"), maxcount=-(-samples // 8), verbose=0) as writer:
        for i in range(samples):
            writer.write({"__key__": f"{i:06}", "jpg": files[i % 64], "cls": i % 10})
    return folder + "/x-{000..007}.tar"


def dataset(module: Any, urls: str) -> Any:
    """Return the dataset of a module, in the order of the tars."""
    return module.WebDataset(urls, shardshuffle=False)


def decoded(module: Any, urls: str) -> Any:
    """Return the dataset with images decoded."""
    return dataset(module, urls).decode("pilrgb")


def loaded(module: Any, urls: str) -> Any:
    """Return a loader of it with two workers."""
    return module.WebLoader(decoded(module, urls).to_tuple("jpg", "cls").batched(32), batch_size=None, num_workers=2)


def main() -> None:
    warnings.simplefilter("ignore")
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    ways: dict[str, Callable[[Any, str], Iterable[Any]]] = {
        "without decoding": dataset,
        'decode("pilrgb")': decoded,
        'decode("pilrgb"), WebLoader of 2 workers': loaded,
    }
    print("| | webdataset | shardkit.wds |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        urls = written(folder, samples)
        for name, way in ways.items():
            best = {"webdataset": 0.0, "shardkit.wds": 0.0}
            for _ in range(RUNS):
                for module in (webdataset, wds):
                    begin = time.perf_counter()
                    for _ in way(module, urls):
                        pass
                    speed = samples / (time.perf_counter() - begin)
                    best[module.__name__] = max(best[module.__name__], speed)
            print(f"| {name} | {best['webdataset']:,.0f} | {best['shardkit.wds']:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
