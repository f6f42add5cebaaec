"""Reads one shuffled epoch of batches from a server, as one program does; bench/remote starts it in the peers' Python.

    python remote_reader.py CONTENDER COLUMN ORIGIN FOLDER CACHE

ORIGIN serves the bucket, FOLDER is the data's place in it, CACHE an empty local folder for those who need one. Prints one JSON object:
{"samples", "bytes", "seconds", "first" (seconds to the first batch), "p99" (of the seconds between two batches), "processor" (seconds,
worker processes included)}. The time begins before the data is opened and after the packages are imported.
"""
import json
import os
import resource
import sys
import time

BATCH, WORKERS, BUCKET = 256, 2, "bucket"
SETTINGS = {
    "Shardkit": "Loader(URL, 256), threads and memory as found, one process, no cache",
    "StreamingDataset (MDS)": "StreamingDataset(remote=s3://…, local=an empty folder, shuffle=True), DataLoader of 2 processes",
    "WebDataset": "pipe:curl of each tar, shardshuffle=100, shuffle(1000), batched in the pipeline, WebLoader of 2 processes",
    "litData": "StreamingDataset(s3://…, cache_dir=an empty folder, shuffle=True), StreamingDataLoader of 2 processes",
}


def shardkit(column, origin, folder, cache):
    import shardkit as sk

    def batches():
        for batch in sk.Loader(f"{origin}/{BUCKET}/{folder}", BATCH, seed=1, columns=[column]):
            yield batch[column]

    return batches


def streaming(column, origin, folder, cache):
    import torch
    from streaming import StreamingDataset

    def batches():
        dataset = StreamingDataset(remote=f"s3://{BUCKET}/{folder}", local=cache, shuffle=True, batch_size=BATCH)
        for batch in torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=list):
            yield [sample[column] for sample in batch]

    return batches


def webdataset(column, origin, folder, cache):
    import webdataset as wds
    with open(os.path.join(cache, "tars"), encoding="utf-8") as file:
        tars = [f"pipe:curl -s -f {origin}/{BUCKET}/{folder}/{name}" for name in file.read().split()]

    def batches():
        dataset = wds.WebDataset(tars, shardshuffle=100).shuffle(1000).map(lambda sample: sample[column])
        yield from wds.WebLoader(dataset.batched(BATCH, collation_fn=None), batch_size=None, num_workers=WORKERS)

    return batches


def litdata(column, origin, folder, cache):
    import litdata.streaming.downloader
    from litdata import StreamingDataLoader, StreamingDataset
    # Its client refuses http, and there is no option for that.
    litdata.streaming.downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    class Values(StreamingDataset):
        def __getitem__(self, index):
            return bytes(super().__getitem__(index)[column])

    def batches():
        dataset = Values(f"s3://{BUCKET}/{folder}", cache_dir=cache, shuffle=True)
        yield from StreamingDataLoader(dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=list)

    return batches


CONTENDERS = {"Shardkit": shardkit, "StreamingDataset (MDS)": streaming, "WebDataset": webdataset, "litData": litdata}


def processor_seconds():
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def main():
    contender, column, origin, folder, cache = sys.argv[1:]
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the packages print
    batches = CONTENDERS[contender](column, origin, folder, cache)
    samples = size = 0
    processor = processor_seconds()
    ends = [time.perf_counter()]
    for batch in batches():
        ends.append(time.perf_counter())
        samples += len(batch)
        size += sum(len(value) for value in batch)
    waits = sorted(after - before for before, after in zip(ends[1:], ends[2:]))
    print(json.dumps({"samples": samples, "bytes": size, "seconds": time.perf_counter() - ends[0], "first": ends[1] - ends[0],
                      "p99": waits[int(0.99 * len(waits))] if waits else 0,
                      "processor": processor_seconds() - processor}), file=answer, flush=True)


if __name__ == "__main__":
    main()
