"""The files themselves, through torch's DataLoader."""

from peers.common import batches, decoded, random_order, read, total

NAME = "plain files, torch DataLoader"
PACKAGES = ["torch"]
WORKER_PROCESSES = True
NOT_COLD = "bench/run measures loose files from the device"
SETTINGS = {
    "sequential": "a Dataset that reads one file per sample, batches of 256; 1 worker: num_workers=0; 2: 2 processes",
    "shuffled": "the same with shuffle=True",
    "random": "Dataset[i], 10,000 files in random order",
    "decode": "shuffle=True, decoded by Pillow, batches of 64; 1: num_workers=0; 2: 2 processes",
}
CANNOT = {"pack": "nothing is packed"}


def load():
    import torch  # noqa: F401


class _Files:
    def __init__(self, paths, load_file):
        self.paths = paths
        self.load_file = load_file

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.load_file(self.paths[index])


def _run(inputs, workers, shuffle, load_file, batch_size):
    return total(batches(_Files(inputs.paths, load_file), workers if workers > 1 else 0, batch_size, shuffle))


def sequential(inputs, workers):
    return _run(inputs, workers, False, read, 256)


def shuffled(inputs, workers):
    return _run(inputs, workers, True, read, 256)


def random(inputs, workers):
    files = _Files(inputs.paths, read)
    return total(files[i] for i in random_order(len(files)))


def decode(inputs, workers):
    return _run(inputs, workers, True, lambda path: decoded(read(path)), 64)
