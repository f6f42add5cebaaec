#!/usr/bin/env python3
"""Packs images with the labels of YOLO: beside each image a text, with a line for each object.

    examples/pack_yolo.py IMAGES LABELS DATASET [--names NAME...]

LABELS has the folders and names of IMAGES, with the ending .txt. An image whose text is missing has no objects. The
boxes, there parts of the picture, become pixels: left, top, width, height.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image

import shardkit as sk

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


def objects_of(path: Path) -> list[tuple[int, list[float]]]:
    """Class and box of each object: its middle and size, from 0 to 1."""
    found = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            if words := line.split():
                if len(words) != 5:
                    raise ValueError("a class and four numbers are wanted; polygons and points are no boxes")
                found.append((int(words[0]), [float(word) for word in words[1:]]))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return found


def rows(images: Path, labels: Path) -> Iterator[dict[str, object]]:
    for path in sorted(path for path in images.rglob("*") if path.suffix.lower() in ENDINGS):
        name = path.relative_to(images).with_suffix("")
        objects = objects_of(labels / f"{name}.txt")
        with PIL.Image.open(path) as image:
            width, height = image.size
            if image.getexif().get(0x0112, 1) > 4:  # stored lying; boxes are drawn on the upright picture
                width, height = height, width
        boxes = np.array([box for _, box in objects]).reshape(-1, 4)
        boxes[:, :2] -= boxes[:, 2:] / 2
        boxes *= (width, height, width, height)
        category = np.array([kind for kind, _ in objects], np.int64)
        yield {"key": name.as_posix(), "image": path.read_bytes(), "boxes": boxes, "category": category}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--names", nargs="+", default=[])
    given = parser.parse_args()
    if not any(given.labels.rglob("*.txt")):
        parser.error(f"{given.labels}: there are no labels, *.txt, in it")
    metadata = {"class_names": json.dumps(given.names)} if given.names else {}
    category = sk.column("category", "i64[]", metadata=metadata)
    columns = {"image": "image", "boxes": "f32[]", "category": category}
    print(sk.pack(rows(given.images, given.labels), given.dataset, columns=columns).samples, "samples")


if __name__ == "__main__":
    main()
