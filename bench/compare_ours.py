"""Shardkit's own measurements in bench/compare, made with the command and the programs of bench/."""
import json
import os
import shutil

from harness import Measured

# Epochs per measurement. A single epoch is too short for an exact time.
EPOCHS = {"sequential": 20, "shuffled": 20, "decode": 2}
SCAN, LOADER, MAPPED, CROP = "Shardkit, scan", "Shardkit, loader", "Shardkit, loader, memory map", "Shardkit, loader, crop 224"
PACK, UNSYNCED, RANDOM = "Shardkit", "Shardkit, --no-sync", "Shardkit, memory map"
THEIR_MDS, THEIR_TARS = "Shardkit, scan of the MDS files", "Shardkit, scan of the tars"
SETTINGS = {
    "pack": "shardctl pack --from files, 1 and 2 threads: keys, checksums and index included, and the shards are on the device (fsync) when "
            "it ends, which no peer waits for; --no-sync: they may not be, as those of the peers",
    "sequential": "scan: read_bench --rounds 3, every value looked at, checksums compared, 1 and 2 threads; loader: shardctl bench --order "
                  f"sequential --memory 64MiB, batches of 256, {EPOCHS['sequential']} epochs, 1 decoding and 1 reading thread, and 2 and 2",
    "shuffled": "shardctl bench, the same with --order shuffled; memory map: with --io mmap",
    "random": "read_bench: 500,000 values at random, memory map, 1 thread",
    "decode": "shardctl bench --decode image (crop 224: --decode image:center-crop:224), shuffled, batches of 64, as many threads",
}


def pack(comparison, step, *options):
    output = comparison.path("ours-packed")
    shutil.rmtree(output, ignore_errors=True)
    source = comparison.sources[step.label]
    measured = Measured([comparison.shardctl, "pack", "--from", "files", source, "-o", output, "-j", str(step.workers),
                         *options])
    shutil.rmtree(output)
    return {"samples": comparison.count(step.label), "seconds": measured.seconds, "processor": measured.processor,
            "memory": measured.memory}


_starts = {}  # command -> its time for one batch


def _bench(comparison, step, *arguments):
    """An epoch of the loader. The processor time is that of all epochs, without the command's own overhead."""
    command = [comparison.shardctl, "bench", comparison.datasets[step.label], "--columns", comparison.column(step.label), "--json",
               "--threads", str(step.workers), "--read-threads", str(step.workers), *arguments]
    epochs = EPOCHS[step.workload]
    if tuple(command) not in _starts:
        _starts[tuple(command)] = Measured([*command, "--steps", "1"])
    whole, start = Measured([*command, "--epochs", str(epochs)]), _starts[tuple(command)]
    document, first = json.loads(whole.output), json.loads(start.output)
    samples = document["samples"]
    share = comparison.count(step.label) / max(1, samples - first["samples"])
    return {"samples": comparison.count(step.label), "seconds": document["seconds"] / epochs,
            "processor": (whole.processor - start.processor) * share, "memory": document["memory"]["peak_resident"] / 2**20}


def loader(comparison, step, *arguments):
    return _bench(comparison, step, "--order", step.workload, "--batch-size", "256", "--memory", "64MiB", *arguments)


def decode(comparison, step, geometry):
    return _bench(comparison, step, "--decode", geometry, "--batch-size", "64")


def cold(comparison, step):
    """One epoch after its files were removed from the page cache."""
    command = [comparison.shardctl, "bench", comparison.datasets[step.label], "--columns", comparison.column(step.label), "--json",
               "--order", step.workload, "--batch-size", "256", "--memory", "64MiB"]
    document = json.loads(Measured(command).output)
    return {"samples": document["samples"], "seconds": document["seconds"] + document["open_seconds"]}


def scan(comparison, path, label, workers):
    figures = comparison.read_bench(path)
    name, count = f"scan, {workers} thread{'s' if workers > 1 else ''}", comparison.count(label)
    return {"samples": count, "seconds": count / figures[f"{name}: samples"], "processor": count * figures[f"{name}: processor"] / 1e6}


def contenders(comparison, step):
    """(name, function) of Shardkit's contenders in a step."""
    if step.workload == "pack":
        yield PACK, lambda: pack(comparison, step)
        yield UNSYNCED, lambda: pack(comparison, step, "--no-sync")
    if step.workload == "sequential":
        yield SCAN, lambda: scan(comparison, comparison.datasets[step.label], step.label, step.workers)
    if step.workload in ("sequential", "shuffled"):
        yield LOADER, lambda: loader(comparison, step)
        yield MAPPED, lambda: loader(comparison, step, "--io", "mmap")
    if step.workload == "sequential" and step.label == "small4k":
        for name, folder in ((THEIR_MDS, "mds"), (THEIR_TARS, "webdataset")):
            path = os.path.join(comparison.packed_by_peers, step.label, folder)
            if os.path.isdir(path):
                yield name, lambda path=path: scan(comparison, path, step.label, step.workers)
    if step.workload == "random":
        yield RANDOM, lambda: random(comparison, step)
    if step.workload == "decode":
        yield LOADER, lambda: decode(comparison, step, "image")
        yield CROP, lambda: decode(comparison, step, "image:center-crop:224")


def random(comparison, step):
    figures = comparison.read_bench(comparison.datasets[step.label], "--column", comparison.column(step.label))
    name = "random values, memory map, 1 thread"
    return {"samples": 500000, "seconds": 500000 / figures[name], "processor": figures[f"{name}: processor"] / 2}
