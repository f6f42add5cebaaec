#!/usr/bin/env python3
"""Writes pycocotools_vectors.json: random masks with pycocotools' results for them.

Needs numpy and pycocotools (made with 2.0.11). Run it in this folder; the output is the same every time.
`packed` is numpy.packbits of every row, in hex.
"""

import json

import numpy as np
from pycocotools import mask as coco


def masks():
    random = np.random.default_rng(20240601)
    sizes = [(1, 1), (1, 2), (2, 1), (1, 70), (40, 1), (40, 70)]
    sizes += [tuple(random.integers(1, (41, 71))) for _ in range(50)]
    for number, (height, width) in enumerate(sizes):
        yield (random.random((height, width)) < random.choice([0.02, 0.1, 0.5, 0.9, 0.99])).astype(np.uint8)
        if number % 3 == 0:
            y, x = np.ogrid[:height, :width]
            center = random.random(2) * (height, width)
            radius = 1 + random.random(2) * (height, width) * 0.6
            yield (((y - center[0]) / radius[0]) ** 2 + ((x - center[1]) / radius[1]) ** 2 < 1).astype(np.uint8)
    yield np.zeros((13, 9), np.uint8)
    yield np.ones((13, 9), np.uint8)


vectors = []
for mask in masks():
    rle = coco.encode(np.asfortranarray(mask))
    vectors.append({
        "height": mask.shape[0],
        "width": mask.shape[1],
        "packed": np.packbits(mask, axis=1).tobytes().hex(),
        "counts": rle["counts"].decode(),
        "area": int(coco.area(rle)),
        "bbox": [int(v) for v in coco.toBbox(rle)],
    })
with open("pycocotools_vectors.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")
