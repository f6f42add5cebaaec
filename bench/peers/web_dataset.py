"""Tars, as webdataset writes and reads them."""
import os

from peers.common import decoded, fresh, packed_from, total

NAME = "WebDataset"
PACKAGES = ["webdataset", "torch"]
WORKER_PROCESSES = True
FOLDER = "webdataset"
SHARDS = 8
SETTINGS = {
    "pack": f"ShardWriter, {SHARDS} tars, not compressed; it has one process",
    "sequential": "WebDataset(tars, shardshuffle=False); 1 worker: iterated in the process; 2: batched(256) in the pipeline, WebLoader of "
                  "2 processes",
    "shuffled": "the same with shardshuffle=100 and shuffle(1000)",
    "decode": "shardshuffle=100, shuffle(1000), decoded by Pillow in map; 1: in the process; 2: batched(64), WebLoader of 2 processes",
}
CANNOT = {"random": "tars are read from front to back"}


def load():
    import torch  # noqa: F401
    import webdataset  # noqa: F401


def pack(inputs, workers):
    import webdataset
    folder = fresh(inputs.packed("webdataset"))
    os.mkdir(folder)
    samples = inputs.samples
    count = max(1, -(-len(samples) // SHARDS))
    with webdataset.ShardWriter(os.path.join(folder, "%05d.tar"), maxcount=count, verbose=0) as writer:
        for key, paths in samples:
            writer.write({"__key__": key, **inputs.values(paths)})
    return packed_from(inputs.paths)


def _open(inputs, shuffle):
    import webdataset
    folder = inputs.packed("webdataset")
    tars = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar"))
    dataset = webdataset.WebDataset(tars, shardshuffle=100 if shuffle else False)
    return dataset.shuffle(1000) if shuffle else dataset


def _run(dataset, workers, batch_size):
    import webdataset
    if workers == 1:
        return total(dataset)
    loader = webdataset.WebLoader(dataset.batched(batch_size, collation_fn=None), batch_size=None, num_workers=workers)
    return total(value for batch in loader for value in batch)


def sequential(inputs, workers):
    column = inputs.column
    return _run(_open(inputs, False).map(lambda sample: sample[column]), workers, 256)


def shuffled(inputs, workers):
    column = inputs.column
    return _run(_open(inputs, True).map(lambda sample: sample[column]), workers, 256)


def decode(inputs, workers):
    column = inputs.column
    return _run(_open(inputs, True).map(lambda sample: decoded(sample[column])), workers, 64)
