"""MDS, as mosaicml-streaming writes and reads it."""
import json
import os

from peers.common import batches, decoded, fresh, packed_from, random_order, total

NAME = "StreamingDataset (MDS)"
PACKAGES = ["mosaicml-streaming", "torch"]
WORKER_PROCESSES = True
FOLDER = "mds"
READER = "MDSReader alone"
SETTINGS = {
    "pack": "MDSWriter, columns key (str) and the value (bytes), no compression, no hashes, shards of 64 MiB; it has one process",
    "sequential": "StreamingDataset(local=…, shuffle=False, batch_size=256); 1 worker: iterated in the process; 2: DataLoader of 2 "
                  "processes, batches of 256",
    "shuffled": "the same with shuffle=True (py1e, the default)",
    "random": "StreamingDataset[i], 10,000 samples in random order",
    "decode": "shuffle=True, batch_size=64, decoded by Pillow in __getitem__; 1: in the process; 2: DataLoader of 2 processes",
}
CANNOT = {}


def load():
    import streaming  # noqa: F401


def pack(inputs, workers):
    from streaming import MDSWriter
    columns = {"key": "str", **dict.fromkeys(inputs.columns, "bytes")}
    with MDSWriter(out=fresh(inputs.packed("mds")), columns=columns) as writer:
        for key, paths in inputs.samples:
            writer.write({"key": key, **inputs.values(paths)})
    return packed_from(inputs.paths)


def _open(inputs, shuffle, batch_size, transform=None):
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    clean_stale_shared_memory()
    if transform is None:
        return StreamingDataset(local=inputs.packed("mds"), shuffle=shuffle, batch_size=batch_size)

    class Transformed(StreamingDataset):
        def __getitem__(self, index):
            return transform(super().__getitem__(index))

    return Transformed(local=inputs.packed("mds"), shuffle=shuffle, batch_size=batch_size)


def _epoch(inputs, workers, shuffle):
    dataset = _open(inputs, shuffle, 256)
    column = inputs.column
    return total(sample[column] for sample in (dataset if workers == 1 else batches(dataset, workers, 256)))


def sequential(inputs, workers):
    return _epoch(inputs, workers, False)


def shuffled(inputs, workers):
    return _epoch(inputs, workers, True)


def random(inputs, workers):
    dataset = _open(inputs, False, 256)
    column = inputs.column
    return total(dataset[i][column] for i in random_order(len(dataset)))


def decode(inputs, workers):
    column = inputs.column
    dataset = _open(inputs, True, 64, lambda sample: decoded(sample[column]))
    return total(dataset if workers == 1 else batches(dataset, workers, 64))


# The readers of single shards, without StreamingDataset around them.


def _readers(inputs):
    from streaming.base.format.mds.reader import MDSReader
    folder = inputs.packed("mds")
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        return [MDSReader.from_json(folder, None, shard) for shard in json.load(file)["shards"]]


def sequential_reader(inputs, workers):
    column = inputs.column
    return total(reader[i][column] for reader in _readers(inputs) for i in range(reader.size))


def random_reader(inputs, workers):
    readers = _readers(inputs)
    places = [(reader, i) for reader in readers for i in range(reader.size)]
    column = inputs.column
    return total(reader[i][column] for reader, i in (places[k] for k in random_order(len(places))))
