"""litData's chunks."""
import multiprocessing

from peers.common import decoded, fresh, packed_from, random_order, total

NAME = "litData"
PACKAGES = ["litdata", "torch"]
WORKER_PROCESSES = True
FOLDER = "litdata"
PACKS_IN_PARALLEL = True
SETTINGS = {
    "pack": "optimize, a dictionary of key and value (bytes) per sample, chunk_bytes=\"64MB\", not compressed, 1 and 2 processes",
    "sequential": "StreamingDataset(DIR, shuffle=False); 1 worker: iterated in the process; 2: StreamingDataLoader of 2 processes, "
                  "batches of 256",
    "shuffled": "the same with shuffle=True",
    "random": "StreamingDataset[i], 10,000 samples in random order",
    "decode": "shuffle=True, decoded by Pillow in __getitem__; 1: in the process; 2: StreamingDataLoader of 2 processes, batches of 64",
}
CANNOT = {}


def load():
    import litdata  # noqa: F401


class _Load:
    """Is pickled and sent to other processes."""

    def __init__(self, inputs):
        self.inputs = inputs

    def __call__(self, sample):
        key, paths = sample
        return {"key": key, **self.inputs.values(paths)}


def pack(inputs, workers):
    from litdata import optimize
    method = multiprocessing.get_start_method()
    paths, samples = inputs.paths, inputs.samples
    function = _Load(inputs)
    function.inputs._paths = None  # otherwise every process would receive the whole list twice
    optimize(fn=function, inputs=samples, output_dir=fresh(inputs.packed("litdata")), chunk_bytes="64MB", num_workers=workers,
             verbose=False)
    # optimize changes the start method of the whole process. A trainer's process has packed nothing, so it is restored.
    multiprocessing.set_start_method(method, force=True)
    return packed_from(paths)


def _open(inputs, shuffle, transform):
    from litdata import StreamingDataset

    class Transformed(StreamingDataset):
        def __getitem__(self, index):
            return transform(super().__getitem__(index))

    return Transformed(inputs.packed("litdata"), shuffle=shuffle)


def _run(dataset, workers, batch_size):
    from litdata import StreamingDataLoader
    if workers == 1:
        return total(dataset)
    loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=workers, collate_fn=list)
    return total(value for batch in loader for value in batch)


def _value(inputs, workers):
    column = inputs.column
    # litData returns views of its chunk, which cannot be sent to another process.
    return (lambda sample: sample[column]) if workers == 1 else (lambda sample: bytes(sample[column]))


def sequential(inputs, workers):
    return _run(_open(inputs, False, _value(inputs, workers)), workers, 256)


def shuffled(inputs, workers):
    return _run(_open(inputs, True, _value(inputs, workers)), workers, 256)


def random(inputs, workers):
    dataset = _open(inputs, False, _value(inputs, 1))
    return total(dataset[i] for i in random_order(len(dataset)))


def decode(inputs, workers):
    column = inputs.column
    return _run(_open(inputs, True, lambda sample: decoded(sample[column])), workers, 64)
