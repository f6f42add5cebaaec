#!/usr/bin/env python3
"""Measures a StreamingDataset, of mosaicml-streaming or of shardkit.streaming: the same program for both.

    streaming_speed.py streaming|shardkit.streaming write FOLDER      writes 50,000 samples as MDS
    streaming_speed.py streaming|shardkit.streaming iterate FOLDER    for sample in dataset
    streaming_speed.py streaming|shardkit.streaming load FOLDER       StreamingDataLoader with two workers
    streaming_speed.py streaming|shardkit.streaming killed FOLDER     what is left in /dev/shm of a killed process

Samples have a number, a text of about 260 letters and 512 bytes. Prints samples per second, or names.
"""

import importlib
import os
import random
import subprocess
import sys
import time

BATCHES = (32, 256)
KILLED = """
import importlib, os, signal, sys
module = importlib.import_module(sys.argv[1])
dataset = module.StreamingDataset(local=sys.argv[2], shuffle=True, batch_size=32)
loader = module.StreamingDataLoader(dataset, batch_size=32, num_workers=2)
for number, batch in enumerate(loader):
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def write(module, folder):
    chance = random.Random(1)
    with module.MDSWriter(
        out=folder, columns={"id": "int", "text": "str", "blob": "bytes"}, size_limit=1 << 22
    ) as writer:
        for i in range(50_000):
            writer.write({"id": i, "text": f"sample {i} " * 20, "blob": chance.randbytes(512)})


def dataset(module, folder, batch_size):
    return module.StreamingDataset(local=folder, shuffle=True, batch_size=batch_size)


def iterate(module, folder):
    samples = dataset(module, folder, 32)
    begin = time.perf_counter()
    count = sum(1 for _ in samples)
    print(f"{count / (time.perf_counter() - begin):.0f} samples/s")


def load(module, folder):
    for batch_size in BATCHES:
        loader = module.StreamingDataLoader(dataset(module, folder, batch_size), batch_size=batch_size, num_workers=2)
        begin = time.perf_counter()
        count = sum(len(batch["id"]) for batch in loader)
        print(f"{count / (time.perf_counter() - begin):.0f} samples/s with batches of {batch_size}")


def killed(module, folder):
    before = set(os.listdir("/dev/shm"))
    subprocess.run([sys.executable, "-c", KILLED, module.__name__, folder], check=False, stderr=subprocess.DEVNULL)
    time.sleep(10)  # torch's workers look every 5 seconds whether their parent is there
    print(sorted(set(os.listdir("/dev/shm")) - before))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("write", "iterate", "load", "killed"):
        sys.exit(__doc__)
    globals()[sys.argv[2]](importlib.import_module(sys.argv[1]), sys.argv[3])
