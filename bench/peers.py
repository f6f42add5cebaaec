#!/usr/bin/env python3
"""Measures the peers on a directory of small files: packing, and reading every sample once.

    peers.py INPUT WORK

Needs mosaicml-streaming and webdataset (bench/run --peers makes the environment). Each peer runs with its recommended
settings for one process: no compression, no hashes, no shuffling; the page cache is warm. Prints one JSON line per
figure.
"""
import json
import os
import shutil
import sys
import time


def report(figure, value, unit="samples/s"):
    print(json.dumps({"figure": figure, "value": value, "unit": unit}), flush=True)


def files_below(root):
    for directory, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            yield os.path.join(directory, name)


def timed(count, work, rounds=3):
    """Median samples per second over the rounds, after one round that is not counted."""
    work()
    rates = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        rates.append(count / (time.perf_counter() - begin))
    return sorted(rates)[len(rates) // 2]


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    return path


def main():
    source, work = sys.argv[1:3]
    paths = list(files_below(source))
    os.makedirs(work, exist_ok=True)

    import webdataset
    from streaming import MDSWriter, StreamingDataset
    from streaming.base.format.mds.reader import MDSReader
    from streaming.base.util import clean_stale_shared_memory

    mds = os.path.join(work, "mds")
    tars = os.path.join(work, "webdataset")

    def pack_mds():
        with MDSWriter(out=fresh(mds), columns={"key": "str", "bin": "bytes"}) as writer:
            for path in paths:
                with open(path, "rb") as file:
                    writer.write({"key": os.path.relpath(path, source), "bin": file.read()})

    def pack_webdataset():
        os.makedirs(fresh(tars))
        with webdataset.ShardWriter(os.path.join(tars, "%05d.tar"), maxcount=100000, verbose=0) as writer:
            for path in paths:
                with open(path, "rb") as file:
                    key = os.path.relpath(path, source).rsplit(".", 1)[0]
                    writer.write({"__key__": key, "bin": file.read()})

    report("MDSWriter, packing", timed(len(paths), pack_mds, 1))
    report("WebDataset ShardWriter, packing", timed(len(paths), pack_webdataset, 1))

    def read_streaming():
        clean_stale_shared_memory()
        dataset = StreamingDataset(local=mds, shuffle=False, batch_size=256)
        assert sum(1 for _ in dataset) == len(paths)

    def readers():
        with open(os.path.join(mds, "index.json")) as file:
            return [MDSReader.from_json(mds, None, shard) for shard in json.load(file)["shards"]]

    def read_mds_reader():
        assert sum(1 for reader in readers() for i in range(reader.size) if reader[i]) == len(paths)

    def random_mds_reader():
        import random
        opened = readers()
        order = [(s, i) for s, reader in enumerate(opened) for i in range(reader.size)]
        random.Random(1).shuffle(order)
        for shard, i in order:
            opened[shard][i]

    def read_webdataset():
        urls = sorted(os.path.join(tars, name) for name in os.listdir(tars))
        dataset = webdataset.WebDataset(urls, shardshuffle=False)
        assert sum(1 for _ in dataset) == len(paths)

    def read_streaming_shuffled():
        clean_stale_shared_memory()
        dataset = StreamingDataset(local=mds, shuffle=True, batch_size=256)
        assert sum(1 for _ in dataset) == len(paths)

    def read_webdataset_shuffled():
        urls = sorted(os.path.join(tars, name) for name in os.listdir(tars))
        dataset = webdataset.WebDataset(urls, shardshuffle=100).shuffle(1000)
        assert sum(1 for _ in dataset) == len(paths)

    report("StreamingDataset, sequential", timed(len(paths), read_streaming, 1))
    report("StreamingDataset, shuffled", timed(len(paths), read_streaming_shuffled, 1))
    report("WebDataset, shuffled", timed(len(paths), read_webdataset_shuffled, 1))
    report("MDSReader, sequential", timed(len(paths), read_mds_reader))
    report("MDSReader, random order", timed(len(paths), random_mds_reader))
    report("WebDataset, sequential", timed(len(paths), read_webdataset, 1))


if __name__ == "__main__":
    main()
