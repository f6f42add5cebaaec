"""Measures packing, and prints samples per second, the median of several runs in turns.

    tests/frameworks/pack_speed.py optimize [SAMPLES]    sk.pack(sk.rows(...)) beside litdata.optimize, two processes
    tests/frameworks/pack_speed.py streams [SAMPLES]     sk.pack of Hugging Face's streams beside that of their rows

Needs litdata, datasets and Pillow.
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shardkit as sk

RUNS = 5


def numbers(i: int) -> dict[str, Any]:
    """Make a small sample in no time."""
    return {"index": i, "text": f"sample {i} " * 20, "vector": np.full(64, i, np.float32)}


def pixels(i: int) -> dict[str, Any]:
    """Make a sample that takes its time: a JPEG of 256 x 256 pixels."""
    from PIL import Image

    file = io.BytesIO()
    noise = np.random.default_rng(i).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((256, 256)).save(file, "JPEG")
    return {"index": i, "image": file.getvalue()}


def packed(path: Path, given: Any, samples: int, **options: Any) -> None:
    """Pack, and look whether all is there."""
    assert sk.pack(given, path, **options).samples == samples


def optimized(path: Path, function: Callable[[int], dict[str, Any]], samples: int) -> None:
    """Do what `packed` does, by litData."""
    import litdata

    litdata.optimize(
        function, list(range(samples)), output_dir=str(path), num_workers=2, chunk_bytes="64MB", verbose=False
    )


def measured(name: str, samples: int, ways: dict[str, Callable[[Path], None]]) -> None:
    """Print what each way takes."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(RUNS):
        for way, run in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                begin = time.perf_counter()
                run(Path(folder, "out"))
                taken[way].append(time.perf_counter() - begin)
    print(name, {way: round(samples / statistics.median(times)) for way, times in taken.items()}, flush=True)


def optimize(samples: int) -> None:
    """Compare `sk.rows` with `litdata.optimize`."""
    for function, count in ((numbers, samples), (pixels, samples // 5)):

        def rows(function: Callable[[int], dict[str, Any]], count: int) -> Any:
            return sk.rows(function, range(count), workers=2, worker_kind="process")

        measured(
            function.__name__,
            count,
            {
                "litdata.optimize": lambda path, function=function, count=count: optimized(path, function, count),
                "sk.rows": lambda path, function=function, count=count: packed(
                    path, rows(function, count), count, shard_size="64MB"
                ),
            },
        )


def streams(samples: int) -> None:
    """Compare streams with their rows."""
    from datasets import Dataset, Features, Image, IterableDataset, Value, load_dataset

    def generated(samples: int) -> Any:
        return map(numbers, range(samples))

    with tempfile.TemporaryDirectory() as folder:
        texts, pictures = Path(folder, "texts.parquet"), Path(folder, "pictures.parquet")
        Dataset.from_list(list(generated(samples))).to_parquet(texts)
        files = [{"index": i, "image": {"bytes": pixels(i)["image"], "path": None}} for i in range(samples // 5)]
        features = Features({"index": Value("int64"), "image": Image()})
        Dataset.from_list(files, features=features).to_parquet(pictures)
        of_texts = load_dataset("parquet", data_files=str(texts), split="train", streaming=True)
        of_images = load_dataset("parquet", data_files=str(pictures), split="train", streaming=True)
        made = {
            "texts, vectors of Parquet": (samples, of_texts),
            "images of Parquet": (samples // 5, of_images.cast_column("image", Image(decode=False))),
            "texts, vectors of map": (samples, of_texts.map(lambda row: {"index": row["index"] + 1})),
            "texts, vectors of a generator": (
                samples,
                IterableDataset.from_generator(generated, gen_kwargs={"samples": samples}),
            ),
        }
        for name, (count, stream) in made.items():

            def row(sample: dict[str, Any]) -> dict[str, Any]:
                image = sample.get("image")
                return sample if image is None else {**sample, "image": image["bytes"]}

            measured(
                name,
                count,
                {
                    "stream": lambda path, stream=stream, count=count: packed(path, stream, count),
                    "rows": lambda path, stream=stream, count=count: packed(path, map(row, stream), count),
                },
            )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("optimize", "streams"):
        sys.exit(__doc__)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 50_000)
