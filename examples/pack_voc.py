#!/usr/bin/env python3
"""Packs a dataset of the form of Pascal VOC: images, and for each an XML file with its objects.

    examples/pack_voc.py FOLDER DATASET [--set NAME]

FOLDER has JPEGImages and Annotations, and for --set ImageSets/Main/NAME.txt, which lists the images. Boxes become left,
top, width, height, counted from 0.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import shardkit as sk


def objects_of(path: Path) -> list[tuple[str, list[float], int]]:
    """Class, box and whether it is difficult, of each object."""
    found = []
    try:
        for each in ElementTree.parse(path).getroot().iter("object"):
            left, top, right, bottom = (
                float(each.findtext(f"bndbox/{side}") or "") for side in ("xmin", "ymin", "xmax", "ymax")
            )
            # The first pixel is 1, and the last one is part of the box.
            box = [left - 1, top - 1, right - left + 1, bottom - top + 1]
            found.append((each.findtext("name") or "", box, int(each.findtext("difficult") or 0)))
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    return found


def rows(folder: Path, names: Sequence[str], classes: Sequence[str]) -> Iterator[dict[str, object]]:
    for name in names:
        objects = objects_of(folder / "Annotations" / f"{name}.xml")
        yield {
            "key": name,
            "image": (folder / "JPEGImages" / f"{name}.jpg").read_bytes(),
            "boxes": np.array([box for _, box, _ in objects], np.float32).reshape(-1, 4),
            "category": np.array([classes.index(kind) for kind, _, _ in objects], np.int64),
            "difficult": np.array([difficult for _, _, difficult in objects], np.uint8),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--set")
    given = parser.parse_args()
    every = sorted(path.stem for path in (given.folder / "Annotations").glob("*.xml"))
    listed = (given.folder / "ImageSets" / "Main" / f"{given.set}.txt").read_text().split() if given.set else every
    # Of all images, so that a class has the same number in each set.
    paths = (given.folder / "Annotations" / f"{name}.xml" for name in every)
    classes = sorted({kind for path in paths for kind, _, _ in objects_of(path)})
    category = sk.column("category", "i64[]", metadata={"class_names": json.dumps(classes)})
    columns = {"image": "image", "boxes": "f32[]", "category": category, "difficult": "u8[]"}
    print(sk.pack(rows(given.folder, listed, classes), given.dataset, columns=columns).samples, "samples")


if __name__ == "__main__":
    main()
