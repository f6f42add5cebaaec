"""Shardkit's own loop in Python, beside the loops of the peers. Reads what shardctl has packed."""
import os
import sys
import time

from peers import common
from peers.common import Delivered, First

NAME = "Shardkit, Python"
PACKAGES = ["nanobind-backend"]
NOT_COLD = "its C++ loader is measured"
MEMORY = 64 << 20
EPOCHS = {"sequential": 20, "shuffled": 20, "decode": 2}
SETTINGS = {
    "sequential": "sk.Loader of the dataset, order=\"sequential\", memory_bytes=\"64MiB\", batches of 256, 20 epochs after another, 1 decoding and 1 "
                  "reading thread, and 2 and 2; every batch's array is taken",
    "shuffled": "the same with order=\"shuffled\" and a third of the memory as shuffle buffer, as shardctl bench",
    "tars": "of WebDataset: sk.open(TAR).scan(threads=1, 2, 4), one tar after another; every value is taken",
    "decode": "sk.Image(), batches of 64, 2 epochs, as many threads",
}
CANNOT = {"pack": "shardctl packs", "random": "read_bench measures it"}


def load():
    sys.path.insert(0, os.environ.get("SHARDKIT_PYTHON", ""))
    from shardkit import Loader  # noqa: F401 (with all that it imports)


class _Timed:
    """Measures what the library's own call takes, most of it waiting and waking: that is not Python's."""

    def __init__(self, library):
        self._library = library
        self.seconds = 0.0

    def next(self):
        begin = time.thread_time()
        batch = self._library.next()
        self.seconds += time.thread_time() - begin
        return batch

    def __getattr__(self, name):
        return getattr(self._library, name)


def _run(inputs, workload, batch_size, columns, **options):
    import shardkit
    path = inputs.source + "-dataset"
    first = First()
    loader = shardkit.Loader(path, batch_size, columns=columns, **options)
    column = next(iter(columns))
    samples = size = batches = 0
    for epoch in range(EPOCHS[workload]):
        if epoch + 1 == EPOCHS[workload]:
            library = loader._loader = _Timed(loader._loader)
            before, begin = batches, time.thread_time()
        for batch in loader:
            first.seen()
            values = batch[column]
            batches += 1
            samples += len(batch)
            size += (values.values if isinstance(values, shardkit.Ragged) else values).nbytes
    per_batch = (time.thread_time() - begin - library.seconds) / max(1, batches - before)
    return Delivered(samples, size, first.seconds, per_batch)


def _values(inputs, workload, workers):
    return _run(inputs, workload, 256, [inputs.column], order=workload, memory_bytes=MEMORY, shuffle_buffer_bytes=MEMORY // 3,
                decode_threads=workers, read_threads=workers)


def sequential(inputs, workers):
    return _values(inputs, "sequential", workers)


def shuffled(inputs, workers):
    return _values(inputs, "shuffled", workers)


def decode(inputs, workers):
    import shardkit
    return _run(inputs, "decode", 64, {inputs.column: shardkit.Image()}, decode_threads=workers, read_threads=workers)


def tars(inputs, workers):
    import shardkit
    first = First()
    samples = size = 0
    for path in common.tars(inputs):
        for block in shardkit.open(path, [inputs.column]).scan(threads=workers):
            first.seen()
            for value in block[inputs.column]:
                samples += 1
                size += len(value)
    return Delivered(samples, size, first.seconds)
