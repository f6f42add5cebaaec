#!/usr/bin/env python3
"""Measures pycocotools and the C functions (maskApi) inside it on the masks of rle_bench.

    rle_bench --texts > texts
    python3 rle_vs_pycocotools.py texts [--bench PATH-TO-RLE_BENCH]

Needs numpy and pycocotools, for example in a virtual environment. Prints microseconds and masks per second. With --bench
it runs rle_bench before and after, within the same minute, so that the figures can be divided. On a shared machine,
repeat it and compare only within one run.

The C functions are those that pycocotools itself calls, reached through its compiled extension. A call through ctypes
costs more than rleFrString on one mask. Therefore rleFrString gets the texts of 20 masks as one text (the same
characters, the same branches), and each round subtracts the time of calls with an empty text in the same round. Its
malloc and free are included.
"""

import argparse
import ctypes
import statistics
import subprocess
import time

import numpy as np
from pycocotools import _mask
from pycocotools import mask as coco


class Rle(ctypes.Structure):
    _fields_ = [("h", ctypes.c_ulong), ("w", ctypes.c_ulong), ("m", ctypes.c_ulong), ("counts", ctypes.c_void_p)]


def microseconds(work, masks, seconds=1.0):
    """Median time per mask of work(), which goes through all masks."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / masks * 1e6


def report(name, time_per_mask):
    print(f"{name:42} {time_per_mask:10.3f} us/mask {1e6 / time_per_mask:12.0f} masks/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("texts")
    parser.add_argument("--bench")
    arguments = parser.parse_args()
    with open(arguments.texts, encoding="ascii") as file:
        lines = [line.split() for line in file]
    sizes = [(int(line[0]), int(line[1])) for line in lines]
    texts = [line[2].encode() for line in lines]
    count = len(texts)

    if arguments.bench:
        subprocess.run([arguments.bench, "0.5"], check=True)

    objects = [{"size": list(size), "counts": text} for size, text in zip(sizes, texts)]
    report("pycocotools.mask.decode", microseconds(lambda: [coco.decode(o) for o in objects], count))
    report("pycocotools.mask.area", microseconds(lambda: [coco.area(o) for o in objects], count))

    library = ctypes.CDLL(_mask.__file__)
    library.rleFrString.argtypes = [ctypes.POINTER(Rle), ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong]
    library.rleFrString.restype = None
    library.rleFree.argtypes = [ctypes.POINTER(Rle)]
    library.rleFree.restype = None
    library.rleDecode.argtypes = [ctypes.POINTER(Rle), ctypes.c_void_p, ctypes.c_ulong]
    rle = Rle()
    pointer = ctypes.pointer(rle)
    output = np.zeros(max(h * w for h, w in sizes), np.uint8)

    def parse(strings):
        start = time.perf_counter()
        for string in strings:
            library.rleFrString(pointer, string, 1, 1)
            library.rleFree(pointer)
        return time.perf_counter() - start

    def decode():
        for string, (h, w) in zip(texts, sizes):
            library.rleFrString(pointer, string, h, w)
            library.rleDecode(pointer, output.ctypes.data, 1)
            library.rleFree(pointer)

    joined = [b"".join(texts[i:i + 20]) for i in range(0, count, 20)]
    rounds = [parse(joined) - parse([b""] * len(joined)) for _ in range(3000)]
    report("maskApi rleFrString", statistics.median(rounds) / count * 1e6)
    report("maskApi rleFrString + rleDecode", microseconds(decode, count))

    if arguments.bench:
        subprocess.run([arguments.bench, "0.5"], check=True)


if __name__ == "__main__":
    main()
