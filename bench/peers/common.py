"""Shared by the modules of the peers.

A module has NAME, PACKAGES (whose versions are reported), SETTINGS (workload: its settings), CANNOT (workload: why not),
FOLDER (where its files are, below the label) or NOT_COLD (why they cannot be read cold) and perhaps FILES (where they are), perhaps READER (the name of its bare reader),
PACKS_IN_PARALLEL, COMPILES and WORKER_PROCESSES, and a
function for each workload it can do: pack, sequential, shuffled, random, decode, tars. They take Inputs and the number of workers and
return what was delivered: samples and bytes, and when the first batch had come.
"""
import collections
import glob
import io
import itertools
import os
import random
import shutil
import time

RANDOM_READS = 10000  # per measurement, or the number of samples if that is less
# `first`: seconds from the beginning of the measurement to the last sample of the first batch, where that is known.
# `per_batch`: processor seconds of the loop's own thread for one batch, what the library's call takes left out, where that is measured.
Delivered = collections.namedtuple("Delivered", ["samples", "bytes", "first", "per_batch"], defaults=[None, None])


class First:
    """Remembers when the first batch was complete."""

    # Of the measurement under way.
    begin = 0.0
    batch_size = 1

    def __init__(self):
        self.seconds = None

    def seen(self):
        if self.seconds is None:
            self.seconds = time.perf_counter() - First.begin


class Inputs:
    """A directory of files, and the folders for their packed forms."""

    def __init__(self, label, source, work):
        self.label = label
        self.source = source
        self.work = work
        self._paths = None

    @property
    def paths(self):
        if self._paths is None:
            self._paths = [os.path.join(folder, name) for folder, _, names in sorted(os.walk(self.source))
                           for name in sorted(names)]
        return self._paths

    @property
    def samples(self):
        """The key and the paths of each; files whose names differ in the extension alone are one."""
        return [(key, list(paths)) for key, paths in itertools.groupby(self.paths, self.key)]

    @property
    def columns(self):
        """One for each extension."""
        _, paths = next(itertools.groupby(self.paths, self.key))
        return [path.rsplit(".", 1)[1] for path in paths]

    @property
    def column(self):
        """All files have one extension. Lists no more of them, because the clock of who reads a packed form runs."""
        place = self.source
        while os.path.isdir(place):
            with os.scandir(place) as entries:
                place = next(entries).path
        return place.rsplit(".", 1)[1]

    def values(self, paths):
        return {path.rsplit(".", 1)[1]: read(path) for path in paths}

    def key(self, path):
        return os.path.relpath(path, self.source).rsplit(".", 1)[0]

    def packed(self, peer):
        return os.path.join(self.work, self.label, peer)


def tars(inputs):
    """The tars that WebDataset's writer has written."""
    paths = sorted(glob.glob(os.path.join(inputs.packed("webdataset"), "*.tar")))
    if not paths:
        raise FileNotFoundError("no tars: WebDataset has not packed")
    return paths


def read(path):
    with open(path, "rb") as file:
        return file.read()


def fresh(path):
    """Removes a path and makes its parent directory."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def decoded(data):
    """The pixels of a JPEG, by Pillow."""
    import numpy
    from PIL import Image
    return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def random_order(count):
    """Ordinals for random access, the same every time."""
    order = list(range(count))
    random.Random(1).shuffle(order)
    return order[:RANDOM_READS]


def total(values):
    """Samples and bytes of all values (bytes, or arrays)."""
    samples = size = 0
    first = First()
    for value in values:
        samples += 1
        if samples == First.batch_size:
            first.seen()
        size += value.nbytes if hasattr(value, "nbytes") else len(value)
    return Delivered(samples, size, first.seconds)


def packed_from(paths):
    """The samples and bytes of a packer."""
    return Delivered(len(paths), sum(map(os.path.getsize, paths)))


def batches(dataset, workers, batch_size, shuffle=False, collate=list):
    """Items of a dataset through torch's DataLoader."""
    import torch
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=workers, shuffle=shuffle or None,
                                         collate_fn=collate)
    for batch in loader:
        yield from batch
