"""FFCV's single files."""
import os

from peers.common import Delivered, fresh, packed_from, read

NAME = "FFCV"
PACKAGES = ["ffcv", "torch"]
FILES = "ffcv"
NOT_COLD = "its loader keeps the file mapped, so that it cannot be taken out of the page cache"
PACKS_IN_PARALLEL = True
COMPILES = True
EPOCHS = 20  # per measurement: a single epoch of small values is too short for an exact time
SETTINGS = {
    "pack": "DatasetWriter, BytesField, 1 and 2 processes",
    "sequential": "Loader, BytesDecoder, order SEQUENTIAL, batches of 256, os_cache=True, 20 epochs, 1 and 2 threads",
    "shuffled": "the same, order RANDOM",
    "decode": "RGBImageField(write_mode=\"jpg\", jpeg_quality=92), CenterCropRGBImageDecoder((224, 224), ratio=224/256), order RANDOM, "
              "batches of 64, os_cache=True, 1 and 2 threads",
}
CANNOT = {"random": "its loader takes orders, and no index"}
_loaders = {}


def load():
    import ffcv  # noqa: F401
    import ffcv.loader  # noqa: F401


class _Files:
    def __init__(self, paths, load_file):
        self.paths = paths
        self.load_file = load_file

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return (self.load_file(self.paths[index]),)


def _bytes(path):
    import numpy
    return numpy.frombuffer(read(path), numpy.uint8)


def _image(path):
    from PIL import Image
    return Image.open(path).convert("RGB")


def _write(inputs, name, field, load_file, workers):
    from ffcv.writer import DatasetWriter
    folder = inputs.packed("ffcv")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    DatasetWriter(path, {"value": field}, num_workers=workers).from_indexed_dataset(_Files(inputs.paths, load_file))
    return path


def pack(inputs, workers):
    from ffcv.fields import BytesField
    _loaders.clear()  # they have mapped the old file
    fresh(inputs.packed("ffcv"))
    _write(inputs, "bytes.beton", BytesField(), _bytes, workers)
    return packed_from(inputs.paths)


def _run(inputs, name, pipeline, order, workers, batch_size, epochs=1):
    from ffcv.loader import Loader
    key = (inputs.label, name, order, workers)
    if key not in _loaders:
        _loaders[key] = Loader(os.path.join(inputs.packed("ffcv"), name), batch_size=batch_size, num_workers=workers, order=order,
                               os_cache=True, drop_last=False, pipelines={"value": pipeline})
    samples = size = 0
    for _ in range(epochs):
        for batch, in _loaders[key]:
            samples += len(batch)
            size += batch.nbytes
    return Delivered(samples, size)


def _epoch(inputs, workers, order):
    from ffcv.fields.decoders import BytesDecoder
    return _run(inputs, "bytes.beton", [BytesDecoder()], order, workers, 256, EPOCHS)


def sequential(inputs, workers):
    from ffcv.loader import OrderOption
    return _epoch(inputs, workers, OrderOption.SEQUENTIAL)


def shuffled(inputs, workers):
    from ffcv.loader import OrderOption
    return _epoch(inputs, workers, OrderOption.RANDOM)


def decode(inputs, workers):
    from ffcv.fields import RGBImageField
    from ffcv.fields.decoders import CenterCropRGBImageDecoder
    from ffcv.loader import OrderOption
    if not os.path.exists(os.path.join(inputs.packed("ffcv"), "images.beton")):
        _write(inputs, "images.beton", RGBImageField(write_mode="jpg", jpeg_quality=92), _image, 2)
    return _run(inputs, "images.beton", [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)], OrderOption.RANDOM, workers, 64)
