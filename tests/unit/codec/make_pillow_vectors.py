#!/usr/bin/env python3
"""Writes pillow_vectors.json: noise that Pillow resized from boxes with Image.BILINEAR and Image.BICUBIC.

Needs Pillow (made with 9.4.0). Run it in this folder; the output is the same every time. The noise is the upper byte of
a linear congruential generator; `pixels` is the result in hex; for long results `hash` is its FNV-1a hash instead. Boxes
are given by their corners, as in Pillow, in multiples of 1/256, which 32-bit floats represent exactly.
"""

import json
import random

from PIL import Image


def noise(count, state):
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        yield state >> 24


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def cases():
    # width, height, channels, box, out_width, out_height
    for channels in (1, 3):
        yield 1, 1, channels, (0, 0, 1, 1), 3, 2
        yield 2, 3, channels, (0, 0, 2, 3), 1, 1
        yield 9, 7, channels, (0, 0, 9, 7), 9, 7
        yield 9, 7, channels, (2, 1, 7, 5), 5, 4
        yield 9, 7, channels, (0, 0, 9, 7), 9, 3
        yield 9, 7, channels, (0, 0, 9, 7), 4, 7
        yield 64, 48, channels, (0, 0, 64, 48), 16, 12
        yield 40, 30, channels, (39, 29, 40, 30), 8, 8
        yield 300, 2, channels, (0.5, 0, 299.25, 2), 3, 2
        yield 2, 300, channels, (0, 0, 2, 300), 2, 3
        yield 333, 251, channels, (12.5, 7.25, 300.125, 222.75), 224, 224
        yield 500, 375, channels, (31, 17, 431, 317), 224, 224
        yield 121, 90, channels, (0, 0, 121, 90), 300, 200
        yield 1000, 37, channels, (3.75, 1, 999.5, 36.5), 60, 90
    numbers = random.Random(20240601)
    for _ in range(40):
        width, height = numbers.randint(1, 120), numbers.randint(1, 120)
        edges = []
        for side in (width, height):
            low, high = sorted(numbers.sample(range(side * 256 + 1), 2))
            edges.append((low / 256, high / 256))
        (left, right), (top, bottom) = edges
        yield (width, height, numbers.choice((1, 3)), (left, top, right, bottom), numbers.randint(1, 22),
               numbers.randint(1, 16))


vectors = []
for number, (width, height, channels, box, out_width, out_height) in enumerate(cases()):
    image = Image.frombytes("L" if channels == 1 else "RGB", (width, height),
                            bytes(noise(width * height * channels, number)))
    for bicubic in (False, True):
        filter = Image.BICUBIC if bicubic else Image.BILINEAR
        pixels = image.resize((out_width, out_height), filter, box=box).tobytes()
        vector = {"width": width, "height": height, "channels": channels, "seed": number, "box": box,
                  "out_width": out_width, "out_height": out_height, "bicubic": bicubic}
        if len(pixels) <= (300 if bicubic else 1200):
            vector["pixels"] = pixels.hex()
        else:
            vector["hash"] = f"{fnv1a(pixels):016x}"
        vectors.append(vector)
with open("pillow_vectors.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")
