"""The loader: shuffled epochs, decoding, waiting, mixing, packing of documents, and small files against shards."""
import json
import os
import statistics
import subprocess
import sys

from cold import CachedError, drop
from harness import lines, warm
from peers.client import Peer

STEP_MS = 94.6  # from the published experiment
VERIFY_FIRST = "--verify first"


def run(bench, dataset, *arguments):
    """The JSON that shardctl bench prints for a dataset, whose files are in the page cache unless --cold is given."""
    if "--cold" not in arguments:
        warm(dataset)
    result = subprocess.run([bench.shardctl, "bench", "--json", dataset, *arguments], stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def epochs(bench, small_dataset, photos_dataset):
    warm(small_dataset)
    figures = lines([bench.tool("loader_bench"), small_dataset])
    for name, target in (("shuffled epoch", "0.6"), ("shuffled epoch, memory map", ""), ("shuffled epoch, views", ""),
                         ("shuffled epoch, memory map, views", "")):
        bench.row(f"small4k: {name} / scan, 2 threads", f"{figures[name + ': ratio']:.2f} x", target)
    rate = figures["shuffled epoch: samples"]
    bench.row("small4k: shuffled epoch in batches of 256", f"{rate:,.0f} samples/s", "600,000")
    warm(photos_dataset)
    images = lines([bench.tool("loader_bench"), photos_dataset, "--column", "jpg", "--images", "--batch", "64",
                    "--rounds", "3"])
    bench.row("jpeg500: shuffled epoch, decoded / two bare TurboJPEG threads",
              f"{images['shuffled epoch: ratio']:.2f} x", "0.97")
    sweep(bench, small_dataset)
    behind_a_network(bench, small_dataset)
    return rate, images["shuffled epoch: samples"]


def sweep(bench, dataset, rounds=3):
    """The default options against fixed ones, alternately, so that no default is slower than what a user could set. The
    shuffle buffer is the same for all, because it decides how much memory is touched."""
    settings = {"defaults": [], "--io mmap": ["--io", "mmap"]}
    for memory in ("32MiB", "48MiB", "96MiB", "256MiB"):
        settings[f"--memory {memory}"] = ["--memory", memory]
    for threads, readers in ((1, 1), (2, 1), (2, 2)):
        settings[f"--threads {threads} --read-threads {readers}"] = ["--threads", str(threads), "--read-threads", str(readers)]
    for label, order in (("in order", ["--order", "sequential"]),
                         ("shuffled in 8 MiB", ["--order", "shuffled", "--shuffle-buffer", "8MiB"])):
        rates, memory, copies = {}, 0, []
        for _ in range(rounds):
            for name, setting in (settings | {VERIFY_FIRST: ["--verify", "first"]}).items():
                report = run(bench, dataset, "--batch-size", "256", "--epochs", "8", *order, *setting)
                rates.setdefault(name, []).append(report["samples_per_second"])
                copies.append(report["ceilings"]["memory_copy"]["bytes_per_second"])
                if name == "defaults":
                    memory = max(memory, report["memory"]["peak_blocks"])
        best = max((name for name in settings if name != "defaults"), key=lambda name: statistics.median(rates[name]))
        ratio = statistics.median(rates["defaults"]) / statistics.median(rates[best])
        verified = statistics.median(rates[VERIFY_FIRST]) / statistics.median(rates["defaults"])
        bench.row(f"small4k, {label}: memcpy on this machine meanwhile", f"{statistics.median(copies) / 1e9:.1f} GB/s")
        bench.row(f"small4k, {label}: default options / the best fixed ones ({best})", f"{ratio:.2f} x", "0.9")
        bench.row(f"small4k, {label}: 8 epochs with {VERIFY_FIRST} / with every", f"{verified:.2f} x")
        bench.row(f"small4k, {label}: memory of blocks at the default options", f"{memory / 2**20:.0f} MiB", "64")


def behind_a_network(bench, dataset):
    """A shuffled epoch of files whose requests take 50 ms, against their bandwidth."""
    bandwidth = 400e6
    report = run(bench, dataset, "--batch-size", "256", "--shuffle-buffer", "64MiB",
                 "--simulate-latency", f"50ms,{bandwidth / 1e6:.0f}MB")
    share = report["bytes_read"] / report["seconds"] / bandwidth
    bench.row("small4k behind 50 ms and 400 MB/s: shuffled epoch, its first batch included / bandwidth", f"{share:.2f} x", "0.9")
    bench.row("small4k behind 50 ms: opening", f"{report['open_seconds'] / 0.05:.1f} round trips", "2")


def waiting(bench, photos_dataset):
    shares = [run(bench, photos_dataset, "--decode", "image:224", "--batch-size", "64", "--simulate-step", str(STEP_MS),
                  "--steps", "60")["wait"] for _ in range(3)]
    share = statistics.median(entry["share"] for entry in shares)
    milliseconds = statistics.median(entry["seconds_per_step"] for entry in shares) * 1e3
    bench.row(f"jpeg500: consumer's wait, batches of 64 x 224 x 224, step of {STEP_MS} ms (published: 92 ms, 48 %; 0.4 ms)",
              f"{milliseconds:.2f} ms, {100 * share:.2f} %", "0.2 %")


def mixing(bench, small_dataset):
    size = sum(os.path.getsize(os.path.join(small_dataset, name)) for name in os.listdir(small_dataset))
    result = subprocess.run([bench.shardctl, "plan", small_dataset, "--json", "--batch-size", "256", "--steps", "1",
                             "--shuffle-buffer", str(size // 20)], stdout=subprocess.PIPE, check=True)
    plan = json.loads(result.stdout)
    bench.row("small4k: shuffle score, buffer of 5 % (perfect: 1)", f"{plan['shuffle_score']:.3f}", "0.99")
    bench.row("small4k: the same of a WebDataset buffer of the same bytes", f"{plan['webdataset_score']:.3f}")


def packing(bench):
    dataset = bench.make("documents", [bench.tool("make_documents"), "{}"])
    packed = run(bench, dataset, "--decode", "tokens", "--context", "4096", "--batch-size", "8")["packing"]
    bench.row("documents of 10 to 400 tokens in rows of 4,096: filled (published: 98.5 %)",
              f"{100 * packed['efficiency']:.2f} %", "99.5 %")


def cold_files(bench, label, files, dataset, published):
    """Loose files in random order against shards in shuffled order, with an empty page cache; medians of three."""
    ratios = []
    try:
        for _ in range(3):
            os.sync()  # pages not yet written cannot be dropped
            drop(bench, dataset)
            with open("/proc/sys/vm/drop_caches", "w") as switch:
                switch.write("3\n")  # the files' inodes and directories too
            result = subprocess.run([bench.tool("loose_files"), files, "--shuffled"], stdout=subprocess.PIPE, check=True)
            loose = json.loads(result.stdout)
            shards = run(bench, dataset, "--cold", "--order", "sequential", "--batch-size", "256")
            ratios.append(shards["samples_per_second"] / (loose["files"] / loose["seconds"]))
    except (CachedError, OSError) as error:
        bench.row(f"{label}: shards in order / loose files shuffled, cold", f"not measured: {error}")
        return
    bench.row(f"{label}: shards in order / loose files shuffled, cold (published: {published})",
              f"{statistics.median(ratios):.1f} x")


def first_batch(bench):
    """A dataset of 10,000 shards, opened cold."""
    dataset = bench.path("ten-thousand-shards")
    files = bench.synth("ten-thousand", "files", "--count", "100000", "--size", "4096")
    if not os.path.isdir(dataset):
        subprocess.run([bench.shardctl, "pack", "--from", "files", files, "-o", dataset, "--shard-samples", "10"],
                       check=True, stdout=subprocess.DEVNULL)
    figures = [run(bench, dataset, "--cold", "--batch-size", "256", "--steps", "1") for _ in range(3)]
    bench.row("10,000 shards, cold: opening", f"{statistics.median(f['open_seconds'] for f in figures) * 1e3:.0f} ms", "300")
    bench.row("10,000 shards, cold: first batch of 256, after opening",
              f"{statistics.median(f['first_batch_seconds'] for f in figures) * 1e3:.0f} ms")


def peers(bench, photos, decoded):
    work = bench.path("peers")
    os.makedirs(work, exist_ok=True)
    for module, name, target in (("streaming_dataset", "StreamingDataset", "4.5"), ("web_dataset", "WebDataset", "4.2")):
        with Peer(bench.options.peers, module, work) as peer:
            peer.run("pack", "jpeg500", photos)
            theirs = peer.rate("decode", "jpeg500", photos, 2)
        bench.row(f"jpeg500: shuffled, decoded, 2 threads / {name} + PIL, 2 workers", f"{decoded / theirs:.1f} x", target)


def measure(bench, small, small_dataset, photos, photos_dataset):
    rate, decoded = epochs(bench, small_dataset, photos_dataset)
    waiting(bench, photos_dataset)
    mixing(bench, small_dataset)
    packing(bench)
    cold_files(bench, "50,000 x 4 KiB", small, small_dataset, "19.5 x")
    medium = bench.synth("small16k", "files", "--count", "10000", "--size", "16384")
    cold_files(bench, "10,000 x 16 KiB", medium, bench.pack(medium, "files", "small16k-dataset"), "20.2 x")
    first_batch(bench)
    if bench.options.peers:
        peers(bench, photos, decoded)
    return rate


if __name__ == "__main__":
    sys.exit("started by bench/run")
