"""Reading from the storage device, with an empty page cache, compared with dd and fio on the same files."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

from harness import lines, shards_of


class CachedError(Exception):
    pass


def drop(bench, folder):
    """Removes the files below a folder, and where that is possible nothing else, from the page cache."""
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    command = [bench.tool("cold_bench"), "drop", *files]
    name = "share of a file still in the page cache"
    if lines(command)[name] > 0.01:
        try:
            with open("/proc/sys/vm/drop_caches", "w") as switch:
                switch.write("3\n")
        except OSError as error:
            raise CachedError(f"the page cache cannot be emptied here: {error}") from error
        if lines(command)[name] > 0.01:
            raise CachedError("the page cache keeps the files")


def dd(shards, *flags):
    """Seconds for all shards one after another, as dd reports them."""
    seconds = 0
    for shard in shards:
        result = subprocess.run(["dd", f"if={shard}", "of=/dev/null", *flags], stderr=subprocess.PIPE, text=True,
                                check=True, env={**os.environ, "LC_ALL": "C"})
        seconds += float(re.search(r"copied, ([0-9.e-]+) s", result.stderr).group(1))
    return seconds


def sequential(bench, dataset, rounds):
    """Alternates dd and scans, both with and without the page cache. Ratios compare with the faster dd of the round."""
    shards = shards_of(dataset)
    size = sum(map(os.path.getsize, shards))
    scan = lambda mode: size / lines([bench.tool("cold_bench"), "scan", dataset, mode, "2"])["rate"]
    contenders = {"dd": lambda: dd(shards, "bs=1M"), "dd direct": lambda: dd(shards, "bs=8M", "iflag=direct"),
                  "buffered": lambda: scan("buffered"), "direct": lambda: scan("direct")}
    seconds = {name: [] for name in contenders}
    try:
        for round_number in range(-1, rounds):
            for name, contender in contenders.items():
                drop(bench, dataset)
                taken = contender()
                if round_number >= 0:
                    seconds[name].append(taken)
    except CachedError as error:
        bench.row("cold scan / the better of dd and dd iflag=direct", f"not measured: {error}", "0.97")
        return
    except subprocess.CalledProcessError as error:
        bench.row("cold scan / the better of dd and dd iflag=direct", f"not measured: {error}", "0.97")
        return
    best = [min(pair) for pair in zip(seconds["dd"], seconds["dd direct"])]
    bench.row("cold: dd, the better of buffered and direct", f"{size / statistics.median(best) / 1e9:.2f} GB/s")
    for mode in ("buffered", "direct"):
        ratio = statistics.median(b / s for b, s in zip(best, seconds[mode]))
        bench.row(f"cold scan, 2 threads, {mode} / the better dd", f"{ratio:.2f} x", "0.97")


def fio(shard, size, count, depth):
    """Random direct reads per second."""
    result = subprocess.run(
        ["fio", "--name=random", f"--filename={shard}", "--readonly", "--rw=randread", f"--bs={size}", "--direct=1",
         "--ioengine=io_uring", f"--iodepth={depth}", f"--number_ios={count}", "--norandommap", "--randrepeat=0",
         "--output-format=json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout[result.stdout.index("{"):])["jobs"][0]["read"]["iops"]


def random(bench, dataset, column, rounds):
    """Random values of 4 KiB with 32 reads in flight, compared with fio, which reads 4 KiB at multiples of 4 KiB."""
    what = "cold: random 4 KiB values, 32 in flight / fio randread"
    if shutil.which("fio") is None:
        bench.row(what, "fio not installed", "0.9")
        return
    shards = shards_of(dataset)
    count, depth = 50000, 32  # as many as Shardkit has in flight
    ours, theirs = [], []
    try:
        for round_number in range(-1, rounds):
            drop(bench, dataset)
            values = lines([bench.tool("cold_bench"), "random", dataset, column, str(count)])
            drop(bench, dataset)
            reads = fio(max(shards, key=os.path.getsize), 4096, count, depth)
            if values["mean length"] != 4096:
                sys.exit("bench/run: the random values do not have 4 KiB")
            if round_number >= 0:
                ours.append(values["values"])
                theirs.append(reads)
    except (CachedError, subprocess.CalledProcessError) as error:
        bench.row(what, f"not measured: {error}", "0.9")
        return
    bench.row("cold: fio randread, 4 KiB, 32 in flight", f"{statistics.median(theirs):,.0f} /s")
    bench.row(what, f"{statistics.median(a / b for a, b in zip(ours, theirs)):.2f} x", "0.9")
