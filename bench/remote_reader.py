"""Reads one shuffled epoch of batches from a server, as one program does; bench/remote starts it in the peers' Python.

    python remote_reader.py CONTENDER BATCH COLUMNS ORIGIN FOLDER CACHE

ORIGIN serves the bucket, FOLDER is the data's place in it, CACHE an empty local folder for those who need one; COLUMNS has commas. Shardkit
reads a local FOLDER when ORIGIN is empty, and its rank's share when RANK and WORLD_SIZE are set. Prints one JSON object: {"samples",
"bytes", "seconds", "first" (seconds to the first batch), "p99" (of the seconds between two batches), "processor" (seconds, worker processes
included)}. The time begins before the data is opened and after the packages are imported.
"""
import json
import os
import resource
import sys
import time

WORKERS, BUCKET = 2, "bucket"
SETTINGS = {
    "Shardkit": "Loader(URL), threads and memory as found, one process, no cache",
    "StreamingDataset (MDS)": "StreamingDataset(remote=s3://…, local=an empty folder, shuffle=True), DataLoader of 2 processes",
    "WebDataset": "pipe:curl of each tar, shardshuffle=100, shuffle(1000), for pairs shuffle(100), batched in the pipeline, WebLoader of "
                  "2 processes",
    "litData": "StreamingDataset(s3://…, cache_dir=an empty folder, shuffle=True), StreamingDataLoader of 2 processes",
}


def shardkit(batch_size, columns, origin, folder, cache):
    import shardkit as sk
    path = f"{origin}/{BUCKET}/{folder}" if origin else folder

    def size(values):
        return sum(map(len, values)) if isinstance(values, list) else getattr(values, "values", values).nbytes  # of texts a list

    def batches():
        for batch in sk.Loader(path, global_batch_size=batch_size, seed=1, columns=columns, rank="auto", world_size="auto"):
            yield len(batch), sum(size(batch[column]) for column in columns)

    return batches


def delivered(samples, columns):
    """Of the values of a batch."""
    return len(samples), sum(len(sample[column]) for sample in samples for column in columns)


def streaming(batch_size, columns, origin, folder, cache):
    import torch
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    clean_stale_shared_memory()  # what an earlier run left there would be taken for this one's

    def batches():
        dataset = StreamingDataset(remote=f"s3://{BUCKET}/{folder}", local=cache, shuffle=True, batch_size=batch_size)
        for batch in torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=WORKERS, collate_fn=list):
            yield delivered(batch, columns)

    return batches


def webdataset(batch_size, columns, origin, folder, cache):
    import webdataset as wds
    with open(os.path.join(cache, "tars"), encoding="utf-8") as file:
        tars = [f"pipe:curl -s -f {origin}/{BUCKET}/{folder}/{name}" for name in file.read().split()]

    def batches():
        dataset = wds.WebDataset(tars, shardshuffle=100).shuffle(1000 if len(columns) == 1 else 100)
        dataset = dataset.map(lambda sample: {column: sample[column] for column in columns})
        for batch in wds.WebLoader(dataset.batched(batch_size, collation_fn=None), batch_size=None, num_workers=WORKERS):
            yield delivered(batch, columns)

    return batches


def litdata(batch_size, columns, origin, folder, cache):
    import litdata.streaming.downloader
    from litdata import StreamingDataLoader, StreamingDataset
    # Its client refuses http, and there is no option for that.
    litdata.streaming.downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    class Values(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return {column: bytes(sample[column]) for column in columns}

    def batches():
        dataset = Values(f"s3://{BUCKET}/{folder}", cache_dir=cache, shuffle=True)
        for batch in StreamingDataLoader(dataset, batch_size=batch_size, num_workers=WORKERS, collate_fn=list):
            yield delivered(batch, columns)

    return batches


CONTENDERS = {"Shardkit": shardkit, "StreamingDataset (MDS)": streaming, "WebDataset": webdataset, "litData": litdata}


def processor_seconds():
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def main():
    contender, batch_size, columns, origin, folder, cache = sys.argv[1:]
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the packages print
    batches = CONTENDERS[contender](int(batch_size), columns.split(","), origin, folder, cache)
    samples = size = 0
    processor = processor_seconds()
    ends = [time.perf_counter()]
    for count, of_batch in batches():
        ends.append(time.perf_counter())
        samples += count
        size += of_batch
    waits = sorted(after - before for before, after in zip(ends[1:], ends[2:]))
    print(json.dumps({"samples": samples, "bytes": size, "seconds": time.perf_counter() - ends[0], "first": ends[1] - ends[0],
                      "p99": waits[int(0.99 * len(waits))] if waits else 0,
                      "processor": processor_seconds() - processor}), file=answer, flush=True)


if __name__ == "__main__":
    main()
