"""What the programs of the guides train with, in `test_guides.py`: it notes which samples they were given."""

from __future__ import annotations

import atexit
import json
from typing import Any

import numpy as np

# Photographs are of one colour each, so that every crop tells which it is: each channel has one of these levels.
LEVELS = (30, 128, 225)
SIDE = 224

seen: list[list[int]] = []


def train(images: Any, labels: Any) -> None:
    """Take images, [samples, 3, 224, 224] from 0 to 1, and their labels."""
    if not seen:
        atexit.register(lambda: print(json.dumps(seen)))
    images, labels = np.asarray(images), np.asarray(labels)
    assert images.shape == (len(labels), 3, SIDE, SIDE)
    assert images.dtype == np.float32
    means = images.mean(axis=(2, 3)) * 255
    levels = np.abs(means[..., None] - LEVELS).argmin(axis=-1)
    assert np.abs(means - np.asarray(LEVELS)[levels]).max() < 4
    seen.extend([*map(int, levels[i]), int(labels[i])] for i in range(len(labels)))
