#!/usr/bin/env python3
"""Writes pycocotools_vectors.json and pycocotools_polygons.json: random masks and polygons with pycocotools' results for them.

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


def polygons():
    """(height, width, polygons) of every kind: corners on and beside the grid, outside, repeated, holes, parts that overlap."""
    random = np.random.default_rng(20261128)
    for number in range(140):
        height, width = (int(side) for side in random.integers(1, [8, 70][number % 2], 2))
        parts = []
        for _ in range(random.choice([1, 1, 2, 4])):
            corners = random.random((int(random.choice([3, 4, 7, 20])), 2)) * [width, height]
            kind = number % 7
            if kind == 0:
                corners = np.round(corners)
            elif kind == 1:
                corners = np.round(corners, 2)
            elif kind == 2:
                corners = corners * 3 - [width, height]
            elif kind == 3:
                corners = np.round(corners * 5) / 5 + 0.1
            elif kind == 4:
                corners = np.round(np.repeat(corners, random.integers(1, 3, len(corners)), 0) * 2 - 2)
            elif kind == 5:
                angles = np.sort(random.random(len(corners))) * 2 * np.pi
                corners = np.stack([np.cos(angles), np.sin(angles)], 1) * [width / 2, height / 2] + [width / 2, height / 2]
            parts.append([float(number) for number in corners.reshape(-1)])
        yield height, width, parts
    yield 3, 4, [[0, 0, 4, 0, 4, 3, 0, 3]]
    yield 3, 4, [[0, 0, 4, 0, 4, 3, 0, 3], [1, 1, 1, 2, 2, 2, 2, 1]]
    yield 4, 3, [[-1e6, -1e6, 1e6, -1e6, 0, 2e6]]
    yield 4, 3, [[1, 1, 1, 1, 1, 1]]


shapes = [{"height": height, "width": width, "polygons": parts,
           "counts": coco.merge(coco.frPyObjects(parts, height, width))["counts"].decode()} for height, width, parts in polygons()]
with open("pycocotools_polygons.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(shape) for shape in shapes) + "\n]\n")
