"""SPDL: threads that decode with FFmpeg, over the files themselves and over WebDataset's tars."""
from peers import common
from peers.common import read, total

NAME = "SPDL"
PACKAGES = ["spdl"]
NOT_COLD = "it has no container of its own"
SETTINGS = {
    "decode": "PipelineBuilder over shuffled paths, load_image and to_numpy in as many threads (concurrency, num_threads), batches of 64, "
              "report_stats_interval off",
    "tars": "of WebDataset: iter_tarfile over the bytes of each tar; 2 and 4 threads: PipelineBuilder over the paths with as many",
}
CANNOT = {"pack": "nothing is packed", "sequential": "it has no container", "shuffled": "it has no container",
          "random": "it has no container"}


def load():
    import spdl.io
    import spdl.pipeline  # noqa: F401
    spdl.io.load_image  # noqa: B018 (is imported late)


def decode(inputs, workers):
    import random as shuffling

    import spdl.io
    from spdl.pipeline import PipelineBuilder
    paths = list(inputs.paths)
    shuffling.Random(1).shuffle(paths)
    pipeline = (PipelineBuilder().add_source(paths).pipe(lambda path: spdl.io.to_numpy(spdl.io.load_image(path)), concurrency=workers)
                .aggregate(64).add_sink(2).build(num_threads=workers))
    with pipeline.auto_stop():
        return total(image for batch in pipeline for image in batch)


def tars(inputs, workers):
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    suffix = "." + inputs.column

    def members(path):
        return (value for name, value in spdl.io.iter_tarfile(read(path)) if name.endswith(suffix))

    paths = common.tars(inputs)
    if workers == 1:
        return total(value for path in paths for value in members(path))
    pipeline = (PipelineBuilder().add_source(paths).pipe(lambda path: list(members(path)), concurrency=workers).add_sink(2)
                .build(num_threads=workers))
    with pipeline.auto_stop():
        return total(value for values in pipeline for value in values)
