#!/usr/bin/env python3
"""Writes pillow_png_vectors.json: PNG files of every kind, and the results of Pillow's convert("RGB") and convert("L").

Needs Pillow (made with 9.4.0). Run it in this folder; the output is the same every time. The script makes the files
itself, because Pillow writes neither interlaced files nor all depths. Gray of 16 bits is left out: Pillow clips it at 255.
"""

import io
import json
import random
import struct
import zlib

from PIL import Image

WIDTH, HEIGHT = 11, 9
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
SAMPLES = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def rows(pixels, bits, interlaced):
    """Scanlines without a filter, whole bytes each."""
    for left, top, right, down in PASSES if interlaced else [(0, 0, 1, 1)]:
        for y in range(top, HEIGHT, down):
            samples = [sample for x in range(left, WIDTH, right) for sample in pixels[y][x]]
            if samples:
                text = "".join(f"{sample:0{bits}b}" for sample in samples)
                text += "0" * (-len(text) % 8)
                yield b"\0" + bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))


def make(numbers, color, bits, interlaced, transparent):
    pixels = [[[numbers.randrange(1 << bits) for _ in range(SAMPLES[color])] for _ in range(WIDTH)] for _ in range(HEIGHT)]
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, color, 0, 0, interlaced))
    out += chunk(b"gAMA", struct.pack(">I", 30000))  # present, but not applied
    if color == PALETTE:
        out += chunk(b"PLTE", numbers.randbytes(3 << bits))
    if transparent:
        out += chunk(b"tRNS", {PALETTE: bytes(1 << bits), GRAY: bytes(2), RGB: bytes(6)}[color])
    data = zlib.compress(b"".join(rows(pixels, bits, interlaced)))
    return out + chunk(b"IDAT", data[:7]) + chunk(b"IDAT", data[7:]) + chunk(b"IEND", b"")


vectors = []
random_numbers = random.Random(20261122)
for kind, depths in ((GRAY, (1, 2, 4, 8)), (RGB, (8, 16)), (PALETTE, (1, 2, 4, 8)), (GRAY_ALPHA, (8, 16)), (RGBA, (8, 16))):
    for depth in depths:
        for adam7 in (0, 1):
            png = make(random_numbers, kind, depth, adam7, adam7 and kind in (GRAY, RGB, PALETTE))
            image = Image.open(io.BytesIO(png))
            vectors.append({"color": kind, "bits": depth, "interlaced": adam7, "png": png.hex(),
                            "rgb": image.convert("RGB").tobytes().hex(), "gray": image.convert("L").tobytes().hex()})
with open("pillow_png_vectors.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")
