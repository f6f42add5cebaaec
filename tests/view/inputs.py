"""Inputs that the tests of this folder make themselves."""

import io
import math
import struct
import tarfile
import wave

import numpy

from programs import shardctl


def write(path, content):
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def make_pairs(folder, count, size, objects):
    """Images of `size`, (width, height), each with a file of masks of `objects`, (least, most), as SA-1B has them."""
    arguments = {"count": count, "width": size[0], "height": size[1], "min-objects": objects[0], "max-objects": objects[1]}
    shardctl("synth", "sa1b", "-o", folder, *(part for name, value in arguments.items() for part in ("--" + name, value)))


def write_tar(path, members):
    """A tar without an index, of (name, bytes) pairs."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def sound():
    """A tenth of a second of a tone, as WAV."""
    output = io.BytesIO()
    with wave.open(output, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", round(9000 * math.sin(i / 3))) for i in range(800)))
    return output.getvalue()


def picture(colours, side=32, kind="JPEG"):
    """Squares of these colours from left to right, `side` pixels each."""
    from PIL import Image

    image = Image.new("RGB", (side * len(colours), side))
    for i, colour in enumerate(colours):
        image.paste(colour, (side * i, 0, side * (i + 1), side))
    output = io.BytesIO()
    image.save(output, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return output.getvalue()


def decode(coco):
    """The pixels of one of COCO's masks. Runs go down the columns; each is stored in characters of five bits, from the
    third on as the difference to the one before the last."""
    height, width = coco["size"]
    runs, value, shift = [], 0, 0
    for character in coco["counts"].encode():
        bits = character - 48
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    return numpy.repeat(numpy.arange(len(runs)) % 2, runs).astype(numpy.uint8).reshape(width, height).T
