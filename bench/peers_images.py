#!/usr/bin/env python3
"""Measures the peers on a directory of JPEGs, decoded by Pillow: images per second with two workers.

    peers_images.py INPUT WORK

Needs mosaicml-streaming, webdataset, torch and Pillow. Recommended settings for one node: no compression, shuffled, batches
of 64 from torch's DataLoader with two worker processes; the page cache is warm. Prints one JSON line per figure.
"""
import io
import os
import sys

from peers import files_below, fresh, report, timed

WORKERS = 2


def main():
    source, work = sys.argv[1:3]
    paths = list(files_below(source))
    os.makedirs(work, exist_ok=True)

    import numpy
    import torch
    import webdataset
    from PIL import Image
    from streaming import MDSWriter, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    def decode(data):
        return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    mds = os.path.join(work, "mds")
    tars = os.path.join(work, "webdataset")
    with MDSWriter(out=fresh(mds), columns={"jpg": "bytes"}) as writer:
        for path in paths:
            with open(path, "rb") as file:
                writer.write({"jpg": file.read()})
    os.makedirs(fresh(tars))
    with webdataset.ShardWriter(os.path.join(tars, "%05d.tar"), maxcount=max(1, len(paths) // (2 * WORKERS)),
                                verbose=0) as writer:
        for path in paths:
            with open(path, "rb") as file:
                key = os.path.relpath(path, source).rsplit(".", 1)[0]
                writer.write({"__key__": key, "jpg": file.read()})

    class Decoded(StreamingDataset):
        def __getitem__(self, index):
            return decode(super().__getitem__(index)["jpg"])

    def run(dataset, batched):
        loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=WORKERS, collate_fn=list)
        count = sum(len(batch) for batch in loader)
        assert count == len(paths) or not batched, count

    def streaming():
        clean_stale_shared_memory()
        run(Decoded(local=mds, shuffle=True, batch_size=64), False)

    def webdataset_images():
        urls = sorted(os.path.join(tars, name) for name in os.listdir(tars))
        dataset = webdataset.WebDataset(urls, shardshuffle=100).shuffle(1000).map(lambda sample: decode(sample["jpg"]))
        run(dataset, True)

    report("StreamingDataset + PIL, 2 workers", timed(len(paths), streaming, 1), "images/s")
    report("WebDataset + PIL, 2 workers", timed(len(paths), webdataset_images, 1), "images/s")


if __name__ == "__main__":
    main()
