"""Grain over ArrayRecord files."""
import glob
import os

from peers.common import decoded, fresh, packed_from, random_order, read, total

NAME = "Grain, ArrayRecord"
PACKAGES = ["grain", "array-record"]
WORKER_PROCESSES = True
FOLDER = "array_record"
SETTINGS = {
    "pack": "ArrayRecordWriter, group_size:1, one file per 64 MB of values, not compressed",
    "sequential": "MapDataset of ArrayRecordDataSource, batches of 256; 1 worker: to_iter_dataset with its 16 reading threads; 2: "
                  "mp_prefetch of 2 processes",
    "shuffled": "the same with shuffle(seed=1)",
    "random": "ArrayRecordDataSource[i], 10,000 samples in random order",
    "decode": "shuffle(seed=1), decoded by Pillow in map, batches of 64; 1: in the process; 2: 2 processes",
}
CANNOT = {}
FILE_BYTES = 64 << 20


def load():
    import grain  # noqa: F401
    from array_record.python import array_record_module  # noqa: F401


def pack(inputs, workers):
    from array_record.python.array_record_module import ArrayRecordWriter
    folder = fresh(inputs.packed(FOLDER))
    os.makedirs(folder)
    writer, written, number = None, 0, 0
    for path in inputs.paths:
        if writer is None:
            writer, written = ArrayRecordWriter(os.path.join(folder, f"{number:05}.array_record"), "group_size:1,uncompressed"), 0
            number += 1
        value = read(path)
        writer.write(value)
        written += len(value)
        if written >= FILE_BYTES:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()
    return packed_from(inputs.paths)


def _source(inputs):
    import grain
    return grain.sources.ArrayRecordDataSource(sorted(glob.glob(os.path.join(inputs.packed(FOLDER), "*.array_record"))))


class _Decode:
    """Is pickled and sent to other processes."""

    def __call__(self, data):
        return decoded(data)


def _run(inputs, workers, shuffle, batch_size, transform=None):
    import grain
    dataset = grain.MapDataset.source(_source(inputs))
    if shuffle:
        dataset = dataset.shuffle(seed=1)
    if transform is not None:
        dataset = dataset.map(transform)
    batches = dataset.to_iter_dataset().batch(batch_size, batch_fn=list)
    if workers > 1:
        batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return total(value for batch in batches for value in batch)


def sequential(inputs, workers):
    return _run(inputs, workers, False, 256)


def shuffled(inputs, workers):
    return _run(inputs, workers, True, 256)


def random(inputs, workers):
    source = _source(inputs)
    return total(source[i] for i in random_order(len(source)))


def decode(inputs, workers):
    return _run(inputs, workers, True, 64, _Decode())
