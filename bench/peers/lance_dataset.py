"""Lance's columnar datasets."""
from peers.common import decoded, fresh, packed_from, random_order, read, total

NAME = "Lance"
PACKAGES = ["pylance"]
FOLDER = "lance"
SETTINGS = {
    "pack": "write_dataset of record batches of 256 values (large_binary)",
    "sequential": "to_batches(batch_size=256), which reads ahead in its own threads; each value as_buffer",
    "shuffled": "take of 256 random ordinals at a time",
    "random": "take([i]), 10,000 samples in random order",
    "decode": "as shuffled, 64 at a time, decoded by Pillow in the process",
}
CANNOT = {}


def load():
    import lance  # noqa: F401
    import pyarrow  # noqa: F401


def pack(inputs, workers):
    import lance
    import pyarrow
    schema = pyarrow.schema([("value", pyarrow.large_binary())])

    def batches():
        for begin in range(0, len(inputs.paths), 256):
            values = [read(path) for path in inputs.paths[begin:begin + 256]]
            yield pyarrow.record_batch([pyarrow.array(values, pyarrow.large_binary())], schema=schema)

    lance.write_dataset(batches(), fresh(inputs.packed(FOLDER)), schema=schema)
    return packed_from(inputs.paths)


def _open(inputs):
    import lance
    return lance.dataset(inputs.packed(FOLDER))


def _values(table):
    return (value.as_buffer() for value in table["value"])


class _Sized:
    """What `total` counts of an Arrow buffer."""

    def __init__(self, buffer):
        self.nbytes = buffer.size


def _taken(dataset, count):
    import random as shuffling
    order = list(range(dataset.count_rows()))
    shuffling.Random(1).shuffle(order)
    for begin in range(0, len(order), count):
        yield from _values(dataset.take(order[begin:begin + count]).combine_chunks())


def sequential(inputs, workers):
    return total(_Sized(value) for batch in _open(inputs).to_batches(batch_size=256) for value in _values(batch))


def shuffled(inputs, workers):
    return total(_Sized(value) for value in _taken(_open(inputs), 256))


def random(inputs, workers):
    dataset = _open(inputs)
    return total(_Sized(value) for i in random_order(dataset.count_rows()) for value in _values(dataset.take([i])))


def decode(inputs, workers):
    return total(decoded(value.to_pybytes()) for value in _taken(_open(inputs), 64))
